//! IP fragments, put together (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! Written here because etherparse's buffers let later fragments overwrite earlier ones, and its pool may grow without limit.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use wireseal_tcp_ao::ip::{IPV4_HEADER_LENGTH, IPV6_HEADER_LENGTH};

use super::Place;
use super::layers::Rest;
use super::scope::Scope;
use super::skipped::Incomplete;

/// How many packets wait for fragments at a time.
const MOST_WAITING: usize = 1024;
/// Octets of what is kept of them, in all: payloads, headers, and lists of fragments.
const MOST_OCTETS: usize = 4 << 20;
/// Fragments of one packet; Ethernet needs 45 for the longest.
const MOST_PARTS: usize = 512;
/// How long a packet waits after its first fragment (RFC 8200 §4.5), and how many packets of the capture if it has no times.
const WAIT_NANOSECONDS: u64 = 60_000_000_000;
const WAIT_PACKETS: u64 = 100_000;
/// How many packets are remembered after they were put together, for copies of their fragments.
const REMEMBERED: usize = 16;
/// Octets of the longest packet that a length field allows: it counts IPv4's header, but not IPv6's.
const LONGEST: usize = 65_535;

/// An IP fragment as recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    /// From its IP header to the end of its payload.
    pub(super) packet: &'a [u8],
    /// How many more octets it had on the wire.
    pub(super) missing: usize,
    pub(super) scope: Scope,
    /// The IP protocol number of the whole packet.
    pub(super) protocol: u8,
}

impl<'a> Fragment<'a> {
    /// The fragment at which reading a packet ended.
    pub(super) const fn of(rest: &Rest<'a>, protocol: u8) -> Self {
        Self { packet: rest.octets, missing: rest.missing, scope: rest.scope, protocol }
    }
}

/// Fragments that were given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenUp {
    /// The IP protocol number of the whole packet.
    pub protocol: u8,
    /// Why.
    pub why: Incomplete,
    /// How many packets of the capture had a fragment of it.
    pub packets: u64,
}

/// What the fragments of one packet have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    addresses: [IpAddr; 2],
    identification: u32,
    /// Only in IPv4.
    protocol: Option<u8>,
    scope: Scope,
}

/// One fragment.
struct Part<'a> {
    key: Key,
    /// The headers that every fragment has.
    headers: &'a [u8],
    /// Where in the headers the protocol is written, and what it is.
    protocol: (usize, u8),
    start: usize,
    is_last: bool,
    payload: &'a [u8],
}

impl<'a> Part<'a> {
    fn read(packet: &'a [u8], scope: Scope) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::read_ipv4(packet, scope),
            _ => Self::read_ipv6(packet, scope),
        }
    }

    fn read_ipv4(packet: &'a [u8], scope: Scope) -> Option<Self> {
        let header = packet.first_chunk::<IPV4_HEADER_LENGTH>()?;
        let (headers, payload) = packet.split_at_checked(usize::from(header[0] & 0x0f) * 4)?;
        let field = u16::from_be_bytes([header[6], header[7]]);
        let address = |start| Some(IpAddr::from(*header.get(start..)?.first_chunk::<4>()?));
        let key = Key {
            addresses: [address(12)?, address(16)?],
            identification: u16::from_be_bytes([header[4], header[5]]).into(),
            protocol: Some(header[9]),
            scope,
        };
        let start = usize::from(field & 0x1fff) * 8;
        let is_last = field & 0x2000 == 0;
        Some(Self { key, headers, protocol: (9, header[9]), start, is_last, payload })
    }

    fn read_ipv6(packet: &'a [u8], scope: Scope) -> Option<Self> {
        const FRAGMENT: u8 = 44;
        const AUTHENTICATION_HEADER: u8 = 51;
        let address = |start| Some(IpAddr::from(*packet.get(start..)?.first_chunk::<16>()?));
        let (mut place, mut end) = (6, IPV6_HEADER_LENGTH);
        loop {
            let header = packet.get(end..)?.first_chunk::<8>()?;
            let [next, length, high, low, identification @ ..] = *header;
            let field = u16::from_be_bytes([high, low]);
            let kind = packet[place];
            // A fragment header of a whole packet (RFC 6946) is like any other header.
            if kind == FRAGMENT && field & 0xfff9 != 0 {
                let key = Key {
                    addresses: [address(8)?, address(24)?],
                    identification: u32::from_be_bytes(identification),
                    protocol: None,
                    scope,
                };
                let (headers, start, is_last) = (&packet[..end], usize::from(field & 0xfff8), field & 1 == 0);
                return Some(Self {
                    key,
                    headers,
                    protocol: (place, next),
                    start,
                    is_last,
                    payload: &packet[end + 8..],
                });
            }
            place = end;
            end += match kind {
                FRAGMENT => 8,
                AUTHENTICATION_HEADER => (usize::from(length) + 2) * 4,
                _ => (usize::from(length) + 1) * 8,
            };
        }
    }
}

