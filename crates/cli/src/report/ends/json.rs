//! The comparison for programs. `docs/keys.md` describes it.

use serde_json::{Value, json};
use wireseal_keys::Timestamp;

use super::{Answer, Ends};
use crate::report::chain_key::key_object;

impl Ends<'_> {
    /// The whole comparison as one object.
    pub(crate) fn json(&self) -> Value {
        let until = |moment: Timestamp| (moment != Timestamp::MAX).then(|| moment.to_string());
        let end = |side: usize| {
            let end = self.meeting.ends[side];
            json!({
                "name": self.names[side],
                "file": self.paths[side].display().to_string(),
                "format": self.files[side].format.map(|format| format.to_string()),
                "implementation": end.implementation.name(),
                "chain": end.chain.name,
                "readable_by_others": !self.files[side].warnings.is_empty(),
            })
        };
        let keys = self.pairs.iter().map(|pair| {
            let key = |side: usize| {
                pair.keys[side].map(|key| key_object(self.meeting.ends[side].chain, key, self.now))
            };
            json!({ "ends": [key(0), key(1)], "differs": Self::differs(pair) })
        });
        let outages = self.outages.iter().map(|outage| {
            json!({
                "from": outage.from.to_string(),
                "until": until(outage.until),
                "signer": self.names[outage.signer as usize],
                "key": outage.key,
                "kind": outage.reason.kind(),
                "certain": self.is_certain(outage),
                "sentence": self.said(outage),
            })
        });
        let findings = self.findings.iter().map(|finding| {
            let subject = |side: usize| {
                finding.subjects[side]
                    .as_ref()
                    .map(|(name, position)| json!({ "name": name, "line": position.map(|at| at.line) }))
            };
            json!({
                "weight": finding.weight.name(),
                "kind": finding.kind,
                "subjects": [subject(0), subject(1)],
                "sentence": finding.sentence,
            })
        });
        json!({
            "schema": 1,
            "now": self.now.to_string(),
            "until": until(self.until),
            "skew_minutes": self.skew_minutes,
            "answer": match self.answer() {
                Answer::Works => "works",
                Answer::NotJudged => "not-judged",
                Answer::Fails => "fails",
            },
            "sentence": self.sentence(),
            "chosen_by": self.meeting.by.name(),
            "ends": [end(0), end(1)],
            "keys": keys.collect::<Vec<_>>(),
            "outages": outages.collect::<Vec<_>>(),
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}
