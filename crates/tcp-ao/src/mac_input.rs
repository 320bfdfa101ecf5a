//! The input of a segment's MAC (RFC 5925 §5.1): SNE, IP pseudo-header, TCP header, payload.

use core::fmt;
use core::net::IpAddr;
use core::ops::Range;

use wireseal_mac::{Mac, MessageHead};

use crate::ip::{PROTOCOL_TCP, ipv6_octets};
use crate::kdf::TrafficKey;
use crate::mkt::OptionCoverage;
use crate::option::{AoPlace, MAX_OPTIONS_LENGTH, TCP_HEADER_LENGTH};
use crate::tcp::{FixedHeader, field, header_length};
use crate::types::Sne;

/// The longest header that a data offset of four bits can express (RFC 9293 §3.1).
const MAX_HEADER_LENGTH: usize = TCP_HEADER_LENGTH + MAX_OPTIONS_LENGTH;

/// The MAC input of a segment (RFC 5925 §5.1), made by [`Segment::mac_input`](crate::Segment::mac_input).
#[derive(Clone, Copy)]
pub struct MacInput<'a> {
    sne: Sne,
    pseudo_header: PseudoHeader,
    /// A segment that [`Tcp`](crate::tcp::Tcp) has checked.
    tcp: &'a [u8],
    ao: AoPlace,
    coverage: OptionCoverage,
}

/// Source and destination.
#[derive(Clone, Copy)]
enum PseudoHeader {
    /// RFC 9293 §3.1.
    Ipv4(u32, u32),
    /// RFC 8200 §8.1.
    Ipv6(u128, u128),
}

impl PseudoHeader {
    /// One address is IPv4, in IPv6's form on the wire.
    #[cold]
    fn mixed(source: &IpAddr, destination: &IpAddr) -> Self {
        let [source, destination] =
            [source, destination].map(|address| u128::from_be_bytes(ipv6_octets(*address)));
        Self::Ipv6(source, destination)
    }
}

