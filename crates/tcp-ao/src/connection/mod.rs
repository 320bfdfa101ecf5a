//! One connection's keys, SNEs and ISNs, from the first SYN to TIME-WAIT.

mod batch;
mod keys;
mod receive;
mod send;
mod slots;
mod state;
mod syn;

use core::fmt;

use wireseal_mac::prefetch;

use crate::counters::Counters;
use crate::mkt::{MktError, MktParameters, MktSet};
use crate::types::{Isn, KeyId, SeqNum, Sne, SneTracker, SocketPair};

pub(crate) use batch::{Ahead, BATCH, ToSign, mac_batch, octets_beside_longest};
pub use batch::{sign_batch, verify_batch};
pub use receive::Verified;
pub use slots::HeardKeys;
use slots::{Heard, MasterKeys, Secrets};
pub use state::ConnectionState;
pub(crate) use syn::Handshake;
pub use syn::VerifiedSyn;

/// The progress of the handshake, which decides the traffic keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Our SYN has been sent; the peer's ISN is unknown.
    SynSent,
    /// The peer's SYN has verified. Ours was sent before (simultaneous open) or will be the SYN-ACK.
    SynReceived,
    /// Both ISNs are confirmed. The traffic keys are final, and the master keys wiped.
    Established,
}

/// The TCP-AO state of one TCP connection, with room for `N` MKTs (RFC 5925 §4.2 to §7.5). No I/O, no clock, no heap.
///
/// Pass every incoming segment to [`verify`](Self::verify) before TCP sees it, and every outgoing one to
/// [`sign`](Self::sign): retransmissions, resets and TIME-WAIT's acknowledgments too.
///
/// With two MKTs it takes 704 octets, and verifying reads three cache lines of them with HMAC, five with AES-128-CMAC. When the
/// handshake completes, the traffic keys are derived once, and the master keys wiped. Two keys are then ready to compute MACs: the
/// current one, and the one that the peer signs with. A segment under another takes up to three times as long, and in a batch up to
/// five times.
// What verifying reads comes first, so that it shares as few cache lines as possible.
#[repr(C, align(64))]
pub struct Connection<const N: usize = 2> {
    pair: SocketPair,
    receive: SneTracker,
    send: SneTracker,
    /// The acknowledgment number of the newest verified segment.
    newest_acknowledgment: Option<SeqNum>,
    phase: Phase,
    /// The slots of the current and the rnext key; both are always filled.
    current: u8,
    rnext: u8,
    /// The slot of the key that is ready to verify: the one of the newest segment.
    verifies_with: u8,
    /// The MKTs without their secrets, by slot.
    parameters: [Option<MktParameters>; N],
    heard: Heard<N>,
    /// Unknown on the passive side until the SYN-ACK is signed.
    local_isn: Option<Isn>,
    good: u64,
    secrets: Secrets<N>,
    remote_isn: Isn,
    /// Counts all segments except the good ones.
    refused: Counters,
}

const _: () = assert!(size_of::<Connection<2>>() <= 704);
// The round keys of AES-128-CMAC, behind the 16 octets of the discriminant, start on a cache line.
const _: () = assert!(core::mem::offset_of!(Connection<2>, secrets) == 128 - 16);
// "What is wiped" names the gap at the end.
#[cfg(all(feature = "default", target_arch = "x86_64"))]
const _: () = assert!(gap_at_end::<2>() == 0 && gap_at_end::<3>() == 48 && gap_at_end::<4>() == 48);

#[cfg(all(feature = "default", target_arch = "x86_64"))]
const fn gap_at_end<const N: usize>() -> usize {
    size_of::<Connection<N>>() - core::mem::offset_of!(Connection<N>, refused) - size_of::<Counters>()
}

impl<const N: usize> Connection<N> {
    const HAS_ROOM: () = assert!(N > 0 && N <= 255, "a connection has room for 1 to 255 MKTs");

