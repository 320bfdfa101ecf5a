//! What TCP-AO and QUIC take on this processor, in cycles and in octets of the stack: one line on the console for each step.
//!
//! In QEMU, which counts instructions instead of cycles, `run` turns one into the other.
#![no_std]
#![no_main]

mod bench;
#[cfg(feature = "quic")]
mod quic;
#[cfg(feature = "tcp-ao")]
mod tcp_ao;

use core::fmt::Write;

use cortex_m_rt::entry;
use firmware::board::Board;
use panic_halt as _;

use bench::Bench;

#[entry]
fn main() -> ! {
    if let Some(Board { console, clock, .. }) = Board::take() {
        let mut bench = Bench { stopwatch: clock.into_stopwatch(), console };
        bench.step(("nothing", "a function that does nothing"), || {});
        #[cfg(feature = "tcp-ao")]
        tcp_ao::measure(&mut bench);
        #[cfg(feature = "quic")]
        quic::measure(&mut bench);
        // Whoever reads along stops the machine now.
        let _ = writeln!(bench.console, "end");
    }
    loop {
        cortex_m::asm::wfi();
    }
}
