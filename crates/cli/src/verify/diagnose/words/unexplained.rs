//! What can be said of segments that no hypothesis explains.

use wireseal_tcp_ao::{KeyId, MktParameters};

use super::sentence::{Ends, Explanation, explain, segments};
use crate::verify::agreement::Agreement;
use crate::verify::connection::TcpConnection;
use crate::verify::diagnose::case::LEAST_MAC;
use crate::verify::diagnose::findings::{Findings, UnexplainedOfSender, is_acknowledged};
use crate::verify::key_table::{Candidate, KeyTable};
use crate::verify::report::{Diagnosis, Sender, Verdict};

/// The segments of a sender that nothing explains.
#[derive(Clone, Copy)]
pub(in crate::verify::diagnose) struct Rest<'f, 'k> {
    pub(in crate::verify::diagnose) sender: Sender,
    pub(in crate::verify::diagnose) findings: &'f Findings,
    pub(in crate::verify::diagnose) connection: &'f TcpConnection,
    pub(in crate::verify::diagnose) table: &'f KeyTable<'k>,
    pub(in crate::verify::diagnose) agreement: &'f Agreement,
}

impl Rest<'_, '_> {
    fn unexplained(&self) -> &UnexplainedOfSender {
        &self.findings.unexplained[self.sender as usize]
    }

    /// Whether the last segments of both ends have this verdict: what both do, and keep doing, is not forged.
    fn is_last_of_both(&self, verdict: Verdict) -> bool {
        self.connection.directions.iter().all(|direction| direction.last_verdict == Some(verdict))
    }

    /// Whether segments of the sender with this KeyID verify.
    fn is_good_under(&self, key_id: KeyId) -> bool {
        let uses = &self.connection.direction(self.sender).report.key_uses;
        uses.iter().any(|key_use| key_use.key_id == key_id && key_use.key.is_some())
    }

    /// The keys that a KeyID names in segments of the sender, with the KeyID.
    fn key_names(&self, key_id: KeyId) -> String {
        let Self { sender, connection, table, .. } = *self;
        let named = connection.named_by(table, sender, key_id);
        let names: Vec<_> = named.map(|candidate| table.name(candidate.key as usize)).collect();
        format!("key {} (KeyID {key_id})", names.join(" or "))
    }

    /// Where nothing is left but another secret: the keys, and whether the other end accepts the segments.
    fn of_another_secret(&self) -> Option<(String, bool)> {
        let unexplained = self.unexplained();
        let (key_id, mac_length) = unexplained.bad_mac.ao?;
        let is_left = mac_length >= LEAST_MAC && unexplained.was_searched && !self.is_good_under(key_id);
        let is_accepted = is_acknowledged(self.connection, self.sender, unexplained.bad_mac.end);
        is_left.then(|| (self.key_names(key_id), is_accepted))
    }

    /// Whether the other end's segments verify under the key that this KeyID names, and the sender's do not.
    fn is_key_of_other_end(&self, key_id: KeyId) -> bool {
        let [own, other] =
            [self.sender, self.sender.other()].map(|end| self.connection.ends[end as usize].address());
        let mut named = self.connection.named_by(self.table, self.sender, key_id);
        named.any(|candidate| self.agreement.is_key_of_only(other, own, candidate.key))
    }

