//! Which keys of a connection are ready to compute MACs.

use core::array;

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
        let octets = slots.each_ref().map(|slot| match slot {
            Some(slot) => slot.traffic_keys(self.pair, local_isn, self.remote_isn),
            None => Some(BothTrafficKeys::zero()),
        });
        self.set_traffic_keys(octets);
    }

    /// Turns the master keys into traffic keys, and wipes them. Other than [`set_slots`](Self::set_slots), it copies none, so that it
    /// takes little of the stack.
    pub(super) fn derive_all(&mut self, local_isn: Isn) {
        let Secrets::Master(master_keys) = &self.secrets else { return };
        let octets = array::from_fn(|slot| match (self.parameters.get(slot)?, master_keys.get(slot)?) {
            (Some(key), Some(master_key)) => {
                BothTrafficKeys::derive(key.algorithm, master_key, self.pair, local_isn, self.remote_isn)
            }
            _ => Some(BothTrafficKeys::zero()),
        });
        self.verifies_with = self.rnext;
        self.set_traffic_keys(octets);
    }

    /// Replaces all traffic keys, of which there is one for each slot, and makes those of the current and the rnext key ready. Without
    /// any keys nothing could be signed or verified. Apart from the derivation, so that the stack does not hold what both need.
    #[inline(never)]
    fn set_traffic_keys(&mut self, octets: [Option<BothTrafficKeys>; N]) {
        let keys = self.traffic_keys(octets);
        self.secrets = keys.map_or(Secrets::Master([const { None }; N]), Secrets::Traffic);
    }

    fn traffic_keys(&self, all: [Option<BothTrafficKeys>; N]) -> Option<TrafficKeys<N>> {
        let mut octets = array::from_fn(|_| BothTrafficKeys::zero());
        for (place, octets) in octets.iter_mut().zip(all) {
            *place = octets?;
        }
        let key = |slot| Some((self.key_in(slot)?.algorithm, octets.get(usize::from(slot))?));
        let ((receives, receive), (sends, send)) = (key(self.rnext)?, key(self.current)?);
        Some(TrafficKeys {
            receive: TrafficKey::expand(receives, &receive.receive)?,
            send: TrafficKey::expand(sends, &send.send)?,
            octets,
        })
    }

    /// The traffic key of a slot in this context, while its master key is there.
    #[cold]
    pub(super) fn derive(&self, slot: u8, context: &KdfContext) -> Option<TrafficKey> {
        let Secrets::Master(keys) = &self.secrets else { return None };
        let master_key = keys.get(usize::from(slot))?.as_ref()?;
        TrafficKey::derive_from(self.key_in(slot)?.algorithm, master_key, context)
    }
}
