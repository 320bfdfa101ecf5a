//! What one end of a connection protects its packets with.

use std::ops::Range;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Keys, OpenError, PacketType, Protected, ReceiveSpace,
    StatelessResetToken, TrafficSecret, Version,
};

use super::handshake::CryptoStream;
use super::key_log::Label;
use super::one_rtt::OneRttKeys;
use super::report::{Reason, Side};

/// Keys and packet numbers of one sender.
pub(super) struct End {
    /// Of Initial and of Handshake packets, each until its first message is known.
    pub(super) crypto: [Option<CryptoStream>; 2],
    pub(super) initial: ReceiveSpace,
    pub(super) handshake: ReceiveSpace,
    /// Of 0-RTT packets, which 1-RTT packets go on with.
    pub(super) early: ReceiveSpace,
    /// Keys have tables of kilobytes: in boxes, so that connections without them take little.
    pub(super) early_keys: Option<Box<Keys>>,
    pub(super) handshake_keys: Option<Box<Keys>>,
    pub(super) one_rtt_keys: Option<Box<OneRttKeys>>,
    /// By which its stateless resets are known.
    pub(super) reset_tokens: Vec<StatelessResetToken>,
}

impl End {
    pub(super) fn new() -> Self {
        Self {
            crypto: [Some(CryptoStream::default()), Some(CryptoStream::default())],
            // Duplicates are opened too, for the capture may have recorded a packet on two interfaces.
            initial: ReceiveSpace::without_window(),
            handshake: ReceiveSpace::without_window(),
            early: ReceiveSpace::without_window(),
            early_keys: None,
            handshake_keys: None,
            one_rtt_keys: None,
            reset_tokens: Vec::new(),
        }
    }
}

/// The label of the secret in the key log; none for Initial packets.
pub(super) const fn label(packet_type: PacketType, sender: Side) -> Option<Label> {
    match (packet_type, sender) {
        (PacketType::ZeroRtt, Side::Client) => Some(Label::ClientEarly),
        (PacketType::Handshake, Side::Client) => Some(Label::ClientHandshake),
        (PacketType::Handshake, Side::Server) => Some(Label::ServerHandshake),
        (PacketType::OneRtt, Side::Client) => Some(Label::ClientApplication),
        (PacketType::OneRtt, Side::Server) => Some(Label::ServerApplication),
        (PacketType::Initial, _) | (PacketType::ZeroRtt, Side::Server) => None,
    }
}

/// The keys that a secret of the log gives, if it is as long as the algorithm's are.
pub(super) fn keys(
    version: Version,
    packet_type: PacketType,
    algorithm: AeadAlgorithm,
    secret: &[u8],
) -> Option<Keys> {
    Some(Keys::new(version, packet_type, TrafficSecret::new(algorithm, secret).ok()?))
}

/// What was in a packet: the payload is where it says in the buffer that the packet was opened in.
pub(super) struct Opened {
    pub(super) number: u64,
    /// How many key updates lie before its keys.
    pub(super) generation: u64,
    pub(super) payload: Range<usize>,
}

/// Opens a packet with a long header in `scratch`.
pub(super) fn open_long(
    keys: &Keys,
    space: &mut ReceiveSpace,
    packet: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<Opened, Reason> {
    scratch.clear();
    scratch.extend_from_slice(packet);
    let (packet, _) = Protected::split_first(scratch, 0).map_err(|_| Reason::Malformed)?;
    // The integrity limit is for ends of a connection, which have to give up.
    match keys.open(packet, space, &mut AuthenticationFailures::new()) {
        Ok(opened) => {
            let start = opened.header.len();
            let payload = start..start + opened.payload.len();
            Ok(Opened { number: opened.number, generation: 0, payload })
        }
        Err(OpenError::Undecryptable) => Err(Reason::TooShort),
        Err(OpenError::ReservedBits) => Err(Reason::ReservedBits),
        Err(
            OpenError::AuthenticationFailed
            | OpenError::Duplicate
            | OpenError::KeyUpdate
            | OpenError::IntegrityLimit,
        ) => Err(Reason::Forged),
    }
}
