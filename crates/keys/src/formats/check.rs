//! What an operator should know about a file of keys.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ptr;

use wireseal_tcp_ao::MAX_MASTER_KEY_LENGTH;

use super::{
    Chain, ChainKey, Clock, Implementation, KeyFile, Neighbor, Notation, Preference, Remark, Weight,
};
use crate::{Position, Timestamp};

/// Something that was found.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Finding {
    /// How serious it is.
    pub weight: Weight,
    /// Its kind, as `--json` spells it, such as `ids-collide`.
    pub kind: &'static str,
    /// The name of the key, or else the chain, in reports.
    pub subject: String,
    /// Where the key is in its text.
    pub position: Option<Position>,
    /// The finding in words that follow the subject.
    pub sentence: String,
}

/// The findings in one file.
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding about a key, or about the whole chain if there is no key.
    fn add(
        &mut self,
        weight: Weight,
        kind: &'static str,
        chain: &Chain,
        key: Option<&ChainKey>,
        sentence: impl Into<String>,
    ) {
        let finding = Finding {
            weight,
            kind,
            subject: key.map_or_else(|| chain.name.clone(), |key| chain.name_of(key)),
            position: key.and_then(|key| key.position),
            sentence: sentence.into(),
        };
        self.0.push(finding);
    }

    /// Adds what the reader has to say about a chain, or about the file if the chain has no name.
    fn add_remark(&mut self, chain: &Chain, remark: &Remark) {
        let key = chain.keys.iter().find(|key| Some(key.key_id) == remark.key_id);
        let finding = Finding {
            weight: remark.weight,
            kind: remark.kind,
            // The key may have been left out.
            subject: match remark.key_id {
                Some(key_id) if !chain.name.is_empty() => format!("{}/{key_id}", chain.name),
                Some(key_id) => key_id.to_string(),
                None => chain.name.clone(),
            },
            position: remark.position.or(key.and_then(|key| key.position)),
            sentence: remark.sentence.to_string(),
        };
        self.0.push(finding);
    }

    fn warn(
        &mut self,
        kind: &'static str,
        chain: &Chain,
        key: Option<&ChainKey>,
        sentence: impl Into<String>,
    ) {
        self.add(Weight::Warning, kind, chain, key, sentence);
    }
}

/// What a key can be used for at a given time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usable {
    /// Sending and receiving.
    Whole,
    /// Receiving only.
    Accepted,
    /// Nothing yet.
    NotYet,
    /// Nothing any more.
    Expired,
    /// It depends on the router's offset from universal time, which the text does not tell.
    Unknown,
}

impl Usable {
    /// What a key of this chain can be used for now.
    #[must_use]
    pub fn of(chain: &Chain, key: &ChainKey, now: Timestamp) -> Self {
        let acceptance = chain.acceptance(key);
        let moments = [key.send.from(), key.send.until(), acceptance.from(), acceptance.until()];
        let is_near = |moment: Timestamp| {
            moment.earlier_by(Clock::UNCERTAINTY) <= now && now <= moment.later_by(Clock::UNCERTAINTY)
        };
        if key.clock == Clock::Local && moments.into_iter().flatten().any(is_near) {
            return Self::Unknown;
        }
        if key.send.contains(now) {
            Self::Whole
        } else if acceptance.contains(now) {
            Self::Accepted
        } else if acceptance.is_over(now) && key.send.is_over(now) {
            Self::Expired
        } else {
            Self::NotYet
        }
    }

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "yes",
            Self::Accepted => "accepted",
            Self::NotYet => "not yet",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }
}

/// All findings at present. What `implementations` refuse is a warning, what others refuse a note.
#[must_use]
pub fn check(file: &KeyFile, now: Timestamp, implementations: &[Implementation]) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    let weight = |implementation| match implementations.contains(&implementation) {
        true => Weight::Warning,
        false => Weight::Note,
    };
    for remark in &file.remarks {
        findings.add_remark(&Chain::default(), remark);
    }
    for skipped in &file.skipped {
        let sentence = format!("{}: not for TCP-AO, and ignored", skipped.what);
        findings.0.push(Finding {
            weight: Weight::Note,
            kind: "skipped",
            subject: String::new(),
            position: Some(skipped.position),
            sentence,
        });
    }
    let mut of_neighbor: HashMap<&Neighbor, Vec<usize>> = HashMap::new();
    for (index, chain) in file.chains.iter().enumerate() {
        let before = chain.neighbors.iter().filter_map(|neighbor| of_neighbor.get(neighbor)).flatten();
        let before: BTreeSet<usize> = before.copied().collect();
        check_ids(&mut findings, before.iter().map(|index| &file.chains[*index]), chain);
        for neighbor in &chain.neighbors {
            of_neighbor.entry(neighbor).or_default().push(index);
        }
        // All keys of a chain may have been left out, which its remarks say.
        if !chain.keys.is_empty() {
            check_lifetimes(&mut findings, chain, now);
        }
        for remark in &chain.remarks {
            findings.add_remark(chain, remark);
        }
        for (place, key) in chain.keys.iter().enumerate() {
            check_secret(&mut findings, chain, key, &chain.keys[..place]);
            for implementation in Implementation::all() {
                let (refusals, objections) = (implementation.refusals(key), implementation.objections(key));
                for sentence in refusals.into_iter().chain(objections) {
                    let sentence = format!("{implementation} {sentence}");
                    findings.add(weight(implementation), "refused", chain, Some(key), sentence);
                }
            }
        }
    }
    // One chain of IOS XR or IOS XE may have become two, with the same findings.
    let mut seen = HashSet::new();
    findings.0.retain(|finding| seen.insert(finding.clone()));
    findings.0
}

