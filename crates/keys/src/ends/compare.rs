//! How the configurations of a session's two ends differ, and what follows from that.

use super::pair::{Pair, Relation, pairs};
use super::{ConfiguredEnd, Difference};
use wireseal_tcp_ao::OptionCoverage;

use crate::{ChainKey, Clock, Lifetime, Position, SendingRule, Timestamp, Weight, hexadecimal};

/// A finding about the two ends of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disagreement {
    /// How serious it is.
    pub weight: Weight,
    /// Its kind, as `keys diff --json` spells it, such as `ids-not-crossed`.
    pub kind: &'static str,
    /// The key or chain that it is about at each end: its name and its place in the text. `None` for an end that it is not about.
    pub subjects: [Option<(String, Option<Position>)>; 2],
    /// The finding as a sentence, with the names of the ends.
    pub sentence: String,
}

/// Compares the chains of two ends, field by field. [`outages()`](super::outages()) says whether the session works. `names` are the names
/// of the ends; `from` and `until` bound the period that matters.
#[must_use]
pub fn compare(
    ends: [ConfiguredEnd<'_>; 2],
    names: [&str; 2],
    skew_seconds: u32,
    [from, until]: [Timestamp; 2],
) -> Vec<Disagreement> {
    let window = Lifetime::new(Some(from), Some(until)).unwrap_or_default();
    let mut report = Report { ends, names, found: Vec::new() };
    for pair in pairs(ends.map(|end| end.chain)) {
        report.ids(&pair);
        if let Some(keys) = pair.both() {
            report.fields(keys);
            report.lifetimes(keys, skew_seconds, window);
        } else {
            report.alone(&pair, window);
        }
        if pair.relation != Relation::Crossed {
            report.impossible(&pair);
        }
    }
    report.tolerance();
    report.sending(window);
    for side in 0..2 {
        report.own_limits(side);
        report.local_time(side);
        report.remarks(side);
    }
    report.found
}

struct Report<'a> {
    ends: [ConfiguredEnd<'a>; 2],
    names: [&'a str; 2],
    found: Vec<Disagreement>,
}

impl Report<'_> {
    fn add(&mut self, weight: Weight, kind: &'static str, keys: [Option<&ChainKey>; 2], sentence: String) {
        let subject = |side: usize| keys[side].map(|key| (self.ends[side].chain.name_of(key), key.position));
        let subjects = [subject(0), subject(1)];
        self.found.push(Disagreement { weight, kind, subjects, sentence });
    }

    /// Adds a warning about a key that both ends have.
    fn warn(&mut self, kind: &'static str, keys: [&ChainKey; 2], sentence: String) {
        self.add(Weight::Warning, kind, keys.map(Some), sentence);
    }

    /// Adds a note about both chains as a whole.
    fn note(&mut self, kind: &'static str, sentence: String) {
        let subjects = self.ends.map(|end| Some((end.chain.name.clone(), None)));
        self.found.push(Disagreement { weight: Weight::Note, kind, subjects, sentence });
    }

    fn ids(&mut self, pair: &Pair<'_>) {
        let Some(keys @ [one, other]) = pair.both() else { return };
        let [first, second] = self.names;
        match pair.relation {
            Relation::Crossed | Relation::Alone => {}
            Relation::NotCrossed => {
                let sentence = format!(
                    "both ends have SendID {} and RecvID {}: at one of them they have to be swapped",
                    one.send_id, one.recv_id
                );
                self.warn("ids-not-crossed", keys, sentence);
            }
            Relation::OneWay => {
                let (sender, sent, receiver, received) = match one.send_id == other.recv_id {
                    true => (second, other.send_id, first, one.recv_id),
                    false => (first, one.send_id, second, other.recv_id),
                };
                let sentence = format!("{sender} sends SendID {sent}, but {receiver} has RecvID {received}");
                self.warn("ids", keys, sentence);
            }
            Relation::Secret => {
                let sentence = format!(
                    "the secrets are the same, but {first} has SendID {} and RecvID {}, and {second} SendID {} and RecvID {}: \
                     the SendID of one end has to be the RecvID of the other",
                    one.send_id, one.recv_id, other.send_id, other.recv_id
                );
                self.warn("ids", keys, sentence);
            }
        }
    }

    /// The fields that change the MAC.
    fn fields(&mut self, keys: [&ChainKey; 2]) {
        let [first, second] = self.names;
        for difference in Difference::between(keys[0], keys[1]) {
            let sentence = match difference {
                Difference::Algorithm([one, other]) => {
                    let kdf = if one.mac() == other.mac() {
                        ", which derives traffic keys differently"
                    } else {
                        ""
                    };
                    format!("{first} has {one}, but {second} has {other}{kdf}")
                }
                Difference::MacLength([one, other]) => {
                    format!("{first} has MACs of {one} octets, but {second} of {other}")
                }
                Difference::Options(coverage) => self.coverage(coverage),
                Difference::Secret => format!("the secrets differ{}", secrets(keys)),
            };
            self.warn(difference.kind(), keys, sentence);
        }
        if !Difference::can_compare_secrets(keys[0], keys[1]) {
            let at = |side: usize| Some((self.names[side], keys[side].secret.encryption()?));
            let at: Vec<_> = (0..2).filter_map(at).map(|(name, how)| format!("{name} ({how})")).collect();
            let sentence =
                format!("the secret is encrypted at {}, so the secrets are not compared", at.join(" and "));
            self.add(Weight::Note, "secret-not-compared", keys.map(Some), sentence);
        }
    }

    fn coverage(&self, coverage: [OptionCoverage; 2]) -> String {
        let (covering, excluding) = if coverage[0] == OptionCoverage::Covered { (0, 1) } else { (1, 0) };
        let mut sentence = format!(
            "{} covers the TCP options, but {} excludes them",
            self.names[covering], self.names[excluding]
        );
        let implementations = [covering, excluding].map(|side| self.ends[side].implementation);
        if implementations[0].options_setting().is_none() {
            sentence += &format!("; {} always covers them", implementations[0]);
        }
        if let Some(setting) = implementations[1].options_setting() {
            sentence += &format!(": {} covers them with {setting:?}", implementations[1]);
        }
        sentence
    }

    /// Times at which one end may sign with this key when the other does not accept it, whatever other keys they have.
    fn lifetimes(&mut self, keys: [&ChainKey; 2], skew_seconds: u32, window: Lifetime) {
        // Local times at different places cannot be compared.
        if keys.iter().any(|key| key.clock == Clock::Local) {
            return;
        }
        for side in 0..2 {
            let (send, peer) = (keys[side].send, keys[1 - side]);
            let acceptance = self.ends[1 - side].chain.acceptance(peer);
            let [signer, receiver] = [self.names[side], self.names[1 - side]];
            // What is over is of no interest any more.
            let Some(used) =
                send.common(&window).filter(|used| !acceptance.covers(&used.widened_by(skew_seconds)))
            else {
                continue;
            };
            let said = format!(
                "{signer} may sign with it {}, but {receiver} accepts it {}",
                words(&send),
                words(&acceptance)
            );
            let (kind, sentence) = match acceptance.covers(&used) {
                true => (
                    "no-tolerance",
                    format!("{said}, which does not allow for clocks {skew_seconds} s apart"),
                ),
                false => ("accept-too-short", said),
            };
            self.add(Weight::Note, kind, keys.map(Some), sentence);
        }
    }

    /// A key that only one end has.
    fn alone(&mut self, pair: &Pair<'_>, window: Lifetime) {
        for side in 0..2 {
            let Some(key) = pair.keys[side] else { continue };
            let chain = self.ends[side].chain;
            let is_used = key.send.overlaps(&window) || chain.acceptance(key).overlaps(&window);
            let weight = if is_used { Weight::Warning } else { Weight::Note };
            let sentence = format!(
                "{} has no key for it: that has SendID {} and RecvID {}",
                self.names[1 - side],
                key.recv_id,
                key.send_id
            );
            self.add(weight, "no-counterpart", pair.keys, sentence);
        }
    }

    /// Why the peer's implementation cannot have the matching key.
    fn impossible(&mut self, pair: &Pair<'_>) {
        for side in 0..2 {
            let Some(key) = pair.keys[side] else { continue };
            let mirrored = ChainKey { send_id: key.recv_id, recv_id: key.send_id, ..key.clone() };
            let peer = self.ends[1 - side].implementation;
            for refusal in peer.refusals(&mirrored) {
                let sentence = format!(
                    "{} cannot have its counterpart (SendID {}, RecvID {}): {peer} {refusal}",
                    self.names[1 - side],
                    key.recv_id,
                    key.send_id
                );
                let mut keys = [None; 2];
                keys[side] = Some(key);
                self.add(Weight::Warning, "refused", keys, sentence);
            }
        }
    }

    /// What an end's implementation refuses in its own keys.
    fn own_limits(&mut self, side: usize) {
        let ConfiguredEnd { chain, implementation } = self.ends[side];
        for key in &chain.keys {
            for refusal in implementation.refusals_at_home(key) {
                let mut keys = [None; 2];
                keys[side] = Some(key);
                self.add(Weight::Warning, "refused", keys, format!("{implementation} {refusal}"));
            }
        }
    }

    fn tolerance(&mut self) {
        let tolerances = self.ends.map(|end| end.chain.accept_tolerance);
        let has_lifetimes = |end: ConfiguredEnd<'_>| {
            end.chain.keys.iter().any(|key| key.accept != Lifetime::ALWAYS || key.send != Lifetime::ALWAYS)
        };
        if tolerances[0] != tolerances[1] && self.ends.into_iter().any(has_lifetimes) {
            let [first, second] = self.names;
            let sentence = format!(
                "{first} accepts keys {} s before and after their lifetimes, {second} {} s",
                tolerances[0], tolerances[1]
            );
            self.note("tolerance", sentence);
        }
    }

    /// The ends choose differently among several valid keys.
    fn sending(&mut self, window: Lifetime) {
        let has_choice = |end: ConfiguredEnd<'_>| {
            let keys = &end.chain.keys;
            let used = || keys.iter().enumerate().filter(|(_, key)| key.send.overlaps(&window));
            used().any(|(at, key)| used().any(|(other, next)| at < other && key.send.overlaps(&next.send)))
        };
        let rules = self.ends.map(|end| end.implementation.sending());
        if rules[0] == rules[1] && rules[0] != SendingRule::Unspecified
            || !self.ends.into_iter().any(has_choice)
        {
            return;
        }
        let chosen = |side: usize| {
            let which = match rules[side] {
                SendingRule::LatestStart => "with the one whose send lifetime started last",
                SendingRule::LongestLifetime => "with the one that has the longest send lifetime",
                SendingRule::Rank => "with the first of the highest rank",
                SendingRule::Unspecified => "with any of them: which one is not documented",
            };
            format!("{} ({}) signs {which}", self.names[side], self.ends[side].implementation)
        };
        let sentence = format!("while several keys are valid, {}; {}", chosen(0), chosen(1));
        self.note("sending-rule", sentence);
    }

    fn local_time(&mut self, side: usize) {
        let chain = self.ends[side].chain;
        if let Some(key) = chain.keys.iter().find(|key| key.depends_on_local_time()) {
            let mut keys = [None; 2];
            keys[side] = Some(key);
            let sentence = format!(
                "the lifetimes are in the local time of {}, which is not known: they are taken to be up to {} hours off; give \
                 --utc-offset",
                self.names[side],
                Clock::UNCERTAINTY / 3600
            );
            self.add(Weight::Warning, "local-time", keys, sentence);
        }
    }

    /// What the format's reader remarked about an end's chain.
    fn remarks(&mut self, side: usize) {
        let chain = self.ends[side].chain;
        // Local time is said once, and only if the offset is not given.
        for remark in chain.remarks.iter().filter(|remark| remark.kind != "local-time") {
            let key = chain.keys.iter().find(|key| Some(key.key_id) == remark.key_id);
            let name = key.map_or_else(|| chain.name.clone(), |key| chain.name_of(key));
            let mut subjects = [None, None];
            subjects[side] = Some((name, remark.position.or(key.and_then(|key| key.position))));
            let sentence = remark.sentence.clone().into_owned();
            self.found.push(Disagreement { weight: remark.weight, kind: remark.kind, subjects, sentence });
        }
    }
}

/// How two different secrets are alike, without revealing any part of them.
fn secrets([one, other]: [&ChainKey; 2]) -> &'static str {
    let [one, other] = [one, other].map(|key| key.secret.expose());
    let is_digits_of = |text: &[u8], octets: &[u8]| {
        str::from_utf8(text).ok().and_then(hexadecimal).is_some_and(|read| read[..] == *octets)
    };
    match () {
        () if one.trim_ascii() == other.trim_ascii() => ", but only in blanks or line ends around them",
        () if is_digits_of(one, other) || is_digits_of(other, one) => {
            ": one has the hexadecimal digits of the other as text"
        }
        () if one.eq_ignore_ascii_case(other) => ", but only in upper and lower case",
        () => "",
    }
}

/// A lifetime in words that follow a verb.
fn words(lifetime: &Lifetime) -> String {
    match (lifetime.from(), lifetime.until()) {
        (None, None) => "always".to_owned(),
        (Some(from), None) => format!("from {from} on"),
        (None, Some(until)) => format!("until {until}"),
        (Some(from), Some(until)) => format!("from {from} until {until}"),
    }
}
