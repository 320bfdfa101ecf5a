//! The proof that a plan for a new key loses no segment, and the changes of its steps.
//!
//! Each end accepts the new key before either may sign with it, and the old one until neither does. An end whose implementation has
//! lifetimes changes over by its clock; one that ranks its keys (such as BIRD) needs a separate step. People may take the steps in any
//! order within the times that the plan gives, so the proof simulates every pair of states that the two ends can be in at the same time.

use std::borrow::Cow;

use wireseal_tcp_ao::KeyId;
use zeroize::Zeroizing;

use super::plan::{Action, Plan, PlannedEnd, Span};
use super::{ConfiguredEnd, Side, outages};
use crate::{
    Chain, ChainKey, Changed, Clock, Error, Format, Implementation, KeyFile, Lifetime, Notation, Preference,
    Secret, SendingRule, Timestamp, change,
};

/// A period in which segments may be lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub until: Timestamp,
    /// What happens, and after which steps.
    pub sentence: String,
}

/// Seconds that are simulated after the last step.
const AFTERWARDS: u32 = 86_400;

impl Plan {
    /// The best length for the new key's secret: 32 characters, or as many as both ends accept.
    ///
    /// # Errors
    /// [`Error`] for a format that does not exist.
    pub fn secret_length(&self) -> Result<usize, Error> {
        let mut length = 32;
        for end in &self.ends {
            let most = Implementation::reading(Some(end.format.parse()?)).max_secret();
            length = most.map_or(length, |most| length.min(most));
        }
        Ok(length)
    }

    /// Every period in which segments may be lost, in whatever order the steps are taken; empty if the plan loses none. `files` are
    /// today's, from before the first step.
    ///
    /// # Errors
    /// [`Error`] if the plan is not for these files, or does not make sense.
    pub fn gaps(&self, files: [&KeyFile; 2]) -> Result<Vec<Gap>, Error> {
        let states =
            [self.states(Side::One, files[0], &blank())?, self.states(Side::Other, files[1], &blank())?];
        let implementations = files.map(|file| Implementation::reading(file.format));
        let names = [self.ends[0].name.as_str(), self.ends[1].name.as_str()];
        let last = self.ends.iter().flat_map(|end| &end.steps).map(|step| step.from).max().unwrap_or(self.at);
        let horizon = last.later_by(self.skew_seconds).later_by(AFTERWARDS);
        let mut gaps: Vec<(Gap, _)> = Vec::new();
        for (i, one) in states[0].iter().enumerate() {
            for (j, other) in states[1].iter().enumerate() {
                let spans = [self.span(0, i, horizon), self.span(1, j, horizon)];
                let (from, until) = (spans[0].0.max(spans[1].0), spans[0].1.min(spans[1].1));
                let ends = [
                    ConfiguredEnd { chain: one, implementation: implementations[0] },
                    ConfiguredEnd { chain: other, implementation: implementations[1] },
                ];
                for outage in outages(ends[0], ends[1], self.skew_seconds, from, until) {
                    let sentence = format!(
                        "{} ({} {}, {} {})",
                        outage.sentence(names),
                        names[0],
                        self.ends[0].described(i),
                        names[1],
                        self.ends[1].described(j)
                    );
                    let what = (outage.signer, outage.key, outage.reason);
                    // The same happens in other states, too.
                    if !gaps.iter().any(|(_, known)| *known == what) {
                        gaps.push((Gap { from: outage.from, until: outage.until, sentence }, what));
                    }
                }
            }
        }
        gaps.sort_by_key(|(gap, _)| gap.from);
        Ok(gaps.into_iter().map(|(gap, _)| gap).collect())
    }

    /// The period in which an end may be in the state after this many steps.
    fn span(&self, end: usize, state: usize, horizon: Timestamp) -> (Timestamp, Timestamp) {
        let steps = &self.ends[end].steps;
        let from = if state == 0 { self.made } else { steps[state - 1].from };
        (from, steps.get(state).and_then(|next| next.until).unwrap_or(horizon))
    }

    /// The changes of each step of one end, secrets included. `text` is today's file.
    ///
    /// # Errors
    /// Those of [`change`](crate::change()), and [`Error`] if the plan is not for this file or the end cannot have the key.
    pub fn changes(
        &self,
        side: Side,
        file: &KeyFile,
        text: &str,
        secret: &Secret,
    ) -> Result<Vec<Changed>, Error> {
        let index = self.ends[side as usize].today(file)?;
        let states = self.states(side, file, secret)?;
        states.windows(2).map(|step| change(file, text, index, &step[0], &step[1])).collect()
    }

