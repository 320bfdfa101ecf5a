//! Messages of one shape, which can go in step.

/// A message to be authenticated together with others: its number, what its key is, and its slices.
pub(crate) type Job<'a, K> = (usize, K, &'a [&'a [u8]]);

/// The next messages, if there are so many of one shape: with as many slices of the same lengths, all but the last of them whole
/// blocks of so many octets, and the last not empty. `jobs` is then behind them.
#[inline]
pub(crate) fn group<'a, K: Copy, const LANES: usize>(
    jobs: &mut (impl Iterator<Item = Job<'a, K>> + Clone),
    block: usize,
) -> Option<[Job<'a, K>; LANES]> {
    let mut ahead = jobs.clone();
    let first = ahead.next()?;
    let (last, whole) = first.2.split_last()?;
    if last.is_empty() || whole.iter().any(|slice| slice.len() % block != 0) {
        return None;
    }
    let mut group = [first; LANES];
    for place in &mut group[1..] {
        let job = ahead.next()?;
        let is_like = |(a, b): (&&[u8], &&[u8])| a.len() == b.len();
        if job.2.len() != first.2.len() || !job.2.iter().zip(first.2).all(is_like) {
            return None;
        }
        *place = job;
    }
    *jobs = ahead;
    Some(group)
}
