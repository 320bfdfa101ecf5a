//! The key schedule, written again from RFC 9001 and RFC 9369 with HKDF only: what the keys of any generation must be, and packets that
//! only a peer that breaks the rules would send.

use hkdf::Hkdf;
use sha2::{Sha256, Sha384};
use wireseal_quic::hazmat::{HeaderKey, PacketKey, PathId};
use wireseal_quic::{AeadAlgorithm, Backend, ConnectionId, NumberLength, Version};

use super::{Draft, Side, Suite, TAG};

/// HKDF-Expand-Label with an empty context (RFC 8446 §7.1).
pub(crate) fn expand_label(secret: &[u8], label: &str, length: usize) -> Vec<u8> {
    let label = format!("tls13 {label}");
    let mut info = u16::try_from(length).unwrap().to_be_bytes().to_vec();
    info.push(label.len().try_into().unwrap());
    info.extend_from_slice(label.as_bytes());
    info.push(0);
    let mut out = vec![0; length];
    match secret.len() {
        32 => Hkdf::<Sha256>::from_prk(secret).unwrap().expand(&info, &mut out).unwrap(),
        48 => Hkdf::<Sha384>::from_prk(secret).unwrap().expand(&info, &mut out).unwrap(),
        other => panic!("no hash of {other} octets"),
    }
    out
}

/// The label of a version: "quic key", "quicv2 key" and so on (RFC 9001 §5.1 and §6.1; RFC 9369 §3.3.2).
pub(crate) fn label(version: Version, purpose: &str) -> String {
    let prefix = if version == Version::V2 { "quicv2" } else { "quic" };
    format!("{prefix} {purpose}")
}

/// The Initial secret of one direction (RFC 9001 §5.2; RFC 9369 §3.3.1; draft-ietf-quic-tls-29 §5.2).
pub(crate) fn initial_secret(version: Version, destination: &ConnectionId, sender: Side) -> Vec<u8> {
    let salt = match version.to_wire() {
        0x0000_0001 => hex_literal::hex!("38762cf7f55934b34d179ae6a4c80cadccbb7f0a"),
        0x6b33_43cf => hex_literal::hex!("0dede3def700a6db819381be6e269dcbf9bd2ed9"),
        0xff00_001d => hex_literal::hex!("afbfec289993d24c9e9786f19c6111e04390a899"),
        other => panic!("no salt for {other:08x}"),
    };
    let (secret, _) = Hkdf::<Sha256>::extract(Some(&salt), destination);
    expand_label(&secret, if sender == Side::Client { "client in" } else { "server in" }, 32)
}

/// The keys of what one end sends.
#[derive(Debug)]
pub(crate) struct Schedule {
    backend: Backend,
    version: Version,
    algorithm: AeadAlgorithm,
    secrets: Vec<Vec<u8>>,
}

impl Schedule {
    pub(crate) fn new(suite: Suite, sender: Side) -> Self {
        Self::with_secrets(suite, vec![suite.secret_octets(sender)])
    }

    /// With these secrets for the first generations.
    pub(crate) fn with_secrets(suite: Suite, secrets: Vec<Vec<u8>>) -> Self {
        let Suite { backend, version, algorithm } = suite;
        Self { backend, version, algorithm, secrets }
    }

    /// The secret after `generation` key updates (RFC 9001 §6.1).
    fn secret(&mut self, generation: u64) -> &[u8] {
        let generation = usize::try_from(generation).unwrap();
        while self.secrets.len() <= generation {
            let last = &self.secrets[self.secrets.len() - 1];
            let next = expand_label(last, &label(self.version, "ku"), last.len());
            self.secrets.push(next);
        }
        &self.secrets[generation]
    }

    pub(crate) fn packet_key(&mut self, generation: u64) -> PacketKey {
        let (backend, version, algorithm) = (self.backend, self.version, self.algorithm);
        let secret = self.secret(generation);
        let key = expand_label(secret, &label(version, "key"), algorithm.key_length());
        let iv = expand_label(secret, &label(version, "iv"), 12);
        PacketKey::with_backend(backend, algorithm, &key, &iv.try_into().unwrap()).unwrap()
    }

    /// The key from the first secret, for every generation (RFC 9001 §6.1).
    pub(crate) fn header_key(&self) -> HeaderKey {
        let length = self.algorithm.header_protection_key_length();
        let key = expand_label(&self.secrets[0], &label(self.version, "hp"), length);
        HeaderKey::with_backend(self.backend, self.algorithm, &key).unwrap()
    }

    /// A packet with a short header under the keys of `generation`. `bits` are the low five bits of its first octet, except for the length
    /// of the number.
    pub(crate) fn seal(&mut self, generation: u64, bits: u8, number: u64, payload: &[u8]) -> Vec<u8> {
        self.seal_draft(generation, bits, number, Draft::short(NumberLength::Four, payload))
    }

    /// The same for any draft; with a long header, other bits of the first octet are the low ones.
    pub(crate) fn seal_draft(&mut self, generation: u64, bits: u8, number: u64, draft: Draft) -> Vec<u8> {
        seal_as_given(&self.packet_key(generation), &self.header_key(), draft, bits, number)
    }

    /// Opens a packet with a short header whose number has four octets, under the keys of `generation`.
    pub(crate) fn open(&mut self, generation: u64, packet: &[u8]) -> Option<(u64, Vec<u8>)> {
        let mut packet = packet.to_vec();
        let number_offset = Draft::short(NumberLength::Four, &[]).number_offset;
        let sample = packet[number_offset + 4..].first_chunk().copied()?;
        let (before, number) = packet.split_at_mut(number_offset);
        self.header_key().unprotect(&sample, &mut before[0], number);
        assert_eq!(before[0] & 0x03, 3);
        let (header, body) = packet.split_at_mut(number_offset + 4);
        let number = u64::from(u32::from_be_bytes(*header.last_chunk()?));
        let payload = self.packet_key(generation).open(PathId(0), number, header, body)?;
        Some((number, payload.to_vec()))
    }
}

/// Key phase bit of a short header.
pub(crate) const PHASE: u8 = 0x04;

/// Seals with the given low bits of the first octet, reserved bits and key phase included.
pub(crate) fn seal_as_given(
    packet_key: &PacketKey,
    header_key: &HeaderKey,
    draft: Draft,
    bits: u8,
    number: u64,
) -> Vec<u8> {
    let (payload_offset, number_octets) = (draft.payload_offset(), draft.number_length.octets());
    let Draft { octets: mut packet, number_offset, .. } = draft;
    packet[0] |= bits | (number_octets as u8 - 1);
    packet[number_offset..payload_offset].copy_from_slice(&number.to_be_bytes()[8 - number_octets..]);
    let (header, body) = packet.split_at_mut(payload_offset);
    let (payload, tag) = body.split_at_mut(body.len() - TAG);
    tag.copy_from_slice(&packet_key.seal(PathId(0), number, header, payload).unwrap());
    let sample = packet[number_offset + 4..].first_chunk().copied().unwrap();
    let (before, number) = packet.split_at_mut(number_offset);
    header_key.protect(&sample, &mut before[0], number);
    packet
}
