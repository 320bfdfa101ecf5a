//! Connection IDs that tell a load balancer which server they belong to (QUIC-LB, draft-ietf-quic-load-balancers-21, an expired draft
//! of August 2025; there is no RFC).

use core::fmt;
use core::ops::{Deref, Range};

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};

use crate::connection_id::ConnectionId;

/// The first three bits of a connection ID from a server without a configuration (draft §3.2).
const UNROUTABLE: u8 = 0b111;

/// The five bits of the first octet that are random, or encode how many octets follow (draft §3.4).
const LENGTH_BITS: u8 = 0b1_1111;

/// The octets of server ID and nonce together that are one AES block, encrypted in one pass (draft §5.4.1).
const BLOCK_LENGTH: usize = 16;

/// The octets of server ID and nonce together: one less than a connection ID has at most (draft §5.3).
const MAX_PLAINTEXT_LENGTH: usize = ConnectionId::MAX_LENGTH - 1;

/// The octets of the longest half of a plaintext.
const MAX_HALF_LENGTH: usize = MAX_PLAINTEXT_LENGTH.div_ceil(2);

/// Why a connection ID cannot be generated, or a configuration cannot be used. The caller is at fault, except for
/// [`NoncesExhausted`](Self::NoncesExhausted), which is reached over time. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RoutingError {
    /// The id of a configuration is above 6 (draft §3.1).
    #[error("the id of a configuration is 0 to 6, not {got}")]
    ConfigId {
        /// The id given.
        got: u8,
    },
    /// A server ID is empty, or longer than a nonce of 4 octets leaves room for (draft §5.3).
    #[error("a server ID has 1 to 15 octets, not {got}")]
    ServerIdLength {
        /// The octets given.
        got: usize,
    },
    /// A nonce is shorter than 4 octets, or longer than a server ID of one octet leaves room for (draft §5.3).
    #[error("a nonce has 4 to 18 octets, not {got}")]
    NonceLength {
        /// The octets given.
        got: usize,
    },
    /// Server ID and nonce are longer than a connection ID behind its first octet (draft §5.3).
    #[error("server ID and nonce have at most {expected} octets together, not {got}")]
    TooLong {
        /// The maximum: 19 octets.
        expected: usize,
        /// The octets they have together.
        got: usize,
    },
    /// The server ID has another length than the configuration gives.
    #[error("the configuration has server IDs of {expected} octets, not {got}")]
    OtherServerIdLength {
        /// The octets of the configuration's server IDs.
        expected: usize,
        /// The octets of this one.
        got: usize,
    },
    /// An unroutable connection ID is too short to be unique, or longer than any connection ID (draft §3.2).
    #[error("an unroutable connection ID has 8 to 20 octets, not {got}")]
    UnroutableLength {
        /// The octets given.
        got: usize,
    },
    /// Every nonce was used with this key: get a configuration with a new key, or send [`unroutable_id`]s (draft §9.6).
    #[error("every nonce was used with this key")]
    NoncesExhausted,
}

/// The octets that name a server in a configuration: 1 to 15 (draft §5.1 and §5.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    /// Zeros follow a shorter one.
    octets: [u8; Self::MAX_LENGTH],
    length: u8,
}

impl ServerId {
    /// The maximum length in octets.
    pub const MAX_LENGTH: usize = MAX_PLAINTEXT_LENGTH - RoutingConfig::MIN_NONCE_LENGTH;

    /// A server ID of these octets.
    ///
    /// # Errors
    ///
    /// [`RoutingError::ServerIdLength`] for none, or more than 15.
    pub fn new(octets: &[u8]) -> Result<Self, RoutingError> {
        let got = octets.len();
        if got == 0 || got > Self::MAX_LENGTH {
            return Err(RoutingError::ServerIdLength { got });
        }
        let mut id = Self { octets: [0; Self::MAX_LENGTH], length: got as u8 };
        id.octets[..got].copy_from_slice(octets);
        Ok(id)
    }
}

impl Deref for ServerId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

/// In hexadecimal.
impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerId({self})")
    }
}

