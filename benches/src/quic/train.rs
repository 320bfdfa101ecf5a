//! Trains of packets: all at once by Wireseal, one by one by the other libraries.

use wireseal_quic::AeadAlgorithm;

use super::{PAYLOADS, packet, packet_contenders, wireseal};

/// How many packets a train has.
pub const TRAIN: usize = 16;

/// Packets to be sealed where they lie, with consecutive numbers.
pub type Train = [Vec<u8>; TRAIN];

/// A library that seals trains.
pub struct TrainContender {
    /// The library, and how it is used.
    pub name: &'static str,
    /// Seals what [`packet`] makes, or what was sealed before, with the next numbers.
    pub seal: Box<dyn FnMut(&mut Train)>,
}

impl std::fmt::Debug for TrainContender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainContender").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Wireseal first, then the libraries of [`packet_contenders`] but for those on Wireseal.
///
/// # Panics
/// When two of them seal differently.
#[must_use]
pub fn train_contenders(algorithm: AeadAlgorithm) -> Vec<TrainContender> {
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
    let one_by_one = packet_contenders(algorithm)
        .into_iter()
        .filter(|contender| !contender.name.contains("wireseal"))
        .map(|mut contender| TrainContender {
            name: contender.name,
            seal: Box::new(move |train| train.iter_mut().for_each(|packet| (contender.seal)(packet))),
        });
    [wireseal::train(algorithm)].into_iter().chain(one_by_one).collect()
}
