//! The keyed hash that spreads connections and peers over buckets: SipHash-1-3.
//!
//! Peers choose their ports, and often their addresses. If they could compute the hash, they could choose such as all fall into one
//! bucket, and every packet would walk through it. SipHash is a pseudorandom function for such tables: without the key nobody can
//! find collisions, not even by measuring (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012). One round for each word
//! and three at the end are what Rust's, Python's and Ruby's hash tables take.

use core::fmt;
use core::net::IpAddr;

use zeroize::Zeroizing;

use crate::ip::ipv6_octets;
use crate::types::SocketPair;

/// The secret key of a [`Shim`](crate::shim::Shim)'s tables: 16 random octets, drawn anew at every start.
///
/// Whoever knows it can choose addresses and ports with which each packet takes up to a thousand times as long. It protects nothing
/// else.
#[derive(Clone)]
pub struct HashKey(Zeroizing<[u64; 2]>);

impl HashKey {
    /// A key of these octets, which come from a generator of random numbers, such as a microcontroller's own.
    #[must_use]
    pub fn new(random: [u8; 16]) -> Self {
        let number = u128::from_le_bytes(random);
        Self(Zeroizing::new([number as u64, (number >> 64) as u64]))
    }

    /// A key from the random numbers of the operating system, by way of the standard library's hash tables.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn random() -> Self {
        use std::hash::BuildHasher;
        // Its hasher is keyed with them, and a pseudorandom function too.
        let state = std::hash::RandomState::new();
        Self(Zeroizing::new([0, 1].map(|number: u8| state.hash_one(number))))
    }

    /// The place of a connection among so many buckets, which may be none.
    pub(super) fn place_of_pair(&self, pair: &SocketPair, buckets: usize) -> usize {
        let ports = u32::from(pair.local.port()) << 16 | u32::from(pair.remote.port());
        let hash = match (pair.local.address(), pair.remote.address()) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                self.hash([u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits())], ports)
            }
            (local, remote) => {
                let [local, remote] = [local, remote].map(|end| u128::from_be_bytes(ipv6_octets(end)));
                let [a, b, c, d] = [local >> 64, local, remote >> 64, remote].map(|half| half as u64);
                self.hash([a, b, c, d], ports)
            }
        };
        place(hash, buckets)
    }

    /// The place of a prefix of this length.
    pub(super) fn place_of_prefix(&self, address: u128, length: u8, buckets: usize) -> usize {
        place(self.hash([(address >> 64) as u64, address as u64], u32::from(length)), buckets)
    }

    /// SipHash-1-3 of 8 `N` + 4 octets, given as numbers in little-endian order.
    fn hash<const N: usize>(&self, words: [u64; N], rest: u32) -> u64 {
        let [k0, k1] = *self.0;
        let mut state = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        let last = (8 * N as u64 + 4) << 56 | u64::from(rest);
        for word in words.into_iter().chain([last]) {
            state[3] ^= word;
            state = round(state);
            state[0] ^= word;
        }
        state[2] ^= 0xff;
        let [a, b, c, d] = round(round(round(state)));
        a ^ b ^ c ^ d
    }
}

const fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    [a, b, c, d]
}

/// Scales the upper half of a hash to a number of buckets: a multiplication, where a remainder takes a division.
const fn place(hash: u64, buckets: usize) -> usize {
    let buckets = if buckets < u32::MAX as usize { buckets as u64 } else { u32::MAX as u64 };
    (((hash >> 32) * buckets) >> 32) as usize
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Endpoint;

    /// Of the vectors for SipHash-1-3 that Rust's and the authors' implementations are tested with: the octets 0, 1, 2, ... under
    /// the key 0 to 15, by their number.
    #[test]
    fn hash_is_siphash_1_3() {
        let key = HashKey::new(core::array::from_fn(|octet| octet as u8));
        let octets: [u8; 36] = core::array::from_fn(|octet| octet as u8);
        let (words, rest) = octets.as_chunks::<8>();
        let words: [u64; 4] = core::array::from_fn(|word| u64::from_le_bytes(words[word]));
        let tail = |at: usize| u32::from_le_bytes(octets[at..at + 4].try_into().unwrap());
        assert_eq!(
            key.hash([words[0]], tail(8)).to_le_bytes(),
            [0xa2, 0xd9, 0xb4, 0x57, 0xb1, 0x84, 0xa3, 0x78]
        );
        assert_eq!(
            key.hash([words[0], words[1]], tail(16)).to_le_bytes(),
            [0x40, 0xe0, 0xcc, 0xa6, 0x46, 0x2f, 0xdc, 0xc0]
        );
        assert_eq!(rest.len(), 4);
        assert_eq!(key.hash(words, tail(32)).to_le_bytes(), [0x06, 0x62, 0xa2, 0xad, 0xd3, 0x08, 0xf5, 0x2c]);
    }

    /// Also for an address with which a hash without a key, that this one has replaced, gave every port the same place.
    #[test]
    fn ports_of_any_address_are_spread() {
        for (key, remote) in
            [(1, "2001:db8::1"), (1, "2001:db8::d6e8:feb8:6659:fd93"), (2, "192.0.2.1"), (3, "::")]
        {
            let key = HashKey::new([key; 16]);
            let remote: IpAddr = remote.parse().unwrap();
            let local = Endpoint::new([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2], 179);
            let mut buckets = [0_u8; 8192];
            for port in 0..8192 {
                let pair = SocketPair { local, remote: Endpoint::new(remote, port) };
                buckets[key.place_of_pair(&pair, buckets.len())] += 1;
            }
            // With one for each bucket on average, ten in one are one chance in a thousand.
            assert!(buckets.iter().all(|count| *count < 12), "{remote}");
        }
    }

    #[test]
    fn places_are_within_the_buckets() {
        for buckets in [0, 1, 3, 1000, usize::MAX] {
            for hash in [0, u64::MAX, 1 << 63] {
                assert!(place(hash, buckets) < buckets.max(1), "{hash} of {buckets}");
            }
        }
        assert_eq!([0, 1 << 62, 1 << 63, u64::MAX].map(|hash| place(hash, 4)), [0, 1, 2, 3]);
    }
}
