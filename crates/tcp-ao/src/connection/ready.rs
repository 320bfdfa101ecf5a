//! Which keys of a connection are ready to compute MACs.

use core::array;

use crate::connection::secrets::{Secrets, TrafficKeys};
use crate::connection::slot::{BothTrafficKeys, Secret, Slot};
use crate::connection::{Connection, Phase};
use crate::kdf::{KdfContext, TrafficKey};
use crate::types::KeyId;

impl<const N: usize> Connection<N> {
    /// Makes the key of a slot the current one.
    #[cold]
    pub(super) fn make_current(&mut self, slot: u8) {
        self.current = slot;
        let algorithm = self.current_key().algorithm;
        if let Secrets::Traffic(keys) = &mut self.secrets {
            keys.send = TrafficKey::expand(algorithm, &keys.octets[usize::from(slot)].send);
        }
    }

    /// The key of this RecvID will be ready when the next segment comes.
    #[cold]
    pub(super) fn verify_next_with(&mut self, recv_id: KeyId) {
        let slot = self.index(|key| key.recv_id == recv_id);
        if let (Some(slot), Secrets::Traffic(keys)) = (slot, &mut self.secrets)
            && let Some(key) = &self.parameters[usize::from(slot)]
        {
            self.verifies_with = slot;
            keys.receive = TrafficKey::expand(key.algorithm, &keys.octets[usize::from(slot)].receive);
        }
    }

    /// Copies of all slots.
    pub(super) fn slots(&self) -> [Option<Slot>; N] {
        array::from_fn(|slot| {
            Some(Slot { parameters: self.parameters[slot]?, secret: self.secrets.get(slot)? })
        })
    }

    /// Replaces all slots, among which are those of the current and the rnext key. What was there is wiped. Once the connection is
    /// established, master keys become traffic keys.
    pub(super) fn set_slots(&mut self, slots: &[Option<Slot>; N]) {
        self.parameters = slots.each_ref().map(|slot| slot.as_ref().map(|slot| slot.parameters));
        self.verifies_with = self.rnext;
        let (Phase::Established, Some(local_isn)) = (self.phase, self.local_isn) else {
            self.secrets = Secrets::Master(slots.each_ref().map(|slot| match &slot.as_ref()?.secret {
                Secret::Master(key) => Some(key.clone()),
                Secret::Traffic(_) => None,
            }));
            return;
        };
        let octets = slots.each_ref().map(|slot| {
            slot.as_ref().map_or_else(BothTrafficKeys::zero, |slot| {
                slot.traffic_keys(self.pair, local_isn, self.remote_isn)
            })
        });
        let octets_of = |slot| &octets[usize::from(slot)];
        self.secrets = Secrets::Traffic(TrafficKeys {
            receive: TrafficKey::expand(self.rnext_key().algorithm, &octets_of(self.rnext).receive),
            send: TrafficKey::expand(self.current_key().algorithm, &octets_of(self.current).send),
            octets,
        });
    }

    /// The traffic key of a slot in this context, while its master key is there.
    #[cold]
    pub(super) fn derive(&self, slot: u8, context: &KdfContext) -> Option<TrafficKey> {
        let Secrets::Master(keys) = &self.secrets else { return None };
        let master_key = keys[usize::from(slot)].as_ref()?;
        Some(TrafficKey::derive_from(self.key(slot).algorithm, master_key, context))
    }
}
