//! Views of TCP segments, without copies, and signing and verifying single segments, for stacks that keep keys and SNEs themselves.

use core::fmt;
use core::net::IpAddr;

use wireseal_mac::{Mac, MessageHead};

use crate::error::{OptionError, ParseError, SignError, VerifyError};
use crate::ip::{IpHeader, PROTOCOL_TCP};
use crate::kdf::TrafficKey;
use crate::mac_input::MacInput;
use crate::mkt::{MktParameters, OptionCoverage};
use crate::option::{AoOption, AoPlace, Options};
use crate::tcp::{Flags, Tcp};
use crate::types::{Endpoint, KeyId, SeqNum, Sne};

/// A view of a TCP segment and its addresses.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    source: IpAddr,
    destination: IpAddr,
    tcp: Tcp<'a>,
}

impl<'a> Segment<'a> {
    /// Views the TCP segment in a whole IPv4 or IPv6 packet, past IPv4 options and IPv6 extension headers.
    ///
    /// With an IPv6 routing header the destination is the final one, as in the pseudo-header (RFC 8200 §8.1). Link-layer
    /// padding after the end of the IP packet is left out.
    ///
    /// # Errors
    /// [`ParseError`] if the packet is malformed, a fragment, or not TCP.
    pub fn parse(packet: &'a [u8]) -> Result<Self, ParseError> {
        Self::from_packet(&IpHeader::parse(packet)?, packet)
    }

    /// [`parse`](Self::parse) for a packet whose IP headers have been read.
    pub(crate) fn from_packet(ip: &IpHeader, packet: &'a [u8]) -> Result<Self, ParseError> {
        if ip.is_fragment {
            return Err(ParseError::Fragment);
        }
        if ip.protocol != PROTOCOL_TCP {
            return Err(ParseError::NotTcp { protocol: ip.protocol });
        }
        Self::from_tcp(ip.source, ip.destination, ip.payload(packet)?)
    }

    /// Views a TCP segment, header and payload, between these addresses.
    ///
    /// # Errors
    /// [`ParseError::TcpTooShort`], [`ParseError::DataOffset`], and [`ParseError::TcpTooLong`] for more than 65,535 octets between IPv4
    /// addresses, which receive offload can produce.
    #[inline]
    pub fn from_tcp(source: IpAddr, destination: IpAddr, tcp: &'a [u8]) -> Result<Self, ParseError> {
        Ok(Self { source, destination, tcp: Tcp::parse(&source, tcp)? })
    }

    /// The sender.
    #[inline]
    #[must_use]
    pub fn source(&self) -> Endpoint {
        Endpoint::new(self.source, self.tcp.source_port())
    }

    /// The receiver.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> Endpoint {
        Endpoint::new(self.destination, self.tcp.destination_port())
    }

    /// The source address in the packet; unlike in [`Segment::source`], an IPv4-mapped one stays IPv6.
    #[inline]
    #[must_use]
    pub const fn source_address(&self) -> IpAddr {
        self.source
    }

    /// The final destination in the packet; an IPv4-mapped one stays IPv6.
    #[inline]
    #[must_use]
    pub const fn destination_address(&self) -> IpAddr {
        self.destination
    }

    /// The sequence number.
    #[inline]
    #[must_use]
    pub fn sequence(&self) -> SeqNum {
        self.tcp.sequence()
    }

    /// The acknowledgment number; meaningful only with the ACK flag.
    #[inline]
    #[must_use]
    pub fn acknowledgment(&self) -> SeqNum {
        self.tcp.acknowledgment()
    }

    /// The control bits.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.tcp.flags()
    }

    /// The TCP header with its options: 20 to 60 octets.
    #[inline]
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        self.tcp.header()
    }

    /// The header's options and padding: 0 to 40 octets.
    #[inline]
    #[must_use]
    pub fn option_octets(&self) -> &'a [u8] {
        self.tcp.option_octets()
    }

    /// Walks the header's options.
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        Options::new(self.option_octets())
    }

    /// The AO option; `None` if the segment is unsigned.
    ///
    /// # Errors
    /// Those of [`AoOption::find`].
    #[inline]
    pub fn ao_option(&self) -> Result<Option<AoOption<'a>>, OptionError> {
        self.tcp.ao_option()
    }

    /// The payload.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.tcp.payload()
    }

    /// The sequence number after the segment: SYN and FIN count as one octet each (RFC 9293 §3.4).
    #[must_use]
    pub fn end(&self) -> SeqNum {
        self.tcp.end()
    }

    /// Header and payload.
    #[inline]
    #[must_use]
    pub const fn tcp(&self) -> &'a [u8] {
        self.tcp.octets()
    }

    /// The input of the segment's MAC (RFC 5925 §5.1).
    ///
    /// # Errors
    /// [`VerifyError::Unsigned`] if the segment has no AO option, and [`VerifyError::Options`].
    #[inline]
    pub fn mac_input(&self, sne: Sne, options: OptionCoverage) -> Result<MacInput<'a>, VerifyError> {
        let ao = self.ao_option()?.ok_or(VerifyError::Unsigned)?;
        Ok(self.mac_input_with(sne, &ao, options))
    }

    /// [`mac_input`](Self::mac_input) for a caller that has found the segment's AO option.
    #[inline]
    pub(crate) fn mac_input_with(
        &self,
        sne: Sne,
        ao: &AoOption<'_>,
        options: OptionCoverage,
    ) -> MacInput<'a> {
        let addresses = (&self.source.to_canonical(), &self.destination.to_canonical());
        MacInput::new(sne, addresses, self.tcp(), ao.place(), options)
    }

    /// The segment without its addresses.
    #[inline]
    pub(crate) const fn without_addresses(&self) -> Tcp<'a> {
        self.tcp
    }

    /// Whether the segment goes from `source` to `destination`.
    #[inline(always)]
    pub(crate) fn is_between(&self, source: &Endpoint, destination: &Endpoint) -> bool {
        source.has_address(&self.source)
            && destination.has_address(&self.destination)
            && self.tcp.is_between(source, destination)
    }
}

