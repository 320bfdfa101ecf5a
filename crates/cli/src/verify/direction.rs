//! What one end of a live connection has sent.

use std::num::{NonZeroU16, NonZeroU32};

use smallvec::SmallVec;
use wireseal_tcp_ao::{Isn, KeyId, SeqNum, SneTracker};

use super::key_table::KeyTable;
use super::report::{Counts, DirectionReport, IsnSource, KeyUse, Verdict, failed};
use super::sent::Sent;
use super::traffic_keys::Slot;
use crate::capture::Place;

/// A SYN, and how many octets of payload came with it: an answer may acknowledge these as well (RFC 7413 §4.2, RFC 9293 §3.10.7.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Syn {
    pub(super) isn: Isn,
    pub(super) payload: u32,
}

impl Syn {
    /// Whether a number is one that follows the SYN: after it, or after any part of its payload.
    pub(super) const fn is_before(self, number: SeqNum) -> bool {
        number.0.wrapping_sub(self.isn.0).wrapping_sub(1) <= self.payload
    }
}

/// The most runs of one KeyID kept per direction; the last one absorbs the rest.
const KEY_USES: usize = 1000;

/// One direction of a live connection.
#[derive(Default, Debug)]
pub(super) struct Direction {
    pub(super) known_isn: Option<(Isn, IsnSource)>,
    /// How far good segments have come.
    pub(super) sne: Option<SneTracker>,
    /// How many more segments to search for the SNE, after `--isn` gave the ISN but not the wraps since.
    pub(super) sne_searches: u8,
    /// Segments that are good. The others are in [`Unusual::counts`].
    good: u64,
    /// Octets of payload.
    pub(super) payload: u64,
    /// Segments whose octets had been sent before.
    pub(super) retransmissions: u32,
    /// Resets that verified. Those that do not fit are in [`Unusual::more_signed_resets`].
    signed_resets: u16,
    /// The traffic key of its latest segments without SYN.
    pub(super) traffic_key: Slot,
    /// Which octets were sent.
    pub(super) sent: Sent,
    pub(super) fin: Fin,
    /// The verdict on the last segment, see [`Verdict::index`].
    pub(super) last_verdict: Option<u8>,
    /// The KeyIDs used, in order.
    pub(super) key_runs: SmallVec<[KeyRun; 1]>,
    /// The KeyID of the last segment that had one.
    pub(super) key_id: Option<KeyId>,
    /// The highest acknowledgment number the other end has sent.
    pub(super) acknowledged: Option<SeqNum>,
    /// The MSS option of the SYN.
    pub(super) mss: Option<NonZeroU16>,
    /// Whether it answered the SYN or SYN-ACK of the other end with a reset that the other end accepts.
    pub(super) answers_with_reset: bool,
    only_syn: Option<OnlySyn>,
    opening: Option<Box<Opening>>,
    unusual: Option<Box<Unusual>>,
}

// A million connections are to fit 512 MiB.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Direction>() <= 168);

/// The FIN of a direction.
#[derive(Clone, Copy, Default, Debug)]
pub(super) enum Fin {
    /// There was none.
    #[default]
    Missing,
    /// The sequence number after it.
    Sent(SeqNum),
    /// The other end has acknowledged it.
    Acknowledged(SeqNum),
}

/// The one SYN of a direction, if it was its first segment and had no payload. [`Direction::opening`] follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) enum OnlySyn {
    WithoutAck,
    WithAck,
}

/// What a direction's SYNs show, until the connection is open in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// The last SYN without ACK that was believed.
    pub(super) syn: Option<Syn>,
    /// SYNs without ACK.
    pub(super) syns: u32,
    /// SYNs with ACK.
    pub(super) syn_acks: u32,
    /// Retransmissions of either, at least [`REPEATED`](super::learn::REPEATED) after the one before.
    pub(super) repeats: u32,
    /// Retransmitted SYN-ACKs after a segment that only an open connection has.
    pub(super) late_syn_acks: u32,
    /// The last SYN or SYN-ACK that was not a copy of the one before.
    pub(super) last_syn: Option<Place>,
}

/// What a direction shows only if something is wrong.
#[derive(Clone, Debug)]
pub(super) struct Unusual {
    /// Segments by verdict, those that are good excepted. Most directions have one other verdict, if any.
    verdicts: SmallVec<[OfVerdict; 1]>,
    /// Resets that did not verify.
    other_resets: u64,
    more_signed_resets: u64,
    /// Good segments with octets behind the option that are not padding, and the first of them.
    pub(super) odd_ends: Option<(u64, Place)>,
    /// Segments with TCP-MD5 and without TCP-AO.
    pub(super) md5: u64,
    /// Segments with what looks like a TCP Enhanced Authentication Option, and without TCP-AO.
    pub(super) enhanced: u64,
    /// Resets without a TCP-AO option.
    pub(super) unsigned_resets: u64,
    /// Where the last run of a key began, if there was another one before: the sequence number of its first segment, and how many
    /// retransmissions there had been.
    pub(super) rolled_over: Option<(SeqNum, u32)>,
}

