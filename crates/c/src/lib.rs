//! libwireseal: TCP-AO (RFC 5925) and QUIC packet protection (RFC 9001, RFC 9369) for C.
//!
//! For C there is `include/wireseal.h`, which cbindgen makes from this crate's comments, and the page `docs/c.md`. In Rust, use the crates
//! that this one wraps: `wireseal-tcp-ao`, `wireseal-linux`, `wireseal-quic`, `wireseal-aead`.
//!
//! | file | what C gets |
//! |---|---|
//! | `border.rs` | nothing: pointers become references, handles are checked, panics are caught |
//! | `status.rs` | `enum wireseal_status`, and its texts |
//! | `version.rs` | the library's version, and what it was built with |
//! | `address.rs`, `mkt.rs` | addresses, socket pairs, networks, master key tuples |
//! | `connection.rs` | one connection's TCP-AO, for a TCP stack of one's own |
//! | `segment.rs` | pure functions: a traffic key, one segment signed or verified |
//! | `shim.rs`, `packet.rs`, `event.rs` | TCP-AO under a TCP stack that has none: its peers and connections, the packets, what an observer hears |
//! | `aead.rs` | AEADs over messages, and masks of packet numbers |
//! | `quic_keys.rs` | QUIC's secrets and keys, and their limits |
//! | `quic_packets.rs` | QUIC packets with the caller's numbers: seal, open, Retry |
//! | `keys.rs`, `formats.rs` | key chains, from files, texts and structs |
//! | `linux.rs` | TCP-AO on Linux's sockets, call by call |
//! | `manager.rs`, `peers.rs`, `report.rs` | Linux's key manager in an event loop: its steps and sockets, its peers, what it reports |
//! | `heap.rs` | nothing: handles on the heap, and texts, which only Linux's part has |
//!
//! # Features
//! `linux` (with `std`), `quic`, the algorithms and the backends are on by default. `--no-default-features` with the algorithms of the peers
//! is the library for targets without an operating system: it needs neither std nor a heap, and a panic executes an illegal instruction.
#![no_std]
#![allow(non_camel_case_types, reason = "the names that C sees")]
#![allow(
    clippy::missing_safety_doc,
    reason = "what a caller must promise is the same for all functions, and stands at the top of the header"
)]

#[cfg(feature = "std")]
extern crate std;

mod border;
#[cfg(feature = "linux")]
mod formats;
#[cfg(feature = "linux")]
mod heap;

// In the order in which a reader of the header wants them; the empty lines keep it.
mod status;

mod version;

mod address;
mod mkt;

mod connection;

mod segment;

mod shim;

mod packet;

mod walk;

mod event;

#[cfg(feature = "linux")]
mod keys;

#[cfg(feature = "linux")]
mod linux;

#[cfg(feature = "linux")]
mod manager;
#[cfg(feature = "linux")]
mod peers;
#[cfg(feature = "linux")]
mod report;

#[cfg(feature = "quic")]
mod quic_keys;
#[cfg(feature = "quic")]
mod quic_packets;

#[cfg(feature = "quic")]
mod aead;

pub use address::*;
#[cfg(feature = "quic")]
pub use aead::*;
pub use border::WIRESEAL_ALIGN;
pub use connection::*;
pub use event::*;
#[cfg(feature = "linux")]
pub use keys::*;
#[cfg(feature = "linux")]
pub use linux::*;
#[cfg(feature = "linux")]
pub use manager::*;
pub use mkt::*;
pub use packet::*;
#[cfg(feature = "linux")]
pub use peers::*;
#[cfg(feature = "quic")]
pub use quic_keys::*;
#[cfg(feature = "quic")]
pub use quic_packets::*;
#[cfg(feature = "linux")]
pub use report::*;
pub use segment::*;
pub use shim::*;
pub use status::{wireseal_status, wireseal_status_text};
pub use version::*;
pub use walk::*;

/// A fault in a call, for the tests in C.
///
/// cbindgen:ignore
#[cfg(wireseal_panics)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_panic(connection: *mut wireseal_connection) -> wireseal_status {
    // SAFETY: what C promises of the pointer.
    unsafe { border::with(connection, |_| panic!("a test wanted this panic")) }
}

/// A panic is a fault in this library. Without std nothing can unwind, and nothing may go on: the processor executes an illegal instruction.
#[cfg(all(not(feature = "std"), not(test)))]
#[panic_handler]
fn trap(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: no processor executes it, so control never comes back.
    #[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
    unsafe {
        core::arch::asm!("udf #0", options(noreturn, nomem, nostack))
    }
    // SAFETY: the same.
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    unsafe {
        core::arch::asm!("ud2", options(noreturn, nomem, nostack))
    }
    // SAFETY: the same.
    #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
    unsafe {
        core::arch::asm!("unimp", options(noreturn, nomem, nostack))
    }
    // Elsewhere Rust has no assembly, or Wireseal has not been tried.
    #[cfg(not(any(
        target_arch = "arm",
        target_arch = "aarch64",
        target_arch = "x86",
        target_arch = "x86_64",
        target_arch = "riscv32",
        target_arch = "riscv64"
    )))]
    loop {
        core::hint::spin_loop();
    }
}
