//! What shows without computing a MAC: ends that do not sign, sign with something else, or do not answer.

use wireseal_tcp_ao::OptionError;

use super::sentence::{Ends, Explanation, segments};
use crate::capture::Place;
use crate::text::counted;
use crate::verify::connection::TcpConnection;
use crate::verify::report::{Diagnosis, Sender, Verdict};

/// What shows in the segments of one end.
pub(in crate::verify::diagnose) fn diagnoses(
    sender: Sender,
    connection: &TcpConnection,
) -> impl Iterator<Item = Diagnosis> {
    let ends = Ends::of(connection, sender);
    let looks = [unsigned, unanswered, odd_options, isn_not_seen, cut_off];
    looks.into_iter().filter_map(move |look| look(connection, sender, ends))
}

/// How many segments of a sender have one of these verdicts, and the first of them.
fn of_verdicts(connection: &TcpConnection, sender: Sender, verdicts: &[Verdict]) -> Option<(u64, Place)> {
    let direction = connection.direction(sender);
    let count = verdicts.iter().map(|verdict| direction.report.counts[verdict.index()]).sum();
    let first = verdicts.iter().filter_map(|verdict| direction.seen.first[verdict.index()]);
    Some((count, first.min_by_key(|place| place.packet)?))
}

fn odd_options(connection: &TcpConnection, sender: Sender, Ends { own, .. }: Ends) -> Option<Diagnosis> {
    let odd = [Verdict::MalformedOption(OptionError::AoTooShort), Verdict::TwoOptions];
    let (count, first) = of_verdicts(connection, sender, &odd)?;
    let cause = format!(
        "{} of {own} with TCP options that are malformed or that RFC 5925 §2.2 forbids: every receiver drops them",
        segments(count)
    );
    let advice = format!("{own}'s implementation or a device on the path is at fault, or they are forged.");
    Some(Explanation("malformed-options", cause, advice).diagnosis(sender, first, count))
}

/// Segments of a connection that began before the capture.
fn isn_not_seen(connection: &TcpConnection, sender: Sender, _: Ends) -> Option<Diagnosis> {
    let (count, first) = of_verdicts(connection, sender, &[Verdict::IsnNotSeen])?;
    let [opener, listener] = connection.ends;
    let cause =
        "the capture lacks the start of the connection, and with it the ISNs that the traffic keys depend on";
    let advice = format!(
        "Record from before the connection opens, or give the ISNs with --isn {opener}-{listener}=ISN,ISN."
    );
    Some(Explanation("isn-not-seen", cause.to_owned(), advice).diagnosis(sender, first, count))
}

/// Segments of which only part was recorded.
fn cut_off(connection: &TcpConnection, sender: Sender, Ends { own, .. }: Ends) -> Option<Diagnosis> {
    let (count, first) = of_verdicts(connection, sender, &[Verdict::CutOff])?;
    // One sentence for both ends, if it is the same for both.
    let whose = match of_verdicts(connection, sender.other(), &[Verdict::CutOff]) {
        Some(_) => "segments of both ends".to_owned(),
        None => format!("{} of {own}", segments(count)),
    };
    let cause = format!("the capture has only the beginning of {whose}");
    let advice = "Record whole packets (tcpdump -s 0).".to_owned();
    Some(Explanation("cut-off", cause, advice).diagnosis(sender, first, count))
}