/// What a fragment completes.
pub(super) enum Joined {
    /// It waits for others, or its packet was given up.
    Waiting,
    /// The whole packet, from its IP header on.
    Whole(Vec<u8>),
}

/// A packet that waits for fragments.
#[derive(Debug)]
struct Waiting {
    since: Place,
    protocol: u8,
    /// How many packets of the capture had a fragment of it.
    packets: u64,
    /// The first fragment's headers.
    headers: Option<Vec<u8>>,
    /// The fragments' octets, in the order of arrival.
    octets: Vec<u8>,
    /// Where each fragment begins in the packet and in `octets`, and its length, in the order of the packet.
    parts: Vec<[usize; 3]>,
    /// Octets of the whole payload, once the last fragment was seen.
    length: Option<usize>,
    /// Once it was given up; its other fragments are too (RFC 5722 §4).
    given_up: Option<Incomplete>,
}

impl Waiting {
    /// Octets that it takes.
    fn size(&self) -> usize {
        self.octets.len() + self.headers.as_ref().map_or(0, Vec::len) + size_of_val(&self.parts[..])
    }

    /// Adds a fragment; `false` for a copy of what is there.
    fn add(&mut self, part: &Part<'_>) -> Result<bool, Incomplete> {
        let (start, payload) = (part.start, part.payload);
        let end = start + payload.len();
        if payload.is_empty() || !part.is_last && !payload.len().is_multiple_of(8) || end > LONGEST {
            return Err(Incomplete::Length);
        }
        let at = self.parts.partition_point(|[other, ..]| *other < start);
        let overlaps = |[other, _, length]: &[usize; 3]| *other < end && start < other + length;
        let neighbours = self.parts.get(at.saturating_sub(1)..).unwrap_or_default().iter().take(2);
        for known @ [other, from, length] in neighbours {
            if (*other, *length) == (start, payload.len()) && self.octets[*from..][..*length] == *payload {
                return Ok(false);
            }
            if overlaps(known) {
                return Err(Incomplete::Overlap);
            }
        }
        if part.is_last && self.length.replace(end).is_some_and(|length| length != end) {
            return Err(Incomplete::Length);
        }
        let furthest = self.parts.last().map_or(end, |[other, _, length]| end.max(other + length));
        if self.length.is_some_and(|length| length < furthest) {
            return Err(Incomplete::Length);
        }
        if self.parts.len() >= MOST_PARTS {
            return Err(Incomplete::TooMany);
        }
        self.parts.insert(at, [start, self.octets.len(), payload.len()]);
        self.octets.extend_from_slice(payload);
        if start == 0 {
            let mut headers = part.headers.to_vec();
            headers[part.protocol.0] = part.protocol.1;
            self.headers = Some(headers);
        }
        Ok(true)
    }

    /// The whole packet, if nothing is missing: as if it had never been fragmented.
    fn whole(&self) -> Option<Result<Vec<u8>, Incomplete>> {
        // Without overlaps, all octets are there as soon as there are enough.
        let length = self.length.filter(|length| *length == self.octets.len())?;
        let headers = self.headers.as_ref()?;
        let is_ipv4 = headers[0] >> 4 == 4;
        let counted = length + headers.len() - if is_ipv4 { 0 } else { IPV6_HEADER_LENGTH };
        let Ok(counted) = u16::try_from(counted) else { return Some(Err(Incomplete::Length)) };
        let mut packet = Vec::with_capacity(headers.len() + length);
        packet.extend_from_slice(headers);
        let place = if is_ipv4 { 2 } else { 4 };
        packet[place..place + 2].copy_from_slice(&counted.to_be_bytes());
        if is_ipv4 {
            packet[6..8].fill(0);
        }
        for [_, from, length] in &self.parts {
            packet.extend_from_slice(&self.octets[*from..][..*length]);
        }
        Some(Ok(packet))
    }
}

/// Fragments that wait for the rest of their packets.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    waiting: HashMap<Key, Waiting, RandomState>,
    /// In the order of their first fragments, with the number of the packet that had it.
    order: VecDeque<(Key, Place)>,
    /// Octets of all of them, see [`Waiting::size`].
    octets: usize,
    /// Packets that were put together, for copies of their fragments: key and payload.
    joined: VecDeque<(Key, Vec<u8>)>,
    given_up: Vec<GivenUp>,
    /// Packets of the capture that had no more than a fragment of a later one.
    pub(super) reassembled: u64,
}

