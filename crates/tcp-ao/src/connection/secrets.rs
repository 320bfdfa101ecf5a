//! The secrets of a connection's MKTs, by slot. They are written and wiped in place, so changes leave no copies.

use subtle::ConstantTimeEq;
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::{Zeroize, Zeroizing};

use crate::kdf::{KdfContext, MAX_TRAFFIC_KEY_LENGTH, TrafficKey, derive};
use crate::mkt::MKTS_PER_PEER;
use crate::mkt::{MasterKey, Mkt};
use crate::types::{Isn, SocketPair};

/// The master keys until the ISNs are confirmed, the traffic keys afterwards; never both.
#[allow(clippy::large_enum_variant, reason = "a heap is what this crate does without")]
pub(super) enum Secrets<const N: usize> {
    Master(MasterKeys<N>),
    Traffic(TrafficKeys<N>),
}

/// How many octets fewer the master keys of a shim's connection take than its traffic keys, less one for the discriminant.
const SPARE: usize =
    size_of::<TrafficKeys<MKTS_PER_PEER>>().saturating_sub(size_of::<[MasterKey; MKTS_PER_PEER]>() + 1);

/// The master keys, blank where there is no MKT.
pub(super) struct MasterKeys<const N: usize> {
    pub(super) keys: [MasterKey; N],
    /// Zeros. In padding, a move would bring along whatever was on the stack, perhaps a copy of these keys, and nothing would wipe it.
    _spare: [u8; SPARE],
}

#[cfg(feature = "default")]
const _: () = assert!(size_of::<Secrets<MKTS_PER_PEER>>() == size_of::<MasterKeys<MKTS_PER_PEER>>() + 1);

impl<const N: usize> MasterKeys<N> {
    pub(super) const BLANK: Self = Self { keys: [const { MasterKey::BLANK }; N], _spare: [0; SPARE] };
}

/// Only two keys are ready to compute MACs: a ready key takes much more than its octets.
#[repr(C)]
pub(super) struct TrafficKeys<const N: usize> {
    /// Of the slot that the connection `verifies_with`.
    pub(super) receive: TrafficKey,
    /// Of the current key.
    pub(super) send: TrafficKey,
    /// Of all slots; zeros where there is no MKT.
    pub(super) octets: [BothTrafficKeys; N],
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

    fn wipe(&mut self) {
        self.receive.zeroize();
        self.send.zeroize();
    }
}

impl<const N: usize> Secrets<N> {
    /// Puts the secret of an MKT into a slot, like [`derive`].
    pub(super) fn put(&mut self, slot: usize, mkt: &Mkt, pair: SocketPair, isns: (Isn, Isn)) -> Option<()> {
        match self {
            Self::Master(master) => {
                master.keys.get_mut(slot)?.clone_from(mkt.master_key());
                Some(())
            }
            Self::Traffic(keys) => {
                let keys = keys.octets.get_mut(slot)?;
                // A traffic key may be shorter than the one that was there.
                keys.wipe();
                keys.derive(mkt.parameters().algorithm, mkt.master_key(), pair, isns)
            }
        }
    }

    /// Wipes the secret of a slot.
    pub(super) fn wipe(&mut self, slot: usize) {
        match self {
            Self::Master(master) => {
                if let Some(key) = master.keys.get_mut(slot) {
                    *key = MasterKey::BLANK;
                }
            }
            Self::Traffic(keys) => {
                if let Some(keys) = keys.octets.get_mut(slot) {
                    keys.wipe();
                }
            }
        }
    }

    /// Whether a slot has the secret of an MKT. Takes the same time wherever they differ.
    pub(super) fn is_of(&self, slot: usize, mkt: &Mkt, pair: SocketPair, isns: (Isn, Isn)) -> bool {
        match self {
            Self::Master(master) => master
                .keys
                .get(slot)
                .is_some_and(|key| key.expose_secret().ct_eq(mkt.master_key().expose_secret()).into()),
            Self::Traffic(keys) => keys.octets.get(slot).is_some_and(|keys| {
                let mut derived = BothTrafficKeys::zero();
                let is_derived = derived.derive(mkt.parameters().algorithm, mkt.master_key(), pair, isns);
                let is_same = keys.receive.ct_eq(&*derived.receive) & keys.send.ct_eq(&*derived.send);
                is_derived.is_some() && is_same.into()
            }),
        }
    }
}
