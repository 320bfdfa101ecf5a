//! Diagnoses of failed segments that a hypothesis explains.

use wireseal_tcp_ao::{MktParameters, OptionCoverage};

use super::evident::{Ends, Explanation, explain};
use super::findings::{Finding, Findings, is_acknowledged};
use super::hypothesis::{Change, ChecksumForm, Relation, ShiftForm, SneForm};
use crate::text::grouped;
use crate::verify::connection::TcpConnection;
use crate::verify::key_table::KeyTable;
use crate::verify::report::{Diagnosis, Sender};

/// The probability from which a match by chance is mentioned.
const CHANCE: f64 = 1e-6;

/// What to do about a device that shifts sequence numbers.
pub(super) const NO_RANDOMISATION: &str = "TCP-AO signs sequence numbers: switch off their randomisation for this session on the firewall \
                                            between the ends.";

/// What explains the segments of each finding.
pub(super) fn diagnoses(
    findings: &Findings,
    connection: &TcpConnection,
    table: &KeyTable<'_>,
) -> Vec<Diagnosis> {
    let diagnosis = |finding| Explained { finding, findings, connection, table }.diagnosis();
    let mut diagnoses: Vec<_> = findings.explained.iter().map(diagnosis).collect();
    if let Some(last) = diagnoses.last_mut().filter(|_| findings.explained_otherwise > 0) {
        last.advice += &match findings.explained_otherwise {
            1 => " 1 more segment has another cause, which is not listed.".to_owned(),
            others => format!(" {} more segments have other causes, which are not listed.", grouped(others)),
        };
    }
    diagnoses
}

/// A finding and where it was found.
struct Explained<'f, 'k> {
    finding: &'f Finding,
    findings: &'f Findings,
    connection: &'f TcpConnection,
    table: &'f KeyTable<'k>,
}

impl Explained<'_, '_> {
    fn diagnosis(&self) -> Diagnosis {
        let Finding { sender, hypothesis, first, segments, key_id, mac_length, tries, .. } = *self.finding;
        let MktParameters { send_id, recv_id, .. } = *self.parameters();
        let configured = self.parameters().mac_length();
        let Explanation(kind, mut cause, mut advice) = match hypothesis.change {
            Some(change) => self.with_change(change),
            None => self.without_change(),
        };
        let is_named = hypothesis.relation == Relation::Named;
        if hypothesis.flips_options && (hypothesis.change.is_some() || !is_named) {
            cause += &format!("; besides, it {}", self.other_coverage().0);
        }
        if hypothesis.change.is_some() && !is_named {
            cause += &format!(
                "; besides, it sends KeyID {key_id}, but the key has SendID {send_id} and RecvID {recv_id}"
            );
        }
        if configured != mac_length && kind != "mac-length" {
            cause += &format!("; besides, its MACs have {mac_length} octets, but the key says {configured}");
        }
        let possible = 2f64.powi(8 * mac_length as i32);
        if tries as f64 / possible > CHANCE {
            advice += &format!(
                " (By chance, a MAC of {mac_length} octets matches in one of {possible} tries; {tries} were made.)"
            );
        }
        Explanation(kind, cause, advice).diagnosis(sender, first, segments)
    }

    fn ends(&self) -> Ends {
        Ends::of(self.connection, self.finding.sender)
    }

    fn parameters(&self) -> &MktParameters {
        self.table.parameters(self.finding.hypothesis.candidate)
    }

    fn key(&self) -> &str {
        self.table.name(self.finding.hypothesis.candidate.key as usize)
    }

    /// In words: the sender's coverage of options, and the key's.
    fn other_coverage(&self) -> (&'static str, &'static str) {
        match self.parameters().options {
            OptionCoverage::Covered => ("excludes the other TCP options from the MAC", "covers them"),
            OptionCoverage::Excluded => ("covers the other TCP options with the MAC", "excludes them"),
        }
    }

