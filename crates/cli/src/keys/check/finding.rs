//! What was found in a file of keys.

use wireseal_keys::Position;

use crate::keys::{Chain, ChainKey};

/// How serious a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// Something will not work or is not safe.
    Warning,
    /// Something would not work with another implementation.
    Note,
}

/// Something that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How serious it is.
    pub weight: Weight,
    /// Its kind, as `--json` spells it, such as `ids-collide`.
    pub kind: &'static str,
    /// The name of the key, or else the chain, in reports.
    pub subject: String,
    /// Where the key is in its text.
    pub position: Option<Position>,
    /// What it is, in words that follow the subject.
    pub sentence: String,
}

/// The findings in one file.
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    /// Adds a finding about a key, or about the whole chain without one.
    pub(super) fn add(
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
        // One chain of IOS XR may have become two.
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    /// Adds a warning.
    pub(super) fn warn(
        &mut self,
        kind: &'static str,
        chain: &Chain,
        key: Option<&ChainKey>,
        sentence: impl Into<String>,
    ) {
        self.add(Weight::Warning, kind, chain, key, sentence);
    }
}
