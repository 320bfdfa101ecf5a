//! What there is to say of segments that no hypothesis explains.

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

/// What there is to say of segments whose MAC nothing explains.
pub(super) fn with_bad_mac(
    sender: Sender,
    direction: &Direction,
    connection: &Connection,
    table: &KeyTable<'_>,
) -> Option<report::Diagnosis> {
    let unexplained = &direction.bad_mac;
    let first = unexplained.first?;
    let Ends { own, other } = Ends::of(connection, sender);
    let count = segments(unexplained.segments);
    let (key_id, mac_length) = unexplained.ao?;
    let named = |candidate: &&Candidate| candidate.serves(table, connection.configured_end, sender, key_id);
    let names: Vec<_> =
        connection.candidates.iter().filter(named).map(|candidate| table.name(*candidate)).collect();
    let key = names.join(" or ");
    let fail = if unexplained.segments == 1 { "fails" } else { "fail" };
    let good_under_key = connection.directions[sender as usize]
        .report
        .key_uses
        .iter()
        .any(|key_use| key_use.key_id == key_id && key_use.key.is_some());
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
            "no hypothesis explains why {count} of {own} under key {key} (KeyID {key_id}) {fail}: the ISNs given with --isn are \
             those of another connection or stand in the other order, or the secret is another one. Check them first."
        );
        ("unexplained", sentence)
    } else if is_acknowledged(connection, sender, unexplained.end) {
        let sentence = format!(
            "no hypothesis explains why {count} of {own} under key {key} (KeyID {key_id}) {fail}: another secret is the most \
             likely. {other} has acknowledged these segments, so the ends agree: correct the secret given here."
        );
        ("unexplained", sentence)
    } else {
        let sentence = format!(
            "no hypothesis explains why {count} of {own} under key {key} (KeyID {key_id}) {fail}: another secret is the most \
             likely. Compare the secret at {own}, at {other} and here."
        );
        ("unexplained", sentence)
    };
    Some(report::Diagnosis { sender, first, segments: unexplained.segments, kind, sentence })
}

/// What there is to say of segments whose KeyID no key has, and whose MAC is no key's.
pub(super) fn with_unknown_key_id(
    sender: Sender,
    direction: &Direction,
    connection: &Connection,
    table: &KeyTable<'_>,
) -> Option<report::Diagnosis> {
    let unexplained = &direction.unknown_key_id;
    let first = unexplained.first?;
    let (key_id, _) = unexplained.ao?;
    let Ends { own, other } = Ends::of(connection, sender);
    let count = segments(unexplained.segments);
    let (kind, sentence) = if connection.candidates.is_empty() {
        let sentence = format!(
            "no key given here is for {} and {}: all keys are for other peers, and {own} sends KeyID {key_id}.",
            own.address(),
            other.address()
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
