//! The keys of one connection: adding, choosing, removing (RFC 5925 §3.1, §6.1), and which of them are ready to compute MACs.

use core::array;

use crate::connection::slots::{BothTrafficKeys, MasterKeys, Secrets, Shown, TrafficKeys};
use crate::connection::{Connection, Phase};
use crate::error::SignError;
use crate::kdf::{KdfContext, TrafficKey};
use crate::mkt::{Mkt, MktError, MktParameters, MktSet};
use crate::option::{AoOption, append_ao};
use crate::types::{Isn, KeyId};

impl<const N: usize> Connection<N> {
    /// The key this end signs with.
    #[inline]
    #[must_use]
    pub fn current_key(&self) -> &MktParameters {
        self.key(self.current)
    }

    /// The key this end asks the peer to sign with.
    #[inline]
    #[must_use]
    pub fn rnext_key(&self) -> &MktParameters {
        self.key(self.rnext)
    }

    /// The key that the peer signs with: that of its newest segment or, before the first segment, the one that this end asks for.
    #[inline]
    #[must_use]
    pub fn peers_key(&self) -> &MktParameters {
        self.key(self.verifies_with)
    }

    /// Whether a segment of the peer has verified under the key that this end signs with, since that became the current one.
    pub(super) const fn peer_uses_current_key(&self) -> bool {
        self.heard.shown.has(Shown::USES_CURRENT)
    }

    /// Whether the peer has signed with the [rnext key](Self::rnext_key) since this end asked for it: it holds that key, and has moved on to it.
    #[inline]
    #[must_use]
    pub const fn peer_uses_rnext_key(&self) -> bool {
        self.heard.shown.has(Shown::USES_RNEXT)
    }

    /// The SendID of the key that the peer asks for: the RNextKeyID of its newest segment. `None` before the first segment, after an import
    /// and after a change of SYNs.
    ///
    /// It is the [current key](Self::current_key), unless this end does not have it, or has chosen another since. Replayed and late segments
    /// do not count.
    #[inline]
    #[must_use]
    pub fn asks_for(&self) -> Option<KeyId> {
        self.heard.asks_for()
    }

    /// Whether the peer goes on asking for the current key although its send lifetime is over
    /// ([`replace_keys`](Self::replace_keys) has found it accept-only), and the peer itself signs with the key that this end asks for. Its
    /// configuration is behind; the session goes on until one end removes the old key.
    #[must_use]
    pub fn peer_insists(&self) -> bool {
        let asks_for_current = || self.asks_for() == Some(self.current_key().send_id);
        self.heard.shown.has(Shown::OVER) && self.peer_uses_rnext_key() && asks_for_current()
    }

