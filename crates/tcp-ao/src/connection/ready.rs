//! Which keys of a connection are ready to compute MACs.

use core::array;

use crate::connection::heard::Heard;
use crate::connection::secrets::{Secrets, TrafficKeys};
use crate::connection::slot::{BothTrafficKeys, Secret, Slot};
use crate::connection::{Connection, Phase};
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

    /// Copies of all slots.
    pub(super) fn slots(&self) -> [Option<Slot>; N] {
        array::from_fn(|slot| {
            Some(Slot { parameters: self.parameters[slot]?, secret: self.secrets.get(slot)? })
        })
    }

    /// Replaces all slots, among which are those of the current and the rnext key. What was there is wiped. Once the connection is
    /// established, master keys become traffic keys. What was heard of a key stays with it.
    pub(super) fn set_slots(&mut self, slots: &[Option<Slot>; N]) {
        let old = self.check_values();
        self.parameters = slots.each_ref().map(|slot| slot.as_ref().map(|slot| slot.parameters));
        self.verifies_with = self.rnext;
        let (Phase::Established, Some(local_isn)) = (self.phase, self.local_isn) else {
            self.secrets = Secrets::Master(slots.each_ref().map(|slot| match &slot.as_ref()?.secret {
                Secret::Master(key) => Some(key.clone()),
                Secret::Traffic(_) => None,
            }));
            self.heard = Heard::new();
            self.heard.signs_with(self.current);
            return;
        };
        let isns = (local_isn, self.remote_isn);
        let mut octets = array::from_fn(|_| BothTrafficKeys::zero());
        for (place, slot) in octets.iter_mut().zip(slots) {
            if let Some(slot) = slot
                && slot.write_traffic_keys(self.pair, isns, place).is_none()
            {
                return self.forget_keys();
            }
        }
        self.set_traffic_keys(&octets);
        self.heard.keys_changed(old, self.check_values());
        self.heard.signs_with(self.current);
    }

    /// What tells one traffic key from another, by slot: the start of a MAC of nothing, which is on no wire and gives no key away.
    /// `None` where there is no traffic key.
    #[inline(never)]
    fn check_values(&self) -> [Option<u32>; N] {
        let Secrets::Traffic(keys) = &self.secrets else { return [None; N] };
        array::from_fn(|slot| {
            let (parameters, octets) = (self.parameters[slot].as_ref()?, &keys.octets[slot]);
            let mac = TrafficKey::expand(parameters.algorithm, &octets.send)?.mac_key().mac(&[]);
            Some(u32::from_be_bytes(*mac.as_bytes().first_chunk()?))
        })
    }

    /// Turns the master keys into traffic keys, and wipes them. Other than [`set_slots`](Self::set_slots), it copies none, so that it
    /// takes little of the stack.
    pub(super) fn derive_all(&mut self, local_isn: Isn) {
        let Secrets::Master(master_keys) = &self.secrets else { return };
        let isns = (local_isn, self.remote_isn);
        let mut octets = array::from_fn(|_| BothTrafficKeys::zero());
        for (place, keys) in octets.iter_mut().zip(self.parameters.iter().zip(master_keys)) {
            if let (Some(key), Some(master_key)) = keys
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
    fn forget_keys(&mut self) {
        self.secrets = Secrets::Master([const { None }; N]);
    }

    /// The traffic key of a slot in this context, while its master key is there.
    #[cold]
    pub(super) fn derive(&self, slot: u8, context: &KdfContext) -> Option<TrafficKey> {
        let Secrets::Master(keys) = &self.secrets else { return None };
        let master_key = keys.get(usize::from(slot))?.as_ref()?;
        TrafficKey::derive_from(self.key_in(slot)?.algorithm, master_key, context)
    }
}
