//! All connections of a capture.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, iter};

use wireseal_quic::{ConnectionId, HeaderError, PacketType, Protected, Version};

use super::connection::{Arrival, Opening, QuicConnection};
use super::key_log::KeyLogFile;
use super::report::{AddressPair, ConnectionReport, Side, Totals};
use super::routes::{Owner, Routes};
use crate::capture::{CapturedDatagram, Content, Packet, Place, Time};

/// Follows the connections of a capture and opens their packets with the secrets of a key log.
///
/// It remembers live connections. One that was closed is handed out after a minute, one that is silent after ten.
pub struct Observer<'l> {
    log: &'l KeyLogFile,
    routes: Routes,
    connections: HashMap<u64, Followed>,
    finished: Vec<ConnectionReport>,
    totals: Totals,
    last_sweep: Option<Time>,
    datagram: Vec<u8>,
    scratch: Vec<u8>,
}

struct Followed {
    connection: QuicConnection,
    /// The IDs in the routes, the latest last.
    ids: VecDeque<(ConnectionId, Side)>,
    /// The length of the IDs that each end gives out; 0 until one is known.
    id_lengths: [usize; 2],
}

/// Where a datagram belongs.
struct Route {
    connection: u64,
    sender: Side,
    id_length: usize,
    is_id_known: bool,
}

const CLOSED_FOR: Duration = Duration::from_secs(60);
const SILENT_FOR: Duration = Duration::from_secs(600);
const BETWEEN_SWEEPS: Duration = Duration::from_secs(10);

/// How many connections are followed at once. Beyond that, the half that was silent for longest is handed out.
const MOST_CONNECTIONS: usize = 1 << 15;
/// How many address pairs and connection IDs of a connection are known; the oldest IDs are forgotten first.
const MOST_PATHS: usize = 1 << 8;
const MOST_IDS: usize = 1 << 10;

const PROTOCOL_UDP: u8 = 17;
/// The shortest destination connection ID that a client may begin with (RFC 9000 §7.2).
const SHORTEST_FIRST_ID: usize = 8;
/// HTTP/3 and what is made to look like it.
const HTTPS_PORT: u16 = 443;

impl<'l> Observer<'l> {
    /// An observer that has seen nothing.
    #[must_use]
    pub fn new(log: &'l KeyLogFile) -> Self {
        Self {
            log,
            routes: Routes::default(),
            connections: HashMap::new(),
            finished: Vec::new(),
            totals: Totals::default(),
            last_sweep: None,
            datagram: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes the next packet of the capture.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.totals.packets += 1;
        if let Some(time) = packet.time {
            self.sweep(time);
        }
        match Content::of(packet) {
            Content::Udp(datagram) => self.datagram(packet.place(), &datagram),
            Content::Fragment { protocol: PROTOCOL_UDP, .. } => self.totals.fragments += 1,
            Content::Tcp(_) | Content::Fragment { .. } | Content::Other => self.totals.other += 1,
            Content::Unreadable(_) => self.totals.unreadable += 1,
        }
    }

    /// The connections that ended since the last call.
    pub fn take_finished(&mut self) -> impl Iterator<Item = ConnectionReport> + '_ {
        self.finished.drain(..)
    }

    /// Ends the capture: returns the remaining connections and the totals.
    #[must_use]
    pub fn finish(mut self) -> (Vec<ConnectionReport>, Totals) {
        self.forget_all(|_| true);
        (self.finished, self.totals)
    }

    fn datagram(&mut self, place: Place, datagram: &CapturedDatagram<'_>) {
        let &CapturedDatagram { source, destination, payload, missing } = datagram;
        let found = match LongHeader::read(payload) {
            Some(header) => self.by_long_header(place, datagram, &header),
            None => self.by_short_header(datagram),
        };
        let Some(Route { connection, sender, id_length, is_id_known }) = found else { return };
        let Some(followed) = self.connections.get_mut(&connection) else { return };
        followed.connection.report.last = place;
        self.datagram.clear();
        self.datagram.extend_from_slice(payload);
        let arrival = Arrival { place, sender, id_length, is_id_known, is_cut_off: missing != 0 };
        let mut opening = Opening { log: self.log, scratch: &mut self.scratch };
        let is_ours = followed.connection.datagram(&mut opening, &mut self.datagram, &arrival);
        for (id, side) in followed.connection.new_ids.drain(..) {
            if !followed.ids.contains(&(id, side)) {
                if followed.ids.len() == MOST_IDS
                    && let Some((oldest, _)) = followed.ids.pop_front()
                {
                    self.routes.remove(connection, [oldest], iter::empty());
                }
                followed.ids.push_back((id, side));
                self.routes.add_id(id, Owner { connection, side });
            }
            followed.id_lengths[side as usize] = id.len();
        }
        let ends = match sender {
            Side::Client => [source, destination],
            Side::Server => [destination, source],
        };
        let paths = &mut followed.connection.report.paths;
        if is_ours && paths.len() < MOST_PATHS && paths.iter().all(|path| path.ends != ends) {
            paths.push(AddressPair { ends, first: place });
            self.routes.add_addresses(ends, connection);
        }
    }

