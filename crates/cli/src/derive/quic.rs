//! The protection of one QUIC packet, step by step (RFC 9001 §5, RFC 9369 §3.3), and which near miss explains that it does not open.

use hkdf::Hkdf;
use sha2::{Sha256, Sha384};
use wireseal_quic::hazmat::{HeaderKey, MAX_PAYLOAD_LENGTH, PacketKey, PathId};
use wireseal_quic::{
    AeadAlgorithm, ConnectionId, HeaderError, MAX_PACKET_NUMBER, NumberLength, PacketType, Protected,
    Version, decode_packet_number,
};
use zeroize::Zeroizing;

/// How far the sample is behind the start of the packet number, and its length (RFC 9001 §5.4.2).
const SAMPLE_OFFSET: usize = 4;
const SAMPLE_LENGTH: usize = 16;
/// How many other windows of the packet number, and how many other paths, are tried.
const WINDOWS: u64 = 1 << 16;
const PATHS: u32 = 1 << 8;

/// Why nothing can be derived of a QUIC packet. Caller error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuicError {
    /// The header cannot be read, or the packet is not protected by keys.
    #[error("packet: {0}")]
    Header(HeaderError),
    /// There are no octets for the header mask's sample.
    #[error("packet: {got} octets, but the sample of the header mask ends after {expected}")]
    NoSample {
        /// Where the sample ends.
        expected: usize,
        /// The octets of the packet.
        got: usize,
    },
    /// It is longer than the payload of a UDP datagram can be.
    #[error("packet: {0} octets, more than a UDP datagram carries")]
    TooLong(usize),
    /// The secret does not have the length of the suite's hash.
    #[error("secret: {got} octets; {} takes one of {expected}", .suite.name())]
    SecretLength {
        /// The suite.
        suite: AeadAlgorithm,
        /// The octets of its hash.
        expected: usize,
        /// The octets of the secret.
        got: usize,
    },
    /// A connection ID was given for a packet whose keys come from TLS.
    #[error("--dcid: only Initial packets have keys from a connection ID; give the secret with --secret")]
    NotInitial,
    /// A version whose key schedule is not known here.
    #[error("the key schedule of {0} is not known")]
    Version(Version),
}

/// An end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum End {
    /// The end that sent the first packet.
    Client,
    /// The other one.
    Server,
}

/// Where a packet's keys come from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// The sender's traffic secret.
    Secret(Zeroizing<Vec<u8>>),
    /// The Destination Connection ID of the client's first Initial packet, and who sent this one.
    Initial(ConnectionId, End),
}

/// What is known of a packet besides its octets.
#[derive(Clone, Debug)]
pub struct Given {
    /// The version whose labels and salt are used.
    pub version: Version,
    /// The cipher suite.
    pub suite: AeadAlgorithm,
    /// Where the keys come from.
    pub origin: Origin,
    /// How many key updates came before the packet. Header protection keeps the first key (RFC 9001 §6.1).
    pub updates: u32,
    /// The largest packet number that was received before.
    pub largest: Option<u64>,
    /// The path (draft-ietf-quic-multipath).
    pub path: u32,
}

/// A packet that is protected by keys, the first of its datagram.
#[derive(Clone, Debug)]
pub struct QuicPacket {
    /// Its type.
    pub packet_type: PacketType,
    /// The version in a long header.
    pub version: Option<Version>,
    /// The Destination Connection ID.
    pub destination: Vec<u8>,
    /// The octets.
    pub octets: Vec<u8>,
    /// Where its packet number starts.
    pub number_offset: usize,
    /// How many octets of the datagram follow.
    pub following: usize,
}

