//! BGP messages on a byte stream: `routecore` reads their bodies, and this module checks headers and converts between UPDATEs and routes.

use std::net::IpAddr;
use std::sync::Arc;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use inetnum::addr::Prefix;
use routecore::bgp::aspath::HopPath;
use routecore::bgp::message::notification::{
    Details, MessageHeaderSubcode, NotificationBuilder, OpenMessageSubcode, UpdateMessageSubcode,
};
use routecore::bgp::message::update_builder::UpdateBuilder;
use routecore::bgp::message::{Message, SessionConfig, UpdateMessage};
use routecore::bgp::nlri::afisafi::{
    AfiSafiNlri, Ipv4UnicastNlri, Ipv6UnicastNlri, IsPrefix, Nlri, NlriCompose,
};
use routecore::bgp::nlri::nexthop::NextHop;
use routecore::bgp::path_attributes::PaMap;
use routecore::bgp::types::{AfiSafiType, LocalPref, Origin, OriginType};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::routes::{Attributes, Changes, Family, Route};

/// Octets of a message header (RFC 4271 §4.1).
const HEADER: usize = 19;
/// Octets of the longest message; RFC 8654's longer ones are never negotiated.
pub const MAX_MESSAGE: usize = 4096;
/// The 16 octets that every header starts with.
const MARKER: [u8; 16] = [0xff; 16];
const KEEPALIVE_TYPE: u8 = 4;
/// A KEEPALIVE: nothing but a header.
pub const KEEPALIVE: [u8; HEADER] =
    [255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 19, KEEPALIVE_TYPE];

/// A NOTIFICATION: error code, subcode and data (RFC 4271 §4.5).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notification {
    /// Code and subcode.
    pub details: Details,
    /// The data field.
    pub data: Vec<u8>,
}

impl Notification {
    /// One without data.
    pub fn bare(details: impl Into<Details>) -> Self {
        Self::new(details, [])
    }

    /// One with data.
    pub fn new(details: impl Into<Details>, data: impl Into<Vec<u8>>) -> Self {
        Self { details: details.into(), data: data.into() }
    }

    /// The whole message.
    pub fn to_octets(&self) -> Vec<u8> {
        NotificationBuilder::new_vec(self.details, Some(&self.data)).expect("the data are short")
    }
}

/// Why a session is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Closed {
    /// This end sent a NOTIFICATION.
    Sent(Notification),
    /// The peer sent a NOTIFICATION.
    Received(Notification),
    /// The stream ended or failed.
    Lost(io::ErrorKind),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent(notification) => write!(f, "sent {:?}", notification.details),
            Self::Received(notification) => write!(f, "received {:?}", notification.details),
            Self::Lost(kind) => write!(f, "connection lost: {kind}"),
        }
    }
}

impl From<Notification> for Closed {
    fn from(notification: Notification) -> Self {
        Self::Sent(notification)
    }
}

impl From<io::Error> for Closed {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.kind())
    }
}

/// Reads messages from a stream.
#[derive(Debug)]
pub struct Reader<S> {
    stream: S,
    buffer: BytesMut,
}

impl<S: AsyncRead + Unpin> Reader<S> {
    /// Starts at a message boundary.
    pub fn new(stream: S) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// The next message. Cancelling the call loses nothing.
    /// Fails at the end of the stream, and with the NOTIFICATION to send for a malformed message.
    pub async fn next(&mut self) -> Result<Message<Bytes>, Closed> {
        loop {
            if let Some(message) = decode(&mut self.buffer)? {
                return Ok(message);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(Closed::Lost(io::ErrorKind::UnexpectedEof));
            }
        }
    }
}