    fn by_long_header(
        &mut self,
        place: Place,
        datagram: &CapturedDatagram<'_>,
        header: &LongHeader<'_>,
    ) -> Option<Route> {
        let &CapturedDatagram { source, destination, payload, .. } = datagram;
        // A client may use an ID of the server before the capture shows where it got it.
        let by_destination = self.by_long_id(header.destination, datagram, true);
        let by_id = by_destination.or_else(|| self.by_long_id(header.source, datagram, false));
        let found = by_id.or_else(|| self.routes.by_addresses(source, destination));
        let version = match Version::from_wire(header.version) {
            Ok(version) => version,
            Err(HeaderError::VersionNegotiation) => {
                let known = found.and_then(|(connection, _)| self.connections.get_mut(&connection));
                if let Some(followed) = known {
                    followed.connection.report.version_negotiations += 1;
                    return None;
                }
                let is_quic = self.may_be_quic(datagram);
                return self.stray(is_quic, |totals| &mut totals.version_negotiations);
            }
            Err(_) => {
                let is_quic = self.may_be_quic(datagram) || is_version(header.version);
                return self.stray(is_quic, |totals| &mut totals.unknown_version);
            }
        };
        let route = |(connection, sender)| Route {
            connection,
            sender,
            id_length: header.destination.len(),
            is_id_known: true,
        };
        self.datagram.clear();
        self.datagram.extend_from_slice(payload);
        let packet_type =
            Protected::split_first(&mut self.datagram, 0).map(|(packet, _)| packet.packet_type());
        let may_begin = matches!(packet_type, Ok(PacketType::Initial | PacketType::ZeroRtt));
        let begins = match found {
            Some((connection, Side::Client)) => {
                if may_begin && self.connections.get(&connection)?.connection.is_refused(version) {
                    self.forget(connection);
                    true
                } else {
                    by_destination.is_none() && self.is_another(connection, datagram, header)
                }
            }
            Some((connection, Side::Server)) => {
                // The client has already named itself: both ends may be clients of each other.
                by_id.is_none()
                    && header.destination.len() >= SHORTEST_FIRST_ID
                    && self.connections.get(&connection)?.id_lengths[Side::Client as usize] != 0
            }
            None => true,
        };
        match (by_id, found) {
            (Some(found), _) if !(may_begin && begins) => Some(route(found)),
            // Not to the client's address in this connection, or to an ID of the sender's own choice: another connection.
            (None, Some(found)) if !may_begin || found.1 == Side::Server && !begins => Some(route(found)),
            _ if may_begin => {
                let id = ConnectionId::new(header.destination).ok()?;
                Some(route((self.begin(place, [source, destination], version, id), Side::Client)))
            }
            _ => self.stray(true, |totals| &mut totals.of_no_connection),
        }
    }

    fn begin(&mut self, place: Place, ends: [SocketAddr; 2], version: Version, id: ConnectionId) -> u64 {
        if self.connections.len() == MOST_CONNECTIONS {
            self.forget_half();
        }
        self.totals.connections += 1;
        let number = self.totals.connections;
        let connection = QuicConnection::new(number, place, ends, version, id);
        self.connections.insert(number, Followed { connection, ids: VecDeque::new(), id_lengths: [0, 0] });
        self.routes.add_addresses(ends, number);
        number
    }

    fn by_short_header(&mut self, datagram: &CapturedDatagram<'_>) -> Option<Route> {
        let &CapturedDatagram { source, destination, payload, .. } = datagram;
        let behind_first = payload.get(1..).unwrap_or_default();
        let with = |ends| {
            let mut owners = self.routes.owners_by_prefix(behind_first);
            owners.find(|(_, owner)| self.ends_seen(*owner, datagram, true) >= ends)
        };
        let by_id = with(2).or_else(|| {
            // An end without connection IDs at these addresses has none elsewhere either.
            let by_addresses = self.routes.by_addresses(source, destination);
            let is_nameless = |(connection, sender): (u64, Side)| {
                let followed = self.connections.get(&connection)?;
                (followed.id_lengths[sender.other() as usize] == 0).then_some(())
            };
            match by_addresses.and_then(is_nameless) {
                Some(()) => None,
                None => with(1),
            }
        });
        if let Some((id_length, Owner { connection, side })) = by_id {
            return Some(Route { connection, sender: side.other(), id_length, is_id_known: true });
        }
        let Some((connection, sender)) = self.routes.by_addresses(source, destination) else {
            let is_quic = self.may_be_quic(datagram);
            return self.stray(is_quic, |totals| &mut totals.of_no_connection);
        };
        let id_length = self.connections.get(&connection)?.id_lengths[sender.other() as usize];
        Some(Route { connection, sender, id_length, is_id_known: id_length == 0 })
    }

    /// The connection in which an ID of a long header was given out, and which end sends. Prefers one seen between the same
    /// addresses, because short IDs are often the same.
    fn by_long_id(
        &self,
        id: &[u8],
        datagram: &CapturedDatagram<'_>,
        is_receiver: bool,
    ) -> Option<(u64, Side)> {
        let owners = self.routes.owners(id);
        let with = |ends| move |owner: &&Owner| self.ends_seen(**owner, datagram, is_receiver) >= ends;
        let owner = owners.iter().find(with(2)).or_else(|| owners.iter().find(with(1)))?;
        Some((owner.connection, if is_receiver { owner.side.other() } else { owner.side }))
    }

