//! The keyed hash that spreads connections and peers over buckets: SipHash-1-3.
//!
//! Peers choose their ports, and often their addresses. A peer that could compute the hash could put all its connections into one
//! bucket, and every packet would walk through it. SipHash is a pseudorandom function made for hash tables: without the key nobody
//! finds collisions, not even by measuring times (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012). SipHash-1-3 is
//! also what Rust's, Python's and Ruby's hash tables use.

use core::fmt;
use core::hash::Hasher;
use core::net::IpAddr;

use siphasher::sip::SipHasher13;
use zeroize::Zeroizing;

use crate::ip::ipv6_octets;
use crate::types::SocketPair;

/// The secret key of a [`Shim`](crate::shim::Shim)'s tables: 16 random octets, drawn anew at every start.
///
/// Anyone who knows it can choose addresses and ports that make each packet take as many steps as there are connections. It protects
/// nothing else.
#[derive(Clone)]
pub struct HashKey(Zeroizing<[u64; 2]>);

impl HashKey {
    /// A key of these octets. Take them from a random number generator, such as a microcontroller's own.
    #[must_use]
    pub fn new(random: [u8; 16]) -> Self {
        let number = u128::from_le_bytes(random);
        Self(Zeroizing::new([number as u64, (number >> 64) as u64]))
    }

    /// A random key from the operating system, through the standard library's `RandomState`. On a target without an operating system,
    /// such as `wasm32-unknown-unknown`, it can be guessed: use [`Self::new`].
    #[cfg(feature = "std")]
    #[must_use]
    pub fn random() -> Self {
        use std::hash::BuildHasher;
        // `RandomState` is keyed with random numbers, and its hasher is a pseudorandom function too.
        let state = std::hash::RandomState::new();
        Self(Zeroizing::new([0, 1].map(|number: u8| state.hash_one(number))))
    }

    /// The bucket of a connection. `buckets` may be 0.
    pub(super) fn place_of_pair(&self, pair: &SocketPair, buckets: usize) -> usize {
        let ports = u32::from(pair.local.port()) << 16 | u32::from(pair.remote.port());
        let hash = match (pair.local.address(), pair.remote.address()) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                self.hash(&[u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits())], ports)
            }
            (local, remote) => {
                let [local, remote] = [local, remote].map(|end| u128::from_be_bytes(ipv6_octets(end)));
                let [a, b, c, d] = [local >> 64, local, remote >> 64, remote].map(|half| half as u64);
                self.hash(&[a, b, c, d], ports)
            }
        };
        place(hash, buckets)
    }

    /// The bucket of a prefix.
    pub(super) fn place_of_prefix(&self, address: u128, length: u8, buckets: usize) -> usize {
        place(self.hash(&[(address >> 64) as u64, address as u64], u32::from(length)), buckets)
    }

    // Not inlined: each copy costs flash on a microcontroller.
    #[inline(never)]
    fn hash(&self, words: &[u64], rest: u32) -> u64 {
        let [k0, k1] = *self.0;
        let mut hasher = SipHasher13::new_with_keys(k0, k1);
        // Words first, so that they stay aligned in the hasher.
        words.iter().for_each(|word| hasher.write_u64(*word));
        hasher.write_u32(rest);
        hasher.finish()
    }
}

/// Scales the upper half of a hash to a number of buckets, with a multiplication instead of a division.
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

    /// Includes an address for which an earlier hash without a key put every port into one bucket.
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
            // With one connection a bucket on average, ten in one bucket have a chance of one in a thousand.
            assert!(buckets.iter().all(|count| *count < 12), "{remote}");
        }
    }

    /// Changes one part of a connection or a prefix at a time.
    #[test]
    fn every_part_of_an_address_is_hashed() {
        let key = HashKey::new([7; 16]);
        let pair = |local: IpAddr, remote: IpAddr, ports: (u16, u16)| {
            let local = Endpoint::new(local, ports.0);
            key.place_of_pair(&SocketPair { local, remote: Endpoint::new(remote, ports.1) }, 8192)
        };
        let (v4, v6) = (
            |number: u16| IpAddr::from([10, 0, (number >> 8) as u8, number as u8]),
            |number: u128| IpAddr::from(((0x2001_0db8 << 96) | number).to_be_bytes()),
        );
        let low = |number: u16| v6(number.into());
        let high = |number: u16| v6(u128::from(number) << 64);
        let places: [&dyn Fn(u16) -> usize; 9] = [
            &|number| pair(v4(1), v4(2), (number, 179)),
            &|number| pair(v4(1), v4(2), (179, number)),
            &|number| pair(v4(number), v4(2), (179, 5)),
            &|number| pair(v4(1), v4(number), (179, 5)),
            &|number| pair(low(number), low(2), (179, 5)),
            &|number| pair(high(number), low(2), (179, 5)),
            &|number| pair(low(1), high(number), (179, 5)),
            &|number| key.place_of_prefix(u128::from(number), 128, 8192),
            &|number| key.place_of_prefix(u128::from(number) << 64, 64, 8192),
        ];
        for (part, place) in places.iter().enumerate() {
            let mut buckets = [0_u8; 8192];
            (0..8192).for_each(|number| buckets[place(number)] += 1);
            assert!(buckets.iter().all(|count| *count < 12), "part {part}");
        }
        let by_length = [0, 1, 32, 127].map(|length| key.place_of_prefix(0, length, 8192));
        assert!(by_length.iter().skip(1).all(|place| *place != by_length[0]));
    }

    #[cfg(feature = "std")]
    #[test]
    fn random_keys_differ() {
        assert_ne!(HashKey::random().0, HashKey::random().0);
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
