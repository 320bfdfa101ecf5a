//! The words of RFC 5925 as types: key ids, sequence numbers and their extension, endpoints, socket pairs.

use core::fmt;
use core::net::{AddrParseError, IpAddr, SocketAddr};
use core::num::ParseIntError;
use core::str::FromStr;

use cidr::{IpCidr, Ipv4Cidr};

/// A one-octet key identifier: the KeyID or RNextKeyID of an option, the SendID or RecvID of an MKT.
///
/// Values can only be compared for equality; they have no order (RFC 5925 §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KeyId(pub u8);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads a decimal number from 0 to 255.
impl FromStr for KeyId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl From<u8> for KeyId {
    fn from(id: u8) -> Self {
        Self(id)
    }
}

impl From<KeyId> for u8 {
    fn from(KeyId(id): KeyId) -> Self {
        id
    }
}

/// A TCP sequence number: 32 bits that wrap (RFC 9293 §3.4).
///
/// It has no `Ord`, because numbers that wrap have no order; [`SeqNum::before`] is the comparison TCP uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// Whether this number comes before `other`, taking the shorter way round.
    ///
    /// If two are exactly 2^31 octets apart, neither comes before the other (RFC 1982 §3.2). So test for the answer that you want:
    /// `highest.before(new)`, not `!new.before(highest)`.
    #[inline]
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        other.offset_from(self) > 0
    }

    /// The signed distance from `base` to this number, taking the shorter way round: -2^31 to 2^31 - 1 octets.
    #[inline]
    #[must_use]
    pub const fn offset_from(self, base: Self) -> i32 {
        self.0.wrapping_sub(base.0).cast_signed()
    }
}

/// An initial sequence number: the sequence number of a SYN. Both ends' are part of the key derivation (RFC 5925 §5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Isn(pub u32);

impl Isn {
    /// The destination ISN in a SYN's key derivation, which the sender does not know yet (RFC 5925 §5.2).
    pub const UNKNOWN: Self = Self(0);
}

/// A sequence number extension: how often a direction's sequence number has wrapped (RFC 5925 §6.2, RFC 9187).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sne(pub u32);

/// The IPv4 network that a network of IPv4-mapped IPv6 addresses means (RFC 4291 §2.5.5.2); any other is unchanged. Packets and an
/// [`Endpoint`] never have a mapped address: compare networks and addresses with them in this form.
#[must_use]
pub fn canonical_network(network: IpCidr) -> IpCidr {
    let IpCidr::V6(mapped) = network else { return network };
    let ipv4 = mapped.first_address().to_ipv4_mapped().zip(mapped.network_length().checked_sub(96));
    ipv4.and_then(|(address, length)| Ipv4Cidr::new(address, length).ok()).map_or(network, IpCidr::V4)
}

/// One end of a connection: an address and a port.
///
/// An IPv4-mapped IPv6 address becomes the IPv4 address, since that is what is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "SocketAddr", into = "SocketAddr"))]
pub struct Endpoint {
    address: IpAddr,
    port: u16,
}

impl Endpoint {
    /// An endpoint with this address and port; an IPv4-mapped address becomes IPv4.
    #[inline]
    #[must_use]
    pub fn new(address: impl Into<IpAddr>, port: u16) -> Self {
        Self { address: address.into().to_canonical(), port }
    }

    /// The address; never an IPv4-mapped one.
    #[inline]
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// The address by reference; saves a copy.
    #[inline(always)]
    pub(crate) const fn address_in_place(&self) -> &IpAddr {
        &self.address
    }

    /// Whether this is the address, possibly in IPv4-mapped form.
    #[inline(always)]
    pub(crate) fn has_address(&self, address: &IpAddr) -> bool {
        match (&self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(address)) => own.to_bits() == address.to_bits(),
            (IpAddr::V6(own), IpAddr::V6(address)) if own == address => true,
            _ => self.address == address.to_canonical(),
        }
    }

    /// The port.
    #[inline]
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

/// Drops the flow label and the scope of an IPv6 address.
impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip(), address.port())
    }
}

impl From<Endpoint> for SocketAddr {
    fn from(Endpoint { address, port }: Endpoint) -> Self {
        Self::new(address, port)
    }
}

/// Reads address and port as `Display` writes them: `192.0.2.1:179`, `[2001:db8::1]:179`.
impl FromStr for Endpoint {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<SocketAddr>().map(Self::from)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A TCP socket pair, as one end sees it (RFC 9293 §3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct SocketPair {
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
}

impl SocketPair {
    /// The same connection as the other end sees it.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self { local: self.remote, remote: self.local }
    }
}

impl fmt::Display for SocketPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <-> {}", self.local, self.remote)
    }
}