    fn with_change(&self, change: Change) -> Explanation {
        let Finding { key_id, sne, .. } = *self.finding;
        let MktParameters { algorithm: given, .. } = *self.parameters();
        let (Ends { own, other }, key, who) = (self.ends(), self.key(), self.who());
        let syn = if self.finding.sender == Sender::Listener { "SYN-ACK" } else { "SYN" };
        match change {
            Change::Algorithm(algorithm) => explain!(
                "algorithm",
                "{who} signs with {algorithm}, but key {key} says {given}; the secret is the same",
                self.agreement("the algorithm of the key")
            ),
            Change::Secret(form) => {
                let (kind, does) =
                    (if form.is_of_kdf { "cmac-key-derivation" } else { "secret-form" }, form.words);
                explain!(kind, "under key {key}, {who} {does}", self.agreement("the secret of the key"))
            }
            Change::AlgorithmAndSecret(algorithm, form) => {
                let does = form.words;
                explain!(
                    "algorithm-and-secret-form",
                    "{who} signs with {algorithm}, but key {key} says {given}; besides, it {does}",
                    self.agreement("algorithm and secret of the key")
                )
            }
            Change::Sne(form) => {
                let reason = match form {
                    SneForm::Later => "it counts a wrap of the sequence numbers that has not happened yet",
                    SneForm::Earlier | SneForm::Zero => "it does not count wraps of the sequence numbers",
                };
                let (used, seen) = (form.of(sne.0).unwrap_or_default(), sne.0);
                let advice = if self.is_accepted() {
                    format!(
                        "{other} has acknowledged these segments, so the capture lacks or repeats a wrap, or both ends have the \
                         same bug (RFC 9187)."
                    )
                } else {
                    format!("{own}'s implementation is at fault (RFC 9187), or the capture lacks the wrap.")
                };
                explain!(
                    "sne",
                    "under key {key}, {own} computes the MAC with SNE {used}, but by the sequence numbers of the capture it is \
                     {seen}: {reason}",
                    advice
                )
            }
            Change::Nat(hint) => {
                let hints: Vec<_> = self.table.nat(hint).iter().map(ToString::to_string).collect();
                let hints = hints.join(" and ");
                explain!(
                    "addresses-rewritten",
                    "{own}'s segments to {other} verify under key {key} with the addresses on the other side of the translation \
                     {hints}: addresses or ports are rewritten on the path",
                    "TCP-AO signs addresses and ports, so it cannot pass address translation: take the NAT out of the path, or \
                     run the session through a tunnel."
                )
            }
            Change::Checksum(form) => {
                let field = match form {
                    ChecksumForm::AsRecorded => "the segment's own checksum",
                    ChecksumForm::PseudoHeader => {
                        "the sum over the pseudo-header, which a network card completes later,"
                    }
                    ChecksumForm::WithoutMac => "the checksum of the segment without its MAC",
                };
                explain!(
                    "checksum-in-place",
                    "under key {key}, {own} computes the MAC with {field} in the checksum field instead of zero (RFC 5925 §5.1)",
                    "{own}'s implementation is at fault; no configuration fixes it."
                )
            }
            Change::Shift(form) => {
                let whose = match form {
                    ShiftForm { of_sender: true, of_receiver: true } => format!("{own} and {other}"),
                    ShiftForm { of_sender: true, .. } => own.to_string(),
                    ShiftForm { .. } => other.to_string(),
                };
                explain!(
                    "numbers-shifted",
                    "{own}'s segments to {other} verify under key {key} with the ISNs of --isn, which are not those of the capture: a \
                     device on the path shifts the sequence numbers of {whose}",
                    NO_RANDOMISATION.to_owned()
                )
            }
            Change::Padding(form) => {
                let does = form.words();
                explain!(
                    "padding-not-covered",
                    "under key {key}, {own} {does}: the MAC covers all options with their padding (RFC 5925 §5.1)",
                    "IOS XE has had faults of this kind (CSCvx41293, CSCvx80537): update the software of {own}. Until then exclude the \
                     TCP options from the MAC at both ends."
                )
            }
            Change::Cleared(options) => {
                let were = if options.count() == 1 { "was" } else { "were" };
                explain!(
                    "options-cleared",
                    "{options} {were} replaced by NOPs on the path: with what {own} had sent, the MAC of its SYN verifies under key {key}",
                    "Stop the device between {own} and {other} from clearing TCP options (TCP normalisation of a firewall), or exclude \
                     the TCP options from the MAC at both ends."
                )
            }
            Change::Ecn(flags) => {
                let flags = match flags {
                    0 => "neither ECE nor CWR",
                    0x40 => "ECE",
                    0x80 => "CWR",
                    _ => "ECE and CWR",
                };
                explain!(
                    "ecn-flags-rewritten",
                    "{own} sent segments with {flags} set that arrive with other ECN flags: a device on the path has changed them, which \
                     breaks the MAC",
                    "Stop the device between {own} and {other} from changing ECN flags, or switch ECN off for TCP at both ends (Linux: \
                     sysctl net.ipv4.tcp_ecn=0)."
                )
            }
            Change::WindowScale(scale) => explain!(
                "window-scale-rewritten",
                "{own} sent this {syn} with a window scale of {scale}, and a device on the path has changed it, which breaks the MAC",
                "Stop the device between {own} and {other} from changing TCP options, or exclude them from the MAC at both ends."
            ),
            Change::Mss(mss) => explain!(
                "mss-rewritten",
                "{own} sent this {syn} with an MSS of {mss}, and a device on the path has changed it, which breaks the MAC",
                "Stop the rewriting of the MSS between {own} and {other} (\"MSS clamping\"), or exclude the TCP options from \
                 the MAC at both ends."
            ),
            Change::Merged(part) => explain!(
                "segments-merged",
                "the capture shows several segments of {own} as one: under key {key} the MAC covers the first {part} octets of \
                 payload",
                "An offload merged them before they were recorded; this does not mean that the keys are wrong. Record with the \
                 offload off (Linux: ethtool -K INTERFACE gro off lro off)."
            ),
            Change::Split(count) => explain!(
                "segments-split",
                "{own} signed as one segment what the capture shows as several with the same MAC, {count} the first time: \
                 together they verify under key {key}",
                "A network card split it after it was signed, and {other} cannot verify the parts: turn the offload off at {own} \
                 (Linux: ethtool -K INTERFACE tso off gso off). KeyID {key_id} and its secret are right."
            ),
        }
    }

