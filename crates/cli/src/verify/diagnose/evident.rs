//! Diagnoses that need no MAC: ends that do not sign, or sign with something else, and connections that did not open.

use wireseal_tcp_ao::{Endpoint, OptionError};

use crate::capture::Place;
use crate::text::counted;
use crate::verify::across::Agreement;
use crate::verify::connection::TcpConnection;
use crate::verify::key_table::KeyTable;
use crate::verify::learn::{Handshake, has_failed};
use crate::verify::report::{Diagnosis, Sender, Standing, Verdict};

/// A sender and its peer.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) own: Endpoint,
    pub(super) other: Endpoint,
}

impl Ends {
    pub(super) fn of(connection: &TcpConnection, sender: Sender) -> Self {
        Self { own: connection.ends[sender as usize], other: connection.ends[sender.other() as usize] }
    }
}

/// A kind of diagnosis, its cause and its advice.
pub(super) struct Explanation(pub(super) &'static str, pub(super) String, pub(super) String);

/// An [`Explanation`] from a kind and two format strings; the advice may be a `String` instead.
macro_rules! explain {
    ($kind:expr, $cause:literal, $advice:literal) => {
        explain!($kind, $cause, format_args!($advice).to_string())
    };
    ($kind:expr, $cause:literal, $advice:expr) => {
        Explanation($kind, format_args!($cause).to_string(), $advice)
    };
}
pub(super) use explain;

impl Explanation {
    pub(super) fn diagnosis(self, sender: Sender, first: Place, segments: u64) -> Diagnosis {
        let Self(kind, cause, advice) = self;
        Diagnosis { about: Standing::Failed, sender, first, segments, kind, cause, advice }
    }
}

pub(super) fn segments(count: u64) -> String {
    counted(count, "segment")
}

/// What is wrong with the segments of one end.
pub(super) fn diagnoses(
    sender: Sender,
    connection: &TcpConnection,
    agreement: &Agreement,
) -> impl Iterator<Item = Diagnosis> {
    let ends = Ends::of(connection, sender);
    let looks = [odd_options, odd_ends, rolled_over, isn_not_seen, cut_off];
    let unsigned = unsigned(connection, sender, ends, agreement);
    unsigned.into_iter().chain(looks.into_iter().filter_map(move |look| look(connection, sender, ends)))
}

/// Where the SYN or SYN-ACK of an end was recorded with TCP-AO and without.
fn option_removed(connection: &TcpConnection, sender: Sender, agreement: &Agreement) -> Option<[Place; 2]> {
    let Ends { own, other } = Ends::of(connection, sender);
    agreement.removed.pair(own, other, connection.isn(sender)?)
}

/// What to do about it.
fn stop_removing([signed, unsigned]: [Place; 2], Ends { own, other }: Ends) -> String {
    let (signed, unsigned) = (signed.packet, unsigned.packet);
    format!(
        "Stop the device between {own} and {other} from removing TCP option 29: packet {signed} has it, and packet {unsigned} is the same \
         segment without it."
    )
}

/// How many segments of a sender have one of these verdicts, and the first of them.
fn of_verdicts(connection: &TcpConnection, sender: Sender, verdicts: &[Verdict]) -> Option<(u64, Place)> {
    let direction = connection.direction(sender);
    let count = verdicts.iter().map(|verdict| direction.counts()[verdict.index()]).sum();
    let first = verdicts.iter().filter_map(|verdict| direction.unusual().first(*verdict));
    Some((count, first.min_by_key(|place| place.packet)?))
}

fn odd_options(connection: &TcpConnection, sender: Sender, Ends { own, .. }: Ends) -> Option<Diagnosis> {
    let odd = [Verdict::MalformedOption(OptionError::AoTooShort), Verdict::TwoOptions];
    let (count, first) = of_verdicts(connection, sender, &odd)?;
    let their = segments(count);
    let explanation = explain!(
        "malformed-options",
        "{their} of {own} with TCP options that cannot be read or that RFC 5925 §2.2 forbids: Linux drops them, as that section demands \
         of what it forbids",
        "{own}'s implementation or a device on the path is at fault, or they are forged."
    );
    Some(explanation.diagnosis(sender, first, count))
}

fn odd_ends(connection: &TcpConnection, sender: Sender, Ends { own, .. }: Ends) -> Option<Diagnosis> {
    let (count, first) = connection.direction(sender).unusual().odd_ends?;
    let (their, are) = (segments(count), if count == 1 { "is" } else { "are" });
    let explanation = explain!(
        "octets-behind-option",
        "{their} of {own} {are} good, but the octets behind TCP-AO are not padding",
        "Linux accepts that, because it does not look at the last 4 octets of the options; another receiver may drop it. Linux itself \
         left such octets behind MACs of odd length in acknowledgments and resets outside of connections until July 2026 (commit \
         e1a9d3cc1182): update the kernel of {own}, or give the MAC 12 or 16 octets at both ends."
    );
    Some(Diagnosis { about: Standing::Good, ..explanation.diagnosis(sender, first, count) })
}

fn isn_not_seen(connection: &TcpConnection, sender: Sender, _: Ends) -> Option<Diagnosis> {
    let (count, first) = of_verdicts(connection, sender, &[Verdict::IsnNotSeen])?;
    let [opener, listener] = connection.ends;
    let give = format!("or give the ISNs with --isn {opener}-{listener}=ISN,ISN.");
    let missing: Vec<_> = Sender::BOTH.into_iter().filter(|end| connection.isn(*end).is_none()).collect();
    let explanation = match missing[..] {
        [end] if connection.direction(end).segments() == 0 => {
            let end = connection.ends[end as usize];
            explain!(
                "isn-not-seen",
                "the capture has nothing that {end} sent, and so not its ISN, which the traffic keys depend on",
                "Record both directions, {give}"
            )
        }
        [end] => {
            let syn = if end == Sender::Opener { "SYN" } else { "SYN-ACK" };
            let end = connection.ends[end as usize];
            explain!(
                "isn-not-seen",
                "the capture lacks the {syn} of {end}, and with it the ISN that the traffic keys depend on",
                "Record from before the connection opens, in both directions, {give}"
            )
        }
        _ => explain!(
            "isn-not-seen",
            "the capture lacks the start of the connection, and with it the ISNs that the traffic keys depend on",
            "Record from before the connection opens, {give}"
        ),
    };
    Some(Diagnosis { about: Standing::NotJudged, ..explanation.diagnosis(sender, first, count) })
}

fn cut_off(connection: &TcpConnection, sender: Sender, Ends { own, .. }: Ends) -> Option<Diagnosis> {
    let (count, first) = of_verdicts(connection, sender, &[Verdict::CutOff])?;
    // One sentence if it is the same for both ends.
    let whose = match of_verdicts(connection, sender.other(), &[Verdict::CutOff]) {
        Some(_) => "segments of both ends".to_owned(),
        None => format!("{} of {own}", segments(count)),
    };
    let explanation = explain!(
        "cut-off",
        "the capture has only the beginning of {whose}",
        "Record whole packets (tcpdump -s 0)."
    );
    Some(Diagnosis { about: Standing::NotJudged, ..explanation.diagnosis(sender, first, count) })
}

/// Good segments that the other end does not accept since they are signed with another key.
fn rolled_over(connection: &TcpConnection, sender: Sender, Ends { own, other }: Ends) -> Option<Diagnosis> {
    let again = connection.unacknowledged_since_rollover(sender)?;
    let run = connection.direction(sender).key_runs.last()?;
    let (key_id, packet, again) = (run.key_id, run.first.packet, counted(again.into(), "segment"));
    let explanation = explain!(
        "rollover-not-accepted",
        "since packet {packet} {own} signs with KeyID {key_id}, and {other} has acknowledged nothing of that, although {own} sent {again} again",
        "Most likely {other} has no key with RecvID {key_id}, or another secret for it: compare the key there, and its accept lifetime. Or the \
         segments do not reach it, or the capture lacks its answers."
    );
    Some(Diagnosis { about: Standing::Good, ..explanation.diagnosis(sender, run.first, run.segments) })
}

fn unsigned(
    connection: &TcpConnection,
    sender: Sender,
    ends: Ends,
    agreement: &Agreement,
) -> Option<Diagnosis> {
    let Ends { own, other } = ends;
    let [opener, listener] = connection.ends;
    let direction = connection.direction(sender);
    let peer = connection.direction(sender.other());
    let (count, first) = of_verdicts(connection, sender, &[Verdict::NoOption])?;
    let (their, address) = (segments(count), own.address());
    let peer_is_unsigned = !peer.has_signed();
    let yet = if has_failed(peer) { "" } else { "; keys do not matter yet" };
    let only_resets = direction.unusual().unsigned_resets == count;
    let is_signed_after = direction.last_good().is_some_and(|last| last.packet > first.packet);
    let lost = match is_signed_after {
        true => format!(
            "{own} goes on with signed segments, so a firewall on the path sends them, or someone forges them."
        ),
        false => format!(
            "Either {own} has lost the connection (it was restarted, or its keys were removed), or a firewall on the path sends them, or \
             someone forges them."
        ),
    };
    let md5 = match direction.unusual().md5 {
        0 => String::new(),
        _ if count == 1 => "; it is signed with TCP-MD5".to_owned(),
        1 => "; 1 of them is signed with TCP-MD5".to_owned(),
        md5 => format!("; {md5} of them are signed with TCP-MD5"),
    };
    let removed = Sender::BOTH.into_iter().find_map(|end| option_removed(connection, end, agreement));
    let explanation = if let Some(removed) = removed {
        explain!(
            "option-removed",
            "a device between {opener} and {listener} removes TCP-AO from the segments",
            stop_removing(removed, Ends { own: opener, other: listener })
        )
    } else if direction.unusual().md5 > 0
        && direction.unusual().md5 + direction.unusual().unsigned_resets >= count
        && !direction.has_signed()
    {
        explain!(
            "tcp-md5",
            "{own} signs with TCP-MD5 (RFC 2385), not with TCP-AO, and the two do not interoperate",
            "Change the authentication for {other} at {own}."
        )
    } else if direction.unusual().enhanced == count && !direction.has_signed() {
        // In every segment it is what it looks like; in SYNs alone it may be another experiment.
        let opening = direction.opening();
        let likely =
            if u64::from(opening.syns) + u64::from(opening.syn_acks) < count { "" } else { "most likely " };
        explain!(
            "tcp-enhanced-authentication",
            "{likely}{own} signs with the older TCP Enhanced Authentication Option (kind 253 or 254, draft-bonica-tcp-auth), not with TCP-AO, \
             and the two do not interoperate",
            "Change the authentication for {other} at {own} to TCP-AO: a key chain alone may mean the older option there (SR OS: write tcp-option-number send tcp-ao)."
        )
    } else if direction.has_signed() && only_resets {
        let resets = counted(count, "reset");
        explain!(
            "unsigned-resets",
            "{resets} of {own} without TCP-AO in a connection that it signs: an end with TCP-AO ignores them",
            lost
        )
    } else if direction.has_signed() {
        explain!(
            "unsigned-segments",
            "{their} of {own} without TCP-AO among others that are signed: an end with TCP-AO drops them",
            "They are forged, or a device on the path removes the option{md5}."
        )
    } else if peer_is_unsigned && connection.candidates.is_empty() {
        explain!(
            "unsigned-without-key",
            "neither {opener} nor {listener} uses TCP-AO, and no key given here is for them",
            "Select other connections with --peer or --port, or configure TCP-AO at both ends."
        )
    } else if peer.segments() == 0 {
        explain!(
            "unsigned-unanswered",
            "{own} does not sign, and nothing from {other} is in the capture",
            "An end with TCP-AO silently drops what is not signed: if {other} has a key for {address}, configure it at {own} as \
             well."
        )
    } else if peer_is_unsigned {
        explain!(
            "unsigned",
            "neither {opener} nor {listener} signs in this capture",
            "TCP-AO is configured at neither end, or a device on the path removes the option."
        )
    } else if only_resets && sender == Sender::Listener && peer.opening().syns > 0 {
        explain!(
            "reset-unsigned",
            "{own} answers the signed SYN with an unsigned reset, which {other} ignores",
            "Nothing listens on that port at {own}, or a firewall refuses the connection{yet}."
        )
    } else if only_resets {
        let resets = counted(count, "unsigned reset");
        explain!(
            "unsigned-resets",
            "{own} answers signed segments of {other} with {resets}, which {other} ignores",
            lost
        )
    } else {
        explain!(
            "peer-unsigned",
            "{other} signs and {own} does not",
            "{own} has no TCP-AO configured for {other}: configure the key there. Or a device on the path answers for {own}, such as a SYN \
             proxy, or removes the option."
        )
    };
    Some(explanation.diagnosis(sender, first, count))
}

/// Why a connection did not open, or why that is not known. `None` if segments failed, because their diagnosis says it, unless the other
/// end is silent.
pub(super) fn not_open(
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
    Some(Diagnosis { about, ..explanation.diagnosis(sender, direction.first()?, direction.segments()) })
}

/// An end that lost an open connection begins another one with the same ports, and has no answer.
pub(super) fn not_open_again(connection: &TcpConnection) -> Option<Diagnosis> {
    // An answer that fails has a diagnosis of its own.
    let other_syn = connection
        .unanswered_other_syn()
        .filter(|other_syn| !has_failed(connection.direction(other_syn.sender.other())))?;
    let Ends { own, other } = Ends::of(connection, other_syn.sender);
    let (count, packet) = (other_syn.count, other_syn.first.packet);
    let explanation = explain!(
        "syn-unanswered",
        "{own} no longer goes on with this connection: from packet {packet} on it opens another one with the same ports, and {other} \
         did not answer any of its {count} SYNs, which verify",
        "Most likely {other} still has the old connection and silently drops what is not of it: clear the session there, or wait until \
         its timers do. Or the SYNs do not reach it, or its answers are not in the capture."
    );
    let diagnosis = explanation.diagnosis(other_syn.sender, other_syn.first, count.into());
    Some(Diagnosis { about: Standing::NotOpen, ..diagnosis })
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
    let key_id = direction.key_id?;
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
    let key_use = direction.key_runs.first()?;
    let (own_address, other_address) = (own.address(), other.address());
    let is_key_of_own =
        |key: &usize| agreement.is_key_of_only(connection.scope, own_address, other_address, *key as u32);
    let key_of_own = key_use.key().filter(is_key_of_own);
    let explanation = if let Some(key) = key_of_own {
        let key = table.name(key);
        explain!(
            kind,
            "{other} did not {does} any of the {all} {what}s of {own}, which verify under key {key} (KeyID {key_id}); its own segments do not, so \
             most likely the two ends have different secrets",
            "Correct the secret at {other_address}, or at {own_address} and here."
        )
    } else if let Some([mine, copy]) = agreement.copies.pair(connection.number, false) {
        let number = if mine.is_good { copy.connection } else { mine.connection };
        let fail = match mine.connection == copy.connection {
            true => "segments of this connection fail".to_owned(),
            false => format!("segments of connection {number} fail"),
        };
        let changes = if mine.is_near(copy) { "changes" } else { "may change" };
        explain!(
            kind,
            "{other} did not {does} any of the {all} {what}s of {own} with KeyID {key_id}",
            "A device on the path {changes} it, and an end with TCP-AO silently drops what it cannot verify: see why {fail}."
        )
    } else if let Some(removed) = option_removed(connection, sender, agreement) {
        explain!(
            kind,
            "{other} did not {does} any of the {all} {what}s of {own} with KeyID {key_id}, from which a device on the path removes TCP-AO",
            stop_removing(removed, Ends { own, other })
        )
    } else if has_failed(direction) {
        explain!(
            kind,
            "{other} did not {does} any of the {all} {what}s of {own} with KeyID {key_id}",
            "An end with TCP-AO silently drops what it cannot verify: fix the failing segments of {own} first. Or the {what}s do not \
             reach it{otherwise}."
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