impl<'a> MacInput<'a> {
    /// `tcp` is a checked segment, `ao` the place of the option in its header; addresses are canonical.
    #[inline(always)]
    pub(crate) fn new(
        sne: Sne,
        (source, destination): (&IpAddr, &IpAddr),
        tcp: &'a [u8],
        ao: AoPlace,
        coverage: OptionCoverage,
    ) -> Self {
        let pseudo_header = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                PseudoHeader::Ipv4(source.to_bits(), destination.to_bits())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                PseudoHeader::Ipv6(source.to_bits(), destination.to_bits())
            }
            _ => PseudoHeader::mixed(source, destination),
        };
        Self { sne, pseudo_header, tcp, ao, coverage }
    }

    /// The fields in order, as the MAC reads them. Concatenated, they are the input.
    pub fn fields(&self) -> impl Iterator<Item = MacField<'a>> + use<'a> {
        let mut head = MessageHead::new();
        let [head, _] = self.message(&mut head);
        let fixed = self.tcp.first_chunk().expect("a checked segment has a header");
        let (header, payload) = self.tcp.split_at(header_length(fixed));
        let (address, [third, fourth]) = match self.pseudo_header {
            PseudoHeader::Ipv4(..) => (4, [(FieldName::Protocol, 2), (FieldName::TcpLength, 2)]),
            PseudoHeader::Ipv6(..) => (16, [(FieldName::TcpLength, 4), (FieldName::Protocol, 4)]),
        };
        let mac = self.ao.mac();
        let (before, after) = match self.coverage {
            OptionCoverage::Covered => (self.ao.start - TCP_HEADER_LENGTH, header.len() - mac.end),
            OptionCoverage::Excluded => (0, 0),
        };
        let lengths = [
            (FieldName::Sne, 4),
            (FieldName::Source, address),
            (FieldName::Destination, address),
            third,
            fourth,
            (FieldName::Header, field::CHECKSUM.start),
            (FieldName::Checksum, field::CHECKSUM.len()),
            (FieldName::UrgentPointer, TCP_HEADER_LENGTH - field::CHECKSUM.end),
            (FieldName::OptionsBeforeAo, before),
            (FieldName::AoHeader, mac.start - self.ao.start),
            (FieldName::AoMac, mac.len()),
            (FieldName::OptionsAfterAo, after),
        ];
        // The whole header fits into the head.
        let mut rest = head;
        let fields = lengths.map(|(name, length)| {
            let (octets, behind) = rest.split_at(length);
            rest = behind;
            let mut copy = [0; MAX_OPTIONS_LENGTH];
            copy[..length].copy_from_slice(octets);
            MacField { name, octets: FieldOctets::Head(copy, length) }
        });
        let payload = MacField { name: FieldName::Payload, octets: FieldOctets::Payload(payload) };
        fields.into_iter().chain([payload]).filter(|field| !field.as_ref().is_empty())
    }

    /// The input as two slices for [`MacKey::mac`](wireseal_mac::MacKey::mac): header and some payload, copied to `head`, and the rest
    /// of the segment in place.
    #[inline(always)]
    pub fn message<'m>(&self, head: &'m mut MessageHead) -> [&'m [u8]; 2]
    where
        'a: 'm,
    {
        self.try_message(head).expect("the place of the option is in the header of a checked segment")
    }

    /// [`message`](Self::message) without a panic: `None` if the option is not inside the header, which the compiler cannot rule out.
    /// Destructure the array; passing it whole costs a copy (7 ns).
    #[inline(always)]
    pub(crate) fn try_message<'m>(&self, head: &'m mut MessageHead) -> Option<[&'m [u8]; 2]>
    where
        'a: 'm,
    {
        if matches!(self.coverage, OptionCoverage::Excluded) {
            return Self::message_without_options(*self, head);
        }
        // Most segments carry only the AO option, with a MAC of 12 octets. With that place as a constant, the masks that zero the MAC are constants too.
        let written = match self.ao {
            AoPlace::ALONE => self.write_head(head, self.tcp, AoPlace::ALONE),
            other => self.write_head(head, self.tcp, other),
        };
        let (head, taken) = written?;
        Some([head, self.tcp.get(taken..)?])
    }

    /// Writes SNE, pseudo-header, and as much of `tcp` as there is room for, with zeros for checksum and MAC. Also returns how many octets
    /// of `tcp` were written.
    #[inline(always)]
    fn write_head<'m>(
        &self,
        head: &'m mut MessageHead,
        tcp: &[u8],
        ao: AoPlace,
    ) -> Option<(&'m [u8], usize)> {
        let (checksum, mac, length) = (field::CHECKSUM, ao.mac(), self.tcp.len());
        // `MessageHead::write` asserts the same; checked here, the compiler drops its panics.
        let within = |body: &[u8], [checksum, mac]: &[Range<usize>; 2]| {
            checksum.end <= body.len() && mac.end <= body.len() && mac.end <= MAX_HEADER_LENGTH
        };
        // After an IPv6 pseudo-header, the segment's ports complete the block.
        Some(match self.pseudo_header {
            PseudoHeader::Ipv4(source, destination) => {
                let block = u128::from(self.sne.0) << 96
                    | u128::from(source) << 64
                    | u128::from(destination) << 32
                    | u128::from(PROTOCOL_TCP) << 16
                    | u128::from(length as u16);
                let zeroed = [checksum, mac];
                if !within(tcp, &zeroed) {
                    return None;
                }
                head.write([block.swap_bytes()], tcp, zeroed)
            }
            PseudoHeader::Ipv6(source, destination) => {
                let (ports, rest) = tcp.split_first_chunk()?;
                let blocks = [
                    u128::from(self.sne.0) << 96 | source >> 32,
                    source << 96 | destination >> 32,
                    destination << 96
                        | u128::from(length as u32) << 64
                        | u128::from(PROTOCOL_TCP) << 32
                        | u128::from(u32::from_be_bytes(*ports)),
                ];
                let zeroed = [checksum, mac].map(|range| range.start - 4..range.end - 4);
                if !within(rest, &zeroed) {
                    return None;
                }
                let (head, taken) = head.write(blocks.map(u128::swap_bytes), rest, zeroed);
                (head, 4 + taken)
            }
        })
    }

    /// The message when the MAC excludes other options: the fixed header and the AO option are joined first.
    #[inline(never)]
    fn message_without_options<'m>(self, head: &'m mut MessageHead) -> Option<[&'m [u8]; 2]>
    where
        'a: 'm,
    {
        let fixed: &FixedHeader = self.tcp.first_chunk()?;
        let (header, payload) = self.tcp.split_at_checked(header_length(fixed))?;
        let option = header.get(self.ao.start..self.ao.mac().end)?;
        let mut joined = [0; MAX_HEADER_LENGTH];
        let (start, rest) = joined.split_at_mut(TCP_HEADER_LENGTH);
        start.copy_from_slice(fixed);
        rest.get_mut(..option.len())?.copy_from_slice(option);
        let joined = joined.get(..TCP_HEADER_LENGTH + option.len())?;
        // All of it fits into the head.
        let (head, _) = self.write_head(head, joined, self.ao.moved_to(TCP_HEADER_LENGTH))?;
        Some([head, payload])
    }

    /// The whole MAC; the option carries its leading octets.
    #[inline(always)]
    #[must_use]
    pub fn mac(&self, key: &TrafficKey) -> Mac {
        key.mac_key().mac(&self.message(&mut MessageHead::new()))
    }
}

