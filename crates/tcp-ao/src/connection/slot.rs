//! One MKT of a connection, with its secret.

use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::Zeroizing;

use crate::kdf::{KdfContext, MAX_TRAFFIC_KEY_LENGTH, derive};
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
    /// Derives both in place, like [`derive`].
    pub(super) fn derive(
        &mut self,
        algorithm: TcpAoAlgorithm,
        master_key: &MasterKey,
        pair: SocketPair,
        (local_isn, remote_isn): (Isn, Isn),
    ) -> Option<()> {
        let receive = KdfContext::receive_other(pair, local_isn, remote_isn);
        derive(algorithm, master_key, &receive, &mut self.receive)?;
        let send = KdfContext::send_other(pair, local_isn, remote_isn);
        derive(algorithm, master_key, &send, &mut self.send)
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

    /// Writes the traffic keys, derived if that has not been done, like [`derive`].
    pub(super) fn write_traffic_keys(
        &self,
        pair: SocketPair,
        isns: (Isn, Isn),
        place: &mut BothTrafficKeys,
    ) -> Option<()> {
        match &self.secret {
            Secret::Traffic(keys) => {
                place.clone_from(keys);
                Some(())
            }
            Secret::Master(master_key) => place.derive(self.parameters.algorithm, master_key, pair, isns),
        }
    }
}
