//! What RFC 9000, 9001 and 9369 say about headers and packet numbers, written from them and not from the code under test.

use std::ops::Range;

use wireseal_quic::PacketType;

/// A variable-length integer (RFC 9000 §16): its value, and how many octets it took.
pub fn varint(octets: &[u8]) -> Option<(u64, usize)> {
    let first = *octets.first()?;
    let length = match first & 0xc0 {
        0x00 => 1,
        0x40 => 2,
        0x80 => 4,
        _ => 8,
    };
    if octets.len() < length {
        return None;
    }
    let mut value = u64::from(first & 0x3f);
    for octet in &octets[1..length] {
        value = value * 256 + u64::from(*octet);
    }
    Some((value, length))
}

/// Why there is no protected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends too early.
    Truncated,
    /// Version 0 (RFC 9000 §17.2.1).
    VersionNegotiation,
    /// Neither version 1 nor version 2.
    UnknownVersion(u32),
    /// More than 20 octets (RFC 9000 §17.2).
    ConnectionIdTooLong,
    /// RFC 9000 §17.2.5.
    Retry,
}

/// The first packet of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it is.
    pub kind: PacketType,
    /// The version of a long header.
    pub version: Option<u32>,
    /// Where the destination connection ID is.
    pub destination: Range<usize>,
    /// Where the source connection ID is, if it has one.
    pub source: Range<usize>,
    /// Where the token is, if it has one.
    pub token: Range<usize>,
    /// Where the packet number starts.
    pub number: usize,
    /// Where the packet ends.
    pub end: usize,
}

/// Reads the first packet of a datagram whose short headers have connection IDs of `id_length` octets.
///
/// # Errors
/// [`Fault`] when there is none that keys would open.
pub fn packet(datagram: &[u8], id_length: usize) -> Result<Packet, Fault> {
    let first = *datagram.first().ok_or(Fault::Truncated)?;
    if first < 0x80 {
        let number = 1 + id_length;
        if datagram.len() < number {
            return Err(Fault::Truncated);
        }
        return Ok(Packet {
            kind: PacketType::OneRtt,
            version: None,
            destination: 1..number,
            source: 0..0,
            token: 0..0,
            number,
            end: datagram.len(),
        });
    }
    let version = datagram.get(1..5).ok_or(Fault::Truncated)?;
    let version = version.iter().fold(0, |value, octet| value * 256 + u32::from(*octet));
    // RFC 9000 §17.2 and RFC 9369 §3.2.
    let kinds = match version {
        0 => return Err(Fault::VersionNegotiation),
        1 => [Some(PacketType::Initial), Some(PacketType::ZeroRtt), Some(PacketType::Handshake), None],
        0x6b33_43cf => {
            [None, Some(PacketType::Initial), Some(PacketType::ZeroRtt), Some(PacketType::Handshake)]
        }
        version => return Err(Fault::UnknownVersion(version)),
    };
    let id = |at: usize| {
        let length = usize::from(*datagram.get(at).ok_or(Fault::Truncated)?);
        if length > 20 {
            return Err(Fault::ConnectionIdTooLong);
        }
        let range = at + 1..at + 1 + length;
        if range.end > datagram.len() { Err(Fault::Truncated) } else { Ok(range) }
    };
    let destination = id(5)?;
    let source = id(destination.end)?;
    let kind = kinds[usize::from(first >> 4 & 3)].ok_or(Fault::Retry)?;
    // The end of a field of as many octets as the variable-length integer at `at` says, and where the field starts.
    let field = |at: usize| {
        let (length, octets) = varint(&datagram[at..]).ok_or(Fault::Truncated)?;
        let start = at + octets;
        if length > (datagram.len() - start) as u64 {
            return Err(Fault::Truncated);
        }
        Ok(start..start + length as usize)
    };
    let token = if kind == PacketType::Initial { field(source.end)? } else { source.end..source.end };
    let rest = field(token.end)?;
    Ok(Packet { kind, version: Some(version), destination, source, token, number: rest.start, end: rest.end })
}

/// The packet number that `truncated`, its last `bits` bits, stands for: of those that end so, the closest to `expected`
/// (RFC 9000 §17.1), and of two that are as close, the greater.
pub fn closest(expected: u64, truncated: u64, bits: u32) -> u64 {
    let window = 1_u128 << bits;
    let base = u128::from(expected) / window;
    let candidates = [base.checked_sub(1), Some(base), Some(base + 1)].into_iter().flatten();
    candidates
        .map(|base| base * window + u128::from(truncated))
        .filter(|candidate| *candidate < 1 << 62)
        .min_by_key(|candidate| (candidate.abs_diff(u128::from(expected)), u128::MAX - candidate))
        .expect("a number in the window of the expected one") as u64
}
