//! The search for a hypothesis under which a segment that failed verifies.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::option::kind;
use wireseal_tcp_ao::{OptionCoverage, Sne};

use super::case::{Case, Shifted};
use super::findings::Tried;
use super::hypothesis::{
    Change, ChecksumForm, ECN_FLAGS, FLAGS_AT, Hypothesis, Relation, SecretForm, ShiftForm, SneForm,
    input_with_checksum,
};
use super::options::{ClearedOptions, MAX_WINDOW_SCALE, PaddingForm, WINDOW_SCALE, has_padding};
use super::parts::{SplitSegments, find_part};
use crate::verify::connection::TcpConnection;
use crate::verify::options::SearchLimits;

/// How many keys that a segment does not name are tried with other changes, too.
const OTHER_KEYS_CHANGED: usize = 8;
/// How many keys that a segment names, and how many others, are tried.
const KEYS: usize = 64;
/// How many different explanations are remembered.
const KNOWN: usize = 16;

/// What the diagnoses of all connections share.
#[derive(Debug)]
pub(in crate::verify) struct Search {
    /// What has explained segments.
    known: Vec<Hypothesis>,
    searches_left: u32,
    size_searches_left: u32,
    /// Segments whose other parts may follow.
    pub(super) split: SplitSegments,
}

impl Search {
    pub(in crate::verify) fn new(limits: &SearchLimits) -> Self {
        let SearchLimits { searches, size_searches, .. } = *limits;
        Self {
            known: Vec::new(),
            searches_left: searches,
            size_searches_left: size_searches,
            split: SplitSegments::default(),
        }
    }

    /// What has explained segments of other connections, for this one.
    pub(super) fn known_for(&self, connection: &TcpConnection) -> impl Iterator<Item = Hypothesis> {
        self.known.iter().filter_map(|known| {
            let mut candidates = connection.candidates.iter();
            let candidate = candidates.find(|candidate| candidate.key == known.candidate.key)?;
            Some(Hypothesis { candidate: *candidate, ..*known })
        })
    }

    /// Whether any segment may still be searched.
    pub(super) fn is_open(&self) -> bool {
        self.searches_left > 0
    }

    /// The first hypothesis under which a segment verifies, likely and cheap ones first. `tried` gets what was tried in vain.
    pub(super) fn find(&mut self, case: &Case<'_, '_>, tried: &mut Tried) -> Option<Hypothesis> {
        self.searches_left -= 1;
        let found = self.find_in_order(case, tried)?;
        if self.known.len() < KNOWN && !self.known.iter().any(|known| known.is_like(&found)) {
            self.known.push(found);
        }
        Some(found)
    }

    fn find_in_order(&mut self, case: &Case<'_, '_>, tried: &mut Tried) -> Option<Hypothesis> {
        let named = || case.keys(Relation::Named).take(KEYS);
        let others = || case.keys(Relation::Exchanged).chain(case.keys(Relation::Other));
        let flipped = named().map(|hypothesis| hypothesis.both()[1]);
        let mut unchanged = named().chain(flipped).chain(others().take(KEYS).flat_map(Hypothesis::both));
        if let Some(found) = unchanged.find(|hypothesis| verifies(case, hypothesis)) {
            return Some(found);
        }
        tried.note("both coverages of options");
        let other_keys = others().count();
        match other_keys {
            0 => {}
            1 => tried.note("the other key"),
            _ => tried.note(format!("{} other keys", other_keys.min(KEYS))),
        }
        let mut keys: Vec<_> = named().collect();
        let mut left_out = other_keys.saturating_sub(KEYS) + case.keys(Relation::Named).skip(KEYS).count();
        if keys.is_empty() {
            keys.extend(others().take(OTHER_KEYS_CHANGED));
            left_out = other_keys - keys.len();
        }
        if left_out > 0 {
            tried.note_left_out(format!("{left_out} more keys"));
        }
        for (words, changes) in changes(case, &keys) {
            let mut is_one = false;
            let mut hypotheses = keys
                .iter()
                .flat_map(|hypothesis| changes.iter().flat_map(|change| hypothesis.with(*change).both()));
            let found = hypotheses.find(|hypothesis| {
                let tries = case.tries.get();
                let is_found = verifies(case, hypothesis);
                is_one |= case.tries.get() > tries;
                is_found
            });
            if found.is_some() {
                return found;
            }
            if is_one {
                tried.note(words);
            }
        }
        self.find_with_search(case, &keys, tried)
    }

