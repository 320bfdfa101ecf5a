//! Wireseal: sealing and opening in one call each.

use std::time::Duration;

use wireseal_quic::hazmat::HeaderKey;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, ConnectionId, InitialKeys, Keys, Now, NumberLength,
    OneRtt, Outgoing, PacketNumberCounter, PacketType, Protected, ReceiveSpace, SealError, Sealer,
    TrafficSecret, Version,
};

use super::direct::Octets;
use super::initial::{INITIAL_NUMBER, InitialContender, contender};
use super::masks::MaskContender;
use super::{CONNECTION_ID, NUMBER, PacketContender, Seal};

fn secret(algorithm: AeadAlgorithm, is_client: bool) -> TrafficSecret {
    TrafficSecret::new(algorithm, &Octets::of(algorithm, is_client).secret).expect("the hash's length")
}

fn outgoing(packet: &mut [u8], number_offset: usize) -> Outgoing<'_> {
    Outgoing { packet, number_offset, number_length: NumberLength::Two }
}

/// Seals by what `new` makes, and again by a new one when it has reached the confidentiality limit of its AEAD.
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

/// [`Sealer`] and [`Keys::open`]. The window is left out, because the benches open one packet over and over.
fn level(name: &'static str, backend: Backend, algorithm: AeadAlgorithm) -> PacketContender {
    let keys = move || Keys::with_backend(backend, Version::V1, PacketType::OneRtt, secret(algorithm, true));
    let receiver = keys();
    let (mut space, mut failures) = (ReceiveSpace::without_window(), AuthenticationFailures::new());
    PacketContender {
        name,
        seal: sealing(move || Sealer::new(keys(), PacketNumberCounter::new()), Sealer::seal),
        open: Box::new(move |packet| {
            let (packet, _) = Protected::split_first(packet, CONNECTION_ID.len()).expect("a short header");
            receiver.open(packet, &mut space, &mut failures).is_ok()
        }),
    }
}

/// [`OneRtt`], with all that key update needs.
fn one_rtt(algorithm: AeadAlgorithm) -> PacketContender {
    let end = move |is_client| {
        let (local, remote) = (secret(algorithm, is_client), secret(algorithm, !is_client));
        OneRtt::new(Version::V1, local, remote, PacketNumberCounter::new())
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
    let mut contenders = vec![level("wireseal", Backend::Ring, algorithm), one_rtt(algorithm)];
    // AES-128-CCM is RustCrypto's by either backend.
    if algorithm != AeadAlgorithm::Aes128Ccm {
        contenders.push(level("wireseal on rustcrypto", Backend::RustCrypto, algorithm));
    }
    contenders
}

fn mask_contender(name: &'static str, backend: Backend, algorithm: AeadAlgorithm) -> MaskContender {
    let key = Octets::of(algorithm, true).header_key;
    let key = HeaderKey::with_backend(backend, algorithm, &key).expect("the algorithm's length");
    MaskContender {
        name,
        masks: Box::new(move |samples, masks| match (samples, masks) {
            ([sample], [mask]) => *mask = key.mask(sample),
            (samples, masks) => key.masks(samples, masks),
        }),
    }
}

pub(super) fn mask_contenders(algorithm: AeadAlgorithm) -> Vec<MaskContender> {
    vec![
        mask_contender("wireseal", Backend::Ring, algorithm),
        mask_contender("wireseal on rustcrypto", Backend::RustCrypto, algorithm),
    ]
}

fn initial_contender(name: &'static str, backend: Backend) -> InitialContender {
    contender(
        name,
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
    vec![
        initial_contender("wireseal", Backend::Ring),
        initial_contender("wireseal on rustcrypto", Backend::RustCrypto),
    ]
}
