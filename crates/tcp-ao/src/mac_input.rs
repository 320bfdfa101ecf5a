//! What the MAC of a segment is computed over (RFC 5925 §5.1): SNE, IP pseudo-header, TCP header with checksum and MAC
//! zeroed, payload.

use core::net::IpAddr;

use wireseal_mac::write_block;

use crate::authenticate::SignaturePlace;
use crate::ip::{PROTOCOL_TCP, ipv6_octets};
use crate::mkt::OptionCoverage;
use crate::option::{AO_HEADER_LENGTH, TCP_HEADER_LENGTH};
use crate::tcp::{field, header_length};
use crate::types::{KeyId, Sne};

/// Octets that are copied for the start of a MAC input: two blocks of SHA-1 or SHA-256, which the longest header of all,
/// 4 of SNE, 40 of IPv6 pseudo-header and 60 of TCP, fits into.
const START_LENGTH: usize = 128;
/// Octets of the SNE and the pseudo-header between IPv4 addresses, and between IPv6 addresses.
const IPV4_LENGTH: usize = 16;
const IPV6_LENGTH: usize = 44;
/// Octets of the start that are left for the segment.
const IPV4_SHARE: usize = START_LENGTH - IPV4_LENGTH;
const IPV6_SHARE: usize = START_LENGTH - IPV6_LENGTH;
/// The MAC length of nearly every MKT there is.
const USUAL_MAC_LENGTH: usize = 12;

/// Room for the start of a MAC input.
pub(crate) type Start = [u8; START_LENGTH];

/// A [`Start`] with nothing in it.
pub(crate) const EMPTY_START: Start = [0; START_LENGTH];

/// Gives the MAC input of a segment in two slices: what had to be written anew, in `start`, and the rest of the segment.
///
/// `key_ids` are the KeyID and the RNextKeyID that the option is to have, if others than stand there. Addresses are to be
/// canonical.
///
/// In line wherever it is called, and block by block for what is usual: then it is some forty instructions, so that the
/// processor begins with the next segment while the MAC of this one is under way.
#[inline(always)]
pub(crate) fn mac_input<'a>(
    start: &'a mut Start,
    sne: Sne,
    (source, destination): (&IpAddr, &IpAddr),
    tcp: &'a [u8],
    place: SignaturePlace,
    key_ids: Option<[KeyId; 2]>,
    options: OptionCoverage,
) -> [&'a [u8]; 2] {
    let ids = key_ids.map(|key_ids| u16::from_le_bytes(key_ids.map(|id| id.0)));
    let is_usual = matches!(options, OptionCoverage::Covered) && place.mac_length() == USUAL_MAC_LENGTH;
    // Lengths, not slices: what comes from one of several places may be put together in memory, for which every MAC would wait.
    let (length, taken) = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination))
            if is_usual && write_usual::<IPV4_LENGTH, IPV4_SHARE>(start, tcp, place.ao_at(), ids) =>
        {
            write_blocks(start, [ipv4_block(sne, source.to_bits(), destination.to_bits(), tcp.len())]);
            (START_LENGTH, IPV4_SHARE)
        }
        (IpAddr::V6(source), IpAddr::V6(destination))
            if is_usual && write_usual::<IPV6_LENGTH, IPV6_SHARE>(start, tcp, place.ao_at(), ids) =>
        {
            let blocks = ipv6_blocks(sne, source.to_bits(), destination.to_bits(), tcp.len());
            let ports = u32::from_be_bytes([tcp[0], tcp[1], tcp[2], tcp[3]]);
            write_blocks(start, [blocks[0], blocks[1], blocks[2] | u128::from(ports)]);
            (START_LENGTH, IPV6_SHARE)
        }
        _ => write_unusual(start, sne, (*source, *destination), tcp, place, ids, options),
    };
    [&start[..length], &tcp[taken..]]
}

/// Writes the blocks that come behind a pseudo-header of `AT` octets: the first `SHARE` octets of the segment but those that
/// belong to the block in which the pseudo-header ends, without checksum and MAC, and with the ids if there are any.
///
/// `false`, with nothing written, for a segment that is shorter, or whose AO option is in no usual place: at the start, or
/// behind the timestamps (RFC 7323, appendix A).
#[inline(always)]
fn write_usual<const AT: usize, const SHARE: usize>(
    start: &mut Start,
    tcp: &[u8],
    ao_at: usize,
    ids: Option<u16>,
) -> bool {
    const FIRST: usize = TCP_HEADER_LENGTH;
    const BEHIND_TIMESTAMPS: usize = TCP_HEADER_LENGTH + 12;
    let Some(share) = tcp.first_chunk::<SHARE>() else { return false };
    match ao_at {
        FIRST => Usual::<AT, FIRST>::write(start, share, ids),
        BEHIND_TIMESTAMPS => Usual::<AT, BEHIND_TIMESTAMPS>::write(start, share, ids),
        _ => return false,
    }
    true
}

/// A segment behind a pseudo-header of `AT` octets, whose AO option is at octet `AO_AT` of the segment.
struct Usual<const AT: usize, const AO_AT: usize>;