impl QuicPacket {
    /// Reads the first packet of a datagram. A short header's connection ID has `connection_id_length` octets.
    ///
    /// # Errors
    /// [`QuicError::Header`], [`QuicError::NoSample`] and [`QuicError::TooLong`].
    pub fn read(datagram: &[u8], connection_id_length: usize) -> Result<Self, QuicError> {
        if datagram.len() > MAX_PAYLOAD_LENGTH {
            return Err(QuicError::TooLong(datagram.len()));
        }
        let mut octets = datagram.to_vec();
        let (packet, rest) =
            Protected::split_first(&mut octets, connection_id_length).map_err(QuicError::Header)?;
        let (destination, following) = (packet.destination().to_vec(), rest.len());
        let (packet_type, version) = (packet.packet_type(), packet.version());
        let behind_ids = 7 + destination.len() + packet.source().len();
        let number_offset = match packet_type {
            PacketType::OneRtt => 1 + destination.len(),
            PacketType::Initial => {
                let length = varint_length(&datagram[behind_ids..]) + packet.token().len();
                behind_ids + length + varint_length(&datagram[behind_ids + length..])
            }
            PacketType::ZeroRtt | PacketType::Handshake => {
                behind_ids + varint_length(&datagram[behind_ids..])
            }
        };
        octets.truncate(datagram.len() - following);
        let (expected, got) = (number_offset + SAMPLE_OFFSET + SAMPLE_LENGTH, octets.len());
        if got < expected {
            return Err(QuicError::NoSample { expected, got });
        }
        Ok(Self { packet_type, version, destination, octets, number_offset, following })
    }
}

/// The octets of a variable-length integer (RFC 9000 §16).
fn varint_length(octets: &[u8]) -> usize {
    octets.first().map_or(0, |first| 1 << (first >> 6))
}

/// A value, and the HkdfLabel that it is expanded with from a secret (RFC 8446 §7.1).
#[derive(Clone, Debug)]
pub struct Expanded {
    /// The label, without "tls13 ".
    pub label: String,
    /// The whole HkdfLabel.
    pub info: Vec<u8>,
    /// The value.
    pub octets: Zeroizing<Vec<u8>>,
}

/// HKDF-Expand-Label with an empty context. The secret has the length of the suite's hash.
fn expand(suite: AeadAlgorithm, secret: &[u8], label: String, length: usize) -> Expanded {
    const HASH_LONG: &str = "the secret is as long as the hash, and no value is longer";
    let name = format!("tls13 {label}");
    let info = [&(length as u16).to_be_bytes(), &[name.len() as u8][..], name.as_bytes(), &[0]].concat();
    let mut octets = Zeroizing::new(vec![0; length]);
    match suite {
        AeadAlgorithm::Aes256Gcm => {
            Hkdf::<Sha384>::from_prk(secret).expect(HASH_LONG).expand(&info, &mut octets)
        }
        _ => Hkdf::<Sha256>::from_prk(secret).expect(HASH_LONG).expand(&info, &mut octets),
    }
    .expect(HASH_LONG);
    Expanded { label, info, octets }
}

/// The keys of a packet, and how they come from what was given.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Of Initial packets: the salt, and the initial secret extracted with it.
    pub initial: Option<([u8; 20], Vec<u8>)>,
    /// The secrets that were expanded: the sender's of Initial packets, or one for each key update.
    pub secrets: Vec<Expanded>,
    /// The AEAD key.
    pub key: Expanded,
    /// The IV.
    pub iv: Expanded,
    /// The header protection key.
    pub header_key: Expanded,
}

impl Schedule {
    /// Derives the keys.
    ///
    /// # Errors
    /// [`QuicError::SecretLength`] and [`QuicError::Version`].
    pub fn new(given: &Given) -> Result<Self, QuicError> {
        let Given { version, suite, updates, .. } = *given;
        let (salt, prefix) = match version {
            Version::V1 => ("38762cf7f55934b34d179ae6a4c80cadccbb7f0a", "quic"),
            Version::V2 => ("0dede3def700a6db819381be6e269dcbf9bd2ed9", "quicv2"),
            version => return Err(QuicError::Version(version)),
        };
        let (mut initial, mut secrets) = (None, Vec::new());
        let first = match &given.origin {
            Origin::Secret(secret) => secret.clone(),
            Origin::Initial(destination, end) => {
                let mut octets = [0; 20];
                crate::hex::decode_into(salt.as_bytes(), &mut octets);
                let (extracted, _) = Hkdf::<Sha256>::extract(Some(&octets), destination);
                let label = if *end == End::Client { "client in" } else { "server in" };
                let secret = expand(suite, &extracted, label.to_owned(), extracted.len());
                initial = Some((octets, extracted.to_vec()));
                secrets.push(secret.clone());
                secret.octets
            }
        };
        let (expected, got) = (suite.secret_length(), first.len());
        if got != expected {
            return Err(QuicError::SecretLength { suite, expected, got });
        }
        let label = |name: &str| format!("{prefix} {name}");
        let header_key = expand(suite, &first, label("hp"), suite.header_protection_key_length());
        let mut last = first;
        for _ in 0..updates {
            let next = expand(suite, &last, label("ku"), expected);
            last = next.octets.clone();
            secrets.push(next);
        }
        let key = expand(suite, &last, label("key"), suite.key_length());
        let iv = expand(suite, &last, label("iv"), AeadAlgorithm::NONCE_LENGTH);
        Ok(Self { initial, secrets, key, iv, header_key })
    }

