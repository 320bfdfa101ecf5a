//! Which suite a connection has negotiated. quinn does not tell, so the suite is noted where its keys are made, and kept with
//! the session of TLS that they are made for.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use quinn::crypto::{
    self, ClientConfig, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, ServerConfig, Session,
    UnsupportedVersion,
};
use quinn::{ConnectError, ConnectionId, Side};
use quinn_proto::TransportError;
use quinn_proto::transport_parameters::TransportParameters;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey};
use rustls::{CipherSuite, CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

use super::tls::suite_name;

/// What protects the packets of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Negotiated {
    /// The TLS 1.3 suite.
    pub suite: CipherSuite,
    /// Whether its QUIC keys are Wireseal's.
    pub wireseal: bool,
}

impl fmt::Display for Negotiated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&suite_name(self.suite))
    }
}

thread_local! {
    /// The suite of the keys that this thread has made last.
    static MADE: Cell<Option<Negotiated>> = const { Cell::new(None) };
}

/// The same suite, with a note of each key that is made under it.
///
/// rustls holds suites for the life of the program, so each call leaks some hundred octets.
pub(super) fn noted(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let Some((tls13, inner)) = suite.tls13().and_then(|tls13| Some((tls13, tls13.quic?))) else {
        return suite;
    };
    let negotiated = Negotiated { suite: suite.suite(), wireseal: wireseal_rustls::is_wireseal(tls13) };
    let quic: &'static Noted = Box::leak(Box::new(Noted { inner, negotiated }));
    let common = CipherSuiteCommon { ..tls13.common };
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite { common, quic: Some(quic), ..*tls13 })))
}

struct Noted {
    inner: &'static dyn Algorithm,
    negotiated: Negotiated,
}

impl Algorithm for Noted {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        MADE.set(Some(self.negotiated));
        self.inner.packet_key(key, iv)
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
}

/// A configuration of quinn's whose connections know what they have negotiated: it is their handshake data.
pub(super) struct Telling<C>(pub(super) Arc<C>);

impl<C: ClientConfig> ClientConfig for Telling<C> {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = Arc::clone(&self.0).start_session(version, server_name, parameters)?;
        Ok(Box::new(TellingSession { inner, negotiated: None }))
    }
}

impl<C: ServerConfig> ServerConfig for Telling<C> {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.0.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.0.retry_tag(version, id, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let inner = Arc::clone(&self.0).start_session(version, parameters);
        Box::new(TellingSession { inner, negotiated: None })
    }
}

struct TellingSession {
    inner: Box<dyn Session>,
    negotiated: Option<Negotiated>,
}

impl Session for TellingSession {
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.negotiated.map(|negotiated| Box::new(negotiated) as Box<dyn Any>)
    }

    /// rustls makes the keys within this call, so what this thread has made last are they.
    fn write_handshake(&mut self, buffer: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buffer)?;
        self.negotiated = MADE.take();
        Some(keys)
    }

    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(id, side)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn crypto::PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, message: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(message)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn crypto::PacketKey>>> {
        self.inner.next_1rtt_keys()
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}
