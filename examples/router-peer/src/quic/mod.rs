//! BGP over QUIC: one connection with a peer, one stream on it, and BGP messages on the stream as they are on TCP.
//!
//! ```text
//! transport      neighbours of a configuration; closes connections when their sessions are over
//!   connection   quinn: who calls, who answers, one stream
//!     tls        rustls: certificates, pinned; suites
//! ```
//!
//! The mapping is that of draft-retana-idr-bgp-quic-01 §3 for speakers with one session: the QUIC client opens a
//! bidirectional stream by sending OPEN on it; format and framing of messages are those of RFC 4271.

mod connection;
mod fingerprint;
mod tls;
mod transport;

pub(crate) use self::connection::{Acceptor, Connector};
pub use self::fingerprint::Fingerprint;
pub(crate) use self::tls::Tls;
pub use self::tls::{provider, suite_name};
pub(crate) use self::transport::Quic;
