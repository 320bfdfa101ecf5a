//! Sequence numbers that wrap in mid-transfer, so that the sequence number extension has to move on (RFC 5925 §6.2, RFC 9187).

mod first_octet;
mod kernels;
mod second_turn;
mod userspace;

use std::sync::atomic::{AtomicU16, Ordering};

use wireseal_tcp_ao::{Isn, KdfContext, Mkt, Segment, Sne, SocketPair, TrafficKey, verify_segment};

use super::Row;
use crate::failure::{Failure, ensure};
use crate::recording::Recording;

/// Octets that go each way before the wrap, at most.
const BEFORE: u32 = 1 << 20;
/// Octets that go each way in all.
const OCTETS: u64 = 4 << 20;

/// A port of a guest's that no row has used: what was in TIME-WAIT there would be in the way.
fn fresh_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(1790);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An ISN as close to the top.
const fn near_the_top() -> Isn {
    Isn(BEFORE.wrapping_neg())
}

pub fn rows() -> Vec<Row> {
    [userspace::rows(), kernels::rows(), first_octet::rows(), second_turn::rows()]
        .into_iter()
        .flatten()
        .collect()
}

/// The segments that went from `pair.local` to `pair.remote`.
fn sent(recording: &Recording, pair: SocketPair) -> impl Iterator<Item = Segment<'_>> {
    let segments =
        recording.frames.iter().filter(|frame| frame.from.is_some()).filter_map(|frame| frame.segment());
    segments.filter(move |segment| (segment.source(), segment.destination()) == (pair.local, pair.remote))
}

/// The ISN of what went from `pair.local` to `pair.remote`.
fn isn(recording: &Recording, pair: SocketPair) -> Result<Isn, Failure> {
    let syn = sent(recording, pair).filter(|segment| segment.flags().syn()).last();
    syn.map(|syn| Isn(syn.sequence().0)).ok_or_else(|| Failure(format!("{pair}: no SYN was recorded")))
}

/// Fails unless both directions have gone past the top in mid-transfer; says after how many octets.
fn check_wrapped(recording: &Recording, pair: SocketPair) -> Result<String, Failure> {
    let mut wrapped_after = Vec::new();
    for pair in [pair, pair.reversed()] {
        let Isn(isn) = isn(recording, pair)?;
        let mut data = sent(recording, pair).filter(|segment| !segment.payload().is_empty());
        let has_wrapped = data.any(|segment| segment.sequence().0 < isn);
        let before = isn.wrapping_neg();
        ensure(has_wrapped && before <= BEFORE, || format!("{pair}: sent from {isn} on without a wrap"))?;
        wrapped_after.push(before.to_string());
    }
    Ok(wrapped_after.join(" and "))
}

/// How many of the segments from `pair.local` to `pair.remote` do not verify with an SNE of 0.
fn refused_at_sne_0(recording: &Recording, pair: SocketPair, mkt: &Mkt) -> Result<u64, Failure> {
    let parameters = mkt.parameters();
    let (source_isn, destination_isn) = (isn(recording, pair)?, isn(recording, pair.reversed())?);
    let context = KdfContext { source: pair.local, destination: pair.remote, source_isn, destination_isn };
    let key = TrafficKey::derive(parameters.algorithm, mkt.master_key(), &context);
    let mut refused = 0;
    for segment in sent(recording, pair).filter(|segment| !segment.flags().syn()) {
        let ao = segment.ao_option()?.ok_or_else(|| Failure(format!("{pair}: a segment is unsigned")))?;
        refused += u64::from(verify_segment(&key, Sne(0), &segment, &ao, parameters).is_err());
    }
    Ok(refused)
}
