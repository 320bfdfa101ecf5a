//! Asking for memory changes nothing and reads nothing.

use wireseal_kernels::prefetch;

use crate::guarded::Guarded;
use crate::octets;

#[test]
fn nothing_is_read_where_memory_ends() {
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
fn what_cannot_be_read_may_be_asked_for() {
    let zeros = Guarded::ending(64);
    // From here on, a read would end the process.
    let behind = &zeros[64..];
    assert!(behind.is_empty());
    prefetch(behind, 64);
    prefetch(&(), 64);
}
