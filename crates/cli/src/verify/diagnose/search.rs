//! The search for a hypothesis under which a segment verifies.

use std::iter;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::Sne;

use super::case::Case;
use super::checksum::{self, ChecksumForm};
use super::hypothesis::{Change, Hypothesis, Relation, SneForm};
use super::secret::SecretForm;
use super::{mss, offload};
use crate::verify::connection::TcpConnection;
use crate::verify::options::SearchLimits;

/// With how many keys that a segment does not name other changes are tried as well.
const OTHER_KEYS_CHANGED: usize = 8;
/// How many different explanations are remembered.
const KNOWN: usize = 16;

/// What the diagnoses of all connections share.
#[derive(Debug)]
pub(in crate::verify) struct Search {
    /// What has explained segments.
    known: Vec<Hypothesis>,
    searches_left: u32,
    size_searches_left: u32,
}

impl Search {
    pub(in crate::verify) const fn new(limits: &SearchLimits) -> Self {
        let SearchLimits { searches, size_searches, .. } = *limits;
        Self { known: Vec::new(), searches_left: searches, size_searches_left: size_searches }
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

    /// The first hypothesis under which a segment verifies, likely and cheap ones first.
    pub(super) fn find(&mut self, case: &Case<'_, '_>) -> Option<Hypothesis> {
        self.searches_left -= 1;
        let found = self.find_in_order(case)?;
        if self.known.len() < KNOWN && !self.known.iter().any(|known| known.is_like(&found)) {
            self.known.push(found);
        }
        Some(found)
    }

    fn find_in_order(&mut self, case: &Case<'_, '_>) -> Option<Hypothesis> {
        let named = || case.keys(Relation::Named);
        let others = || case.keys(Relation::Exchanged).chain(case.keys(Relation::Other));
        let flipped = named().map(|hypothesis| hypothesis.both()[1]);
        let mut unchanged = named().chain(flipped).chain(others().flat_map(Hypothesis::both));
        if let Some(found) = unchanged.find(|hypothesis| verifies(case, hypothesis)) {
            return Some(found);
        }
        let mut keys: Vec<_> = named().collect();
        if keys.is_empty() {
            keys.extend(others().take(OTHER_KEYS_CHANGED));
        }
        let mut changed = keys
            .iter()
            .flat_map(|hypothesis| changes(case).map(|change| hypothesis.with(change)))
            .flat_map(Hypothesis::both);
        if let Some(found) = changed.find(|hypothesis| verifies(case, hypothesis)) {
            return Some(found);
        }
        self.size_searches_left = self.size_searches_left.checked_sub(1)?;
        keys.into_iter().flat_map(Hypothesis::both).find_map(|hypothesis| find_size(case, &hypothesis))
    }
}

/// The changes that take one MAC each.
fn changes(case: &Case<'_, '_>) -> impl Iterator<Item = Change> {
    let algorithms = TcpAoAlgorithm::ALL.into_iter().map(Change::Algorithm);
    let secrets = SecretForm::ALL.into_iter().map(Change::Secret);
    let snes = SneForm::ALL.into_iter().map(Change::Sne);
    let hints = case.table.options.nat.len();
    let nat = (0..hints).map(|hint| Change::Nat(Some(hint)));
    let all_nat = (hints > 1).then_some(Change::Nat(None));
    let checksums = ChecksumForm::ALL.into_iter().map(Change::Checksum);
    algorithms.chain(secrets).chain(snes).chain(nat).chain(all_nat).chain(checksums)
}

/// The changes that take thousands.
fn find_size(case: &Case<'_, '_>, hypothesis: &Hypothesis) -> Option<Hypothesis> {
    let sizes = case.table.options.limits.sizes;
    let mss = mss::find(case, hypothesis, mss::all().take(sizes)).map(Change::Mss);
    let change = mss.or_else(|| offload::find_part(case, hypothesis, sizes).map(Change::Merged))?;
    Some(hypothesis.with(change))
}

/// Whether the segment verifies under a hypothesis.
pub(super) fn verifies(case: &Case<'_, '_>, hypothesis: &Hypothesis) -> bool {
    let (tcp, options) = (case.segment.tcp(), case.options(hypothesis));
    match hypothesis.change {
        Some(Change::Mss(mss)) => return mss::find(case, hypothesis, iter::once(mss)).is_some(),
        Some(Change::Merged(_)) => return offload::find_part(case, hypothesis, 0).is_some(),
        // Known only from the segments that follow.
        Some(Change::Split(_)) => return false,
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
        Some(Change::Checksum(form)) => {
            case.count_try() && checksum::verifies(form, &key, case.sne, case.segment, &case.ao, options)
        }
        _ => case.matches(&key, case.sne, tcp, options),
    }
}
