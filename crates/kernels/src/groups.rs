//! Sorts the messages of a batch into groups to compute side by side.

use core::cmp::Reverse;
use core::ops::Range;

/// The number of messages sorted at a time: as many as the widest routine has lanes.
const WINDOW: usize = 16;

/// A message of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a, K> {
    /// The number reported with its MAC.
    pub(crate) number: usize,
    pub(crate) key: K,
    /// Whole blocks at the start of the message, or empty.
    pub(crate) head: &'a [u8],
    /// The rest of the message.
    pub(crate) tail: &'a [u8],
}

impl<'a, K> Job<'a, K> {
    /// `None` if the message has more than two slices, or a block that spans both.
    #[inline]
    fn new<const BLOCK: usize>(number: usize, key: K, message: &'a [&'a [u8]]) -> Option<Self> {
        let (head, tail): (&[u8], &[u8]) = match *message {
            [] => (&[], &[]),
            [tail] | [tail, []] => (&[], tail),
            [head, tail] if head.len().is_multiple_of(BLOCK) => (head, tail),
            _ => return None,
        };
        Some(Self { number, key, head, tail })
    }

    /// The number of blocks that its MAC takes, including those that every message has.
    #[inline]
    fn blocks(&self, block: usize) -> usize {
        (self.head.len() + self.tail.len()) / block + 2
    }
}

/// The cost of a group, in units of the time for one block computed alone; measured unless stated otherwise.
pub(crate) struct Cost {
    /// To start and finish.
    pub(crate) once: usize,
    /// For one block in every lane.
    pub(crate) block: usize,
}

impl Cost {
    /// Whether a group, the longest message first, is faster side by side than one by one.
    #[inline]
    pub(crate) fn is_worth<K>(&self, group: &[Job<'_, K>], block: usize) -> bool {
        let longest = group.first().map_or(0, |job| job.blocks(block));
        group.iter().map(|job| job.blocks(block)).sum::<usize>() >= self.once + self.block * longest
    }
}

/// Sorts jobs, sixteen at a time, and calls `compute` with those that have heads of the same length, the longest message first.
///
/// Skips messages that have more than two slices, or a block of `BLOCK` octets that spans both.
#[inline]
pub(crate) fn each_group<'a, K: Copy, const BLOCK: usize>(
    jobs: impl Iterator<Item = (usize, K, &'a [&'a [u8]])>,
    mut compute: impl FnMut(&[Job<'a, K>]),
) {
    let mut jobs = jobs.filter_map(|(number, key, message)| Job::new::<BLOCK>(number, key, message));
    while let Some(first) = jobs.next() {
        let mut window = [first; WINDOW];
        let mut count = 1;
        for job in jobs.by_ref().take(WINDOW - 1) {
            window[count] = job;
            count += 1;
        }
        let window = &mut window[..count];
        window.sort_unstable_by_key(|job| Reverse((job.head.len(), job.tail.len())));
        window.chunk_by(|a, b| a.head.len() == b.head.len()).for_each(&mut compute);
    }
}

/// Processes the tails of a group, the longest first, block by block; `blocks` gives the number of blocks for a tail's length.
///
/// `take` gets the start of each lane's tail, the indices of blocks that all of these tails have, and the number of lanes, from the first
/// on, that have not ended before. A lane whose message has ended gets the octets of the first lane, and its state no longer matters.
#[inline]
pub(crate) fn each_tail<K, const LANES: usize>(
    jobs: [&Job<'_, K>; LANES],
    blocks: impl Fn(usize) -> usize,
    mut take: impl FnMut(&[*const u8; LANES], Range<usize>, usize),
) {
    let mut starts = jobs.map(|job| job.tail.as_ptr());
    let mut taken = 0;
    for lane in (0..LANES).rev() {
        let blocks = blocks(jobs[lane].tail.len());
        if blocks > taken {
            take(&starts, taken..blocks, lane + 1);
            taken = blocks;
        }
        starts[lane] = starts[0];
    }
}
