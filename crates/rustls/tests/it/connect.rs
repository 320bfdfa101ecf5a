//! Connections of rustls 0.23 in memory.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::quic::{self, KeyChange};
use rustls::{
    ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection, SupportedCipherSuite,
};

use crate::handshake::Done;

/// A handshake for QUIC, to its end.
pub fn handshake(client: ClientConfig, server: ServerConfig, version: quic::Version) -> [Done; 2] {
    let name = "localhost".try_into().expect("a DNS name");
    let client = quic::ClientConnection::new(Arc::new(client), version, name, b"client".to_vec());
    let server = quic::ServerConnection::new(Arc::new(server), version, b"server".to_vec());
    let mut ends = [
        quic::Connection::Client(client.expect("a suite with QUIC is offered")),
        quic::Connection::Server(server.expect("a suite with QUIC is offered")),
    ];
    let mut changes = [const { Vec::new() }; 2];
    while changes.iter().any(|changes| changes.len() < 2) {
        for sender in [0, 1] {
            // Messages before and after a change of keys go in different flights.
            let mut changed = true;
            while changed {
                let mut flight = Vec::new();
                let change = ends[sender].write_hs(&mut flight);
                changed = change.is_some();
                changes[sender].extend(change);
                ends[1 - sender].read_hs(&flight).expect("the peers agree");
            }
        }
    }
    let mut changes = changes.into_iter();
    ends.map(|connection| {
        let mut changes = changes.next().into_iter().flatten();
        match (changes.next(), changes.next()) {
            (Some(KeyChange::Handshake { keys }), Some(KeyChange::OneRtt { keys: one_rtt, next })) => {
                let suite = connection.negotiated_cipher_suite().expect("a suite was negotiated");
                Done { suite, handshake: keys, one_rtt, next }
            }
            _ => panic!("the keys came out of order"),
        }
    })
}

/// One end of a connection over TCP.
pub struct End(Connection);

impl End {
    pub fn suite(&self) -> Option<SupportedCipherSuite> {
        self.0.negotiated_cipher_suite()
    }

    /// The octets on the wire for `plaintext`, and for what the connection has to send by itself.
    pub fn send(&mut self, plaintext: &[u8]) -> Vec<u8> {
        self.0.writer().write_all(plaintext).expect("a connection takes what it has room for");
        let mut wire = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut wire).expect("a vector takes all");
        }
        wire
    }

    /// The plaintext in octets from the wire.
    pub fn receive(&mut self, wire: Vec<u8>) -> Result<Vec<u8>, Error> {
        let (mut rest, mut plaintext) = (wire.as_slice(), Vec::new());
        while !rest.is_empty() {
            self.0.read_tls(&mut rest).expect("a slice gives all");
            let length = self.0.process_new_packets()?.plaintext_bytes_to_read();
            let mut part = vec![0; length];
            self.0.reader().read_exact(&mut part).expect("so much has come");
            plaintext.extend_from_slice(&part);
        }
        Ok(plaintext)
    }

    pub fn extract_secrets(self) -> Result<(), Error> {
        self.0.dangerous_extract_secrets().map(drop)
    }
}

/// A client and a server after their handshake over TCP.
pub fn connected(client: ClientConfig, server: ServerConfig) -> [End; 2] {
    let name = "localhost".try_into().expect("a DNS name");
    let client = ClientConnection::new(Arc::new(client), name).expect("a usable provider");
    let server = ServerConnection::new(Arc::new(server)).expect("a usable provider");
    let (mut client, mut server) = (End(client.into()), End(server.into()));
    while client.0.is_handshaking() || server.0.is_handshaking() {
        server.receive(client.send(&[])).expect("the peers agree");
        client.receive(server.send(&[])).expect("the peers agree");
    }
    [client, server]
}
