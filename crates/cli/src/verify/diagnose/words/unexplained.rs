//! What can be said of segments that no hypothesis explains.

use wireseal_tcp_ao::{KeyId, MktParameters};

use super::sentence::{Ends, Explanation, segments};
use crate::verify::connection::TcpConnection;
use crate::verify::diagnose::case::LEAST_MAC;
use crate::verify::diagnose::findings::{Findings, is_acknowledged};
use crate::verify::key_table::{Candidate, KeyTable};
use crate::verify::report::{Diagnosis, Sender, Verdict};

/// Whether the last segments of both ends have this verdict: what both do, and keep doing, is not forged.
fn is_last_of_both(connection: &TcpConnection, verdict: Verdict) -> bool {
    connection.directions.iter().all(|direction| direction.last_verdict == Some(verdict))
}

/// Whether segments of a sender with this KeyID verify.
fn is_good_under(key_id: KeyId, sender: Sender, connection: &TcpConnection) -> bool {
    let uses = &connection.direction(sender).report.key_uses;
    uses.iter().any(|key_use| key_use.key_id == key_id && key_use.key.is_some())
}

/// The keys that a KeyID names in segments of a sender, with the KeyID.
fn key_names(key_id: KeyId, sender: Sender, connection: &TcpConnection, table: &KeyTable<'_>) -> String {
    let named = |candidate: &&Candidate| candidate.serves(table, connection.configured_end, sender, key_id);
    let names: Vec<_> =
        connection.candidates.iter().filter(named).map(|it| table.name(it.key as usize)).collect();
    format!("key {} (KeyID {key_id})", names.join(" or "))
}

/// Where nothing is left but another secret: the keys, and whether the other end accepts the segments.
fn of_another_secret(
    sender: Sender,
    findings: &Findings,
    connection: &TcpConnection,
    table: &KeyTable<'_>,
) -> Option<(String, bool)> {
    let unexplained = &findings.unexplained[sender as usize];
    let (key_id, mac_length) = unexplained.bad_mac.ao?;
    let is_left =
        mac_length >= LEAST_MAC && unexplained.was_searched && !is_good_under(key_id, sender, connection);
    let is_accepted = is_acknowledged(connection, sender, unexplained.bad_mac.end);
    is_left.then(|| (key_names(key_id, sender, connection, table), is_accepted))
}