    /// Tries the changes that cost hundreds or thousands of MACs.
    fn find_with_search(
        &mut self,
        case: &Case<'_, '_>,
        keys: &[Hypothesis],
        tried: &mut Tried,
    ) -> Option<Hypothesis> {
        let hypotheses = || keys.iter().flat_map(|hypothesis| hypothesis.both());
        let mut is_cut = false;
        let mut cleared = |counts: Range<usize>, most| {
            hypotheses().find_map(|hypothesis| {
                let (options, is_whole) = find_cleared(case, &hypothesis, counts.clone(), most);
                is_cut |= !is_whole;
                options.map(|options| hypothesis.with(Change::Cleared(options)))
            })
        };
        let may_be_cleared = has_padding(case.segment);
        if may_be_cleared {
            let found = cleared(1..2, usize::MAX);
            if found.is_some() {
                return found;
            }
            tried.note("an option cleared on the path");
        }
        let has_mss = case.segment.flags().syn() && case.option_place(kind::MAXIMUM_SEGMENT_SIZE).is_some();
        let has_parts = case.segment.payload().len() > 1;
        let Some(searches_left) = self.size_searches_left.checked_sub(1) else {
            let cut = [
                (true, "algorithm and form together"),
                (may_be_cleared, "several options cleared on the path"),
                (has_mss, "another MSS"),
                (has_parts, "merged segments"),
            ];
            cut.into_iter().filter(|(is_cut, _)| *is_cut).for_each(|(_, what)| tried.note_left_out(what));
            return None;
        };
        self.size_searches_left = searches_left;
        let pairs = || {
            let of = |algorithm| SecretForm::ALL.map(|form| Change::AlgorithmAndSecret(algorithm, form));
            TcpAoAlgorithm::ALL.into_iter().flat_map(of)
        };
        let mut with_pairs = keys.iter().flat_map(|hypothesis| pairs().map(|pair| hypothesis.with(pair)));
        let found = with_pairs.find_map(|hypothesis| {
            hypothesis.both().into_iter().find(|hypothesis| verifies(case, hypothesis))
        });
        if found.is_some() {
            return found;
        }
        tried.note("algorithm and form together");
        let sizes = case.table.options.limits.sizes;
        if has_mss {
            let mut found = hypotheses().filter_map(|hypothesis| {
                let mss = find_mss(case, &hypothesis, mss_values().take(sizes))?;
                Some(hypothesis.with(Change::Mss(mss)))
            });
            if let Some(found) = found.next() {
                return Some(found);
            }
            tried.note("another MSS");
        }
        if may_be_cleared {
            let found = cleared(2..4, MOST_CLEARED_TRIES.min(sizes));
            if found.is_some() {
                return found;
            }
            match is_cut {
                true => tried.note_left_out("all combinations of cleared options"),
                false => tried.note("up to three options cleared on the path"),
            }
        }
        if has_parts {
            let mut found = hypotheses().filter_map(|hypothesis| {
                Some(hypothesis.with(Change::Merged(find_part(case, &hypothesis, sizes)?)))
            });
            if let Some(found) = found.next() {
                return Some(found);
            }
            tried.note("merged and split segments");
        }
        None
    }
}

/// The changes that cost one MAC each, in groups, each with its name.
fn changes(case: &Case<'_, '_>, keys: &[Hypothesis]) -> Vec<(Cow<'static, str>, Vec<Change>)> {
    let has_cmac = keys.iter().any(|hypothesis| {
        case.table.parameters(hypothesis.candidate).algorithm == TcpAoAlgorithm::Aes128Cmac
    });
    let secrets = || SecretForm::ALL.into_iter();
    let forms = secrets().filter(|form| has_cmac || !form.is_of_kdf).count();
    let hints = case.table.options.nat.len();
    let all_nat = (hints > 1).then_some(Change::Nat(None));
    vec![
        ("the other algorithms".into(), TcpAoAlgorithm::ALL.into_iter().map(Change::Algorithm).collect()),
        (format!("{forms} forms of the secret").into(), secrets().map(Change::Secret).collect()),
        ("other SNEs".into(), SneForm::ALL.into_iter().map(Change::Sne).collect()),
        (
            "the addresses of --nat".into(),
            (0..hints).map(|hint| Change::Nat(Some(hint))).chain(all_nat).collect(),
        ),
        ("the ISNs of --isn".into(), ShiftForm::ALL.into_iter().map(Change::Shift).collect()),
        ("a checksum in the MAC input".into(), ChecksumForm::ALL.into_iter().map(Change::Checksum).collect()),
        ("padding left out or zero".into(), PaddingForm::all().map(Change::Padding).collect()),
        ("other ECN flags".into(), [0, 0x40, 0x80, ECN_FLAGS].map(Change::Ecn).to_vec()),
        ("another window scale".into(), (0..=MAX_WINDOW_SCALE).map(Change::WindowScale).collect()),
    ]
}

/// The most MACs for several options that may have been cleared.
const MOST_CLEARED_TRIES: usize = 20_000;

