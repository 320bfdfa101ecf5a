//! What can be seen without computing a MAC: ends that do not sign, that sign in another way, or that do not answer.

use wireseal_tcp_ao::OptionError;

use super::words::{Ends, segments};
use crate::verify::connection::Connection;
use crate::verify::report::{Diagnosis, Place, Sender, Verdict};

/// What is evident of what one end has sent.
pub(super) fn of_direction(sender: Sender, connection: &Connection) -> impl Iterator<Item = Diagnosis> {
    let all = [
        unsigned(sender, connection),
        unanswered(sender, connection),
        odd_options(sender, connection),
        isn_not_seen(sender, connection),
        cut_off(sender, connection),
    ];
    all.into_iter().flatten()
}

/// How many segments of a sender have one of these verdicts, and the first of them.
fn of_verdicts(sender: Sender, connection: &Connection, verdicts: &[usize]) -> Option<(u64, Place)> {
    let direction = &connection.directions[sender as usize];
    let count = verdicts.iter().map(|kind| direction.report.counts[*kind]).sum();
    let first = verdicts.iter().filter_map(|kind| direction.seen.first[*kind]);
    Some((count, first.min_by_key(|place| place.packet)?))
}

/// Segments whose options cannot be read, or that have two AO options.
fn odd_options(sender: Sender, connection: &Connection) -> Option<Diagnosis> {
    let malformed = Verdict::MalformedOption(OptionError::AoTooShort).index();
    let (count, first) = of_verdicts(sender, connection, &[malformed, Verdict::TwoOptions.index()])?;
    let Ends { own, .. } = Ends::of(connection, sender);
    let sentence = format!(
        "{} of {own} with options that RFC 5925 (section 2.2) forbids, or that cannot be read: every receiver drops them. The \
         fault is in {own}'s implementation or in a device on the way, or they are forged",
        segments(count)
    );
    Some(Diagnosis { sender, first, segments: count, kind: "malformed-options", sentence })
}

/// Segments of a connection that began before the capture.
fn isn_not_seen(sender: Sender, connection: &Connection) -> Option<Diagnosis> {
    let (count, first) = of_verdicts(sender, connection, &[Verdict::IsnNotSeen.index()])?;
    let [opener, listener] = connection.ends;
    let sentence = format!(
        "the capture lacks the start of the connection, and with it ISNs that the keys are made of: record from before the \
         connection is opened, or give them with --isn {opener}-{listener}=ISN,ISN"
    );
    Some(Diagnosis { sender, first, segments: count, kind: "isn-not-seen", sentence })
}

/// Segments of which a part was recorded.
fn cut_off(sender: Sender, connection: &Connection) -> Option<Diagnosis> {
    let (count, first) = of_verdicts(sender, connection, &[Verdict::CutOff.index()])?;
    let Ends { own, .. } = Ends::of(connection, sender);
    // One sentence for both ends, if it is the same with both.
    let whose = match of_verdicts(sender.other(), connection, &[Verdict::CutOff.index()]) {
        Some(_) => "segments of either end".to_owned(),
        None => format!("{} of {own}", segments(count)),
    };
    let sentence =
        format!("the capture has only the beginning of {whose}: record whole packets (tcpdump -s 0)");
    Some(Diagnosis { sender, first, segments: count, kind: "cut-off", sentence })
}