/// Finds keys of one peer that share an id while both are accepted; `before` are the chains before this one that share a neighbor with it.
fn check_ids<'a>(findings: &mut Findings, before: impl Iterator<Item = &'a Chain>, chain: &Chain) {
    let of_peer: Vec<_> = before.flat_map(|chain| chain.keys.iter().map(move |key| (chain, key))).collect();
    for (index, key) in chain.keys.iter().enumerate() {
        let in_chain = chain.keys[..index].iter().map(|other| (chain, other));
        for (other_chain, other) in in_chain.chain(of_peer.iter().copied()) {
            let overlaps = other_chain.acceptance(other).overlaps(&chain.acceptance(key));
            let shared = shared_ids(key, other);
            if let (Some(ids), true) = (shared, overlaps) {
                let name = other_chain.name_of(other);
                let place = other.position.map(|at| format!(" (line {})", at.line)).unwrap_or_default();
                let sentence = format!(
                    "shares {ids} with {name}{place} while both are accepted, which RFC 5925 §3.1 forbids: a segment's KeyID has \
                     to name one key"
                );
                findings.warn("ids-collide", chain, Some(key), sentence);
            } else if ptr::eq(other_chain, chain) && other.key_id == key.key_id {
                let sentence = format!("another key of the chain has number {}", key.key_id);
                findings.warn("key-id-twice", chain, Some(key), sentence);
            }
        }
    }
}

fn shared_ids(key: &ChainKey, other: &ChainKey) -> Option<String> {
    match (key.send_id == other.send_id, key.recv_id == other.recv_id) {
        (true, true) => Some(format!("SendID {} and RecvID {}", key.send_id, key.recv_id)),
        (true, false) => Some(format!("SendID {}", key.send_id)),
        (false, true) => Some(format!("RecvID {}", key.recv_id)),
        (false, false) => None,
    }
}

/// Finds keys that have expired or are not yet valid, and times without a key.
fn check_lifetimes(findings: &mut Findings, chain: &Chain, now: Timestamp) {
    for key in &chain.keys {
        let mut warn = |kind, sentence: String| findings.warn(kind, chain, Some(key), sentence);
        let acceptance = chain.acceptance(key);
        let shown = |moment| key.clock.shown(moment);
        match Usable::of(chain, key, now) {
            Usable::Whole => {}
            Usable::Unknown => {
                let sentence = "its lifetimes are in the router's local time, which is not known: whether it is usable now \
                                depends on that; give --utc-offset";
                warn("local-time", sentence.into());
            }
            Usable::Accepted if key.send.is_over(now) => {
                warn("send-lifetime-over", "is still accepted, but no longer used for sending".into());
            }
            Usable::Accepted => warn("not-yet", "is accepted, but not yet used for sending".into()),
            Usable::NotYet => {
                let from = acceptance.from().or(key.send.from());
                let from = from.map(|from| format!(" before {}", shown(from))).unwrap_or_default();
                warn("not-yet", format!("is not usable{from}"));
            }
            Usable::Expired => {
                let until = acceptance.until().max(key.send.until());
                let until = until.map(|until| format!(" since {}", shown(until))).unwrap_or_default();
                warn("expired", format!("has expired{until}"));
            }
        }
        if !key.accept.covers(&key.send) {
            let sentence =
                "the accept lifetime does not cover the send lifetime, so answers under it are refused";
            warn("accept-too-short", sentence.into());
        }
    }
    if chain.keys.iter().all(|key| key.preference == Preference::Deprecated) {
        findings.warn(
            "all-deprecated",
            chain,
            None,
            "every key is deprecated, so there is none to request from the peer",
        );
    }
    gaps(findings, chain, now);
}

/// Finds times from now on at which the configured end has no key to send with.
fn gaps(findings: &mut Findings, chain: &Chain, now: Timestamp) {
    // In local time, nobody knows when they begin and end.
    if chain.keys.iter().any(ChainKey::depends_on_local_time) {
        return;
    }
    let sendable = |moment| chain.keys.iter().any(|key| key.send.contains(moment));
    let next_start = |moment| {
        let starts = chain.keys.iter().filter_map(|key| key.send.from());
        starts.filter(|start| *start > moment).min()
    };
    let ends = chain.keys.iter().filter_map(|key| key.send.until()).filter(|end| *end > now);
    let mut moments: Vec<_> = std::iter::once(now).chain(ends).collect();
    moments.sort_unstable();
    moments.dedup();
    for moment in moments.into_iter().filter(|moment| !sendable(*moment)) {
        let sentence = match (next_start(moment), moment == now) {
            (Some(next), true) => format!("no key is valid for sending now, nor until {next}"),
            (Some(next), false) => format!("no key is valid for sending from {moment} until {next}"),
            (None, true) => "no key is valid for sending now, nor at any later time".to_owned(),
            (None, false) => format!("no key is valid for sending from {moment} on: add one in time"),
        };
        findings.warn("gap", chain, None, sentence);
    }
}