    /// Whether to report now that [the peer insists](Self::peer_insists): once for each key.
    pub(crate) fn tell_that_peer_insists(&mut self) -> bool {
        let is_new = self.peer_insists() && !self.heard.shown.has(Shown::TOLD);
        if is_new {
            self.heard.shown.set(Shown::TOLD, true);
        }
        is_new
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &MktParameters> {
        self.parameters.iter().flatten()
    }

    /// Appends an AO option of the current key's size to the `used` octets of options at the start of `space`, the header's option
    /// space, and pads it. Returns the new length of the options. The option holds the same ids that [`sign`](Self::sign) writes; `sign` adds
    /// the MAC.
    ///
    /// Append it to each header anew, because the peer can change the current key with every segment.
    ///
    /// # Errors
    /// [`SignError::NoRoom`] if option and padding do not fit; `space` is then unchanged.
    pub fn append_ao(&self, space: &mut [u8], used: usize) -> Result<usize, SignError> {
        let current = self.current_key();
        let length = append_ao(space, used, current.mac_length())?;
        // So that `sign` need not write them: see `AoPlace::write_ids`.
        if let Some(ids) = space.get_mut(used + 2..).and_then(|option| option.first_chunk_mut()) {
            *ids = [current.send_id, self.key(self.rnext).recv_id].map(u8::from);
        }
        Ok(length)
    }

    /// Octets that the AO option and its padding take in a header with no other options: 8 to 20. Ask again after every
    /// [`verify`](Self::verify), because the peer can change the current key.
    ///
    /// Take them off the segment's data, never off the advertised MSS (RFC 9293 §3.7.1).
    #[must_use]
    pub fn option_length(&self) -> usize {
        AoOption::length_with(self.current_key().mac_length()).next_multiple_of(4)
    }

    /// Adds an MKT, which the peer may now sign with. Current and rnext key stay the same.
    ///
    /// # Errors
    /// [`MktError::SendIdInUse`], [`MktError::RecvIdInUse`] and [`MktError::TooMany`].
    pub fn add_key(&mut self, mkt: &Mkt) -> Result<(), MktError> {
        self.keys().try_for_each(|other| other.check_ids(mkt.parameters()))?;
        let free = self.parameters.iter().position(Option::is_none);
        let free = free.ok_or(MktError::TooMany { capacity: N })?;
        let before = self.check_values();
        self.put(free, mkt);
        self.keep_heard(before, [self.current, self.rnext]);
        Ok(())
    }

    /// Asks the peer to sign with the MKT of this RecvID, which is sent as RNextKeyID from the next segment on.
    ///
    /// # Errors
    /// [`MktError::UnknownRecvId`].
    pub fn set_rnext_key(&mut self, recv_id: KeyId) -> Result<(), MktError> {
        let rnext = self.index(|key| key.recv_id == recv_id).ok_or(MktError::UnknownRecvId(recv_id))?;
        if self.rnext != rnext {
            self.rnext = rnext;
            self.heard.shown.set(Shown::USES_RNEXT, false);
        }
        Ok(())
    }

    /// Signs with the MKT of this SendID from the next segment on, without waiting for the peer to ask.
    ///
    /// # Errors
    /// [`MktError::UnknownSendId`].
    pub fn set_current_key(&mut self, send_id: KeyId) -> Result<(), MktError> {
        let index = self.index(|key| key.send_id == send_id).ok_or(MktError::UnknownSendId(send_id))?;
        self.sign_with(index);
        Ok(())
    }

    /// Removes the MKT of this SendID and wipes its keys. If it is the current or the rnext key, `replacement`, also a SendID, takes its
    /// place in the same step.
    ///
    /// Do so once both ends hold the replacement. A peer that still signs with the removed MKT switches with this end's next segment.
    ///
    /// # Errors
    /// [`MktError::UnknownSendId`] for either id; [`MktError::Last`]; [`MktError::InUse`] if the MKT is the current or the rnext key and no
    /// other replacement is named. The keys are then unchanged.
    pub fn remove_key(&mut self, send_id: KeyId, replacement: Option<KeyId>) -> Result<(), MktError> {
        let index_of = |id| self.index(|key| key.send_id == id).ok_or(MktError::UnknownSendId(id));
        let removed = index_of(send_id)?;
        if self.keys().count() == 1 {
            return Err(MktError::Last(send_id));
        }
        let replacement = replacement.map(index_of).transpose()?.filter(|index| *index != removed);
        let instead_of = |index| {
            if index == removed { replacement.ok_or(MktError::InUse(send_id)) } else { Ok(index) }
        };
        let (current, rnext) = (instead_of(self.current)?, instead_of(self.rnext)?);
        let before = self.check_values();
        self.clear(usize::from(removed));
        self.settle_keys(current, rnext, before);
        Ok(())
    }

    /// Whether one of the keys is this MKT: same ids, algorithm, MAC length, option coverage and secret. Secrets are compared in
    /// constant time; once the connection is established, by the traffic keys that they give.
    #[must_use]
    pub fn has_key(&self, mkt: &Mkt) -> bool {
        let slot = self.index(|key| key.is_same(mkt.parameters()));
        slot.is_some_and(|slot| self.secrets.is_of(usize::from(slot), mkt, self.pair, self.isns()))
    }

    /// Replaces all keys by `mkts` in one step. The preferred MKT becomes the rnext key. The current key stays if `mkts` has one with its
    /// SendID that is not accept-only; otherwise the preferred one takes its place.
    ///
    /// An [accept-only](MktParameters::accept_only) key, whose send lifetime is over, is left later, so that a peer without the next one
    /// loses nothing: it stays the current key until a segment shows that the peer signs with the rnext key and does not ask for the old one
    /// any more. Without it in `mkts`, or with another secret, it is left at once, and so it is while this end's SYN is not answered.
    ///
    /// Use it to apply changes of a key chain, or to replace a secret under the same ids.
    ///
    /// # Errors
    /// [`MktError::NoKey`] if `mkts` has none to sign with; the keys are unchanged.
    pub fn replace_keys(&mut self, mkts: &MktSet<N>) -> Result<(), MktError> {
        self.replace_keys_but(mkts, |_| false)
    }

    /// Like [`replace_keys`](Self::replace_keys), but keeps keys that are not valid yet, if there is room and `mkts` does not have their
    /// ids. If `mkts` has no preferred key, the current and rnext keys stay if they can. `is_early` tells whether a key is not valid yet;
    /// its argument is a function that recognises the key's MKT.
    pub(crate) fn replace_keys_but(
        &mut self,
        mkts: &MktSet<N>,
        is_early: impl Fn(&dyn Fn(&Mkt) -> bool) -> bool,
    ) -> Result<(), MktError> {
        let is_early =
            |key: &MktParameters| is_early(&|mkt| mkt.send_id() == key.send_id && self.has_key(mkt));
        let is_kept = |key: &MktParameters| mkts.check_ids(key).is_ok() && is_early(key);
        let mut kept: [bool; N] = array::from_fn(|slot| self.parameters[slot].as_ref().is_some_and(is_kept));
        let (current, rnext) = (usize::from(self.current), usize::from(self.rnext));
        // A current key that is kept has priority, if necessary over the set's last MKT: the peer may hold no other.
        let has_place = kept[current] && (self.peer_uses_current_key() || mkts.preferred().is_none());
        let taken = mkts.iter().take(N - usize::from(has_place));
        let mut room = N - usize::from(has_place) - taken.clone().count();
        for slot in (0..N).filter(|slot| !has_place || *slot != current) {
            kept[slot] &= room > 0;
            room -= usize::from(kept[slot]);
        }
        let id = |slot: usize| self.parameters[slot].as_ref().filter(|_| kept[slot]).map(|key| key.send_id);
        let preferred = taken.clone().find(|mkt| !mkt.parameters().accept_only).map(Mkt::send_id);
        let preferred = preferred.or_else(|| id(rnext)).or_else(|| id(current)).ok_or(MktError::NoKey)?;
        let holds = |id: KeyId| mkts.by_send_id(id).is_some_and(|mkt| self.has_key(mkt));
        let is_asked_for = self.rnext_key().send_id == preferred && (kept[rnext] || holds(preferred));
        let has_moved = is_asked_for && self.peer_uses_rnext_key();
        let signs = |key: &MktParameters| match () {
            // A key whose send lifetime has not begun is accept-only. If the peer already signs with it, this end's clock was set back, and
            // the peer may hold no other key. If not, the clock was ahead.
            () if is_early(key) => self.peer_uses_current_key(),
            () if !key.accept_only => true,
            () => self.phase != Phase::SynSent && holds(key.send_id) && !self.may_leave(key, has_moved),
        };
        let kept_current = self.parameters[current].as_ref().filter(|_| kept[current]);
        let current = self.current_key().send_id;
        let found = kept_current.or(mkts.by_send_id(current).map(Mkt::parameters));
        let stays = found.is_some_and(signs);
        let is_over = stays && found.is_some_and(|key| key.accept_only && !is_early(key));
        let current = if stays { current } else { preferred };

        let before = self.check_values();
        for slot in (0..N).filter(|slot| !kept[*slot]) {
            self.clear(slot);
        }
        let free = (0..N).filter(|slot| !kept[*slot]);
        taken.zip(free).for_each(|(mkt, slot)| self.put(slot, mkt));
        let slot = |id| self.index(|key| key.send_id == id).ok_or(MktError::NoKey);
        self.settle_keys(slot(current)?, slot(preferred)?, before);
        self.heard.shown.set(Shown::OVER, is_over);
        Ok(())
    }

    /// Whether to sign with the preferred key in place of this one, whose send lifetime is over: once the peer has moved to the preferred key,
    /// unless it goes on asking for this one.
    fn may_leave(&self, key: &MktParameters, has_moved: bool) -> bool {
        has_moved && self.asks_for() != Some(key.send_id)
    }

    /// Signs with the rnext key if the current one is accept-only and [may be left](Self::may_leave). Returns whether it did.
    #[cold]
    pub(super) fn leave_current_key(&mut self) -> bool {
        let keys = self.key_in(self.current).zip(self.key_in(self.rnext));
        let Some((current, rnext)) = keys else { return false };
        let leaves = current.accept_only && !rnext.accept_only;
        let leaves = leaves && self.may_leave(current, self.peer_uses_rnext_key());
        if leaves {
            self.sign_with(self.rnext);
        }
        leaves
    }

    /// Puts an MKT into a slot, in place.
    fn put(&mut self, slot: usize, mkt: &Mkt) {
        self.parameters[slot] = Some(*mkt.parameters());
        if self.secrets.put(slot, mkt, self.pair, self.isns()).is_none() {
            self.forget_keys();
        }
    }

    /// Empties a slot and wipes its secret.
    fn clear(&mut self, slot: usize) {
        self.parameters[slot] = None;
        self.secrets.wipe(slot);
    }

    /// Both ISNs; an unknown one is [`Isn::UNKNOWN`].
    fn isns(&self) -> (Isn, Isn) {
        (self.local_isn.unwrap_or(Isn::UNKNOWN), self.remote_isn)
    }

    /// Signs with a key that the peer has not asked for. A later request for it does not count as the first: it may be older than one for
    /// another key.
    fn sign_with(&mut self, slot: u8) {
        self.make_current(slot);
        self.heard.chosen(self.current);
    }

    #[inline]
    pub(super) fn index(&self, found: impl Fn(&MktParameters) -> bool) -> Option<u8> {
        self.find_key(found).map(|(slot, _)| slot)
    }

    /// The first key for which `found` returns true, with its slot.
    #[inline]
    pub(super) fn find_key(&self, found: impl Fn(&MktParameters) -> bool) -> Option<(u8, &MktParameters)> {
        let mut keys = self.parameters.iter().enumerate();
        keys.find_map(|(slot, key)| key.as_ref().filter(|key| found(key)).map(|key| (slot as u8, key)))
    }

    /// The key in a slot. `current`, `rnext` and `verifies_with` always hold filled slots, but the compiler does not see that; packet
    /// handling returns an error instead of panicking.
    #[inline(always)]
    pub(super) fn key_in(&self, slot: u8) -> Option<&MktParameters> {
        self.parameters.get(usize::from(slot))?.as_ref()
    }

    #[inline(always)]
    pub(super) fn key(&self, slot: u8) -> &MktParameters {
        self.key_in(slot).expect("current and rnext keys are always there")
    }
}

impl<const N: usize> Connection<N> {
    /// Makes the key of a slot the current one.
    #[cold]
    pub(super) fn make_current(&mut self, slot: u8) {
        let Some(Some(parameters)) = self.parameters.get(usize::from(slot)) else { return };
        if let Secrets::Traffic(keys) = &mut self.secrets {
            let octets = keys.octets.get(usize::from(slot));
            let key = octets.and_then(|octets| TrafficKey::expand(parameters.algorithm, &octets.send));
            let Some(key) = key else { return };
            keys.send = key;
        }
        if self.current != slot {
            self.heard.shown.set(Shown::OF_CURRENT, false);
        }
        self.current = slot;
    }

