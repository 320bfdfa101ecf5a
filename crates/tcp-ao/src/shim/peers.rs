//! The peers, found by their longest prefix, through links in the caller's slots.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use cidr::IpCidr;

use crate::counters::Counters;
use crate::ip::ipv6_octets;
use crate::mkt::{ConnectionIdentifier, MKTS_PER_PEER, Mkt, MktSet, Peer, PeerError};
use crate::shim::HashKey;
use crate::types::{Endpoint, KeyId, SocketPair, canonical_network};

/// No slot.
const NONE: usize = usize::MAX;
/// Bits of an IPv6 address; an IPv4 prefix counts as one of IPv4-mapped addresses.
const BITS: u8 = 128;

/// A slot for one peer of a [`Shim`](crate::shim::Shim): made from a [`Peer`], or empty for one that is added later.
pub struct PeerSlot {
    peer: Option<Peer>,
    counters: Counters,
    /// Until when segments that do not verify pass; zero once that is over.
    accepts_mismatches_until: Duration,
    /// The first slot of the bucket that has this slot's number.
    bucket: usize,
    /// The next slot of the bucket that this slot's peer is in, or the next free slot.
    next: usize,
}

impl PeerSlot {
    /// A free slot.
    pub const EMPTY: Self = Self {
        peer: None,
        counters: Counters::new(),
        accepts_mismatches_until: Duration::ZERO,
        bucket: NONE,
        next: NONE,
    };
}

impl From<Peer> for PeerSlot {
    fn from(peer: Peer) -> Self {
        Self { peer: Some(peer), ..Self::EMPTY }
    }
}

impl fmt::Debug for PeerSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerSlot").field(&self.peer).finish()
    }
}

/// A prefix as one number and its length, 0 to 128.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Prefix(u128, u8);

impl Prefix {
    fn of(network: IpCidr) -> Self {
        let network = canonical_network(network);
        let length = network.network_length() + if network.is_ipv4() { 96 } else { 0 };
        Self::new(number(network.first_address()), length)
    }

    fn new(address: u128, length: u8) -> Self {
        Self(address & u128::MAX.checked_shl(u32::from(BITS - length)).unwrap_or(0), length)
    }
}

fn number(address: IpAddr) -> u128 {
    u128::from_be_bytes(ipv6_octets(address))
}

/// The lengths of the prefixes, and how many ports there are.
fn specificity(connections: &ConnectionIdentifier) -> (u8, u8, usize) {
    let ports = [connections.local_port, connections.remote_port].iter().flatten().count();
    (Prefix::of(connections.remote).1, Prefix::of(connections.local).1, ports)
}

pub(super) struct Peers<P> {
    slots: P,
    hash_key: HashKey,
    free: usize,
    /// How many peers have a remote prefix of each length, 0 to 128.
    counts: [u32; BITS as usize + 1],
    /// The lengths in use, without 0: bit 0 for a length of 1.
    lengths: u128,
    /// When the first peer's mismatches stop being accepted. Usually no peer's are, and then no slot needs to be read.
    mismatches_end: Option<Duration>,
}

impl<P: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>> Peers<P> {
    pub(super) fn new(hash_key: HashKey, mut slots: P) -> Result<Self, PeerError> {
        for slot in slots.as_mut() {
            *slot = PeerSlot { peer: slot.peer.take(), ..PeerSlot::EMPTY };
        }
        let mut peers = Self {
            slots,
            hash_key,
            free: NONE,
            counts: [0; BITS as usize + 1],
            lengths: 0,
            mismatches_end: None,
        };
        peers.link_all();
        peers.iter().try_for_each(|(index, peer)| peers.check_all(index, peer))?;
        Ok(peers)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Peer)> {
        self.iter_from(0)
    }

    pub(super) fn iter_from(&self, index: usize) -> impl Iterator<Item = (usize, &Peer)> {
        let slots = self.slots.as_ref().iter().enumerate().skip(index);
        slots.filter_map(|(index, slot)| Some((index, slot.peer.as_ref()?)))
    }

    pub(super) fn get(&self, index: usize) -> Option<&Peer> {
        self.slots.as_ref().get(index)?.peer.as_ref()
    }

    pub(super) fn counters(&self, index: usize) -> Option<&Counters> {
        let slot = self.slots.as_ref().get(index)?;
        slot.peer.as_ref().map(|_| &slot.counters)
    }

