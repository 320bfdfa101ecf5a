//! Packets from the link: verified, counted, stripped of the option, or refused.

use core::ops::Range;
use core::time::Duration;

use wireseal_mac::Mac;

use crate::checksum::{self, PayloadSum};
use crate::connection::{Ahead, BATCH, Connection, Handshake, mac_batch, octets_beside_longest};
use crate::counters::Counters;
use crate::error::{ParseError, Refusal, VerifyError};
use crate::icmp::{self, Hidden, IcmpError};
use crate::ip::{IPV4_HEADER_LENGTH, IPV6_HEADER_LENGTH, IpHeader, PROTOCOL_TCP};
use crate::option::TCP_HEADER_LENGTH;
use crate::segment::Segment;
use crate::shim::entry::{Entry, Stage};
use crate::shim::{
    Direction, EventKind, OPTION_ROOM, Observer, PeerSlot, Shim, ShimConfig, ShimSlot, Subject, Unmatched,
    event, options,
};
use crate::types::{Isn, SocketPair};

/// The MSS of a peer that advertises none (RFC 9293 §3.7.1): the packet every host must accept, less the headers.
const DEFAULT_MSS_IPV4: usize = 576 - IPV4_HEADER_LENGTH - TCP_HEADER_LENGTH;
const DEFAULT_MSS_IPV6: usize = 1280 - IPV6_HEADER_LENGTH - TCP_HEADER_LENGTH;

/// Looking ahead finds each packet's connection twice. A batch gains if it has so many octets for each packet beside the longest: a whole
/// one, and a smaller one.
const ENOUGH_OCTETS: [usize; 2] = [240, 384];

/// A packet with a TCP segment, and the segment's MAC if that was computed ahead.
struct Arrived<'a> {
    segment: &'a Segment<'a>,
    packet: &'a [u8],
    ip: &'a IpHeader,
    ahead: Option<&'a Ahead>,
}

