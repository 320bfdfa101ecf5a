//! Keys that are over or to come, and times without any.

use wireseal_tcp_ao::key_chain::Timestamp;

use super::{Findings, Usable};
use crate::keys::{Chain, Preference};

pub(super) fn check(findings: &mut Findings, chain: &Chain, now: Timestamp) {
    for key in &chain.keys {
        match Usable::of(chain, key, now) {
            Usable::Whole => {}
            Usable::Accepted if key.send.is_over(now) => {
                findings.warn("send-lifetime-over", chain, Some(key), "is accepted and no longer sent with");
            }
            Usable::Accepted => {
                findings.warn("not-yet", chain, Some(key), "is accepted and not yet sent with");
            }
            Usable::NotYet => {
                let from = chain.acceptance(key).from().or(key.send.from());
                let from = from.map(|from| format!(" before {from}")).unwrap_or_default();
                findings.warn("not-yet", chain, Some(key), format!("is not usable{from}"));
            }
            Usable::Expired => {
                let until = chain.acceptance(key).until().max(key.send.until());
                let until = until.map(|until| format!(" since {until}")).unwrap_or_default();
                findings.warn("expired", chain, Some(key), format!("has expired{until}"));
            }
        }
        if !key.accept.covers(&key.send) {
            let sentence = "the accept lifetime does not cover the send lifetime: the peer's answers under it would be refused";
            findings.warn("accept-too-short", chain, Some(key), sentence);
        }
    }
    if chain.keys.iter().all(|key| key.preference == Preference::Deprecated) {
        findings.warn(
            "all-deprecated",
            chain,
            None,
            "every key is deprecated, so none is left to ask the peer for",
        );
    }
    gaps(findings, chain, now);
}

/// Times from now on in which the configured end has no key to send with.
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
            (Some(next), true) => format!("no key is to be sent with now, nor until {next}"),
            (Some(next), false) => format!("no key is to be sent with from {moment} until {next}"),
            (None, true) => "no key is to be sent with now, nor at any later time".to_owned(),
            (None, false) => format!("no key is to be sent with from {moment} on: add one in time"),
        };
        findings.warn("gap", chain, None, sentence);
    }
}
