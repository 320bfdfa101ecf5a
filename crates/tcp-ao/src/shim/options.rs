//! TCP options rewritten: AO inserted or removed, MSS adjusted, SACK blocks cut to fit, Multipath TCP's offer taken out.

use crate::checksum::{self, PayloadSum};
use crate::error::{OptionError, Refusal, SignError};
use crate::ip::IpHeader;
use crate::option::{AoOption, MAX_OPTIONS_LENGTH, Options, TCP_HEADER_LENGTH, TcpOption, append_ao, kind};
use crate::tcp::field;

/// Octets of an MSS option (RFC 9293 §3.7.1).
const MSS_LENGTH: usize = 4;
/// Octets of a SACK option without blocks, and of one block (RFC 2018 §3).
const SACK_HEADER_LENGTH: usize = 2;
const SACK_BLOCK_LENGTH: usize = 8;

/// New options: up to 40 octets, with NOPs only as padding at the end.
pub(super) struct NewOptions {
    octets: [u8; MAX_OPTIONS_LENGTH],
    length: usize,
}

impl NewOptions {
    const fn new() -> Self {
        Self { octets: [kind::NO_OPERATION; MAX_OPTIONS_LENGTH], length: 0 }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.octets[..self.length]
    }

    fn push(&mut self, kind: u8, data: &[u8]) {
        // It fits: it was in 40 octets before, or was measured.
        let option = &mut self.octets[self.length..][..2 + data.len()];
        option[..2].copy_from_slice(&[kind, (2 + data.len()) as u8]);
        option[2..].copy_from_slice(data);
        self.length += option.len();
    }

    fn pad(mut self) -> Self {
        self.length = self.length.next_multiple_of(4);
        self
    }
}

/// The options of an outbound segment: the stack's, with the MSS raised by `mss_increase` up to `mss_limit` and as many SACK
/// blocks as fit, without MP_CAPABLE, and an AO option with room for a MAC of `mac_length` octets.
pub(super) fn with_ao(
    options: &[u8],
    mac_length: usize,
    mss_increase: usize,
    mss_limit: usize,
) -> Result<NewOptions, Refusal> {
    let mut others = 0;
    let malformed = |error: OptionError| Refusal::Sign(error.into());
    for option in Options::new(options) {
        let option = option.map_err(malformed)?;
        match option.kind {
            kind::AUTHENTICATION | kind::MD5_SIGNATURE => return Err(Refusal::AlreadySigned),
            kind::SELECTIVE_ACKNOWLEDGMENT => {}
            kind::MULTIPATH if offers_multipath(&option) => {}
            _ => others += option.length(),
        }
    }
    let free = MAX_OPTIONS_LENGTH.checked_sub(others + AoOption::length_with(mac_length));
    // Without the cookie the peer takes the SYN for an ordinary one (RFC 7413 §4.1.3).
    let has_fast_open = free.is_some();
    let blocks = free.unwrap_or(0).saturating_sub(SACK_HEADER_LENGTH) / SACK_BLOCK_LENGTH;
    let mut new = NewOptions::new();
    for option in Options::new(options) {
        let option = option.map_err(malformed)?;
        match option.kind {
            kind::MAXIMUM_SEGMENT_SIZE => {
                let raised = mss_of(&option).map(|mss| (mss + mss_increase).min(mss_limit.max(mss)));
                match raised.map(u16::try_from) {
                    Some(Ok(mss)) => new.push(option.kind, &mss.to_be_bytes()),
                    _ => new.push(option.kind, option.data),
                }
            }
            kind::SELECTIVE_ACKNOWLEDGMENT => {
                let kept = option.data.len().min(blocks * SACK_BLOCK_LENGTH);
                if kept > 0 {
                    new.push(option.kind, &option.data[..kept]);
                }
            }
            kind::FAST_OPEN if !has_fast_open => {}
            kind::MULTIPATH if offers_multipath(&option) => {}
            _ => new.push(option.kind, option.data),
        }
    }
    new.length = append_ao(&mut new.octets, new.length, mac_length).map_err(|error| match error {
        SignError::NoRoom { needed, free } => Refusal::NoRoom { needed, free },
        other => Refusal::Sign(other),
    })?;
    Ok(new)
}

