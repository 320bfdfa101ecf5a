//! Appendix A of RFC 9001 and of RFC 9369.

use serde::Deserialize;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, ConnectionId, InitialKeys, Keys, NumberLength, Outgoing,
    PacketNumberCounter, PacketType, Protected, ReceiveSpace, Retry, Sealer, TrafficSecret, Version,
};

use super::vectors::{Group, Octets, read};

#[derive(Deserialize)]
struct AppendixA {
    version: u32,
    destination_connection_id: Octets,
    client_initial: Packet,
    server_initial: Packet,
    retry: PrintedRetry,
    chacha20_poly1305: ShortPacket,
}

#[derive(Deserialize)]
struct Packet {
    number: u64,
    number_length: usize,
    payload: Octets,
    /// Before header protection.
    header: Octets,
    packet: Octets,
}

#[derive(Deserialize)]
struct PrintedRetry {
    token: Octets,
    packet: Octets,
}

#[derive(Deserialize)]
struct ShortPacket {
    secret: Octets,
    ku: Octets,
    #[serde(flatten)]
    packet: Packet,
}

pub(super) fn run(source: &'static str, backend: Backend, text: &str) -> Group {
    let vectors: AppendixA = read(text);
    let mut group = Group::new(source, format!("QUIC packets by {}", backend.name()));
    let mut count = |name: &str, passed: Option<bool>| group.count(passed == Some(true), || name.to_owned());
    count("A.2, client Initial", vectors.initial(backend, true));
    count("A.3, server Initial", vectors.initial(backend, false));
    count("A.4, Retry", vectors.retry());
    count("A.5, ChaCha20-Poly1305 short header packet", vectors.short_packet(backend));
    count("A.5, secret of the next key phase", vectors.key_update(backend));
    group
}

impl AppendixA {
    fn version(&self) -> Option<Version> {
        Version::from_wire(self.version).ok()
    }

    fn initial(&self, backend: Backend, is_client: bool) -> Option<bool> {
        let destination = ConnectionId::new(&self.destination_connection_id.0).ok()?;
        let version = self.version()?;
        let keys = || {
            let keys = InitialKeys::with_backend(backend, version, &destination);
            if is_client { keys.client } else { keys.server }
        };
        let packet = if is_client { &self.client_initial } else { &self.server_initial };
        Some(packet.seals(keys())? && packet.opens(&keys(), ReceiveSpace::new())?)
    }

    fn retry(&self) -> Option<bool> {
        let destination = ConnectionId::new(&self.destination_connection_id.0).ok()?;
        let open = |packet: &[u8]| {
            Some(Retry::open(self.version()?, &destination, packet).ok()?.token == self.retry.token.0)
        };
        let mut forged = self.retry.packet.0.clone();
        *forged.last_mut()? ^= 1;
        Some(open(&self.retry.packet.0)? && open(&forged).is_none())
    }

    fn short_keys(&self, backend: Backend, secret: TrafficSecret) -> Option<Keys> {
        Some(Keys::with_backend(backend, self.version()?, PacketType::OneRtt, secret))
    }

    fn short_packet(&self, backend: Backend) -> Option<bool> {
        let ShortPacket { secret, packet, .. } = &self.chacha20_poly1305;
        let keys = || {
            let secret = TrafficSecret::new(AeadAlgorithm::ChaCha20Poly1305, &secret.0).ok()?;
            self.short_keys(backend, secret)
        };
        // The packet number is truncated, so the packet before has to arrive first.
        let mut before = [0x40; 1 + 4 + 1 + 16];
        let mut space = ReceiveSpace::new();
        let counter = PacketNumberCounter::starting_at(packet.number - 1).ok()?;
        let outgoing = Outgoing { packet: &mut before, number_offset: 1, number_length: NumberLength::Four };
        Sealer::new(keys()?, counter).seal(outgoing).ok()?;
        let (protected, _) = Protected::split_first(&mut before, 0).ok()?;
        keys()?.open(protected, &mut space, &mut AuthenticationFailures::new()).ok()?;
        Some(packet.seals(keys()?)? && packet.opens(&keys()?, space)?)
    }

    /// The next secret protects packets like the one the RFC prints.
    fn key_update(&self, backend: Backend) -> Option<bool> {
        let ShortPacket { secret, ku, packet } = &self.chacha20_poly1305;
        let of = |octets: &Octets| TrafficSecret::new(AeadAlgorithm::ChaCha20Poly1305, &octets.0).ok();
        let sealed = |secret| packet.sealed(self.short_keys(backend, secret)?);
        let (derived, printed) = (sealed(of(secret)?.next(self.version()?))?, sealed(of(ku)?)?);
        Some(derived == printed && printed != packet.packet.0)
    }
}

impl Packet {
    /// The packet, sealed with these keys.
    fn sealed(&self, keys: Keys) -> Option<Vec<u8>> {
        let lengths = [NumberLength::One, NumberLength::Two, NumberLength::Three, NumberLength::Four];
        let number_length = *lengths.get(self.number_length.checked_sub(1)?)?;
        let mut packet = [&self.header.0[..], &self.payload.0, &[0; 16]].concat();
        let number_offset = self.header.0.len() - self.number_length;
        let counter = PacketNumberCounter::starting_at(self.number).ok()?;
        Sealer::new(keys, counter)
            .seal(Outgoing { packet: &mut packet, number_offset, number_length })
            .ok()?;
        Some(packet)
    }

    fn seals(&self, keys: Keys) -> Option<bool> {
        Some(self.sealed(keys)? == self.packet.0)
    }

    /// Whether these keys open the packet, but not with its last bit flipped.
    fn opens(&self, keys: &Keys, mut space: ReceiveSpace) -> Option<bool> {
        let mut failures = AuthenticationFailures::new();
        let mut forged = self.packet.0.clone();
        *forged.last_mut()? ^= 1;
        let (protected, _) = Protected::split_first(&mut forged, 0).ok()?;
        let refused = keys.open(protected, &mut space, &mut failures).is_err();
        let mut packet = self.packet.0.clone();
        let (protected, _) = Protected::split_first(&mut packet, 0).ok()?;
        let opened = keys.open(protected, &mut space, &mut failures).ok()?;
        Some(
            refused
                && opened.number == self.number
                && opened.header() == self.header.0
                && *opened.payload == *self.payload.0,
        )
    }
}

/// What implements each QUIC suite on the active backend: processor instructions or a library.
pub fn served_by() -> impl Iterator<Item = (&'static str, &'static str)> {
    AeadAlgorithm::ALL.into_iter().filter_map(|algorithm| {
        let secret = TrafficSecret::new(algorithm, &vec![0; algorithm.secret_length()]).ok()?;
        Some((algorithm.name(), Keys::new(Version::V1, PacketType::OneRtt, secret).served_by()))
    })
}
