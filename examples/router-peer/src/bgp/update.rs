//! UPDATE messages from routes, and routes from UPDATE messages.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::community::Community;
use netgauze_bgp_pkt::iana::PathAttributeType;
use netgauze_bgp_pkt::nlri::{Ipv4Unicast, Ipv4UnicastAddress, Ipv6Unicast, Ipv6UnicastAddress};
use netgauze_bgp_pkt::notification::UpdateMessageError;
use netgauze_bgp_pkt::path_attribute::{
    As4PathSegment, AsPath, AsPathSegmentType, Communities, LocalPreference, MpReach, MpUnreach,
    MultiExitDiscriminator, NextHop, PathAttribute, PathAttributeValue,
};
use netgauze_bgp_pkt::update::BgpUpdateMessage;
use netgauze_bgp_pkt::wire::deserializer::BGP_MAX_MESSAGE_LENGTH;
use netgauze_iana::address_family::AddressType;
use netgauze_parse_utils::WritablePdu;

use super::rib::{Attributes, Changes, Family, Route};

/// AS numbers that one segment of an AS_PATH holds (RFC 4271 section 4.3).
const SEGMENT: usize = 255;
/// LOCAL_PREF of routes that carry none, inside an AS.
const DEFAULT_LOCAL_PREFERENCE: u32 = 100;

/// How routes are presented to one peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Export {
    /// The own AS.
    pub local_as: u32,
    /// The peer's AS.
    pub peer_as: u32,
    /// NEXT_HOP of IPv4 routes that bring none; without it they are not announced.
    pub next_hop_ipv4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub next_hop_ipv6: Option<Ipv6Addr>,
}

impl Export {
    fn next_hop(&self, family: Family, attributes: &Attributes) -> Option<IpAddr> {
        match (family, attributes.next_hop) {
            (Family::Ipv4, Some(own @ IpAddr::V4(_))) | (Family::Ipv6, Some(own @ IpAddr::V6(_))) => {
                Some(own)
            }
            (Family::Ipv4, _) => self.next_hop_ipv4.map(IpAddr::V4),
            (Family::Ipv6, _) => self.next_hop_ipv6.map(IpAddr::V6),
        }
    }
}

/// UPDATE messages that announce `routes`: prefixes of equal attributes share messages of at most 4096 octets. Routes
/// without a next hop, and prefixes outside unicast, are left out.
pub fn announcements(routes: &[Route], export: &Export) -> impl Iterator<Item = BgpMessage> + use<> {
    let mut places: HashMap<(Family, *const Attributes), usize> = HashMap::new();
    let mut groups: Vec<(Family, Arc<Attributes>, Vec<IpNet>)> = Vec::new();
    for route in routes {
        let family = Family::of(&route.prefix);
        let place = *places.entry((family, Arc::as_ptr(&route.attributes))).or_insert(groups.len());
        if place == groups.len() {
            groups.push((family, Arc::clone(&route.attributes), Vec::new()));
        }
        groups[place].2.push(route.prefix);
    }
    let export = *export;
    groups
        .into_iter()
        .filter_map(move |(family, attributes, prefixes)| {
            let next_hop = export.next_hop(family, &attributes)?;
            let common = path_attributes(&attributes, &export);
            Some(pack(prefixes, move |prefixes| announcement(&common, next_hop, prefixes)))
        })
        .flatten()
}

/// UPDATE messages that withdraw `prefixes`, of at most 4096 octets each.
pub fn withdrawals(prefixes: &[IpNet]) -> impl Iterator<Item = BgpMessage> + use<> {
    let (ipv4, ipv6): (Vec<_>, Vec<_>) =
        prefixes.iter().partition(|prefix| Family::of(prefix) == Family::Ipv4);
    pack(ipv4, ipv4_withdrawal).chain(pack(ipv6, ipv6_withdrawal))
}

/// The message that ends the initial table of a family: one that withdraws nothing (RFC 4724 section 2).
#[must_use]
pub fn end_of_rib(family: Family) -> BgpMessage {
    match family {
        Family::Ipv4 => ipv4_withdrawal(&[]),
        Family::Ipv6 => ipv6_withdrawal(&[]),
    }
}

/// Fills messages with as many prefixes of one family as fit.
fn pack(prefixes: Vec<IpNet>, build: impl Fn(&[IpNet]) -> BgpMessage) -> impl Iterator<Item = BgpMessage> {
    let room = usize::from(BGP_MAX_MESSAGE_LENGTH).saturating_sub(build(&[]).len());
    let mut start = 0;
    std::iter::from_fn(move || {
        let mut used = 0;
        let fitting = prefixes[start..]
            .iter()
            .take_while(|prefix| {
                used += 1 + usize::from(prefix.prefix_len().div_ceil(8));
                used <= room
            })
            .count();
        let message = (fitting > 0).then(|| build(&prefixes[start..start + fitting]));
        start += fitting;
        message
    })
}

