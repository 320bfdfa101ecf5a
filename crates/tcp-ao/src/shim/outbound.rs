//! Packets from the stack: the option inserted, signed, checksums corrected.

use core::ops::Range;
use core::time::Duration;

use wireseal_mac::Mac;

use crate::connection::{BATCH, Connection, ToSign, mac_batch, octets_beside_longest};
use crate::error::{ParseError, Refusal};
use crate::ip::{IpHeader, PROTOCOL_TCP};
use crate::option::TCP_HEADER_LENGTH;
use crate::segment::Segment;
use crate::shim::entry::Entry;
use crate::shim::options::{self, NewOptions};
use crate::shim::{
    Direction, End, MAX_IPV4_LENGTH, MAX_IPV6_LENGTH, Observer, PeerSlot, Shim, ShimConfig, ShimSlot,
    Subject, event,
};
use crate::types::{Isn, SocketPair};

/// A batch gains if it has so many octets beside the longest packet.
const ENOUGH_OCTETS: usize = 600;

/// A packet whose MAC is still to be computed.
struct Job<'b> {
    packet: &'b mut [u8],
    ip: IpHeader,
    pair: SocketPair,
    to_sign: ToSign,
}

/// Outbound packets whose MACs are still to be computed, at most a batch.
struct Pending<'b> {
    jobs: [Option<Job<'b>>; BATCH],
    count: usize,
}

impl<'b> Pending<'b> {
    const fn new() -> Self {
        Self { jobs: [const { None }; BATCH], count: 0 }
    }

    fn push(&mut self, packet: &'b mut [u8], ip: IpHeader, pair: SocketPair, to_sign: ToSign) {
        self.jobs[self.count] = Some(Job { packet, ip, pair, to_sign });
        self.count += 1;
    }
}