/// For directions without.
static NOTHING_UNUSUAL: Unusual = Unusual::NOTHING;

/// The segments of a direction with one verdict.
#[derive(Clone, Copy, Debug)]
struct OfVerdict {
    /// See [`Verdict::index`].
    index: u8,
    first: Place,
    segments: u64,
}

// Each direction without a good segment has one.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Unusual>() <= 136);

impl Unusual {
    const NOTHING: Self = Self {
        verdicts: SmallVec::new_const(),
        other_resets: 0,
        more_signed_resets: 0,
        odd_ends: None,
        md5: 0,
        enhanced: 0,
        unsigned_resets: 0,
        rolled_over: None,
    };

    /// The first segment with this verdict, if it is not a good one.
    pub(super) fn first(&self, verdict: Verdict) -> Option<Place> {
        let mut verdicts = self.verdicts.iter();
        verdicts.find(|of| usize::from(of.index) == verdict.index()).map(|of| of.first)
    }
}

/// A run of segments with the same KeyID, see [`KeyUse`].
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyRun {
    pub(super) first: Place,
    pub(super) last: Place,
    pub(super) segments: u64,
    pub(super) outside_lifetime: u32,
    /// The key that verified.
    pub(super) key: Option<KeyIndex>,
    pub(super) key_id: KeyId,
}

/// A key's index in [`Keys`](crate::keys::Keys), plus one.
pub(super) type KeyIndex = NonZeroU32;

impl KeyRun {
    /// The index of the key that verified.
    pub(super) fn key(&self) -> Option<usize> {
        self.key.map(|key| key.get() as usize - 1)
    }
}

impl Direction {
    #[inline]
    pub(super) fn isn(&self) -> Option<Isn> {
        self.known_isn.map(|(isn, _)| isn)
    }

    #[inline]
    pub(super) const fn good(&self) -> u64 {
        self.good
    }

    pub(super) fn segments(&self) -> u64 {
        self.counts().iter().sum()
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = [0; Verdict::KINDS];
        counts[Verdict::Good.index()] = self.good;
        for of in &self.unusual().verdicts {
            counts[usize::from(of.index)] = of.segments;
        }
        counts
    }

    /// Whether a segment failed.
    pub(super) fn has_failed(&self) -> bool {
        failed(&self.counts()) > 0
    }

    /// Whether it has sent a segment with a TCP-AO option.
    pub(super) const fn has_signed(&self) -> bool {
        self.key_id.is_some()
    }

    /// Its first segment.
    pub(super) fn first(&self) -> Option<Place> {
        // All that are good are in a run.
        let signed = self.key_runs.first().map(|run| run.first);
        let others = self.unusual().verdicts.iter().map(|of| of.first);
        others.chain(signed).min_by_key(|place| place.packet)
    }

    /// The last segment of the run in which a key verified last: a good one unless others of that KeyID failed after it.
    pub(super) fn last_good(&self) -> Option<Place> {
        self.key_runs.iter().rev().find(|run| run.key.is_some()).map(|run| run.last)
    }

    /// Whether what its SYNs have shown takes memory.
    #[inline]
    pub(super) const fn has_much_of_opening(&self) -> bool {
        self.opening.is_some()
    }

    pub(super) fn forget_opening(&mut self) {
        (self.opening, self.only_syn) = (None, None);
    }

    /// What its SYNs have shown.
    pub(super) fn opening(&self) -> Opening {
        let nothing =
            Opening { syn: None, syns: 0, syn_acks: 0, repeats: 0, late_syn_acks: 0, last_syn: None };
        match (&self.opening, self.only_syn) {
            (Some(opening), _) => **opening,
            (None, None) => nothing,
            (None, Some(OnlySyn::WithoutAck)) => {
                let syn = self.isn().map(|isn| Syn { isn, payload: 0 });
                Opening { syn, syns: 1, last_syn: self.first(), ..nothing }
            }
            (None, Some(OnlySyn::WithAck)) => Opening { syn_acks: 1, last_syn: self.first(), ..nothing },
        }
    }

    pub(super) fn opening_mut(&mut self) -> &mut Opening {
        if self.opening.is_none() {
            self.opening = Some(Box::new(self.opening()));
        }
        self.opening.get_or_insert_with(|| unreachable!("it was just set"))
    }

