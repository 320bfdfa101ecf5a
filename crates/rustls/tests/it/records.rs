//! TLS_AES_128_CCM_SHA256 over TCP: records from one rustls connection to another, in memory.

use rustls::Error;
use rustls::crypto::cipher::UnsupportedOperationError;

use crate::connect::{self, End};
use crate::support::{CCM, COMMON, Identity, only, pattern, wireseal};
use crate::version::CipherSuite;

/// A client and a server after their handshake; the client allows its secrets to be extracted.
fn connected(suite: CipherSuite) -> [End; 2] {
    let identity = Identity::new();
    let provider = || only(wireseal(), suite);
    let mut client = identity.client(provider());
    client.enable_secret_extraction = true;
    connect::connected(client, identity.server(provider()))
}

#[test]
fn records_of_every_size_arrive_both_ways() {
    let [mut client, mut server] = connected(CCM);
    assert_eq!(client.suite().map(|suite| suite.suite()), Some(CCM));
    // The last fills a record.
    for length in (1..300).chain([16_383, 16_384]) {
        let sent = pattern(length as u64, length);
        for _ in 0..2 {
            let received = server.receive(client.send(&sent)).expect("records as they were sent");
            assert!(received == sent, "{length}");
            std::mem::swap(&mut client, &mut server);
        }
    }
}

#[test]
fn a_changed_record_is_refused() {
    for bit in [0, 7, 40, 41] {
        let [mut client, mut server] = connected(CCM);
        let mut wire = client.send(&[0; 64]);
        // The header of a record has five octets.
        wire[5 + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(server.receive(wire), Err(Error::DecryptError), "{bit}");
    }
}

#[test]
fn secrets_are_not_extracted() {
    let [client, _] = connected(CCM);
    let refused = client.extract_secrets().expect_err("rustls has no form for secrets of CCM");
    assert_eq!(refused, Error::from(UnsupportedOperationError));
    let [client, _] = connected(COMMON[0]);
    assert!(client.extract_secrets().is_ok());
}
