//! Where the MAC of a segment is computed: the pure functions, for stacks that keep their own state.

use core::fmt;
use core::net::IpAddr;
use core::ops::Range;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::Mac;

use crate::kdf::TrafficKey;
use crate::mac_input::{EMPTY_START, Start, mac_input};
use crate::mkt::{MktParameters, OptionCoverage};
use crate::option::{AO_HEADER_LENGTH, AoOption, OptionError, TCP_HEADER_LENGTH};
use crate::segment::{ParseError, Segment};
use crate::tcp::Tcp;
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
    key.mac_key().mac(&input_of(&mut { EMPTY_START }, sne, segment, ao, options))
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
    let mut start = EMPTY_START;
    let input = input_of(&mut start, sne, segment, ao, parameters.options);
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
    let place = SignaturePlace::find(segment.without_addresses(), parameters)?;
    let key_ids = [parameters.send_id, rnext_key_id];
    let ao = place.option(tcp, key_ids);
    let mac = segment_mac(key, sne, &segment, &ao, parameters.options);
    place.write(tcp, key_ids, &mac);
    Ok(())
}

/// The MAC input of a segment with this option.
#[inline(always)]
fn input_of<'a>(
    start: &'a mut Start,
    sne: Sne,
    segment: &Segment<'a>,
    ao: &AoOption<'_>,
    options: OptionCoverage,
) -> [&'a [u8]; 2] {
    let (source, destination) = (segment.source().address(), segment.destination().address());
    let (place, key_ids) = (SignaturePlace::of(ao), [ao.key_id, ao.rnext_key_id]);
    mac_input(start, sne, (&source, &destination), segment.tcp(), place, Some(key_ids), options)
}

/// Where in a segment the signature goes: numbers, so that the segment can be written to.
#[derive(Clone, Copy)]
pub(crate) struct SignaturePlace {
    /// Where the AO option starts, in octets from the start of the options.
    ao_offset: u8,
    mac_length: u8,
}

impl SignaturePlace {
    /// Where this end's signature goes, if the segment has room for it as these parameters want it.
    #[inline(always)]
    pub(crate) fn find(tcp: Tcp<'_>, parameters: &MktParameters) -> Result<Self, SignError> {
        let ao = tcp.ao_option()?.ok_or(SignError::NoOption)?;
        let present = ao.mac.len();
        if !is_mac_length(present, parameters) {
            return Err(SignError::MacLength { expected: parameters.mac_length, present });
        }
        Ok(Self::of(&ao))
    }

    /// That of a segment's own AO option; of one that is no segment's, a place that no header has.
    #[inline(always)]
    pub(crate) fn of(ao: &AoOption<'_>) -> Self {
        let [ao_offset, mac_length] = [ao.offset, ao.mac.len()].map(|octets| octets.min(0xff) as u8);
        Self { ao_offset, mac_length }
    }

    /// Where in the header the option starts.
    #[inline(always)]
    pub(crate) const fn ao_at(self) -> usize {
        TCP_HEADER_LENGTH + self.ao_offset as usize
    }

    #[inline(always)]
    pub(crate) const fn mac_length(self) -> usize {
        self.mac_length as usize
    }

    /// The option that the segment's place was found in, with these ids.
    #[inline(always)]
    pub(crate) fn option(self, tcp: &[u8], [key_id, rnext_key_id]: [KeyId; 2]) -> AoOption<'_> {
        AoOption { offset: usize::from(self.ao_offset), key_id, rnext_key_id, mac: self.mac_in(tcp) }
    }

    /// The MAC that stands in the place.
    #[inline(always)]
    pub(crate) fn mac_in(self, tcp: &[u8]) -> &[u8] {
        &tcp[self.mac()]
    }

    /// Where the MAC is.
    #[inline(always)]
    fn mac(self) -> Range<usize> {
        let start = self.ao_at() + AO_HEADER_LENGTH;
        start..start + self.mac_length()
    }

    /// Writes ids and MAC into the segment that the place was found in.
    #[inline(always)]
    pub(crate) fn write(self, tcp: &mut [u8], key_ids: [KeyId; 2], mac: &Mac) {
        let place = self.mac();
        tcp[place.start - 2..place.start].copy_from_slice(&key_ids.map(|id| id.0));
        mac.write_truncated(&mut tcp[place]);
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
