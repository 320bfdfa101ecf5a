//! Address-validation tokens (RFC 9000 §8.1): their keys, rotation, and a guard against replay.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use wireseal_aead::Backend;
use wireseal_algorithms::AeadAlgorithm;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::codec::{ConnectionId, write_parts};
use crate::error::SealError;
use crate::packet_key::{PacketKey, PathId};
use crate::secret::HASH_LONG;
use crate::version::Version;

/// The bit of a token's first octet that says what the token was issued for. The other bits name the key.
const PURPOSE: u8 = 1;
const RETRY: u8 = 0;
const NEW_TOKEN: u8 = 1;
/// The octets that make each token unique.
const UNIQUE_LENGTH: usize = 16;
/// The length of the mark that identifies a token from a Retry packet.
const MARK_LENGTH: usize = 4;
const KEY_LENGTH: usize = 16;
const NONCE_LENGTH: usize = AeadAlgorithm::NONCE_LENGTH;
const TAG: usize = AeadAlgorithm::TAG_LENGTH;
/// The expiry time in milliseconds, and two connection IDs with their lengths.
const MAX_CONTENTS: usize = 8 + 2 * (1 + ConnectionId::MAX_LENGTH);

/// What a token was issued for, and the data it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPurpose {
    /// In a Retry packet. The client returns it once, immediately, from the same address and port. It carries the connection IDs that the
    /// server repeats in its transport parameters (RFC 9000 §7.3 and §8.1.2).
    Retry {
        /// The destination connection ID of the client's first Initial packet.
        original_destination: ConnectionId,
        /// The source connection ID of the Retry packet.
        retry_source: ConnectionId,
    },
    /// In a NEW_TOKEN frame, for a later connection from the same address and any port (RFC 9000 §8.1.3).
    NewToken,
}

impl TokenPurpose {
    /// The bit that distinguishes the two (RFC 9000 §8.1.1).
    const fn bit(&self) -> u8 {
        match self {
            Self::Retry { .. } => RETRY,
            Self::NewToken => NEW_TOKEN,
        }
    }
}

/// A genuine token that has not expired. Only [`TokenKey::open`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    /// What it was issued for.
    pub purpose: TokenPurpose,
    /// Unique to this token: for a server that accepts each token only once (RFC 9000 §8.1.4).
    pub unique: [u8; UNIQUE_LENGTH],
}

/// Names the one of a server's [keys](crate::TokenKeys) that sealed a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenKeyId(u8);

impl TokenKeyId {
    /// The largest id.
    pub const MAX: u8 = 0x7f;

    /// An id from 0 to 127; `None` for a larger number.
    #[must_use]
    pub const fn new(id: u8) -> Option<Self> {
        if id <= Self::MAX { Some(Self(id)) } else { None }
    }

    /// The id that a token names, genuine or not. `None` for an empty token.
    #[must_use]
    pub fn of_token(token: &[u8]) -> Option<Self> {
        token.first().map(|first| Self(first >> 1))
    }
}