/// How the connection IDs of a group of servers are made, the same at the servers and their load balancers (draft §5.3). Its key is
/// wiped on drop, and not printed.
///
/// A load balancer asks each configuration it has. `None` from all of them means that the packet goes where the load balancer's
/// fallback sends it (draft §4.2):
///
/// ```
/// use wireseal_quic::{RoutableIds, RoutingConfig, ServerId};
///
/// // The same at server and load balancer: server IDs of 2 octets and nonces of 6, encrypted.
/// let config = || RoutingConfig::new(0, 2, 6, Some(&[7; 16]));
///
/// let mut ids = RoutableIds::new(config()?, ServerId::new(&[0, 42])?, &[0x5a; 18])?; // random octets
/// let connection_id = ids.generate(&[0xa5; 19])?; // random octets, new ones each time
///
/// let known = [config()?];
/// let server = known.iter().find_map(|config| config.server_id(&connection_id));
/// assert_eq!(server, Some(ServerId::new(&[0, 42])?));
/// # Ok::<(), wireseal_quic::RoutingError>(())
/// ```
pub struct RoutingConfig {
    id: u8,
    server_id_length: u8,
    nonce_length: u8,
    encodes_length: bool,
    cipher: Option<Aes128>,
}

impl RoutingConfig {
    /// The largest id. The next one, 0b111, marks connection IDs that are [unroutable](unroutable_id).
    pub const MAX_ID: u8 = UNROUTABLE - 1;
    /// The minimum length of a nonce in octets.
    pub const MIN_NONCE_LENGTH: usize = 4;
    /// The maximum length of a nonce in octets.
    pub const MAX_NONCE_LENGTH: usize = MAX_PLAINTEXT_LENGTH - 1;

    /// A configuration with an id of 0 to 6, the lengths of its server IDs and nonces in octets, 19 together at most, and an AES-128
    /// key.
    ///
    /// Without a key anyone can read the server ID, so that a client that changes its address can be followed; use it only for the
    /// first connection ID of a connection (draft §9). Nonces that are at least as long as server IDs save the load balancer a
    /// quarter of its work. Both together of exactly 16 octets need the least of it, and encrypt best (draft §9.7).
    ///
    /// # Errors
    ///
    /// [`RoutingError::ConfigId`], [`ServerIdLength`](RoutingError::ServerIdLength), [`NonceLength`](RoutingError::NonceLength) and
    /// [`TooLong`](RoutingError::TooLong).
    pub fn new(
        id: u8,
        server_id_length: usize,
        nonce_length: usize,
        key: Option<&[u8; 16]>,
    ) -> Result<Self, RoutingError> {
        if id > Self::MAX_ID {
            return Err(RoutingError::ConfigId { got: id });
        }
        if !(1..=ServerId::MAX_LENGTH).contains(&server_id_length) {
            return Err(RoutingError::ServerIdLength { got: server_id_length });
        }
        if !(Self::MIN_NONCE_LENGTH..=Self::MAX_NONCE_LENGTH).contains(&nonce_length) {
            return Err(RoutingError::NonceLength { got: nonce_length });
        }
        let got = server_id_length + nonce_length;
        if got > MAX_PLAINTEXT_LENGTH {
            return Err(RoutingError::TooLong { expected: MAX_PLAINTEXT_LENGTH, got });
        }
        Ok(Self {
            id,
            server_id_length: server_id_length as u8,
            nonce_length: nonce_length as u8,
            encodes_length: false,
            cipher: key.map(|key| Aes128::new(key.into())),
        })
    }

    /// With connection IDs whose first octet encodes their length, for hardware that finds keys by connection ID (draft §3.3). All
    /// servers of the configuration must do so, because the load balancer then takes shorter ones for unroutable (draft §4.1).
    #[must_use]
    pub fn encoding_length(self) -> Self {
        Self { encodes_length: true, ..self }
    }

    /// The id, which is the first three bits of each connection ID (draft §3.1).
    #[must_use]
    pub const fn id(&self) -> u8 {
        self.id
    }

    /// The length of its connection IDs in octets: 6 to 20.
    #[must_use]
    pub const fn connection_id_length(&self) -> usize {
        1 + self.plaintext_length()
    }

    const fn plaintext_length(&self) -> usize {
        self.server_id_length as usize + self.nonce_length as usize
    }

    /// The server that a packet belongs to, by its destination connection ID; for a load balancer (draft §5.5).
    ///
    /// The connection ID may be longer than those of the configuration, and the rest is ignored: servers may append octets of their
    /// own, and a short header does not say where its connection ID ends, so pass all that follows its first octet.
    ///
    /// `None` if the connection ID is of another configuration or too short, and therefore unroutable (draft §4.1). It is unroutable,
    /// too, if there is no server of that ID: the client has then chosen the connection ID.
    #[must_use]
    pub fn server_id(&self, connection_id: &[u8]) -> Option<ServerId> {
        let (first, rest) = connection_id.split_first()?;
        let length = self.plaintext_length();
        let is_encoded_too_short = self.encodes_length && usize::from(first & LENGTH_BITS) < length;
        if first >> 5 != self.id || is_encoded_too_short {
            return None;
        }
        let mut plaintext = [0; MAX_PLAINTEXT_LENGTH];
        let plaintext = &mut plaintext[..length];
        plaintext.copy_from_slice(rest.get(..length)?);
        self.decrypt_server_id(plaintext);
        ServerId::new(&plaintext[..usize::from(self.server_id_length)]).ok()
    }

