//! A packet by itself, without a capture file that names its link type.

use wireseal_tcp_ao::Segment;

use super::DeriveError;
use crate::capture::{Content, Packet};

const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_RAW: u16 = 101;
/// Octets of the longest packet (RFC 8200 §3).
const MAX_PACKET: usize = 40 + 65_535;

/// The TCP segment in an IP packet or an Ethernet frame.
///
/// # Errors
/// [`DeriveError`], with what the packet is instead.
pub fn segment(octets: &[u8]) -> Result<Segment<'_>, DeriveError> {
    match segment_of(octets, 0) {
        // If the headers fit a longer packet, the packet has lost its end.
        Err(DeriveError::Unreadable(error)) => match segment_of(octets, MAX_PACKET) {
            Err(DeriveError::CutOff { missing }) => Err(DeriveError::CutOff { missing }),
            _ => Err(DeriveError::Unreadable(error)),
        },
        found => found,
    }
}

/// The segment, if up to this many octets may be missing at the end of the packet.
fn segment_of(octets: &[u8], unrecorded: usize) -> Result<Segment<'_>, DeriveError> {
    let content = |link_type| {
        let original_length = octets.len() + unrecorded;
        Content::of(&Packet { number: 1, time: None, link_type, octets, original_length })
    };
    // A frame to an unusual address may begin like an IP packet; then it is read as whichever makes sense.
    let as_ip = matches!(octets.first(), Some(0x40..=0x4f | 0x60..=0x6f));
    let content = match content(LINKTYPE_RAW) {
        found @ Content::Tcp(_) if as_ip => found,
        found => match content(LINKTYPE_ETHERNET) {
            Content::Unreadable(_) | Content::Other if as_ip => found,
            found => found,
        },
    };
    match content {
        Content::Tcp(segment) if segment.missing > 0 => Err(DeriveError::CutOff { missing: segment.missing }),
        Content::Tcp(segment) => Segment::from_tcp(segment.source, segment.destination, segment.octets)
            .map_err(DeriveError::Segment),
        Content::Other => Err(DeriveError::NotTcp),
        Content::Fragment { .. } => Err(DeriveError::Fragment),
        Content::Unreadable(error) => Err(DeriveError::Unreadable(error)),
    }
}
