//! Which keys rustls asks for.

use rustls::quic::Version;

use crate::ends::End;
use crate::handshake::all_levels;
use crate::support::{COMMON, wireseal};
use crate::version::ring;

/// rustls takes every key of a connection from the field `quic` of its suite.
#[test]
fn all_keys_come_from_the_field_quic() {
    let mut end = End::only(wireseal(), COMMON[0]);
    let counting = end.counted();
    all_levels(&end.provider, &ring(), COMMON[0], Version::V1);
    // Handshake and 1-RTT in two directions, and ten updates, which keep the header protection keys.
    assert_eq!((counting.packet_keys().len(), counting.header_keys()), (2 + 2 + 20, 2 + 2));
}