/// Takes the first message from the buffer, if it is complete.
/// Fails with the NOTIFICATION to send (RFC 4271 §6.1).
pub fn decode(buffer: &mut BytesMut) -> Result<Option<Message<Bytes>>, Notification> {
    let Some(header) = buffer.first_chunk::<HEADER>() else { return Ok(None) };
    let (length, kind) = ([header[16], header[17]], header[18]);
    if header[..16] != MARKER {
        return Err(Notification::bare(MessageHeaderSubcode::ConnectionNotSynchronized));
    }
    let lengths = match kind {
        1 => 29..=MAX_MESSAGE,
        2 => 23..=MAX_MESSAGE,
        3 => 21..=MAX_MESSAGE,
        KEEPALIVE_TYPE => HEADER..=HEADER,
        _ => return Err(Notification::new(MessageHeaderSubcode::BadMessageType, [kind])),
    };
    let octets = usize::from(u16::from_be_bytes(length));
    if !lengths.contains(&octets) {
        return Err(Notification::new(MessageHeaderSubcode::BadMessageLength, length));
    }
    if buffer.len() < octets {
        return Ok(None);
    }
    let message = buffer.split_to(octets).freeze();
    Message::from_octets(message, Some(&SessionConfig::modern())).map(Some).map_err(|_| match kind {
        1 => Notification::bare(OpenMessageSubcode::Unspecific),
        _ => Notification::bare(UpdateMessageSubcode::MalformedAttributeList),
    })
}

/// LOCAL_PREF of all routes inside an AS.
const LOCAL_PREFERENCE: u32 = 100;
/// Types of the path attributes that every announced route has (RFC 4271 §5).
const ORIGIN: u8 = 1;
const AS_PATH: u8 = 2;
const NEXT_HOP: u8 = 3;

/// How routes are presented to one peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Export {
    /// This router's AS.
    pub local_as: u32,
    /// The peer's AS.
    pub peer_as: u32,
    /// By family, the NEXT_HOP of routes that have none; without it they are not announced.
    pub next_hops: [Option<IpAddr>; 2],
}

/// UPDATE messages that announce `routes`, of at most 4096 octets each. Neighbouring routes of a family that share their
/// attributes share messages. Routes without a next hop are left out.
pub fn announcements(routes: &[Route], export: Export) -> impl Iterator<Item = Vec<u8>> {
    Family::ALL.into_iter().flat_map(move |family| {
        let routes: Vec<&Route> = routes.iter().filter(|route| Family::of(route.prefix) == family).collect();
        let groups = routes.chunk_by(|a, b| Arc::ptr_eq(&a.attributes, &b.attributes));
        let messages = groups.flat_map(|group| announcement(family, group, &export));
        messages.collect::<Vec<_>>()
    })
}

fn announcement(family: Family, routes: &[&Route], export: &Export) -> Vec<Vec<u8>> {
    let Attributes { as_path, next_hop } = &*routes[0].attributes;
    let own = next_hop.filter(|next_hop| next_hop.is_ipv4() == (family == Family::Ipv4));
    let Some(next_hop) = own.or(export.next_hops[family as usize]) else { return Vec::new() };
    let mut attributes = PaMap::empty();
    attributes.set(Origin(OriginType::Igp));
    let mut path = HopPath::from(&**as_path);
    if export.local_as == export.peer_as {
        attributes.set(LocalPref(LOCAL_PREFERENCE));
    } else {
        path.prepend(inetnum::asn::Asn::from_u32(export.local_as));
    }
    attributes.set(path);
    let prefixes = routes.iter().map(|route| route.prefix);
    match family {
        Family::Ipv4 => announce::<Ipv4UnicastNlri>(attributes, next_hop, prefixes),
        Family::Ipv6 => announce::<Ipv6UnicastNlri>(attributes, next_hop, prefixes),
    }
}

fn announce<N>(attributes: PaMap, next_hop: IpAddr, prefixes: impl Iterator<Item = Prefix>) -> Vec<Vec<u8>>
where
    N: AfiSafiNlri + NlriCompose + Clone + TryFrom<Prefix>,
{
    let mut builder = UpdateBuilder::<Vec<u8>, N>::from_attributes_builder(attributes);
    let filled = builder
        .announcements_from_iter(prefixes.filter_map(|prefix| prefix.try_into().ok()))
        .and_then(|()| builder.set_nexthop(NextHop::Unicast(next_hop)));
    filled.expect("a builder takes any prefix");
    messages(builder)
}

/// UPDATE messages that withdraw `prefixes`, of at most 4096 octets each.
pub fn withdrawals(prefixes: &[Prefix]) -> impl Iterator<Item = Vec<u8>> {
    withdraw::<Ipv4UnicastNlri>(prefixes).into_iter().chain(withdraw::<Ipv6UnicastNlri>(prefixes))
}