    fn packet_key(&self, suite: AeadAlgorithm) -> PacketKey {
        let mut iv = [0; AeadAlgorithm::NONCE_LENGTH];
        iv.copy_from_slice(&self.iv.octets);
        PacketKey::new(suite, &self.key.octets, &iv).expect("the key was expanded with its length")
    }
}

/// A packet without its header mask, and what the AEAD says of it.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The sample, and the mask made of it.
    pub sample: [u8; SAMPLE_LENGTH],
    /// See [`sample`](Self::sample).
    pub mask: [u8; 5],
    /// The first octet without the mask.
    pub first: u8,
    /// The packet number as it was sent, without the mask.
    pub truncated: Vec<u8>,
    /// The whole packet number.
    pub number: u64,
    /// The nonce: the IV xor path and packet number.
    pub nonce: [u8; AeadAlgorithm::NONCE_LENGTH],
    /// The associated data: the header without its mask.
    pub header: Vec<u8>,
    /// The tag as it was sent.
    pub tag: [u8; AeadAlgorithm::TAG_LENGTH],
    /// The tag of the ciphertext under these keys.
    pub computed: [u8; AeadAlgorithm::TAG_LENGTH],
    /// The frames, if the packet is authentic.
    pub payload: Option<Vec<u8>>,
    /// The ciphertext and the tag.
    sealed: Vec<u8>,
}

impl Steps {
    /// Removes the mask and opens the packet.
    #[must_use]
    pub fn new(packet: &QuicPacket, given: &Given, keys: &Schedule) -> Self {
        let (octets, offset) = (&packet.octets, packet.number_offset);
        let mut sample = [0; SAMPLE_LENGTH];
        sample.copy_from_slice(&octets[offset + SAMPLE_OFFSET..][..SAMPLE_LENGTH]);
        let header_key = HeaderKey::new(given.suite, &keys.header_key.octets);
        let header_key = header_key.expect("the key was expanded with its length");
        let mut header = octets[..offset + SAMPLE_OFFSET].to_vec();
        let (before, number) = header.split_at_mut(offset);
        header_key.unprotect(&sample, &mut before[0], number);
        let first = header[0];
        let lengths = [NumberLength::One, NumberLength::Two, NumberLength::Three, NumberLength::Four];
        let length = lengths[usize::from(first & 0x03)];
        header.truncate(offset + length.octets());
        let truncated = header[offset..].to_vec();
        let value = truncated.iter().fold(0, |value, octet| value << 8 | u32::from(*octet));
        let number = decode_packet_number(given.largest, value, length);
        let mut nonce = [0; AeadAlgorithm::NONCE_LENGTH];
        let path_and_number = [&given.path.to_be_bytes()[..], &number.to_be_bytes()].concat();
        for (place, (iv, other)) in nonce.iter_mut().zip(keys.iv.octets.iter().zip(path_and_number)) {
            *place = iv ^ other;
        }
        // The sample has reached over a whole tag behind four octets of packet number.
        let sealed = octets[header.len()..].to_vec();
        let (ciphertext, tag) = sealed.split_last_chunk().map_or((&[][..], [0; 16]), |(a, b)| (a, *b));
        let (key, path) = (keys.packet_key(given.suite), PathId(given.path));
        // These AEADs encrypt by xor with a key stream, which sealing zeros shows; sealing what the ciphertext would then be gives its tag.
        let mut opened = vec![0; ciphertext.len()];
        let computed = key.seal(path, number, &header, &mut opened).and_then(|_| {
            opened.iter_mut().zip(ciphertext).for_each(|(stream, octet)| *stream ^= octet);
            key.seal(path, number, &header, &mut opened.clone())
        });
        let computed = computed.unwrap_or_default();
        let mut steps = Self {
            mask: header_key.mask(&sample),
            sample,
            first,
            truncated,
            number,
            nonce,
            header,
            tag,
            computed,
            payload: None,
            sealed,
        };
        steps.payload = steps.open(&key, path, number);
        steps
    }