    pub(super) fn counters_mut(&mut self, index: usize) -> Option<&mut Counters> {
        Some(&mut self.slots.as_mut().get_mut(index)?.counters)
    }

    pub(super) fn accept_mismatches(&mut self, index: usize, until: Duration) -> Result<(), PeerError> {
        self.get(index).ok_or(PeerError::NoSuchPeer(index))?;
        self.slots.as_mut()[index].accepts_mismatches_until = until;
        self.find_end_of_mismatches();
        Ok(())
    }

    /// Ends the acceptance of mismatches whose time has come. It stays over when the clock goes back.
    pub(super) fn end_mismatches(&mut self, now: Duration) {
        if self.mismatches_end.is_some_and(|end| end <= now) {
            let slots = self.slots.as_mut().iter_mut();
            for slot in slots.filter(|slot| slot.accepts_mismatches_until <= now) {
                slot.accepts_mismatches_until = Duration::ZERO;
            }
            self.find_end_of_mismatches();
        }
    }

    fn find_end_of_mismatches(&mut self) {
        let ends = self.slots.as_ref().iter().map(|slot| slot.accepts_mismatches_until);
        self.mismatches_end = ends.filter(|end| !end.is_zero()).min();
    }

    /// Whether mismatches pass on this connection of the peer's. Not if a strict peer covers it too and is equally or more specific: a
    /// forged segment could choose between the two by its KeyID.
    ///
    /// Call [`end_mismatches`](Self::end_mismatches) first.
    pub(super) fn accepts_mismatches(&self, index: usize, pair: &SocketPair) -> bool {
        let slot = |index: usize| self.slots.as_ref().get(index);
        let accepts = |index| slot(index).is_some_and(|slot| !slot.accepts_mismatches_until.is_zero());
        if self.mismatches_end.is_none() || !accepts(index) {
            return false;
        }
        let specificity = |index| self.get(index).map(|peer| specificity(&peer.connections));
        let strict =
            self.most_specific(pair, &|other, peer| !accepts(other) && peer.connections.contains(pair));
        strict.is_none_or(|strict| specificity(strict) < specificity(index))
    }

    pub(super) fn add(&mut self, peer: Peer) -> Result<usize, PeerError> {
        let index = self.free;
        if index == NONE {
            return Err(PeerError::TooMany { room: self.slots.as_ref().len() });
        }
        self.check_all(index, &peer)?;
        let slot = &mut self.slots.as_mut()[index];
        self.free = slot.next;
        (slot.peer, slot.counters) = (Some(peer), Counters::new());
        slot.accepts_mismatches_until = Duration::ZERO;
        self.link(index);
        Ok(index)
    }

    pub(super) fn remove(&mut self, index: usize) -> Result<Peer, PeerError> {
        let remote = self.get(index).ok_or(PeerError::NoSuchPeer(index))?.connections.remote;
        let prefix = Prefix::of(remote);
        let bucket = self.bucket_of(prefix);
        let slots = self.slots.as_mut();
        let next = slots[index].next;
        if slots[bucket].bucket == index {
            slots[bucket].bucket = next;
        } else {
            let mut before = slots[bucket].bucket;
            while slots[before].next != index {
                before = slots[before].next;
            }
            slots[before].next = next;
        }
        slots[index].next = core::mem::replace(&mut self.free, index);
        self.count(prefix.1, -1);
        let slot = &mut self.slots.as_mut()[index];
        let peer = slot.peer.as_mut().ok_or(PeerError::NoSuchPeer(index))?;
        // Overwrites the secrets; `Option::take` would leave them in the slot.
        let mkts = core::mem::take(&mut peer.mkts);
        let removed = Peer { connections: peer.connections, mkts };
        // From a constant: its unused octets are zeros, not what the stack had there.
        (slot.peer, slot.accepts_mismatches_until) = (const { None }, Duration::ZERO);
        Ok(removed)
    }

    pub(super) fn set_mkts(&mut self, index: usize, mkts: MktSet<MKTS_PER_PEER>) -> Result<(), PeerError> {
        let peer = self.get(index).ok_or(PeerError::NoSuchPeer(index))?;
        let peer = Peer { connections: peer.connections, mkts };
        self.check_all(index, &peer)?;
        self.slots.as_mut()[index].peer = Some(peer);
        Ok(())
    }