    /// Notes a SYN that was believed, before it is counted, if that is all there is to note: it is the direction's first segment.
    pub(super) fn note_only_syn(&mut self, syn: OnlySyn) -> bool {
        let is_first = self.key_runs.is_empty() && self.unusual.is_none() && self.opening.is_none();
        if is_first {
            self.only_syn = Some(syn);
        }
        is_first
    }

    pub(super) fn unusual(&self) -> &Unusual {
        self.unusual.as_deref().unwrap_or(&NOTHING_UNUSUAL)
    }

    pub(super) fn unusual_mut(&mut self) -> &mut Unusual {
        self.unusual.get_or_insert_with(|| Box::new(Unusual::NOTHING))
    }

    /// Counts a segment with this verdict.
    #[inline]
    pub(super) fn count_verdict(&mut self, verdict: Verdict, place: Place) {
        if verdict == Verdict::Good {
            self.good += 1;
            return;
        }
        let (index, verdicts) = (verdict.index() as u8, &mut self.unusual_mut().verdicts);
        match verdicts.iter_mut().find(|of| of.index == index) {
            Some(of) => of.segments += 1,
            None => verdicts.push(OfVerdict { index, first: place, segments: 1 }),
        }
    }

    #[cold]
    pub(super) fn count_reset(&mut self, is_good: bool) {
        match (is_good, self.signed_resets.checked_add(1)) {
            (true, Some(count)) => self.signed_resets = count,
            (true, None) => self.unusual_mut().more_signed_resets += 1,
            (false, _) => self.unusual_mut().other_resets += 1,
        }
    }

    /// Sets the ISN; another one than before resets the SNE.
    pub(super) fn set_isn(&mut self, isn: Isn, source: IsnSource) {
        if self.isn() != Some(isn) {
            if self.only_syn.is_some() && self.isn().is_some() {
                // The SYN had the ISN before.
                self.opening_mut();
            }
            self.known_isn = Some((isn, source));
            self.sne = None;
        } else if source == IsnSource::Seen {
            self.known_isn = Some((isn, source));
        }
    }

    /// The tracker of good segments; at the ISN before there are any.
    #[inline]
    pub(super) fn tracker(&self) -> Option<SneTracker> {
        self.sne.or_else(|| self.isn().map(SneTracker::new))
    }

    /// Records a segment with this KeyID; `key` is the key that verified it. Returns whether it starts a new run.
    #[inline]
    pub(super) fn use_key(
        &mut self,
        key_id: KeyId,
        key: Option<KeyIndex>,
        place: Place,
        outside_lifetime: bool,
    ) -> bool {
        // Anyone can send a segment that does not verify, so its KeyID does not end the run of a key that verifies.
        let is_same =
            |run: &KeyRun| run.key_id == key_id && (key.is_none() || run.key.is_none() || run.key == key);
        self.key_id = Some(key_id);
        let runs = &mut self.key_runs[..];
        let same = match runs {
            [run] => is_same(run).then_some(run),
            runs => {
                let verified = runs.iter().rposition(|run| run.key.is_some()).unwrap_or(0);
                let is_full = runs.len() >= KEY_USES;
                let same = runs.get(verified..).unwrap_or_default().iter().position(is_same);
                let last = same.map(|index| verified + index).or(is_full.then(|| runs.len() - 1));
                last.and_then(|index| runs.get_mut(index))
            }
        };
        let outside_lifetime = u32::from(outside_lifetime);
        if let Some(run) = same {
            run.key = run.key.or(key);
            run.last = place;
            run.segments += 1;
            run.outside_lifetime = run.outside_lifetime.saturating_add(outside_lifetime);
            return false;
        }
        self.key_runs.push(KeyRun { key_id, key, first: place, last: place, segments: 1, outside_lifetime });
        self.key_runs.len() > 1
    }

    /// The report at the end.
    pub(super) fn into_report(self, table: &KeyTable<'_>) -> DirectionReport {
        let key_use = |run: &KeyRun| {
            let key = run.key();
            KeyUse {
                key_id: run.key_id,
                key,
                key_name: key.map(|key| table.name(key).to_owned()),
                first: run.first,
                last: run.last,
                segments: run.segments,
                outside_lifetime: run.outside_lifetime.into(),
            }
        };
        DirectionReport {
            isn: self.isn(),
            isn_source: self.known_isn.map(|(_, source)| source),
            counts: self.counts(),
            payload: self.payload,
            retransmissions: self.retransmissions.into(),
            signed_resets: u64::from(self.signed_resets) + self.unusual().more_signed_resets,
            other_resets: self.unusual().other_resets,
            sne: self.sne.map(|tracker| tracker.highest().0),
            key_uses: self.key_runs.iter().map(key_use).collect(),
        }
    }
}
