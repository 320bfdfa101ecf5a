//! Where metrics are served.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where metrics are served: a Unix socket, or a loopback address. As text: `unix:/run/wireseal/metrics`, `127.0.0.1:9417`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetricsAddress {
    /// A Unix socket. One that nobody listens on any more is replaced.
    Unix(PathBuf),
    /// A loopback address and a port.
    Loopback(SocketAddr),
}

/// Why the text is no place for metrics.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MetricsAddressError {
    /// It is neither form.
    #[error("expected unix:PATH or a loopback address with a port, such as 127.0.0.1:9417")]
    Form,
    /// Other machines could read them, and they have no protection of their own.
    #[error("{0} is no loopback address; a proxy can serve the metrics elsewhere")]
    NotLoopback(SocketAddr),
}

impl FromStr for MetricsAddress {
    type Err = MetricsAddressError;

    fn from_str(text: &str) -> Result<Self, MetricsAddressError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let address: SocketAddr = text.parse().map_err(|_| MetricsAddressError::Form)?;
        match address.ip().is_loopback() {
            true => Ok(Self::Loopback(address)),
            false => Err(MetricsAddressError::NotLoopback(address)),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Loopback(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_can_read_metrics() {
        for text in ["127.0.0.1:9417", "[::1]:9417", "unix:/run/wireseal/metrics"] {
            assert_eq!(text.parse::<MetricsAddress>().unwrap().to_string(), text);
        }
        let error = |text: &str| text.parse::<MetricsAddress>().unwrap_err().to_string();
        assert!(error("192.0.2.1:9417").contains("is no loopback address"));
        for text in ["unix:", "9417", "localhost:9417", "/run/metrics"] {
            assert!(error(text).starts_with("expected unix:PATH or a loopback address"), "{text}");
        }
    }
}
