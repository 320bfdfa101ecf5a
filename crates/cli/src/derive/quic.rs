//! The protection of one QUIC packet, step by step (RFC 9001 §5, RFC 9369 §3.3), and the search for the one difference with which it opens.

use hkdf::Hkdf;
use sha2::{Sha256, Sha384};
use wireseal_quic::hazmat::{HeaderKey, MAX_PAYLOAD_LENGTH, PacketKey, PathId};
use wireseal_quic::{
    AeadAlgorithm, ConnectionId, HeaderError, MAX_PACKET_NUMBER, NumberLength, PacketType, Protected,
    Version, decode_packet_number,
};
use zeroize::Zeroizing;

use crate::hex::{self, Hex};
use crate::text::counted;

/// How far the sample is from the start of the packet number, and its length (RFC 9001 §5.4.2).
const SAMPLE_OFFSET: usize = 4;
const SAMPLE_LENGTH: usize = 16;
/// How many other windows of the packet number, and how many other paths, are tried.
const WINDOWS: u64 = 1 << 16;
const PATHS: u32 = 1 << 8;

/// Why nothing can be derived from a QUIC packet. Caller error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuicError {
    /// The header cannot be read, or the packet is not protected by keys.
    #[error("packet: {0}")]
    Header(HeaderError),
    /// The packet is too short for the header mask's sample.
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
    /// A version whose key schedule is unknown here.
    #[error("the key schedule of {0} is not known")]
    Version(Version),
}

/// An end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum End {
    /// The end that opened the connection.
    Client,
    /// The end that accepted it.
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
    /// The cipher suite; Initial packets have AES-128-GCM in any case.
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

