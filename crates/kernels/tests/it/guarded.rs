//! Buffers with an unmapped page directly after or before them: an access outside ends the process.

use std::ops::{Deref, DerefMut};
use std::{ptr, slice};

use wireseal_kernels::prefetch;

use crate::octets;

/// A buffer at one edge of its own memory.
pub struct Guarded {
    mapping: *mut u8,
    mapped: usize,
    start: usize,
    length: usize,
}

impl Guarded {
    /// `length` zeros, the last of them directly before an unmapped page.
    pub fn ending(length: usize) -> Self {
        let room = length.next_multiple_of(page()).max(page());
        Self::map(room, room - length, length, room)
    }

    /// `length` zeros, the first of them directly after an unmapped page.
    pub fn beginning(length: usize) -> Self {
        let room = length.next_multiple_of(page()).max(page());
        Self::map(room, page(), length, 0)
    }

    /// A copy of `octets` at either edge: [`Guarded::ending`] and [`Guarded::beginning`].
    pub fn both(octets: &[u8]) -> [Self; 2] {
        [Self::ending(octets.len()), Self::beginning(octets.len())].map(|mut guarded| {
            guarded.copy_from_slice(octets);
            guarded
        })
    }

    /// Maps `room` octets and one more page, which is made inaccessible and begins at `hole`.
    fn map(room: usize, start: usize, length: usize, hole: usize) -> Self {
        let mapped = room + page();
        assert!(hole <= room && start + length <= mapped, "both are in the mapping");
        assert!(start + length <= hole || hole + page() <= start, "and apart");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the kernel chooses does not overlap any other memory.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), mapped, access, flags, -1, 0) };
        assert_ne!(mapping, libc::MAP_FAILED, "{mapped} octets of memory");
        let mapping: *mut u8 = mapping.cast();
        // SAFETY: the page lies within the new mapping, to which there is no reference yet.
        let protected = unsafe { libc::mprotect(mapping.add(hole).cast(), page(), libc::PROT_NONE) };
        assert_eq!(protected, 0, "the page can be made unusable");
        Self { mapping, mapped, start, length }
    }
}

impl Deref for Guarded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: these octets lie within the readable part of the mapping, which lives as long as `self`.
        unsafe { slice::from_raw_parts(self.mapping.add(self.start), self.length) }
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; writable too, and `self` is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.mapping.add(self.start), self.length) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this buffer's own, and no reference to it is left.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}

fn page() -> usize {
    // SAFETY: sysconf only reads.
    let octets = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(octets).expect("a page has a size")
}

#[test]
fn all_octets_between_the_edges_can_be_used() {
    for length in [0, 1, 15, 16, 4095, 4096, 4097, 65_535] {
        let octets: Vec<u8> = (0..length).map(|octet| octet as u8).collect();
        for guarded in Guarded::both(&octets) {
            assert_eq!(*guarded, *octets);
        }
    }
}

/// Forks, reads the octet at an offset from the start of a buffer in the child, and returns the number of the signal that ended the child,
/// if any.
fn signal_of_reading(guarded: &Guarded, offset: isize) -> Option<i32> {
    let at = guarded.start.checked_add_signed(offset).filter(|at| *at < guarded.mapped);
    let at = guarded.mapping.wrapping_add(at.expect("an offset in the mapping"));
    // SAFETY: the child does not access anything that other threads may have left half changed.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // Sanitizers handle the signal and exit; without a handler it ends the process.
        // SAFETY: the child has only this thread, and no handler of its own.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        // SAFETY: the octet is in the mapping; if it is in the page that cannot be read, the access ends the process, as it must.
        std::hint::black_box(unsafe { at.read_volatile() });
        // SAFETY: ends the process; nothing needs to be cleaned up.
        unsafe { libc::_exit(0) };
    }
    assert!(process > 0, "a process can be started");
    let mut status = 0;
    // SAFETY: the status is written to a variable of its own.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
}

#[test]
fn an_octet_outside_ends_the_process() {
    let (ending, beginning) = (Guarded::ending(100), Guarded::beginning(100));
    assert_eq!(signal_of_reading(&ending, 100), Some(libc::SIGSEGV), "behind");
    assert_eq!(signal_of_reading(&beginning, -1), Some(libc::SIGSEGV), "before");
    assert_eq!(signal_of_reading(&ending, 99), None, "the last one");
    assert_eq!(signal_of_reading(&beginning, 0), None, "the first one");
}

#[test]
fn an_octet_outside_ends_the_process_even_if_the_signal_is_handled() {
    extern "C" fn exit_as_sanitizers_do(_: libc::c_int) {
        // SAFETY: ends the process; nothing needs to be cleaned up.
        unsafe { libc::_exit(1) };
    }
    let guarded = Guarded::ending(100);
    // SAFETY: all zeros is a valid action, without flags.
    let [mut handle, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
    handle.sa_sigaction = exit_as_sanitizers_do as *const () as libc::sighandler_t;
    // SAFETY: both are actions, and the handler only ends the process. No other test in this process reads outside its memory.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &raw const handle, &raw mut before) }, 0);
    let signal = signal_of_reading(&guarded, 100);
    // SAFETY: this restores the action from before.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &raw const before, std::ptr::null_mut()) }, 0);
    assert_eq!(signal, Some(libc::SIGSEGV));
}

#[test]
fn prefetching_reads_nothing_where_memory_ends() {
    for length in [0, 1, 63, 64, 65, 300] {
        let expected = octets(length, 1);
        for buffer in Guarded::both(&expected) {
            for asked_for in [0, 1, 64, length, length + 64, usize::MAX] {
                prefetch(&buffer[..], asked_for);
            }
            assert_eq!(*buffer, *expected);
        }
    }
}

#[test]
fn what_cannot_be_read_may_be_prefetched() {
    let zeros = Guarded::ending(64);
    // From here on, a read would end the process.
    let behind = &zeros[64..];
    assert!(behind.is_empty());
    prefetch(behind, 64);
    prefetch(&(), 64);
}
