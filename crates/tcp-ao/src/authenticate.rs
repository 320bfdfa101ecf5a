//! Where the MAC of a segment is computed: the pure functions, for stacks that keep their own state.
//!
//! The input is that of RFC 5925 §5.1: SNE, IP pseudo-header, TCP header with checksum and MAC zeroed, payload.

use core::fmt;
use core::net::IpAddr;
use core::ops::Range;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::Mac;

use crate::ip::{PROTOCOL_TCP, ipv6_octets};
use crate::kdf::TrafficKey;
use crate::mkt::{MktParameters, OptionCoverage};
use crate::option::{AO_HEADER_LENGTH, AoOption, OptionError, TCP_HEADER_LENGTH};
use crate::segment::{ParseError, Segment, field};
use crate::types::{KeyId, Sne};

/// Why a received segment is not what its peer sent; it must be dropped, and nothing has changed but a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VerifyError {
    /// The peer, or someone in its name, sent a segment without AO option.
    Unsigned,
    /// The options are malformed, or hold what RFC 5925 §2.2 forbids.
    Options(OptionError),
    /// No MKT has this RecvID.
    UnknownKeyId(KeyId),
    /// The option's MAC has another length than the MKT says, or one under 4 or over 16; no MAC was computed.
    MacLength {
        /// What the MKT says, in octets.
        expected: usize,
        /// What the option has, in octets.
        received: usize,
    },
    /// The MAC is wrong: another key, another connection, or altered on the way.
    BadMac {
        /// The MKT that the segment named.
        key_id: KeyId,
    },
    /// The segment is not of this connection; the caller picked the wrong one.
    OtherConnection,
    /// A segment that cannot come in the connection's present state: its ISNs do not yet belong to it, or a SYN
    /// came when they already do.
    State,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned => f.write_str("segment is unsigned"),
            Self::Options(error) => error.fmt(f),
            Self::UnknownKeyId(id) => write!(f, "no key has RecvID {id}"),
            Self::MacLength { expected, received } => {
                write!(f, "MAC has {received} octets, the key says {expected}")
            }
            Self::BadMac { key_id } => write!(f, "MAC does not verify under the key with RecvID {key_id}"),
            Self::OtherConnection => f.write_str("segment belongs to another connection"),
            Self::State => f.write_str("segment does not fit the connection's state"),
        }
    }
}

impl core::error::Error for VerifyError {}

impl From<OptionError> for VerifyError {
    fn from(error: OptionError) -> Self {
        Self::Options(error)
    }
}

/// Why a segment could not be signed; the caller is to blame, and the segment is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignError {
    /// The octets are not a TCP segment.
    Parse(ParseError),
    /// The header's options are malformed.
    Options(OptionError),
    /// The header has no AO option to fill in; see [`append_ao`](crate::append_ao).
    NoOption,
    /// The header's AO option leaves another MAC length than the MKT says, or one under 4 or over 16.
    MacLength {
        /// What the MKT says, in octets.
        expected: usize,
        /// What the option has, in octets.
        present: usize,
    },
    /// The segment is not of this connection.
    OtherConnection,
    /// The segment cannot be sent in the connection's present state.
    State,
}

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(error) => error.fmt(f),
            Self::Options(error) => error.fmt(f),
            Self::NoOption => f.write_str("header has no AO option to fill in"),
            Self::MacLength { expected, present } => {
                write!(f, "AO option leaves {present} octets for the MAC, the key says {expected}")
            }
            Self::OtherConnection => f.write_str("segment belongs to another connection"),
            Self::State => f.write_str("segment does not fit the connection's state"),
        }
    }
}

impl core::error::Error for SignError {}

