//! The traffic secrets of one handshake, from where rustls hands them out: its key log.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::{KeyLog, Side};
use wireseal_quic::{AeadAlgorithm, TrafficSecret};
use zeroize::Zeroizing;

/// A secret that packet keys come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Secret {
    /// Of 0-RTT packets, which only clients send.
    Early,
    /// Of the Handshake packets that one side sends.
    Handshake(Side),
    /// Of its first 1-RTT packets.
    Traffic(Side),
}

impl Secret {
    const COUNT: usize = 5;

    /// Its place among all.
    const fn index(self) -> usize {
        match self {
            Self::Early => 0,
            Self::Handshake(Side::Client) => 1,
            Self::Handshake(Side::Server) => 2,
            Self::Traffic(Side::Client) => 3,
            Self::Traffic(Side::Server) => 4,
        }
    }

    /// By its name in a key log.
    fn from_label(label: &str) -> Option<Self> {
        Some(match label {
            "CLIENT_EARLY_TRAFFIC_SECRET" => Self::Early,
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Self::Handshake(Side::Client),
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => Self::Handshake(Side::Server),
            "CLIENT_TRAFFIC_SECRET_0" => Self::Traffic(Side::Client),
            "SERVER_TRAFFIC_SECRET_0" => Self::Traffic(Side::Server),
            _ => return None,
        })
    }
}

/// The key log of one session: keeps the secrets that packet keys come from until they are taken, and passes everything on to the key
/// log that was configured.
pub(crate) struct Secrets {
    kept: Mutex<[Option<Zeroizing<Vec<u8>>>; Secret::COUNT]>,
    configured: Arc<dyn KeyLog>,
}

impl Secrets {
    pub(crate) fn before(configured: Arc<dyn KeyLog>) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), configured })
    }

    /// A secret for a suite with this AEAD, once. `None` if rustls has not derived it.
    pub(crate) fn take(&self, secret: Secret, algorithm: AeadAlgorithm) -> Option<TrafficSecret> {
        let octets = self.kept()[secret.index()].take()?;
        TrafficSecret::new(algorithm, &octets).ok()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, [Option<Zeroizing<Vec<u8>>>; Secret::COUNT]> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], octets: &[u8]) {
        if let Some(secret) = Secret::from_label(label) {
            self.kept()[secret.index()] = Some(Zeroizing::new(octets.to_vec()));
        }
        if self.configured.will_log(label) {
            self.configured.log(label, client_random, octets);
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}
