//! What there is to say of segments that no hypothesis explains.

use wireseal_tcp_ao::KeyId;

use super::Direction;
use super::case::LEAST_MAC;
use super::words::{Ends, is_acknowledged, segments};
use crate::verify::connection::Connection;
use crate::verify::key_table::{Candidate, KeyTable};
use crate::verify::report::{self, Sender, Verdict};

/// Whether the last segments of both ends have this verdict: what both do, and go on doing, is not forged.
fn is_last_of_both(connection: &Connection, verdict: Verdict) -> bool {
    connection.directions.iter().all(|direction| direction.last_verdict == Some(verdict))
}

/// Whether segments of a sender with this KeyID verify.
fn is_good_under(key_id: KeyId, sender: Sender, connection: &Connection) -> bool {
    let uses = &connection.directions[sender as usize].report.key_uses;
    uses.iter().any(|key_use| key_use.key_id == key_id && key_use.key.is_some())
}

/// The keys that a KeyID names in segments of a sender.
fn key_names(key_id: KeyId, sender: Sender, connection: &Connection, table: &KeyTable<'_>) -> String {
    let named = |candidate: &&Candidate| candidate.serves(table, connection.configured_end, sender, key_id);
    let names: Vec<_> =
        connection.candidates.iter().filter(named).map(|candidate| table.name(*candidate)).collect();
    names.join(" or ")
}

/// The keys, their KeyID, and whether the other end accepts it, where another secret is all that remains to suppose.
fn of_another_secret(
    sender: Sender,
    directions: &[Direction; 2],
    connection: &Connection,
    table: &KeyTable<'_>,
) -> Option<(String, KeyId, bool)> {
    let direction = &directions[sender as usize];
    let (key_id, mac_length) = direction.bad_mac.ao?;
    let remains =
        mac_length >= LEAST_MAC && direction.was_searched && !is_good_under(key_id, sender, connection);
    let is_accepted = is_acknowledged(connection, sender, direction.bad_mac.end);
    remains.then(|| (key_names(key_id, sender, connection, table), key_id, is_accepted))
}

/// What there is to say of segments whose MAC nothing explains.
pub(super) fn with_bad_mac(
    sender: Sender,
    directions: &[Direction; 2],
    connection: &Connection,
    table: &KeyTable<'_>,
) -> Option<report::Diagnosis> {
    let direction = &directions[sender as usize];
    let unexplained = &direction.bad_mac;
    let first = unexplained.first?;
    let Ends { own, other } = Ends::of(connection, sender);
    let count = segments(unexplained.segments);
    let (key_id, mac_length) = unexplained.ao?;
    let key = key_names(key_id, sender, connection, table);
    let fail = if unexplained.segments == 1 { "fails" } else { "fail" };
    let good_under_key = is_good_under(key_id, sender, connection);
    // One sentence for both ends, if it is the same with both.
    let [own_case, other_case] =
        [sender, sender.other()].map(|sender| of_another_secret(sender, directions, connection, table));
    let is_of_both = own_case.is_some() && own_case == other_case;
    let whose =
        if is_of_both { "the segments of either end".to_owned() } else { format!("{count} of {own}") };
    let nothing = format!("under key {key} (KeyID {key_id}) nothing that was tried explains {whose}");
    let (kind, sentence) = if mac_length < LEAST_MAC {
        let sentence = format!(
            "{own} sends MACs of {mac_length} octets under key {key} (KeyID {key_id}): so few match by chance, and nothing \
             else can be said of {count}. Set the length of the MAC at {own}; most implementations have 12 octets."
        );
        ("mac-too-short", sentence)
    } else if good_under_key && is_last_of_both(connection, Verdict::BadMac) {
        let sentence = format!(
            "{count} of {own} under key {key} (KeyID {key_id}) {fail}, from packet {} on, while others before them verify; {other}'s \
             last fail as well: another secret under the same KeyID from then on at both ends is the most likely. Give it here.",
            first.packet
        );
        ("unexplained", sentence)
    } else if good_under_key {
        let checksum = if unexplained.damaged == 0 {
            "The TCP checksum is right, so it was not line noise."
        } else {
            "The TCP checksum is wrong as well: damaged, or recorded before the network card filled it in."
        };
        let sentence = format!(
            "{count} of {own} under key {key} (KeyID {key_id}) {fail} while others verify: altered on the way, or forged. \
             {checksum}"
        );
        ("altered", sentence)
    } else if !direction.was_searched {
        let sentence = format!(
            "{count} of {own} under key {key} (KeyID {key_id}) {fail}, and what explains others does not explain them; nothing \
             else was tried, since many others had been searched before. Select the connection with --peer or --port."
        );
        ("not-searched", sentence)
    } else if connection.has_given_isns && !connection.has_good() {
        let sentence = format!(
            "the ISNs given with --isn are those of another connection or stand in the other order, or the secret is another \
             one: {nothing}. Check them first."
        );
        ("unexplained", sentence)
    } else if is_acknowledged(connection, sender, unexplained.end) {
        let why = if is_of_both {
            "Each has acknowledged the other's, so they agree".to_owned()
        } else {
            format!("{other} has acknowledged these segments, so the ends agree")
        };
        let sentence =
            format!("another secret is the most likely: {nothing}. {why}: correct the secret given here.");
        ("unexplained", sentence)
    } else {
        let [opener, listener] = connection.ends;
        let sentence = format!(
            "another secret is the most likely: {nothing}. Compare the secret at {opener}, at {listener} and here."
        );
        ("unexplained", sentence)
    };
    Some(report::Diagnosis { sender, first, segments: unexplained.segments, kind, sentence })
}