    /// A connection that this end opens with a SYN of sequence number `local_isn`.
    ///
    /// The preferred MKT becomes current and rnext key.
    ///
    /// # Errors
    /// [`MktError::NoKey`] if the set has none to sign with.
    pub fn active(pair: SocketPair, local_isn: Isn, mkts: &MktSet<N>) -> Result<Self, MktError> {
        let first = mkts.preferred().ok_or(MktError::NoKey)?.send_id();
        Ok(Self::new(pair, Phase::SynSent, Some(local_isn), Isn::UNKNOWN, mkts, first, first))
    }

    /// A connection opened by a verified SYN from the peer (see [`MktSet::verify_syn`]). It learns this end's ISN from the
    /// SYN-ACK passed to [`sign`](Self::sign).
    ///
    /// The rnext key is the one that signed the SYN. The current key is the one that the SYN's RNextKeyID asks for, or else
    /// the same (RFC 5925 §7.5).
    #[must_use]
    pub fn passive(syn: &VerifiedSyn<'_, '_, N>) -> Self {
        let pair = SocketPair { local: syn.segment().destination(), remote: syn.segment().source() };
        let remote_isn = Isn(syn.segment().sequence().0);
        let signed_with = syn.mkt().send_id();
        let asked_for = syn.asked_for().send_id();
        let mut connection =
            Self::new(pair, Phase::SynReceived, None, remote_isn, syn.mkts(), asked_for, signed_with);
        connection.good = 1;
        connection.heard.asked(syn.rnext_key_id());
        connection
    }

    fn new(
        pair: SocketPair,
        phase: Phase,
        local_isn: Option<Isn>,
        remote_isn: Isn,
        mkts: &MktSet<N>,
        current: KeyId,
        rnext: KeyId,
    ) -> Self {
        let () = Self::HAS_ROOM;
        let (mut parameters, mut master) = ([None; N], MasterKeys::BLANK);
        for ((parameters, master_key), mkt) in parameters.iter_mut().zip(&mut master.keys).zip(mkts.iter()) {
            *parameters = Some(*mkt.parameters());
            master_key.clone_from(mkt.master_key());
        }
        // A slot has the index of its MKT in the set, which is filled from the front. The ids are of MKTs in the set.
        let index = |id| {
            let found = mkts.iter().position(|mkt| mkt.send_id() == id);
            found.map_or(u8::MAX, |index| index as u8)
        };
        let mut heard = Heard::new();
        heard.signs_with(index(current));
        Self {
            pair,
            receive: SneTracker::new(remote_isn),
            send: SneTracker::new(local_isn.unwrap_or(Isn::UNKNOWN)),
            newest_acknowledgment: None,
            phase,
            current: index(current),
            rnext: index(rnext),
            verifies_with: index(rnext),
            parameters,
            heard,
            local_isn,
            good: 0,
            secrets: Secrets::Master(master),
            remote_isn,
            refused: Counters::new(),
        }
    }