/// A typed secret that is shorter than this can be brute-forced.
const FEWEST_OCTETS: usize = 12;
/// The fewest different octets to expect: all but a few in a billion random secrets of sixteen octets have at least as many.
const FEWEST_DIFFERENT: usize = 6;
/// From this many hexadecimal digits on, a text is hardly a word.
const HEXADECIMAL_DIGITS: usize = 16;

/// Finds secrets that can be guessed, and secrets that were probably not meant so. No sentence contains any part of a secret.
fn check_secret(findings: &mut Findings, chain: &Chain, key: &ChainKey, before: &[ChainKey]) {
    let secret = key.secret.expose();
    let mut warn = |kind, sentence: String| findings.warn(kind, chain, Some(key), sentence);

    let length = secret.len();
    if let Some(how) = key.secret.encryption() {
        let sentence = format!("the secret is encrypted ({how}), so it is not checked");
        return findings.add(Weight::Note, "encrypted", chain, Some(key), sentence);
    }
    if length == 0 {
        return warn("weak-secret", "the secret is empty".to_owned());
    }
    let mut seen = [false; 256];
    secret.iter().for_each(|octet| seen[usize::from(*octet)] = true);
    let different = seen.iter().filter(|seen| **seen).count();
    if length < FEWEST_OCTETS {
        let sentence = format!(
            "the secret has {}: anyone who records a session can brute-force it offline; 16 random octets have the 128 bits \
             that the algorithms are made for",
            if length == 1 { "1 octet".to_owned() } else { format!("{length} octets") }
        );
        warn("weak-secret", sentence);
    } else if different < FEWEST_DIFFERENT {
        let sentence =
            format!("the secret has {length} octets but only {different} different ones: use random octets");
        warn("weak-secret", sentence);
    }
    if length < key.algorithm.min_master_key_length() {
        let least = key.algorithm.min_master_key_length();
        let sentence =
            format!("the secret has {length} octets, but {} requires at least {least}", key.algorithm);
        warn("weak-secret", sentence);
    }
    if length > MAX_MASTER_KEY_LENGTH {
        let sentence = format!(
            "the secret has {length} octets, but Linux and this program accept at most {MAX_MASTER_KEY_LENGTH}"
        );
        warn("long-secret", sentence);
    }
    let is_same = |other: &&ChainKey| other.secret.encryption().is_none() && other.secret.expose() == secret;
    if let Some(other) = before.iter().find(is_same) {
        let sentence = format!(
            "the secret is also that of {}, so rolling over from one to the other gains nothing",
            chain.name_of(other)
        );
        warn("same-secret", sentence);
    }

    let is_text = !matches!(key.secret.notation(), Notation::Hexadecimal | Notation::Base64);
    for (kind, is_odd, sentence) in [
        ("line-end", ends_line(secret), "the secret ends with a line end, which is part of it"),
        (
            "white-space",
            !ends_line(secret) && secret != secret.trim_ascii(),
            "the secret begins or ends with a blank, which is part of it",
        ),
        ("quotes", is_quoted(secret), "the secret has quotes around it, which are part of it"),
        (
            "not-ascii",
            is_text && !secret.is_ascii(),
            "the secret has characters outside ASCII, whose octets depend on the encoding: the peer may have others",
        ),
        (
            "control-characters",
            is_text && secret.trim_ascii().iter().any(u8::is_ascii_control),
            "the secret has control characters",
        ),
        (
            "hex-as-text",
            is_text && is_hexadecimal(secret),
            "the secret is hexadecimal digits, taken as text: if the peer has the octets instead, write it as hexadecimal",
        ),
        (
            "scrambled",
            [b"$9$", b"$8$"].iter().any(|start| secret.starts_with(*start)),
            "the secret looks like one that Junos scrambled, but is taken literally",
        ),
    ] {
        if is_odd {
            warn(kind, sentence.to_owned());
        }
    }
}

fn ends_line(secret: &[u8]) -> bool {
    matches!(secret.last(), Some(b'\n' | b'\r'))
}

fn is_quoted(secret: &[u8]) -> bool {
    match secret {
        [first @ (b'"' | b'\'' | b'`'), .., last] => first == last,
        _ => false,
    }
}

fn is_hexadecimal(secret: &[u8]) -> bool {
    let (digits, is_marked) = match secret {
        [b'0', b'x' | b'X', digits @ ..] => (digits, true),
        _ => (secret, false),
    };
    let count = digits.iter().filter(|octet| octet.is_ascii_hexdigit()).count();
    let is_hexadecimal = digits.iter().all(|octet| octet.is_ascii_hexdigit() || *octet == b':');
    is_hexadecimal && count.is_multiple_of(2) && count >= if is_marked { 2 } else { HEXADECIMAL_DIGITS }
}
