//! MACs over a header whose checksum field is not zero as RFC 5925 §5.1 requires.

use std::net::IpAddr;

use wireseal_tcp_ao::option::{AO_HEADER_LENGTH, TCP_HEADER_LENGTH};
use wireseal_tcp_ao::{AoOption, OptionCoverage, Segment, Sne, TrafficKey, checksum, ip};

/// What the sender may have had in the checksum field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChecksumForm {
    /// What was recorded.
    AsRecorded,
    /// The sum over the pseudo-header, which a stack leaves for the network card to complete.
    PseudoHeader,
    /// The checksum of the segment before its MAC was filled in.
    WithoutMac,
}

impl ChecksumForm {
    pub(super) const ALL: [Self; 3] = [Self::AsRecorded, Self::PseudoHeader, Self::WithoutMac];
}

/// Whether the received MAC is one over the segment with the checksum field in this form.
pub(super) fn verifies(
    form: ChecksumForm,
    key: &TrafficKey,
    sne: Sne,
    segment: &Segment<'_>,
    ao: &AoOption<'_>,
    options: OptionCoverage,
) -> bool {
    let (source, destination) = (segment.source().address(), segment.destination().address());
    let mut tcp = segment.tcp().to_vec();
    let mac_at = TCP_HEADER_LENGTH + ao.offset + AO_HEADER_LENGTH;
    let recorded = [tcp[16], tcp[17]];
    tcp[mac_at..][..ao.mac.len()].fill(0);
    tcp[16..18].fill(0);
    let field = match form {
        ChecksumForm::AsRecorded => recorded,
        ChecksumForm::PseudoHeader => {
            (!checksum::tcp(source, destination, &vec![0; tcp.len()])).to_be_bytes()
        }
        ChecksumForm::WithoutMac => checksum::tcp(source, destination, &tcp).to_be_bytes(),
    };
    tcp[16..18].copy_from_slice(&field);
    let mut input = sne.0.to_be_bytes().to_vec();
    put_pseudo_header(&mut input, source, destination, tcp.len());
    match options {
        OptionCoverage::Covered => input.extend(&tcp),
        OptionCoverage::Excluded => {
            input.extend(&tcp[..TCP_HEADER_LENGTH]);
            input.extend(&tcp[TCP_HEADER_LENGTH + ao.offset..mac_at + ao.mac.len()]);
            input.extend(segment.payload());
        }
    }
    key.mac_key().verify(&[&input], ao.mac).is_ok()
}

fn put_pseudo_header(input: &mut Vec<u8>, source: IpAddr, destination: IpAddr, length: usize) {
    if let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) {
        input.extend(source.octets());
        input.extend(destination.octets());
        input.extend([0, ip::PROTOCOL_TCP]);
        input.extend((length as u16).to_be_bytes());
    } else {
        let octets = |address| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        input.extend(octets(source));
        input.extend(octets(destination));
        input.extend((length as u32).to_be_bytes());
        input.extend([0, 0, 0, ip::PROTOCOL_TCP]);
    }
}
