//! Traffic keys from master keys (RFC 5925 §5.2, RFC 5926 §3.1, draft-ietf-tcpm-tcp-ao-algs-07).

use core::fmt;
use core::net::IpAddr;

use wireseal_algorithms::{MacAlgorithm, TcpAoAlgorithm, TcpAoKdf};
use wireseal_mac::{Mac, MacKey, OutputLength, prefetch};
use zeroize::Zeroizing;

use crate::built_in::{mac_key, mac_once};
use crate::mkt::{MasterKey, Mkt};
use crate::types::{Endpoint, Isn, SocketPair};

/// Octets of the longest traffic key of any algorithm.
pub(crate) const MAX_TRAFFIC_KEY_LENGTH: usize = 32;

/// The draft fixes 128 bits of KMAC256's output and leaves the customization open; its vectors use an empty one.
const SEGMENTS_OF_KMAC256: (&[u8], OutputLength) = (b"", OutputLength::Octets16);

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

/// Fields joined in one place: a MAC reads one slice faster than many short ones.
struct Joined {
    octets: [u8; 64],
    length: usize,
}

impl Joined {
    #[inline]
    fn push<const N: usize>(&mut self, field: &[u8; N]) {
        let place = self.octets.get_mut(self.length..).and_then(|rest| rest.first_chunk_mut());
        if let Some(place) = place {
            *place = *field;
        }
        self.length += N;
    }

    /// `None` if there was no room for a field.
    fn as_bytes(&self) -> Option<&[u8]> {
        self.octets.get(..self.length)
    }
}

/// Derives a traffic key from the algorithm and the master key of an MKT.
///
/// `None` if the algorithm is not built in or the input is too long. Neither can happen, but the compiler does not see that; a connection
/// then returns an error.
fn derived(algorithm: TcpAoAlgorithm, master_key: &MasterKey, context: &KdfContext) -> Option<Mac> {
    let kdf = algorithm.kdf();
    let mut input = Joined { octets: [0; 64], length: 0 };
    if matches!(kdf, TcpAoKdf::HmacSha1 | TcpAoKdf::HmacSha256 | TcpAoKdf::Aes128Cmac) {
        // A counter of one octet, and a label.
        input.push(b"\x01TCP-AO");
    }
    for end in [context.source, context.destination] {
        match end.address() {
            IpAddr::V4(address) => input.push(&address.octets()),
            IpAddr::V6(address) => input.push(&address.octets()),
        }
    }
    input.push(&context.ports_and_isns());
    match kdf {
        // Every RFC 5926 KDF ends its input with the output length in bits, as 16 bits.
        TcpAoKdf::HmacSha1 | TcpAoKdf::HmacSha256 | TcpAoKdf::Aes128Cmac => {
            input.push(&(algorithm.traffic_key_length() as u16 * 8).to_be_bytes());
        }
        // One block of output is enough.
        TcpAoKdf::HkdfSha256 => input.push(&[1]),
        TcpAoKdf::Kmac256 => {}
    }
    let (input, secret) = (input.as_bytes()?, master_key.expose_secret());
    // Every KDF is a use of its algorithm's MAC.
    let mac = |key: &[u8], message: &[&[u8]]| {
        mac_once(algorithm.mac(), key, b"KDF", OutputLength::Octets32, message)
    };
    match kdf {
        TcpAoKdf::HmacSha1 | TcpAoKdf::HmacSha256 | TcpAoKdf::Aes128Cmac => mac(secret, &[input]),
        // RFC 5869 with a salt of zeros, as long as the hash.
        TcpAoKdf::HkdfSha256 => {
            let pseudorandom_key = mac(&[0; 32], &[secret]);
            mac(pseudorandom_key.as_ref()?.as_bytes(), &[input])
        }
        // SP 800-56C one-step: the salt defaults to 132 zero octets, the counter is 32 bits.
        TcpAoKdf::Kmac256 => mac(&[0; 132], &[&[0, 0, 0, 1], secret, input]),
    }
}

/// The MAC of one segment under a traffic key that is not kept. `None` as for [`derived`].
pub(crate) fn mac_under_derived(
    algorithm: TcpAoAlgorithm,
    master_key: &MasterKey,
    context: &KdfContext,
    message: &[&[u8]],
) -> Option<Mac> {
    let key = derived(algorithm, master_key, context);
    let (customization, length) = SEGMENTS_OF_KMAC256;
    mac_once(algorithm.mac(), key.as_ref()?.as_bytes(), customization, length, message)
}

/// [`derived`], and writes the octets to the start of `place`.
pub(crate) fn derive(
    algorithm: TcpAoAlgorithm,
    master_key: &MasterKey,
    context: &KdfContext,
    place: &mut [u8; MAX_TRAFFIC_KEY_LENGTH],
) -> Option<()> {
    // Borrowed: a move out of the option would leave the octets in it.
    let derived = derived(algorithm, master_key, context);
    let octets = derived.as_ref()?.as_bytes();
    place.get_mut(..octets.len())?.copy_from_slice(octets);
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
        let octets = derived(algorithm, master_key, context);
        Self::of_octets(algorithm, octets.as_ref()?.as_bytes())
    }

    /// Sets up the MAC with derived octets.
    #[must_use]
    pub fn new(octets: &TrafficKeyOctets) -> Self {
        Self::expand(octets.algorithm, &octets.octets).expect(HAS_KEY)
    }

    /// [`new`](Self::new) from the leading octets of an array. `None` if the algorithm is not built in.
    pub(crate) fn expand(algorithm: TcpAoAlgorithm, octets: &[u8; MAX_TRAFFIC_KEY_LENGTH]) -> Option<Self> {
        Self::of_octets(algorithm, &octets[..algorithm.traffic_key_length()])
    }

    fn of_octets(algorithm: TcpAoAlgorithm, octets: &[u8]) -> Option<Self> {
        let (customization, length) = SEGMENTS_OF_KMAC256;
        mac_key(algorithm.mac(), octets, customization, length).map(Self)
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
