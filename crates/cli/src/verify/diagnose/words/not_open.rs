//! Why a connection did not open.

use super::sentence::{Ends, Explanation, explain};
use crate::capture::Place;
use crate::standing::Standing;
use crate::verify::agreement::Agreement;
use crate::verify::connection::TcpConnection;
use crate::verify::handshake::{Handshake, first, has_failed};
use crate::verify::key_table::KeyTable;
use crate::verify::report::{Diagnosis, Sender};

/// Why a connection did not open, or why that is not known. Where segments failed, the reason for that is enough, unless the other
/// end is silent.
pub(in crate::verify::diagnose) fn diagnosis(
    connection: &TcpConnection,
    table: &KeyTable<'_>,
    agreement: &Agreement,
    now: Place,
) -> Option<Diagnosis> {
    let handshake = Handshake::of(connection, now);
    if let Handshake::Unanswered(sender) = handshake {
        return unanswered(connection, sender, table, agreement);
    }
    if connection.directions.iter().any(has_failed) {
        return None;
    }
    let [opener, listener] = connection.ends;
    let (sender, about, explanation) = match handshake {
        Handshake::Open | Handshake::NotSeen | Handshake::Unanswered(_) => return None,
        Handshake::HalfOpen => {
            let explanation = explain!(
                "syn-ack-repeated",
                "{listener} repeats its SYN-ACK, so it has accepted nothing that {opener} sent after it",
                "An end with TCP-AO silently drops what it cannot verify: compare the key for {opener} at {listener}, in both \
                 directions. Or a device on the path drops or changes the segments."
            );
            (Sender::Listener, Standing::NotOpen, explanation)
        }
        Handshake::Refused => {
            let explanation = explain!(
                "refused",
                "{listener} refused the connection with a reset",
                "Nothing listens on that port at {listener}, or the program there does not expect {opener}. The reset is signed, so \
                 the keys agree."
            );
            (Sender::Listener, Standing::NotOpen, explanation)
        }
        Handshake::Abandoned => {
            let explanation = explain!(
                "abandoned",
                "{opener} reset the connection before it was open",
                "The program at {opener} gave up: its log says why."
            );
            (Sender::Opener, Standing::NotOpen, explanation)
        }
        Handshake::CutShort(sender) => {
            let Ends { own, other } = Ends::of(connection, sender);
            let (what, answers) = match sender {
                Sender::Opener => ("SYN", "answers"),
                Sender::Listener => ("SYN-ACK", "accepts"),
            };
            let explanation = explain!(
                "capture-ends",
                "the capture shows too little after the {what} of {own} to tell whether {other} {answers} it",
                "Record for some seconds more."
            );
            (sender, Standing::NotJudged, explanation)
        }
        Handshake::NotRepeated(sender) => {
            let Ends { own, other } = Ends::of(connection, sender);
            let (what, answered) = match sender {
                Sender::Opener => ("SYN", "answered"),
                Sender::Listener => ("SYN-ACK", "accepted"),
            };
            let explanation = explain!(
                "not-repeated",
                "{own} did not go on repeating its {what}, so it is not known whether {other} {answered} it",
                "An end repeats a {what} that has no answer, so either {own} gave up or the capture lacks the answer: record all \
                 segments of both directions, not only SYNs."
            );
            (sender, Standing::NotJudged, explanation)
        }
        Handshake::OnlyListener => {
            let explanation = explain!(
                "only-listener",
                "the capture has the SYN-ACK of {listener} and nothing of {opener}, so it is not known whether the connection opened",
                "Record both directions."
            );
            (Sender::Listener, Standing::NotJudged, explanation)
        }
    };
    let direction = connection.direction(sender);
    Some(Diagnosis { about, ..explanation.diagnosis(sender, first(direction)?, direction.segments()) })
}

/// SYNs or SYN-ACKs without an answer.
fn unanswered(
    connection: &TcpConnection,
    sender: Sender,
    table: &KeyTable<'_>,
    agreement: &Agreement,
) -> Option<Diagnosis> {
    let Ends { own, other } = Ends::of(connection, sender);
    let (direction, peer) = (connection.direction(sender), connection.direction(sender.other()));
    // An end that does not sign has a diagnosis of its own.
    let key_id = direction.seen.key_id?;
    if has_failed(peer) {
        return None;
    }
    let all = direction.segments();
    let (kind, does, what, otherwise) = match sender {
        Sender::Opener if peer.segments() == 0 => {
            ("syn-unanswered", "answer", "SYN", ", or its answers are not in the capture")
        }
        Sender::Opener => ("syn-unanswered", "answer", "SYN", ""),
        Sender::Listener => ("syn-ack-unanswered", "accept", "SYN-ACK", ""),
    };
    let key_use = direction.report.key_uses.first()?;
    let (own_address, other_address) = (own.address(), other.address());
    let key_of_own =
        key_use.key.filter(|key| agreement.is_key_of_only(own_address, other_address, *key as u32));
    let explanation = if let Some(key) = key_of_own {
        let key = table.name(key);
        explain!(
            kind,
            "{other} did not {does} any of the {all} {what}s of {own}, which verify under key {key} (KeyID {key_id}); its own segments do not, so \
             most likely the two ends have different secrets",
            "Correct the secret at {other_address}, or at {own_address} and here."
        )
    } else {
        explain!(
            kind,
            "{other} did not {does} any of the {all} {what}s of {own} with KeyID {key_id}",
            "An end with TCP-AO silently drops what it cannot verify, so most likely {other} has no such key or another one: it \
             needs a key for {own_address} with RecvID {key_id} and the same secret, algorithm and coverage of TCP options. Or \
             the {what}s do not reach it{otherwise}."
        )
    };
    Some(Diagnosis { about: Standing::NotOpen, ..explanation.diagnosis(sender, key_use.first, all) })
}
