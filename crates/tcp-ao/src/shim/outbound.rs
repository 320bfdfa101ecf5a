//! What the stack sends: the option put in, signed, checksums made right.

use core::ops::Range;
use core::time::Duration;

use wireseal_mac::Mac;

use crate::connection::Connection;
use crate::connection::batch::{Ahead, BATCH, EMPTY_STARTS, Signature};
use crate::ip::{IpHeader, PROTOCOL_TCP};
use crate::option::TCP_HEADER_LENGTH;
use crate::peer::Peer;
use crate::segment::{Flags, ParseError, Segment};
use crate::shim::options::{self, NewOptions, OptionsError};
use crate::shim::table::Entry;
use crate::shim::{MAX_IPV4_LENGTH, MAX_IPV6_LENGTH, Refusal, Shim, ShimConfig, ShimSlot};
use crate::types::{Endpoint, Isn, SeqNum, SocketPair};

impl<P: AsRef<[Peer]> + AsMut<[Peer]>, T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>> Shim<P, T> {
    /// Takes a packet that the stack wants to send, and says where in `buffer` the one to put on the link then stands.
    ///
    /// The packet starts at `buffer[room]`, and the octets before it are used to make it longer:
    /// [`OPTION_ROOM`](crate::shim::OPTION_ROOM) of them are always enough. `now` is the time since any fixed
    /// moment, the same for all calls. Packets of other protocols and of connections without peer come back as they
    /// were.
    ///
    /// # Errors
    /// [`Refusal`]: nothing may be sent. What stands in `buffer` then is of no use.
    pub fn outbound(
        &mut self,
        now: Duration,
        buffer: &mut [u8],
        room: usize,
    ) -> Result<Range<usize>, Refusal> {
        let packet = buffer.get(room..).unwrap_or_default();
        let ip = IpHeader::parse(packet).map_err(ParseError::Ip)?;
        let end = room + ip.total_length;
        if ip.protocol != PROTOCOL_TCP {
            return Ok(room..end);
        }
        if ip.is_fragment {
            let pair =
                SocketPair { local: Endpoint::new(ip.source, 0), remote: Endpoint::new(ip.destination, 0) };
            if self.protects(&pair) {
                return Err(ParseError::Fragment.into());
            }
            return Ok(room..end);
        }
        let segment = Segment::parse(packet)?;
        let pair = SocketPair { local: segment.source(), remote: segment.destination() };
        let flags = segment.flags();
        let known = self.table.get(&pair);
        let is_new = flags.syn()
            && !flags.ack()
            && known.is_none_or(|entry| entry.connection.local_isn() != Some(Isn(segment.sequence().0)));
        let mut opened = None;
        if is_new || known.is_none() {
            let Some(peer) = self.peer_of(&pair) else { return Ok(room..end) };
            if !is_new {
                return Err(Refusal::NoConnection);
            }
            let isn = Isn(segment.sequence().0);
            let mkts = &self.peers.as_ref()[peer].mkts;
            let connection = Connection::active(pair, isn, mkts).map_err(|_| Refusal::NoKey)?;
            opened = Some(Entry::new(connection, peer, now));
        }
        let entry = match &mut opened {
            Some(entry) => entry,
            None => self.table.get_mut(&pair).ok_or(Refusal::NoConnection)?,
        };
        let departure = Departure::new(&self.config, &entry.connection, ip, &segment)?;
        let range = departure.lay_out(buffer, room)?;
        departure.sign(entry, &mut buffer[range.clone()], now, None)?;
        // A listener's answer to a SYN it refuses is all there ever is of the connection.
        if flags.rst() && entry.connection.local_isn().is_none() {
            self.table.remove(&pair);
        }
        if let Some(entry) = opened {
            self.table.insert(entry, now).map_err(|()| Refusal::TableFull)?;
        }
        Ok(range)
    }

