//! Address-validation tokens (RFC 9000, section 8.1).

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use hkdf::Hkdf;
use sha2::Sha256;
use wireseal_algorithms::AeadAlgorithm;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::backend::{AeadKey, Backend};
use crate::codec::{EncodeError, write_parts};
use crate::connection_id::ConnectionId;
use crate::seal::TAG;
use crate::secret::HASH_LONG;
use crate::version::Version;

/// What a token was given out for, in its first octet.
const RETRY: u8 = 0;
const NEW_TOKEN: u8 = 1;
/// The octets that make a token unlike every other.
const UNIQUE_LENGTH: usize = 16;
/// The key and the nonce of a token.
const KEY_LENGTH: usize = 16;
const NONCE_LENGTH: usize = AeadAlgorithm::NONCE_LENGTH;
/// The time of expiry in milliseconds, and two connection IDs with their lengths.
const MAX_CONTENTS: usize = 8 + 2 * (1 + ConnectionId::MAX_LENGTH);

/// What a token was given out for, and what it carries for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPurpose {
    /// It came in a Retry packet: the client uses it once and at once, from the same address and port, and the server learns
    /// what it has to repeat in its transport parameters (RFC 9000, section 7.3 and 8.1.2).
    Retry {
        /// The destination connection ID of the client's first Initial packet.
        original_destination: ConnectionId,
        /// The source connection ID of the Retry packet.
        retry_source: ConnectionId,
    },
    /// It came in a NEW_TOKEN frame, for a later connection from the same address, whatever the port (RFC 9000, section
    /// 8.1.3).
    NewToken,
}

impl TokenPurpose {
    /// The first octet of a token, by which the two are told apart (RFC 9000, section 8.1.1).
    const fn octet(&self) -> u8 {
        match self {
            Self::Retry { .. } => RETRY,
            Self::NewToken => NEW_TOKEN,
        }
    }
}

/// A token that was found genuine and in time. Only [`TokenKey::open`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    /// What it was given out for.
    pub purpose: TokenPurpose,
    /// What makes it unlike every other token: for a server that accepts each only once (RFC 9000, section 8.1.4).
    pub unique: [u8; UNIQUE_LENGTH],
}

