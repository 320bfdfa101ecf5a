//! What a MAC is computed over (RFC 5925 §5.1).

use std::net::IpAddr;

use wireseal_tcp_ao::option::{AO_HEADER_LENGTH, TCP_HEADER_LENGTH};
use wireseal_tcp_ao::{AoOption, OptionCoverage, Segment, Sne, ip};

/// Octets of the start of a MAC input: whole blocks of every algorithm, with room for 4 octets of SNE, 40 of pseudo-header and 60 of
/// TCP header.
pub(super) const START_LENGTH: usize = 128;

/// The MAC input of a segment in two slices: its first octets, written to `start`, and the rest of the segment. The checksum field
/// gets this value; RFC 5925 §5.1 requires zero.
pub(super) fn mac_input<'a>(
    start: &'a mut [u8; START_LENGTH],
    sne: Sne,
    segment: &Segment<'a>,
    ao: &AoOption<'_>,
    options: OptionCoverage,
    checksum: u16,
) -> [&'a [u8]; 2] {
    let tcp = segment.tcp();
    start[..4].copy_from_slice(&sne.0.to_be_bytes());
    let header_at = match (segment.source().address(), segment.destination().address()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            start[4..8].copy_from_slice(&source.octets());
            start[8..12].copy_from_slice(&destination.octets());
            start[12..14].copy_from_slice(&[0, ip::PROTOCOL_TCP]);
            start[14..16].copy_from_slice(&(tcp.len() as u16).to_be_bytes());
            16
        }
        (source, destination) => {
            start[4..20].copy_from_slice(&ipv6_octets(source));
            start[20..36].copy_from_slice(&ipv6_octets(destination));
            start[36..40].copy_from_slice(&(tcp.len() as u32).to_be_bytes());
            start[40..44].copy_from_slice(&[0, 0, 0, ip::PROTOCOL_TCP]);
            44
        }
    };
    let copy = &mut start[header_at..];
    let ao_at = TCP_HEADER_LENGTH + ao.offset;
    let (copied, taken, mac_at) = match options {
        OptionCoverage::Covered => {
            let taken = tcp.len().min(copy.len());
            copy[..taken].copy_from_slice(&tcp[..taken]);
            (taken, taken, ao_at + AO_HEADER_LENGTH)
        }
        OptionCoverage::Excluded => {
            let mac_at = TCP_HEADER_LENGTH + AO_HEADER_LENGTH;
            copy[..TCP_HEADER_LENGTH].copy_from_slice(&tcp[..TCP_HEADER_LENGTH]);
            copy[TCP_HEADER_LENGTH..mac_at].copy_from_slice(&tcp[ao_at..ao_at + AO_HEADER_LENGTH]);
            (mac_at + ao.mac.len(), tcp.len() - segment.payload().len(), mac_at)
        }
    };
    copy[mac_at..mac_at + ao.mac.len()].fill(0);
    copy[16..18].copy_from_slice(&checksum.to_be_bytes());
    [&start[..header_at + copied], &tcp[taken..]]
}

fn ipv6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
