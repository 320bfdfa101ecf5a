//! What the stack sends: the option put in, signed, checksums made right.

use core::ops::Range;
use core::time::Duration;

use crate::connection::Connection;
use crate::ip::{IpHeader, PROTOCOL_TCP};
use crate::option::TCP_HEADER_LENGTH;
use crate::peer::Peer;
use crate::segment::{ParseError, Segment};
use crate::shim::options::{self, OptionsError};
use crate::shim::table::Entry;
use crate::shim::{MAX_IPV4_LENGTH, MAX_IPV6_LENGTH, Refusal, Shim, ShimSlot};
use crate::types::{Endpoint, Isn, SocketPair};

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
        let segment_end = segment.end();
        let (ip_length, option_octets) = (ip.payload_offset, segment.option_octets());
        let mss_increase =
            if flags.syn() { self.config.mtu.saturating_sub(self.config.stack_mtu) } else { 0 };
        let mss_limit = self.config.mtu.saturating_sub(ip_length + TCP_HEADER_LENGTH);
        let mac_length = entry.connection.current_key().mac_length;
        let new = options::with_ao(option_octets, mac_length, mss_increase, mss_limit)?;
        let old_options = option_octets.len();
        let longest =
            self.config.mtu.min(if ip.source.is_ipv4() { MAX_IPV4_LENGTH } else { MAX_IPV6_LENGTH });
        let excess = (ip.total_length - old_options + new.as_bytes().len()).saturating_sub(longest);
        if excess > 0 {
            return Err(Refusal::TooLong { excess });
        }
        let start = options::replace(buffer, room, ip_length, old_options, &new)
            .ok_or_else(|| Refusal::TooLong { excess: new.as_bytes().len() - old_options - room })?;
        let packet = &mut buffer[start..end];
        entry.connection.sign(&mut packet[ip_length..]).map_err(Refusal::Sign)?;
        options::write_checksums(packet, &ip);
        // A listener's answer to a SYN it refuses is all there ever is of the connection.
        let is_refusal = flags.rst() && entry.connection.local_isn().is_none();
        entry.sent(flags, segment_end, now);
        if is_refusal {
            self.table.remove(&pair);
        }
        if let Some(entry) = opened {
            self.table.insert(entry, now).map_err(|()| Refusal::TableFull)?;
        }
        Ok(start..end)
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