    /// Encrypts server ID and nonce (draft §5.4).
    fn encrypt(&self, plaintext: &mut [u8]) {
        let Some(cipher) = &self.cipher else { return };
        if let Some(block) = as_block(plaintext) {
            cipher.encrypt_block(block);
        } else {
            four_pass(cipher, plaintext, &[1, 2, 3, 4]);
        }
    }

    /// Decrypts the server ID, and as much of the nonce as comes with it (draft §5.5).
    fn decrypt_server_id(&self, ciphertext: &mut [u8]) {
        let Some(cipher) = &self.cipher else { return };
        if let Some(block) = as_block(ciphertext) {
            cipher.decrypt_block(block);
        } else if self.server_id_length <= self.nonce_length {
            // The server ID is all in the left half.
            four_pass(cipher, ciphertext, &[4, 3, 2]);
        } else {
            four_pass(cipher, ciphertext, &[4, 3, 2, 1]);
        }
    }
}

impl fmt::Debug for RoutingConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutingConfig")
            .field("id", &self.id)
            .field("server_id_length", &self.server_id_length)
            .field("nonce_length", &self.nonce_length)
            .field("encodes_length", &self.encodes_length)
            .field("is_encrypted", &self.cipher.is_some())
            .finish_non_exhaustive()
    }
}

fn as_block(octets: &mut [u8]) -> Option<&mut Block> {
    <&mut [u8; BLOCK_LENGTH]>::try_from(octets).ok().map(Into::into)
}

/// A Feistel network over the two halves of `octets`, which share the middle octet if their number is odd: its first four bits are
/// the left half's, the others the right one's (draft §5.4.2.3). A pass undoes itself, so that the same passes backwards decrypt.
fn four_pass(cipher: &Aes128, octets: &mut [u8], passes: &[u8]) {
    let length = octets.len();
    let half = length.div_ceil(2);
    let is_odd = length % 2 == 1;
    let (mut left, mut right) = ([0; MAX_HALF_LENGTH], [0; MAX_HALF_LENGTH]);
    let (left, right) = (&mut left[..half], &mut right[..half]);
    left.copy_from_slice(&octets[..half]);
    right.copy_from_slice(&octets[length - half..]);
    let clear = |left: &mut [u8], right: &mut [u8]| {
        if is_odd {
            left[half - 1] &= 0xf0;
            right[0] &= 0x0f;
        }
    };
    clear(left, right);
    for pass in passes {
        let (from, to) = if pass % 2 == 1 { (&*left, &mut *right) } else { (&*right, &mut *left) };
        let mut block = Block::default();
        block[..half].copy_from_slice(from);
        block[BLOCK_LENGTH - 2] = length as u8;
        block[BLOCK_LENGTH - 1] = *pass;
        cipher.encrypt_block(&mut block);
        to.iter_mut().zip(&block).for_each(|(octet, mask)| *octet ^= mask);
        clear(left, right);
    }
    octets[length - half..].copy_from_slice(right);
    if is_odd {
        left[half - 1] |= right[0];
    }
    octets[..half].copy_from_slice(left);
}

/// The connection IDs that a server gives to its clients under a [`RoutingConfig`] (draft §5.4). With a key, one value uses no nonce
/// twice. Two with the same server ID and key must not overlap: give them the same `first_nonce` and different
/// [numbers](Self::with_numbers).
///
/// When the configuration is replaced, generate no more under the old one, and retire its connection IDs (draft §3.1).
pub struct RoutableIds {
    config: RoutingConfig,
    server_id: ServerId,
    first_nonce: [u8; RoutingConfig::MAX_NONCE_LENGTH],
    /// The numbers of the nonces that are left.
    numbers: Range<u64>,
}