impl fmt::Debug for MacInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.fields().map(|field| field.name)).finish()
    }
}

/// A field of a [`MacInput`].
#[derive(Clone, Copy, Debug)]
pub struct MacField<'a> {
    /// Which field it is.
    pub name: FieldName,
    octets: FieldOctets<'a>,
}

/// The octets as the MAC reads them: checksum and MAC are zeros.
impl AsRef<[u8]> for MacField<'_> {
    fn as_ref(&self) -> &[u8] {
        match &self.octets {
            FieldOctets::Head(octets, length) => &octets[..*length],
            FieldOctets::Payload(octets) => octets,
        }
    }
}

/// The fields of a [`MacInput`], in order. In IPv6, `TcpLength` comes before `Protocol`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldName {
    /// The sequence number extension: 4 octets.
    Sne,
    /// Pseudo-header: the source address, 4 or 16 octets.
    Source,
    /// Pseudo-header: the destination address.
    Destination,
    /// Pseudo-header: zero and the protocol number, 2 or 4 octets.
    Protocol,
    /// Pseudo-header: the true length of the segment, even if options are left out of the input; 2 or 4 octets.
    TcpLength,
    /// The TCP header up to the window: 16 octets.
    Header,
    /// The checksum, zeroed: 2 octets.
    Checksum,
    /// The urgent pointer: 2 octets.
    UrgentPointer,
    /// Options before AO, if the MAC covers options.
    OptionsBeforeAo,
    /// Kind, length, KeyID and RNextKeyID of the AO option: 4 octets.
    AoHeader,
    /// The MAC in the option, zeroed.
    AoMac,
    /// Options and padding after AO, if the MAC covers options.
    OptionsAfterAo,
    /// The payload.
    Payload,
}

/// A copy from the head of the message, or the payload in its place.
#[derive(Clone, Copy, Debug)]
enum FieldOctets<'a> {
    Head([u8; MAX_OPTIONS_LENGTH], usize),
    Payload(&'a [u8]),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Segment;

    /// No such segment is on the wire, but a stack can ask for its MAC.
    #[test]
    fn beside_an_ipv6_address_an_ipv4_address_is_mapped() {
        let [mapped, ipv6] = ["::ffff:192.0.2.1", "2001:db8::2"].map(|text| text.parse::<IpAddr>().unwrap());
        let mut tcp = [0; 36];
        (tcp[12], tcp[20], tcp[21]) = (9 << 4, 29, 16);
        for [source, destination] in [[mapped, ipv6], [ipv6, mapped]] {
            let segment = Segment::from_tcp(source, destination, &tcp).unwrap();
            let input = segment.mac_input(Sne(0), OptionCoverage::Covered).unwrap();
            let of = |name| input.fields().find(|field| field.name == name).unwrap().as_ref().to_vec();
            let addresses = [of(FieldName::Source), of(FieldName::Destination)];
            assert_eq!(addresses, [source, destination].map(|address| ipv6_octets(address).to_vec()));
        }
    }
}