/// What can be said of segments whose MAC nothing explains.
pub(in crate::verify::diagnose) fn with_bad_mac(
    sender: Sender,
    findings: &Findings,
    connection: &TcpConnection,
    table: &KeyTable<'_>,
) -> Option<Diagnosis> {
    let was_searched = findings.unexplained[sender as usize].was_searched;
    let unexplained = &findings.unexplained[sender as usize].bad_mac;
    let (first, (key_id, mac_length)) = (unexplained.first?, unexplained.ao?);
    let Ends { own, other } = Ends::of(connection, sender);
    let [opener, listener] = connection.ends;
    let count = segments(unexplained.segments);
    let key = key_names(key_id, sender, connection, table);
    let fail = if unexplained.segments == 1 { "fails" } else { "fail" };
    let good_under_key = is_good_under(key_id, sender, connection);
    // One sentence for both ends, if it is the same for both.
    let [own_case, other_case] =
        [sender, sender.other()].map(|sender| of_another_secret(sender, findings, connection, table));
    let is_of_both = own_case.is_some() && own_case == other_case;
    let whose = if is_of_both { "the segments of both ends".to_owned() } else { format!("{count} of {own}") };
    let nothing = format!("nothing that was tried explains {whose} under {key}");
    let explanation = if mac_length < LEAST_MAC {
        Explanation(
            "mac-too-short",
            format!(
                "{own} sends MACs of {mac_length} octets under {key}: these match by chance, so nothing else can be said of \
                 {count}"
            ),
            format!("Set the length of the MAC at {own}; most implementations use 12 octets."),
        )
    } else if good_under_key && is_last_of_both(connection, Verdict::BadMac) {
        Explanation(
            "unexplained",
            format!(
                "{count} of {own} under {key} {fail}, from packet {} on, while others before verify; {other}'s last ones fail \
                 as well. Most likely both ends have changed to another secret under the same KeyID",
                first.packet
            ),
            "Give it here.".to_owned(),
        )
    } else if good_under_key {
        let checksum = match unexplained.damaged {
            0 => "The TCP checksum is right, so this was not line noise.",
            _ => {
                "The TCP checksum is wrong as well: damaged, or recorded before the network card filled it in."
            }
        };
        Explanation(
            "altered",
            format!(
                "{count} of {own} under {key} {fail} while others verify: altered on the path, or forged"
            ),
            checksum.to_owned(),
        )
    } else if !was_searched {
        Explanation(
            "not-searched",
            format!(
                "{count} of {own} under {key} {fail}, and what explains others does not explain them; nothing else was tried, \
                 because many others had been searched before"
            ),
            "Select the connection with --peer or --port.".to_owned(),
        )
    } else if connection.has_given_isns && !connection.has_good() {
        Explanation(
            "unexplained",
            format!(
                "the ISNs given with --isn are of another connection or in the wrong order, or the secret is another one: \
                 {nothing}"
            ),
            "Check the ISNs first.".to_owned(),
        )
    } else {
        let advice = match is_acknowledged(connection, sender, unexplained.end) {
            true if is_of_both => {
                "Each has acknowledged the other's segments, so they agree: correct the secret given here."
                    .to_owned()
            }
            true => format!(
                "{other} has acknowledged these segments, so the ends agree: correct the secret given here."
            ),
            false => format!("Compare the secret at {opener}, at {listener} and here."),
        };
        Explanation("unexplained", format!("most likely another secret: {nothing}"), advice)
    };
    Some(explanation.diagnosis(sender, first, unexplained.segments))
}

/// What can be said of segments whose KeyID no key has, and whose MAC is no key's.
pub(in crate::verify::diagnose) fn with_unknown_key_id(
    sender: Sender,
    findings: &Findings,
    connection: &TcpConnection,
    table: &KeyTable<'_>,
) -> Option<Diagnosis> {
    let was_searched = findings.unexplained[sender as usize].was_searched;
    let unexplained = &findings.unexplained[sender as usize].unknown_key_id;
    let (first, (key_id, _)) = (unexplained.first?, unexplained.ao?);
    let Ends { own, other } = Ends::of(connection, sender);
    let explanation = if connection.candidates.is_empty() {
        let [opener, listener] = connection.ends;
        let of_other = findings.unexplained[sender.other() as usize].unknown_key_id.ao;
        let is_same = of_other.is_some_and(|(other, _)| other == key_id);
        let who = if is_same { "each end".to_owned() } else { own.to_string() };
        Explanation(
            "no-key",
            format!("no key given here is for {} and {}", opener.address(), listener.address()),
            format!("All keys are for other peers, and {who} sends KeyID {key_id}."),
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
        let have_changed = connection.has_good() && is_last_of_both(connection, Verdict::UnknownKeyId);
        let advice = if have_changed {
            "Both ends have changed to keys that are not given here: give them as well.".to_owned()
        } else if is_acknowledged(connection, sender, unexplained.end) {
            format!(
                "{other} has acknowledged these segments, so both ends have that key: give it here as well."
            )
        } else {
            format!("Either {other} needs a key with RecvID {key_id}, or {own} must send under another one.")
        };
        let cause = format!(
            "{own} sends KeyID {key_id} in {}, and no key given here for it has this id{}; the keys are {}",
            segments(unexplained.segments),
            if was_searched { " or verifies them under another" } else { "" },
            keys.join(", ")
        );
        Explanation("unknown-key-id", cause, advice)
    };
    Some(explanation.diagnosis(sender, first, unexplained.segments))
}
