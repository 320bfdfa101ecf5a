//! What was found, in sentences for an operator: who does what, and what to change where.

use wireseal_tcp_ao::{Endpoint, OptionCoverage, SeqNum};

use super::hypothesis::{Change, Relation, SneForm};
use super::{ChecksumForm, Diagnosis, Finding};
use crate::verify::connection::Connection;
use crate::verify::key_table::{Candidate, KeyTable};
use crate::verify::report::{self, Sender};

/// A match by chance is worth a word from this probability on.
const CHANCE: f64 = 1e-6;

/// A sender and its peer.
pub(super) struct Ends {
    pub(super) own: Endpoint,
    pub(super) other: Endpoint,
}

impl Ends {
    pub(super) fn of(connection: &Connection, sender: Sender) -> Self {
        Self { own: connection.ends[sender as usize], other: connection.ends[sender.other() as usize] }
    }
}

/// A number of segments.
pub(super) fn segments(count: u64) -> String {
    if count == 1 { "a segment".to_owned() } else { format!("{count} segments") }
}

/// Whether the other end has acknowledged what lies before this number, and signs itself: one that does not takes everything.
pub(super) fn is_acknowledged(connection: &Connection, sender: Sender, end: Option<SeqNum>) -> bool {
    let acknowledged = connection.directions[sender as usize].seen.acknowledged;
    let signs = connection.directions[sender.other() as usize].seen.signed > 0;
    signs && matches!((acknowledged, end), (Some(acknowledged), Some(end)) if !acknowledged.before(end))
}

/// What explains a finding's segments.
pub(super) fn of_finding(
    finding: &Finding,
    diagnosis: &Diagnosis,
    connection: &Connection,
    table: &KeyTable<'_>,
) -> report::Diagnosis {
    let (kind, what, remedy) = Explained { finding, diagnosis, connection, table }.explanation();
    let mut sentence = what;
    if finding.hypothesis.flips_options
        && (finding.hypothesis.change.is_some() || finding.hypothesis.relation != Relation::Named)
    {
        sentence += match table.parameters(finding.hypothesis.candidate).options {
            OptionCoverage::Covered => "; besides, it leaves the other TCP options out of the MAC",
            OptionCoverage::Excluded => "; besides, it covers the other TCP options with the MAC",
        };
    }
    let parameters = table.parameters(finding.hypothesis.candidate);
    if finding.hypothesis.change.is_some() && finding.hypothesis.relation != Relation::Named {
        sentence += &format!(
            "; besides, it sends KeyID {} where the key has SendID {} and RecvID {}",
            finding.key_id, parameters.send_id, parameters.recv_id
        );
    }
    let length = parameters.mac_length();
    if length != finding.mac_length && kind != "mac-length" {
        sentence +=
            &format!("; besides, its MACs have {} octets where the key says {length}", finding.mac_length);
    }
    sentence += ". ";
    sentence += &remedy;
    let possible = 2f64.powi(8 * finding.mac_length as i32);
    if finding.tries as f64 / possible > CHANCE {
        sentence += &format!(
            " (By chance a MAC of {} octets matches once in {possible} tries, and {} were made.)",
            finding.mac_length, finding.tries
        );
    }
    report::Diagnosis {
        sender: finding.sender,
        first: finding.first,
        segments: finding.segments,
        kind,
        sentence,
    }
}

/// A finding and where it was found.
struct Explained<'f, 'k> {
    finding: &'f Finding,
    diagnosis: &'f Diagnosis,
    connection: &'f Connection,
    table: &'f KeyTable<'k>,
}

