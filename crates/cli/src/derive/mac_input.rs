//! What the MAC of a segment is computed over, field by field (RFC 5925 §5.1).

use wireseal_tcp_ao::option::{TCP_HEADER_LENGTH, kind};
use wireseal_tcp_ao::{AoOption, OptionCoverage, Segment, Sne};

use super::Field;
use super::kdf::address;

const PROTOCOL_TCP: u8 = 6;

/// The fields of a segment's MAC input, in order.
#[must_use]
pub fn mac_input(sne: Sne, segment: &Segment<'_>, ao: &AoOption<'_>, options: OptionCoverage) -> Vec<Field> {
    let mut fields = vec![Field::new(&sne.0.to_be_bytes(), format!("SNE {}", sne.0))];
    pseudo_header(&mut fields, segment);
    header(&mut fields, segment.header());
    match options {
        OptionCoverage::Covered => all_options(&mut fields, segment.option_octets(), ao),
        OptionCoverage::Excluded => {
            ao_option(&mut fields, segment.option_octets(), ao, ", the only option");
        }
    }
    if !segment.payload().is_empty() {
        let length = segment.payload().len();
        fields.push(Field::new(segment.payload(), format!("payload, {length} octets")));
    }
    fields
}

/// RFC 9293 §3.1 for IPv4, RFC 8200 §8.1 for IPv6.
fn pseudo_header(fields: &mut Vec<Field>, segment: &Segment<'_>) {
    let (source, destination) = (segment.source(), segment.destination());
    fields.push(address(&source, "pseudo-header: source"));
    fields.push(address(&destination, "pseudo-header: destination"));
    let length = segment.tcp().len();
    let length_name = format!("pseudo-header: TCP length {length}, with all options");
    if source.address().is_ipv4() {
        fields.push(Field::new(&[0, PROTOCOL_TCP], "pseudo-header: zero, protocol 6"));
        fields.push(Field::new(&(length as u16).to_be_bytes(), length_name));
    } else {
        fields.push(Field::new(&(length as u32).to_be_bytes(), length_name));
        fields.push(Field::new(&[0, 0, 0, PROTOCOL_TCP], "pseudo-header: zeros, next header 6"));
    }
}

fn header(fields: &mut Vec<Field>, header: &[u8]) {
    let names = [
        (0..2, "source port"),
        (2..4, "destination port"),
        (4..8, "sequence number"),
        (8..12, "acknowledgment number"),
        (12..14, "data offset and flags"),
        (14..16, "window"),
    ];
    for (range, name) in names {
        fields.push(Field::new(&header[range], name));
    }
    fields.push(Field::new(&[0; 2], "checksum, zeroed"));
    fields.push(Field::new(&header[18..20], "urgent pointer"));
}

/// Every option, and the octets between and after them.
fn all_options(fields: &mut Vec<Field>, octets: &[u8], ao: &AoOption<'_>) {
    let mut at = 0;
    while at < octets.len() {
        if at == ao.offset {
            ao_option(fields, octets, ao, "");
            at += ao.length();
            continue;
        }
        let length = match octets[at] {
            kind::END_OF_LIST => octets.len() - at,
            kind::NO_OPERATION => 1,
            // Lengths of options before TCP-AO are valid, or it would not have been found; others may not be.
            _ => octets.get(at + 1).map_or(1, |length| usize::from(*length).clamp(2, octets.len() - at)),
        };
        let option = &octets[at..at + length];
        fields.push(Field::new(option, name_of(option[0])));
        at += length;
    }
}

/// The TCP-AO option with its MAC zeroed.
fn ao_option(fields: &mut Vec<Field>, octets: &[u8], ao: &AoOption<'_>, remark: &str) {
    fields
        .push(Field::new(&octets[ao.offset..ao.offset + 2], format!("TCP-AO option: kind, length{remark}")));
    fields.push(Field::new(&[ao.key_id.0], format!("TCP-AO option: KeyID {}", ao.key_id)));
    fields.push(Field::new(&[ao.rnext_key_id.0], format!("TCP-AO option: RNextKeyID {}", ao.rnext_key_id)));
    fields.push(Field::new(&vec![0; ao.mac.len()], "TCP-AO option: MAC, zeroed"));
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

const _: () = assert!(TCP_HEADER_LENGTH == 20, "the fields of the header end where the options begin");