impl<P, T, O> Shim<P, T, O>
where
    P: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>,
    T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>,
    O: Observer,
{
    /// Takes a packet from the stack and returns the place in `buffer` of the packet for the link.
    ///
    /// The packet starts at `buffer[room]`. It grows into the octets before it;
    /// [`OPTION_ROOM`](crate::shim::OPTION_ROOM) of them are always enough. `now` is the time since any fixed moment, the same for
    /// all calls. Packets of other protocols and of connections without a peer come back unchanged, the latter unless
    /// [`Unmatched::DropAll`](crate::shim::Unmatched::DropAll) is configured.
    ///
    /// # Errors
    /// [`Refusal`]: send nothing. The content of `buffer` is then meaningless.
    pub fn outbound(
        &mut self,
        now: Duration,
        buffer: &mut [u8],
        room: usize,
    ) -> Result<Range<usize>, Refusal> {
        let mut subject = Subject::default();
        let verdict = self.sign_outbound(now, buffer, room, &mut subject, None);
        verdict.or_else(|refusal| self.refuse(Direction::Outbound, subject, refusal))
    }

    /// Takes packets from the stack, each as [`outbound`](Self::outbound) does, with the same `room` for all. For every packet in order,
    /// `each` gets its index and the result.
    ///
    /// MACs are computed 16 at a time where that is faster, as in [`inbound_batch`](Self::inbound_batch): from three packets with 350 octets of
    /// payload on, or eight with 112.
    pub fn outbound_batch<B: AsMut<[u8]>>(
        &mut self,
        now: Duration,
        packets: &mut [(B, usize)],
        mut each: impl FnMut(usize, Result<Range<usize>, Refusal>),
    ) {
        for (batch, packets) in packets.chunks_mut(BATCH).enumerate() {
            let octets = octets_beside_longest(
                packets.iter_mut().map(|(buffer, room)| buffer.as_mut().len().saturating_sub(*room)),
            );
            if octets < ENOUGH_OCTETS {
                for (number, (buffer, room)) in packets.iter_mut().enumerate() {
                    each(batch * BATCH + number, self.outbound(now, buffer.as_mut(), *room));
                }
                continue;
            }
            let mut pending = Pending::new();
            for (number, (buffer, room)) in packets.iter_mut().enumerate() {
                let mut subject = Subject::default();
                let verdict =
                    self.sign_outbound(now, buffer.as_mut(), *room, &mut subject, Some(&mut pending));
                let verdict = verdict.or_else(|refusal| self.refuse(Direction::Outbound, subject, refusal));
                each(batch * BATCH + number, verdict);
            }
            self.complete(&mut pending);
        }
    }

    /// Computes the MACs that are still to be computed.
    fn complete(&mut self, pending: &mut Pending<'_>) {
        let mut macs = [const { Mac::EMPTY }; BATCH];
        let mut has_mac = [false; BATCH];
        let jobs = pending.jobs.iter().zip(&mut has_mac).filter_map(|(job, has_mac)| {
            let job = job.as_ref()?;
            let connection = &self.table.get(&job.pair)?.connection;
            let computed = connection.input_to_sign(&job.packet[job.ip.payload_offset..], job.to_sign)?;
            *has_mac = true;
            Some(computed)
        });
        mac_batch(jobs, &mut macs);
        let mut macs = macs.iter();
        for (job, has_mac) in pending.jobs.iter_mut().zip(has_mac) {
            if let Some(Job { packet, ip, to_sign, .. }) = job.take()
                // Always true: nothing removes an open connection in between.
                && let Some(mac) = has_mac.then(|| macs.next()).flatten()
                && let Some(()) = to_sign.write_mac(&mut packet[ip.payload_offset..], mac)
            {
                options::write_checksums(packet, &ip, None);
            }
        }
        pending.count = 0;
    }

    /// [`outbound`](Self::outbound) without the report of a refusal. With `pending`, the MAC may be computed later.
    fn sign_outbound<'b>(
        &mut self,
        now: Duration,
        buffer: &'b mut [u8],
        room: usize,
        subject: &mut Subject,
        mut pending: Option<&mut Pending<'b>>,
    ) -> Result<Range<usize>, Refusal> {
        self.peers.end_mismatches(now);
        let packet = buffer.get(room..).unwrap_or_default();
        let ip = IpHeader::parse(packet)?;
        let end = room + ip.total_length;
        subject.packet = room..end;
        if ip.protocol != PROTOCOL_TCP {
            return Ok(room..end);
        }
        if ip.is_fragment {
            if self.peers.cover(&[ip.source], &[ip.destination]) {
                return Err(ParseError::Fragment.into());
            }
            return self.unmatched(room..end);
        }
        let segment = Segment::from_packet(&ip, packet)?;
        let pair = SocketPair { local: segment.source(), remote: segment.destination() };
        subject.pair = Some(pair);
        let (flags, segment_end, isn) = (segment.flags(), segment.end(), Isn(segment.sequence().0));
        // Only a SYN, or the reset that answers one, can remove an open or closed connection from the table.
        if (flags.syn() || flags.rst())
            && let Some(pending) = &mut pending
        {
            self.complete(pending);
        }
        let known = self.table.get_mut(&pair);
        let is_new = flags.syn()
            && !flags.ack()
            && known.as_ref().is_none_or(|entry| entry.connection.local_isn() != Some(isn));
        let numbers = (segment.sequence(), segment.acknowledgment());
        let limits = &self.config.limits;
        let answered = known.as_ref().and_then(|entry| entry.answered_anew(flags, numbers, now, limits));
        let mut opened = None;
        let entry = match known {
            Some(entry) if !is_new && answered.is_none() => {
                subject.peer = Some(entry.peer);
                entry
            }
            _ => {
                let signed_with = answered.map(|handshake| handshake.signed_with);
                let Some(index) = self.peers.of(&pair, signed_with) else { return self.unmatched(room..end) };
                subject.peer = Some(index);
                let mkts = &self.peers.get(index).ok_or(Refusal::NoPeer)?.mkts;
                let connection = match answered {
                    Some(handshake) => Connection::answering(pair, &handshake, mkts),
                    None if is_new => Connection::active(pair, isn, mkts).ok(),
                    None => return Err(Refusal::NoConnection),
                };
                opened.insert(Entry::new(connection.ok_or(Refusal::NoKey)?, index, now))
            }
        };
        entry.prepare_answer(flags, segment.sequence(), segment.acknowledgment());
        let mut raises_mss = flags.syn();
        if self.peers.accepts_mismatches(entry.peer, &pair) {
            // The stack accepts a new, unsigned connection, although an old one with the same pair is still in the table.
            let is_old = entry.connection.is_established() && entry.connection.local_isn() != Some(isn);
            if is_old && flags.syn() && flags.ack() {
                event::ended(&mut self.observer, entry, End::Replaced);
                self.table.remove(&pair);
                return Err(Refusal::NoConnection);
            }
            // A segment that cannot be signed passes unchanged, so check before anything is written into it.
            entry.connection.may_send(segment.without_addresses()).map_err(Refusal::Sign)?;
            if flags.syn() && !flags.ack() && entry.takes_unsigned_turn() {
                return Ok(room..end);
            }
            // The segments of a peer that ignores the option reach the stack at full length.
            raises_mss &= flags.ack();
        }
        let old_options = segment.option_octets().len();
        let options = signed_options(&self.config, &entry.connection, &ip, &segment, raises_mss)?;
        let start = options::replace(buffer, room, ip.payload_offset, old_options, &options)
            .ok_or_else(|| Refusal::TooLong { excess: options.as_bytes().len() - old_options - room })?;
        let packet = &mut buffer[start..end];
        let tcp = &mut packet[ip.payload_offset..];
        let to_sign = match &pending {
            Some(_) => entry.connection.sign_without_mac(tcp),
            None => entry.connection.sign(tcp).map(|()| None),
        };
        match (to_sign.map_err(Refusal::Sign)?, pending) {
            (Some(to_sign), Some(pending)) => pending.push(packet, ip, pair, to_sign),
            _ => options::write_checksums(packet, &ip, None),
        }
        let stage = entry.stage();
        entry.sent(flags, segment_end, now);
        event::moved(&mut self.observer, entry, stage);
        let has_moved = entry.is_misplaced(stage, &self.config.limits);
        let is_refusal = flags.rst() && entry.connection.local_isn().is_none();
        if let Some(opened) = opened {
            self.insert(opened, now)?;
        } else if has_moved {
            self.table.settle(&pair);
        }
        // A listener's answer to a SYN that it refuses also ends the connection.
        if is_refusal {
            self.table.remove(&pair);
        }
        Ok(start..end)
    }
}

/// The options of an outbound segment, with room for the MAC.
fn signed_options<const N: usize>(
    config: &ShimConfig,
    connection: &Connection<N>,
    ip: &IpHeader,
    segment: &Segment<'_>,
    raises_mss: bool,
) -> Result<NewOptions, Refusal> {
    let old = segment.option_octets();
    let mss_increase = if raises_mss { config.mtu.saturating_sub(config.stack_mtu) } else { 0 };
    let mss_limit = config.mtu.saturating_sub(ip.payload_offset + TCP_HEADER_LENGTH);
    let options = options::with_ao(old, connection.current_key().mac_length(), mss_increase, mss_limit)?;
    let longest = config.mtu.min(if ip.source.is_ipv4() { MAX_IPV4_LENGTH } else { MAX_IPV6_LENGTH });
    let excess = (ip.total_length - old.len() + options.as_bytes().len()).saturating_sub(longest);
    if excess > 0 {
        return Err(Refusal::TooLong { excess });
    }
    Ok(options)
}
