//! What `keys diff` found about the two ends of a session, as text, JSON and a page.

pub(crate) mod json;
pub(crate) mod picture;
pub(crate) mod text;

use std::path::Path;

use wireseal_keys::{
    ChainKey, Clock, Difference, Disagreement, KeyFile, Lifetime, Meeting, Outage, Pair, Reason, Relation,
    Timestamp, compare, outages, pairs,
};

/// The two ends of a session, compared.
pub(crate) struct Ends<'a> {
    /// The names of the ends in sentences.
    pub(crate) names: [String; 2],
    pub(crate) paths: [&'a Path; 2],
    pub(crate) files: [&'a KeyFile; 2],
    pub(crate) meeting: Meeting<'a>,
    pub(crate) pairs: Vec<Pair<'a>>,
    pub(crate) findings: Vec<Disagreement>,
    /// All outages if the clocks differ by no more than the skew.
    pub(crate) outages: Vec<Outage>,
    /// Those that are there even if both clocks are right.
    certain: Vec<Outage>,
    pub(crate) now: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) skew_minutes: u32,
}

/// Whether the session works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// All the time.
    Works,
    /// Nothing is wrong, but not everything was compared.
    NotJudged,
    /// Not all the time.
    Fails,
}

impl<'a> Ends<'a> {
    /// Compares what meets, from `now` on; [`Timestamp::MAX`] is no end.
    pub(crate) fn new(
        paths: [&'a Path; 2],
        files: [&'a KeyFile; 2],
        meeting: Meeting<'a>,
        skew_minutes: u32,
        [now, until]: [Timestamp; 2],
    ) -> Self {
        let [one, other] = meeting.ends;
        let skew_seconds = skew_minutes.saturating_mul(60);
        let names = names(paths);
        let findings = compare(meeting.ends, [&names[0], &names[1]], skew_seconds, [now, until]);
        Self {
            names,
            paths,
            files,
            meeting,
            pairs: pairs(meeting.ends.map(|end| end.chain)),
            findings,
            outages: outages(one, other, skew_seconds, now, until),
            certain: outages(one, other, 0, now, until),
            now,
            until,
            skew_minutes,
        }
    }

    pub(crate) fn answer(&self) -> Answer {
        match () {
            () if !self.outages.is_empty() => Answer::Fails,
            () if self.not_compared().next().is_some() => Answer::NotJudged,
            () => Answer::Works,
        }
    }

    /// The names of the keys whose secrets are not compared, because a router encrypted them.
    fn not_compared(&self) -> impl Iterator<Item = String> {
        let both = self.pairs.iter().filter_map(Pair::both);
        let unknown = both.filter(|[one, other]| !Difference::can_compare_secrets(one, other));
        unknown.map(|[one, _]| self.meeting.ends[0].chain.name_of(one))
    }

    /// The answer in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let unknown: Vec<_> = self.not_compared().collect();
        let as_far = if unknown.is_empty() { "" } else { "as far as the files show, " };
        let skew = format!("if the clocks differ by up to {} minutes", self.skew_minutes);
        let works = format!("{as_far}the session works");
        // Local times and skewed clocks only may cause an outage.
        let does = if self.is_local() { "may" } else { "does" };
        let mut sentence = match (self.certain.first(), self.outages.first()) {
            (None, None) => {
                let span = match self.until {
                    Timestamp::MAX => format!("from {} on", self.now),
                    until => format!("from {} until {until}", self.now),
                };
                format!("{works} {span}, also {skew}")
            }
            (None, Some(possible)) => {
                let when = if possible.from <= self.now {
                    "now".to_owned()
                } else {
                    Self::span(joined(&self.outages))
                };
                format!(
                    "{works} while both clocks are right, but may fail {when} {skew}: {}",
                    self.said(possible)
                )
            }
            (Some(first), _) if first.from <= self.now => {
                let until = match joined(&self.certain)[1] {
                    until if until < self.until => format!(" until {until}"),
                    _ => String::new(),
                };
                format!("the session {does} not work now{until}: {}", self.said(first))
            }
            (Some(first), _) => {
                format!(
                    "{works} now; {} it {does} not: {}",
                    Self::span(joined(&self.certain)),
                    self.said(first)
                )
            }
        };
        if !unknown.is_empty() {
            sentence +=
                &format!("; the secrets of {} are encrypted, so they are not compared", unknown.join(", "));
        }
        sentence
    }

    /// An outage in words.
    pub(crate) fn said(&self, outage: &Outage) -> String {
        outage.sentence([&self.names[0], &self.names[1]])
    }

    /// When something is, in words.
    pub(crate) fn span([from, until]: [Timestamp; 2]) -> String {
        match until {
            Timestamp::MAX => format!("from {from} on"),
            until => format!("from {from} until {until}"),
        }
    }

    /// Whether it is there even if both clocks are right.
    pub(crate) fn is_certain(&self, outage: &Outage) -> bool {
        let is_timed = matches!(outage.reason, Reason::NoKey | Reason::NotYet(..) | Reason::NoLonger(..));
        let is_same = |other: &Outage| {
            let what = |outage: &Outage| (outage.signer, outage.key.clone(), outage.reason.clone());
            what(other) == what(outage) && other.from < outage.until && outage.from < other.until
        };
        !(is_timed && self.is_local()) && self.certain.iter().any(is_same)
    }

    /// Whether lifetimes of an end are in its local time.
    fn is_local(&self) -> bool {
        let keys = self.meeting.ends.into_iter().flat_map(|end| &end.chain.keys);
        keys.into_iter().any(|key| {
            let is_bounded = [key.send, key.accept].iter().any(|lifetime| *lifetime != Lifetime::ALWAYS);
            key.clock == Clock::Local && is_bounded
        })
    }

    /// The fields in which the keys of a pair differ.
    pub(crate) fn differs(pair: &Pair<'_>) -> Vec<&'static str> {
        let ids = match pair.relation {
            Relation::Crossed => None,
            Relation::NotCrossed => Some("ids-not-crossed"),
            Relation::OneWay | Relation::Secret => Some("ids"),
            Relation::Alone => Some("no-counterpart"),
        };
        let fields = pair.both().map(|[one, other]| Difference::between(one, other)).unwrap_or_default();
        ids.into_iter().chain(fields.into_iter().map(Difference::kind)).collect()
    }

    /// The keys of a pair that are there, with the place of their end.
    pub(crate) fn keys_of<'p>(pair: &'p Pair<'a>) -> impl Iterator<Item = (usize, &'a ChainKey)> + 'p {
        pair.keys.iter().enumerate().filter_map(|(side, key)| Some((side, (*key)?)))
    }
}

/// From the first outage to the end of the last one that touches those before it.
fn joined(outages: &[Outage]) -> [Timestamp; 2] {
    let mut outages = outages.iter().map(|outage| [outage.from, outage.until]);
    let first = outages.next().unwrap_or([Timestamp::MAX; 2]);
    outages
        .fold(first, |[from, until], next| [from, if next[0] <= until { until.max(next[1]) } else { until }])
}

/// The names of two ends: those of their files without the extension if these differ.
fn names(paths: [&Path; 2]) -> [String; 2] {
    let short = paths.map(|path| path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned());
    let long = paths.map(|path| path.display().to_string());
    match () {
        () if short[0] != short[1] => short,
        () if long[0] != long[1] => long,
        () => ["the first end", "the second end"].map(str::to_owned),
    }
}
