//! What shows without computing a MAC: ends that do not sign, or sign with something else.

use wireseal_tcp_ao::OptionError;

use super::sentence::{Ends, Explanation, explain, segments};
use crate::capture::Place;
use crate::standing::Standing;
use crate::text::counted;
use crate::verify::connection::TcpConnection;
use crate::verify::report::{Diagnosis, Sender, Verdict};

/// What shows in the segments of one end.
pub(in crate::verify::diagnose) fn diagnoses(
    sender: Sender,
    connection: &TcpConnection,
) -> impl Iterator<Item = Diagnosis> {
    let ends = Ends::of(connection, sender);
    let looks = [unsigned, odd_options, isn_not_seen, cut_off];
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
    let their = segments(count);
    let explanation = explain!(
        "malformed-options",
        "{their} of {own} with TCP options that are malformed or that RFC 5925 §2.2 forbids: every receiver drops them",
        "{own}'s implementation or a device on the path is at fault, or they are forged."
    );
    Some(explanation.diagnosis(sender, first, count))
}

/// Segments of a connection that began before the capture.
fn isn_not_seen(connection: &TcpConnection, sender: Sender, _: Ends) -> Option<Diagnosis> {
    let (count, first) = of_verdicts(connection, sender, &[Verdict::IsnNotSeen])?;
    let [opener, listener] = connection.ends;
    let explanation = explain!(
        "isn-not-seen",
        "the capture lacks the start of the connection, and with it the ISNs that the traffic keys depend on",
        "Record from before the connection opens, or give the ISNs with --isn {opener}-{listener}=ISN,ISN."
    );
    Some(Diagnosis { about: Standing::NotJudged, ..explanation.diagnosis(sender, first, count) })
}

/// Segments of which only part was recorded.
fn cut_off(connection: &TcpConnection, sender: Sender, Ends { own, .. }: Ends) -> Option<Diagnosis> {
    let (count, first) = of_verdicts(connection, sender, &[Verdict::CutOff])?;
    // One sentence for both ends, if it is the same for both.
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

/// Segments without TCP-AO.
fn unsigned(connection: &TcpConnection, sender: Sender, ends: Ends) -> Option<Diagnosis> {
    let Ends { own, other } = ends;
    let [opener, listener] = connection.ends;
    let seen = &connection.direction(sender).seen;
    let peer = connection.direction(sender.other());
    let (count, first) = of_verdicts(connection, sender, &[Verdict::NoOption])?;
    let (their, address) = (segments(count), own.address());
    let peer_is_unsigned = peer.seen.signed == 0;
    let only_resets = seen.unsigned_resets == count;
    let lost = format!(
        "Either {own} has lost the connection (it was restarted, or its keys were removed), or someone forges them."
    );
    let explanation = if seen.md5 > 0 {
        explain!(
            "tcp-md5",
            "{own} signs with TCP-MD5 (RFC 2385), not with TCP-AO, and the two do not interoperate",
            "Change the authentication for {other} at {own}."
        )
    } else if seen.signed > 0 && only_resets {
        let resets = counted(count, "reset");
        explain!(
            "unsigned-resets",
            "{resets} of {own} without TCP-AO in a connection that it signs: an end with TCP-AO ignores them",
            lost
        )
    } else if seen.signed > 0 {
        explain!(
            "unsigned-segments",
            "{their} of {own} without TCP-AO among others that are signed: an end with TCP-AO drops them",
            "They are forged, or a device on the path removes the option."
        )
    } else if peer_is_unsigned && connection.candidates.is_empty() {
        explain!(
            "unsigned",
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
    } else if only_resets && sender == Sender::Listener && peer.seen.syns > 0 {
        explain!(
            "reset-unsigned",
            "{own} answers the signed SYN with an unsigned reset, which {other} ignores",
            "Nothing listens on that port at {own}, or a firewall refuses the connection; keys do not matter yet."
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
            "{own} has no TCP-AO configured for {other}: configure the key there."
        )
    };
    Some(explanation.diagnosis(sender, first, count))
}