/// Tracks the SNE of one direction of a connection. Eight octets.
///
/// ```
/// use wireseal_tcp_ao::{Isn, SeqNum, Sne, SneTracker};
///
/// let mut tracker = SneTracker::new(Isn(0xffff_ff00));
/// assert_eq!(tracker.sne_of(SeqNum(0xffff_ff01)), Sne(0));
/// assert_eq!(tracker.sne_of(SeqNum(0x10)), Sne(1)); // the number wrapped
/// tracker.advance(SeqNum(0x10));
/// assert_eq!(tracker.sne_of(SeqNum(0xffff_ff01)), Sne(0)); // a retransmission from before the wrap
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SneTracker {
    sne: u32,
    sequence: u32,
}

const _: () = assert!(size_of::<SneTracker>() == 8);

impl SneTracker {
    /// Starts at the direction's ISN with an SNE of zero (RFC 5925 §6.2).
    #[must_use]
    pub const fn new(isn: Isn) -> Self {
        Self { sne: 0, sequence: isn.0 }
    }

    /// Continues from what another tracker's [`SneTracker::highest`] returned.
    #[must_use]
    pub const fn resume(sne: Sne, sequence: SeqNum) -> Self {
        Self { sne: sne.0, sequence: sequence.0 }
    }

    /// The highest sequence number so far, with its SNE.
    #[must_use]
    pub const fn highest(&self) -> (Sne, SeqNum) {
        (Sne(self.sne), SeqNum(self.sequence))
    }

    /// The SNE of a sequence number within 2^31 octets of the highest seen.
    ///
    /// A number from before the ISN has SNE 0, never a negative one.
    #[inline]
    #[must_use]
    pub const fn sne_of(&self, sequence: SeqNum) -> Sne {
        Sne((self.extended(sequence) >> 32) as u32)
    }

    /// Records that a segment with this sequence number was sent or verified; an older number changes nothing.
    ///
    /// For received segments, call it only after the MAC has verified: a forged number must not advance the SNE.
    #[inline]
    pub const fn advance(&mut self, sequence: SeqNum) {
        // The same comparison as for the SNE, so an older number never moves the tracker back.
        if self.offset_of(sequence) > 0 {
            (self.sne, self.sequence) = (self.sne_of(sequence).0, sequence.0);
        }
    }

    /// How many octets a number is ahead of the highest, or behind it. Decides its SNE and whether it is newer.
    #[inline(always)]
    const fn offset_of(&self, sequence: SeqNum) -> i32 {
        sequence.offset_from(SeqNum(self.sequence))
    }

    const fn extended(&self, sequence: SeqNum) -> u64 {
        let highest = (self.sne as u64) << 32 | self.sequence as u64;
        let offset = self.offset_of(sequence);
        match highest.checked_add_signed(offset as i64) {
            Some(extended) => extended,
            // Before the ISN: SNE 0. Beyond 2^64, which no connection reaches, the SNE stays at its last value.
            None if offset < 0 => sequence.0 as u64,
            None => (u32::MAX as u64) << 32 | sequence.0 as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_sequence_numbers_survives_the_wrap() {
        assert!(SeqNum(0xffff_fff0).before(SeqNum(5)));
        assert!(!SeqNum(5).before(SeqNum(0xffff_fff0)));
        assert!(!SeqNum(5).before(SeqNum(5)));
    }

    #[test]
    fn ao_29_of_two_numbers_at_most_one_comes_before_the_other() {
        for base in [0, 5, 0x7fff_ffff, 0x8000_0000, u32::MAX].map(SeqNum) {
            for (ahead, is_before) in [(0x7fff_ffff, true), (0x8000_0000, false), (0x8000_0001, false)] {
                let other = SeqNum(base.0.wrapping_add(ahead));
                assert_eq!(base.before(other), is_before, "{base:?}, {other:?}");
                assert_eq!(other.before(base), ahead == 0x8000_0001, "{base:?}, {other:?}");
            }
        }
    }

    #[test]
    fn ao_12_mapped_addresses_become_ipv4() {
        let mapped: IpAddr = "::ffff:192.0.2.7".parse().unwrap();
        let plain: IpAddr = "192.0.2.7".parse().unwrap();
        assert_eq!(Endpoint::new(mapped, 179), Endpoint::new(plain, 179));
    }

    #[test]
    fn ao_12_mapped_networks_are_ipv4_networks() {
        for (network, expected) in [
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("::fffe:0:0/95", "::fffe:0:0/95"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("192.0.2.0/24", "192.0.2.0/24"),
        ] {
            assert_eq!(canonical_network(network.parse().unwrap()), expected.parse().unwrap());
        }
    }
}
