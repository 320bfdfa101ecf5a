//! Which keys of a connection are ready to compute MACs.

use core::array;

use crate::connection::Connection;
use crate::connection::heard::Heard;
use crate::connection::secrets::{BothTrafficKeys, MasterKeys, Secrets, TrafficKeys};
use crate::kdf::{KdfContext, TrafficKey};
use crate::types::{Isn, KeyId};

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
        self.heard.peer_uses_current &= self.current == slot;
        self.current = slot;
    }

    /// The key of this RecvID will be ready when the next segment comes.
    #[cold]
    pub(super) fn verify_next_with(&mut self, recv_id: KeyId) {
        let slot = self.index(|key| key.recv_id == recv_id);
        if let (Some(slot), Secrets::Traffic(keys)) = (slot, &mut self.secrets)
            && let Some(Some(parameters)) = self.parameters.get(usize::from(slot))
            && let Some(octets) = keys.octets.get(usize::from(slot))
            && let Some(key) = TrafficKey::expand(parameters.algorithm, &octets.receive)
        {
            self.verifies_with = slot;
            keys.receive = key;
        }
    }

    /// Makes these slots those of the current and the rnext key, and their keys ready, after a change of the keys.
    /// `before` is what [`check_values`](Self::check_values) returned before it.
    pub(super) fn settle_keys(&mut self, current: u8, rnext: u8, before: [u32; N]) {
        let previous = self.current;
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

    /// After a change of the keys, keeps the memory of those that are still held. `previous` is the slot of the current key before it.
    pub(super) fn keep_heard(&mut self, before: [u32; N], previous: u8) {
        let now = self.check_values();
        self.heard.peer_uses_current &=
            before.get(usize::from(previous)) == now.get(usize::from(self.current));
        match self.secrets {
            Secrets::Master(_) => self.heard = Heard::new(),
            Secrets::Traffic(_) => self.heard.keys_changed(before, now),
        }
        self.heard.signs_with(self.current);
    }

    /// A check value for each traffic key, by slot: the start of its MAC of the SendID alone, which is never sent and does not reveal the
    /// key. Of two MKTs with one secret, each has its own. 0 where there is no traffic key.
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

    /// Replaces all traffic keys, and makes those of the current and the rnext key ready. This, the derivation and the last step are
    /// apart, so that the stack never holds what two of them need.
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

    /// For what does not happen: without keys nothing is signed or verified.
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
