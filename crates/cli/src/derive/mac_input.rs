//! What the MAC of a segment is computed over, field by field (RFC 5925 §5.1).

use std::net::{Ipv4Addr, Ipv6Addr};

use wireseal_tcp_ao::option::kind;
use wireseal_tcp_ao::{FieldName, MacInput, OptionCoverage};

use super::Field;

/// The parts of [`FieldName::Header`] by their lengths.
const HEADER: [(usize, &str); 6] = [
    (2, "source port"),
    (2, "destination port"),
    (4, "sequence number"),
    (4, "acknowledgment number"),
    (2, "data offset and flags"),
    (2, "window"),
];

/// The fields of a segment's MAC input with this coverage of options, in order.
#[must_use]
pub fn mac_input(input: &MacInput<'_>, options: OptionCoverage) -> Vec<Field> {
    let mut fields = Vec::new();
    for field in input.fields() {
        let octets = field.as_ref();
        let name = match field.name {
            FieldName::Sne => format!("SNE {}", number(octets)),
            FieldName::Source => format!("pseudo-header: source address {}", address(octets)),
            FieldName::Destination => format!("pseudo-header: destination address {}", address(octets)),
            FieldName::Protocol if octets.len() == 2 => "pseudo-header: zero, protocol 6".to_owned(),
            FieldName::Protocol => "pseudo-header: zeros, next header 6".to_owned(),
            FieldName::TcpLength => format!("pseudo-header: TCP length {}, with all options", number(octets)),
            FieldName::Header => {
                split(&mut fields, octets, HEADER);
                continue;
            }
            FieldName::Checksum => "checksum, zeroed".to_owned(),
            FieldName::UrgentPointer => "urgent pointer".to_owned(),
            FieldName::OptionsBeforeAo | FieldName::OptionsAfterAo => {
                other_options(&mut fields, octets);
                continue;
            }
            FieldName::AoHeader => {
                let remark = if options == OptionCoverage::Covered { "" } else { ", the only option" };
                let names = [
                    (2, format!("TCP-AO option: kind, length{remark}")),
                    (1, format!("TCP-AO option: KeyID {}", octets[2])),
                    (1, format!("TCP-AO option: RNextKeyID {}", octets[3])),
                ];
                split(&mut fields, octets, names);
                continue;
            }
            FieldName::AoMac => "TCP-AO option: MAC, zeroed".to_owned(),
            FieldName::Payload => format!("payload, {} octets", octets.len()),
        };
        fields.push(Field::new(octets, name));
    }
    fields
}

fn number(octets: &[u8]) -> u32 {
    octets.iter().fold(0, |number, octet| number << 8 | u32::from(*octet))
}

fn address(octets: &[u8]) -> String {
    match (<[u8; 4]>::try_from(octets), <[u8; 16]>::try_from(octets)) {
        (Ok(octets), _) => Ipv4Addr::from(octets).to_string(),
        (_, Ok(octets)) => Ipv6Addr::from(octets).to_string(),
        _ => String::new(),
    }
}

/// Adds parts of these lengths.
fn split(
    fields: &mut Vec<Field>,
    mut octets: &[u8],
    parts: impl IntoIterator<Item = (usize, impl Into<String>)>,
) {
    for (length, name) in parts {
        let (part, rest) = octets.split_at(length);
        fields.push(Field::new(part, name));
        octets = rest;
    }
}

/// Adds every option, and the octets between and after them.
fn other_options(fields: &mut Vec<Field>, mut octets: &[u8]) {
    while let [kind, rest @ ..] = octets {
        let length = match *kind {
            kind::END_OF_LIST => octets.len(),
            kind::NO_OPERATION => 1,
            // Options before TCP-AO have valid lengths, or it would not have been found; those after it may not.
            _ => rest.first().map_or(1, |length| usize::from(*length).clamp(2, octets.len())),
        };
        let (option, rest) = octets.split_at(length);
        fields.push(Field::new(option, name_of(*kind)));
        octets = rest;
    }
}

fn name_of(kind: u8) -> String {
    let name = match kind {
        kind::END_OF_LIST => "end of options, and padding",
        kind::NO_OPERATION => "no-operation",
        kind::MAXIMUM_SEGMENT_SIZE => "maximum segment size",
        3 => "window scale",
        4 => "SACK permitted",
        kind::SELECTIVE_ACKNOWLEDGMENT => "SACK",
        8 => "timestamps",
        _ => return format!("option of kind {kind}"),
    };
    format!("option: {name}")
}
