//! All connections of a capture.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, iter};

use wireseal_quic::{ConnectionId, HeaderError, PacketType, Protected, Version};

use super::connection::{Arrival, Connection};
use super::key_log::KeyLog;
use super::report::{ConnectionReport, Path, Place, Side, Totals};
use super::routes::{Owner, Routes};
use crate::capture::{Content, Datagram, Packet, Time};

/// Watches the connections of a capture, and opens their packets with the secrets of a key log.
///
/// It remembers the connections that are live: one that was closed is handed out a minute later, and one that was silent for
/// ten.
pub struct Observer<'l> {
    log: &'l KeyLog,
    routes: Routes,
    connections: HashMap<u64, Watched>,
    finished: Vec<ConnectionReport>,
    totals: Totals,
    last_sweep: Option<Time>,
    datagram: Vec<u8>,
    scratch: Vec<u8>,
}

struct Watched {
    connection: Connection,
    /// Those that routes lead to it by, the latest last.
    ids: VecDeque<(ConnectionId, Side)>,
    /// Octets of the ids that each end gives out; 0 until one is known.
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

/// Connections that are watched at a time: of more, those that were silent for longest are handed out, half of them at once.
const MOST_CONNECTIONS: usize = 1 << 15;
/// Pairs of addresses of a connection that are known, and connection IDs: of more, the oldest is forgotten.
const MOST_PATHS: usize = 1 << 8;
const MOST_IDS: usize = 1 << 10;

const PROTOCOL_UDP: u8 = 17;
/// Octets of the destination connection ID that a client begins with, at least (RFC 9000, section 7.2).
const SHORTEST_FIRST_ID: usize = 8;
/// Of HTTP/3 and whatever hides behind it.
const HTTPS_PORT: u16 = 443;

impl<'l> Observer<'l> {
    /// An observer that has seen nothing.
    #[must_use]
    pub fn new(log: &'l KeyLog) -> Self {
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
        let place = Place { packet: packet.number, time: packet.time };
        if let Some(time) = packet.time {
            self.sweep(time);
        }
        match Content::of(packet) {
            Content::Udp(datagram) => self.datagram(place, &datagram),
            Content::Fragment { protocol: PROTOCOL_UDP, .. } => self.totals.fragments += 1,
            Content::Tcp(_) | Content::Fragment { .. } | Content::Other => self.totals.other += 1,
            Content::Unreadable(_) => self.totals.unreadable += 1,
        }
    }

    /// The connections that are over since this was last asked.
    pub fn take_finished(&mut self) -> impl Iterator<Item = ConnectionReport> + '_ {
        self.finished.drain(..)
    }