impl Explained<'_, '_> {
    /// Its kind, what the sender does, and what is to be done.
    fn explanation(&self) -> (&'static str, String, String) {
        let finding = self.finding;
        let Ends { own, other } = Ends::of(self.connection, finding.sender);
        let candidate = finding.hypothesis.candidate;
        let key = self.table.name(candidate);
        let parameters = self.table.parameters(candidate);
        let key_id = finding.key_id;
        let Some(change) = finding.hypothesis.change else {
            return self.explanation_without_change();
        };
        let who = self.who();
        match change {
            Change::Algorithm(algorithm) => (
                "algorithm",
                format!("{who} signs with {algorithm} where key {key} says {}, with the same secret", parameters.algorithm),
                self.agreement("the algorithm"),
            ),
            Change::Secret(form) => {
                let kind = if form.is_of_kdf() { "cmac-key-derivation" } else { "secret-form" };
                (kind, format!("under key {key}, {who} {}", form.words()), self.agreement("the secret"))
            }
            Change::Sne(form) => {
                let shown = finding.sne.0;
                let used = form.of(shown).unwrap_or_default();
                let reason = match form {
                    SneForm::Later => "it counts a wrap of the sequence numbers that has not come yet",
                    SneForm::Earlier | SneForm::Zero => "it does not count how often the sequence numbers have wrapped",
                };
                (
                    "sne",
                    format!(
                        "under key {key}, {own} computes the MAC with SNE {used} where the sequence numbers of the capture \
                         make it {shown}: {reason}"
                    ),
                    if self.is_accepted() {
                        format!(
                            "{other} has acknowledged these segments, so it is the capture that lacks or repeats a wrap, or both \
                             ends have the same fault (RFC 9187)."
                        )
                    } else {
                        format!("The fault is in {own}'s implementation (RFC 9187), or the capture lacks the wrap.")
                    },
                )
            }
            Change::Nat(_) => self.translation(change),
            Change::Checksum(form) => {
                let field = match form {
                    ChecksumForm::AsRecorded => "the checksum that the segment has",
                    ChecksumForm::PseudoHeader => "the sum over the pseudo-header, which a network card completes later,",
                    ChecksumForm::WithoutMac => "the checksum of the segment without its MAC",
                };
                (
                    "checksum-in-place",
                    format!(
                        "under key {key}, {own} computes the MAC with {field} in the checksum field, which is to be zero in \
                         the MAC's input (RFC 5925, section 5.1)"
                    ),
                    format!("The fault is in {own}'s implementation, and no configuration mends it."),
                )
            }
            Change::Mss(mss) => (
                "mss-rewritten",
                format!("{own} sent this SYN with an MSS of {mss}, and a device on the way has changed it, which the MAC shows"),
                format!(
                    "Stop the rewriting of the MSS between {own} and {other} (\"MSS clamping\"), or exclude the TCP options \
                     from the MAC at both ends."
                ),
            ),
            Change::Merged(part) => (
                "segments-merged",
                format!(
                    "the capture shows several segments of {own} as one: under key {key} the MAC is that of the first {part} \
                     octets of payload"
                ),
                "An offload has merged them before they were recorded, which says nothing against the keys: record with it \
                 switched off (Linux: ethtool -K INTERFACE gro off lro off)."
                    .to_owned(),
            ),
            Change::Split(count) => (
                "segments-split",
                format!(
                    "{own} signed as one segment what the capture shows as several with one and the same MAC, {count} at first: \
                     it verifies under key {key} over all of them together"
                ),
                format!(
                    "A network card has split it after it was signed, and {other} cannot verify the parts: switch the offload \
                     off at {own} (Linux: ethtool -K INTERFACE tso off gso off). KeyID {key_id} and its secret are right."
                ),
            ),
        }
    }

    fn explanation_without_change(&self) -> (&'static str, String, String) {
        let finding = self.finding;
        let Ends { own, other } = Ends::of(self.connection, finding.sender);
        let candidate = finding.hypothesis.candidate;
        let key = self.table.name(candidate);
        let parameters = self.table.parameters(candidate);
        let (send_id, recv_id, key_id) = (parameters.send_id, parameters.recv_id, finding.key_id);
        let who = self.who();
        match (finding.hypothesis.relation, finding.hypothesis.flips_options) {
            (Relation::Named, true) => {
                let what = match parameters.options {
                    OptionCoverage::Covered => {
                        format!(
                            "{who} leaves the other TCP options out of the MAC, and key {key} covers them"
                        )
                    }
                    OptionCoverage::Excluded => {
                        format!(
                            "{who} covers the other TCP options with the MAC, and key {key} leaves them out"
                        )
                    }
                };
                ("options-coverage", what, self.agreement("the coverage of TCP options"))
            }
            (Relation::Named, false) if parameters.mac_length() == finding.mac_length => (
                "sne",
                format!(
                    "under key {key}, {own}'s segments verify with SNE {}, to which its segments that failed have led",
                    finding.sne.0
                ),
                "They are good; see what explains the others.".to_owned(),
            ),
            (Relation::Named, false) => (
                "mac-length",
                format!(
                    "{who} sends MACs of {} octets, and key {key} says {}; all else is right",
                    finding.mac_length,
                    parameters.mac_length()
                ),
                self.agreement("the length of the MAC"),
            ),
            (Relation::Exchanged, _) => {
                let other_key_id = self.connection.directions[finding.sender.other() as usize].seen.key_id;
                if other_key_id == Some(key_id) {
                    return (
                        "same-key-id",
                        format!(
                            "both ends send KeyID {key_id} under key {key}, whose ids differ (SendID {send_id}, RecvID \
                             {recv_id}): the SendID of one end is to be the RecvID of the other"
                        ),
                        if self.is_accepted() {
                            format!(
                                "{other} has acknowledged these segments, so both ends have {key_id} as SendID and as RecvID: \
                                 correct the ids of the key given here."
                            )
                        } else {
                            format!(
                                "The ids are swapped at one end: exchange SendID and RecvID at {own} or at {other}."
                            )
                        },
                    );
                }
                (
                    "ids-swapped",
                    format!(
                        "{own} sends KeyID {key_id} under key {key} with its SendID and RecvID swapped: the key given here \
                         (SendID {send_id}, RecvID {recv_id}) is not the one of that end"
                    ),
                    if self.is_accepted() {
                        format!(
                            "{other} has acknowledged these segments, so the ends agree: exchange the ids of the key given here."
                        )
                    } else {
                        format!("Exchange SendID and RecvID at {own}, or at {other} and here.")
                    },
                )
            }
            (Relation::Other, _) => {
                let named: Vec<_> = self.named_keys();
                if named.is_empty() {
                    (
                        "other-key-id",
                        format!(
                            "{who} sends KeyID {key_id}, which no key given here has, and signs with the secret of key {key}, \
                             whose ids are SendID {send_id} and RecvID {recv_id}"
                        ),
                        self.agreement("the ids"),
                    )
                } else {
                    (
                        "other-key",
                        format!(
                            "{who} sends KeyID {key_id}, which is key {}, and signs with key {key}",
                            named.join(" or ")
                        ),
                        self.agreement("the secrets of these keys"),
                    )
                }
            }
        }
    }