impl<P, T, O> Shim<P, T, O>
where
    P: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>,
    T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>,
    O: Observer,
{
    /// Takes a packet from the link and returns the place, in the same octets, of the packet for the stack.
    ///
    /// `now` is the time since any fixed moment, the same for all calls. If it goes back, what has a time limit is kept for longer by as
    /// much. Packets of other protocols, and unsigned segments of
    /// connections without a peer, come back unchanged, the latter unless [`Unmatched::DropAll`] is configured.
    ///
    /// # Errors
    /// [`Refusal`]: drop the packet. It is unchanged, and in the shim only counters changed. In particular, a SYN that does not
    /// verify leaves nothing behind.
    pub fn inbound(&mut self, now: Duration, packet: &mut [u8]) -> Result<Range<usize>, Refusal> {
        let mut subject = Subject::default();
        let verdict = self.check_inbound(now, packet, &mut subject, None);
        verdict.or_else(|refusal| self.refuse(Direction::Inbound, subject, refusal))
    }

    /// Takes packets from the link, each as [`inbound`](Self::inbound) does. For every packet in order, `each` gets its index and the
    /// result.
    ///
    /// MACs are computed 16 at a time where that is faster: from two full packets on, four with 500 octets of payload, or 16 with 250. On a
    /// Zen 5, 16 full packets take 0.3 to 0.5 of the time that they take one by one, 4 take 0.5 to 0.8, and small ones the same time. Pass
    /// what has arrived; do not wait for more.
    pub fn inbound_batch<B: AsMut<[u8]>>(
        &mut self,
        now: Duration,
        packets: &mut [B],
        mut each: impl FnMut(usize, Result<Range<usize>, Refusal>),
    ) {
        for (batch, packets) in packets.chunks_mut(BATCH).enumerate() {
            let mut ahead = [const { None }; BATCH];
            let octets = octets_beside_longest(packets.iter_mut().map(|packet| packet.as_mut().len()));
            if octets >= packets.len() * ENOUGH_OCTETS[usize::from(packets.len() < BATCH)] {
                self.look_ahead(packets, &mut ahead);
            }
            for (number, (packet, ahead)) in packets.iter_mut().zip(&ahead).enumerate() {
                let mut subject = Subject::default();
                let verdict = self.check_inbound(now, packet.as_mut(), &mut subject, ahead.as_ref());
                let verdict = verdict.or_else(|refusal| self.refuse(Direction::Inbound, subject, refusal));
                each(batch * BATCH + number, verdict);
            }
        }
    }

    /// Computes the MACs of segments of established connections.
    fn look_ahead<B: AsMut<[u8]>>(&self, packets: &mut [B], ahead: &mut [Option<Ahead>; BATCH]) {
        let mut macs = [const { Mac::EMPTY }; BATCH];
        let jobs = packets.iter_mut().zip(&mut *ahead).filter_map(|(packet, ahead)| {
            let packet: &[u8] = packet.as_mut();
            let ip = IpHeader::parse(packet).ok()?;
            let segment = Segment::from_packet(&ip, packet).ok()?;
            let pair = SocketPair { local: segment.destination(), remote: segment.source() };
            let (key, input, found) = self.table.get(&pair)?.connection.look_ahead(&segment)?;
            *ahead = Some(found);
            Some((key, input))
        });
        mac_batch(jobs, &mut macs);
        for (ahead, mac) in ahead.iter_mut().flatten().zip(macs) {
            ahead.mac = mac;
        }
    }

    /// [`inbound`](Self::inbound) without the report of a refusal. The MAC may have been computed ahead.
    pub(super) fn check_inbound(
        &mut self,
        now: Duration,
        packet: &mut [u8],
        subject: &mut Subject,
        ahead: Option<&Ahead>,
    ) -> Result<Range<usize>, Refusal> {
        self.peers.end_mismatches(now);
        let ip = IpHeader::parse(packet)?;
        let whole = 0..ip.total_length;
        subject.packet = whole.clone();
        let packet = packet.get_mut(..ip.total_length).ok_or(ParseError::IpLength)?;
        if ip.protocol != PROTOCOL_TCP {
            self.admit_icmp(&ip, packet)?;
            return Ok(whole);
        }
        // A packet whose routing header names a further destination is not for this host, but some stacks would take it. And stacks differ
        // about whether the home address or the header's source is TCP's source.
        if !ip.is_direct()
            && self.peers.cover(&[ip.header_destination, ip.destination], &[ip.header_source, ip.source])
        {
            return Err(Refusal::SourceRouted);
        }
        if ip.is_fragment {
            if self.peers.cover(&[ip.destination], &[ip.source]) {
                return Err(ParseError::Fragment.into());
            }
            return self.unmatched(whole);
        }
        let segment = Segment::from_packet(&ip, packet)?;
        // Built in place: the processor would stall on copying what was just written in parts.
        let pair = subject.pair.insert(SocketPair { local: segment.destination(), remote: segment.source() });
        let arrived = Arrived { segment: &segment, packet, ip: &ip, ahead };
        if !self.admit(now, pair, &arrived, &mut subject.peer)? {
            return Ok(whole);
        }
        let is_syn = segment.flags().syn();
        let default_mss = if ip.source.is_ipv4() { DEFAULT_MSS_IPV4 } else { DEFAULT_MSS_IPV6 };
        let old = segment.option_octets();
        let new = options::without_ao(old, is_syn, OPTION_ROOM, default_mss)
            .map_err(|error| Refusal::Verify(error.into()))?;
        let old_options = old.len();
        // A verified checksum gives the payload's sum.
        let payload = self
            .config
            .check_checksum
            .then(|| PayloadSum::behind(ip.source, ip.destination, segment.header(), segment.tcp().len()));
        let start = options::replace(packet, 0, ip.payload_offset, old_options, &new)
            .expect("an AO option that has verified is longer than an MSS option and its padding");
        options::write_checksums(&mut packet[start..], &ip, payload);
        Ok(start..ip.total_length)
    }

    /// Adjusts an ICMP error that this host made because its own packet does not fit the link: takes the room for the option off the MTU in
    /// it. Pass the error on to the stack, whatever [`ShimConfig::accept_icmp`](crate::shim::ShimConfig::accept_icmp) says. Any other
    /// packet is unchanged.
    ///
    /// Make sure that this host has sent it, by the device that it came from.
    pub fn own_icmp(&mut self, packet: &mut [u8]) {
        let Ok(ip) = IpHeader::parse(packet) else { return };
        if let Some(packet) = packet.get_mut(..ip.total_length)
            && let Some(error) = IcmpError::from_packet(&ip, packet)
            && self.table.get(&error.pair).is_some()
        {
            error.lower_mtu(&mut packet[ip.payload_offset..], OPTION_ROOM as u16);
        }
    }

    /// Whether the segment has verified (`true`) or passes unchanged (`false`). Stores its peer in `of_peer`.
    fn admit(
        &mut self,
        now: Duration,
        pair: &SocketPair,
        arrived: &Arrived<'_>,
        of_peer: &mut Option<usize>,
    ) -> Result<bool, Refusal> {
        let Arrived { segment, packet, ip, ahead } = *arrived;
        let flags = segment.flags();
        let opens = flags.syn() && !flags.ack();
        let isn = Isn(segment.sequence().0);
        let limits = &self.config.limits;
        let known = self.table.get_mut(pair);
        let may_be_replaced =
            known.as_ref().is_some_and(|entry| entry.may_be_replaced(segment.sequence(), now, limits));
        let reopens = opens
            && (may_be_replaced || known.as_ref().is_some_and(|entry| entry.connection.is_established()));
        if let Some(entry) = known.filter(|_| !reopens) {
            *of_peer = Some(entry.peer);
            check_checksums(&self.config, packet, ip)?;
            let (peers, from) = (&self.peers, entry.connection.current_key().send_id);
            let verdict = match entry.connection.handshake() {
                // Either of two SYNs may be the replay: this end's stack gets both, and its answers are kept.
                Some(first) if opens && first.remote_isn != isn => {
                    let mkts = peers.get(entry.peer).map(|peer| &peer.mkts).ok_or(Refusal::NoPeer)?;
                    mkts.verify_syn(*segment).map(|syn| {
                        entry.heard(Handshake::of(&syn));
                        None
                    })
                }
                _ => entry.verify(segment, ahead).map(Some),
            };
            count(&mut self.counters, self.peers.counters_mut(entry.peer), &verdict);
            let stage = entry.stage();
            if let Some(verified) = verdict.map_err(Refusal::Verify)? {
                entry.received(segment, &verified, now);
                event::moved(&mut self.observer, entry, stage);
                if verified.current_key_changed() {
                    let to = entry.connection.current_key().send_id;
                    event::tell(&mut self.observer, entry, EventKind::KeySwitched { from, to });
                }
                if entry.connection.tell_that_peer_insists() {
                    let on = entry.connection.current_key().send_id;
                    event::tell(&mut self.observer, entry, EventKind::PeerInsists { on });
                }
                let signed_with = verified.key_id();
                if let Some(asked_for) = entry.key_not_used(segment, signed_with) {
                    let kind = EventKind::PeerOnOldKey { signed_with, asked_for };
                    event::tell(&mut self.observer, entry, kind);
                }
            }
            if entry.is_misplaced(stage, limits) {
                self.table.settle(pair);
            }
            return Ok(true);
        }
        let key_id = segment.ao_option().ok().flatten().map(|ao| ao.key_id);
        let Some(index) = self.peers.of(pair, key_id) else { return self.admit_unprotected(arrived) };
        *of_peer = Some(index);
        check_checksums(&self.config, packet, ip)?;
        let Some(peer) = self.peers.get(index) else { return Err(Refusal::NoPeer) };
        let mkts = &peer.mkts;
        if mkts.preferred().is_none() {
            return Err(Refusal::NoKey);
        }
        if !opens {
            // Without the ISNs there is no key to verify it with. Count what can be judged without a MAC.
            let verdict = match segment.ao_option() {
                Err(error) => Err(error.into()),
                Ok(None) => Err(VerifyError::Unsigned),
                Ok(Some(ao)) if mkts.by_recv_id(ao.key_id).is_none() => {
                    Err(VerifyError::UnknownKeyId(ao.key_id))
                }
                Ok(Some(_)) => return Err(Refusal::NoConnection),
            };
            count(&mut self.counters, self.peers.counters_mut(index), &verdict);
            return verdict.map_err(Refusal::Verify);
        }
        let exists = reopens && !may_be_replaced;
        let verdict = mkts.verify_syn(*segment).map(|syn| {
            if exists {
                // Only this end's stack knows whether it still has a connection that has been silent for hours.
                let entry = self.table.get_mut(pair);
                let reopened = entry.filter(|entry| entry.may_be_reopened(segment.sequence(), now, limits));
                reopened.ok_or(Refusal::ConnectionExists)?.heard(Handshake::of(&syn));
                return Ok(None);
            }
            let ended = |entry: &Entry, why| event::ended(&mut self.observer, entry, why);
            self.table
                .make_room(may_be_replaced.then_some(pair), (index, Stage::OpenedThere), now, limits, ended)
                .then(|| Some((Connection::passive(&syn), Handshake::of(&syn))))
                .ok_or(Refusal::TableFull)
        });
        count(&mut self.counters, self.peers.counters_mut(index), &verdict);
        if let Some((connection, handshake)) = verdict.map_err(Refusal::Verify)?? {
            let mut entry = Entry::new(connection, index, now);
            entry.heard(handshake);
            self.insert(entry, now)?;
        }
        Ok(true)
    }

    /// A segment of a connection without a configured peer.
    fn admit_unprotected(&mut self, arrived: &Arrived<'_>) -> Result<bool, Refusal> {
        if let Ok(Some(ao)) = arrived.segment.ao_option()
            && self.config.unmatched != Unmatched::Pass
        {
            check_checksums(&self.config, arrived.packet, arrived.ip)?;
            self.counters.count::<()>(&Err(VerifyError::UnknownKeyId(ao.key_id)));
            return Err(Refusal::NoPeer);
        }
        self.unmatched(false)
    }

    /// The verdict on a packet that no peer covers: `passes`, or a refusal.
    pub(super) fn unmatched<V>(&self, passes: V) -> Result<V, Refusal> {
        if self.config.unmatched == Unmatched::DropAll { Err(Refusal::NoPeer) } else { Ok(passes) }
    }

    /// Drops hard ICMP errors about established connections, and takes the room for the option off a path MTU that a router reports, as off
    /// the link's MTU.
    fn admit_icmp(&mut self, ip: &IpHeader, packet: &mut [u8]) -> Result<(), Refusal> {
        let error = IcmpError::from_packet(ip, packet);
        let mut known = error.and_then(|error| Some((error, self.table.get_mut(&error.pair)?)));
        let is_hard = known.as_ref().is_some_and(|(error, _)| error.is_hard());
        // Also for a known connection: if the quote's headers name other addresses, a stack may take it for another connection.
        let is_hidden = match icmp::hidden(ip, packet) {
            Hidden::Nothing => false,
            Hidden::Between { locals, remotes } => self.peers.cover(&locals, &remotes),
            Hidden::Anything => !self.peers.is_empty(),
        };
        if !self.config.accept_icmp && (is_hard || is_hidden) {
            // Damage in transit is not an attack.
            if self.config.check_checksum && icmp::is_damaged(ip, packet) {
                return Err(Refusal::Checksum);
            }
            let ignores = |(error, entry): &mut (IcmpError, &mut Entry)| entry.connection.ignores_icmp(error);
            if known.as_mut().is_some_and(ignores) || is_hidden {
                self.counters.count_dropped_icmp();
                return Err(Refusal::Icmp);
            }
        }
        if let Some((error, _)) = known
            && let Some(icmp) = packet.get_mut(ip.payload_offset..)
        {
            error.lower_mtu(icmp, OPTION_ROOM as u16);
        }
        Ok(())
    }
}

/// Counts a verdict in the totals and in its peer's counters.
fn count<V>(all: &mut Counters, peers: Option<&mut Counters>, verdict: &Result<V, VerifyError>) {
    all.count(verdict);
    if let Some(counters) = peers {
        counters.count(verdict);
    }
}

/// The packet gets new checksums on its way to the stack, so the old ones must be right. Otherwise an error in the IP header, or
/// in an option that the MAC does not cover, would get a correct checksum.
fn check_checksums(config: &ShimConfig, packet: &[u8], ip: &IpHeader) -> Result<(), Refusal> {
    if !config.check_checksum {
        return Ok(());
    }
    let split = packet.split_at_checked(ip.payload_offset);
    let (headers, tcp) = split.ok_or(ParseError::IpLength)?;
    let is_header_right = ip.source.is_ipv6() || checksum::ipv4_header(headers) == 0;
    if !is_header_right || checksum::tcp(ip.source, ip.destination, tcp) != 0 {
        return Err(Refusal::Checksum);
    }
    Ok(())
}
