//! Signing what this end sends (RFC 5925 §7.4).

use wireseal_mac::{Mac, MessageHead};

use crate::connection::slots::Secrets;
use crate::connection::{Connection, Phase};
use crate::error::SignError;
use crate::kdf::KdfContext;
use crate::mac_input::MacInput;
use crate::mkt::MktParameters;
use crate::option::AoPlace;
use crate::segment::{no_option, place_to_sign};
use crate::tcp::{Flags, Tcp};
use crate::types::{Isn, SeqNum, Sne, SneTracker};

/// The header fields that signing needs.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) sequence: SeqNum,
    pub(super) end: SeqNum,
    flags: Flags,
}

impl From<Tcp<'_>> for Head {
    #[inline(always)]
    fn from(tcp: Tcp<'_>) -> Self {
        Self { sequence: tcp.sequence(), end: tcp.end(), flags: tcp.flags() }
    }
}

/// An outgoing segment that passed all checks, with its SNE and the place of its AO option.
#[derive(Clone, Copy)]
pub(super) struct Prepared {
    pub(super) sne: Sne,
    pub(super) ao: AoPlace,
    pub(super) head: Head,
}

impl<const N: usize> Connection<N> {
    /// Signs a TCP segment, header and payload, in place with the current key.
    ///
    /// The header must have an AO option of the current key's size, which [`append_ao`](Self::append_ao) puts there; `sign`
    /// fills in ids and MAC. Compute the checksum afterwards. A retransmission gets the SNE of its own sequence number.
    ///
    /// # Errors
    /// [`SignError`]; segment and connection are unchanged.
    #[inline]
    pub fn sign(&mut self, tcp: &mut [u8]) -> Result<(), SignError> {
        let prepared = self.prepare(tcp)?;
        let derived;
        let key = match &self.secrets {
            Secrets::Traffic(keys) => &keys.send,
            Secrets::Master(_) => {
                derived =
                    self.derive(self.current, &self.send_context(prepared.head)?).ok_or(SignError::State)?;
                &derived
            }
        };
        let input = self.input_to_send(tcp, prepared).ok_or_else(no_option)?;
        let mut head = MessageHead::new();
        let [start, rest] = input.try_message(&mut head).ok_or_else(no_option)?;
        let mac = key.mac_key().mac(&[start, rest]);
        self.finish(tcp, prepared, &mac).ok_or_else(no_option)
    }

    /// Whether the connection's state allows this segment to be sent. Nothing changes.
    pub(crate) fn may_send(&self, tcp: Tcp<'_>) -> Result<(), SignError> {
        match self.phase {
            Phase::Established if tcp.opens() => Err(SignError::State),
            Phase::Established => Ok(()),
            _ => self.send_context(tcp.into()).map(|_| ()),
        }
    }

    /// Finds an outgoing segment's SNE, and the place of its AO option.
    #[inline(always)]
    pub(super) fn prepare(&self, tcp: &[u8]) -> Result<Prepared, SignError> {
        let view = Tcp::parse(self.pair.local.address_in_place(), tcp)?;
        if !view.is_between(&self.pair.local, &self.pair.remote) {
            return Err(SignError::OtherConnection);
        }
        let is_established = self.phase == Phase::Established;
        if is_established && view.opens() {
            return Err(SignError::State);
        }
        let ao = place_to_sign(view, self.key_in(self.current).ok_or_else(no_option)?)?;
        let head = Head::from(view);
        // The sequence number of a SYN is an ISN, whatever came before, and that of a refusal stands for one.
        let is_first = !is_established && (view.flags().syn() || self.is_refusal_sent(head));
        let sne = if is_first { Sne(0) } else { self.send.sne_of(head.sequence) };
        Ok(Prepared { sne, ao, head })
    }

    /// Writes the ids into a [prepared](Self::prepare) segment. Returns its MAC input; `None` if it is another segment.
    #[inline(always)]
    pub(super) fn input_to_send<'a>(&self, tcp: &'a mut [u8], prepared: Prepared) -> Option<MacInput<'a>> {
        let Prepared { sne, ao, .. } = prepared;
        let MktParameters { send_id, options, .. } = *self.key_in(self.current)?;
        ao.write_ids(tcp, [send_id, self.key_in(self.rnext)?.recv_id])?;
        let addresses = (self.pair.local.address_in_place(), self.pair.remote.address_in_place());
        Some(MacInput::new(sne, addresses, tcp, ao, options))
    }

    /// Writes the MAC into the segment, and records that it was sent. `None`, and nothing is recorded, if it is another segment.
    #[inline(always)]
    #[must_use]
    pub(super) fn finish(&mut self, tcp: &mut [u8], prepared: Prepared, mac: &Mac) -> Option<()> {
        prepared.ao.write_mac(tcp, mac)?;
        if self.phase == Phase::Established {
            self.send.advance(prepared.head.end);
        } else {
            self.sent_in_handshake(prepared.head);
        }
        Some(())
    }

    fn is_refusal_sent(&self, Head { sequence, flags, .. }: Head) -> bool {
        flags.ack() && is_refusal(flags, sequence, self.local_isn)
    }

    #[cold]
    fn sent_in_handshake(&mut self, head: Head) {
        let Head { sequence, end, flags } = head;
        if self.is_refusal_sent(head) {
            return;
        }
        if flags.syn() {
            self.local_isn = Some(Isn(sequence.0));
            self.send = SneTracker::new(Isn(sequence.0));
        }
        if self.local_isn.is_some() {
            self.send.advance(end);
        }
    }

    /// The KDF context of a segment sent during the handshake.
    #[cold]
    fn send_context(&self, head: Head) -> Result<KdfContext, SignError> {
        let Head { sequence, flags, .. } = head;
        let isn = Isn(sequence.0);
        let (syn, ack) = (flags.syn(), flags.ack());
        match (self.phase, self.local_isn) {
            (Phase::SynSent | Phase::SynReceived, Some(local_isn)) if syn && !ack && local_isn == isn => {
                Ok(KdfContext::syn(self.pair.local, self.pair.remote, isn))
            }
            // A stack that forgot a half-open connection, or keeps none, answers a repeated SYN with another ISN. A listener that refuses a
            // SYN, perhaps a repeated one, resets without an ISN of its own.
            (Phase::SynReceived, _) if syn && ack || self.is_refusal_sent(head) => {
                Ok(KdfContext::send_other(self.pair, isn, self.remote_isn))
            }
            (Phase::SynReceived, None) if flags.rst() => {
                Ok(KdfContext::send_other(self.pair, isn, self.remote_isn))
            }
            (Phase::SynReceived, Some(local_isn)) if !syn => {
                Ok(KdfContext::send_other(self.pair, local_isn, self.remote_isn))
            }
            _ => Err(SignError::State),
        }
    }
}

/// Whether a reset is a listener's answer to a SYN. Its sequence number is zero (RFC 9293 §3.10.7.1), in place of the ISN that the listener
/// never had. But if the ISN was 0xffff_ffff, zero is the next number of a half-open end, and the reset comes from that end.
pub(super) fn is_refusal(flags: Flags, sequence: SeqNum, isn: Option<Isn>) -> bool {
    flags.rst() && sequence.0 == 0 && isn != Some(Isn(u32::MAX))
}
