//! One type for all errors of this crate.

use std::io;

use wireseal_keys::KeyChainError;
use wireseal_tcp_ao::MktError;

use crate::error::Error;
use crate::manager::ManagerError;
use crate::repair::ExportedError;

/// Any error of this crate, and of the keys that it is given, for a daemon that handles all of them alike: `?` turns each into this
/// one.
///
/// No call returns it; each returns the narrower type, which says what can happen. It prints as the error that it holds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnyError {
    /// A call on a socket failed, of this crate or of the operating system.
    #[error(transparent)]
    Socket(#[from] Error),
    /// A manager refused a chain or a socket.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// Octets are not an exported connection.
    #[error(transparent)]
    Exported(#[from] ExportedError),
    /// Keys, and whatever else wireseal-tcp-ao refuses.
    #[error(transparent)]
    TcpAo(#[from] wireseal_tcp_ao::Error),
    /// A key chain cannot be used.
    #[error(transparent)]
    KeyChain(#[from] KeyChainError),
}

impl From<io::Error> for AnyError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error.into())
    }
}

impl From<MktError> for AnyError {
    fn from(error: MktError) -> Self {
        Self::TcpAo(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_becomes_the_one_type() {
        let texts = [
            AnyError::from(io::Error::other("a")).to_string(),
            AnyError::from(Error::NotEstablished).to_string(),
            AnyError::from(ManagerError::Unsigned).to_string(),
            AnyError::from(ExportedError::Version(0)).to_string(),
            AnyError::from(MktError::MasterKeyEmpty).to_string(),
            AnyError::from(wireseal_keys::KeyChain::new("core", vec![]).unwrap_err()).to_string(),
        ];
        let held = [
            "a".to_owned(),
            Error::NotEstablished.to_string(),
            ManagerError::Unsigned.to_string(),
            ExportedError::Version(0).to_string(),
            MktError::MasterKeyEmpty.to_string(),
            wireseal_keys::KeyChain::new("core", vec![]).unwrap_err().to_string(),
        ];
        assert_eq!(texts, held);
    }
}