fn ipv4_nlri(prefixes: &[IpNet]) -> Vec<Ipv4UnicastAddress> {
    let unicast = prefixes.iter().filter_map(|prefix| match prefix {
        IpNet::V4(net) => Ipv4Unicast::from_net(*net).ok(),
        IpNet::V6(_) => None,
    });
    unicast.map(Ipv4UnicastAddress::new_no_path_id).collect()
}

fn ipv6_nlri(prefixes: &[IpNet]) -> Box<[Ipv6UnicastAddress]> {
    let unicast = prefixes.iter().filter_map(|prefix| match prefix {
        IpNet::V4(_) => None,
        IpNet::V6(net) => Ipv6Unicast::from_net(*net).ok(),
    });
    unicast.map(|network| Ipv6UnicastAddress::new(None, network)).collect()
}

fn announcement(common: &[PathAttribute], next_hop: IpAddr, prefixes: &[IpNet]) -> BgpMessage {
    let mut attributes = common.to_vec();
    match next_hop {
        IpAddr::V4(next_hop) => {
            attributes.extend(attribute(PathAttributeValue::NextHop(NextHop::new(next_hop))));
            BgpMessage::Update(BgpUpdateMessage::new([], attributes, ipv4_nlri(prefixes)))
        }
        IpAddr::V6(next_hop_global) => {
            let nlri = ipv6_nlri(prefixes);
            let reach = MpReach::Ipv6Unicast { next_hop_global, next_hop_local: None, nlri };
            // RFC 7606 section 5.1 has MP_REACH_NLRI come first.
            attributes.splice(0..0, attribute(PathAttributeValue::MpReach(reach)));
            BgpMessage::Update(BgpUpdateMessage::new([], attributes, []))
        }
    }
}

fn ipv4_withdrawal(prefixes: &[IpNet]) -> BgpMessage {
    BgpMessage::Update(BgpUpdateMessage::new(ipv4_nlri(prefixes), [], []))
}

fn ipv6_withdrawal(prefixes: &[IpNet]) -> BgpMessage {
    let unreach = PathAttributeValue::MpUnreach(MpUnreach::Ipv6Unicast { nlri: ipv6_nlri(prefixes) });
    BgpMessage::Update(BgpUpdateMessage::new([], Vec::from_iter(attribute(unreach)), []))
}

/// An attribute with the flags that its type asks for.
fn attribute(value: PathAttributeValue) -> Option<PathAttribute> {
    let optional = value.can_be_optional().unwrap_or(false);
    let transitive = value.can_be_transitive().unwrap_or(false);
    // A message full of prefixes needs the two-octet length.
    let extended = matches!(
        value,
        PathAttributeValue::MpReach(_) | PathAttributeValue::MpUnreach(_) | PathAttributeValue::AsPath(_)
    );
    PathAttribute::from(optional, transitive, false, extended, value).ok()
}

fn path_attributes(attributes: &Attributes, export: &Export) -> Vec<PathAttribute> {
    let external = export.local_as != export.peer_as;
    let mut path = Vec::with_capacity(attributes.as_path.len() + 1);
    path.extend(external.then_some(export.local_as));
    path.extend_from_slice(&attributes.as_path);
    let segments: Vec<_> = path
        .chunks(SEGMENT)
        .map(|segment| As4PathSegment::new(AsPathSegmentType::AsSequence, segment))
        .collect();

    let mut values = vec![
        PathAttributeValue::Origin(attributes.origin),
        PathAttributeValue::AsPath(AsPath::as4_path_segments(segments)),
    ];
    if let Some(metric) = attributes.multi_exit_discriminator {
        values.push(PathAttributeValue::MultiExitDiscriminator(MultiExitDiscriminator::new(metric)));
    }
    if !external {
        let preference = attributes.local_preference.unwrap_or(DEFAULT_LOCAL_PREFERENCE);
        values.push(PathAttributeValue::LocalPreference(LocalPreference::new(preference)));
    }
    if !attributes.communities.is_empty() {
        let communities: Vec<_> = attributes.communities.iter().copied().map(Community::new).collect();
        values.push(PathAttributeValue::Communities(Communities::new(communities)));
    }
    values.into_iter().filter_map(attribute).collect()
}

