//! What several test files use.

#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

pub(crate) mod appendix_a;
pub(crate) mod capture;
pub(crate) mod ccm_model;
pub(crate) mod handshake;
pub(crate) mod hex;
pub(crate) mod replay;

use wireseal_quic::Backend;

/// Who sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// What this side has of two things.
    pub(crate) fn of<T>(self, client: T, server: T) -> T {
        match self {
            Self::Client => client,
            Self::Server => server,
        }
    }
}

/// Runs a check with every backend that was compiled in, and says with which, so that a failure tells.
pub(crate) fn for_each_backend(check: impl Fn(Backend)) {
    for &backend in Backend::ALL {
        println!("backend: {}", backend.name());
        check(backend);
    }
}
