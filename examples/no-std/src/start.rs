//! What the programs in `bin` share: the entry, which C's start code calls, and the panic handler.
//!
//! Each has one operation, and `no-panic` looks for the panics that are linked into it. They are not run. Where an operation needs a
//! connection, `black_box(None)` stands for one: the optimiser must assume a connection in any state, and no code that makes one is linked.

use core::hint::black_box;
use core::panic::PanicInfo;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // The handler uses the argument so that different panics are not merged into one.
    black_box(info);
    loop {}
}

// C's start code calls a symbol of this name; nothing here is unsafe.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    crate::operation();
    0
}
