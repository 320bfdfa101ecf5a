//! What a connection keeps of each key, by slot: its secret, written and wiped in place so that changes leave no copies, and whether the
//! peer has asked for it, which tells a new request (RNextKeyID) from a replayed or late one.

use core::{array, fmt};

use subtle::ConstantTimeEq;
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::{Zeroize, Zeroizing};

use crate::kdf::{KdfContext, MAX_TRAFFIC_KEY_LENGTH, TrafficKey, derive};
use crate::mkt::{MKTS_PER_PEER, MasterKey, Mkt};
use crate::types::{Isn, KeyId, SocketPair};

/// The master keys until the ISNs are confirmed, the traffic keys afterwards; never both.
#[allow(clippy::large_enum_variant, reason = "a heap is what this crate does without")]
pub(super) enum Secrets<const N: usize> {
    Master(MasterKeys<N>),
    Traffic(TrafficKeys<N>),
}

/// By how many octets the master keys of a shim's connection are smaller than its traffic keys, less one for the discriminant.
const SPARE: usize =
    size_of::<TrafficKeys<MKTS_PER_PEER>>().saturating_sub(size_of::<[MasterKey; MKTS_PER_PEER]>() + 1);

/// The master keys, blank where there is no MKT.
pub(super) struct MasterKeys<const N: usize> {
    pub(super) keys: [MasterKey; N],
    /// Zeros in place of padding. A move would copy into padding whatever was on the stack, perhaps these keys, and nothing would wipe it.
    _spare: [u8; SPARE],
}

#[cfg(feature = "default")]
const _: () = assert!(size_of::<Secrets<MKTS_PER_PEER>>() == size_of::<MasterKeys<MKTS_PER_PEER>>() + 1);

impl<const N: usize> MasterKeys<N> {
    pub(super) const BLANK: Self = Self { keys: [const { MasterKey::BLANK }; N], _spare: [0; SPARE] };
}

/// Only two keys are ready to compute MACs, because a ready key is much larger than its octets.
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

/// What a connection knows about earlier requests for one of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// It is not known to have been the current key.
    Never,
    /// It may have been the current key before the connection was imported; the exporter did not know.
    Unknown,
    /// It has been the current key, asked for or not; or it was removed as [`Unknown`](Self::Unknown) and added again.
    Before,
}

/// How many removed keys are remembered.
const REMOVED: usize = 3;

/// How many keys that were asked for fit into an exported state. If there are more, every other key counts as possibly asked for.
const HELD: usize = 8;

/// The requests that a connection has obeyed: for each key that it holds, by slot, and for the last that were removed.
///
/// A key is identified by its traffic key and SendID: a new key under old ids was never asked for; a key that is removed and added again
/// may have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Heard<const N: usize> {
    /// Check values of removed keys that were asked for, the last one first; 0 is none.
    removed: [u32; REMOVED],
    pub(super) keys: [Asked; N],
    pub(super) shown: Shown,
    /// The RNextKeyID of the peer's newest segment, if [`Shown::ASKS`].
    asks_for: KeyId,
}

/// What the peer's segments have shown, one bit each: a connection of two MKTs has no octet to spare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shown(u8);

impl Shown {
    /// The last obeyed request went back to an earlier key, with only its sequence number to show that it was new.
    const DOUBTFUL: u8 = 1;
    /// The peer has signed with the current key since it became current, as far as is known.
    pub(super) const USES_CURRENT: u8 = 2;
    /// The peer has signed with the rnext key since this end has asked for it, as far as is known.
    pub(super) const USES_RNEXT: u8 = 4;
    /// A segment has come, so that it is known which key the peer asks for.
    const ASKS: u8 = 8;
    /// The current key is accept-only because its send lifetime is over, not because that has not begun.
    pub(super) const OVER: u8 = 16;
    /// It was reported that the peer goes on asking for the current key.
    pub(super) const TOLD: u8 = 32;
    /// What is known of the current key alone.
    pub(super) const OF_CURRENT: u8 = Self::USES_CURRENT | Self::OVER | Self::TOLD;

    #[inline(always)]
    pub(super) const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    #[inline(always)]
    pub(super) fn set(&mut self, bit: u8, value: bool) {
        self.0 = self.0 & !bit | if value { bit } else { 0 };
    }
}

impl<const N: usize> Heard<N> {
    pub(super) const fn new() -> Self {
        Self { removed: [0; REMOVED], keys: [Asked::Never; N], shown: Shown(0), asks_for: KeyId(0) }
    }

    /// The same without what is known of each key. What the peer asks for is still known.
    pub(super) const fn without_keys(&self) -> Self {
        Self { shown: Shown(self.shown.0 & Shown::ASKS), asks_for: self.asks_for, ..Self::new() }
    }

    /// Records what the peer's newest segment asks for.
    #[inline(always)]
    pub(super) fn asked(&mut self, rnext_key_id: KeyId) {
        (self.shown.0, self.asks_for) = (self.shown.0 | Shown::ASKS, rnext_key_id);
    }

    /// The RNextKeyID of the peer's newest segment.
    pub(super) fn asks_for(&self) -> Option<KeyId> {
        self.shown.has(Shown::ASKS).then_some(self.asks_for)
    }

    /// Records that this end now signs with this slot's key. Returns what was known of it.
    pub(super) fn signs_with(&mut self, slot: u8) -> Option<Asked> {
        Some(core::mem::replace(self.keys.get_mut(usize::from(slot))?, Asked::Before))
    }

