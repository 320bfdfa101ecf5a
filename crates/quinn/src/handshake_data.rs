//! What a connection says about its protection.

use rustls::CipherSuite;

/// What the handshake has agreed on: `handshake_data()` of a connection, once downcast.
///
/// That there is one shows that Wireseal protects the connection: quinn's and noq's own sessions return another type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeData {
    /// The application protocol (ALPN), if one was negotiated.
    pub protocol: Option<Vec<u8>>,
    /// At a server: the name that the client asked for.
    pub server_name: Option<String>,
    /// The suite, whose AEAD protects the packets.
    pub cipher_suite: Option<CipherSuite>,
    pub(crate) sealed_by: &'static str,
}

impl HandshakeData {
    /// What seals the packets: the instructions that Wireseal's own routines use, such as "VAES-512", or the library that stands in for
    /// them.
    #[must_use]
    pub const fn sealed_by(&self) -> &'static str {
        self.sealed_by
    }
}