impl Given {
    /// The suite that the packet is opened with.
    #[must_use]
    pub const fn suite(&self) -> AeadAlgorithm {
        match self.origin {
            Origin::Secret(_) => self.suite,
            Origin::Initial(..) => AeadAlgorithm::Aes128Gcm,
        }
    }
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

/// The length of a variable-length integer in octets (RFC 9000 §16).
fn varint_length(octets: &[u8]) -> usize {
    octets.first().map_or(0, |first| 1 << (first >> 6))
}

/// A derived value, with its name.
pub type Line = (&'static str, String);

/// HKDF-Expand-Label with an empty context (RFC 8446 §7.1), for a secret as long as the suite's hash. Adds the value and its HkdfLabel.
fn expand(
    lines: &mut Vec<Line>,
    name: &'static str,
    suite: AeadAlgorithm,
    (secret, label): (&[u8], String),
    length: usize,
) -> Zeroizing<Vec<u8>> {
    const HASH_LONG: &str = "the secret is as long as the hash, and no value is longer";
    let whole = format!("tls13 {label}");
    let info = [&(length as u16).to_be_bytes(), &[whole.len() as u8][..], whole.as_bytes(), &[0]].concat();
    let mut octets = Zeroizing::new(vec![0; length]);
    match suite {
        AeadAlgorithm::Aes256Gcm => {
            Hkdf::<Sha384>::from_prk(secret).expect(HASH_LONG).expand(&info, &mut octets)
        }
        _ => Hkdf::<Sha256>::from_prk(secret).expect(HASH_LONG).expand(&info, &mut octets),
    }
    .expect(HASH_LONG);
    lines.push((name, Hex(&octets).to_string()));
    lines.push(("", format!("HKDF-Expand-Label \"{label}\", HkdfLabel {}", Hex(&info))));
    octets
}

/// The keys of a packet, and how they were derived.
#[derive(Debug)]
pub struct Schedule {
    /// Every value on the way.
    pub lines: Vec<Line>,
    packet_key: PacketKey,
    iv: [u8; AeadAlgorithm::NONCE_LENGTH],
    header_key: HeaderKey,
}

impl Schedule {
    /// Derives the keys.
    ///
    /// # Errors
    /// [`QuicError::SecretLength`] and [`QuicError::Version`].
    pub fn new(given: &Given) -> Result<Self, QuicError> {
        let Given { version, updates, .. } = *given;
        let suite = given.suite();
        let (salt, prefix) = match version {
            Version::V1 => ("38762cf7f55934b34d179ae6a4c80cadccbb7f0a", "quic"),
            Version::V2 => ("0dede3def700a6db819381be6e269dcbf9bd2ed9", "quicv2"),
            version => return Err(QuicError::Version(version)),
        };
        let mut lines = Vec::new();
        let first = match &given.origin {
            Origin::Secret(secret) => secret.clone(),
            Origin::Initial(destination, end) => {
                let mut octets = [0; 20];
                hex::decode_into(salt.as_bytes(), &mut octets);
                let (initial, _) = Hkdf::<Sha256>::extract(Some(&octets), destination);
                lines.extend([("salt", salt.to_owned()), ("initial", Hex(&initial).to_string())]);
                let label = if *end == End::Client { "client in" } else { "server in" };
                expand(&mut lines, "secret", suite, (&initial, label.to_owned()), initial.len())
            }
        };
        let (expected, got) = (suite.secret_length(), first.len());
        if got != expected {
            return Err(QuicError::SecretLength { suite, expected, got });
        }
        let label = |name: &str| format!("{prefix} {name}");
        let last = (0..updates).fold(first.clone(), |secret, _| {
            let next = expand(&mut lines, "secret", suite, (&secret, label("ku")), expected);
            // All later keys follow from it.
            if let [.., (_, shown), _] = &mut lines[..] {
                *shown = format!("({expected} octets, not shown)");
            }
            next
        });
        let key = expand(&mut lines, "key", suite, (&last, label("key")), suite.key_length());
        let mut iv = [0; AeadAlgorithm::NONCE_LENGTH];
        iv.copy_from_slice(&expand(
            &mut lines,
            "IV",
            suite,
            (&last, label("iv")),
            AeadAlgorithm::NONCE_LENGTH,
        ));
        let length = suite.header_protection_key_length();
        let header_key = expand(&mut lines, "hp", suite, (&first, label("hp")), length);
        let expanded = "the key was expanded with its length";
        let packet_key = PacketKey::new(suite, &key, &iv).expect(expanded);
        Ok(Self { lines, packet_key, iv, header_key: HeaderKey::new(suite, &header_key).expect(expanded) })
    }
}

/// A packet without its header mask, and what the AEAD says of it.
#[derive(Debug)]
pub struct Steps {
    /// Every value on the way.
    pub lines: Vec<Line>,
    /// The frames, if the packet is authentic.
    pub payload: Option<Vec<u8>>,
    number: u64,
    number_length: NumberLength,
    /// The header without its mask.
    header: Vec<u8>,
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
        let mut header = octets[..offset + SAMPLE_OFFSET].to_vec();
        let (before, number) = header.split_at_mut(offset);
        keys.header_key.unprotect(&sample, &mut before[0], number);
        let lengths = [NumberLength::One, NumberLength::Two, NumberLength::Three, NumberLength::Four];
        let number_length = lengths[usize::from(header[0] & 0x03)];
        header.truncate(offset + number_length.octets());
        let truncated = header[offset..].iter().fold(0, |value, octet| value << 8 | u32::from(*octet));
        let number = decode_packet_number(given.largest, truncated, number_length);
        let path_and_number = u128::from(given.path) << 64 | u128::from(number);
        let mut nonce = keys.iv;
        nonce.iter_mut().zip(&path_and_number.to_be_bytes()[4..]).for_each(|(iv, octet)| *iv ^= octet);
        let sealed = octets[header.len()..].to_vec();
        // The sample reached past a whole tag behind four octets of packet number, so the tag is there.
        let (ciphertext, tag) = sealed.split_at(sealed.len() - AeadAlgorithm::TAG_LENGTH);
        // These AEADs encrypt by XOR with a key stream. Sealing zeros shows the stream, and sealing what it decrypts shows the tag.
        let (path, mut opened) = (PathId(given.path), vec![0; ciphertext.len()]);
        let computed = keys.packet_key.seal(path, number, &header, &mut opened).and_then(|_| {
            opened.iter_mut().zip(ciphertext).for_each(|(stream, octet)| *stream ^= octet);
            keys.packet_key.seal(path, number, &header, &mut opened)
        });
        let payload = open(&keys.packet_key, path, number, &header, &sealed);
        let after = given.largest.map_or("with none before".to_owned(), |largest| format!("after {largest}"));
        let on_path = if given.path > 0 { format!(", of path {}", given.path) } else { String::new() };
        let is_equal = if payload.is_some() { "equal" } else { "DIFFERENT" };
        let lines = vec![
            ("sample", format!("{}, from octet {}", Hex(&sample), offset + SAMPLE_OFFSET)),
            ("mask", Hex(&keys.header_key.mask(&sample)).to_string()),
            ("first octet", format!("{:02x}, without the mask {}", octets[0], first_octet(header[0]))),
            (
                "number",
                format!(
                    "{}, without the mask {}: packet {number}, {after}",
                    Hex(&octets[offset..header.len()]),
                    Hex(&header[offset..])
                ),
            ),
            ("nonce", format!("{}{on_path}", Hex(&nonce))),
            ("AAD", Hex(&header).to_string()),
            ("tag", Hex(&computed.unwrap_or_default()).to_string()),
            ("in packet", format!("{} {is_equal}", Hex(tag))),
        ];
        Self { lines, payload, number, number_length, header, sealed }
    }
}

fn open(key: &PacketKey, path: PathId, number: u64, header: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    key.open(path, number, header, &mut sealed.to_vec()).map(|payload| payload.to_vec())
}

/// A first octet without its mask, and what its low bits say (RFC 9000 §17.2 and §17.3.1).
fn first_octet(first: u8) -> String {
    let length = counted(u64::from(first & 0x03) + 1, "octet");
    match first & 0x80 {
        0 => format!(
            "{first:02x}: reserved bits {:02b}, key phase {}, packet number of {length}",
            first >> 3 & 3,
            first >> 2 & 1
        ),
        _ => format!("{first:02x}: reserved bits {:02b}, packet number of {length}", first >> 2 & 3),
    }
}

/// Looks for the one difference with which a packet opens. Returns it, or everything that was tried.
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
    let steps = Steps::new(packet, given, &keys);
    let opens = |path: u32, number: u64| {
        open(&keys.packet_key, PathId(path), number, &steps.header, &steps.sealed).is_some()
    };
    let window = 1 << (8 * steps.number_length.octets());
    let numbers =
        (0..WINDOWS).filter_map(|turn| (steps.number % window).checked_add(window.checked_mul(turn)?));
    let mut numbers = numbers.filter(|number| *number <= MAX_PACKET_NUMBER);
    if let Some(number) = numbers.find(|number| opens(given.path, *number)) {
        let largest = number.saturating_sub(1);
        return Ok(Ok(format!("it opens as packet {number}: give --largest, such as {largest}")));
    }
    tried.push(format!("{WINDOWS} packet numbers that end in these octets"));
    if packet.packet_type == PacketType::OneRtt {
        if let Some(path) = (0..PATHS).find(|path| opens(*path, steps.number)) {
            return Ok(Ok(format!("it opens on path {path} (--path {path})")));
        }
        tried.push(format!("paths 0 to {}", PATHS - 1));
    }
    Ok(Err(tried))
}

/// What may differ: its name, the finding if it does, and the input with that difference.
fn differences(packet: &QuicPacket, given: &Given) -> Vec<(String, String, Given)> {
    let mut all = Vec::new();
    if packet.packet_type == PacketType::OneRtt {
        for (which, updates) in
            [("next", given.updates.checked_add(1)), ("previous", given.updates.checked_sub(1))]
        {
            let Some(updates) = updates else { continue };
            let found = format!("it opens with the secret of the {which} key phase (--updates {updates})");
            all.push((format!("the {which} key phase"), found, Given { updates, ..given.clone() }));
        }
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