impl From<ParseError> for SignError {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

impl From<OptionError> for SignError {
    fn from(error: OptionError) -> Self {
        Self::Options(error)
    }
}

/// Octets that are copied for the start of a MAC input: two blocks of SHA-1 or SHA-256, which the longest header of all,
/// 4 of SNE, 40 of IPv6 pseudo-header and 60 of TCP, fits into.
pub(crate) const START_LENGTH: usize = 128;
/// Octets of them that are left for the segment behind an SNE and an IPv4 pseudo-header.
const IPV4_SHARE: usize = START_LENGTH - 16;

/// Computes the MAC of a segment (RFC 5925 §5.1); the option carries its first octets.
///
/// `ao` is the segment's own AO option, whose ids may be others than those that stand in the header yet; what stands
/// in its MAC and in the checksum field does not matter.
///
/// # Panics
/// When `ao` is not the segment's own and lies outside its header.
#[inline]
#[must_use]
pub fn segment_mac(
    key: &TrafficKey,
    sne: Sne,
    segment: &Segment<'_>,
    ao: &AoOption<'_>,
    options: OptionCoverage,
) -> Mac {
    key.mac_key().mac(&mac_input(&mut [0; START_LENGTH], sne, segment, ao, options))
}

/// Checks a segment's MAC against the key its KeyID named, in constant time.
///
/// # Errors
/// [`VerifyError::MacLength`] before any MAC is computed, and [`VerifyError::BadMac`].
///
/// # Panics
/// When `ao` is not the segment's own and lies outside its header.
#[inline]
pub fn verify_segment(
    key: &TrafficKey,
    sne: Sne,
    segment: &Segment<'_>,
    ao: &AoOption<'_>,
    parameters: &MktParameters,
) -> Result<(), VerifyError> {
    check_mac_length(ao, parameters)?;
    let mut start = [0; START_LENGTH];
    let input = mac_input(&mut start, sne, segment, ao, parameters.options);
    key.mac_key().verify(&input, ao.mac).map_err(|_| VerifyError::BadMac { key_id: ao.key_id })
}

/// Signs the TCP segment `tcp` in place: fills the ids and the MAC into the AO option that its header holds.
///
/// The checksum is the caller's to compute afterwards, over the signed segment ([`checksum::tcp_to_send`]).
///
/// # Errors
/// [`SignError::NoOption`] and [`SignError::MacLength`] when the header has no AO option of the right size, and the
/// errors of parsing; `tcp` is then unchanged.
///
/// [`checksum::tcp_to_send`]: crate::checksum::tcp_to_send
#[inline]
pub fn sign_segment(
    key: &TrafficKey,
    sne: Sne,
    addresses: (IpAddr, IpAddr),
    tcp: &mut [u8],
    parameters: &MktParameters,
    rnext_key_id: KeyId,
) -> Result<(), SignError> {
    let segment = Segment::from_tcp(addresses.0, addresses.1, tcp)?;
    let place = SignaturePlace::find(&segment, parameters)?;
    place.fill(key, sne, addresses, tcp, parameters, rnext_key_id);
    Ok(())
}

/// Where in a segment the signature goes: numbers, so that the segment can be written to.
#[derive(Clone, Copy)]
pub(crate) struct SignaturePlace {
    header_length: usize,
    ao_offset: usize,
    mac_length: usize,
}

impl SignaturePlace {
    #[inline]
    pub(crate) fn find(segment: &Segment<'_>, parameters: &MktParameters) -> Result<Self, SignError> {
        let ao = segment.ao_option()?.ok_or(SignError::NoOption)?;
        let present = ao.mac.len();
        if !is_mac_length(present, parameters) {
            return Err(SignError::MacLength { expected: parameters.mac_length, present });
        }
        Ok(Self::of(segment, &ao))
    }

    /// That of a segment's own AO option.
    #[inline(always)]
    pub(crate) fn of(segment: &Segment<'_>, ao: &AoOption<'_>) -> Self {
        Self { header_length: segment.header().len(), ao_offset: ao.offset, mac_length: ao.mac.len() }
    }

    /// The option that the segment's place was found in, with these ids.
    #[inline(always)]
    pub(crate) fn option<'a>(&self, tcp: &'a [u8], key_id: KeyId, rnext_key_id: KeyId) -> AoOption<'a> {
        AoOption { offset: self.ao_offset, key_id, rnext_key_id, mac: &tcp[self.mac()] }
    }

    /// Where the MAC is.
    #[inline(always)]
    fn mac(&self) -> Range<usize> {
        let start = TCP_HEADER_LENGTH + self.ao_offset + AO_HEADER_LENGTH;
        start..start + self.mac_length
    }

    /// Computes the MAC of the segment that the place was found in, and writes ids and MAC into it.
    #[inline(always)]
    pub(crate) fn fill(
        &self,
        key: &TrafficKey,
        sne: Sne,
        addresses: (IpAddr, IpAddr),
        tcp: &mut [u8],
        parameters: &MktParameters,
        rnext_key_id: KeyId,
    ) {
        let segment = Segment::again(addresses.0, addresses.1, tcp, self.header_length);
        let ao = self.option(tcp, parameters.send_id, rnext_key_id);
        let mac = segment_mac(key, sne, &segment, &ao, parameters.options);
        self.write(tcp, parameters, rnext_key_id, &mac);
    }

    /// Writes ids and MAC into the segment that the place was found in.
    #[inline(always)]
    pub(crate) fn write(&self, tcp: &mut [u8], parameters: &MktParameters, rnext_key_id: KeyId, mac: &Mac) {
        let place = self.mac();
        (tcp[place.start - 2], tcp[place.start - 1]) = (parameters.send_id.0, rnext_key_id.0);
        copy_mac(&mut tcp[place], mac.truncated(self.mac_length));
    }
}