    /// Makes the key of a slot ready for the next segment.
    #[cold]
    pub(super) fn verify_next_with(&mut self, slot: u8) {
        if let Secrets::Traffic(keys) = &mut self.secrets
            && let Some(Some(parameters)) = self.parameters.get(usize::from(slot))
            && let Some(octets) = keys.octets.get(usize::from(slot))
            && let Some(key) = TrafficKey::expand(parameters.algorithm, &octets.receive)
        {
            self.verifies_with = slot;
            keys.receive = key;
        }
    }

    /// After a change of keys, makes these slots the current and the rnext one, and their keys ready. `before` is what
    /// [`check_values`](Self::check_values) returned before the change.
    pub(super) fn settle_keys(&mut self, current: u8, rnext: u8, before: [u32; N]) {
        let previous = [self.current, self.rnext];
        (self.current, self.rnext, self.verifies_with) = (current, rnext, rnext);
        if let Secrets::Traffic(keys) = &mut self.secrets {
            let ready = |slot: u8| {
                let algorithm = self.parameters.get(usize::from(slot))?.as_ref()?.algorithm;
                Some((algorithm, keys.octets.get(usize::from(slot))?))
            };
            let receive = ready(rnext).and_then(|(algorithm, of)| TrafficKey::expand(algorithm, &of.receive));
            let send = ready(current).and_then(|(algorithm, of)| TrafficKey::expand(algorithm, &of.send));
            match (receive, send) {
                (Some(receive), Some(send)) => (keys.receive, keys.send) = (receive, send),
                _ => self.forget_keys(),
            }
        }
        self.keep_heard(before, previous);
    }