/// The key with which a server seals the tokens it gives out, and knows them again. Wiped on drop.
///
/// A token is sealed with AES-128-GCM under a key and a nonce of its own, derived by HKDF-Expand with SHA-256 from this key and
/// the token's 16 unique octets; version, address and purpose are authenticated with it. It is opened with the same values
/// only: a token from elsewhere, for another version or from another address is no token.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// The most octets of a token.
    pub const MAX_TOKEN_LENGTH: usize = 1 + UNIQUE_LENGTH + MAX_CONTENTS + TAG;

    /// A key of 32 random octets, shared by the servers that are to accept each other's tokens.
    #[must_use]
    pub const fn new(key: &[u8; 32]) -> Self {
        Self(*key)
    }

    /// Writes a token for the client at `address` to the start of `out`, and returns its length in octets: at most
    /// [`MAX_TOKEN_LENGTH`](Self::MAX_TOKEN_LENGTH).
    ///
    /// `unique` must be random, or never used before with this key. The token is good before the time `expires`, counted from
    /// an instant that all servers with this key share, as the Unix epoch is; milliseconds are kept.
    ///
    /// # Errors
    ///
    /// [`EncodeError::BufferTooSmall`], with nothing written.
    pub fn seal(
        &self,
        unique: &[u8; UNIQUE_LENGTH],
        version: Version,
        address: SocketAddr,
        purpose: &TokenPurpose,
        expires: Duration,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let expires = u64::try_from(expires.as_millis()).unwrap_or(u64::MAX).to_be_bytes();
        let empty: &[u8] = &[];
        let (lengths, ids) = match purpose {
            TokenPurpose::Retry { original_destination, retry_source } => (
                [original_destination.length_octet(), retry_source.length_octet()],
                [&**original_destination, &**retry_source],
            ),
            TokenPurpose::NewToken => ([0; 2], [empty; 2]),
        };
        let [original, source] = match purpose {
            TokenPurpose::Retry { .. } => [&lengths[..1], &lengths[1..]],
            TokenPurpose::NewToken => [empty; 2],
        };
        let length = write_parts(
            out,
            &[&[purpose.octet()], unique, &expires, original, ids[0], source, ids[1], &[0; TAG]],
        )?;
        let (contents, tag) = out[1 + UNIQUE_LENGTH..length].split_at_mut(length - 1 - UNIQUE_LENGTH - TAG);
        let (key, nonce) = self.derive(unique);
        let aad = associated_data(version, address, purpose.octet());
        let sealed = key.seal(nonce, &aad, contents);
        tag.copy_from_slice(&sealed.expect("a token is shorter than any limit of the AEAD"));
        Ok(length)
    }

    /// Finds out whether `token` is one of ours, given to the client at `address` for a connection of `version`, and not
    /// expired at the time `now`.
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
        let (purpose, rest) = token.split_first().ok_or(TokenError::Invalid)?;
        let (unique, rest) = rest.split_first_chunk::<UNIQUE_LENGTH>().ok_or(TokenError::Invalid)?;
        let (sealed, tag) = rest.split_last_chunk::<TAG>().ok_or(TokenError::Invalid)?;
        let mut buffer = [0; MAX_CONTENTS];
        let contents = buffer.get_mut(..sealed.len()).ok_or(TokenError::Invalid)?;
        contents.copy_from_slice(sealed);
        let (key, nonce) = self.derive(unique);
        if !key.open(nonce, &associated_data(version, address, *purpose), contents, tag) {
            return Err(TokenError::Invalid);
        }
        let (expires, ids) = contents.split_first_chunk().ok_or(TokenError::Invalid)?;
        let purpose = match *purpose {
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

    /// Whether `token` says that it came in a Retry packet (RFC 9000, section 8.1.1), be it ours or not.
    #[must_use]
    pub fn claims_retry(token: &[u8]) -> bool {
        token.first() == Some(&RETRY)
    }

    /// The key and the nonce of one token.
    fn derive(&self, unique: &[u8; UNIQUE_LENGTH]) -> (AeadKey, [u8; NONCE_LENGTH]) {
        let mut okm = Zeroizing::new([0; KEY_LENGTH + NONCE_LENGTH]);
        let prk = Hkdf::<Sha256>::from_prk(&self.0).expect(HASH_LONG);
        prk.expand_multi_info(&[b"wireseal token", unique], &mut *okm).expect(HASH_LONG);
        let key = AeadKey::new(Backend::active(), AeadAlgorithm::Aes128Gcm, &okm[..KEY_LENGTH]);
        let mut nonce = [0; NONCE_LENGTH];
        nonce.copy_from_slice(&okm[KEY_LENGTH..]);
        (key.expect("the key has the length of its algorithm"), nonce)
    }
}

fn take_id(octets: &[u8]) -> Result<(ConnectionId, &[u8]), TokenError> {
    let (length, rest) = octets.split_first().ok_or(TokenError::Invalid)?;
    let (id, rest) = rest.split_at_checked(usize::from(*length)).ok_or(TokenError::Invalid)?;
    Ok((ConnectionId::new(id).map_err(|_| TokenError::Invalid)?, rest))
}

/// Version, address, port and purpose. A token from a NEW_TOKEN frame is for any port.
fn associated_data(version: Version, address: SocketAddr, purpose: u8) -> [u8; 4 + 16 + 2 + 1] {
    let mut data = [0; 23];
    data[..4].copy_from_slice(&version.to_wire().to_be_bytes());
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    data[4..20].copy_from_slice(&ip.octets());
    if purpose == RETRY {
        data[20..22].copy_from_slice(&address.port().to_be_bytes());
    }
    data[22] = purpose;
    data
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").finish_non_exhaustive()
    }
}

/// Why a token validates no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Not given out with this key for this version, address and purpose, or damaged. The server goes on as if there had been
    /// no token (RFC 9000, section 8.1.3), unless [`TokenKey::claims_retry`]: then it closes with INVALID_TOKEN, since the client
    /// takes no second Retry (section 8.1.2).
    Invalid,
    /// Given out by us, but too old. If it came from a Retry, the server closes with INVALID_TOKEN (RFC 9000, section 8.1.2);
    /// else it goes on as if there had been none.
    Expired {
        /// What it was given out for.
        purpose: TokenPurpose,
    },
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "the token was not given to this client by this server",
            Self::Expired { .. } => "the token has expired",
        })
    }
}

impl core::error::Error for TokenError {}
