//! TLS_AES_128_CCM_SHA256 over TCP: records from one rustls connection to another, in memory.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::crypto::cipher::UnsupportedOperationError;
use rustls::{CipherSuite, ClientConnection, Connection, Error, ServerConnection};

use crate::support::{CCM, COMMON, End, Identity, pattern, wireseal};

/// Delivers everything from one end to the other, altered by `change`.
fn carry(from: &mut Connection, to: &mut Connection, change: impl Fn(&mut [u8])) -> Result<(), Error> {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).expect("a vector takes all");
    }
    change(&mut wire);
    let mut rest = wire.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).expect("a slice gives all");
        to.process_new_packets()?;
    }
    Ok(())
}

/// A client and a server after their handshake; the client allows its secrets to be extracted.
fn connected(suite: CipherSuite) -> [Connection; 2] {
    let (identity, name) = (Identity::new(), "localhost".try_into().expect("a DNS name"));
    let provider = || End::only(wireseal(), suite).provider;
    let mut client = identity.client(provider());
    client.enable_secret_extraction = true;
    let client = ClientConnection::new(Arc::new(client), name).expect("a usable provider");
    let server = ServerConnection::new(Arc::new(identity.server(provider()))).expect("a usable provider");
    let (mut client, mut server) = (Connection::from(client), Connection::from(server));
    while client.is_handshaking() || server.is_handshaking() {
        carry(&mut client, &mut server, |_| {}).expect("the peers agree");
        carry(&mut server, &mut client, |_| {}).expect("the peers agree");
    }
    [client, server]
}

#[test]
fn records_of_every_size_arrive_both_ways() {
    let [mut client, mut server] = connected(CCM);
    let suite = client.negotiated_cipher_suite().map(|suite| suite.suite());
    assert_eq!(suite, Some(CCM));
    // The last fills a record.
    for length in (1..300).chain([16_383, 16_384]) {
        let sent = pattern(length as u64, length);
        for _ in 0..2 {
            client.writer().write_all(&sent).expect("a connection takes what it has room for");
            carry(&mut client, &mut server, |_| {}).expect("records as they were sent");
            let mut received = vec![0; length];
            server.reader().read_exact(&mut received).expect("all of it has come");
            assert!(received == sent, "{length}");
            std::mem::swap(&mut client, &mut server);
        }
    }
}

#[test]
fn a_changed_record_is_refused() {
    for bit in [0, 7, 40, 41] {
        let [mut client, mut server] = connected(CCM);
        client.writer().write_all(&[0; 64]).expect("a connection takes what it has room for");
        // The header of a record has five octets.
        let refused = carry(&mut client, &mut server, |wire| wire[5 + bit / 8] ^= 1 << (bit % 8));
        assert_eq!(refused, Err(Error::DecryptError), "{bit}");
    }
}

#[test]
fn secrets_are_not_extracted() {
    let [client, _] = connected(CCM);
    let refused = client.dangerous_extract_secrets().err().expect("rustls has no form for secrets of CCM");
    assert_eq!(refused, Error::from(UnsupportedOperationError));
    let [client, _] = connected(COMMON[0]);
    assert!(client.dangerous_extract_secrets().is_ok());
}