impl<const AT: usize, const AO_AT: usize> Usual<AT, AO_AT> {
    /// Where the ids are in the start; behind them is the MAC.
    const IDS_AT: usize = AT + AO_AT + AO_HEADER_LENGTH - 2;

    /// The octets of each block that are as in the segment.
    const KEPT: [u128; START_LENGTH / 16] = {
        let mut kept = [u128::MAX; START_LENGTH / 16];
        let mut at = 0;
        while at < START_LENGTH {
            let is_checksum = at >= AT + field::CHECKSUM.start && at < AT + field::CHECKSUM.end;
            let is_mac = at >= Self::IDS_AT + 2 && at < Self::IDS_AT + 2 + USUAL_MAC_LENGTH;
            if is_checksum || is_mac {
                kept[at / 16] &= !(0xff << (at % 16 * 8));
            }
            at += 1;
        }
        kept
    };

    #[inline(always)]
    fn write(start: &mut Start, share: &[u8], ids: Option<u16>) {
        // The ids never lie in two blocks, since options begin at multiples of four octets.
        const { assert!(Self::IDS_AT % 16 <= 14) };
        let (blocks, _) = start.as_chunks_mut();
        let (octets, _) = share[AT.next_multiple_of(16) - AT..].as_chunks();
        let first = AT.div_ceil(16);
        for (number, (block, octets)) in (first..).zip(blocks[first..].iter_mut().zip(octets)) {
            let mut value = u128::from_le_bytes(*octets) & Self::KEPT[number];
            if number == Self::IDS_AT / 16
                && let Some(ids) = ids
            {
                let shift = Self::IDS_AT % 16 * 8;
                value = value & !(0xffff << shift) | u128::from(ids) << shift;
            }
            write_block(block, value);
        }
    }
}

/// Writes the first blocks, each a number in network order.
#[inline(always)]
fn write_blocks<const COUNT: usize>(start: &mut Start, blocks: [u128; COUNT]) {
    for (to, block) in start.as_chunks_mut().0.iter_mut().zip(blocks) {
        write_block(to, block.swap_bytes());
    }
}

/// Writes the start for what is short, has a MAC of another length, or leaves options out of the MAC. Gives its octets, and
/// those of the segment that it stands for.
#[inline(never)]
fn write_unusual(
    start: &mut Start,
    sne: Sne,
    (source, destination): (IpAddr, IpAddr),
    tcp: &[u8],
    place: SignaturePlace,
    ids: Option<u16>,
    options: OptionCoverage,
) -> (usize, usize) {
    let header_at = if let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) {
        write_blocks(start, [ipv4_block(sne, source.to_bits(), destination.to_bits(), tcp.len())]);
        IPV4_LENGTH
    } else {
        let [source, destination] =
            [source, destination].map(|address| u128::from_be_bytes(ipv6_octets(address)));
        write_blocks(start, ipv6_blocks(sne, source, destination, tcp.len()));
        IPV6_LENGTH
    };
    let copy = &mut start[header_at..];
    let ao_at = place.ao_at();
    let (length, taken, mac_at) = match options {
        OptionCoverage::Covered => {
            // As much of the payload goes along as fills the start, so that the rest begins with a whole block.
            let taken = tcp.len().min(copy.len());
            copy[..taken].copy_from_slice(&tcp[..taken]);
            (taken, taken, ao_at + AO_HEADER_LENGTH)
        }
        OptionCoverage::Excluded => {
            copy[..TCP_HEADER_LENGTH].copy_from_slice(&tcp[..TCP_HEADER_LENGTH]);
            copy[TCP_HEADER_LENGTH..][..AO_HEADER_LENGTH]
                .copy_from_slice(&tcp[..header_length(tcp)][ao_at..][..AO_HEADER_LENGTH]);
            let mac_at = TCP_HEADER_LENGTH + AO_HEADER_LENGTH;
            (mac_at + place.mac_length(), header_length(tcp), mac_at)
        }
    };
    copy[field::CHECKSUM].fill(0);
    if let Some(ids) = ids {
        copy[mac_at - 2..mac_at].copy_from_slice(&ids.to_le_bytes());
    }
    copy[mac_at..][..place.mac_length()].fill(0);
    (header_at + length, taken)
}

/// SNE and pseudo-header between IPv4 addresses (RFC 9293 §3.1), in network order.
///
/// The length is the true one of the segment, also when options are left out of the input (RFC 5925 §5.1).
#[inline(always)]
fn ipv4_block(sne: Sne, source: u32, destination: u32, length: usize) -> u128 {
    u128::from(sne.0) << 96
        | u128::from(source) << 64
        | u128::from(destination) << 32
        | u128::from(PROTOCOL_TCP) << 16
        | u128::from(length as u16)
}

/// The same between IPv6 addresses (RFC 8200 §8.1), with zeros in the last four octets, which are the segment's.
#[inline(always)]
fn ipv6_blocks(sne: Sne, source: u128, destination: u128, length: usize) -> [u128; 3] {
    [
        u128::from(sne.0) << 96 | source >> 32,
        source << 96 | destination >> 32,
        destination << 96 | u128::from(length as u32) << 64 | u128::from(PROTOCOL_TCP) << 32,
    ]
}