    /// Records that the operator chose this slot's key, which settles any doubt.
    pub(super) fn chosen(&mut self, slot: u8) {
        self.signs_with(slot);
        self.shown.set(Shown::DOUBTFUL, false);
    }

    /// Whether to obey a request that neither acknowledgment nor sequence number proves to be new.
    ///
    /// The first request for a key is obeyed: it cannot be a replay. After a doubtful request, which may have been late, one more is
    /// obeyed if it is not signed with the current key, which the peer may no longer hold.
    pub(super) fn obeys_unproven(&self, slot: u8, signs_with_current: bool) -> bool {
        let is_first = self.keys.get(usize::from(slot)) == Some(&Asked::Never);
        is_first || self.shown.has(Shown::DOUBTFUL) && !signs_with_current
    }

    /// Records that a request was obeyed.
    ///
    /// After the second of two doubtful requests there is no more doubt; otherwise a replay could turn the key back each time.
    pub(super) fn obeyed(&mut self, slot: u8, is_proven: bool) {
        let was_asked = self.signs_with(slot) == Some(Asked::Before);
        let is_doubtful = was_asked && !is_proven && !self.shown.has(Shown::DOUBTFUL);
        self.shown.set(Shown::DOUBTFUL, is_doubtful);
    }

    /// Records a change of keys. `old` and `new` are their check values by slot; 0 is no key. Removing a key that was asked for ends a
    /// doubt.
    pub(super) fn keys_changed(&mut self, old: [u32; N], new: [u32; N]) {
        let keys = self.keys;
        self.match_keys(&array::from_fn::<_, N, _>(|slot| (old[slot], keys[slot])), new, Asked::Never);
    }

    /// Looks up each new key among the old and the removed ones. Any other counts as `others`.
    fn match_keys(&mut self, old: &[(u32, Asked)], new: [u32; N], others: Asked) {
        for (asked, value) in self.keys.iter_mut().zip(new) {
            let held = old.iter().find(|(old, _)| *old == value).map(|(_, asked)| *asked);
            let removed = self.removed.contains(&value).then_some(Asked::Before);
            *asked = if value == 0 { Asked::Never } else { held.or(removed).unwrap_or(others) };
        }
        for (gone, asked) in old {
            if *gone == 0 || *asked == Asked::Never || new.contains(gone) {
                continue;
            }
            self.shown.set(Shown::DOUBTFUL, false);
            let place = self.removed.iter().position(|known| known == gone).unwrap_or(REMOVED - 1);
            self.removed[..=place].rotate_right(1);
            self.removed[0] = *gone;
        }
    }

    /// This part of an exported state; `values` are the keys' check values by slot.
    pub(super) fn export(&self, values: [u32; N]) -> HeardKeys {
        let is_doubtful = u8::from(self.shown.has(Shown::DOUBTFUL));
        let mut state = HeardKeys { removed: self.removed, is_doubtful, ..HeardKeys::NONE };
        let mut places = state.held.iter_mut();
        for (value, asked) in values.into_iter().zip(self.keys).filter(|(_, asked)| *asked != Asked::Never) {
            match places.next() {
                Some(place) => *place = (value, u8::from(asked == Asked::Unknown)),
                None => state.others_unknown = 1,
            }
        }
        // The importer's slots may be in another order.
        state.held.sort_unstable();
        state
    }

    /// The reverse of [`export`](Self::export). A key that is no longer held counts as removed.
    pub(super) fn import(state: &HeardKeys, values: [u32; N]) -> Self {
        let asked = |flag, other| if flag == 0 { other } else { Asked::Unknown };
        let mut heard = Self { removed: state.removed, ..Self::new() };
        heard.shown.set(Shown::DOUBTFUL, state.is_doubtful != 0);
        let held = state.held.map(|(value, is_unknown)| (value, asked(is_unknown, Asked::Before)));
        heard.match_keys(&held, values, asked(state.others_unknown, Asked::Never));
        heard
    }
}

/// Which keys the peer has asked for, in a [`ConnectionState`](super::ConnectionState).
///
/// It identifies them by traffic key and SendID: another secret under the same ids was never asked for. Nor was a key that is added after
/// the move, unless it was removed before or missing at the move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeardKeys {
    /// The check values of keys that were asked for. The second number is 0 if that is certain. The value 0 is no key.
    pub(super) held: [(u32, u8); HELD],
    /// Whether other keys may have been asked for: 0 is no.
    pub(super) others_unknown: u8,
    /// Whether the last obeyed request was doubtful: 0 is no.
    pub(super) is_doubtful: u8,
    pub(super) removed: [u32; REMOVED],
}

impl HeardKeys {
    /// No key: a new connection.
    pub const NONE: Self =
        Self { held: [(0, 0); HELD], others_unknown: 0, is_doubtful: 0, removed: [0; REMOVED] };
    /// Every key, for imported connections without a history. A replay then cannot pass for the first request for its key.
    pub const ALL: Self = Self { others_unknown: 1, ..Self::NONE };
}

/// Without the check values.
impl fmt::Debug for HeardKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held.iter().filter(|(value, _)| *value != 0).count();
        f.debug_struct("HeardKeys")
            .field("held", &held)
            .field("others_unknown", &self.others_unknown)
            .field("is_doubtful", &self.is_doubtful)
            .finish_non_exhaustive()
    }
}
