//! Wireseal: one call to seal and one to open.

use std::hint::black_box;
use std::time::Duration;

use wireseal_kernels::chacha20::ChaCha20MaskKey;
use wireseal_quic::hazmat::HeaderKey;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, Keys, Now, NumberLength, OneRtt, OneRttSealer, Outgoing,
    PacketNumberCounter, PacketType, Protected, ReceiveSpace, SealError, Sealer, TrafficSecret, Version,
};

use super::direct::header_key;
use super::library::{CONNECTION_ID, Library, Masks, NUMBER, Seal, secret};

fn traffic_secret(algorithm: AeadAlgorithm, octets: &[u8]) -> TrafficSecret {
    TrafficSecret::new(algorithm, octets).expect("the hash's length")
}

fn derive(algorithm: AeadAlgorithm, octets: &[u8]) -> Keys {
    Keys::new(Version::V1, PacketType::OneRtt, traffic_secret(algorithm, octets))
}

/// Seals with the value that `new` returns, and with a new one when the AEAD's confidentiality limit is reached.
fn sealing<S: 'static>(
    new: impl Fn() -> S + 'static,
    seal: impl Fn(&mut S, Outgoing<'_>) -> Result<u64, SealError> + 'static,
) -> Seal {
    let mut sealer = new();
    Box::new(move |packet| {
        loop {
            let outgoing = Outgoing { packet, number_offset: NUMBER, number_length: NumberLength::Four };
            match seal(&mut sealer, outgoing) {
                Ok(_) => break,
                Err(error) => assert_eq!(error, SealError::ConfidentialityLimit),
            }
            sealer = new();
        }
    })
}

/// [`Sealer`] and [`Keys::open`], without the duplicate window, because the benches open the same packet repeatedly.
pub(super) fn keys(algorithm: AeadAlgorithm) -> Library {
    let octets = secret(algorithm, true);
    let receiver = derive(algorithm, &octets);
    let (mut space, mut failures) = (ReceiveSpace::without_window(), AuthenticationFailures::new());
    Library {
        name: "wireseal",
        seal: sealing(
            move || Sealer::new(derive(algorithm, &secret(algorithm, true)), PacketNumberCounter::new()),
            Sealer::seal,
        ),
        open: Box::new(move |packet| {
            let (packet, _) = Protected::split_first(packet, CONNECTION_ID.len()).expect("a short header");
            receiver.open(packet, &mut space, &mut failures).is_ok()
        }),
        masks: Some(masks(algorithm)),
        keys: Some(Box::new(move || drop(black_box(derive(algorithm, black_box(&octets)))))),
    }
}

/// [`OneRtt`], with everything for key updates.
pub(super) fn one_rtt(algorithm: AeadAlgorithm) -> Library {
    let end = move |is_client: bool| {
        let [local, remote] =
            [is_client, !is_client].map(|is_client| traffic_secret(algorithm, &secret(algorithm, is_client)));
        OneRttSealer::new(Version::V1, local, remote, PacketNumberCounter::new()).complete_handshake()
    };
    let mut receiver = end(false);
    let (mut space, mut failures) = (ReceiveSpace::without_window(), AuthenticationFailures::new());
    let now = Now { time: Duration::from_secs(1), probe_timeout: Duration::from_millis(100) };
    Library {
        name: "wireseal OneRtt",
        seal: sealing(move || end(true), OneRtt::seal),
        open: Box::new(move |packet| {
            let (packet, _) = Protected::split_first(packet, CONNECTION_ID.len()).expect("a short header");
            receiver.open(packet, now, &mut space, &mut failures).is_ok()
        }),
        masks: None,
        keys: None,
    }
}

/// One mask at a time, except ChaCha20's with the kernels, which compute 16 at once.
fn masks(algorithm: AeadAlgorithm) -> Masks {
    let octets = header_key(algorithm, &secret(algorithm, true));
    let key = HeaderKey::new(algorithm, &octets).expect("the algorithm's length");
    let is_chacha20 = algorithm == AeadAlgorithm::ChaCha20Poly1305 && Backend::active() == Backend::Kernels;
    let lanes = is_chacha20.then(|| ChaCha20MaskKey::new(octets[..].try_into().expect("32 octets")));
    Box::new(move |samples, masks| match (samples, &lanes) {
        ([_, _, ..], Some(lanes)) => {
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
        _ => {
            for (sample, mask) in samples.iter().zip(masks) {
                *mask = key.mask(sample);
            }
        }
    })
}
