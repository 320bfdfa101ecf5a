//! What an operator should know of a file of keys.

mod lifetimes;
mod secrets;

use wireseal_tcp_ao::key_chain::{Position, Timestamp};

use super::vendors::Implementation;
use super::{Chain, ChainKey, KeyFile};

/// How much a finding weighs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// Something will not work, or is not safe.
    Warning,
    /// Something would not work elsewhere.
    Note,
}

/// Something that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How much it weighs.
    pub weight: Weight,
    /// Its kind, as `--json` spells it, such as `ids-collide`.
    pub kind: &'static str,
    /// The key, or else the chain, as reports call it.
    pub subject: String,
    /// Where the key is in its text.
    pub position: Option<Position>,
    /// What it is, in a sentence that continues the subject.
    pub sentence: String,
}

/// What of a key is usable at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usable {
    /// It may be chosen for sending, and segments under it are accepted.
    Whole,
    /// Segments under it are accepted.
    Accepted,
    /// It is to come.
    NotYet,
    /// It is over.
    Expired,
}

impl Usable {
    /// What of a key is usable at this moment.
    #[must_use]
    pub fn of(chain: &Chain, key: &ChainKey, now: Timestamp) -> Self {
        let acceptance = chain.acceptance(key);
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

    /// As reports spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "yes",
            Self::Accepted => "accepted",
            Self::NotYet => "not yet",
            Self::Expired => "expired",
        }
    }
}

/// Everything that there is to warn of at this moment; what `implementations` refuse is a warning, what others refuse a note.
#[must_use]
pub fn check(file: &KeyFile, now: Timestamp, implementations: &[Implementation]) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    let weight = |implementation| match implementations.contains(&implementation) {
        true => Weight::Warning,
        false => Weight::Note,
    };
    for (index, chain) in file.chains.iter().enumerate() {
        findings.collisions(&file.chains[..index], chain);
        lifetimes::check(&mut findings, chain, now);
        if chain.lacks_authentication {
            let sentence = "BIRD refuses keys without \"authentication ao;\" in their protocol".to_owned();
            findings.add(weight(Implementation::Bird), "refused", chain, None, sentence);
        }
        for (place, key) in chain.keys.iter().enumerate() {
            secrets::check(&mut findings, chain, key, &chain.keys[..place]);
            for implementation in Implementation::ALL {
                let sentences =
                    implementation.refusals(key).into_iter().chain(implementation.objections(key));
                for sentence in sentences {
                    let sentence = format!("{implementation} {sentence}");
                    findings.add(weight(implementation), "refused", chain, Some(key), sentence);
                }
            }
        }
    }
    findings.0
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(
        &mut self,
        weight: Weight,
        kind: &'static str,
        chain: &Chain,
        key: Option<&ChainKey>,
        sentence: String,
    ) {
        let finding = Finding {
            weight,
            kind,
            subject: key.map_or_else(|| chain.name.clone(), |key| chain.name_of(key)),
            position: key.and_then(|key| key.position),
            sentence,
        };
        // One chain of IOS XR may be two here.
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    fn warn(
        &mut self,
        kind: &'static str,
        chain: &Chain,
        key: Option<&ChainKey>,
        sentence: impl Into<String>,
    ) {
        self.add(Weight::Warning, kind, chain, key, sentence.into());
    }

    /// Keys for one peer that the same id would find at the same time.
    fn collisions(&mut self, before: &[Chain], chain: &Chain) {
        for (index, key) in chain.keys.iter().enumerate() {
            let in_chain = chain.keys[..index].iter().map(|other| (chain, other));
            let of_peer =
                before.iter().filter(|other| other.peers.iter().any(|peer| chain.peers.contains(peer)));
            let of_peer = of_peer.flat_map(|chain| chain.keys.iter().map(move |key| (chain, key)));
            for (other_chain, other) in in_chain.chain(of_peer) {
                let meets = other_chain.acceptance(other).overlaps(&chain.acceptance(key));
                if collides(other, key) && meets {
                    let sentence = collision(key, other, &other_chain.name_of(other));
                    self.warn("ids-collide", chain, Some(key), sentence);
                } else if std::ptr::eq(other_chain, chain) && other.key_id == key.key_id {
                    let sentence = format!("another key of the chain has the id {}", key.key_id);
                    self.warn("key-id-twice", chain, Some(key), sentence);
                }
            }
        }
    }
}

fn collides(one: &ChainKey, other: &ChainKey) -> bool {
    one.send_id == other.send_id || one.recv_id == other.recv_id
}

fn collision(key: &ChainKey, other: &ChainKey, name: &str) -> String {
    let ids = match (key.send_id == other.send_id, key.recv_id == other.recv_id) {
        (true, true) => format!("SendID {} and RecvID {}", key.send_id, key.recv_id),
        (true, false) => format!("SendID {}", key.send_id),
        _ => format!("RecvID {}", key.recv_id),
    };
    let place = other.position.map(|at| format!(" (line {})", at.line)).unwrap_or_default();
    format!(
        "has {ids} in common with {name}{place} while both are accepted: RFC 5925 \u{a7}3.1 forbids that, since a segment's \
         KeyID has to name one key"
    )
}
