//! Keys of tokens that are rotated, and tokens that count once.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use crate::error::EncodeError;
use crate::token::{Token, TokenError, TokenKey, TokenKeyId, TokenPurpose};
use crate::version::Version;

/// The latest `N` keys of a server's tokens: the newest seals, and each opens what it has sealed. Servers that accept each other's tokens
/// have the same keys under the same ids.
///
/// To rotate keys on many servers, give the new one to all of them with [`accept`](Self::accept), and then have all of them seal with
/// it, by [`rotate`](Self::rotate).
///
/// ```
/// use core::time::Duration;
/// use wireseal_quic::{TokenKey, TokenKeyId, TokenKeys, TokenPurpose, Version};
///
/// let (first, second) = (TokenKeyId::new(1).ok_or("an id")?, TokenKeyId::new(2).ok_or("an id")?);
/// let mut keys = TokenKeys::<2>::new(first, TokenKey::new(&[7; 32]));
/// let (address, now, hour) = ("192.0.2.1:443".parse()?, Duration::ZERO, Duration::from_secs(3600));
/// let mut token = [0; TokenKey::MAX_TOKEN_LENGTH];
/// let length = keys.seal(&[9; 16], Version::V1, address, &TokenPurpose::NewToken, hour, &mut token)?;
/// keys.rotate(second, TokenKey::new(&[8; 32]));
/// assert!(keys.open(Version::V1, address, &token[..length], now).is_ok());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct TokenKeys<const N: usize> {
    /// The newest first, but for those that seal nothing yet.
    keys: [Option<(TokenKeyId, TokenKey)>; N],
    sealing: TokenKeyId,
}

impl<const N: usize> TokenKeys<N> {
    /// A first key, which seals.
    #[must_use]
    pub fn new(id: TokenKeyId, key: TokenKey) -> Self {
        const { assert!(N > 0, "room for one key at least") };
        let mut keys = Self { keys: [const { None }; N], sealing: id };
        keys.accept(id, key);
        keys
    }

    /// Opens tokens of this key, too, and forgets the oldest if there is no room. One with the same id is replaced.
    pub fn accept(&mut self, id: TokenKeyId, key: TokenKey) {
        let same = self.keys.iter().position(|known| known.as_ref().is_some_and(|(known, _)| *known == id));
        self.keys[..=same.unwrap_or(N - 1)].rotate_right(1);
        self.keys[0] = Some((id, key));
    }

    /// [Accepts](Self::accept) a key, and seals with it from now on.
    pub fn rotate(&mut self, id: TokenKeyId, key: TokenKey) {
        self.accept(id, key);
        self.sealing = id;
    }

    fn key(&self, id: TokenKeyId) -> Option<&TokenKey> {
        self.keys.iter().flatten().find(|(known, _)| *known == id).map(|(_, key)| key)
    }

    /// [`TokenKey::seal`] with the key that seals now.
    ///
    /// # Errors
    ///
    /// [`EncodeError::BufferTooSmall`], and [`EncodeError::NoToken`] if so many keys were accepted meanwhile that the one that seals was
    /// forgotten; with nothing written.
    pub fn seal(
        &self,
        unique: &[u8; 16],
        version: Version,
        address: SocketAddr,
        purpose: &TokenPurpose,
        expires: Duration,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let key = self.key(self.sealing).ok_or(EncodeError::NoToken)?;
        key.seal_as(self.sealing, unique, version, address, purpose, expires, out)
    }

    /// [`TokenKey::open`] with the key that the token names.
    ///
    /// # Errors
    ///
    /// [`TokenError`]; [`TokenError::Invalid`] if there is no such key any more.
    pub fn open(
        &self,
        version: Version,
        address: SocketAddr,
        token: &[u8],
        now: Duration,
    ) -> Result<Token, TokenError> {
        let key = TokenKeyId::of_token(token).and_then(|id| self.key(id)).ok_or(TokenError::Invalid)?;
        key.open(version, address, token, now)
    }
}

impl<const N: usize> fmt::Debug for TokenKeys<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKeys").field("sealing", &self.sealing).finish_non_exhaustive()
    }
}

/// Bits that each token sets.
const BITS: usize = 4;

/// Which tokens of NEW_TOKEN frames were used here, in bounded memory and without a heap, so that each counts once (RFC 9000 §8.1.4): two
/// Bloom filters of `WORDS` times 64 bits, which take turns. Each server has its own, and an empty one after a restart.
///
/// Only for tokens whose 16 unique octets are random. One that was used is always recognised while it is valid. A new one is taken for
/// used with a probability of 0.2 % while each 64 bits hold up to three tokens of a lifetime, and 10 % with ten; its client then goes
/// through address validation as if it had none.
#[derive(Clone)]
pub struct TokenReplayGuard<const WORDS: usize> {
    /// That of now, and the one before.
    filters: [[u64; WORDS]; 2],
    lifetime: Duration,
    /// When that of now began.
    since: Duration,
}

impl<const WORDS: usize> TokenReplayGuard<WORDS> {
    /// For tokens that are valid for `lifetime` at most. `now` and all times later are counted from one instant, and never go back.
    #[must_use]
    pub const fn new(lifetime: Duration, now: Duration) -> Self {
        const { assert!(WORDS > 0, "room for one token at least") };
        Self { filters: [[0; WORDS]; 2], lifetime, since: now }
    }

    /// Whether an [opened](TokenKey::open) token is used for the first time, and notes that it is. A Retry token always is: it is valid
    /// for one address and port and a short time, and a client has no way to get another.
    #[must_use]
    pub fn is_first_use(&mut self, token: &Token, now: Duration) -> bool {
        if matches!(token.purpose, TokenPurpose::Retry { .. }) {
            return true;
        }
        let age = now.saturating_sub(self.since);
        if age >= self.lifetime {
            let is_recent = age < self.lifetime.saturating_mul(2);
            self.filters[1] = if is_recent { self.filters[0] } else { [0; WORDS] };
            self.filters[0] = [0; WORDS];
            self.since = now;
        }
        // The octets are random, and nobody but the servers chooses them, so they are as good as hashes.
        let (numbers, _) = token.unique.as_chunks::<{ 16 / BITS }>();
        let mut is_known = [true; 2];
        for number in numbers {
            let bit = u32::from_be_bytes(*number) as usize % (64 * WORDS);
            let mask = 1 << (bit % 64);
            for (filter, is_known) in self.filters.iter().zip(&mut is_known) {
                *is_known &= filter[bit / 64] & mask != 0;
            }
            self.filters[0][bit / 64] |= mask;
        }
        is_known == [false; 2]
    }
}

impl<const WORDS: usize> fmt::Debug for TokenReplayGuard<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenReplayGuard").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}