    /// After a change of keys, carries over what was heard about those that are still held. `previous` are the slots of the former current
    /// and rnext key.
    pub(super) fn keep_heard(&mut self, before: [u32; N], previous: [u8; 2]) {
        let now = self.check_values();
        let is_same =
            |before_slot: u8, slot: u8| before.get(usize::from(before_slot)) == now.get(usize::from(slot));
        if !is_same(previous[0], self.current) {
            self.heard.shown.set(Shown::OF_CURRENT, false);
        }
        if !is_same(previous[1], self.rnext) {
            self.heard.shown.set(Shown::USES_RNEXT, false);
        }
        match self.secrets {
            Secrets::Master(_) => self.heard = self.heard.without_keys(),
            Secrets::Traffic(_) => self.heard.keys_changed(before, now),
        }
        self.heard.signs_with(self.current);
    }

    /// A check value for each traffic key, by slot: the start of its MAC over the SendID alone, which is never sent and does not reveal
    /// the key. Two MKTs with one secret differ. 0 where there is no traffic key.
    #[inline(never)]
    pub(super) fn check_values(&self) -> [u32; N] {
        let Secrets::Traffic(keys) = &self.secrets else { return [0; N] };
        let value = |slot: usize| {
            let (parameters, octets) = (self.parameters[slot].as_ref()?, &keys.octets[slot]);
            let key = TrafficKey::expand(parameters.algorithm, &octets.send)?;
            let mac = key.mac_key().mac(&[&[parameters.send_id.0]]);
            Some(u32::from_be_bytes(*mac.as_bytes().first_chunk()?).max(1))
        };
        array::from_fn(|slot| value(slot).unwrap_or(0))
    }