impl RoutableIds {
    /// Those of the server with this ID. The nonces count up from the first octets of `first_nonce`, which is random (draft §9.6);
    /// without a key it is not used.
    ///
    /// # Errors
    ///
    /// [`RoutingError::OtherServerIdLength`].
    pub fn new(
        config: RoutingConfig,
        server_id: ServerId,
        first_nonce: &[u8; RoutingConfig::MAX_NONCE_LENGTH],
    ) -> Result<Self, RoutingError> {
        let (expected, got) = (usize::from(config.server_id_length), server_id.len());
        if expected != got {
            return Err(RoutingError::OtherServerIdLength { expected, got });
        }
        let bits = 8 * u32::from(config.nonce_length);
        let numbers = 0..1_u64.checked_shl(bits).unwrap_or(u64::MAX);
        Ok(Self { config, server_id, first_nonce: *first_nonce, numbers })
    }

    /// The next connection ID.
    ///
    /// `random` is 19 random octets, new ones each time. They become what observers see and must not link to earlier connection IDs:
    /// five bits of the first octet if it does not encode the length (draft §3.3), and the nonce if there is no key (draft §5.4). Such a
    /// nonce can repeat: check that the connection ID is not in use.
    ///
    /// # Errors
    ///
    /// [`RoutingError::NoncesExhausted`].
    pub fn generate(
        &mut self,
        random: &[u8; RoutingConfig::MAX_NONCE_LENGTH + 1],
    ) -> Result<ConnectionId, RoutingError> {
        let config = &self.config;
        let length = config.connection_id_length();
        let low = if config.encodes_length { length as u8 - 1 } else { random[0] & LENGTH_BITS };
        let mut octets = [0; ConnectionId::MAX_LENGTH];
        let octets = &mut octets[..length];
        octets[0] = config.id << 5 | low;
        let (server_id, nonce) = octets[1..].split_at_mut(self.server_id.len());
        server_id.copy_from_slice(&self.server_id);
        if config.cipher.is_none() {
            nonce.copy_from_slice(&random[1..=nonce.len()]);
        } else {
            let number = self.numbers.next().ok_or(RoutingError::NoncesExhausted)?;
            nonce.copy_from_slice(&self.first_nonce[..nonce.len()]);
            add(nonce, number);
        }
        config.encrypt(&mut octets[1..]);
        Ok(ConnectionId::new(octets).expect("the configuration's lengths fit a connection ID"))
    }

    /// Only the nonces with these numbers, counted from `first_nonce`: for one of several processes, and for a server that restarts
    /// under the same key. The latter keeps on disk up to which number it may have used them, and writes the next bound before it gets
    /// there.
    #[must_use]
    pub fn with_numbers(mut self, numbers: Range<u64>) -> Self {
        self.numbers = numbers.start.max(self.numbers.start)..numbers.end.min(self.numbers.end);
        self
    }

    /// The numbers of the nonces that are left.
    #[must_use]
    pub fn numbers(&self) -> Range<u64> {
        self.numbers.clone()
    }

    /// How many more can be generated under this key: get a new configuration in time (draft §9.6). At most 2^64-1, even where nonces
    /// are longer; always that without a key.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        if self.config.cipher.is_none() {
            return u64::MAX;
        }
        self.numbers.end.saturating_sub(self.numbers.start)
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &RoutingConfig {
        &self.config
    }
}

impl fmt::Debug for RoutableIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutableIds").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Adds to a number in network order. What exceeds its length is lost: it goes on from zero.
fn add(number: &mut [u8], mut summand: u64) {
    for octet in number.iter_mut().rev() {
        let sum = (summand & 0xff) + u64::from(*octet);
        *octet = sum as u8;
        summand = (summand >> 8) + (sum >> 8);
    }
}

/// A connection ID that says that it names no server, for a server that has no configuration, or no nonce left (draft §3.2). It has as
/// many octets as `random`, all random but the first, which encodes the length.
///
/// Such a server gives each client only this one, and sends the transport parameter `disable_active_migration`.
///
/// # Errors
///
/// [`RoutingError::UnroutableLength`] below 8 and above 20 octets.
pub fn unroutable_id(random: &[u8]) -> Result<ConnectionId, RoutingError> {
    let got = random.len();
    if !(8..=ConnectionId::MAX_LENGTH).contains(&got) {
        return Err(RoutingError::UnroutableLength { got });
    }
    let mut octets = [0; ConnectionId::MAX_LENGTH];
    octets[..got].copy_from_slice(random);
    octets[0] = UNROUTABLE << 5 | (got as u8 - 1);
    Ok(ConnectionId::new(&octets[..got]).expect("20 octets at most"))
}
