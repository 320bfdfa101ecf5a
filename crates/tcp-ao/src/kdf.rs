//! Traffic keys from master keys (RFC 5925 §5.2, RFC 5926 §3.1, draft-ietf-tcpm-tcp-ao-algs-07).

use core::fmt;
use core::net::IpAddr;

use wireseal_algorithms::{MacAlgorithm, TcpAoAlgorithm, TcpAoKdf};
use wireseal_mac::{MacKey, OutputLength, prefetch};
use zeroize::Zeroizing;

use crate::built_in::mac_key;
use crate::mkt::{MasterKey, Mkt};
use crate::types::{Endpoint, Isn, SocketPair};

/// Octets of the longest traffic key of any algorithm.
pub(crate) const MAX_TRAFFIC_KEY_LENGTH: usize = 32;

const LABEL: &[u8; 6] = b"TCP-AO";

const HAS_KEY: &str = "the algorithm of an MKT is built in";

/// The input of a traffic key's derivation beside the master key: a socket pair and both ISNs, in the direction of the
/// segments that the key protects (RFC 5925 §5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KdfContext {
    /// The sender of the segments.
    pub source: Endpoint,
    /// Their receiver.
    pub destination: Endpoint,
    /// The sender's ISN.
    pub source_isn: Isn,
    /// The receiver's ISN; [`Isn::UNKNOWN`] for a SYN without ACK.
    pub destination_isn: Isn,
}

impl KdfContext {
    /// For the SYN that opens a connection: Send_SYN at the sender, Receive_SYN at the receiver.
    #[must_use]
    pub const fn syn(source: Endpoint, destination: Endpoint, source_isn: Isn) -> Self {
        Self { source, destination, source_isn, destination_isn: Isn::UNKNOWN }
    }

    /// For what the local end of `pair` sends, except its SYN: Send_other.
    #[must_use]
    pub const fn send_other(pair: SocketPair, local_isn: Isn, remote_isn: Isn) -> Self {
        Self {
            source: pair.local,
            destination: pair.remote,
            source_isn: local_isn,
            destination_isn: remote_isn,
        }
    }

    /// For what the local end of `pair` receives, except the peer's SYN: Receive_other.
    #[must_use]
    pub const fn receive_other(pair: SocketPair, local_isn: Isn, remote_isn: Isn) -> Self {
        Self::send_other(pair.reversed(), remote_isn, local_isn)
    }

    /// The octets that follow the addresses in the KDF's input (RFC 5925 §5.2).
    fn ports_and_isns(&self) -> [u8; 12] {
        let numbers = u128::from(self.source.port()) << 80
            | u128::from(self.destination.port()) << 64
            | u128::from(self.source_isn.0) << 32
            | u128::from(self.destination_isn.0);
        let [_, _, _, _, octets @ ..] = numbers.to_be_bytes();
        octets
    }
}

/// The octets of an address, in place.
enum AddressOctets {
    V4([u8; 4]),
    V6([u8; 16]),
}

impl AddressOctets {
    const fn of(end: Endpoint) -> Self {
        match end.address() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => Self::V6(address.octets()),
        }
    }

    const fn as_bytes(&self) -> &[u8] {
        match self {
            Self::V4(octets) => octets,
            Self::V6(octets) => octets,
        }
    }
}

/// Derives a traffic key from the algorithm and the master key of an MKT, and writes its octets to the start of `place`.
///
/// `None` if the algorithm is not built in or its MAC is too short. Neither can happen, but the compiler does not see that; a connection
/// then returns an error.
pub(crate) fn derive(
    algorithm: TcpAoAlgorithm,
    master_key: &MasterKey,
    context: &KdfContext,
    place: &mut [u8; MAX_TRAFFIC_KEY_LENGTH],
) -> Option<()> {
    let addresses = [context.source, context.destination].map(AddressOctets::of);
    let [source, destination] = addresses.each_ref().map(AddressOctets::as_bytes);
    let numbers = &context.ports_and_isns();
    let length = algorithm.traffic_key_length();
    // Every KDF is a use of its algorithm's MAC.
    let keyed = |key: &[u8]| mac_key(algorithm.mac(), key, b"KDF", OutputLength::Octets32);
    let (bits, pseudorandom_key);
    let (key, message): (&[u8], [&[u8]; 6]) = match algorithm.kdf() {
        TcpAoKdf::HmacSha1 | TcpAoKdf::HmacSha256 | TcpAoKdf::Aes128Cmac => {
            // Every RFC 5926 KDF ends its input with the output length in bits, as 16 bits.
            bits = (length as u16 * 8).to_be_bytes();
            (master_key.expose_secret(), [&[1], LABEL, source, destination, numbers, &bits])
        }
        TcpAoKdf::HkdfSha256 => {
            // RFC 5869 with a salt of zeros, as long as the hash; one block of output is enough.
            pseudorandom_key = keyed(&[0; 32])?.mac(&[master_key.expose_secret()]);
            (pseudorandom_key.as_bytes(), [source, destination, numbers, &[1], &[], &[]])
        }
        // SP 800-56C one-step: the salt defaults to 132 zero octets, the counter is 32 bits.
        TcpAoKdf::Kmac256 => {
            (&[0; 132], [&[0, 0, 0, 1], master_key.expose_secret(), source, destination, numbers, &[]])
        }
    };
    let derived = keyed(key)?.mac(&message);
    place.get_mut(..length)?.copy_from_slice(derived.as_bytes().get(..length)?);
    Some(())
}

