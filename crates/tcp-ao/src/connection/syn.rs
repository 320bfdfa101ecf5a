//! A listener's view before a connection is established: the peer's SYN, checked without keeping state so that a flood of forged SYNs costs
//! no memory, and the handshakes that may be genuine.

use wireseal_mac::MessageHead;

use crate::error::VerifyError;
use crate::kdf::{KdfContext, mac_under_derived};
use crate::mkt::{Mkt, MktSet};
use crate::segment::{Segment, check_mac_length, compare};
use crate::types::{Isn, KeyId, SeqNum, Sne};

/// A SYN whose MAC has verified. Only [`MktSet::verify_syn`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedSyn<'a, 'm, const N: usize> {
    segment: Segment<'a>,
    mkts: &'m MktSet<N>,
    mkt: &'m Mkt,
    rnext_key_id: KeyId,
}

impl<'a, 'm, const N: usize> VerifiedSyn<'a, 'm, N> {
    /// The SYN.
    #[must_use]
    pub const fn segment(&self) -> Segment<'a> {
        self.segment
    }

    /// The MKT that signed it.
    #[must_use]
    pub const fn mkt(&self) -> &'m Mkt {
        self.mkt
    }

    /// The MKT that the peer asks for, by its SendID at this end.
    #[must_use]
    pub const fn rnext_key_id(&self) -> KeyId {
        self.rnext_key_id
    }

    /// The MKT that this end answers with: the one that the SYN asks for, or else the one that signed it (RFC 5925 §7.5).
    pub(crate) fn asked_for(&self) -> &'m Mkt {
        self.mkts.by_send_id(self.rnext_key_id).unwrap_or(self.mkt)
    }

    pub(super) const fn mkts(&self) -> &'m MktSet<N> {
        self.mkts
    }
}

impl<const N: usize> MktSet<N> {
    /// Verifies a SYN that would open a connection at this end, with the Receive_SYN key of the MKT of its KeyID (RFC 5925 §5.2, §7.5).
    /// Keeps no state.
    ///
    /// A recorded SYN verifies again at any time, since its key depends on the SYN alone. Do not drop a connection because of one.
    ///
    /// # Errors
    /// [`VerifyError`]; [`VerifyError::State`] if the segment is not a SYN without ACK.
    pub fn verify_syn<'a>(&self, segment: Segment<'a>) -> Result<VerifiedSyn<'a, '_, N>, VerifyError> {
        let flags = segment.flags();
        if !flags.syn() || flags.ack() || flags.rst() {
            return Err(VerifyError::State);
        }
        let ao = segment.ao_option()?.ok_or(VerifyError::Unsigned)?;
        let mkt = self.by_recv_id(ao.key_id).ok_or(VerifyError::UnknownKeyId(ao.key_id))?;
        let context = KdfContext::syn(segment.source(), segment.destination(), Isn(segment.sequence().0));
        // The length first: deriving the key is the larger part of the cost.
        check_mac_length(&ao, mkt.parameters())?;
        let input = segment.mac_input_with(Sne(0), &ao, mkt.parameters().options);
        let mut head = MessageHead::new();
        let [start, rest] = input.try_message(&mut head).ok_or(VerifyError::BadMac { key_id: ao.key_id })?;
        let algorithm = mkt.parameters().algorithm;
        let mac = mac_under_derived(algorithm, mkt.master_key(), &context, &[start, rest]);
        compare(&ao, mac.as_ref().ok_or(VerifyError::State)?)?;
        Ok(VerifiedSyn { segment, mkts: self, mkt, rnext_key_id: ao.rnext_key_id })
    }
}

/// One of the peer's SYNs, and this end's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) remote_isn: Isn,
    /// Octets of payload in the SYN. An answer may acknowledge these as well (RFC 7413 §4.2).
    pub(crate) payload: u16,
    /// The ISN of the SYN-ACK; `None` while there is none.
    pub(crate) local_isn: Option<Isn>,
    /// The RecvID of the MKT that signed the SYN, and the SendID of the one it asks for.
    pub(crate) signed_with: KeyId,
    pub(crate) asked_for: KeyId,
}

impl Handshake {
    /// The handshake of a verified SYN that is not answered yet.
    pub(crate) fn of<const N: usize>(syn: &VerifiedSyn<'_, '_, N>) -> Self {
        Self {
            remote_isn: Isn(syn.segment().sequence().0),
            payload: syn.segment().payload().len() as u16,
            local_isn: None,
            signed_with: syn.mkt().recv_id(),
            asked_for: syn.asked_for().send_id(),
        }
    }

    /// Whether a number comes right after the SYN, or after any part of its payload.
    pub(crate) const fn is_before(&self, number: SeqNum) -> bool {
        number.0.wrapping_sub(self.remote_isn.0).wrapping_sub(1) <= self.payload as u32
    }
}
