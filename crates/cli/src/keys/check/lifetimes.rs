//! Keys that have expired or are not yet valid, and times without a key.

use wireseal_keys::Timestamp;

use super::finding::Findings;
use super::usable::Usable;
use crate::keys::{Chain, Preference};

pub(super) fn check(findings: &mut Findings, chain: &Chain, now: Timestamp) {
    for key in &chain.keys {
        let mut warn = |kind, sentence: String| findings.warn(kind, chain, Some(key), sentence);
        let acceptance = chain.acceptance(key);
        match Usable::of(chain, key, now) {
            Usable::Whole => {}
            Usable::Accepted if key.send.is_over(now) => {
                warn("send-lifetime-over", "is still accepted, but no longer used for sending".into());
            }
            Usable::Accepted => warn("not-yet", "is accepted, but not yet used for sending".into()),
            Usable::NotYet => {
                let from = acceptance.from().or(key.send.from());
                let from = from.map(|from| format!(" before {from}")).unwrap_or_default();
                warn("not-yet", format!("is not usable{from}"));
            }
            Usable::Expired => {
                let until = acceptance.until().max(key.send.until());
                let until = until.map(|until| format!(" since {until}")).unwrap_or_default();
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

/// Times from now on when the configured end has no key to send with.
fn gaps(findings: &mut Findings, chain: &Chain, now: Timestamp) {
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