/// Reads what an UPDATE changes.
///
/// Routes with an AS_SET in their path, and routes that have been through `local_as` already, count as withdrawn (RFC 9774
/// section 3, RFC 4271 section 9.1.2).
///
/// # Errors
/// The error to notify the peer of, when an attribute is missing that announced routes must have (RFC 4271 section 6.3).
pub fn changes(update: &BgpUpdateMessage, local_as: u32) -> Result<Changes, UpdateMessageError> {
    let mut reached: Vec<(IpNet, IpAddr)> = Vec::new();
    let mut changes = Changes::default();
    changes
        .withdrawn
        .extend(update.withdraw_routes().iter().map(|route| IpNet::V4(route.network().address())));
    let mut origin = None;
    let mut path = None;
    let mut next_hop = None;
    let mut attributes = Attributes::default();
    for attribute in update.path_attributes() {
        match attribute.value() {
            PathAttributeValue::Origin(value) => origin = Some(*value),
            PathAttributeValue::AsPath(value) => path = Some(value),
            PathAttributeValue::NextHop(value) => next_hop = Some(IpAddr::V4(value.next_hop())),
            PathAttributeValue::MultiExitDiscriminator(value) => {
                attributes.multi_exit_discriminator = Some(value.metric());
            }
            PathAttributeValue::LocalPreference(value) => attributes.local_preference = Some(value.metric()),
            PathAttributeValue::Communities(value) => {
                attributes.communities = value.communities().iter().map(Community::value).collect();
            }
            PathAttributeValue::MpReach(MpReach::Ipv6Unicast { next_hop_global, nlri, .. }) => {
                let nets = nlri.iter().map(|route| IpNet::V6(route.network().address()));
                reached.extend(nets.map(|net| (net, IpAddr::V6(*next_hop_global))));
            }
            PathAttributeValue::MpReach(MpReach::Ipv4Unicast { next_hop, nlri, .. }) => {
                let nets = nlri.iter().map(|route| IpNet::V4(route.network().address()));
                reached.extend(nets.map(|net| (net, *next_hop)));
            }
            PathAttributeValue::MpUnreach(MpUnreach::Ipv6Unicast { nlri }) => {
                changes.withdrawn.extend(nlri.iter().map(|route| IpNet::V6(route.network().address())));
            }
            PathAttributeValue::MpUnreach(MpUnreach::Ipv4Unicast { nlri }) => {
                changes.withdrawn.extend(nlri.iter().map(|route| IpNet::V4(route.network().address())));
            }
            _ => {}
        }
    }
    if !update.nlri().is_empty() {
        let next_hop = next_hop.ok_or_else(|| missing(PathAttributeType::NextHop))?;
        reached.extend(update.nlri().iter().map(|route| (IpNet::V4(route.network().address()), next_hop)));
    }
    if reached.is_empty() {
        changes.end_of_rib = match update.end_of_rib() {
            Some(AddressType::Ipv4Unicast) => Some(Family::Ipv4),
            Some(AddressType::Ipv6Unicast) => Some(Family::Ipv6),
            _ => None,
        };
        return Ok(changes);
    }
    attributes.origin = origin.ok_or_else(|| missing(PathAttributeType::Origin))?;
    let path = path.ok_or_else(|| missing(PathAttributeType::AsPath))?;
    match sequence(path).filter(|path| !path.contains(&local_as)) {
        Some(path) => attributes.as_path = path,
        None => {
            changes.withdrawn.extend(reached.into_iter().map(|(prefix, _)| prefix));
            return Ok(changes);
        }
    }
    share(reached, &attributes, &mut changes.announced);
    Ok(changes)
}

/// Makes routes of prefixes, one set of attributes for each run of equal next hops.
fn share(reached: Vec<(IpNet, IpAddr)>, attributes: &Attributes, routes: &mut Vec<Route>) {
    let mut shared: Option<Arc<Attributes>> = None;
    for (prefix, next_hop) in reached {
        let attributes = match &shared {
            Some(shared) if shared.next_hop == Some(next_hop) => Arc::clone(shared),
            _ => Arc::new(Attributes { next_hop: Some(next_hop), ..attributes.clone() }),
        };
        shared = Some(Arc::clone(&attributes));
        routes.push(Route { prefix: prefix.trunc(), attributes });
    }
}

fn missing(attribute: PathAttributeType) -> UpdateMessageError {
    UpdateMessageError::MissingWellKnownAttribute { value: Box::from([attribute as u8]) }
}

/// The AS numbers of a path made of sequences only.
fn sequence(path: &AsPath) -> Option<Box<[u32]>> {
    match path {
        AsPath::As4PathSegments(segments) => {
            let ordered =
                segments.iter().all(|segment| segment.segment_type() == AsPathSegmentType::AsSequence);
            ordered.then(|| segments.iter().flat_map(|segment| segment.as_numbers()).copied().collect())
        }
        AsPath::As2PathSegments(_) => None,
    }
}