    fn without_change(&self) -> Explanation {
        let Finding { hypothesis, key_id, mac_length, sne, .. } = *self.finding;
        let MktParameters { send_id, recv_id, .. } = *self.parameters();
        let configured = self.parameters().mac_length();
        let (Ends { own, other }, key, who) = (self.ends(), self.key(), self.who());
        let accepted = self.is_accepted().then(|| format!("{other} has acknowledged these segments, so"));
        match hypothesis.relation {
            Relation::Named if hypothesis.flips_options => {
                let (does, says) = self.other_coverage();
                let advice = self.agreement("the TCP option coverage of the key");
                explain!("options-coverage", "{who} {does}, but key {key} {says}", advice)
            }
            Relation::Named if configured == mac_length => {
                let sne = sne.0;
                explain!(
                    "sne",
                    "under key {key}, {own}'s segments verify with SNE {sne}, which follows from its segments that failed",
                    "They are good; see what explains the others."
                )
            }
            Relation::Named => explain!(
                "mac-length",
                "{who} sends MACs of {mac_length} octets, but key {key} says {configured}; everything else is right",
                self.agreement("the MAC length of the key")
            ),
            Relation::Exchanged
                if self.connection.direction(self.finding.sender.other()).key_id == Some(key_id) =>
            {
                let advice = match accepted {
                    Some(accepted) => format!(
                        "{accepted} both ends have {key_id} as SendID and as RecvID: correct the ids of the key given here."
                    ),
                    None => format!(
                        "The ids are swapped at one end: exchange SendID and RecvID at {own} or at {other}."
                    ),
                };
                explain!(
                    "same-key-id",
                    "both ends send KeyID {key_id} under key {key}, whose ids differ (SendID {send_id}, RecvID {recv_id}): the \
                     SendID of one end must be the RecvID of the other",
                    advice
                )
            }
            Relation::Exchanged => {
                let advice = match accepted {
                    Some(accepted) => {
                        format!("{accepted} the ends agree: exchange the ids of the key given here.")
                    }
                    None => format!("Exchange SendID and RecvID at {own}, or at {other} and here."),
                };
                explain!(
                    "ids-swapped",
                    "{own} sends KeyID {key_id} under key {key} with its SendID and RecvID swapped: the key given here (SendID \
                     {send_id}, RecvID {recv_id}) is not that end's",
                    advice
                )
            }
            Relation::Other => match self.named_keys().join(" or ").as_str() {
                "" => explain!(
                    "other-key-id",
                    "{who} sends KeyID {key_id}, which no key given here has, and signs with the secret of key {key} (SendID \
                     {send_id}, RecvID {recv_id})",
                    self.agreement("the ids of the key")
                ),
                named => explain!(
                    "other-key",
                    "{who} sends KeyID {key_id}, which is key {named}, but signs with key {key}",
                    self.agreement("the secrets of these keys")
                ),
            },
        }
    }

