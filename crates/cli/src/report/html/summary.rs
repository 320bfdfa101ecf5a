//! The top of the page: the answer, the numbers, the causes and the keys.

use maud::{Markup, html};

use super::timeline::symbol;
use crate::keys::Keys;
use crate::report::subject::Subject;
use crate::report::summary::Summary;
use crate::report::words::{VERDICTS, skipped};
use crate::standing::Standing;
use crate::text::{counted, coverage, grouped};
use crate::verify::report::{Counts, Totals, Verdict, failed, not_judged};

/// A standing's class and its words on a badge.
pub(super) const fn badge(standing: Standing, is_incomplete: bool) -> (&'static str, &'static str) {
    match standing {
        Standing::Good if is_incomplete => (Standing::NotJudged.name(), "good, but"),
        Standing::NotJudged => (Standing::NotJudged.name(), "not judged"),
        Standing::NotOpen => (Standing::NotOpen.name(), "not open"),
        _ => (standing.name(), standing.name()),
    }
}

pub(super) fn header(subject: Subject<'_>, totals: &Totals, summary: &Summary) -> Markup {
    let (class, name) = badge(summary.standing(), totals.is_incomplete());
    html! {
        header {
            div.line {
                span.name { "wireseal verify" }
                code { (subject.capture) }
            }
            div class=(format!("answer {class}")) {
                span class=(format!("badge {class}")) { (name) }
                p { (summary.answer(totals)) }
            }
            @if let Some(damage) = &totals.damage {
                div."answer failed" {
                    span."badge failed" { "damaged" }
                    p { (damage) }
                }
            }
        }
    }
}

pub(super) fn section(subject: Subject<'_>, totals: &Totals, summary: &Summary) -> Markup {
    let counts = &totals.counts;
    let all: u64 = counts.iter().sum();
    html! {
        section.summary aria-label="Summary" {
            div.tiles {
                (tile("segments", all, ""))
                (tile("good", counts[Verdict::Good.index()], "good"))
                (tile("failed", failed(counts), "failed"))
                (tile("not judged", not_judged(counts), "not-judged"))
                (tile("connections", totals.connections, ""))
                (tile("packets", totals.packets, ""))
            }
            (bar(counts, all))
            (legend(counts))
            @for what in skipped(totals) {
                p.note { "Skipped: " (what) "." }
            }
            // A single cause is in the answer already.
            @if summary.causes.len() > 1 {
                h2 { "Why" }
                ol.causes {
                    @for cause in &summary.causes {
                        li {
                            (cause.sentence)
                            small {
                                (counted(cause.segments, "segment")) " in "
                                (counted(cause.connections, "connection")) " · " code { (cause.kind) }
                            }
                        }
                    }
                }
            }
            (keys(subject.keys))
        }
    }
}

fn tile(name: &str, number: u64, class: &str) -> Markup {
    let class = if number == 0 { "tile none".to_owned() } else { format!("tile {class}") };
    html! {
        div class=(class) {
            b { (grouped(number)) }
            span { (name) }
        }
    }
}

/// The share of each verdict.
fn bar(counts: &Counts, all: u64) -> Markup {
    html! {
        @if all > 0 {
            div.bar aria-hidden="true" {
                @for (place, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                    // Even the smallest share is visible.
                    i class=(format!("v{place}")) style=(format!("flex:{:.4} 0 6px", *count as f64 / all as f64)) {}
                }
            }
        }
    }
}

/// Every verdict with its mark, and with its count if it occurs.
fn legend(counts: &Counts) -> Markup {
    html! {
        ul.legend {
            @for (place, name) in VERDICTS.iter().enumerate() {
                li class=(if counts[place] > 0 { "" } else { "none" }) {
                    svg width="16" height="16" viewBox="-8 -8 16 16" aria-hidden="true" { (symbol(place, 0)) }
                    (name)
                    b { (grouped(counts[place])) }
                }
            }
        }
    }
}

fn keys(keys: &Keys) -> Markup {
    html! {
        details.keys {
            summary { "Checked against " (counted(keys.keys.len() as u64, "key")) }
            div.scroll {
                table {
                    thead {
                        tr {
                            @for name in
                                ["key", "SendID", "RecvID", "algorithm", "MAC", "other TCP options", "peer", "accepted"]
                            {
                                th scope="col" { (name) }
                            }
                        }
                    }
                    tbody {
                        @for configured in &keys.keys {
                            @let parameters = configured.key.mkt().parameters();
                            @let lifetime = configured.key.accept_lifetime();
                            tr {
                                td { code { (configured.name) } }
                                td { (parameters.send_id.0) }
                                td { (parameters.recv_id.0) }
                                td { (parameters.algorithm.name()) }
                                td { (parameters.mac_length()) " octets" }
                                td { (coverage(parameters.options)) }
                                td { @if let Some(peer) = &configured.peer { (peer.to_string()) } @else { "any" } }
                                td {
                                    @if lifetime.from().is_none() && lifetime.until().is_none() { "always" }
                                    @if let Some(from) = lifetime.from() { "from " (from.to_string()) " " }
                                    @if let Some(until) = lifetime.until() { "until " (until.to_string()) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The heading above the connections, with buttons to choose among them; without the script there are no buttons.
pub(super) fn connections_heading(summary: &Summary) -> Markup {
    let sorts = [
        ("failed", summary.failed),
        ("not-open", summary.not_open),
        ("not-judged", summary.not_judged),
        ("good", summary.good),
    ];
    html! {
        div.toolbar {
            h2 { "Connections" }
            @if sorts.iter().filter(|(_, count)| *count > 0).count() > 1 {
                div.choice role="group" aria-label="Which connections" hidden {
                    button data-show="all" aria-pressed="true" { "all" }
                    @for (sort, count) in sorts.iter().filter(|(_, count)| *count > 0) {
                        button data-show=(sort) aria-pressed="false" { (sort.replace('-', " ")) " " (grouped(*count)) }
                    }
                }
            }
            div.choice role="group" aria-label="Time axis" hidden {
                button data-axis="shortened" aria-pressed="true" { "pauses shortened" }
                button data-axis="scale" aria-pressed="false" { "time to scale" }
            }
        }
    }
}