    /// Turns the master keys into traffic keys, and wipes them.
    pub(super) fn derive_all(&mut self, local_isn: Isn) {
        let Secrets::Master(master) = &self.secrets else { return };
        let isns = (local_isn, self.remote_isn);
        let mut octets = array::from_fn(|_| BothTrafficKeys::zero());
        for (place, keys) in octets.iter_mut().zip(self.parameters.iter().zip(&master.keys)) {
            if let (Some(key), master_key) = keys
                && place.derive(key.algorithm, master_key, self.pair, isns).is_none()
            {
                return self.forget_keys();
            }
        }
        self.verifies_with = self.rnext;
        self.set_traffic_keys(&octets);
    }

    /// Replaces all traffic keys, and makes those of the current and the rnext key ready. Derivation, this and `install` are separate
    /// functions to keep the stack small.
    #[inline(never)]
    fn set_traffic_keys(&mut self, octets: &[BothTrafficKeys; N]) {
        let key = |slot| Some((self.key_in(slot)?.algorithm, octets.get(usize::from(slot))?));
        let receive =
            key(self.rnext).and_then(|(algorithm, keys)| TrafficKey::expand(algorithm, &keys.receive));
        let send = key(self.current).and_then(|(algorithm, keys)| TrafficKey::expand(algorithm, &keys.send));
        match (receive, send) {
            (Some(receive), Some(send)) => self.install(receive, send, octets),
            _ => self.forget_keys(),
        }
    }

    #[inline(never)]
    fn install(&mut self, receive: TrafficKey, send: TrafficKey, octets: &[BothTrafficKeys; N]) {
        self.secrets = Secrets::Traffic(TrafficKeys { receive, send, octets: octets.clone() });
    }

    /// Unreachable; drops all keys so nothing is signed or verified.
    #[cold]
    #[inline(never)]
    pub(super) fn forget_keys(&mut self) {
        self.secrets = Secrets::Master(MasterKeys::BLANK);
    }

    /// The traffic key of a slot in this context, while its master key is there.
    #[cold]
    pub(super) fn derive(&self, slot: u8, context: &KdfContext) -> Option<TrafficKey> {
        let Secrets::Master(master) = &self.secrets else { return None };
        let master_key = master.keys.get(usize::from(slot))?;
        TrafficKey::derive_from(self.key_in(slot)?.algorithm, master_key, context)
    }
}
