//! One MKT of a connection, with its secret.

use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::Zeroizing;

use crate::kdf::{KdfContext, MAX_TRAFFIC_KEY_LENGTH, TrafficKeyOctets};
use crate::mkt::{MasterKey, Mkt, MktParameters};
use crate::types::{Isn, SocketPair};

/// A copy of an MKT of a connection, for changes of the keys. The connection itself keeps [`Secrets`](super::secrets::Secrets).
pub(super) struct Slot {
    pub(super) parameters: MktParameters,
    pub(super) secret: Secret,
}

/// The master key until the ISNs are confirmed, the two traffic keys afterwards; never both.
pub(super) enum Secret {
    Master(MasterKey),
    Traffic(BothTrafficKeys),
}

/// The octets of an MKT's traffic keys, each followed by zeros.
#[derive(Clone)]
pub(super) struct BothTrafficKeys {
    pub(super) receive: Zeroizing<[u8; MAX_TRAFFIC_KEY_LENGTH]>,
    pub(super) send: Zeroizing<[u8; MAX_TRAFFIC_KEY_LENGTH]>,
}

impl BothTrafficKeys {
    /// Derives both, like [`TrafficKeyOctets::derive_from`].
    pub(super) fn derive(
        algorithm: TcpAoAlgorithm,
        master_key: &MasterKey,
        pair: SocketPair,
        local_isn: Isn,
        remote_isn: Isn,
    ) -> Option<Self> {
        let derive = |context| {
            TrafficKeyOctets::derive_from(algorithm, master_key, &context).map(TrafficKeyOctets::into_array)
        };
        Some(Self {
            receive: derive(KdfContext::receive_other(pair, local_isn, remote_isn))?,
            send: derive(KdfContext::send_other(pair, local_isn, remote_isn))?,
        })
    }

    pub(super) fn zero() -> Self {
        Self {
            receive: Zeroizing::new([0; MAX_TRAFFIC_KEY_LENGTH]),
            send: Zeroizing::new([0; MAX_TRAFFIC_KEY_LENGTH]),
        }
    }
}

impl Slot {
    pub(super) fn with_master_key(mkt: &Mkt) -> Self {
        Self { parameters: *mkt.parameters(), secret: Secret::Master(mkt.master_key().clone()) }
    }

    /// The traffic keys, derived if that has not been done, like [`TrafficKeyOctets::derive_from`].
    pub(super) fn traffic_keys(
        &self,
        pair: SocketPair,
        local_isn: Isn,
        remote_isn: Isn,
    ) -> Option<BothTrafficKeys> {
        match &self.secret {
            Secret::Traffic(keys) => Some(keys.clone()),
            Secret::Master(master_key) => {
                BothTrafficKeys::derive(self.parameters.algorithm, master_key, pair, local_isn, remote_isn)
            }
        }
    }
}
