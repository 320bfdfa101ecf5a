//! Wireseal: sealing and opening in one call each.

use std::time::Duration;

use wireseal_kernels::chacha20::ChaCha20MaskKey;
use wireseal_quic::hazmat::HeaderKey;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, ConnectionId, InitialKeys, Keys, Now, NumberLength,
    OneRtt, OneRttSealer, Outgoing, PacketNumberCounter, PacketType, Protected, ReceiveSpace, SealError,
    Sealer, TrafficSecret, Version,
};

use super::contender::{InitialContender, MaskContender, PacketContender, Seal};
use super::packet::{CONNECTION_ID, INITIAL_NUMBER, NUMBER};
use super::ring::Octets;

fn secret(algorithm: AeadAlgorithm, is_client: bool) -> TrafficSecret {
    TrafficSecret::new(algorithm, &Octets::of(algorithm, is_client).secret).expect("the hash's length")
}

fn outgoing(packet: &mut [u8], number_offset: usize) -> Outgoing<'_> {
    Outgoing { packet, number_offset, number_length: NumberLength::Four }
}

/// Seals with what `new` returns, and with a new one when the confidentiality limit of the AEAD is reached.
fn sealing<S: 'static>(
    new: impl Fn() -> S + 'static,
    seal: impl Fn(&mut S, Outgoing<'_>) -> Result<u64, SealError> + 'static,
) -> Seal {
    let mut sealer = new();
    Box::new(move |packet| {
        while let Err(error) = seal(&mut sealer, outgoing(packet, NUMBER)) {
            assert_eq!(error, SealError::ConfidentialityLimit);
            sealer = new();
        }
    })
}

/// The name of Wireseal on a backend: just "wireseal" on the active one.
fn on(backend: Backend) -> &'static str {
    if backend == Backend::active() { "wireseal" } else { format!("wireseal on {}", backend.name()).leak() }
}

/// The backends that have an AEAD. AES-128-CCM is RustCrypto's on all.
fn backends(algorithm: AeadAlgorithm) -> impl Iterator<Item = Backend> {
    let all = if algorithm == AeadAlgorithm::Aes128Ccm { 1 } else { Backend::ALL.len() };
    Backend::ALL.iter().copied().take(all)
}

fn keys(backend: Backend, algorithm: AeadAlgorithm) -> Keys {
    Keys::with_backend(backend, Version::V1, PacketType::OneRtt, secret(algorithm, true))
}

fn sealer(backend: Backend, algorithm: AeadAlgorithm) -> Sealer {
    Sealer::new(keys(backend, algorithm), PacketNumberCounter::new())
}

/// [`Sealer`] and [`Keys::open`], without the window, because the benches open one packet over and over.
fn level(backend: Backend, algorithm: AeadAlgorithm) -> PacketContender {
    let receiver = keys(backend, algorithm);
    let (mut space, mut failures) = (ReceiveSpace::without_window(), AuthenticationFailures::new());
    PacketContender {
        name: on(backend),
        seal: sealing(move || sealer(backend, algorithm), Sealer::seal),
        open: Box::new(move |packet| {
            let (packet, _) = Protected::split_first(packet, CONNECTION_ID.len()).expect("a short header");
            receiver.open(packet, &mut space, &mut failures).is_ok()
        }),
    }
}

/// [`OneRtt`], with everything that key update needs.
fn one_rtt(algorithm: AeadAlgorithm) -> PacketContender {
    let end = move |is_client| {
        let (local, remote) = (secret(algorithm, is_client), secret(algorithm, !is_client));
        OneRttSealer::new(Version::V1, local, remote, PacketNumberCounter::new()).complete_handshake()
    };
    let mut receiver = end(false);
    let (mut space, mut failures) = (ReceiveSpace::without_window(), AuthenticationFailures::new());
    let now = Now { time: Duration::from_secs(1), probe_timeout: Duration::from_millis(100) };
    PacketContender {
        name: "wireseal OneRtt",
        seal: sealing(move || end(true), OneRtt::seal),
        open: Box::new(move |packet| {
            let (packet, _) = Protected::split_first(packet, CONNECTION_ID.len()).expect("a short header");
            receiver.open(packet, now, &mut space, &mut failures).is_ok()
        }),
    }
}

pub(super) fn packets(algorithm: AeadAlgorithm) -> Vec<PacketContender> {
    let mut contenders: Vec<_> = backends(algorithm).map(|backend| level(backend, algorithm)).collect();
    contenders.insert(1, one_rtt(algorithm));
    contenders
}

/// One mask at a time, except ChaCha20's on the kernels, which make many at once.
fn mask_contender(backend: Backend, algorithm: AeadAlgorithm) -> MaskContender {
    let octets = Octets::of(algorithm, true).header_key;
    let key = HeaderKey::with_backend(backend, algorithm, &octets).expect("the algorithm's length");
    if backend != Backend::Kernels || algorithm != AeadAlgorithm::ChaCha20Poly1305 {
        return MaskContender::one_by_one(on(backend), move |sample| key.mask(sample));
    }
    let lanes = ChaCha20MaskKey::new(octets[..].try_into().expect("32 octets"));
    MaskContender {
        name: on(backend),
        masks: Box::new(move |samples, masks| match (samples, masks) {
            ([sample], [mask]) => *mask = key.mask(sample),
            (samples, masks) => {
                for (samples, masks) in samples.chunks(16).zip(masks.chunks_mut(16)) {
                    let mut streams = [[0; 16]; 16];
                    let streams = &mut streams[..samples.len()];
                    streams.copy_from_slice(samples);
                    lanes.mask_batch(streams);
                    for (mask, stream) in masks.iter_mut().zip(streams) {
                        mask.copy_from_slice(&stream[..5]);
                    }
                }
            }
        }),
    }
}

pub(super) fn mask_contenders(algorithm: AeadAlgorithm) -> Vec<MaskContender> {
    backends(algorithm).map(|backend| mask_contender(backend, algorithm)).collect()
}

fn initial_contender(backend: Backend) -> InitialContender {
    InitialContender::new(
        on(backend),
        move |connection_id| {
            let connection_id = ConnectionId::new(connection_id).expect("at most 20 octets");
            let InitialKeys { client, server } =
                InitialKeys::with_backend(backend, Version::V1, &connection_id);
            [client, server]
        },
        |keys, packet| {
            Sealer::new(keys, PacketNumberCounter::new())
                .seal(outgoing(packet, INITIAL_NUMBER))
                .expect("the first packet");
        },
    )
}

pub(super) fn initial_contenders() -> Vec<InitialContender> {
    Backend::ALL.iter().copied().map(initial_contender).collect()
}
