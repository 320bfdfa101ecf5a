//! One connection on the page.

use maud::{Markup, html};
use wireseal_tcp_ao::Endpoint;

use super::timeline::{symbol, timeline};
use crate::capture::Time;
use crate::report::words::{self, KEY_USES_SHOWN, VerdictInWords};
use crate::text::{counted, flags, grouped};
use crate::verify::report::{
    ConnectionReport, DirectionReport, KeyUse, SegmentReport, Sender, Standing, Verdict,
};

/// A standing's class and its words on a badge.
pub(super) const fn badge(standing: Standing, is_incomplete: bool) -> (&'static str, &'static str) {
    match standing {
        Standing::Good if is_incomplete => (Standing::NotJudged.name(), "good, but"),
        Standing::NotJudged => (Standing::NotJudged.name(), "not judged"),
        Standing::NotOpen => (Standing::NotOpen.name(), "not open"),
        _ => (standing.name(), standing.name()),
    }
}

/// How many segments that are not good are listed.
const LINES: usize = 200;
/// A list with at least this many lines is folded.
const FOLDED_FROM: usize = 13;

/// The connection, with these of its segments drawn.
pub(super) fn article(connection: &ConnectionReport, segments: &[SegmentReport]) -> Markup {
    let [opener, listener] = &connection.ends;
    let standing = connection.standing();
    let (badge_class, badge_name) = badge(standing, false);
    let [opened, accepted] = match connection.has_opened {
        Some(true) => ["opened the connection", "accepted it"],
        Some(false) => ["tried to open a connection", "to this end"],
        None => ["opener", "listener"],
    };
    let all: u64 = connection.counts().iter().sum();
    let not_drawn = all.saturating_sub(segments.len() as u64);
    html! {
        article class=(standing.name()) id=(format!("connection-{}", connection.number)) {
            h3 {
                span.number { "#" (connection.number) }
                code { (opener) }
                span.arrow aria-label="to" { "→" }
                code { (listener) }
                @if !connection.scope.is_none() { " " small { (connection.scope) } }
                span class=(format!("badge {badge_class}")) { (badge_name) }
            }
            p.when {
                (words::packets(connection.first, connection.last))
                @if let (Some(from), Some(to)) = (connection.first.time, connection.last.time) {
                    " · " time { (from) }
                    @if let Some(duration) = words::duration(from, to) { " · " (duration) }
                }
                @if connection.is_failed_before_open() { " · never opened" }
            }
            @for (_, sentence, explained) in words::reasons(connection) {
                div class=(format!("diagnosis {badge_class}")) {
                    p { (sentence) }
                    small { (explained) }
                }
            }
            @if !segments.is_empty() {
                div.lanes {
                    div.ends {
                        span { code { (opener) } small { (opened) } }
                        span { code { (listener) } small { (accepted) } }
                    }
                    div.scroll tabindex="0" { (timeline(connection, segments)) }
                }
            }
            @if not_drawn > 0 {
                p.note {
                    (counted(not_drawn, "segment"))
                    @if segments.is_empty() { " not drawn: the page is full." }
                    @else { " not drawn: after the first ones, only segments where the verdict changes are." }
                }
            }
            div.directions {
                @for (end, direction) in connection.ends.iter().zip(&connection.directions) {
                    (sent(end, direction, connection.first.time))
                }
            }
            (not_good(connection, segments))
        }
    }
}

fn sent(end: &Endpoint, direction: &DirectionReport, start: Option<Time>) -> Markup {
    let segments: u64 = direction.counts.iter().sum();
    html! {
        section {
            h4 { code { (end) } " sent " (counted(segments, "segment")) }
            @if segments > 0 {
                dl {
                    dt { "verdicts" } dd { (words::counts(&direction.counts)) }
                    dt { "payload" } dd { (counted(direction.payload, "octet")) }
                    @if direction.retransmissions > 0 {
                        dt { "retransmitted" } dd { (counted(direction.retransmissions, "segment")) }
                    }
                    dt { "ISN" } dd { (words::isn(direction)) }
                    @if let Some(sne) = direction.sne { dt { "SNE" } dd { (sne.0) } }
                    @if direction.signed_resets + direction.other_resets > 0 {
                        dt { "resets" }
                        dd { (direction.signed_resets) " verified, " (direction.other_resets) " not" }
                    }
                    @for (number, key_use) in direction.key_uses.iter().take(KEY_USES_SHOWN).enumerate() {
                        dt { (words::transition(&direction.key_uses, number).unwrap_or("key")) }
                        dd { (one_key_use(key_use, start)) }
                    }
                    @if direction.key_uses.len() > KEY_USES_SHOWN {
                        dt {} dd { "and " (direction.key_uses.len() - KEY_USES_SHOWN) " more changes of KeyID" }
                    }
                }
            }
        }
    }
}

fn one_key_use(key_use: &KeyUse, start: Option<Time>) -> Markup {
    html! {
        b { (words::key(key_use)) }
        " " (counted(key_use.segments, "segment")) ", " (words::packets(key_use.first, key_use.last))
        @if let Some(time) = key_use.first.time { ", from " time { (words::time_after(start, time)) } }
        @if key_use.outside_lifetime > 0 {
            ", " em { (key_use.outside_lifetime) " outside the accept lifetime" }
        }
    }
}

fn not_good(connection: &ConnectionReport, segments: &[SegmentReport]) -> Markup {
    let lines = || segments.iter().filter(|segment| segment.verdict != Verdict::Good);
    let (count, all) = (lines().count(), connection.counts()[1..].iter().sum::<u64>());
    html! {
        @if count > 0 {
            details open[count < FOLDED_FROM] {
                summary {
                    "Segments that are not good: "
                    @if count.min(LINES) as u64 == all { (grouped(all)) }
                    @else { (count.min(LINES)) " of " (grouped(all)) }
                }
                div.scroll {
                    table {
                        thead {
                            tr {
                                @for name in [
                                    "packet", "time", "sender", "flags", "sequence", "acknowledgment", "payload",
                                    "KeyID", "RNextKeyID", "SNE", "verdict",
                                ] {
                                    th scope="col" { (name) }
                                }
                            }
                        }
                        tbody { @for segment in lines().take(LINES) { (line(segment, connection)) } }
                    }
                }
            }
        }
    }
}

fn line(segment: &SegmentReport, connection: &ConnectionReport) -> Markup {
    let place = segment.verdict.index();
    html! {
        tr {
            td.n { (segment.place.packet) }
            td { @if let Some(time) = segment.place.time { time { (words::time_after(connection.first.time, time)) } } }
            td {
                span.side { @match segment.sender { Sender::Opener => "▲ ", Sender::Listener => "▼ " } }
                code { (connection.ends[segment.sender as usize]) }
            }
            td { (flags(segment.flags).join(" ")) @if segment.is_retransmission { " (again)" } }
            td.n { (segment.sequence.0) }
            td.n { @if let Some(number) = segment.acknowledgment { (number.0) } }
            td.n { (segment.payload_length) }
            @for id in 0..2 { td.n { @if let Some(ids) = segment.key_ids { (ids[id]) } } }
            td.n { @if let Some(sne) = segment.sne { (sne.0) } }
            td class=(format!("verdict v{place}")) {
                svg width="14" height="14" viewBox="-8 -8 16 16" aria-hidden="true" { (symbol(place, 0)) }
                (VerdictInWords(segment.verdict).to_string())
            }
        }
    }
}