impl Fragments {
    /// Adds a fragment of the capture's packet at `now`.
    pub(super) fn add(&mut self, fragment: &Fragment<'_>, now: Place) -> Joined {
        self.give_up_old(now);
        let Fragment { packet, missing, scope, protocol } = *fragment;
        let Some(part) = Part::read(packet, scope) else {
            self.note(protocol, Incomplete::Length, 1);
            return Joined::Waiting;
        };
        let key = part.key;
        if self.is_copy(&part) {
            self.reassembled += 1;
            return Joined::Waiting;
        }
        let order = &mut self.order;
        let waiting = self.waiting.entry(key).or_insert_with(|| {
            order.push_back((key, now));
            Waiting {
                since: now,
                protocol,
                packets: 0,
                headers: None,
                octets: Vec::new(),
                parts: Vec::new(),
                length: None,
                given_up: None,
            }
        });
        if let Some(why) = waiting.given_up {
            let protocol = waiting.protocol;
            self.note(protocol, why, 1);
            return Joined::Waiting;
        }
        waiting.packets += 1;
        if part.start == 0 {
            // In IPv6, the first fragment alone has the headers that say it.
            waiting.protocol = protocol;
        }
        let before = waiting.size();
        let added = if missing > 0 { Err(Incomplete::CutOff) } else { waiting.add(&part) };
        self.octets += waiting.size() - before;
        let whole = match added {
            Ok(true) => waiting.whole().transpose(),
            Ok(false) => Ok(None),
            Err(why) => Err(why),
        };
        match whole {
            Ok(None) => {
                while self.octets > MOST_OCTETS || self.waiting.len() > MOST_WAITING {
                    self.give_up_oldest(Incomplete::TooMany);
                }
                Joined::Waiting
            }
            Ok(Some(packet)) => {
                if let Some(waiting) = self.take(&key) {
                    // The last fragment's packet counts as the whole one.
                    self.reassembled += waiting.packets - 1;
                    if self.joined.len() == REMEMBERED {
                        self.joined.pop_front();
                    }
                    let payload = packet[packet.len() - waiting.octets.len()..].to_vec();
                    self.joined.push_back((key, payload));
                }
                Joined::Whole(packet)
            }
            Err(why) => {
                self.octets -= waiting.size();
                (waiting.headers, waiting.octets, waiting.parts) = (None, Vec::new(), Vec::new());
                waiting.given_up = Some(why);
                let (protocol, packets) = (waiting.protocol, std::mem::take(&mut waiting.packets));
                self.note(protocol, why, packets);
                Joined::Waiting
            }
        }
    }

    /// Whether a packet that was just put together has this fragment, as when both sides of a bridge are recorded.
    fn is_copy(&self, part: &Part<'_>) -> bool {
        let (start, end) = (part.start, part.start + part.payload.len());
        self.joined.iter().any(|(key, payload)| {
            *key == part.key
                && payload.get(start..end) == Some(part.payload)
                && !self.waiting.contains_key(key)
        })
    }

    fn take(&mut self, key: &Key) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        self.octets -= waiting.size();
        self.order.retain(|(other, since)| other != key || *since != waiting.since);
        Some(waiting)
    }

    fn note(&mut self, protocol: u8, why: Incomplete, packets: u64) {
        match self.given_up.iter_mut().find(|known| (known.protocol, known.why) == (protocol, why)) {
            Some(known) => known.packets += packets,
            None => self.given_up.push(GivenUp { protocol, why, packets }),
        }
    }

    fn give_up_oldest(&mut self, why: Incomplete) {
        let Some((key, _)) = self.order.pop_front() else { return };
        let Some(waiting) = self.waiting.remove(&key) else { return };
        self.octets -= waiting.size();
        if waiting.packets > 0 {
            self.note(waiting.protocol, why, waiting.packets);
        }
    }

    fn give_up_old(&mut self, now: Place) {
        while let Some((_, since)) = self.order.front() {
            let is_old = match (since.time, now.time) {
                (Some(since), Some(now)) => {
                    now.unix_nanoseconds().saturating_sub(since.unix_nanoseconds()) >= WAIT_NANOSECONDS
                }
                _ => now.packet.saturating_sub(since.packet) >= WAIT_PACKETS,
            };
            if !is_old {
                return;
            }
            self.give_up_oldest(Incomplete::Missing);
        }
    }

    /// Gives up everything that still waits.
    pub(super) fn give_up_all(&mut self) {
        while !self.order.is_empty() {
            self.give_up_oldest(Incomplete::Missing);
        }
    }

    /// What was given up since the last call.
    pub(super) fn take_given_up(&mut self) -> Vec<GivenUp> {
        std::mem::take(&mut self.given_up)
    }
}