/// The options of an inbound segment without AO and MP_CAPABLE. On a SYN, the MSS is lowered by `mss_decrease`; if the peer sent none,
/// `default_mss` takes its place (RFC 9293 §3.7.1).
pub(super) fn without_ao(
    options: &[u8],
    is_syn: bool,
    mss_decrease: usize,
    default_mss: usize,
) -> Result<NewOptions, OptionError> {
    // Some stacks take an MSS of zero for no limit.
    let lowered = |mss: usize| (mss.saturating_sub(mss_decrease).max(1) as u16).to_be_bytes();
    let mut new = NewOptions::new();
    let mut has_mss = false;
    for option in Options::new(options) {
        let option = option?;
        match option.kind {
            kind::AUTHENTICATION => {}
            kind::MULTIPATH if offers_multipath(&option) => {}
            kind::MAXIMUM_SEGMENT_SIZE if is_syn => {
                has_mss = true;
                match mss_of(&option) {
                    Some(mss) => new.push(option.kind, &lowered(mss)),
                    None => new.push(option.kind, option.data),
                }
            }
            _ => new.push(option.kind, option.data),
        }
    }
    // It fits: the AO option was at least twice as long.
    if is_syn && !has_mss && new.length + MSS_LENGTH <= MAX_OPTIONS_LENGTH {
        new.push(kind::MAXIMUM_SEGMENT_SIZE, &lowered(default_mss));
    }
    Ok(new.pad())
}

/// Whether it is Multipath TCP's MP_CAPABLE. Multipath TCP's other options leave no room for AO, and further subflows would have no keys.
/// Without the offer both ends fall back to TCP (RFC 8684 §3.7).
fn offers_multipath(option: &TcpOption<'_>) -> bool {
    const MP_CAPABLE: u8 = 0;
    option.data.first().is_some_and(|first| first >> 4 == MP_CAPABLE)
}

fn mss_of(option: &TcpOption<'_>) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(option.data.try_into().ok()?)))
}

/// Replaces the options of the packet at `buffer[start..]` by moving the headers; the payload stays in place. Corrects data offset
/// and IP length, and returns the packet's new start.
///
/// `ip_length` is the length of all IP headers, `old_options` that of the old options. [`write_checksums`] corrects the checksums.
pub(super) fn replace(
    buffer: &mut [u8],
    start: usize,
    ip_length: usize,
    old_options: usize,
    options: &NewOptions,
) -> Option<usize> {
    let options = options.as_bytes();
    let headers = ip_length + TCP_HEADER_LENGTH;
    let new_start = (start + old_options).checked_sub(options.len())?;
    buffer.copy_within(start..start + headers, new_start);
    let packet = &mut buffer[new_start..];
    packet[headers..headers + options.len()].copy_from_slice(options);
    let data_offset = &mut packet[ip_length + field::DATA_OFFSET];
    *data_offset = ((TCP_HEADER_LENGTH + options.len()) as u8 / 4) << 4 | *data_offset & 0x0f;
    let length_at = if packet[0] >> 4 == 4 { 2 } else { 4 };
    let old_length = u16::from_be_bytes([packet[length_at], packet[length_at + 1]]);
    let new_length = old_length.wrapping_sub(old_options as u16).wrapping_add(options.len() as u16);
    packet[length_at..length_at + 2].copy_from_slice(&new_length.to_be_bytes());
    Some(new_start)
}

/// Writes the TCP checksum and, in IPv4, the header checksum. The payload is added up, unless its sum is given.
pub(super) fn write_checksums(packet: &mut [u8], ip: &IpHeader, payload: Option<PayloadSum>) {
    let (headers, tcp) = packet.split_at_mut(ip.payload_offset);
    let length = tcp.len();
    let (header, rest) = tcp.split_at_mut(usize::from(tcp[field::DATA_OFFSET] >> 4) * 4);
    header[field::CHECKSUM].fill(0);
    let payload = payload.unwrap_or_else(|| PayloadSum::of(rest));
    let sum = checksum::tcp_header_to_send(ip.source, ip.destination, header, length, &payload);
    header[field::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    if headers[0] >> 4 == 4 {
        headers[10..12].fill(0);
        let sum = checksum::ipv4_header(headers);
        headers[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}
