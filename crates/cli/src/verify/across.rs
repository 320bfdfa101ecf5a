//! What the connections of a capture show together: which secrets differ, and which segments were recorded twice.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use wireseal_tcp_ao::option::{MAX_OPTIONS_LENGTH, Options, TCP_HEADER_LENGTH};
use wireseal_tcp_ao::{Endpoint, Isn, Segment};

use super::learn::Wait;
use crate::capture::{Place, Scope};

/// How many pairs of addresses are remembered.
const MOST_PAIRS: usize = 1 << 14;
/// How many keys of a sender are kept.
const MOST_KEYS: usize = 16;

/// What all connections of each pair of addresses in a virtual network show of the keys at both ends. If each end opens a connection of its own and the
/// other drops its SYNs, no single connection shows that their secrets differ.
#[derive(Default, Debug)]
pub(super) struct Agreement {
    /// By virtual network, sender and receiver.
    seen: HashMap<(Scope, [IpAddr; 2]), SeenKeys, RandomState>,
    pub(super) copies: Copies,
    pub(super) removed: Removed,
}

/// Indices of keys, see [`Candidate::key`].
#[derive(Default, Debug)]
struct SeenKeys {
    /// Keys under which a segment verified.
    verified: Vec<u32>,
    /// Keys that a segment named although nothing explains its MAC.
    unexplained: Vec<u32>,
}

impl Agreement {
    pub(super) fn note_verified(&mut self, scope: Scope, from: IpAddr, to: IpAddr, key: u32) {
        self.note((scope, [from, to]), key, |seen| &mut seen.verified);
    }

    pub(super) fn note_unexplained(&mut self, scope: Scope, from: IpAddr, to: IpAddr, key: u32) {
        self.note((scope, [from, to]), key, |seen| &mut seen.unexplained);
    }

    fn note(&mut self, of: (Scope, [IpAddr; 2]), key: u32, list: fn(&mut SeenKeys) -> &mut Vec<u32>) {
        let (_, [from, to]) = of;
        // If both ends have one address, it does not show which end sent what.
        if from == to || self.seen.len() >= MOST_PAIRS && !self.seen.contains_key(&of) {
            return;
        }
        let keys = list(self.seen.entry(of).or_default());
        if keys.len() < MOST_KEYS && !keys.contains(&key) {
            keys.push(key);
        }
    }

    /// Whether a key verifies segments of `right` to `wrong` and none of `wrong`, some of whose segments name it and remain unexplained.
    pub(super) fn is_key_of_only(&self, scope: Scope, right: IpAddr, wrong: IpAddr, key: u32) -> bool {
        let seen = |from, to| self.seen.get(&(scope, [from, to]));
        let (Some(right), Some(wrong)) = (seen(right, wrong), seen(wrong, right)) else { return false };
        right.verified.contains(&key) && wrong.unexplained.contains(&key) && !wrong.verified.contains(&key)
    }
}

/// Octets of the shortest MAC that two segments do not share by chance.
const LEAST_MAC: usize = 8;
const MOST_MAC: usize = 16;
/// How many MACs are remembered; the oldest is forgotten first.
const MOST: usize = 1 << 14;
/// How many more segments with one MAC are told apart.
const MOST_OTHERS: usize = 3;
/// The kind of the timestamps option (RFC 7323 §3).
const TIMESTAMPS: u8 = 8;
const MAX_HEADER: usize = TCP_HEADER_LENGTH + MAX_OPTIONS_LENGTH;
/// A device passes a segment on within this time. What has the same MAC later may have been replayed.
const NEAR: Wait = Wait { nanoseconds: 1_000_000_000, packets: 1000 };

/// A MAC, filled up with zeros.
type MacOctets = [u8; MOST_MAC];

/// The MAC, if it is long enough to tell segments apart.
fn mac_octets(mac: &[u8]) -> Option<MacOctets> {
    let mut octets = [0; MOST_MAC];
    octets.get_mut(..mac.len()).filter(|_| mac.len() >= LEAST_MAC)?.copy_from_slice(mac);
    Some(octets)
}

/// The segments with SYN, by their MACs. Two with one MAC are one segment, recorded on both sides of a device that changed it.
#[derive(Default, Debug)]
pub(super) struct Copies {
    /// The first segment with each MAC; most have no other.
    by_mac: HashMap<MacOctets, Copied, RandomState>,
    others: HashMap<MacOctets, Vec<Copied>, RandomState>,
    /// The MACs, oldest first.
    order: VecDeque<MacOctets>,
    /// The MACs with more than one segment, by the numbers of their connections.
    changed: HashMap<u64, Vec<MacOctets>, RandomState>,
}

/// A segment and its retransmissions, in one place on the path.
#[derive(Debug)]
pub(super) struct Copied {
    /// The number of its connection.
    pub(super) connection: u64,
    /// Source and destination.
    pub(super) ends: [Endpoint; 2],
    /// The TCP header without its checksum, filled up with zeros.
    header: [u8; MAX_HEADER],
    pub(super) first: Place,
    last: Place,
    pub(super) is_good: bool,
}