    /// [`set_mkts`](Self::set_mkts) that leaves out the MKTs that clash, so that removed keys are gone in any case. Returns the peer's
    /// keys, and a clash if there is one.
    pub(super) fn set_mkts_that_fit(
        &mut self,
        index: usize,
        mkts: &MktSet<MKTS_PER_PEER>,
    ) -> Result<(MktSet<MKTS_PER_PEER>, Result<(), PeerError>), PeerError> {
        let connections = self.get(index).ok_or(PeerError::NoSuchPeer(index))?.connections;
        let (mut fitting, mut clash) = (MktSet::new(), Ok(()));
        for mkt in mkts.iter() {
            match self.check(index, &connections, mkt) {
                // A part of a set always fits.
                Ok(()) => fitting.push(mkt.clone()).unwrap_or(()),
                Err(error) => clash = clash.and(Err(error)),
            }
        }
        self.slots.as_mut()[index].peer = Some(Peer { connections, mkts: fitting.clone() });
        Ok((fitting, clash))
    }

    /// Moves the peers into other slots with the same indices. No secret is left in the old slots.
    pub(super) fn move_to(&mut self, mut slots: P) -> Result<(), PeerError> {
        let room = slots.as_ref().len();
        if self.iter().any(|(index, _)| index >= room) {
            return Err(PeerError::TooMany { room });
        }
        slots.as_mut().fill_with(|| PeerSlot::EMPTY);
        for (new, old) in slots.as_mut().iter_mut().zip(self.slots.as_mut()) {
            let Some(peer) = &mut old.peer else { continue };
            let moved = new.peer.insert(Peer { connections: peer.connections, mkts: MktSet::new() });
            core::mem::swap(&mut moved.mkts, &mut peer.mkts);
            (new.counters, new.accepts_mismatches_until) = (old.counters, old.accepts_mismatches_until);
        }
        self.slots = slots;
        self.link_all();
        Ok(())
    }

    /// The peer that a connection belongs to: the one with the most specific prefixes and ports. Among equally specific ones a received
    /// segment's KeyID decides (RFC 5925 §3.3); without one, or if none has that key, one with a key to sign with is taken.
    pub(super) fn of(&self, pair: &SocketPair, key_id: Option<KeyId>) -> Option<usize> {
        let most_specific = self.most_specific(pair, &|_, peer| peer.connections.contains(pair))?;
        let has_key = |peer: &Peer| match key_id {
            Some(id) => peer.mkts.by_recv_id(id).is_some(),
            None => peer.mkts.preferred().is_some(),
        };
        let best = self.get(most_specific).filter(|peer| !has_key(peer)).map(|peer| peer.connections);
        let Some(best) = best else { return Some(most_specific) };
        let equal = |is_wanted: &dyn Fn(&Peer) -> bool| {
            self.most_specific(pair, &|_, peer| {
                peer.connections.contains(pair)
                    && specificity(&peer.connections) == specificity(&best)
                    && is_wanted(peer)
            })
        };
        let signs = |peer: &Peer| peer.mkts.preferred().is_some();
        equal(&has_key).or_else(|| equal(&signs)).or(Some(most_specific))
    }

    /// The peers whose remote prefixes contain this one's: they may have connections that now belong to it.
    pub(super) fn wider_than(&self, index: usize) -> impl Iterator<Item = usize> {
        let own = self.get(index).map(|peer| Prefix::of(peer.connections.remote));
        let others = own.into_iter().flat_map(move |own| {
            self.lengths_up_to(own.1).flat_map(move |length| self.with_remote(Prefix::new(own.0, length)))
        });
        others.map(|(other, _)| other).filter(move |other| *other != index)
    }