    /// Whether a client's first packet belongs to another connection than the one with its source connection ID, which may be
    /// short: it comes from elsewhere, or its destination is its own choice although the server has named one.
    fn is_another(&self, connection: u64, datagram: &CapturedDatagram<'_>, header: &LongHeader<'_>) -> bool {
        let is_known = |followed: &Followed| {
            let mut paths = followed.connection.report.paths.iter();
            paths.any(|path| path.ends == [datagram.source, datagram.destination])
                && !followed.connection.is_answered()
        };
        header.destination.len() >= SHORTEST_FIRST_ID
            && !self.connections.get(&connection).is_some_and(is_known)
    }

    /// How many ends of the datagram are where the connection was seen. Both do not move at once; short IDs of one connection turn
    /// up in packets of others.
    fn ends_seen(&self, owner: Owner, datagram: &CapturedDatagram<'_>, is_receiver: bool) -> usize {
        let receiver = if is_receiver { owner.side } else { owner.side.other() } as usize;
        let paths = self.connections.get(&owner.connection).map(|followed| &followed.connection.report.paths);
        let seen = paths.into_iter().flatten().map(|path| {
            usize::from(path.ends[receiver] == datagram.destination)
                + usize::from(path.ends[1 - receiver] == datagram.source)
        });
        seen.max().unwrap_or(0)
    }

    /// Counts a datagram of no connection, there if it is QUIC.
    fn stray(&mut self, is_quic: bool, count: fn(&mut Totals) -> &mut u64) -> Option<Route> {
        *(if is_quic { count(&mut self.totals) } else { &mut self.totals.other_datagrams }) += 1;
        None
    }

    /// Whether a datagram of no known connection is to or from a QUIC port or server.
    fn may_be_quic(&self, datagram: &CapturedDatagram<'_>) -> bool {
        let ends = [datagram.source, datagram.destination];
        ends.iter().any(|end| end.port() == HTTPS_PORT || self.routes.is_server(*end))
    }

    /// Hands out the connections that are over.
    fn sweep(&mut self, now: Time) {
        let since = |time: Option<Time>| {
            let time = time.unwrap_or(now).unix_nanoseconds();
            Duration::from_nanos(now.unix_nanoseconds().saturating_sub(time))
        };
        if self.last_sweep.is_some_and(|last| since(Some(last)) < BETWEEN_SWEEPS) {
            return;
        }
        self.last_sweep = Some(now);
        let is_over = |followed: &Followed| {
            let report = &followed.connection.report;
            since(report.last.time) >= if report.is_closed { CLOSED_FOR } else { SILENT_FOR }
        };
        self.forget_all(is_over);
    }

    /// Hands out the half that was silent for longest.
    fn forget_half(&mut self) {
        let followed = self.connections.iter();
        let mut by_silence: Vec<_> =
            followed.map(|(number, followed)| (followed.connection.report.last.packet, *number)).collect();
        by_silence.sort_unstable();
        by_silence.truncate(MOST_CONNECTIONS / 2);
        for (_, number) in by_silence {
            self.forget(number);
        }
    }

    /// Hands out those that are over, in order.
    fn forget_all(&mut self, is_over: impl Fn(&Followed) -> bool) {
        let over = self.connections.iter().filter(|(_, followed)| is_over(followed));
        let mut over: Vec<_> = over.map(|(number, _)| *number).collect();
        over.sort_unstable();
        over.into_iter().for_each(|number| self.forget(number));
    }

    fn forget(&mut self, number: u64) {
        let Some(Followed { connection, ids, .. }) = self.connections.remove(&number) else { return };
        let report = connection.finish();
        let ids = ids.into_iter().map(|(id, _)| id);
        self.routes.remove(number, ids, report.paths.iter().map(|path| path.ends));
        self.totals.add(&report);
        self.finished.push(report);
    }
}

/// What the long headers of all versions begin with (RFC 8999 §5.1).
struct LongHeader<'a> {
    version: u32,
    destination: &'a [u8],
    source: &'a [u8],
}

impl<'a> LongHeader<'a> {
    fn read(payload: &'a [u8]) -> Option<Self> {
        let (first, rest) = payload.split_first()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first()?;
        let (destination, rest) = rest.split_at_checked((*length).into())?;
        let (length, rest) = rest.split_first()?;
        let source = rest.get(..(*length).into())?;
        (first & 0x80 != 0).then_some(Self { version: u32::from_be_bytes(*version), destination, source })
    }
}

/// Whether an unknown version number is one of QUIC: reserved for negotiation (RFC 9000 §15), or of a draft.
const fn is_version(number: u32) -> bool {
    number & 0x0f0f_0f0f == 0x0a0a_0a0a || number >> 8 == 0xff_0000
}

impl fmt::Debug for Observer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("totals", &self.totals).finish_non_exhaustive()
    }
}