    fn open(&self, key: &PacketKey, path: PathId, number: u64) -> Option<Vec<u8>> {
        key.open(path, number, &self.header, &mut self.sealed.clone()).map(|payload| payload.to_vec())
    }
}

/// Looks for a difference with which a packet opens that does not open as given: what it is, or else everything that was tried.
///
/// # Errors
/// Those of [`Schedule::new`].
pub fn near_miss(packet: &QuicPacket, given: &Given) -> Result<Result<String, Vec<String>>, QuicError> {
    let mut tried = Vec::new();
    for (what, found, other) in differences(packet, given) {
        if Steps::new(packet, &other, &Schedule::new(&other)?).payload.is_some() {
            return Ok(Ok(found));
        }
        tried.push(what);
    }
    let keys = Schedule::new(given)?;
    let (steps, key) = (Steps::new(packet, given, &keys), keys.packet_key(given.suite));
    let window = 1 << (8 * steps.truncated.len());
    let numbers =
        (0..WINDOWS).filter_map(|turn| (steps.number % window).checked_add(window.checked_mul(turn)?));
    let mut numbers = numbers.filter(|number| *number <= MAX_PACKET_NUMBER);
    if let Some(number) = numbers.find(|number| steps.open(&key, PathId(given.path), *number).is_some()) {
        let largest = number.saturating_sub(1);
        return Ok(Ok(format!("it opens as packet {number}: give --largest, such as {largest}")));
    }
    tried.push(format!("{WINDOWS} packet numbers that end in these octets"));
    if packet.packet_type == PacketType::OneRtt {
        if let Some(path) = (0..PATHS).find(|path| steps.open(&key, PathId(*path), steps.number).is_some()) {
            return Ok(Ok(format!("it opens on path {path} (--path {path})")));
        }
        tried.push(format!("paths 0 to {}", PATHS - 1));
    }
    Ok(Err(tried))
}

/// What may differ: in words, as a finding, and what would have to be given.
fn differences(packet: &QuicPacket, given: &Given) -> Vec<(String, String, Given)> {
    let mut all = Vec::new();
    if packet.packet_type == PacketType::OneRtt {
        let updates = given.updates.saturating_add(1);
        let found = format!("it opens with the secret of the next key phase (--updates {updates})");
        all.push(("the next key phase".to_owned(), found, Given { updates, ..given.clone() }));
    }
    if let Origin::Initial(destination, end) = given.origin {
        let (other, name) =
            if end == End::Client { (End::Server, "server") } else { (End::Client, "client") };
        let found = format!("it opens with the {name}'s keys (--sender {name})");
        let origin = Origin::Initial(destination, other);
        all.push((format!("the {name}'s keys"), found, Given { origin, ..given.clone() }));
    }
    for version in [Version::V1, Version::V2].into_iter().filter(|version| *version != given.version) {
        let found = format!("it opens with the labels of {version}");
        let found = match packet.version {
            Some(own) => format!("{found}, but its header says {own}"),
            None => format!("{found} (--version {})", if version == Version::V1 { 1 } else { 2 }),
        };
        all.push((format!("the labels of {version}"), found, Given { version, ..given.clone() }));
    }
    let is_initial = matches!(given.origin, Origin::Initial(..));
    let others = AeadAlgorithm::ALL.into_iter().filter(|suite| {
        !is_initial && *suite != given.suite && suite.secret_length() == given.suite.secret_length()
    });
    for suite in others {
        let name = suite.name();
        let found = format!("it opens under {name} (--suite {name})");
        all.push((name.to_owned(), found, Given { suite, ..given.clone() }));
    }
    all
}