    /// What can be said of segments whose MAC nothing explains.
    pub(in crate::verify::diagnose) fn with_bad_mac(&self) -> Option<Diagnosis> {
        let Self { sender, connection, .. } = *self;
        let UnexplainedOfSender { bad_mac: unexplained, was_searched, .. } = self.unexplained();
        let (first, (key_id, mac_length)) = (unexplained.first?, unexplained.ao?);
        let Ends { own, other } = Ends::of(connection, sender);
        let [opener, listener] = connection.ends;
        let (count, from) = (segments(unexplained.segments), first.packet);
        let key = self.key_names(key_id);
        let fail = if unexplained.segments == 1 { "fails" } else { "fail" };
        let good_under_key = self.is_good_under(key_id);
        // One sentence for both ends, if it is the same for both.
        let own_case = self.of_another_secret();
        let is_of_both =
            own_case.is_some() && own_case == Self { sender: sender.other(), ..*self }.of_another_secret();
        let whose =
            if is_of_both { "the segments of both ends".to_owned() } else { format!("{count} of {own}") };
        let nothing = format!("nothing that was tried explains {whose} under {key}");
        let explanation = if mac_length < LEAST_MAC {
            explain!(
                "mac-too-short",
                "{own} sends MACs of {mac_length} octets under {key}: these match by chance, so nothing else can be said of \
                 {count}",
                "Set the length of the MAC at {own}; most implementations use 12 octets."
            )
        } else if good_under_key && self.is_last_of_both(Verdict::BadMac) {
            explain!(
                "unexplained",
                "{count} of {own} under {key} {fail}, from packet {from} on, while others before verify; {other}'s last ones \
                 fail as well. Most likely both ends have changed to another secret under the same KeyID",
                "Give it here."
            )
        } else if good_under_key {
            let checksum = match unexplained.damaged {
                0 => "right, so this was not line noise",
                _ => "wrong as well: damaged, or recorded before the network card filled it in",
            };
            explain!(
                "altered",
                "{count} of {own} under {key} {fail} while others verify: altered on the path, or forged",
                "The TCP checksum is {checksum}."
            )
        } else if !was_searched {
            explain!(
                "not-searched",
                "{count} of {own} under {key} {fail}, and what explains others does not explain them; nothing else was tried, \
                 because many others had been searched before",
                "Select the connection with --peer or --port."
            )
        } else if connection.has_given_isns && !connection.has_good() {
            explain!(
                "unexplained",
                "the ISNs given with --isn are of another connection or in the wrong order, or the secret is another one: \
                 {nothing}",
                "Check the ISNs first."
            )
        } else if self.is_key_of_other_end(key_id) && !is_acknowledged(connection, sender, unexplained.end) {
            let (own_address, other_address) = (own.address(), other.address());
            explain!(
                "secrets-differ",
                "most likely the two ends have different secrets: {other_address}'s segments verify under {key}, and nothing that \
                 was tried explains {count} of {own}",
                "{other_address} agrees with the key given here: correct the secret at {own_address}, or at {other_address} and \
                 here."
            )
        } else {
            let agree = "so they agree: correct the secret given here.";
            let advice = match is_acknowledged(connection, sender, unexplained.end) {
                true if is_of_both => format!("Each has acknowledged the other's segments, {agree}"),
                true => format!(
                    "{other} has acknowledged these segments, so the ends agree: correct the secret given here."
                ),
                false => format!("Compare the secret at {opener}, at {listener} and here."),
            };
            explain!("unexplained", "most likely another secret: {nothing}", advice)
        };
        Some(explanation.diagnosis(sender, first, unexplained.segments))
    }

    /// What can be said of segments whose KeyID no key has, and whose MAC is no key's.
    pub(in crate::verify::diagnose) fn with_unknown_key_id(&self) -> Option<Diagnosis> {
        let Self { sender, connection, table, .. } = *self;
        let UnexplainedOfSender { unknown_key_id: unexplained, was_searched, .. } = self.unexplained();
        let (first, (key_id, _)) = (unexplained.first?, unexplained.ao?);
        let Ends { own, other } = Ends::of(connection, sender);
        let explanation = if connection.candidates.is_empty() {
            let [opener, listener] = connection.ends.map(|end| end.address());
            let of_other = self.findings.unexplained[sender.other() as usize].unknown_key_id.ao;
            let is_same = of_other.is_some_and(|(other, _)| other == key_id);
            let who = if is_same { "each end".to_owned() } else { own.to_string() };
            explain!(
                "no-key",
                "no key given here is for {opener} and {listener}",
                "All keys are for other peers, and {who} sends KeyID {key_id}."
            )
        } else {
            let ids = |candidate: &Candidate| {
                let MktParameters { send_id, recv_id, .. } = table.parameters(*candidate);
                format!("{} (SendID {send_id}, RecvID {recv_id})", table.name(candidate.key as usize))
            };
            let mut keys: Vec<_> = connection.candidates.iter().take(4).map(ids).collect();
            if connection.candidates.len() > keys.len() {
                keys.push(format!("{} more", connection.candidates.len() - keys.len()));
            }
            let have_changed = connection.has_good() && self.is_last_of_both(Verdict::UnknownKeyId);
            let advice = if have_changed {
                "Both ends have changed to keys that are not given here: give them as well.".to_owned()
            } else if is_acknowledged(connection, sender, unexplained.end) {
                format!(
                    "{other} has acknowledged these segments, so both ends have that key: give it here as well."
                )
            } else {
                format!(
                    "Either {other} needs a key with RecvID {key_id}, or {own} must send under another one."
                )
            };
            let (count, keys) = (segments(unexplained.segments), keys.join(", "));
            let tried = if *was_searched { " or verifies them under another" } else { "" };
            explain!(
                "unknown-key-id",
                "{own} sends KeyID {key_id} in {count}, and no key given here for it has this id{tried}; the keys are {keys}",
                advice
            )
        };
        Some(explanation.diagnosis(sender, first, unexplained.segments))
    }
}