    fn translation(&self, change: Change) -> (&'static str, String, String) {
        let Ends { own, other } = Ends::of(self.connection, self.finding.sender);
        let key = self.table.name(self.finding.hypothesis.candidate);
        let hints = match change {
            Change::Nat(Some(hint)) => self.diagnosis.nat.get(hint..=hint).unwrap_or_default(),
            _ => &self.diagnosis.nat,
        };
        let hints: Vec<_> = hints.iter().map(ToString::to_string).collect();
        (
            "addresses-rewritten",
            format!(
                "{own}'s segments to {other} verify under key {key} with the addresses on the other side of the translation \
                 {}: addresses or ports are rewritten on the way",
                hints.join(" and ")
            ),
            "TCP-AO signs both, so it does not pass address translation: take the NAT out of the path, or run the session \
             through a tunnel."
                .to_owned(),
        )
    }

    fn named_keys(&self) -> Vec<&str> {
        let finding = self.finding;
        let is_named = |candidate: &&Candidate| {
            candidate.serves(self.table, self.connection.configured_end, finding.sender, finding.key_id)
        };
        let named = self.connection.candidates.iter().filter(is_named);
        named.map(|candidate| self.table.name(*candidate)).collect()
    }

    /// What the other end does, if it does the same in the same words.
    fn same_of_other(&self) -> Option<&Finding> {
        let own = self.finding;
        self.diagnosis.findings.iter().find(|found| {
            found.sender != own.sender
                && found.hypothesis.is_like(&own.hypothesis)
                && found.mac_length == own.mac_length
                && (found.key_id == own.key_id || own.hypothesis.relation == Relation::Named)
        })
    }

    /// Who does it: one sentence for both ends, if both do.
    fn who(&self) -> String {
        match self.same_of_other() {
            Some(_) => "each end".to_owned(),
            None => self.connection.ends[self.finding.sender as usize].to_string(),
        }
    }

    fn is_accepted(&self) -> bool {
        is_acknowledged(self.connection, self.finding.sender, self.finding.end)
    }

    /// Whether a segment of the other end has verified with the finding's key.
    fn other_end_has_key(&self) -> bool {
        let key = self.finding.hypothesis.candidate.key as usize;
        let uses = &self.connection.directions[self.finding.sender.other() as usize].report.key_uses;
        uses.iter().any(|key_use| key_use.key == Some(key))
    }

    /// Which of three is to be changed: the sender, its peer, or the key given here.
    fn agreement(&self, what: &str) -> String {
        let finding = self.finding;
        let Ends { own, other } = Ends::of(self.connection, finding.sender);
        if let Some(same) = self.same_of_other() {
            let is_accepted = self.is_accepted() && is_acknowledged(self.connection, same.sender, same.end);
            let why = if is_accepted { "Each has acknowledged the other's segments" } else { "Both do" };
            return format!("{why}, so they agree: correct {what} in the key given here.");
        }
        if self.is_accepted() {
            format!(
                "{other} has acknowledged these segments, so the ends agree: correct {what} in the key given here."
            )
        } else if self.other_end_has_key() {
            format!(
                "{other}'s segments verify with the key as it is given, so the ends differ: correct {what} at {own}, or at \
                 {other} and here."
            )
        } else {
            format!(
                "What {other} has, the capture does not show: compare {what} at {own}, at {other} and here."
            )
        }
    }
}