    /// Takes packets that the stack wants to send as [`outbound`](Self::outbound) would one after another, each with its
    /// `room`, and gives `each` in order what it would have returned; the MACs of segments of open connections that follow one
    /// another are computed 16 at a time.
    ///
    /// # Errors
    /// Those of [`outbound`](Self::outbound), handed to `each` with the packet's index.
    pub fn outbound_batch(
        &mut self,
        now: Duration,
        packets: &mut [(&mut [u8], usize)],
        mut each: impl FnMut(usize, Result<Range<usize>, Refusal>),
    ) {
        let mut first = 0;
        while first < packets.len() {
            let mut departures = [const { None }; BATCH];
            for (place, (buffer, room)) in departures.iter_mut().zip(&mut packets[first..]) {
                *place = self.lay_out(buffer, *room);
                // What is no segment of an open connection waits until those before it have gone: it may open one, and so
                // put another out of the table.
                if place.is_none() {
                    break;
                }
            }
            let mut starts = EMPTY_STARTS;
            let (mut ahead, mut inputs) = (Ahead::EMPTY, [None; BATCH]);
            for (number, ((start, (buffer, _)), departure)) in
                starts.iter_mut().zip(&packets[first..]).zip(&departures).enumerate()
            {
                let Some(Ok((departure, range))) = departure else { continue };
                let tcp = &buffer[range.clone()][departure.ip.payload_offset..];
                let Some(entry) = self.table.get(&departure.pair) else { continue };
                // What is refused is refused again in its turn.
                if let Ok(Some(signature)) = entry.connection.signature_to_send(tcp)
                    && let Some(input) = entry.connection.input_to_send(tcp, &signature, start)
                {
                    ahead.add(number, signature, &mut inputs, input);
                }
            }
            ahead.compute(&inputs);
            let mut count = 0;
            let departures = departures.into_iter().map_while(|departure| departure);
            for ((departure, ahead), (buffer, _)) in departures.zip(ahead.each()).zip(&mut packets[first..]) {
                let signed = departure.and_then(|(departure, range)| {
                    let entry = self.table.get_mut(&departure.pair).ok_or(Refusal::NoConnection)?;
                    departure.sign(entry, &mut buffer[range.clone()], now, ahead)?;
                    Ok(range)
                });
                each(first + count, signed);
                count += 1;
            }
            if count < BATCH
                && let Some((buffer, room)) = packets.get_mut(first + count)
            {
                each(first + count, self.outbound(now, buffer, *room));
                count += 1;
            }
            first += count;
        }
    }

    /// Lays out a segment of an open connection; `None`, with nothing changed, for anything else.
    fn lay_out(&self, buffer: &mut [u8], room: usize) -> Option<Result<(Departure, Range<usize>), Refusal>> {
        let packet = buffer.get(room..)?;
        let ip = IpHeader::parse(packet).ok()?;
        let segment = Segment::parse(packet).ok()?;
        let pair = SocketPair { local: segment.source(), remote: segment.destination() };
        let connection = &self.table.get(&pair)?.connection;
        if segment.flags().syn() || !connection.is_established() {
            return None;
        }
        let departure = Departure::new(&self.config, connection, ip, &segment);
        Some(departure.and_then(|departure| {
            let range = departure.lay_out(buffer, room)?;
            Ok((departure, range))
        }))
    }
}

/// A segment of a connection on its way out, and the options it is to have.
struct Departure {
    ip: IpHeader,
    pair: SocketPair,
    flags: Flags,
    /// The sequence number behind the segment.
    end: SeqNum,
    old_options: usize,
    options: NewOptions,
}

impl Departure {
    /// Works out the options of a segment of this connection.
    fn new<const N: usize>(
        config: &ShimConfig,
        connection: &Connection<N>,
        ip: IpHeader,
        segment: &Segment<'_>,
    ) -> Result<Self, Refusal> {
        let (flags, old) = (segment.flags(), segment.option_octets());
        let mss_increase = if flags.syn() { config.mtu.saturating_sub(config.stack_mtu) } else { 0 };
        let mss_limit = config.mtu.saturating_sub(ip.payload_offset + TCP_HEADER_LENGTH);
        let mac_length = connection.current_key().mac_length;
        let options = options::with_ao(old, mac_length, mss_increase, mss_limit)?;
        let longest = config.mtu.min(if ip.source.is_ipv4() { MAX_IPV4_LENGTH } else { MAX_IPV6_LENGTH });
        let excess = (ip.total_length - old.len() + options.as_bytes().len()).saturating_sub(longest);
        if excess > 0 {
            return Err(Refusal::TooLong { excess });
        }
        let pair = SocketPair { local: segment.source(), remote: segment.destination() };
        Ok(Self { ip, pair, flags, end: segment.end(), old_options: old.len(), options })
    }

    /// Puts the options into the packet at `buffer[room]`, and says where it then stands.
    fn lay_out(&self, buffer: &mut [u8], room: usize) -> Result<Range<usize>, Refusal> {
        let start = options::replace(buffer, room, self.ip.payload_offset, self.old_options, &self.options);
        let excess = || Refusal::TooLong { excess: self.options.as_bytes().len() - self.old_options - room };
        Ok(start.ok_or_else(excess)?..room + self.ip.total_length)
    }

    /// Signs the packet, makes its checksums right, and notes that it was sent.
    fn sign(
        &self,
        entry: &mut Entry,
        packet: &mut [u8],
        now: Duration,
        ahead: Option<(&Signature, &Mac)>,
    ) -> Result<(), Refusal> {
        let tcp = &mut packet[self.ip.payload_offset..];
        entry.connection.sign_with(tcp, ahead).map_err(Refusal::Sign)?;
        options::write_checksums(packet, &self.ip);
        entry.sent(self.flags, self.end, now);
        Ok(())
    }
}

impl From<OptionsError> for Refusal {
    fn from(error: OptionsError) -> Self {
        match error {
            OptionsError::Malformed(error) => Self::Sign(error.into()),
            OptionsError::AlreadySigned => Self::AlreadySigned,
            OptionsError::NoRoom(error) => Self::NoRoom(error),
        }
    }
}
