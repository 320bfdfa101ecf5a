//! The keys of one level, in the shape in which quinn and noq use them: packet and header keys of both directions, apart.

use std::sync::Arc;

use bytes::BytesMut;
use wireseal_quic::hazmat::{self, PathId};
use wireseal_quic::{AeadAlgorithm, ConnectionId, InitialKeys, Keys, Version};

/// How far behind the start of the packet number the sample starts (RFC 9001 §5.4.2).
const SAMPLE_OFFSET: usize = 4;

/// The octets of a sample.
pub(crate) const SAMPLE_LENGTH: usize = 16;

/// Protects payloads; and headers, too, if it has their key. The stacks mask each header right after they have sealed the payload, so
/// this key does both in one pass, and its [`HeaderKey`] nothing.
pub(crate) struct PacketKey {
    key: hazmat::PacketKey,
    mask: Option<Arc<hazmat::HeaderKey>>,
}

impl PacketKey {
    pub(crate) const fn new(key: hazmat::PacketKey, mask: Option<Arc<hazmat::HeaderKey>>) -> Self {
        Self { key, mask }
    }

    /// Seals a packet that has room for its tag.
    #[inline]
    pub(crate) fn seal(&self, path: PathId, number: u64, packet: &mut [u8], header_length: usize) {
        // With numbers of up to three octets, room for a sample takes an octet of payload. Longer ones are in short headers alone, behind
        // which the stacks always put one.
        const FITS: &str =
            "the stack leaves room for a tag and a sample, and sends no packet without a payload";
        if let Some(mask) = &self.mask {
            return self.key.seal_packet(mask, path, number, packet, header_length).expect(FITS);
        }
        let (header, body) = packet.split_at_mut(header_length);
        let (payload, tag) = body.split_last_chunk_mut().expect(FITS);
        *tag = self.key.seal(path, number, header, payload).expect(FITS);
    }

    /// Opens a packet and removes its tag. `false` if it is not authentic; the payload is then zeros.
    #[inline]
    #[must_use]
    pub(crate) fn open(&self, path: PathId, number: u64, header: &[u8], body: &mut BytesMut) -> bool {
        let Some(payload) = self.key.open(path, number, header, body) else { return false };
        let length = payload.len();
        body.truncate(length);
        true
    }

    pub(crate) const fn algorithm(&self) -> AeadAlgorithm {
        self.key.algorithm()
    }
}

/// Masks headers, unless the packet key beside it does, and removes masks.
pub(crate) struct HeaderKey {
    key: Arc<hazmat::HeaderKey>,
    is_left_to_packet_key: bool,
}

impl HeaderKey {
    #[inline]
    pub(crate) fn mask(&self, number_offset: usize, packet: &mut [u8]) {
        if !self.is_left_to_packet_key {
            self.apply(number_offset, packet, hazmat::HeaderKey::protect);
        }
    }

    #[inline]
    pub(crate) fn unmask(&self, number_offset: usize, packet: &mut [u8]) {
        self.apply(number_offset, packet, hazmat::HeaderKey::unprotect);
    }

    #[inline]
    fn apply(
        &self,
        number_offset: usize,
        packet: &mut [u8],
        change: impl Fn(&hazmat::HeaderKey, &[u8; SAMPLE_LENGTH], &mut u8, &mut [u8]),
    ) {
        let (covered, sampled) = packet.split_at_mut(number_offset + SAMPLE_OFFSET);
        let sample = sampled.first_chunk().expect("the stack has seen to it that there is a sample");
        let (before, number) = covered.split_at_mut(number_offset);
        change(&self.key, sample, &mut before[0], number);
    }
}

/// The keys of one direction of one level.
pub(crate) struct DirectionKeys {
    pub(crate) packet: PacketKey,
    pub(crate) header: HeaderKey,
}

impl DirectionKeys {
    /// For what this end sends.
    pub(crate) fn local(keys: Keys) -> Self {
        let (key, mask) = keys.into_parts();
        let mask = Arc::new(mask);
        Self {
            packet: PacketKey::new(key, Some(Arc::clone(&mask))),
            header: HeaderKey { key: mask, is_left_to_packet_key: true },
        }
    }

    /// For what it receives.
    pub(crate) fn remote(keys: Keys) -> Self {
        let (key, mask) = keys.into_parts();
        Self {
            packet: PacketKey::new(key, None),
            header: HeaderKey { key: Arc::new(mask), is_left_to_packet_key: false },
        }
    }

    /// The key that headers of this direction are masked with, in all phases (RFC 9001 §6.1).
    pub(crate) fn mask(&self) -> Arc<hazmat::HeaderKey> {
        Arc::clone(&self.header.key)
    }
}

/// The keys of both directions of one level.
pub(crate) struct LevelKeys {
    pub(crate) local: DirectionKeys,
    pub(crate) remote: DirectionKeys,
}

impl LevelKeys {
    pub(crate) fn new(local: Keys, remote: Keys) -> Self {
        Self { local: DirectionKeys::local(local), remote: DirectionKeys::remote(remote) }
    }

    /// Those of Initial packets (RFC 9001 §5.2). The stacks' connection IDs have at most 20 octets.
    pub(crate) fn initial(version: Version, destination: &[u8], is_client: bool) -> Self {
        let destination = ConnectionId::new(destination).expect("connection IDs have at most 20 octets");
        let InitialKeys { client, server } = InitialKeys::new(version, &destination);
        if is_client { Self::new(client, server) } else { Self::new(server, client) }
    }
}