/// The octets of a traffic key with their algorithm: 16, 20 or 32 octets, wiped on drop.
///
/// Most callers want [`TrafficKey`], which never exposes them.
pub struct TrafficKeyOctets {
    algorithm: TcpAoAlgorithm,
    octets: Zeroizing<[u8; MAX_TRAFFIC_KEY_LENGTH]>,
}

impl TrafficKeyOctets {
    /// Derives a traffic key of an MKT (RFC 5926 §3.1.1).
    #[must_use]
    pub fn derive(mkt: &Mkt, context: &KdfContext) -> Self {
        let algorithm = mkt.parameters().algorithm;
        let mut octets = Zeroizing::new([0; MAX_TRAFFIC_KEY_LENGTH]);
        derive(algorithm, mkt.master_key(), context, &mut octets).expect(HAS_KEY);
        Self { algorithm, octets }
    }

    /// The octets themselves, to compare with vectors or to debug another implementation.
    #[must_use]
    pub fn expose_secret(&self) -> &[u8] {
        &self.octets[..self.algorithm.traffic_key_length()]
    }
}

impl fmt::Debug for TrafficKeyOctets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrafficKeyOctets({})", self.algorithm)
    }
}

/// A traffic key, ready to compute MACs: the key schedule is done once. 208 octets.
pub struct TrafficKey(MacKey);

#[cfg(all(feature = "default", target_pointer_width = "64"))]
const _: () = assert!(size_of::<TrafficKey>() == 208);

impl TrafficKey {
    /// Derives a traffic key of an MKT (RFC 5926 §3.1.1) and sets up the MAC with it.
    #[cold]
    #[must_use]
    pub fn derive(mkt: &Mkt, context: &KdfContext) -> Self {
        Self::new(&TrafficKeyOctets::derive(mkt, context))
    }

    /// [`derive`](Self::derive) from algorithm and master key. `None` if the algorithm is not built in.
    #[cold]
    pub(crate) fn derive_from(
        algorithm: TcpAoAlgorithm,
        master_key: &MasterKey,
        context: &KdfContext,
    ) -> Option<Self> {
        let mut octets = Zeroizing::new([0; MAX_TRAFFIC_KEY_LENGTH]);
        derive(algorithm, master_key, context, &mut octets)?;
        Self::expand(algorithm, &octets)
    }

    /// Sets up the MAC with derived octets.
    #[must_use]
    pub fn new(octets: &TrafficKeyOctets) -> Self {
        Self::expand(octets.algorithm, &octets.octets).expect(HAS_KEY)
    }

    /// [`new`](Self::new) from the leading octets of an array. `None` if the algorithm is not built in.
    pub(crate) fn expand(algorithm: TcpAoAlgorithm, octets: &[u8; MAX_TRAFFIC_KEY_LENGTH]) -> Option<Self> {
        let key = &octets[..algorithm.traffic_key_length()];
        // The draft fixes 128 bits of KMAC256's output and leaves the customization open; its vectors use an empty one.
        mac_key(algorithm.mac(), key, b"", OutputLength::Octets16).map(Self)
    }

    /// Prefetches what a MAC of this key's algorithm reads.
    #[inline(always)]
    pub(crate) fn prefetch(&self, algorithm: TcpAoAlgorithm) {
        match algorithm.mac() {
            // The discriminant in its own 16 octets, then two chaining values of at most 32 octets.
            MacAlgorithm::HmacSha1 | MacAlgorithm::HmacSha256 => prefetch(self, 16 + 2 * 32),
            _ => prefetch(self, size_of::<Self>()),
        }
    }

    /// The keyed MAC underneath.
    #[inline]
    #[must_use]
    pub const fn mac_key(&self) -> &MacKey {
        &self.0
    }
}

impl fmt::Debug for TrafficKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrafficKey({:?})", self.0.algorithm())
    }
}
