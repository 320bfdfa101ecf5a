//! Planning a new key: its ids, its lifetimes at each end, and the steps.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::Path;

use wireseal_algorithms::TcpAoAlgorithm;

use super::plan::{Action, Plan, PlannedEnd, PlannedKey, Span, Step, TcpAoAlgorithmName};
use super::roll::blank;
use super::{Relation, Side, meet, pairs};
use crate::{
    Chain, ChainKey, Clock, Error, Format, Implementation, KeyFile, Lifetime, SendingRule, Timestamp,
};

/// What a plan has to achieve.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The present time.
    pub now: Timestamp,
    /// When to change over.
    pub at: Timestamp,
    /// For how many seconds both keys may be used.
    pub overlap_seconds: u32,
    /// By how many seconds the clocks may differ.
    pub skew_seconds: u32,
    /// The new key's algorithm; `None` for that of the old one.
    pub algorithm: Option<TcpAoAlgorithm>,
}

/// Today's file of one end.
#[derive(Clone, Copy, Debug)]
pub struct Today<'a> {
    /// The end's name in messages.
    pub name: &'a str,
    /// The path of the file.
    pub path: &'a str,
    /// The SHA-256 digest of the file, in hexadecimal.
    pub sha256: &'a str,
    /// What was read from it.
    pub file: &'a KeyFile,
}

impl Today<'_> {
    fn format(&self) -> Format {
        self.file.format.unwrap_or(Format::Toml)
    }

    fn refused(&self, why: impl Into<Cow<'static, str>>) -> Error {
        Error::text(why).in_file(Path::new(self.path))
    }
}

impl Plan {
    /// Plans a new key, with ids that are free at both ends, for the chains that [`meet`] finds by these names. [`Self::gaps`] says whether
    /// the plan loses segments.
    ///
    /// # Errors
    /// Those of [`meet`], and [`Error`] if the two have no key in common that is valid for signing at the
    /// moment of the change, if no id is free, or if an end cannot have such a key.
    pub fn new(ends: [Today<'_>; 2], names: Option<&str>, wish: Wish) -> Result<Self, Error> {
        let add_until = wish.at.earlier_by(wish.skew_seconds);
        if add_until <= wish.now {
            let earliest = wish.now.later_by(wish.skew_seconds);
            return Err(Error::text(format!(
                "the change at {} leaves no time for the first step: choose a moment well after {earliest}",
                wish.at
            )));
        }
        let chains = meet(ends.map(|end| end.file), names)?.ends.map(|end| end.chain);
        for (end, chain) in ends.iter().zip(chains) {
            if let Some(key) = chain.keys.iter().find(|key| key.clock == Clock::Local) {
                let why = format!(
                    "key {} has lifetimes in the router's local time, so moments cannot be planned: write them in UTC",
                    chain.name_of(key)
                );
                return Err(end.refused(why));
            }
        }
        let common = pairs(chains).into_iter().filter(|pair| pair.relation == Relation::Crossed);
        let common = common.filter_map(|pair| pair.both());
        let is_old = |keys: &[&ChainKey; 2]| keys.iter().all(|key| key.send.contains(wish.at));
        let old: Vec<_> = common.filter(is_old).collect();
        // The one in use, as far as the first end decides.
        let in_use = old.iter().min_by_key(|[one, _]| (one.preference, Reverse(one.send.from())));
        let Some(&[one, other]) = in_use else {
            let why = format!(
                "{} and {} have no key in common that is valid for signing at {}",
                ends[0].name, ends[1].name, wish.at
            );
            return Err(Error::text(why));
        };
        let algorithm = wish.algorithm.unwrap_or(one.algorithm);
        let mac_length =
            if algorithm == one.algorithm { one.mac_length } else { algorithm.default_mac_length() };
        let [send_id, recv_id] = free_ids(ends, chains, one)?;
        let plan_end = |end: usize, present: &ChainKey, ids: [u8; 2]| {
            let old = old.iter().map(|keys| keys[end]);
            PlannedEnd::new(&ends[end], chains[end], old, present, ids, wish)
        };
        let plan = Self {
            schema: 1,
            made: wish.now,
            at: wish.at,
            overlap_seconds: wish.overlap_seconds,
            skew_seconds: wish.skew_seconds,
            algorithm: TcpAoAlgorithmName(algorithm),
            mac_length,
            ends: [plan_end(0, one, [send_id, recv_id])?, plan_end(1, other, [recv_id, send_id])?],
        };
        plan.with_tolerances(ends.map(|end| end.file))
    }

    /// Raises the tolerance of an end that could otherwise not accept the new key before its peer may sign with it.
    fn with_tolerances(mut self, files: [&KeyFile; 2]) -> Result<Self, Error> {
        let early = self.at.earlier_by(self.skew_seconds);
        for side in Side::BOTH {
            let added = &self.states(side, files[side as usize], &blank())?[1];
            let number = self.ends[side as usize].new.key_id;
            let is_early = |key: &&ChainKey| key.key_id == number && added.acceptance(key).contains(early);
            if !added.keys.iter().any(|key| is_early(&key)) {
                self.ends[side as usize].tolerance_seconds = self.skew_seconds;
            }
        }
        Ok(self)
    }
}

impl PlannedEnd {
    fn new<'k>(
        end: &Today<'_>,
        chain: &Chain,
        old: impl Iterator<Item = &'k ChainKey>,
        present: &ChainKey,
        [send_id, recv_id]: [u8; 2],
        wish: Wish,
    ) -> Result<Self, Error> {
        let format = end.format();
        let is_one = format.has_one_lifetime();
        let has_ranks = Implementation::reading(Some(format)).sending() == SendingRule::Rank;
        let over = wish.at.later_by(wish.overlap_seconds);
        let planned = |key: &ChainKey| PlannedKey {
            key_id: key.key_id,
            send_id: key.send_id.0,
            recv_id: key.recv_id.0,
            send: if has_ranks { key.send.into() } else { ended(key.send, over) },
            // It is accepted until it is removed, so that the status of this end tells whether the peer still uses it.
            accept: if is_one && !has_ranks { ended(key.accept, over) } else { key.accept.into() },
        };
        let number = free_number(chain, present, send_id, format.max_key_id());
        let [send, accept] = match (has_ranks, format.has_one_start()) {
            (true, _) => [Lifetime::ALWAYS; 2],
            (false, true) => [Lifetime::starting(wish.at); 2],
            (false, false) => [wish.at, wish.at.earlier_by(wish.skew_seconds)].map(Lifetime::starting),
        };
        let step = |action, from, until| Step { action, from, until };
        let mut steps = vec![step(Action::Add, wish.now, Some(wish.at.earlier_by(wish.skew_seconds)))];
        if has_ranks {
            steps.push(step(Action::Prefer, wish.at, Some(over)));
        }
        steps.push(step(Action::Remove, over.later_by(wish.skew_seconds), None));
        Ok(Self {
            name: end.name.to_owned(),
            file: end.path.to_owned(),
            sha256: end.sha256.to_owned(),
            format: format.name().to_owned(),
            chain: chain.name.clone(),
            neighbors: chain.neighbors.iter().map(ToString::to_string).collect(),
            tolerance_seconds: chain.accept_tolerance,
            old: old.map(planned).collect(),
            new: PlannedKey {
                key_id: number.ok_or_else(|| end.refused("its chain has no number left for a key"))?,
                send_id,
                recv_id,
                send: send.into(),
                accept: accept.into(),
            },
            steps,
        })
    }
}