/// The key with which a server seals and opens its tokens. Wiped on drop.
///
/// A token is sealed with AES-128-GCM. Its key and nonce are derived from this key and the token's 16 unique octets by HKDF-Expand
/// with SHA-256. Version, address and purpose are authenticated, and must be the same when it is opened. Its first octet and the unique
/// ones are not sealed; in a token for a Retry packet a mark of four octets follows them ([`claims_retry`](Self::claims_retry)). The
/// address of an IPv6 client includes its zone, `scope_id` (RFC 4007 §6): `fe80::1` on two links is two hosts.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// The maximum length of a token in octets.
    pub const MAX_TOKEN_LENGTH: usize = 1 + UNIQUE_LENGTH + MARK_LENGTH + MAX_CONTENTS + TAG;

    /// A key of 32 random octets, the same on all servers that accept each other's tokens.
    #[must_use]
    pub const fn new(key: &[u8; 32]) -> Self {
        Self(*key)
    }

    /// Writes a token for the client at `address` to the start of `out` and returns its length in octets: at most
    /// [`MAX_TOKEN_LENGTH`](Self::MAX_TOKEN_LENGTH).
    ///
    /// `unique` must be random, or never used before with this key. The token expires at `expires`, counted from an instant that all
    /// servers with this key share, such as the Unix epoch, in whole milliseconds.
    ///
    /// # Errors
    ///
    /// [`SealError::BufferTooSmall`], with nothing written.
    pub fn seal(
        &self,
        unique: &[u8; UNIQUE_LENGTH],
        version: Version,
        address: SocketAddr,
        purpose: &TokenPurpose,
        expires: Duration,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        self.seal_as(TokenKeyId(0), unique, version, address, purpose, expires, out)
    }

    /// [`seal`](Self::seal) for the key with this id.
    #[allow(clippy::too_many_arguments, reason = "one more than the caller's")]
    fn seal_as(
        &self,
        id: TokenKeyId,
        unique: &[u8; UNIQUE_LENGTH],
        version: Version,
        address: SocketAddr,
        purpose: &TokenPurpose,
        expires: Duration,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let first = id.0 << 1 | purpose.bit();
        let expires = u64::try_from(expires.as_millis()).unwrap_or(u64::MAX).to_be_bytes();
        let (mark, lengths);
        let [mark, original_length, original, source_length, source]: [&[u8]; 5] = match purpose {
            TokenPurpose::Retry { original_destination, retry_source } => {
                mark = retry_mark(first, unique);
                lengths = [original_destination.length_octet(), retry_source.length_octet()];
                [&mark, &lengths[..1], original_destination, &lengths[1..], retry_source]
            }
            TokenPurpose::NewToken => [&[]; 5],
        };
        let length = write_parts(
            out,
            &[&[first], unique, mark, &expires, original_length, original, source_length, source, &[0; TAG]],
        )?;
        let contents = 1 + UNIQUE_LENGTH + mark.len();
        let (contents, tag) = out[contents..length].split_at_mut(length - contents - TAG);
        let aad = associated_data(version, address, first);
        tag.copy_from_slice(&self.derive(unique).seal_checked(PathId(0), 0, &aad, contents));
        Ok(length)
    }

    /// Checks that `token` is one of ours, issued to the client at `address` for a connection of `version`, and not expired at the
    /// time `now`.
    ///
    /// # Errors
    ///
    /// [`TokenError`].
    pub fn open(
        &self,
        version: Version,
        address: SocketAddr,
        token: &[u8],
        now: Duration,
    ) -> Result<Token, TokenError> {
        let (first, rest) = token.split_first().ok_or(TokenError::Invalid)?;
        let (unique, mut sealed) = rest.split_first_chunk::<UNIQUE_LENGTH>().ok_or(TokenError::Invalid)?;
        if first & PURPOSE == RETRY {
            sealed = sealed.strip_prefix(&retry_mark(*first, unique)).ok_or(TokenError::Invalid)?;
        }
        let mut buffer = [0; MAX_CONTENTS + TAG];
        let buffer = buffer.get_mut(..sealed.len()).ok_or(TokenError::Invalid)?;
        buffer.copy_from_slice(sealed);
        let aad = associated_data(version, address, *first);
        let contents = self.derive(unique).open(PathId(0), 0, &aad, buffer).ok_or(TokenError::Invalid)?;
        let (expires, ids) = contents.split_first_chunk().ok_or(TokenError::Invalid)?;
        let purpose = match first & PURPOSE {
            RETRY => {
                let (original_destination, rest) = take_id(ids)?;
                let (retry_source, _) = take_id(rest)?;
                TokenPurpose::Retry { original_destination, retry_source }
            }
            _ => TokenPurpose::NewToken,
        };
        if now.as_millis() >= u128::from(u64::from_be_bytes(*expires)) {
            return Err(TokenError::Expired { purpose });
        }
        Ok(Token { purpose, unique: *unique })
    }

    /// Whether `token` claims to come from a Retry packet (RFC 9000 §8.1.1) of a server that uses [`TokenKey`], even if the key is gone.
    ///
    /// It checks the four octets of the mark, which SHA-256 computes from the octets before them, without a key. Tokens of other software,
    /// which clients may have from NEW_TOKEN frames of an earlier server, match with probability 2^-32. Anyone can forge a token that
    /// matches, but this only ends their own connection.
    #[must_use]
    pub fn claims_retry(token: &[u8]) -> bool {
        let Some((first, rest)) = token.split_first() else { return false };
        let Some((unique, rest)) = rest.split_first_chunk() else { return false };
        first & PURPOSE == RETRY && rest.starts_with(&retry_mark(*first, unique))
    }

    /// The key of one token. Its IV is the nonce, because it seals a single packet, with number 0.
    fn derive(&self, unique: &[u8; UNIQUE_LENGTH]) -> PacketKey {
        let mut okm = Zeroizing::new([0; KEY_LENGTH + NONCE_LENGTH]);
        let prk = Hkdf::<Sha256>::from_prk(&self.0).expect(HASH_LONG);
        prk.expand_multi_info(&[b"wireseal token", unique], &mut *okm).expect(HASH_LONG);
        let mut nonce = [0; NONCE_LENGTH];
        nonce.copy_from_slice(&okm[KEY_LENGTH..]);
        PacketKey::with_backend(Backend::active(), AeadAlgorithm::Aes128Gcm, &okm[..KEY_LENGTH], &nonce)
            .expect("the key has the length of its algorithm")
    }
}

/// The mark that follows the unique octets in a token of a Retry packet. It differs in each token, so tokens do not show which server made
/// them.
fn retry_mark(first: u8, unique: &[u8; UNIQUE_LENGTH]) -> [u8; MARK_LENGTH] {
    let hash = Sha256::new().chain_update(b"wireseal retry token").chain_update([first]).chain_update(unique);
    let mut mark = [0; MARK_LENGTH];
    mark.copy_from_slice(&hash.finalize()[..MARK_LENGTH]);
    mark
}

