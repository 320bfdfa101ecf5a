//! What every MAC must do on every path: agree with other implementations at every length and alignment, and read no other memory.

use proptest::prelude::*;
use wireseal_kernels::cpu::InstructionSet;

use crate::guarded::Guarded;
use crate::{octets, only};

/// A routine for one message.
pub trait Alone {
    /// The sets of paths that are on together.
    const PATHS: &'static [&'static [InstructionSet]];
    type Key;
    /// `None` where no key can be created.
    fn key(octets: &[u8; 32]) -> Option<Self::Key>;
    /// `None` where the routine has no path.
    fn mac(key: &Self::Key, message: &[&[u8]]) -> Option<Vec<u8>>;
    fn by_model(key: &[u8; 32], message: &[u8]) -> Vec<u8>;
    fn by_library(key: &[u8; 32], message: &[u8]) -> Vec<u8>;
}

/// The same with a routine for many messages.
pub trait Many: Alone {
    const BLOCK: usize;
    /// How many messages of this length always go side by side with the paths that are on.
    fn group(octets: usize) -> Option<usize>;
    fn macs<'a>(
        jobs: impl Iterator<Item = (usize, &'a Self::Key, &'a [&'a [u8]])>,
        done: impl FnMut(usize, &[u8]),
    ) where
        Self::Key: 'a;
}

/// Defines the tests for a type that is [`Alone`].
macro_rules! tests_alone {
    ($routine:ty) => {
        crate::tests_of! {
            macs, $routine: every_length_at_every_alignment nothing_outside_of_the_slices_is_read
        }
    };
}

/// Defines the tests for a type that is [`Many`].
macro_rules! tests_many {
    ($routine:ty) => {
        crate::macs::tests_alone!($routine);
        crate::tests_of! {
            macs, $routine: many_of_every_length_at_every_alignment many_in_two_slices one_of_another_length_among_many
                nothing_outside_of_many_messages_is_read many_of_any_lengths
        }
    };
}

pub(crate) use {tests_alone, tests_many};

/// The number of keys: twice the largest number of lanes, and one more.
const KEYS: u8 = 33;

/// Runs `test` with each set of paths and the keys created with it; with no keys where none can be created.
fn with_keys<R: Alone>(test: impl Fn(&[R::Key], &[InstructionSet])) {
    for paths in R::PATHS {
        let keys = || (0..KEYS).filter_map(|number| R::key(&[number; 32])).collect::<Vec<_>>();
        only(paths, || test(&keys(), paths));
    }
}

pub fn every_length_at_every_alignment<R: Alone>() {
    let message = octets(1500, 1);
    let expected: Vec<Vec<u8>> =
        (0..=message.len()).map(|length| R::by_library(&[0; 32], &message[..length])).collect();
    for (length, expected) in expected[..300].iter().enumerate() {
        assert_eq!(R::by_model(&[0; 32], &message[..length]), *expected, "{length} octets by the model");
    }
    with_keys::<R>(|keys, paths| {
        let mut moved = vec![0; message.len() + 64];
        let start = moved.as_ptr().align_offset(64);
        for (length, expected) in expected.iter().enumerate() {
            for alignment in 0..64 {
                let at = (start + alignment) % 64;
                moved[at..][..length].copy_from_slice(&message[..length]);
                if let Some(mac) = keys.first().and_then(|key| R::mac(key, &[&moved[at..][..length]])) {
                    assert_eq!(mac, *expected, "{length} octets at {alignment}, {paths:?}");
                }
            }
        }
    });
}

pub fn nothing_outside_of_the_slices_is_read<R: Alone>() {
    with_keys::<R>(|keys, paths| {
        for length in (0..=260).chain(380..400).chain(1020..1030) {
            let message = octets(length, 2);
            let expected = R::by_library(&[0; 32], &message);
            for guarded in Guarded::both(&message) {
                let (head, tail) = guarded.split_at(length / 3);
                for message in [&[&guarded[..]][..], &[head, tail]] {
                    if let Some(mac) = keys.first().and_then(|key| R::mac(key, message)) {
                        assert_eq!(mac, expected, "{length} octets, {paths:?}");
                    }
                }
            }
        }
    });
}

/// Messages in slices, each with its MAC under the key with the same number.
struct Batch<'a> {
    messages: Vec<Vec<&'a [u8]>>,
    expected: Vec<Vec<u8>>,
}

impl<'a> Batch<'a> {
    fn new<R: Alone>(messages: impl Iterator<Item = Vec<&'a [u8]>>) -> Self {
        let messages: Vec<_> = messages.collect();
        let by_library =
            |(message, number): (&Vec<&[u8]>, u8)| R::by_library(&[number; 32], &message.concat());
        let expected = messages.iter().zip(0..).map(by_library).collect();
        Self { messages, expected }
    }