    fn named_keys(&self) -> Vec<&str> {
        let Finding { sender, key_id, .. } = *self.finding;
        let named = self.connection.named_by(self.table, sender, key_id);
        named.map(|candidate| self.table.name(candidate.key as usize)).collect()
    }

    /// The finding about the other end, if that end does the same.
    fn same_of_other(&self) -> Option<&Finding> {
        let own = self.finding;
        self.findings.explained.iter().find(|found| {
            found.sender != own.sender
                && found.hypothesis.is_like(&own.hypothesis)
                && found.mac_length == own.mac_length
                && (found.key_id == own.key_id || own.hypothesis.relation == Relation::Named)
        })
    }

    /// The sender, or "each end" if both do the same.
    fn who(&self) -> String {
        match self.same_of_other() {
            Some(_) => "each end".to_owned(),
            None => self.ends().own.to_string(),
        }
    }

    fn is_accepted(&self) -> bool {
        is_acknowledged(self.connection, self.finding.sender, self.finding.end)
    }

    /// What to change: the sender, its peer or the key given here.
    fn agreement(&self, what: &str) -> String {
        let Ends { own, other } = self.ends();
        let key = self.finding.hypothesis.candidate.key as usize;
        let runs = &self.connection.direction(self.finding.sender.other()).key_runs;
        let other_end_has_key = runs.iter().any(|run| run.key() == Some(key));
        if let Some(same) = self.same_of_other() {
            let is_accepted = self.is_accepted() && is_acknowledged(self.connection, same.sender, same.end);
            let why = if is_accepted { "Each has acknowledged the other's segments" } else { "Both do it" };
            format!("{why}, so they agree: correct {what} given here.")
        } else if self.is_accepted() && other_end_has_key {
            format!(
                "{other} has acknowledged these segments, and its own verify with the key as given, so the ends agree on another one in this \
                 direction only: give that here as a second key, with {what} corrected."
            )
        } else if self.is_accepted() {
            format!("{other} has acknowledged these segments, so the ends agree: correct {what} given here.")
        } else if other_end_has_key {
            format!(
                "{other}'s segments verify with the key as given, so the ends differ: correct {what} at {own}, or at {other} and \
                 here."
            )
        } else {
            format!(
                "The capture does not show what {other} has: compare {what} at {own}, at {other} and here."
            )
        }
    }
}
