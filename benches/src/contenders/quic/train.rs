//! Trains of packets: Wireseal seals them in one call, the other libraries one by one.

use wireseal_quic::AeadAlgorithm;

use super::compare::packet_contenders;
use super::packet::{PAYLOADS, packet};
use super::wireseal;

/// How many packets a train has.
pub(crate) const TRAIN: usize = 16;

/// Seals packets in place, new or sealed before, with the next numbers.
type Seal = Box<dyn FnMut(&mut [Vec<u8>; TRAIN])>;

/// A library that seals trains.
pub(crate) struct TrainContender {
    /// The library, and how it is used.
    pub(crate) name: &'static str,
    pub(crate) seal: Seal,
}

/// Wireseal first, then the libraries of [`packet_contenders`] that are not on Wireseal.
///
/// # Panics
/// If two of them seal differently.
pub(crate) fn train_contenders(algorithm: AeadAlgorithm) -> Vec<TrainContender> {
    let mut compared = all(algorithm);
    for payload in PAYLOADS {
        let mut expected = None;
        for TrainContender { name, seal } in &mut compared {
            let mut train = std::array::from_fn(|i| packet(payload - i));
            seal(&mut train);
            let expected = expected.get_or_insert_with(|| train.clone());
            assert!(train == *expected, "{name} seals trains of {payload} octets differently");
        }
    }
    all(algorithm)
}

fn all(algorithm: AeadAlgorithm) -> Vec<TrainContender> {
    let ours = TrainContender { name: "wireseal", seal: Box::new(wireseal::train(algorithm)) };
    let one_by_one = packet_contenders(algorithm)
        .into_iter()
        .filter(|contender| !contender.name.contains("wireseal"))
        .map(|mut contender| TrainContender {
            name: contender.name,
            seal: Box::new(move |train| train.iter_mut().for_each(|packet| (contender.seal)(packet))),
        });
    [ours].into_iter().chain(one_by_one).collect()
}