/// Copies a MAC; the usual length apart, since what is known to the compiler is a few instructions.
#[inline]
fn copy_mac(to: &mut [u8], from: &[u8]) {
    match (<&mut [u8; 12]>::try_from(&mut *to), <&[u8; 12]>::try_from(from)) {
        (Ok(to), Ok(from)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

/// Refuses a received MAC of another length than the MKT says, before anything is computed for it.
#[inline]
pub(crate) fn check_mac_length(ao: &AoOption<'_>, parameters: &MktParameters) -> Result<(), VerifyError> {
    if !is_mac_length(ao.mac.len(), parameters) {
        return Err(VerifyError::MacLength { expected: parameters.mac_length, received: ao.mac.len() });
    }
    Ok(())
}

/// Whether a MAC of this length can be computed and is what the MKT says; its parameters may be made by hand.
#[inline]
fn is_mac_length(length: usize, parameters: &MktParameters) -> bool {
    length == parameters.mac_length
        && (TcpAoAlgorithm::MIN_MAC_LENGTH..=TcpAoAlgorithm::MAX_MAC_LENGTH).contains(&length)
}

/// Gives the MAC input of a segment in two slices: what had to be written anew, in `start`, and the rest of the segment.
///
/// In line wherever it is called, so that addresses stay in registers: handed over in memory, they would be read
/// before the processor has done storing them, which costs as much as a tenth of the MAC.
#[inline(always)]
pub(crate) fn mac_input<'a>(
    start: &'a mut [u8; START_LENGTH],
    sne: Sne,
    segment: &Segment<'a>,
    ao: &AoOption<'_>,
    options: OptionCoverage,
) -> [&'a [u8]; 2] {
    // The true length of the segment, also when options are left out of the input (RFC 5925 §5.1).
    let tcp_length = segment.tcp().len() as u32;
    let header_at = match (segment.source().address(), segment.destination().address()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            // One store of what is read as one block: the processor would have to wait for several small ones.
            let block = u128::from(sne.0) << 96
                | u128::from(source.to_bits()) << 64
                | u128::from(destination.to_bits()) << 32
                | u128::from(PROTOCOL_TCP) << 16
                | u128::from(tcp_length as u16);
            start[..16].copy_from_slice(&block.to_be_bytes());
            16
        }
        (source, destination) => {
            start[..4].copy_from_slice(&sne.0.to_be_bytes());
            start[4..20].copy_from_slice(&ipv6_octets(source));
            start[20..36].copy_from_slice(&ipv6_octets(destination));
            start[36..40].copy_from_slice(&tcp_length.to_be_bytes());
            start[40..44].copy_from_slice(&[0, 0, 0, PROTOCOL_TCP]);
            44
        }
    };
    let (header, tcp) = (segment.header(), segment.tcp());
    let ao_at = TCP_HEADER_LENGTH + ao.offset;
    let copy = &mut start[header_at..];
    let (length, taken, mac_at) = match options {
        OptionCoverage::Covered => {
            // As much of the payload goes along as fills the start, so that the rest begins with a whole block; a copy
            // of a length that the compiler knows is a few instructions.
            let taken = match (copy.first_chunk_mut::<IPV4_SHARE>(), tcp.first_chunk()) {
                (Some(copy), Some(tcp)) => {
                    *copy = *tcp;
                    IPV4_SHARE
                }
                _ => {
                    let taken = tcp.len().min(copy.len());
                    copy[..taken].copy_from_slice(&tcp[..taken]);
                    taken
                }
            };
            (taken, taken, ao_at + AO_HEADER_LENGTH)
        }
        OptionCoverage::Excluded => {
            copy[..TCP_HEADER_LENGTH].copy_from_slice(&header[..TCP_HEADER_LENGTH]);
            copy[TCP_HEADER_LENGTH..][..AO_HEADER_LENGTH]
                .copy_from_slice(&header[ao_at..][..AO_HEADER_LENGTH]);
            let mac_at = TCP_HEADER_LENGTH + AO_HEADER_LENGTH;
            (mac_at + ao.mac.len(), header.len(), mac_at)
        }
    };
    copy[field::CHECKSUM].fill(0);
    copy[mac_at - 2..mac_at].copy_from_slice(&[ao.key_id.0, ao.rnext_key_id.0]);
    let mac = &mut copy[mac_at..][..ao.mac.len()];
    // The usual length apart, since what is known to the compiler is one store.
    match <&mut [u8; 12]>::try_from(&mut *mac) {
        Ok(mac) => *mac = [0; 12],
        Err(_) => mac.fill(0),
    }
    [&start[..header_at + length], &tcp[taken..]]
}