    /// The connections that are left when the capture has ended, and what there was in all.
    #[must_use]
    pub fn finish(mut self) -> (Vec<ConnectionReport>, Totals) {
        let mut numbers: Vec<_> = self.connections.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            self.forget(number);
        }
        (self.finished, self.totals)
    }

    fn datagram(&mut self, place: Place, datagram: &Datagram<'_>) {
        let &Datagram { source, destination, payload, missing } = datagram;
        let found = match LongHeader::read(payload) {
            Some(header) => self.by_long_header(place, datagram, &header),
            None => self.by_short_header(datagram),
        };
        let Some(Route { connection, sender, id_length, is_id_known }) = found else { return };
        let Some(watched) = self.connections.get_mut(&connection) else { return };
        watched.connection.report.last = place;
        self.datagram.clear();
        self.datagram.extend_from_slice(payload);
        let arrival = Arrival { place, sender, id_length, is_id_known, is_cut_off: missing != 0 };
        let is_ours = watched.connection.datagram(self.log, &mut self.datagram, &arrival, &mut self.scratch);
        for (id, side) in watched.connection.new_ids.drain(..) {
            if !watched.ids.contains(&(id, side)) {
                if watched.ids.len() == MOST_IDS
                    && let Some((oldest, _)) = watched.ids.pop_front()
                {
                    self.routes.remove(connection, [oldest], iter::empty());
                }
                watched.ids.push_back((id, side));
                self.routes.add_id(id, Owner { connection, side });
            }
            watched.id_lengths[side as usize] = id.len();
        }
        let ends = match sender {
            Side::Client => [source, destination],
            Side::Server => [destination, source],
        };
        let paths = &mut watched.connection.report.paths;
        if is_ours && paths.len() < MOST_PATHS && paths.iter().all(|path| path.ends != ends) {
            paths.push(Path { ends, first: place });
            self.routes.add_addresses(ends, connection);
        }
    }

    fn by_long_header(
        &mut self,
        place: Place,
        datagram: &Datagram<'_>,
        header: &LongHeader<'_>,
    ) -> Option<Route> {
        let &Datagram { source, destination, payload, .. } = datagram;
        // A client may use an id of the server's before the capture has shown where it has it from.
        let by_destination = self.by_long_id(header.destination, datagram, true);
        let by_id = by_destination.or_else(|| self.by_long_id(header.source, datagram, false));
        let found = by_id.or_else(|| self.routes.by_addresses(source, destination));
        let version = match Version::from_wire(header.version) {
            Ok(version) => version,
            Err(HeaderError::VersionNegotiation) => {
                let known = found.and_then(|(connection, _)| self.connections.get_mut(&connection));
                if let Some(watched) = known {
                    watched.connection.report.version_negotiations += 1;
                } else if self.may_be_quic(datagram) {
                    self.totals.version_negotiations += 1;
                } else {
                    self.totals.other_datagrams += 1;
                }
                return None;
            }
            Err(_) => {
                if self.may_be_quic(datagram) || is_version(header.version) {
                    self.totals.unknown_version += 1;
                } else {
                    self.totals.other_datagrams += 1;
                }
                return None;
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
                // The client has said what its peer is to call it: both ends may be clients of each other.
                by_id.is_none()
                    && header.destination.len() >= SHORTEST_FIRST_ID
                    && self.connections.get(&connection)?.id_lengths[Side::Client as usize] != 0
            }
            None => true,
        };
        match (by_id, found) {
            (Some(found), _) if !(may_begin && begins) => Some(route(found)),
            // To an address that is not the client's of this connection, or an id of its own choice: it is another one.
            (None, Some(found)) if !may_begin || found.1 == Side::Server && !begins => Some(route(found)),
            _ if may_begin => {
                let id = ConnectionId::new(header.destination).ok()?;
                Some(route((self.begin(place, [source, destination], version, id), Side::Client)))
            }
            _ => {
                self.totals.of_no_connection += 1;
                None
            }
        }
    }

    fn begin(&mut self, place: Place, ends: [SocketAddr; 2], version: Version, id: ConnectionId) -> u64 {
        if self.connections.len() == MOST_CONNECTIONS {
            self.forget_half();
        }
        self.totals.connections += 1;
        let number = self.totals.connections;
        let connection = Connection::new(number, place, ends, version, id);
        self.connections.insert(number, Watched { connection, ids: VecDeque::new(), id_lengths: [0, 0] });
        self.routes.add_addresses(ends, number);
        number
    }

    fn by_short_header(&mut self, datagram: &Datagram<'_>) -> Option<Route> {
        let &Datagram { source, destination, payload, .. } = datagram;
        let behind_first = payload.get(1..).unwrap_or_default();
        let by_id = |fits: &dyn Fn(Owner) -> bool| {
            self.routes.owners_by_prefix(behind_first).find(|(_, owner)| fits(*owner))
        };
        let by_id = by_id(&|owner| self.is_at(owner, datagram, true)).or_else(|| {
            // An end that was seen here without connection IDs has none elsewhere either.
            let by_addresses = self.routes.by_addresses(source, destination);
            let is_nameless = |(connection, sender): (u64, Side)| {
                let watched = self.connections.get(&connection)?;
                (watched.id_lengths[sender.other() as usize] == 0).then_some(())
            };
            match by_addresses.and_then(is_nameless) {
                Some(()) => None,
                None => by_id(&|owner| self.is_near(owner, datagram, true)),
            }
        });
        if let Some((id_length, Owner { connection, side })) = by_id {
            return Some(Route { connection, sender: side.other(), id_length, is_id_known: true });
        }
        let Some((connection, sender)) = self.routes.by_addresses(source, destination) else {
            if self.may_be_quic(datagram) {
                self.totals.of_no_connection += 1;
            } else {
                self.totals.other_datagrams += 1;
            }
            return None;
        };
        let id_length = self.connections.get(&connection)?.id_lengths[sender.other() as usize];
        Some(Route { connection, sender, id_length, is_id_known: id_length == 0 })
    }

    /// The connection that an id of a long header was given out in, and which end sends: one that both ends belong to, if there
    /// is one, since short ids are often the same.
    fn by_long_id(&self, id: &[u8], datagram: &Datagram<'_>, is_receiver: bool) -> Option<(u64, Side)> {
        let owners = self.routes.owners(id);
        let is_at = |owner: &&Owner| self.is_at(**owner, datagram, is_receiver);
        let is_near = |owner: &&Owner| self.is_near(**owner, datagram, is_receiver);
        let owner = owners.iter().find(is_at).or_else(|| owners.iter().find(is_near))?;
        Some((owner.connection, if is_receiver { owner.side.other() } else { owner.side }))
    }

    /// Whether a client's first packet is not of the connection that has its source connection ID, which may be short: it comes
    /// from elsewhere, or its destination is of its own choice although the server has named one.
    fn is_another(&self, connection: u64, datagram: &Datagram<'_>, header: &LongHeader<'_>) -> bool {
        let is_known = |watched: &Watched| {
            let mut paths = watched.connection.report.paths.iter();
            paths.any(|path| path.ends == [datagram.source, datagram.destination])
                && !watched.connection.is_answered()
        };
        header.destination.len() >= SHORTEST_FIRST_ID
            && !self.connections.get(&connection).is_some_and(is_known)
    }

    /// Whether both ends of the datagram are where the connection was seen.
    fn is_at(&self, owner: Owner, datagram: &Datagram<'_>, is_receiver: bool) -> bool {
        let receiver = if is_receiver { owner.side } else { owner.side.other() } as usize;
        let paths = self.connections.get(&owner.connection).map(|watched| &watched.connection.report.paths);
        paths.into_iter().flatten().any(|path| {
            path.ends[receiver] == datagram.destination && path.ends[1 - receiver] == datagram.source
        })
    }

    /// Whether an end of the datagram is where the connection was seen: short ids of one are found in packets of others, and
    /// both ends at once do not move.
    fn is_near(&self, owner: Owner, datagram: &Datagram<'_>, is_receiver: bool) -> bool {
        let receiver = if is_receiver { owner.side } else { owner.side.other() } as usize;
        let paths = self.connections.get(&owner.connection).map(|watched| &watched.connection.report.paths);
        paths.into_iter().flatten().any(|path| {
            path.ends[receiver] == datagram.destination || path.ends[1 - receiver] == datagram.source
        })
    }

    /// Whether a datagram of no known connection goes where QUIC is spoken.
    fn may_be_quic(&self, datagram: &Datagram<'_>) -> bool {
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
        let is_over = |watched: &Watched| {
            let report = &watched.connection.report;
            since(report.last.time) >= if report.is_closed { CLOSED_FOR } else { SILENT_FOR }
        };
        let mut over: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, watched)| is_over(watched))
            .map(|(number, _)| *number)
            .collect();
        over.sort_unstable();
        for number in over {
            self.forget(number);
        }
    }

    /// Hands out those that were silent for longest.
    fn forget_half(&mut self) {
        let watched = self.connections.iter();
        let mut by_silence: Vec<_> =
            watched.map(|(number, watched)| (watched.connection.report.last.packet, *number)).collect();
        by_silence.sort_unstable();
        by_silence.truncate(MOST_CONNECTIONS / 2);
        for (_, number) in by_silence {
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(Watched { connection, ids, .. }) = self.connections.remove(&number) else { return };
        let report = connection.finish();
        let ids = ids.into_iter().map(|(id, _)| id);
        self.routes.remove(number, ids, report.paths.iter().map(|path| path.ends));
        self.totals.add(&report);
        self.finished.push(report);
    }
}

/// What the long headers of all versions begin with (RFC 8999, section 5.1).
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

/// Whether a number that is no known version is one of QUIC all the same: reserved to be negotiated (RFC 9000, section 15), or
/// a draft's.
const fn is_version(number: u32) -> bool {
    number & 0x0f0f_0f0f == 0x0a0a_0a0a || number >> 8 == 0xff_0000
}

impl fmt::Debug for Observer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("totals", &self.totals).finish_non_exhaustive()
    }
}
