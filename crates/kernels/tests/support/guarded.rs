//! Buffers with an unmapped page right behind or right before them: an access outside of them ends the test's process.
//!
//! Taken into a test by `#[path = "support/guarded.rs"] mod guarded;`.

use std::ops::{Deref, DerefMut};
use std::{ptr, slice};

/// A buffer at one edge of memory of its own.
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

    /// `length` zeros, the first of them directly behind an unmapped page.
    pub fn beginning(length: usize) -> Self {
        let room = length.next_multiple_of(page()).max(page());
        Self::map(room, page(), length, 0)
    }

    /// A copy of `octets` at either edge: [`Guarded::ending`] and [`Guarded::beginning`].
    #[allow(dead_code, reason = "not every test that takes this module needs it")]
    pub fn both(octets: &[u8]) -> [Self; 2] {
        [Self::ending(octets.len()), Self::beginning(octets.len())].map(|mut guarded| {
            guarded.copy_from_slice(octets);
            guarded
        })
    }

    /// `room` octets and one page more, which is made unusable and begins at `hole`.
    fn map(room: usize, start: usize, length: usize, hole: usize) -> Self {
        let mapped = room + page();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the kernel chooses takes nothing from anybody.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), mapped, access, flags, -1, 0) };
        assert_ne!(mapping, libc::MAP_FAILED, "{mapped} octets of memory");
        let mapping: *mut u8 = mapping.cast();
        // SAFETY: the page lies within the new mapping, into which there is no reference yet.
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
        // SAFETY: as in `deref`; writable too, and borrowed by nobody else while `self` is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.mapping.add(self.start), self.length) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this buffer's own, and nobody refers to it any more.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}

fn page() -> usize {
    // SAFETY: sysconf only reads.
    let octets = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(octets).expect("a page has a size")
}