fn withdraw<N>(prefixes: &[Prefix]) -> Vec<Vec<u8>>
where
    N: AfiSafiNlri + NlriCompose + Clone + TryFrom<Prefix>,
{
    let mut builder = UpdateBuilder::<Vec<u8>, N>::new_vec();
    let mut of_family = prefixes.iter().filter_map(|prefix| N::try_from(*prefix).ok()).peekable();
    // An UPDATE that withdraws nothing would be IPv4's End-of-RIB.
    if of_family.peek().is_none() {
        return Vec::new();
    }
    builder.withdrawals_from_iter(of_family).expect("a builder takes any prefix");
    messages(builder)
}

fn messages<N: AfiSafiNlri + NlriCompose + Clone>(builder: UpdateBuilder<Vec<u8>, N>) -> Vec<Vec<u8>> {
    let config = SessionConfig::modern();
    // The only error is an attribute that fills a message by itself: an AS_PATH of a thousand numbers.
    builder.into_pdu_iter(&config).map_while(Result::ok).map(UpdateMessage::into_octets).collect()
}

/// The message that ends the initial table of a family: an UPDATE that withdraws nothing (RFC 4724 §2).
pub fn end_of_rib(family: Family) -> Vec<u8> {
    let mp_unreach: &[u8] = match family {
        Family::Ipv4 => &[],
        // An optional attribute, MP_UNREACH_NLRI, with three octets: AFI 2, SAFI 1.
        Family::Ipv6 => &[0x80, 15, 3, 0, 2, 1],
    };
    let length = mp_unreach.len() as u8;
    [&[0xff; 16][..], &[0, 23 + length, 2, 0, 0, 0, length], mp_unreach].concat()
}

/// Reads what an UPDATE changes. Routes with an AS_SET in their path, and routes that have been through `local_as`,
/// count as withdrawn (RFC 9774 §3, RFC 4271 §9.1.2).
/// Fails with the NOTIFICATION to send when the message is malformed or an announced route lacks an attribute (RFC 4271 §6.3).
pub fn changes(update: &UpdateMessage<Bytes>, local_as: u32) -> Result<Changes, Notification> {
    macro_rules! well_formed {
        ($part:expr) => {
            $part.map_err(|_| Notification::bare(UpdateMessageSubcode::MalformedAttributeList))?
        };
    }
    let missing = |kind| Notification::new(UpdateMessageSubcode::MissingWellknownAttribute, [kind]);
    let mut changes = Changes::default();
    for nlri in well_formed!(update.withdrawals()) {
        changes.withdrawn.extend(unicast(&well_formed!(nlri)));
    }
    let mut reached = Vec::new();
    for nlri in well_formed!(update.announcements()) {
        reached.extend(unicast(&well_formed!(nlri)));
    }
    let Some(first) = reached.first() else {
        changes.end_of_rib = match well_formed!(update.is_eor()) {
            Some(AfiSafiType::Ipv4Unicast) => Some(Family::Ipv4),
            Some(AfiSafiType::Ipv6Unicast) => Some(Family::Ipv6),
            _ => None,
        };
        return Ok(changes);
    };
    // A message has routes of one family, or IPv4 routes beside those of MP_REACH_NLRI.
    let family = if first.is_v4() { AfiSafiType::Ipv4Unicast } else { AfiSafiType::Ipv6Unicast };
    let next_hop = match update.find_next_hop(family) {
        Ok(NextHop::Unicast(address)) => address,
        Ok(NextHop::Ipv6LL { global, .. }) => global.into(),
        _ => return Err(missing(NEXT_HOP)),
    };
    well_formed!(update.origin()).ok_or_else(|| missing(ORIGIN))?;
    let path = well_formed!(update.aspath()).ok_or_else(|| missing(AS_PATH))?;
    let path: Result<Box<[u32]>, _> = path.hops().map(|hop| hop.try_into_asn().map(u32::from)).collect();
    match path {
        Ok(as_path) if !as_path.contains(&local_as) => {
            let attributes = Arc::new(Attributes { as_path, next_hop: Some(next_hop) });
            let route = |prefix| Route { prefix, attributes: Arc::clone(&attributes) };
            changes.announced = reached.into_iter().map(route).collect();
        }
        _ => changes.withdrawn.append(&mut reached),
    }
    Ok(changes)
}

fn unicast(nlri: &Nlri<Bytes>) -> Option<Prefix> {
    match nlri {
        Nlri::Ipv4Unicast(nlri) => Some(nlri.prefix()),
        Nlri::Ipv6Unicast(nlri) => Some(nlri.prefix()),
        _ => None,
    }
}