impl fmt::Debug for Segment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("source", &self.source())
            .field("destination", &self.destination())
            .field("sequence", &self.sequence())
            .field("flags", &self.flags())
            .field("payload_length", &self.payload().len())
            .finish()
    }
}

/// Without payload and MAC.
#[cfg(feature = "defmt")]
impl defmt::Format for Segment<'_> {
    fn format(&self, f: defmt::Formatter<'_>) {
        let (sequence, octets) = (self.sequence(), self.payload().len());
        defmt::write!(
            f,
            "{} -> {} {} {}{} octets",
            self.source(),
            self.destination(),
            sequence,
            self.flags(),
            octets
        );
    }
}

/// Checks a segment's MAC in constant time against the key that its KeyID named.
///
/// # Errors
/// [`VerifyError::Unsigned`], [`VerifyError::Options`] and [`VerifyError::MacLength`] before any MAC is computed, and
/// [`VerifyError::BadMac`].
#[inline]
pub fn verify_segment(
    key: &TrafficKey,
    sne: Sne,
    parameters: &MktParameters,
    segment: &Segment<'_>,
) -> Result<(), VerifyError> {
    let ao = segment.ao_option()?.ok_or(VerifyError::Unsigned)?;
    check_mac_length(&ao, parameters)?;
    check_mac(&ao, segment.mac_input_with(sne, &ao, parameters.options), key)
}

/// Signs the TCP segment `tcp` in place: fills the ids and the MAC into the AO option that its header holds, which
/// [`append_ao`](crate::append_ao) puts there.
///
/// Compute the checksum afterwards, over the signed segment ([`checksum::tcp_to_send`]).
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
    parameters: &MktParameters,
    rnext_key_id: KeyId,
    (source, destination): (IpAddr, IpAddr),
    tcp: &mut [u8],
) -> Result<(), SignError> {
    let ao = place_to_sign(Tcp::parse(&source, tcp)?, parameters)?;
    ao.write_ids(tcp, [parameters.send_id, rnext_key_id]).ok_or(SignError::NoOption)?;
    let addresses = (&source.to_canonical(), &destination.to_canonical());
    let input = MacInput::new(sne, addresses, tcp, ao, parameters.options);
    let mut head = MessageHead::new();
    let mac = key.mac_key().mac(&input.try_message(&mut head).ok_or(SignError::NoOption)?);
    ao.write_mac(tcp, &mac).ok_or(SignError::NoOption)
}

/// Unreachable, because a checked segment has the option, but the compiler does not see that. Cold, to keep it off the hot path.
#[cold]
pub(crate) fn no_option() -> SignError {
    SignError::NoOption
}

/// As [`no_option`], for a received segment.
#[cold]
fn bad_mac(key_id: KeyId) -> VerifyError {
    VerifyError::BadMac { key_id }
}

/// The place of the AO option, if it has room for a MAC of this MKT.
#[inline]
pub(crate) fn place_to_sign(tcp: Tcp<'_>, parameters: &MktParameters) -> Result<AoPlace, SignError> {
    let ao = tcp.ao_option()?.ok_or(SignError::NoOption)?;
    let (expected, got) = (parameters.mac_length(), ao.mac.len());
    if got != expected {
        return Err(SignError::MacLength { expected, got });
    }
    Ok(ao.place())
}

/// Refuses a received MAC that does not have the MKT's length, before a MAC is computed.
#[inline]
pub(crate) fn check_mac_length(ao: &AoOption<'_>, parameters: &MktParameters) -> Result<(), VerifyError> {
    let (expected, got) = (parameters.mac_length(), ao.mac.len());
    if got != expected {
        return Err(VerifyError::MacLength { expected, got });
    }
    Ok(())
}

/// Computes the MAC of a received segment and compares. If the input cannot be formed, reports `BadMac`.
// Compares the MAC where it was computed: returning it would cost a copy.
#[inline(always)]
pub(crate) fn check_mac(ao: &AoOption<'_>, input: MacInput<'_>, key: &TrafficKey) -> Result<(), VerifyError> {
    let mut head = MessageHead::new();
    let [start, rest] = input.try_message(&mut head).ok_or_else(|| bad_mac(ao.key_id))?;
    // The error is built after this statement, which wipes the MAC; built earlier, it would have to be saved across the wipe.
    let verdict = key.mac_key().mac(&[start, rest]).verify(ao.mac);
    verdict.map_err(|_| bad_mac(ao.key_id))
}

/// Compares a received MAC with the right one, in constant time.
#[inline]
pub(crate) fn compare(ao: &AoOption<'_>, mac: &Mac) -> Result<(), VerifyError> {
    mac.verify(ao.mac).map_err(|_| VerifyError::BadMac { key_id: ao.key_id })
}