/// The options that may have been cleared, if these many were, and whether the search was not cut short.
fn find_cleared(
    case: &Case<'_, '_>,
    hypothesis: &Hypothesis,
    counts: Range<usize>,
    most: usize,
) -> (Option<ClearedOptions>, bool) {
    let options = case.options(hypothesis);
    let (OptionCoverage::Covered, Some(key)) = (options, case.key(hypothesis)) else { return (None, true) };
    let sizes: Vec<u16> = mss_values().take(USUAL_SIZES).collect();
    let mut left = most;
    let found = ClearedOptions::find(case.segment, &sizes, counts, |tcp| {
        left = left.checked_sub(1)?;
        Some(case.matches(&key, case.sne, tcp, options))
    });
    (found, left > 0)
}

/// Whether the segment verifies under a hypothesis.
pub(super) fn verifies(case: &Case<'_, '_>, hypothesis: &Hypothesis) -> bool {
    let (tcp, options) = (case.segment.tcp(), case.options(hypothesis));
    let is_covered = options == OptionCoverage::Covered;
    match hypothesis.change {
        Some(Change::Mss(mss)) => return find_mss(case, hypothesis, iter::once(mss)).is_some(),
        Some(Change::Merged(_)) => return find_part(case, hypothesis, 0).is_some(),
        // Only later segments show it.
        Some(Change::Split(_)) => return false,
        Some(Change::Padding(_) | Change::Cleared(_) | Change::WindowScale(_)) if !is_covered => {
            return false;
        }
        _ => {}
    }
    let Some(key) = case.key(hypothesis) else { return false };
    match hypothesis.change {
        Some(Change::Sne(form)) => {
            form.of(case.sne.0).is_some_and(|sne| case.matches(&key, Sne(sne), tcp, options))
        }
        Some(Change::Nat(hint)) => {
            let [source, destination] = case.translated(hint);
            let mut tcp = tcp.to_vec();
            tcp[..2].copy_from_slice(&source.port().to_be_bytes());
            tcp[2..4].copy_from_slice(&destination.port().to_be_bytes());
            case.matches_between((source.address(), destination.address()), &key, case.sne, &tcp, options)
        }
        Some(Change::Shift(form)) => {
            case.shifted(form).is_some_and(|Shifted { sne, sequence, acknowledgment, .. }| {
                let mut tcp = tcp.to_vec();
                tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
                tcp[8..12].copy_from_slice(&acknowledgment.to_be_bytes());
                case.matches(&key, sne, &tcp, options)
            })
        }
        Some(Change::Checksum(form)) => case.matches_input(&key, options, |input| {
            Some(input_with_checksum(form, case.segment, &case.ao, input))
        }),
        Some(Change::Padding(form)) => case.matches_input(&key, options, |input| form.input(input)),
        Some(Change::Cleared(cleared)) => {
            cleared.restored(case.segment).is_some_and(|tcp| case.matches(&key, case.sne, &tcp, options))
        }
        Some(Change::Ecn(flags)) => {
            let mut tcp = tcp.to_vec();
            let recorded = tcp[FLAGS_AT];
            tcp[FLAGS_AT] = recorded & !ECN_FLAGS | flags;
            tcp[FLAGS_AT] != recorded && case.matches(&key, case.sne, &tcp, options)
        }
        Some(Change::WindowScale(scale)) => case.option_place(WINDOW_SCALE).is_some_and(|place| {
            let mut tcp = tcp.to_vec();
            let is_other = tcp[place.start] != scale && place.len() == 1;
            tcp[place.start] = scale;
            is_other && case.matches(&key, case.sne, &tcp, options)
        }),
        _ => case.matches(&key, case.sne, tcp, options),
    }
}

/// How many of [`mss_values`] are those of usual interfaces.
const USUAL_SIZES: usize = 7;

/// The MSS values worth trying. Devices lower the MSS, so the original was higher: up to the 9,216 octets of the largest
/// frames in use, or loopback's 65,535 with or without room for the headers. Those of usual interfaces come first.
fn mss_values() -> impl Iterator<Item = u16> {
    let usual = [1460, 1440, 8960, 8940, u16::MAX - 40, u16::MAX - 60, u16::MAX];
    usual.into_iter().chain(500..=9216)
}

/// The MSS, among these, with which a SYN verifies.
fn find_mss(
    case: &Case<'_, '_>,
    hypothesis: &Hypothesis,
    mut sizes: impl Iterator<Item = u16>,
) -> Option<u16> {
    let options = case.options(hypothesis);
    if !case.segment.flags().syn() || options == OptionCoverage::Excluded {
        return None;
    }
    let (key, place) = (case.key(hypothesis)?, case.option_place(kind::MAXIMUM_SEGMENT_SIZE)?);
    let place = (place.len() == size_of::<u16>()).then_some(place)?;
    let mut tcp = case.segment.tcp().to_vec();
    sizes.find(|size| {
        tcp[place.clone()].copy_from_slice(&size.to_be_bytes());
        case.matches(&key, case.sne, &tcp, options)
    })
}
