//! BGP over QUIC: one connection with one bidirectional stream per peer (draft-retana-idr-bgp-quic-01 §3).
//!
//! ```text
//! transport      the neighbours of a configuration
//!   connection   quinn: connections and their stream, opened and accepted
//!     tls        rustls: certificates, pinned; suites
//! ```

mod connection;
mod fingerprint;
mod tls;
mod transport;

pub(crate) use self::connection::{Acceptor, Connector};
pub use self::fingerprint::Fingerprint;
pub(crate) use self::tls::{Tls, is_wireseal};
pub use self::tls::{provider, suite_name};
pub(crate) use self::transport::Quic;
