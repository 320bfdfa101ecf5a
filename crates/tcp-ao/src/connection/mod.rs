//! A connection's authentication: which key, which SNE, which ISNs, from the first SYN to TIME-WAIT.

mod batch;
mod keys;
mod receive;
mod send;
mod slot;
mod state;
mod syn;

use core::fmt;

use crate::counters::Counters;
use crate::error::KeyError;
use crate::mkt::{Mkt, MktSet};
use crate::sne::SneTracker;
use crate::types::{Isn, KeyId, SeqNum, SocketPair};

pub use batch::{mac_batch, sign_batch, verify_batch};
pub use receive::Verified;
use slot::Slot;
pub use state::{ConnectionState, StateError};
pub use syn::VerifiedSyn;

/// How far the handshake has come; what the traffic keys are depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Our SYN is out, the peer's ISN unknown.
    SynSent,
    /// The peer's SYN has verified; ours may have gone out before it (simultaneous open) or goes out as SYN-ACK.
    SynReceived,
    /// Both ISNs have been confirmed. The traffic keys no longer change, so the master keys are gone.
    Established,
}

/// One TCP connection's TCP-AO state, with room for `N` MKTs (RFC 5925 §4.2 to §7.5). No I/O, no clock, no heap.
///
/// Give every segment that arrives to [`verify`](Self::verify) before TCP sees it, and every segment that TCP
/// sends to [`sign`](Self::sign), retransmissions, resets and TIME-WAIT's acknowledgments included.
///
/// With two MKTs it takes at most 1 KiB. When the handshake completes, the traffic keys are derived once and the
/// master keys wiped; from then on nothing but the keys' own bookkeeping happens per segment.
pub struct Connection<const N: usize = 2> {
    pair: SocketPair,
    phase: Phase,
    /// The indices of the current key and the rnext key; both slots are always filled.
    current: u8,
    rnext: u8,
    /// Unknown on the passive side until the SYN-ACK goes out.
    local_isn: Option<Isn>,
    remote_isn: Isn,
    send: SneTracker,
    receive: SneTracker,
    /// The acknowledgment number of the newest segment so far.
    newest_acknowledgment: Option<SeqNum>,
    counters: Counters,
    slots: [Option<Slot>; N],
}

const _: () = assert!(size_of::<Connection<2>>() <= 1024);

impl<const N: usize> Connection<N> {
    const HAS_ROOM: () = assert!(N > 0 && N <= 255, "a connection has room for 1 to 255 MKTs");

    /// A connection that this end opens: the SYN is to carry `local_isn`.
    ///
    /// The preferred MKT of the set becomes current key and rnext key.
    ///
    /// # Errors
    /// [`KeyError::NoKey`] when the set has none to sign with.
    pub fn active(pair: SocketPair, local_isn: Isn, mkts: &MktSet<N>) -> Result<Self, KeyError> {
        let first = mkts.preferred().ok_or(KeyError::NoKey)?.send_id();
        Ok(Self::new(pair, Phase::SynSent, Some(local_isn), Isn::UNKNOWN, mkts, first, first))
    }

    /// A connection that a verified SYN opens at this end (see [`MktSet::verify_syn`]); its ISN is learned from the
    /// SYN-ACK that [`sign`](Self::sign) is given.
    ///
    /// The current key is the one the peer asked for with RNextKeyID if there is such a one, and the rnext key the
    /// one the SYN was signed with (RFC 5925 §7.5).
    #[must_use]
    pub fn passive(syn: &VerifiedSyn<'_, '_, N>) -> Self {
        let pair = SocketPair { local: syn.segment().destination(), remote: syn.segment().source() };
        let remote_isn = Isn(syn.segment().sequence().0);
        let signed_with = syn.mkt().send_id();
        let asked_for = syn.mkts().by_send_id(syn.rnext_key_id()).map_or(signed_with, Mkt::send_id);
        let mut connection =
            Self::new(pair, Phase::SynReceived, None, remote_isn, syn.mkts(), asked_for, signed_with);
        connection.counters.good = 1;
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
        let mut slots = [const { None }; N];
        for (slot, mkt) in slots.iter_mut().zip(mkts.iter()) {
            *slot = Some(Slot::with_master_key(mkt));
        }
        // A set is filled from the front, so that slots and MKTs have the same indices.
        let index = |id| mkts.iter().position(|mkt| mkt.send_id() == id).unwrap_or(0) as u8;
        Self {
            pair,
            phase,
            current: index(current),
            rnext: index(rnext),
            local_isn,
            remote_isn,
            send: SneTracker::new(local_isn.unwrap_or(Isn::UNKNOWN)),
            receive: SneTracker::new(remote_isn),
            newest_acknowledgment: None,
            counters: Counters::default(),
            slots,
        }
    }

    /// The connection's two ends.
    #[must_use]
    pub const fn pair(&self) -> SocketPair {
        self.pair
    }

    /// This end's ISN; `None` on the passive side until the SYN-ACK was signed.
    #[must_use]
    pub const fn local_isn(&self) -> Option<Isn> {
        self.local_isn
    }

    /// The peer's ISN; `None` on the active side until the SYN-ACK has verified.
    #[must_use]
    pub fn remote_isn(&self) -> Option<Isn> {
        (self.phase != Phase::SynSent).then_some(self.remote_isn)
    }

    /// The highest sequence number that has verified; the peer's ISN at first.
    #[must_use]
    pub const fn highest_received(&self) -> SeqNum {
        self.receive.highest().1
    }

    /// Whether the handshake is complete as far as authentication is concerned, and the traffic keys are derived.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// What this connection has received so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether to ignore an ICMP error about this connection, which is counted if so (RFC 5925 §7.8).
    ///
    /// `icmp` is what [`IcmpError::parse`](crate::IcmpError::parse) found. Hard errors are ignored once the
    /// connection is established.
    pub fn ignores_icmp(&mut self, icmp: &crate::IcmpError) -> bool {
        let ignore = icmp.is_hard() && self.is_established();
        if ignore {
            self.counters.count_dropped_icmp();
        }
        ignore
    }

    /// Both ISNs are confirmed: derives every traffic key and forgets the master keys.
    fn establish(&mut self, local_isn: Isn) {
        self.phase = Phase::Established;
        for slot in self.slots.iter_mut().flatten() {
            slot.derive(self.pair, local_isn, self.remote_isn);
        }
    }
}

impl<const N: usize> fmt::Debug for Connection<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("pair", &self.pair)
            .field("phase", &self.phase)
            .field("current_key", &self.current_key().send_id)
            .field("rnext_key", &self.rnext_key().recv_id)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
