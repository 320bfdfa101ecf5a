//! Segments whose MACs are computed side by side with those of other connections, for the shim's batches.

use wireseal_mac::Mac;

use crate::authenticate::compare;
use crate::connection::secrets::Secrets;
use crate::connection::send::Prepared;
use crate::connection::{Connection, Phase, Verified};
use crate::error::{SignError, VerifyError};
use crate::kdf::TrafficKey;
use crate::mac_input::MacInput;
use crate::option::AoPlace;
use crate::segment::Segment;
use crate::types::{Isn, Sne};

/// The MAC of a received segment, computed before its turn. It counts only for the connection with these ISNs and for this SNE.
pub(crate) struct Ahead {
    isns: (Option<Isn>, Isn),
    sne: Sne,
    pub(crate) mac: Mac,
}

/// A segment to be sent that is signed but for its MAC.
#[derive(Clone, Copy)]
pub(crate) struct ToSign {
    sne: Sne,
    ao: AoPlace,
}

impl ToSign {
    #[must_use]
    pub(crate) fn write_mac(self, tcp: &mut [u8], mac: &Mac) -> Option<()> {
        self.ao.write_mac(tcp, mac)
    }
}

impl<const N: usize> Connection<N> {
    /// What the MAC of a received segment is computed from, and a place for it. `None` where that is not known yet: before the connection
    /// is established, and for a key that is not ready.
    pub(crate) fn look_ahead<'a>(
        &'a self,
        segment: &Segment<'a>,
    ) -> Option<(&'a TrafficKey, MacInput<'a>, Ahead)> {
        let found = self.find(segment).ok()?;
        let key = self.ready_key(&found)?;
        let ahead = Ahead { isns: (self.local_isn, self.remote_isn), sne: found.sne, mac: Mac::EMPTY };
        Some((key, self.input_received(segment, &found), ahead))
    }

    /// [`verify`](Self::verify) with a MAC that was computed ahead, if it still counts.
    pub(crate) fn verify_with<'a>(
        &mut self,
        segment: &Segment<'a>,
        ahead: &Ahead,
    ) -> Result<Verified<'a>, VerifyError> {
        match self.find(segment) {
            Ok(found)
                if self.phase == Phase::Established
                    && ahead.isns == (self.local_isn, self.remote_isn)
                    && ahead.sne == found.sne =>
            {
                self.conclude(segment, compare(&found.ao, &ahead.mac).map(|()| found.ao))
            }
            _ => self.verify(segment),
        }
    }

    /// [`sign`](Self::sign) without computing the MAC, of an established connection's segment. In a handshake the segment is signed whole,
    /// and nothing is left to do.
    pub(crate) fn sign_without_mac(&mut self, tcp: &mut [u8]) -> Result<Option<ToSign>, SignError> {
        if self.phase != Phase::Established {
            return self.sign(tcp).map(|()| None);
        }
        let prepared = self.prepare(tcp)?;
        self.input_to_send(tcp, prepared).ok_or(SignError::NoOption)?;
        let Prepared { sne, ao, head } = prepared;
        self.send.advance(head.end);
        Ok(Some(ToSign { sne, ao }))
    }

    /// What the MAC of such a segment is computed from. The current key must not have changed since.
    pub(crate) fn input_to_sign<'a>(
        &'a self,
        tcp: &'a [u8],
        to_sign: ToSign,
    ) -> Option<(&'a TrafficKey, MacInput<'a>)> {
        let Secrets::Traffic(keys) = &self.secrets else { return None };
        let addresses = (self.pair.local.address_in_place(), self.pair.remote.address_in_place());
        let options = self.current_key().options;
        Some((&keys.send, MacInput::new(to_sign.sne, addresses, tcp, to_sign.ao, options)))
    }
}