    /// Whether a peer is configured for any connection of one of these local addresses with one of these remote ones.
    pub(super) fn cover(&self, locals: &[IpAddr], remotes: &[IpAddr]) -> bool {
        let mut pairs = locals.iter().flat_map(|local| {
            let local = Endpoint::new(*local, 0);
            remotes.iter().map(move |remote| SocketPair { local, remote: Endpoint::new(*remote, 0) })
        });
        pairs.any(|pair| {
            self.most_specific(&pair, &|_, peer| peer.connections.contains_addresses(&pair)).is_some()
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// Looks into one bucket for each prefix length in use, the longest first. Takes `&dyn Fn`: each monomorphised copy costs flash.
    fn most_specific(&self, pair: &SocketPair, is_wanted: &dyn Fn(usize, &Peer) -> bool) -> Option<usize> {
        let address = number(pair.remote.address());
        let found = |length| {
            let peers = self
                .with_remote(Prefix::new(address, length))
                .filter(|(index, peer)| is_wanted(*index, peer));
            // Usually one peer matches; `reduce` then compares nothing.
            let specific = peers.reduce(|best, other| {
                let [of_best, of_other] = [best, other].map(|(_, peer)| specificity(&peer.connections));
                if of_other >= of_best { other } else { best }
            });
            specific.map(|(index, _)| index)
        };
        self.lengths_up_to(BITS).find_map(found)
    }

    /// The lengths of remote prefixes from `longest` down to 0.
    fn lengths_up_to(&self, longest: u8) -> impl Iterator<Item = u8> + use<P> {
        let mut left = self.lengths & u128::MAX.checked_shr(u32::from(BITS - longest)).unwrap_or(0);
        let positive = core::iter::from_fn(move || {
            let length = BITS - left.leading_zeros() as u8;
            left &= !1_u128.checked_shl(u32::from(length).wrapping_sub(1))?;
            Some(length)
        });
        positive.chain([0])
    }

    fn with_remote(&self, prefix: Prefix) -> impl Iterator<Item = (usize, &Peer)> {
        let slots = self.slots.as_ref();
        let mut index = slots.get(self.bucket_of(prefix)).map_or(NONE, |slot| slot.bucket);
        let peers = core::iter::from_fn(move || {
            let slot = slots.get(index)?;
            let found = (index, slot.peer.as_ref()?);
            index = slot.next;
            Some(found)
        });
        peers.filter(move |(_, peer)| Prefix::of(peer.connections.remote) == prefix)
    }

    /// Refuses an MKT that shares an id with another peer's for a connection that could belong to either (RFC 5925 §3.1). Only equally
    /// specific peers can clash: otherwise the more specific one has the connection to itself.
    fn check(&self, index: usize, connections: &ConnectionIdentifier, mkt: &Mkt) -> Result<(), PeerError> {
        self.with_remote(Prefix::of(connections.remote)).try_for_each(|(other, peer)| {
            if other == index
                || specificity(connections) != specificity(&peer.connections)
                || !connections.overlaps(&peer.connections)
            {
                return Ok(());
            }
            let clash = peer.mkts.check_ids(mkt.parameters());
            clash.map_err(|error| PeerError::Overlap { peer: index, other, error })
        })
    }

    fn check_all(&self, index: usize, peer: &Peer) -> Result<(), PeerError> {
        if !peer.connections.is_possible() {
            return Err(PeerError::NoConnection(index));
        }
        peer.mkts.iter().try_for_each(|mkt| self.check(index, &peer.connections, mkt))
    }

    /// Links slots that are not linked yet.
    fn link_all(&mut self) {
        (self.free, self.counts, self.lengths) = (NONE, [0; BITS as usize + 1], 0);
        for index in (0..self.slots.as_ref().len()).rev() {
            if self.get(index).is_none() {
                self.slots.as_mut()[index].next = core::mem::replace(&mut self.free, index);
            }
        }
        for index in 0..self.slots.as_ref().len() {
            self.link(index);
        }
    }

    fn link(&mut self, index: usize) {
        let Some(peer) = self.get(index) else { return };
        let prefix = Prefix::of(peer.connections.remote);
        let bucket = self.bucket_of(prefix);
        let first = core::mem::replace(&mut self.slots.as_mut()[bucket].bucket, index);
        self.slots.as_mut()[index].next = first;
        self.count(prefix.1, 1);
    }

    fn count(&mut self, length: u8, change: i32) {
        let count = &mut self.counts[usize::from(length)];
        *count = count.saturating_add_signed(change);
        if let Some(bit) = 1_u128.checked_shl(u32::from(length).wrapping_sub(1)) {
            self.lengths = if *count > 0 { self.lengths | bit } else { self.lengths & !bit };
        }
    }

    fn bucket_of(&self, Prefix(address, length): Prefix) -> usize {
        self.hash_key.place_of_prefix(address, length, self.slots.as_ref().len())
    }
}