/// Segments without TCP-AO.
fn unsigned(connection: &TcpConnection, sender: Sender, ends: Ends) -> Option<Diagnosis> {
    let Ends { own, other } = ends;
    let [opener, listener] = connection.ends;
    let seen = &connection.direction(sender).seen;
    let peer = connection.direction(sender.other());
    let (count, first) = of_verdicts(connection, sender, &[Verdict::NoOption])?;
    let peer_is_unsigned = peer.seen.signed == 0;
    let only_resets = seen.unsigned_resets == count;
    let lost = format!(
        "Either {own} has lost the connection (it was restarted, or its keys were removed), or someone forges them."
    );
    let explanation = if seen.md5 > 0 {
        Explanation(
            "tcp-md5",
            format!("{own} signs with TCP-MD5 (RFC 2385), not with TCP-AO, and the two do not interoperate"),
            format!("Change the authentication for {other} at {own}."),
        )
    } else if seen.signed > 0 && only_resets {
        let cause = format!(
            "{} of {own} without TCP-AO in a connection that it signs: an end with TCP-AO ignores them",
            counted(count, "reset")
        );
        Explanation("unsigned-resets", cause, lost)
    } else if seen.signed > 0 {
        Explanation(
            "unsigned-segments",
            format!(
                "{} of {own} without TCP-AO among others that are signed: an end with TCP-AO drops them",
                segments(count)
            ),
            "They are forged, or a device on the path removes the option.".to_owned(),
        )
    } else if peer_is_unsigned && connection.candidates.is_empty() {
        Explanation(
            "unsigned",
            format!("neither {opener} nor {listener} uses TCP-AO, and no key given here is for them"),
            "Select other connections with --peer or --port, or configure TCP-AO at both ends.".to_owned(),
        )
    } else if peer.segments() == 0 {
        Explanation(
            "unsigned-unanswered",
            format!("{own} does not sign, and nothing from {other} is in the capture"),
            format!(
                "An end with TCP-AO silently drops what is not signed: if {other} has a key for {}, configure it at {own} as \
                 well.",
                own.address()
            ),
        )
    } else if peer_is_unsigned {
        Explanation(
            "unsigned",
            format!("neither {opener} nor {listener} signs in this capture"),
            "TCP-AO is configured at neither end, or a device on the path removes the option.".to_owned(),
        )
    } else if only_resets && sender == Sender::Listener && peer.seen.syns > 0 {
        Explanation(
            "reset-unsigned",
            format!("{own} answers the signed SYN with an unsigned reset, which {other} ignores"),
            format!(
                "Nothing listens on that port at {own}, or a firewall refuses the connection; keys do not matter yet."
            ),
        )
    } else if only_resets {
        let resets = counted(count, "unsigned reset");
        let cause = format!("{own} answers signed segments of {other} with {resets}, which {other} ignores");
        Explanation("unsigned-resets", cause, lost)
    } else {
        Explanation(
            "peer-unsigned",
            format!("{other} signs and {own} does not"),
            format!("{own} has no TCP-AO configured for {other}: configure the key there."),
        )
    };
    Some(explanation.diagnosis(sender, first, count))
}

/// SYNs or SYN-ACKs that are sent again and again.
fn unanswered(connection: &TcpConnection, sender: Sender, Ends { own, other }: Ends) -> Option<Diagnosis> {
    let (direction, peer) = (connection.direction(sender), connection.direction(sender.other()));
    let (seen, all) = (&direction.seen, direction.segments());
    let key_id = seen.key_id?;
    let (kind, cause, otherwise) = match sender {
        Sender::Opener if seen.syns >= 2 && all == seen.syns && peer.segments() == 0 => (
            "syn-unanswered",
            format!("{other} answers none of the {all} SYNs of {own}, which carry KeyID {key_id}"),
            "the SYNs do not reach it, or its answers are not in the capture",
        ),
        Sender::Listener
            if seen.syn_acks >= 2 && all == seen.syn_acks && peer.segments() == peer.seen.syns =>
        {
            (
                "syn-ack-unanswered",
                format!("{other} accepts none of the {all} SYN-ACKs of {own}, which carry KeyID {key_id}"),
                "the SYN-ACKs do not reach it",
            )
        }
        _ => return None,
    };
    let advice = format!(
        "An end with TCP-AO silently drops what it cannot verify: {other} needs a key for {} with RecvID {key_id} and the same \
         secret, algorithm and coverage of TCP options. Or {otherwise}.",
        own.address()
    );
    let first = direction.report.key_uses.first()?.first;
    Some(Explanation(kind, cause, advice).diagnosis(sender, first, all))
}