impl Copies {
    pub(super) fn note(
        &mut self,
        connection: u64,
        place: Place,
        segment: &Segment<'_>,
        mac: &[u8],
        is_good: bool,
    ) {
        let Some(mac) = mac_octets(mac) else { return };
        let ends = [segment.source(), segment.destination()];
        let mut header = [0; MAX_HEADER];
        header[..segment.header().len()].copy_from_slice(segment.header());
        header[CHECKSUM].fill(0);
        let new = Copied { connection, ends, header, first: place, last: place, is_good };
        let first = match self.by_mac.entry(mac) {
            Entry::Occupied(first) => first.into_mut(),
            Entry::Vacant(room) => {
                room.insert(new);
                self.order.push_back(mac);
                if self.order.len() > MOST
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.by_mac.remove(&oldest);
                    self.others.remove(&oldest);
                }
                return;
            }
        };
        if first.is_repeated_by(&new) {
            return first.repeat(&new);
        }
        let others = self.others.entry(mac).or_default();
        let has_room = others.len() < MOST_OTHERS;
        match others.iter_mut().find(|copy| copy.is_repeated_by(&new)) {
            Some(copy) => copy.repeat(&new),
            None if has_room => others.push(new),
            None => return,
        }
        for copy in [&*first].into_iter().chain(others.iter()) {
            if self.changed.len() < MOST || self.changed.contains_key(&copy.connection) {
                let macs = self.changed.entry(copy.connection).or_default();
                if macs.len() < MOST_OTHERS && !macs.contains(&mac) {
                    macs.push(mac);
                }
            }
        }
    }

    /// A segment of a connection, one that does not verify if `fails`, and the same segment in another place, one that verifies if there
    /// is one.
    pub(super) fn pair(&self, connection: u64, fails: bool) -> Option<[&Copied; 2]> {
        self.changed.get(&connection)?.iter().find_map(|mac| {
            let copies = || self.of_mac(mac);
            let own = copies().find(|copy| copy.connection == connection && !(fails && copy.is_good))?;
            // Under other addresses it may have been recorded by another clock.
            let is_copy =
                |copy: &&Copied| !std::ptr::eq(*copy, own) && (copy.ends != own.ends || copy.is_near(own));
            let others = copies().filter(is_copy);
            Some([own, others.max_by_key(|copy| (copy.is_near(own), copy.is_good))?])
        })
    }

    fn of_mac(&self, mac: &MacOctets) -> impl Iterator<Item = &Copied> {
        self.by_mac.get(mac).into_iter().chain(self.others.get(mac).into_iter().flatten())
    }

    /// As [`Copied::shifts_from`], for a [`pair`](Self::pair) of segments. A SYN shows nothing of the other end's numbers, so what other
    /// segments of the connections show is added.
    pub(super) fn shifts(&self, own: &Copied, other: &Copied) -> [u32; 2] {
        let mut shifts = own.shifts_from(other);
        for mac in self.changed.get(&own.connection).into_iter().flatten() {
            // In one connection, what fails tells the places apart.
            let is_in_place = |copy: &&Copied, place: &Copied| {
                copy.connection == place.connection
                    && (own.connection != other.connection || copy.is_good == place.is_good)
            };
            let [mine, copy] =
                [own, other].map(|place| self.of_mac(mac).find(|copy| is_in_place(copy, place)));
            let (Some(mine), Some(copy)) = (mine, copy) else { continue };
            let mut more = mine.shifts_from(copy);
            if mine.ends[0] != own.ends[0] {
                more.reverse();
            }
            for (shift, more) in shifts.iter_mut().zip(more) {
                *shift = if *shift == 0 { more } else { *shift };
            }
        }
        shifts
    }

    /// Whether a segment is one of a connection with another sequence number, recorded on the other side of a device that shifts them.
    pub(super) fn is_shifted_in(
        &self,
        connection: u64,
        segment: &Segment<'_>,
        mac: &[u8],
        now: Place,
    ) -> bool {
        let Some(mac) = mac_octets(mac) else { return false };
        let ends = [segment.source(), segment.destination()];
        self.of_mac(&mac).any(|copy| {
            copy.connection == connection
                && copy.ends == ends
                && (!NEAR.is_over(copy.first, now) || !NEAR.is_over(copy.last, now))
        })
    }
}

impl Copies {
    /// As [`pair`](Self::pair), of a segment of this end that does not verify.
    pub(super) fn pair_from(&self, connection: u64, from: Endpoint) -> Option<[&Copied; 2]> {
        self.changed.get(&connection)?.iter().find_map(|mac| {
            let copies =
                || self.by_mac.get(mac).into_iter().chain(self.others.get(mac).into_iter().flatten());
            let is_own =
                |copy: &&Copied| copy.connection == connection && copy.ends[0] == from && !copy.is_good;
            let own = copies().find(is_own)?;
            let others = copies().filter(|copy| !std::ptr::eq(*copy, own) && copy.is_near(own));
            Some([own, others.max_by_key(|copy| copy.is_good)?])
        })
    }
}