fn take_id(octets: &[u8]) -> Result<(ConnectionId, &[u8]), TokenError> {
    let (length, rest) = octets.split_first().ok_or(TokenError::Invalid)?;
    let (id, rest) = rest.split_at_checked(usize::from(*length)).ok_or(TokenError::Invalid)?;
    Ok((ConnectionId::new(id).map_err(|_| TokenError::Invalid)?, rest))
}

/// Version, address, zone, port and first octet. The zone is zero for IPv4, the port for a token from a NEW_TOKEN frame.
fn associated_data(version: Version, address: SocketAddr, first: u8) -> [u8; 4 + 16 + 4 + 2 + 1] {
    let mut data = [0; 27];
    data[..4].copy_from_slice(&version.to_wire().to_be_bytes());
    let (ip, zone) = match address {
        SocketAddr::V4(address) => (address.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(address) => (*address.ip(), address.scope_id()),
    };
    data[4..20].copy_from_slice(&ip.octets());
    data[20..24].copy_from_slice(&zone.to_be_bytes());
    if first & PURPOSE == RETRY {
        data[24..26].copy_from_slice(&address.port().to_be_bytes());
    }
    data[26] = first;
    data
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").finish_non_exhaustive()
    }
}

/// Why a token does not validate the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Not issued with this key for this version, address and purpose, or damaged, or from another server. Go on as if there were no token
    /// (RFC 9000 §8.1.3), unless [`TokenKey::claims_retry`]: then close with INVALID_TOKEN, because the client accepts no second Retry
    /// (RFC 9000 §8.1.2).
    #[error("the token was not issued to this client by this server")]
    Invalid,
    /// Issued by us, but expired. If it came from a Retry packet, close with INVALID_TOKEN (RFC 9000 §8.1.2). Otherwise go on as if
    /// there were no token.
    #[error("the token has expired")]
    Expired {
        /// What it was issued for.
        purpose: TokenPurpose,
    },
}

/// The latest `N` keys of a server's tokens: the newest seals, and each opens the tokens it has sealed. Servers that accept each other's
/// tokens have the same keys under the same ids.
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
    /// The newest first, except for keys that do not seal yet.
    keys: [Option<(TokenKeyId, TokenKey)>; N],
    sealing: TokenKeyId,
}

impl<const N: usize> TokenKeys<N> {
    /// Starts with one key, which seals.
    #[must_use]
    pub fn new(id: TokenKeyId, key: TokenKey) -> Self {
        const { assert!(N > 0, "room for one key at least") };
        let mut keys = Self { keys: [const { None }; N], sealing: id };
        keys.accept(id, key);
        keys
    }

    /// Also opens tokens of this key from now on. A key with the same id is replaced; otherwise, if there is no room, the oldest is
    /// forgotten.
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
    /// [`SealError::BufferTooSmall`], and [`SealError::NoTokenKey`] if the sealing key was forgotten because too many others were accepted
    /// since. Nothing is written.
    pub fn seal(
        &self,
        unique: &[u8; 16],
        version: Version,
        address: SocketAddr,
        purpose: &TokenPurpose,
        expires: Duration,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let key = self.key(self.sealing).ok_or(SealError::NoTokenKey)?;
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

/// The number of bits that each token sets.
const BITS: usize = 4;

/// Remembers which tokens from NEW_TOKEN frames were used on this server, so that each is accepted once (RFC 9000 §8.1.4). It needs bounded
/// memory and no heap: two Bloom filters of `WORDS` times 64 bits, used in turn. Each server has its own; after a restart it is empty.
///
/// Only for tokens whose 16 unique octets are random. A used token is always recognised while it is valid. A new one is mistaken for a used
/// one with a probability of 0.2 % while each 64 bits hold up to three tokens of a lifetime, and of 10 % with ten; its client then
/// validates its address as if it had no token.
#[derive(Clone)]
pub struct TokenReplayGuard<const WORDS: usize> {
    /// The current filter, then the one before.
    filters: [[u64; WORDS]; 2],
    lifetime: Duration,
    /// When the current filter began.
    since: Duration,
}

impl<const WORDS: usize> TokenReplayGuard<WORDS> {
    /// An empty guard, for tokens that are valid for at most `lifetime`. Count `now` and all later times from one instant; they never go
    /// back.
    #[must_use]
    pub const fn new(lifetime: Duration, now: Duration) -> Self {
        const { assert!(WORDS > 0, "room for one token at least") };
        Self { filters: [[0; WORDS]; 2], lifetime, since: now }
    }

    /// Whether an [opened](TokenKey::open) token is used for the first time; records that it was used. Always `true` for a Retry token: it
    /// is valid for one address and port and a short time, and its client cannot get another.
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
        // The servers choose these octets at random, so they serve as hashes.
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
