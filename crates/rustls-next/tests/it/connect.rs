//! Connections of rustls 0.24 in memory.

use std::sync::Arc;

use rustls::quic::{self, KeyChange, Quic, QuicEvent};
use rustls::{
    ClientConfig, ClientSide, Connection, Error, ServerConfig, ServerSide, SideData, SliceInput,
    SupportedCipherSuite, Tcp,
};

use crate::handshake::Done;

/// Delivers the messages of one end to the other, and keeps the changes of keys.
fn deliver<From: SideData, To: SideData>(
    from: &mut Connection<From, Quic>,
    to: &mut Connection<To, Quic>,
    changes: &mut Vec<KeyChange>,
) {
    for event in from.events() {
        match event {
            QuicEvent::Message(mut message) => {
                to.read_hs(&mut SliceInput::new(&mut message)).expect("the peers agree");
            }
            QuicEvent::KeyChange(change) => changes.push(change),
            _ => panic!("an event that this test does not know"),
        }
    }
}

fn done<Side: SideData>(connection: &Connection<Side, Quic>, changes: Vec<KeyChange>) -> Done {
    let suite = connection.negotiated_cipher_suite().expect("a suite was negotiated");
    let changes: Result<[KeyChange; 2], _> = changes.try_into();
    match changes {
        Ok([KeyChange::Handshake { keys }, KeyChange::OneRtt { keys: one_rtt, next }]) => {
            Done { suite, handshake: keys, one_rtt, next }
        }
        _ => panic!("the keys came out of order"),
    }
}

/// A handshake for QUIC, to its end.
pub fn handshake(client: ClientConfig, server: ServerConfig, version: quic::Version) -> [Done; 2] {
    let name = "localhost".try_into().expect("a DNS name");
    let client = Arc::new(client).connect(name).build_quic(version, b"client".to_vec());
    let server = Connection::<ServerSide, Quic>::new_quic(Arc::new(server), version, b"server".to_vec());
    let mut client = client.expect("a suite with QUIC is offered");
    let mut server = server.expect("a suite with QUIC is offered");
    let (mut of_client, mut of_server) = (Vec::new(), Vec::new());
    while client.is_handshaking() || server.is_handshaking() {
        deliver(&mut client, &mut server, &mut of_client);
        deliver(&mut server, &mut client, &mut of_server);
    }
    deliver(&mut client, &mut server, &mut of_client);
    [done(&client, of_client), done(&server, of_server)]
}

/// One end of a connection over TCP.
pub enum End {
    Client(Connection<ClientSide, Tcp>, Vec<u8>),
    Server(Connection<ServerSide, Tcp>, Vec<u8>),
}

/// The plaintext in octets from the wire; what the connection answers by itself goes to `to_send`.
fn read<Side: SideData>(
    connection: &mut Connection<Side, Tcp>,
    to_send: &mut Vec<u8>,
    mut wire: Vec<u8>,
) -> Result<Vec<u8>, Error> {
    let mut plaintext = Vec::new();
    connection.read_tls(&mut SliceInput::new(&mut wire), to_send).handle_all(&mut plaintext)?;
    Ok(plaintext)
}

impl End {
    pub fn suite(&self) -> Option<SupportedCipherSuite> {
        match self {
            Self::Client(connection, _) => connection.negotiated_cipher_suite(),
            Self::Server(connection, _) => connection.negotiated_cipher_suite(),
        }
    }

    /// The octets on the wire for `plaintext`, after what the connection has to send by itself.
    pub fn send(&mut self, plaintext: &[u8]) -> Vec<u8> {
        let (written, to_send) = match self {
            Self::Client(connection, to_send) => (connection.write(plaintext.into(), to_send), to_send),
            Self::Server(connection, to_send) => (connection.write(plaintext.into(), to_send), to_send),
        };
        written.expect("a connection after its handshake, or nothing to write");
        std::mem::take(to_send)
    }

    /// The plaintext in octets from the wire.
    pub fn receive(&mut self, wire: Vec<u8>) -> Result<Vec<u8>, Error> {
        match self {
            Self::Client(connection, to_send) => read(connection, to_send, wire),
            Self::Server(connection, to_send) => read(connection, to_send, wire),
        }
    }

    pub fn extract_secrets(self) -> Result<(), Error> {
        match self {
            Self::Client(connection, _) => connection.dangerous_extract_secrets().map(drop),
            Self::Server(connection, _) => connection.dangerous_extract_secrets().map(drop),
        }
    }

    fn is_handshaking(&self) -> bool {
        match self {
            Self::Client(connection, _) => connection.is_handshaking(),
            Self::Server(connection, _) => connection.is_handshaking(),
        }
    }
}

/// A client and a server after their handshake over TCP.
pub fn connected(client: ClientConfig, server: ServerConfig) -> [End; 2] {
    let (name, mut hello) = ("localhost".try_into().expect("a DNS name"), Vec::new());
    let client = Arc::new(client).connect(name).build(&mut hello).expect("a usable provider");
    let server = Connection::<ServerSide, Tcp>::new(Arc::new(server)).expect("a usable provider");
    let (mut client, mut server) = (End::Client(client, hello), End::Server(server, Vec::new()));
    while client.is_handshaking() || server.is_handshaking() {
        server.receive(client.send(&[])).expect("the peers agree");
        client.receive(server.send(&[])).expect("the peers agree");
    }
    [client, server]
}