/// The SYNs and SYN-ACKs by their ends and sequence number. One that was recorded with TCP-AO and without has passed a device that removes
/// the option.
#[derive(Default, Debug)]
pub(super) struct Removed {
    seen: HashMap<([Endpoint; 2], u32), SeenSyn, RandomState>,
    /// The oldest first.
    order: VecDeque<([Endpoint; 2], u32)>,
}

/// Where a SYN was recorded last.
#[derive(Default, Debug)]
struct SeenSyn {
    signed: Option<Place>,
    unsigned: Option<Place>,
    /// Where it was recorded with the option and without, at about the same time.
    pair: Option<[Place; 2]>,
}

impl Removed {
    pub(super) fn note(&mut self, place: Place, segment: &Segment<'_>, is_signed: bool) {
        let syn = ([segment.source(), segment.destination()], segment.sequence().0);
        let seen = match self.seen.entry(syn) {
            Entry::Occupied(seen) => seen.into_mut(),
            Entry::Vacant(room) => {
                self.order.push_back(syn);
                room.insert(SeenSyn::default())
            }
        };
        *(if is_signed { &mut seen.signed } else { &mut seen.unsigned }) = Some(place);
        if let (None, Some(signed), Some(unsigned)) = (seen.pair, seen.signed, seen.unsigned) {
            let [before, after] = if is_signed { [unsigned, signed] } else { [signed, unsigned] };
            seen.pair = (!NEAR.is_over(before, after)).then_some([signed, unsigned]);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }

    /// Where the SYN or SYN-ACK with this ISN was recorded with TCP-AO and without.
    pub(super) fn pair(&self, from: Endpoint, to: Endpoint, isn: Isn) -> Option<[Place; 2]> {
        self.seen.get(&([from, to], isn.0))?.pair
    }
}

const CHECKSUM: std::ops::Range<usize> = 16..18;

impl Copied {
    /// Whether another segment with the MAC is a retransmission in the same place.
    fn is_repeated_by(&self, other: &Self) -> bool {
        if self.ends != other.ends || self.header == other.header {
            return self.ends == other.ends;
        }
        // If the MAC leaves options out, a retransmission has the MAC again with another timestamp.
        let is_in_place = self.connection == other.connection && self.is_good == other.is_good;
        is_in_place
            && self.has_same_start(other)
            && (self.is_good || self.other_options(other) == [TIMESTAMPS])
    }

    fn repeat(&mut self, other: &Self) {
        (self.connection, self.last, self.is_good) = (other.connection, other.last, other.is_good);
    }

    pub(super) fn is_near(&self, other: &Self) -> bool {
        let [before, after] =
            if self.first.packet < other.first.packet { [self, other] } else { [other, self] };
        !NEAR.is_over(before.first, after.first) || !NEAR.is_over(before.last, after.first)
    }

    /// How much later it was recorded, with a comma and a blank in front, if the capture has times.
    pub(super) fn later_than(&self, other: &Self) -> String {
        let (Some(own), Some(other)) = (self.first.time, other.first.time) else { return String::new() };
        let [own, other] = [own, other].map(|time| time.unix_nanoseconds());
        let when = if own < other { "earlier" } else { "later" };
        format!(", {:.1} s {when}", own.abs_diff(other) as f64 / 1e9)
    }

    /// How much higher the sequence number and the acknowledgment number are than in another place.
    pub(super) fn shifts_from(&self, other: &Self) -> [u32; 2] {
        [4, 8].map(|start| {
            let number = |copy: &Self| {
                copy.header[start..].first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets))
            };
            number(self).wrapping_sub(number(other))
        })
    }

    /// The kinds of options that differ from those in another place.
    pub(super) fn other_options(&self, other: &Self) -> Vec<u8> {
        let options = |copy: &Self| -> Vec<(u8, Vec<u8>)> {
            let options = Options::new(&copy.header[TCP_HEADER_LENGTH..]).flatten();
            options.map(|option| (option.kind, option.data.to_vec())).collect()
        };
        let [own, others] = [self, other].map(options);
        let differ = |(kind, data): &&(u8, Vec<u8>)| {
            let of = |list: &[(u8, Vec<u8>)]| {
                list.iter().filter(|option| option == &&(*kind, data.clone())).count()
            };
            of(&own) != of(&others)
        };
        let mut kinds: Vec<u8> = own.iter().chain(&others).filter(differ).map(|(kind, _)| *kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Whether everything in front of the options is the same.
    pub(super) fn has_same_start(&self, other: &Self) -> bool {
        self.header[..TCP_HEADER_LENGTH] == other.header[..TCP_HEADER_LENGTH]
    }
}
