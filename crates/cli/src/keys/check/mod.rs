//! What an operator should know about a file of keys.

mod collisions;
mod finding;
mod lifetimes;
mod secrets;
mod usable;

use wireseal_keys::Timestamp;

use self::finding::Findings;
use super::KeyFile;
use super::vendors::Implementation;

pub use finding::{Finding, Weight};
pub use usable::Usable;

/// Everything to warn about now. What `implementations` refuse is a warning, what others refuse a note.
#[must_use]
pub fn check(file: &KeyFile, now: Timestamp, implementations: &[Implementation]) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    let weight = |implementation| match implementations.contains(&implementation) {
        true => Weight::Warning,
        false => Weight::Note,
    };
    for (index, chain) in file.chains.iter().enumerate() {
        collisions::check(&mut findings, &file.chains[..index], chain);
        lifetimes::check(&mut findings, chain, now);
        if chain.lacks_authentication {
            let sentence = "BIRD refuses keys in a protocol without \"authentication ao;\"";
            findings.add(weight(Implementation::Bird), "refused", chain, None, sentence);
        }
        for (place, key) in chain.keys.iter().enumerate() {
            secrets::check(&mut findings, chain, key, &chain.keys[..place]);
            for implementation in Implementation::ALL {
                let (refusals, objections) = (implementation.refusals(key), implementation.objections(key));
                for sentence in refusals.into_iter().chain(objections) {
                    let sentence = format!("{implementation} {sentence}");
                    findings.add(weight(implementation), "refused", chain, Some(key), sentence);
                }
            }
        }
    }
    findings.0
}
