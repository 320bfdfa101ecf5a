//! What `keys diff` found about the two ends of a session, as text, JSON and a page.

pub(crate) mod json;
pub(crate) mod picture;
pub(crate) mod text;

use std::path::Path;

use wireseal_keys::{
    ChainKey, Clock, Difference, Disagreement, KeyFile, Lifetime, Meeting, Outage, Pair, Reason, Relation,
    Remark, Timestamp, Weight, compare, outages, pairs,
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
        let mut findings = compare(meeting.ends, [&names[0], &names[1]], skew_seconds, [now, until]);
        findings.extend(meeting.strangers(files, [&names[0], &names[1]]));
        for (side, file) in files.iter().enumerate() {
            findings.extend(file.remarks.iter().map(|remark| {
                let mut subjects = [None, None];
                subjects[side] = Some((String::new(), remark.position));
                let sentence = remark.sentence.clone().into_owned();
                Disagreement { weight: remark.weight, kind: remark.kind, subjects, sentence }
            }));
        }
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
            () if !self.doubts().is_empty() => Answer::NotJudged,
            () => Answer::Works,
        }
    }

    /// Why the files do not show everything.
    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let both = self.pairs.iter().filter_map(Pair::both);
        let window = Lifetime::new(Some(self.now), Some(self.until)).unwrap_or_default();
        let is_used = |key: &ChainKey| key.clock == Clock::Local || key.send.overlaps(&window);
        let unknown = both.filter(|[one, other]| {
            !Difference::can_compare_secrets(one, other) && (is_used(one) || is_used(other))
        });
        let unknown: Vec<_> = unknown.map(|[one, _]| self.meeting.ends[0].chain.name_of(one)).collect();
        if !unknown.is_empty() {
            doubts.push(format!(
                "the secrets of {} are encrypted, so they are not compared",
                unknown.join(", ")
            ));
        }
        for (side, file) in self.files.iter().enumerate() {
            // A setting that only a conversion loses is understood. Remarks about no chain in particular are mostly about others.
            let of_chain =
                self.meeting.ends[side].chain.remarks.iter().filter(|remark| remark.kind != "local-time");
            let of_file =
                file.remarks.iter().filter(|remark| ["not-understood", "left-out"].contains(&remark.kind));
            // The older option is another one than TCP-AO, whatever the keys are.
            let is_understood =
                |remark: &Remark| remark.is_lost && !["left-out", "older-option"].contains(&remark.kind);
            let is_doubt = |remark: &&Remark| remark.weight == Weight::Warning && !is_understood(remark);
            let end = self.meeting.ends[side];
            let is_refused = |key: &ChainKey| !end.implementation.refusals_at_home(key).is_empty();
            let is_stranger = |finding: &Disagreement| {
                ["not-used", "other-neighbors"].contains(&finding.kind) && finding.subjects[side].is_some()
            };
            if of_chain.chain(of_file).any(|remark| is_doubt(&remark))
                || end.chain.keys.iter().any(is_refused)
                || self.findings.iter().any(is_stranger)
            {
                doubts.push(format!(
                    "{} may do otherwise than its keys say: see the warnings",
                    self.names[side]
                ));
            }
        }
        doubts
    }

    /// The answer in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let doubts = self.doubts();
        let as_far = if doubts.is_empty() { "" } else { "as far as the files show, " };
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
                    Self::span(together(&self.outages)[0])
                };
                format!(
                    "{works} while both clocks are right, but may fail {when} {skew}: {}",
                    self.said(possible)
                )
            }
            (Some(first), _) if first.from <= self.now => {
                let until = match together(&self.certain)[0][1] {
                    until if until < self.until => format!(" until {until}"),
                    _ => String::new(),
                };
                format!("the session {does} not work now{until}: {}", self.said(first))
            }
            (Some(first), _) => {
                format!(
                    "{works} now; {} it {does} not: {}",
                    Self::span(together(&self.certain)[0]),
                    self.said(first)
                )
            }
        };
        for doubt in doubts {
            sentence += "; ";
            sentence += &doubt;
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
        self.meeting.ends.into_iter().flat_map(|end| &end.chain.keys).any(ChainKey::depends_on_local_time)
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

/// The periods of outages that are in order of start, joined where they overlap or touch.
fn together(outages: &[Outage]) -> Vec<[Timestamp; 2]> {
    let mut joined: Vec<[Timestamp; 2]> = Vec::new();
    for outage in outages {
        match joined.last_mut() {
            Some([_, until]) if outage.from <= *until => *until = outage.until.max(*until),
            _ => joined.push([outage.from, outage.until]),
        }
    }
    joined
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

#[cfg(test)]
mod tests {
    use wireseal_keys::{Format, meet, read};

    use super::*;

    /// The keys of one end, the second from July on.
    fn file([first, second]: [[u8; 2]; 2]) -> KeyFile {
        let key = |[send, recv]: [u8; 2], lifetime: &str| {
            format!(
                "[[key-chain.key]]\nsend-id = {send}\nrecv-id = {recv}\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"the secret \
                 of both ends\"\nsend = {{ {lifetime} = 2026-07-01T00:00:00Z }}\n"
            )
        };
        let keys = key(first, "until") + &key(second, "from");
        let text = format!("[[key-chain]]\nname = \"core\"\naccept-tolerance = 600\n{keys}");
        read(Path::new("keys.toml"), &text, Some(Format::Toml)).unwrap()
    }

    #[track_caller]
    fn assert_answer(files: [&KeyFile; 2], answer: Answer, sentence: &str) {
        let paths = ["a.toml", "b.toml"].map(Path::new);
        let now = "2026-06-01T00:00:00Z".parse().unwrap();
        let ends = Ends::new(paths, files, meet(files, None).unwrap(), 5, [now, Timestamp::MAX]);
        assert_eq!((ends.answer(), ends.sentence().as_str()), (answer, sentence));
    }

    #[test]
    fn local_times_may_be_others() {
        let [mut one, other] = [file([[1, 2], [3, 4]]), file([[2, 1], [4, 3]])];
        let works =
            "the session works from 2026-06-01T00:00:00Z on, also if the clocks differ by up to 5 minutes";
        assert_answer([&one, &other], Answer::Works, works);
        one.chains[0].keys.iter_mut().for_each(|key| key.clock = Clock::Local);
        assert_answer(
            [&one, &other],
            Answer::Fails,
            "the session works now; from 2026-06-30T10:00:00Z until 2026-07-01T14:00:00Z it may not: a signs with core/3, which b \
             does not accept (as core/4) before 2026-06-30T23:50:00Z",
        );
        one.set_utc_offset(0);
        assert_answer([&one, &other], Answer::Works, works);
    }

    #[test]
    fn what_the_reader_does_not_understand_is_not_called_good() {
        let [one, mut other] = [file([[1, 2], [3, 4]]), file([[2, 1], [4, 3]])];
        let remark = |kind, weight, is_lost| Remark {
            weight,
            kind,
            key_id: None,
            position: None,
            sentence: "is odd".into(),
            is_lost,
        };
        for (kind, weight, is_lost) in [
            ("refused", Weight::Note, false),
            ("accepts-mismatch", Weight::Warning, true),
            ("local-time", Weight::Warning, false),
        ] {
            other.chains[0].remarks = vec![remark(kind, weight, is_lost)];
            let works = "the session works from 2026-06-01T00:00:00Z on, also if the clocks differ by up to 5 minutes";
            assert_answer([&one, &other], Answer::Works, works);
        }
        let doubtful = "as far as the files show, the session works from 2026-06-01T00:00:00Z on, also if the clocks differ by up \
                        to 5 minutes; b may do otherwise than its keys say: see the warnings";
        other.chains[0].remarks = vec![remark("refused", Weight::Warning, false)];
        assert_answer([&one, &other], Answer::NotJudged, doubtful);
        other.chains[0].remarks = vec![remark("older-option", Weight::Warning, true)];
        assert_answer([&one, &other], Answer::NotJudged, doubtful);
        other.chains[0].remarks.clear();
        other.remarks = vec![remark("not-understood", Weight::Warning, false)];
        assert_answer([&one, &other], Answer::NotJudged, doubtful);
        other.remarks = vec![remark("not-in-use", Weight::Warning, false)];
        let works =
            "the session works from 2026-06-01T00:00:00Z on, also if the clocks differ by up to 5 minutes";
        assert_answer([&one, &other], Answer::Works, works);
    }
}