/// What there is to say of segments whose KeyID no key has, and whose MAC is no key's.
pub(super) fn with_unknown_key_id(
    sender: Sender,
    directions: &[Direction; 2],
    connection: &Connection,
    table: &KeyTable<'_>,
) -> Option<report::Diagnosis> {
    let direction = &directions[sender as usize];
    let unexplained = &direction.unknown_key_id;
    let first = unexplained.first?;
    let (key_id, _) = unexplained.ao?;
    let Ends { own, other } = Ends::of(connection, sender);
    let count = segments(unexplained.segments);
    let (kind, sentence) = if connection.candidates.is_empty() {
        let [opener, listener] = connection.ends;
        let same =
            directions[sender.other() as usize].unknown_key_id.ao.is_some_and(|(other, _)| other == key_id);
        let who = if same { "each end".to_owned() } else { own.to_string() };
        let sentence = format!(
            "no key given here is for {} and {}: all keys are for other peers, and {who} sends KeyID {key_id}.",
            opener.address(),
            listener.address()
        );
        ("no-key", sentence)
    } else {
        let ids = |candidate: &Candidate| {
            let parameters = table.parameters(*candidate);
            format!(
                "{} (SendID {}, RecvID {})",
                table.name(*candidate),
                parameters.send_id,
                parameters.recv_id
            )
        };
        let mut keys: Vec<_> = connection.candidates.iter().take(4).map(ids).collect();
        if connection.candidates.len() > keys.len() {
            keys.push(format!("{} more", connection.candidates.len() - keys.len()));
        }
        let have_changed = connection.has_good() && is_last_of_both(connection, Verdict::UnknownKeyId);
        let tail = if have_changed {
            "Both ends have changed to keys that are not given here: give them as well.".to_owned()
        } else if is_acknowledged(connection, sender, unexplained.end) {
            format!(
                "{other} has acknowledged these segments, so both ends have that key: give it here as well."
            )
        } else {
            format!("{other} needs a key with RecvID {key_id}, or {own} is to send under another.")
        };
        let sentence = format!(
            "{own} sends KeyID {key_id} in {count}, and no key that is given here for it has this id{}: there {} {}. \
             {tail}",
            if direction.was_searched { " or verifies them under another" } else { "" },
            if keys.len() == 1 { "is" } else { "are" },
            keys.join(", ")
        );
        ("unknown-key-id", sentence)
    };
    Some(report::Diagnosis { sender, first, segments: unexplained.segments, kind, sentence })
}