    /// Computes the MACs of the first messages together, as many as there are keys. No message of a whole group of this size may be
    /// skipped.
    fn check<R: Many>(&self, keys: &[R::Key], group: Option<usize>, paths: &[InstructionSet]) {
        let mut macs = vec![None; self.messages.len().min(keys.len())];
        let jobs = keys.iter().zip(&self.messages).enumerate();
        R::macs(jobs.map(|(number, (key, message))| (number, key, &message[..])), |number, mac| {
            assert!(macs[number].replace(mac.to_vec()).is_none(), "{number} is reported twice, {paths:?}");
        });
        let is_whole = group.is_some_and(|group| macs.len().is_multiple_of(group));
        for (number, mac) in macs.iter().enumerate() {
            let is_right = mac.as_ref().map_or(!is_whole, |mac| *mac == self.expected[number]);
            assert!(is_right, "{number}: {mac:?}, {paths:?}, lengths {:?}", self.lengths());
        }
    }

    fn lengths(&self) -> Vec<Vec<usize>> {
        self.messages.iter().map(|message| message.iter().map(|slice| slice.len()).collect()).collect()
    }
}

pub fn many_of_every_length_at_every_alignment<R: Many>() {
    let octets = octets(1564, 3);
    let start = octets.as_ptr().align_offset(64);
    // Two lengths cover all alignments.
    let message =
        |length: usize, lane: usize| vec![&octets[(start + 2 * lane + length % 2) % 64..][..length]];
    let batches: Vec<Batch<'_>> =
        (0..=1500).map(|length| Batch::new::<R>((0..32).map(|lane| message(length, lane)))).collect();
    with_keys::<R>(|keys, paths| {
        for (length, batch) in batches.iter().enumerate() {
            batch.check::<R>(keys, R::group(length), paths);
        }
    });
}

/// TCP-AO's shape: whole blocks, then a segment's octets.
pub fn many_in_two_slices<R: Many>() {
    let octets = octets(300, 4);
    let lengths = [0, R::BLOCK, 64, 128].into_iter().flat_map(|head| (0..=130).map(move |tail| (head, tail)));
    let batches: Vec<Batch<'_>> = lengths
        .map(|(head, tail)| {
            let message = |lane: usize| vec![&octets[lane..][..head], &octets[lane..][head..][..tail]];
            Batch::new::<R>((0..KEYS.into()).map(message))
        })
        .collect();
    with_keys::<R>(|keys, paths| {
        for batch in &batches {
            let length = batch.messages[0].concat().len();
            for count in [7, 8, 9, 15, 16, 17, 31, 32, 33] {
                batch.check::<R>(&keys[..keys.len().min(count)], R::group(length), paths);
            }
        }
    });
}

/// At every place, a message with another length of its first or second slice, or with a block that spans both.
pub fn one_of_another_length_among_many<R: Many>() {
    let octets = octets(500, 5);
    for other in [(128, 21), (128, 200), (64, 20), (64, 84), (0, 20), (20, 128), (127, 21)] {
        let batches: Vec<Batch<'_>> = (0..KEYS.into())
            .map(|place| {
                let message = |lane: usize| {
                    let (head, tail) = if lane == place { other } else { (128, 20) };
                    vec![&octets[lane..][..head], &octets[lane..][head..][..tail]]
                };
                Batch::new::<R>((0..KEYS.into()).map(message))
            })
            .collect();
        with_keys::<R>(|keys, paths| batches.iter().for_each(|batch| batch.check::<R>(keys, None, paths)));
    }
}

/// Messages of different lengths, each at an edge of memory: lanes that end first continue with octets of other messages.
pub fn nothing_outside_of_many_messages_is_read<R: Many>() {
    for length in 0..=260 {
        let guarded: Vec<[Guarded; 2]> =
            (0..16).map(|lane| Guarded::both(&octets(length * (32 - lane) / 32, 6))).collect();
        let batches = [(0, 0), (0, 64), (1, 0), (1, 64)].map(|(edge, head)| {
            let cut = |message: &Guarded| message.len() / 128 * head;
            Batch::new::<R>(
                guarded.iter().map(|both| <[&[u8]; 2]>::from(both[edge].split_at(cut(&both[edge]))).to_vec()),
            )
        });
        with_keys::<R>(|keys, paths| batches.iter().for_each(|batch| batch.check::<R>(keys, None, paths)));
    }
}

/// Random lengths, and random cuts into up to three slices.
pub fn many_of_any_lengths<R: Many>() {
    let octets = octets(1800, 7);
    let message = (0..900_usize, 0..900_usize, any::<[prop::sample::Index; 2]>(), 0..3);
    let messages = prop::collection::vec(message, 0..usize::from(KEYS));
    proptest!(ProptestConfig::with_cases(200), |(messages in messages)| {
        let batch = Batch::new::<R>(messages.iter().map(|(start, length, cuts, kind)| {
            let message = &octets[*start..][..*length];
            let [first, second] = cuts.map(|cut| cut.index(length + 1));
            let (first, second) = (first.min(second), first.max(second));
            // Mostly two slices, the first of them whole blocks.
            match kind {
                0 => vec![&message[..first], &message[first..second], &message[second..]],
                _ => <[&[u8]; 2]>::from(message.split_at(second / R::BLOCK * R::BLOCK)).to_vec(),
            }
        }));
        with_keys::<R>(|keys, paths| {
            batch.check::<R>(keys, None, paths);
            for ((key, slices), expected) in keys.iter().zip(&batch.messages).zip(&batch.expected) {
                assert!(R::mac(key, slices).is_none_or(|mac| mac == *expected), "{paths:?}");
            }
        });
    });
}
