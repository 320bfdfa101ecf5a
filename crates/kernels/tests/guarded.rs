//! The guard pages themselves: what other tests rely on does end a process.

#[path = "support/guarded.rs"]
mod guarded;

use guarded::Guarded;

#[test]
fn all_octets_between_the_edges_can_be_used() {
    for length in [0, 1, 15, 16, 4095, 4096, 4097, 65_535] {
        let octets: Vec<u8> = (0..length).map(|octet| octet as u8).collect();
        for guarded in Guarded::both(&octets) {
            assert_eq!(*guarded, *octets);
        }
    }
}

/// What becomes of a second process, which is this one again, when it reads an octet: the number of a signal, or none.
fn signal_of_reading(at: *const u8) -> Option<i32> {
    // SAFETY: of all that the other threads may have left half done, the second process touches nothing.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: it is not: this is the access that has to end the process, and nothing else comes of it.
        std::hint::black_box(unsafe { at.read_volatile() });
        // SAFETY: this ends the process, of which nothing has to be cleaned up.
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
    assert_eq!(signal_of_reading(ending.as_ptr_range().end), Some(libc::SIGSEGV), "behind");
    assert_eq!(signal_of_reading(beginning.as_ptr().wrapping_sub(1)), Some(libc::SIGSEGV), "before");
    assert_eq!(signal_of_reading(&raw const ending[99]), None, "the last one");
    assert_eq!(signal_of_reading(&raw const beginning[0]), None, "the first one");
}