/// The segments without AO option.
fn unsigned(sender: Sender, connection: &Connection) -> Option<Diagnosis> {
    let Ends { own, other } = Ends::of(connection, sender);
    let [opener, listener] = connection.ends;
    let direction = &connection.directions[sender as usize];
    let peer = &connection.directions[sender.other() as usize];
    let seen = &direction.seen;
    let (count, first) = of_verdicts(sender, connection, &[Verdict::NoOption.index()])?;
    let peer_is_unsigned = peer.seen.signed == 0;
    let peer_is_silent = peer.report.counts.iter().all(|count| *count == 0);
    let only_resets = seen.unsigned_resets == count;
    let (kind, sentence) = if seen.md5 > 0 {
        let kind = "tcp-md5";
        let sentence = format!(
            "{own} signs with TCP-MD5 (RFC 2385), not with TCP-AO: change the kind of authentication for {other} there; \
             the two do not understand each other"
        );
        (kind, sentence)
    } else if seen.signed > 0 && only_resets {
        let kind = "unsigned-resets";
        let sentence = format!(
            "{} of {own} without TCP-AO in a connection that it signs: an end with TCP-AO ignores such a reset; either {own} \
             has lost the connection (it was restarted, or its keys were removed), or someone forges them",
            if count == 1 { "a reset".to_owned() } else { format!("{count} resets") }
        );
        (kind, sentence)
    } else if seen.signed > 0 {
        let kind = "unsigned-segments";
        let sentence = format!(
            "{} of {own} without TCP-AO among others that are signed: an end with TCP-AO drops them; they are forged, or a \
             device on the way removes the option",
            segments(count)
        );
        (kind, sentence)
    } else if peer_is_unsigned && connection.candidates.is_empty() {
        let kind = "unsigned";
        let sentence = format!(
            "neither {opener} nor {listener} uses TCP-AO, and no key given here is for them: select other connections with --peer \
             or --port, or configure TCP-AO at both ends"
        );
        (kind, sentence)
    } else if peer_is_silent {
        let kind = "unsigned-unanswered";
        let sentence = format!(
            "{own} does not sign, and nothing of {other} is in the capture: an end with TCP-AO drops without a word what is not \
             signed; if {other} has a key for {}, configure it at {own} as well",
            own.address()
        );
        (kind, sentence)
    } else if peer_is_unsigned {
        let kind = "unsigned";
        let sentence = format!(
            "neither {opener} nor {listener} signs in this capture: TCP-AO is configured at neither end, or a device \
             on the way removes the option"
        );
        (kind, sentence)
    } else if only_resets && sender == Sender::Listener && peer.seen.syns > 0 {
        let kind = "reset-unsigned";
        let sentence = format!(
            "{own} answers the signed SYN with a reset that is not signed, which {other} ignores: nothing listens on that \
             port there, or a firewall refuses the connection; keys do not come into it yet"
        );
        (kind, sentence)
    } else if only_resets {
        let kind = "unsigned-resets";
        let sentence = format!(
            "{own} answers what {other} signs with {} that {other} ignores, not being signed: {own} has lost the connection (it \
             was restarted, or its keys were removed), or someone forges them",
            if count == 1 { "a reset".to_owned() } else { format!("{count} resets") }
        );
        (kind, sentence)
    } else {
        let kind = "peer-unsigned";
        let sentence = format!(
            "{other} signs and {own} does not: {own} has no TCP-AO configured for {other}; configure the key there"
        );
        (kind, sentence)
    };
    Some(Diagnosis { sender, first, segments: count, kind, sentence })
}

/// SYNs or SYN-ACKs that are sent again and again.
fn unanswered(sender: Sender, connection: &Connection) -> Option<Diagnosis> {
    let Ends { own, other } = Ends::of(connection, sender);
    let direction = &connection.directions[sender as usize];
    let peer = &connection.directions[sender.other() as usize];
    let all: u64 = direction.report.counts.iter().sum();
    let all_of_peer: u64 = peer.report.counts.iter().sum();
    let key_id = direction.seen.key_id?;
    let needs = format!(
        "An end with TCP-AO drops without a word what it cannot verify: {other} needs a key for {} with RecvID {key_id} and \
         the same secret, algorithm and coverage of options",
        connection.ends[sender as usize].address()
    );
    let (kind, count, sentence) = match sender {
        Sender::Opener if direction.seen.syns >= 2 && all == direction.seen.syns && all_of_peer == 0 => {
            let sentence = format!(
                "{other} answers none of the {all} SYNs of {own}, which name KeyID {key_id}. {needs}. Or the SYNs do not reach \
                 it, or its answers are not in the capture"
            );
            ("syn-unanswered", all, sentence)
        }
        Sender::Listener
            if direction.seen.syn_acks >= 2
                && all == direction.seen.syn_acks
                && all_of_peer == peer.seen.syns =>
        {
            let sentence = format!(
                "{other} accepts none of the {all} SYN-ACKs of {own}, which name KeyID {key_id}. {needs}. Or the SYN-ACKs do \
                 not reach it"
            );
            ("syn-ack-unanswered", all, sentence)
        }
        _ => return None,
    };
    Some(Diagnosis {
        sender,
        first: direction.report.key_uses.first()?.first,
        segments: count,
        kind,
        sentence,
    })
}