/// The lifetime, ending at this moment at the latest.
fn ended(lifetime: Lifetime, at: Timestamp) -> Span {
    Span { until: Some(lifetime.until().map_or(at, |until| until.min(at))), ..lifetime.into() }
}

/// A free number for a key of the chain: its SendID if the numbers of all others are their SendIDs, or else the next one after the present
/// key's.
fn free_number(chain: &Chain, present: &ChainKey, send_id: u8, most: u64) -> Option<u64> {
    let used: HashSet<_> = chain.keys.iter().map(|key| key.key_id).collect();
    let send_id = u64::from(send_id);
    if send_id <= most
        && !used.contains(&send_id)
        && chain.keys.iter().all(|key| key.key_id == u64::from(key.send_id.0))
    {
        return Some(send_id);
    }
    let next = present.key_id.checked_add(1).filter(|next| *next <= most).unwrap_or(0);
    // One more number than there are keys is enough to find one that is free.
    let candidates = (next..=most).chain(0..=most).take(2 * used.len() + 2);
    candidates.into_iter().find(|number| !used.contains(number))
}

/// A SendID and a RecvID for the first end that no key of either end's sessions uses as either: one id for both directions if the present
/// key has one, or if an end requires it.
fn free_ids(ends: [Today<'_>; 2], chains: [&Chain; 2], present: &ChainKey) -> Result<[u8; 2], Error> {
    let mut used = HashSet::new();
    for (end, chain) in ends.iter().zip(chains) {
        let shares =
            |other: &&Chain| other.neighbors.iter().any(|neighbor| chain.neighbors.contains(neighbor));
        let others = end.file.chains.iter().filter(shares).chain([chain]);
        used.extend(others.flat_map(|chain| &chain.keys).flat_map(|key| [key.send_id.0, key.recv_id.0]));
    }
    let limits = ends.map(|end| end.format().ids());
    let most = limits[0].0.min(limits[1].0);
    let is_one = present.send_id == present.recv_id || limits.iter().any(|(_, is_one)| *is_one);
    let mut next = |after: u8| {
        let id = (after.saturating_add(1)..=most).chain(0..=most).find(|id| !used.contains(id))?;
        used.insert(id);
        Some(id)
    };
    let found = next(present.send_id.0)
        .and_then(|send| Some([send, if is_one { send } else { next(present.recv_id.0)? }]));
    found.ok_or_else(|| Error::text(format!("no id from 0 to {most} is free at both ends")))
}