    /// The chain of one end today and after each step.
    pub(super) fn states(&self, side: Side, file: &KeyFile, secret: &Secret) -> Result<Vec<Chain>, Error> {
        let end = &self.ends[side as usize];
        let today = &file.chains[end.today(file)?];
        let format = file.format.unwrap_or(Format::Toml);
        let implementation = Implementation::reading(Some(format));
        let has_ranks = implementation.sending() == SendingRule::Rank;
        let actions: Vec<_> = end.steps.iter().map(|step| step.action).collect();
        let expected: &[_] = if has_ranks {
            &[Action::Add, Action::Prefer, Action::Remove]
        } else {
            &[Action::Add, Action::Remove]
        };
        if actions != expected {
            let names: Vec<_> = expected.iter().map(|action| action.name()).collect();
            return Err(end.refused(format!("{format} has the steps {}", names.join(", "))));
        }
        // A state that no moment belongs to would be proved without being simulated.
        let mut begins = self.made;
        for step in &end.steps {
            begins = begins.max(step.from);
            if step.until.is_some_and(|until| until <= begins) {
                let name = step.action.name();
                return Err(
                    end.refused(format!("there is no time for the step {name:?}, which begins at {begins}"))
                );
            }
        }
        if today.keys.iter().any(|key| key.key_id == end.new.key_id) {
            return Err(end.refused(format!("its chain has a key {} already", end.new.key_id)));
        }
        let mut added = Chain { accept_tolerance: end.tolerance_seconds, ..today.clone() };
        let mut options = None;
        for old in &end.old {
            let Some(key) = added.keys.iter_mut().find(|key| key.key_id == old.key_id) else {
                return Err(end.refused(format!("its chain has no key {}", old.key_id)));
            };
            (key.send, key.accept) = (end.lifetime(old.send)?, end.lifetime(old.accept)?);
            options = Some(key.options);
        }
        let key = ChainKey {
            position: None,
            key_id: end.new.key_id,
            send_id: KeyId(end.new.send_id),
            recv_id: KeyId(end.new.recv_id),
            algorithm: self.algorithm.0,
            mac_length: self.mac_length,
            options: options.ok_or_else(|| end.refused("there is no old key"))?,
            secret: secret.clone(),
            send: end.lifetime(end.new.send)?,
            accept: end.lifetime(end.new.accept)?,
            clock: Clock::Utc,
            preference: match () {
                () if has_ranks => Preference::Deprecated,
                // The new key takes over: until it is valid for sending, lifetimes decide.
                () if added.preferred().is_some() => Preference::Preferred,
                () => Preference::Ordinary,
            },
        };
        let reasons = [implementation.refusals(&key), implementation.objections(&key)].concat();
        if let Some(reason) = reasons.first() {
            return Err(end.refused(format!("{implementation} {reason}")));
        }
        if !has_ranks {
            added.keys.iter_mut().for_each(|key| key.preference = Preference::Ordinary);
        }
        // Of keys with one rank, the first is used.
        added.keys.insert(if has_ranks { 0 } else { added.keys.len() }, key);
        let mut states = vec![today.clone(), added];
        if has_ranks {
            let mut preferred = states[1].clone();
            for key in &mut preferred.keys {
                if key.key_id == end.new.key_id {
                    key.preference = Preference::Preferred;
                } else if key.preference == Preference::Preferred {
                    key.preference = Preference::Ordinary;
                }
            }
            states.push(preferred);
        }
        let mut removed = states[states.len() - 1].clone();
        removed.keys.retain(|key| end.old.iter().all(|old| old.key_id != key.key_id));
        states.push(removed);
        for state in &mut states[1..] {
            *state = format.as_written(state)?;
        }
        let first = states[1].keys.iter().min_by_key(|key| key.preference);
        if has_ranks && first.is_some_and(|key| key.key_id == end.new.key_id) {
            let why = format!(
                "no neighbor in its file uses the chain {:?}, and {implementation} ranks keys only for neighbors",
                end.chain
            );
            return Err(end.refused(why));
        }
        Ok(states)
    }
}

impl PlannedEnd {
    /// The index of its chain in today's file.
    fn today(&self, file: &KeyFile) -> Result<usize, Error> {
        let format = file.format.unwrap_or(Format::Toml);
        if format.name() != self.format {
            return Err(self.refused(format!("the plan is for {}, and the file is {format}", self.format)));
        }
        chain_of(file, &self.chain).map_err(|why| self.refused(why))
    }

    fn lifetime(&self, span: Span) -> Result<Lifetime, Error> {
        Lifetime::new(span.from, span.until).map_err(|error| self.refused(error.to_string()))
    }

    fn refused(&self, why: impl Into<Cow<'static, str>>) -> Error {
        let why: Cow<'static, str> = why.into();
        Error::text(format!("{}: {why}", self.name))
    }

    /// The state after this many steps, in words.
    fn described(&self, steps: usize) -> String {
        match steps.checked_sub(1).and_then(|last| self.steps.get(last)) {
            None => "before its first step".to_owned(),
            Some(step) => format!("after the step {:?}", step.action.name()),
        }
    }
}

/// A placeholder for the new key's secret, where its value does not matter.
pub(super) fn blank() -> Secret {
    Secret::new(Zeroizing::new(vec![b'k'; 32]), Notation::Text)
}

/// The index of the chain of this name, or why there is none.
fn chain_of(file: &KeyFile, name: &str) -> Result<usize, String> {
    let mut found = file.chains.iter().enumerate().filter(|(_, chain)| chain.name == name);
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        (None, _) => Err(format!("has no chain {name:?}")),
        _ => Err(format!("has two chains {name:?}: give each its own name")),
    }
}
