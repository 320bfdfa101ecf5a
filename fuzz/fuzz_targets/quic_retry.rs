//! Retry packets: exactly those are accepted that another library's AES-128-GCM finds genuine; written packets read back the same.
//!
//! Input: two octets of choices, a connection ID after its length, and a datagram.
#![no_main]

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Nonce};
use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::quic;
use wireseal_quic::{ConnectionId, HeaderError, Retry, SealError, Version, retry_integrity_tag};

/// Key and nonce of a version (RFC 9001 §5.8, RFC 9369 §3.3.3, draft-ietf-quic-tls-29 §5.8).
fn secrets(version: Version) -> (u128, [u8; 12]) {
    match version {
        Version::V1 => (
            0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e,
            [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb],
        ),
        Version::V2 => (
            0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92,
            [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a],
        ),
        Version::Draft29 => (
            0xccce_187e_d09a_09d0_5728_155a_6cb9_6be1,
            [0xe5, 0x49, 0x30, 0xf9, 0x7f, 0x21, 0x36, 0xf0, 0x53, 0x0a, 0x8c, 0x1c],
        ),
        _ => unreachable!("there is no other version"),
    }
}

/// The tag over the pseudo-packet of RFC 9001 §5.8.
fn tag(version: Version, original_destination: &[u8], retry: &[u8]) -> [u8; 16] {
    let pseudo_packet = [&[original_destination.len() as u8], original_destination, retry].concat();
    let (key, nonce) = secrets(version);
    let aead = Aes128Gcm::new(&key.to_be_bytes().into());
    let nonce = Nonce::from(nonce);
    aead.encrypt_inout_detached(&nonce, &pseudo_packet, (&mut [][..]).into()).expect("short").into()
}

fuzz_target!(|input: &[u8]| {
    let [choice, alter, length, rest @ ..] = input else { return };
    let Some((original, datagram)) = rest.split_at_checked(usize::from(length % 21)) else { return };
    let original = ConnectionId::new(original).expect("at most 20 octets");
    let version = quic::version(*choice);
    assert_eq!(retry_integrity_tag(version, &original, datagram), tag(version, &original, datagram));

    let found = Retry::open(version, &original, datagram);
    let is_genuine =
        datagram.split_last_chunk().is_some_and(|(packet, last)| *last == tag(version, &original, packet));
    let is_retry = quic::first_packet(datagram, 0) == Err(quic::Fault::Retry);
    match found {
        Ok(retry) => {
            assert!(is_genuine && is_retry && !retry.token.is_empty() && retry.source != original);
            assert_eq!(retry.version, version);
        }
        Err(HeaderError::RetryTag) => assert!(!is_genuine),
        Err(error) => assert!(!error.to_string().is_empty()),
    }

    // Writes a packet as a server would, with connection IDs and token from these octets.
    let (ids, token) = datagram.split_at(datagram.len().min(usize::from(choice >> 1) % 41));
    let (destination, source) = ids.split_at(ids.len() / 2);
    let id = |octets| ConnectionId::new(octets).expect("half of at most 40 octets");
    let retry = Retry { version, destination: id(destination), source: id(source), token };
    let expected = 7 + ids.len() + token.len() + 16;
    let mut written = vec![0xa5; expected + 1];
    let length = retry.encode(&original, &mut written);
    if length != Ok(expected) {
        let is_refused = match length {
            Err(SealError::NoToken) => token.is_empty(),
            Err(SealError::SameConnectionId) => retry.source == original,
            _ => false,
        };
        assert!(is_refused && written.iter().all(|octet| *octet == 0xa5));
        return;
    }
    assert_eq!(written.pop(), Some(0xa5));
    let mut short = vec![0xa5; expected - 1];
    let too_small = SealError::BufferTooSmall { needed: expected, got: expected - 1 };
    assert_eq!(retry.encode(&original, &mut short), Err(too_small));
    assert!(short.iter().all(|octet| *octet == 0xa5));
    assert_eq!(Retry::open(version, &original, &written), Ok(retry));

    let at = usize::from(*alter) % written.len();
    written[at] ^= 1 << (choice & 7);
    assert!(Retry::open(version, &original, &written).is_err(), "altered at {at}");
    written[at] ^= 1 << (choice & 7);
    let longer = [&original[..], &[0]].concat();
    if let Ok(other) = ConnectionId::new(&longer) {
        assert!(Retry::open(version, &other, &written).is_err(), "for another connection ID");
    }
});