    /// Prefetches the two cache lines that locate a segment's key.
    ///
    /// With thousands of connections, call it as soon as you know a packet's connection, then look up those of the other packets before you
    /// read this packet. [`verify_batch`] and [`sign_batch`] fetch the keys themselves.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch(self, core::mem::offset_of!(Self, secrets));
    }

    /// The connection's two ends.
    #[must_use]
    pub const fn pair(&self) -> SocketPair {
        self.pair
    }

    /// This end's ISN; `None` on the passive side until the SYN-ACK has been signed.
    #[must_use]
    pub const fn local_isn(&self) -> Option<Isn> {
        self.local_isn
    }

    /// The peer's ISN; `None` on the active side until the SYN-ACK has verified.
    #[must_use]
    pub fn remote_isn(&self) -> Option<Isn> {
        (self.phase != Phase::SynSent).then_some(self.remote_isn)
    }

    /// The sequence number after the last octet sent, with its SNE; SYN and FIN count as one octet each.
    #[must_use]
    pub const fn highest_sent(&self) -> (Sne, SeqNum) {
        self.send.highest()
    }

    /// The highest verified sequence number, with its SNE; at first the peer's ISN.
    #[must_use]
    pub const fn highest_received(&self) -> (Sne, SeqNum) {
        self.receive.highest()
    }

    /// The acknowledgment number of the newest verified segment; `None` before the first that acknowledges something.
    #[must_use]
    pub const fn newest_acknowledgment(&self) -> Option<SeqNum> {
        self.newest_acknowledgment
    }

    /// Whether both ISNs are confirmed and the traffic keys derived.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// The counters of received segments.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        Counters { good: self.good, ..self.refused }
    }

    /// Whether to ignore an ICMP error about this connection (RFC 5925 §7.8): hard errors, once it is established. An ignored
    /// error is counted.
    ///
    /// [`IcmpError::parse`](crate::IcmpError::parse) reads the error.
    pub fn ignores_icmp(&mut self, icmp: &crate::IcmpError) -> bool {
        let ignore = icmp.is_hard() && self.is_established();
        if ignore {
            self.refused.count_dropped_icmp();
        }
        ignore
    }

    /// Switches to another verified SYN from the peer and to this end's answer. Only during the [`handshake`](Self::handshake).
    pub(crate) fn adopt_handshake(&mut self, handshake: &Handshake) {
        if self.remote_isn != handshake.remote_isn {
            self.remote_isn = handshake.remote_isn;
            self.receive = SneTracker::new(handshake.remote_isn);
            self.current = self.index(|key| key.send_id == handshake.asked_for).unwrap_or(self.current);
            self.heard = Heard::new();
            self.heard.signs_with(self.current);
            self.rnext = self.index(|key| key.recv_id == handshake.signed_with).unwrap_or(self.rnext);
        }
        if self.local_isn != handshake.local_isn {
            self.local_isn = handshake.local_isn;
            let isn = handshake.local_isn.unwrap_or(Isn::UNKNOWN);
            // The SYN-ACK was sent.
            self.send = SneTracker::new(isn);
            self.send.advance(SeqNum(isn.0.wrapping_add(1)));
        }
    }

    /// A connection opened by a SYN that was verified earlier. `None` if its keys are gone.
    pub(crate) fn answering(pair: SocketPair, handshake: &Handshake, mkts: &MktSet<N>) -> Option<Self> {
        let signed_with = mkts.by_recv_id(handshake.signed_with)?.send_id();
        let asked_for = mkts.by_send_id(handshake.asked_for)?.send_id();
        let isn = handshake.remote_isn;
        Some(Self::new(pair, Phase::SynReceived, None, isn, mkts, asked_for, signed_with))
    }

    /// The handshake so far; `None` unless the peer's SYN has verified and the connection is not yet established.
    pub(crate) fn handshake(&self) -> Option<Handshake> {
        let (signed_with, asked_for) = (self.key_in(self.rnext)?.recv_id, self.key_in(self.current)?.send_id);
        (self.phase == Phase::SynReceived).then_some(Handshake {
            remote_isn: self.remote_isn,
            // The connection does not know it.
            payload: 0,
            local_isn: self.local_isn,
            signed_with,
            asked_for,
        })
    }

    /// Both ISNs are confirmed: derives the traffic keys and wipes the master keys.
    fn establish(&mut self, local_isn: Isn) {
        self.phase = Phase::Established;
        self.local_isn = Some(local_isn);
        self.derive_all(local_isn);
    }
}

impl<const N: usize> fmt::Debug for Connection<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("pair", &self.pair)
            .field("phase", &self.phase)
            .field("current_key", &self.current_key().send_id)
            .field("rnext_key", &self.rnext_key().recv_id)
            .field("highest_sent", &self.highest_sent())
            .field("highest_received", &self.highest_received())
            .field("newest_acknowledgment", &self.newest_acknowledgment)
            .field("asked", &self.heard.keys)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
