//! The page of `keys diff`: the answer, the lifetimes of both ends' keys over time, and everything that differs.

use std::fs;
use std::io;
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use wireseal_keys::{Timestamp, Weight};

use super::STYLE;
use crate::report::chain_key::{secret, span};
use crate::report::ends::picture::{Picture, Row, Use};
use crate::report::ends::{Answer, Ends};
use crate::text::coverage;

/// The page loads nothing and runs nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
/// What the picture needs beyond the style of all pages.
const PICTURE_STYLE: &str = "
.spans text { font: 12px system-ui, \"DejaVu Sans\", sans-serif; fill: var(--faint); }
.spans .name { fill: var(--text); }
.spans .whole { fill: var(--good); }
.spans .accepted { fill: var(--good); opacity: .35; }
.spans .sent { fill: var(--not-judged); }
.spans .nothing { fill: var(--line); }
.spans .works { fill: var(--good-ground); stroke: var(--good); }
.spans .fails { fill: var(--failed); }
.spans .tick { stroke: var(--faint); stroke-dasharray: 2 3; opacity: .6; }
td.differs { color: var(--failed); font-weight: 600; }
tr.second td { border-bottom-width: 2px; }
";

/// Pixels: the names, the axis beside them, a row, the bar in it, the labels above, and the room of one label.
const NAMES: f64 = 200.0;
const AXIS: f64 = 880.0;
const ROW: u32 = 24;
const BAR: u32 = 14;
const TOP: u32 = 44;
const LABEL: f64 = 138.0;
/// Every second label is a line lower, so that more of them fit.
const LINES: [u32; 2] = [14, 30];

/// Writes the page into a file.
pub(crate) fn write(path: &Path, ends: &Ends<'_>) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::write(path, super::printable(page(ends))).map_err(named)
}

fn page(ends: &Ends<'_>) -> Markup {
    let [one, other] = &ends.names;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (one) " and " (other) " – wireseal keys diff" }
                style { (PreEscaped(STYLE)) (PreEscaped(PICTURE_STYLE)) }
            }
            body {
                (header(ends))
                main {
                    section.summary aria-label="Lifetimes" {
                        h2 { "Lifetimes" }
                        div.scroll { (picture(ends)) }
                        (legend())
                        p.note { "The axis is not to scale. Times are in UTC, or as written where a router has local time." }
                    }
                    (keys(ends))
                    (outages(ends))
                    (findings(ends))
                }
                footer {
                    "Written by wireseal " (env!("CARGO_PKG_VERSION")) ". This page contains no secrets and loads nothing."
                }
            }
        }
    }
}

fn header(ends: &Ends<'_>) -> Markup {
    let (class, badge) = match ends.answer() {
        Answer::Works => ("good", "works"),
        Answer::NotJudged => ("not-judged", "not judged"),
        Answer::Fails => ("failed", "fails"),
    };
    html! {
        header {
            div.line {
                span.name { "wireseal keys diff" }
                code { (ends.names[0]) }
                code { (ends.names[1]) }
            }
            div class=(format!("answer {class}")) {
                span class=(format!("badge {class}")) { (badge) }
                p { (ends.sentence()) }
            }
            @for line in ends.chains() { p.note { (line) } }
        }
    }
}

fn picture(ends: &Ends<'_>) -> Markup {
    let picture = Picture::new(ends);
    let rows = picture.rows.len() as u32;
    let (width, height) = (NAMES + AXIS + 2.0, TOP + (rows + 1) * ROW + 4);
    let x = |moment: Timestamp| NAMES + AXIS * picture.place(moment);
    html! {
        svg.spans width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="img"
            aria-label="Lifetimes of all keys, and when the session works"
        {
            (axis(&picture, height))
            @for (number, row) in (0..).zip(&picture.rows) { (bars(&picture, row, TOP + number * ROW)) }
            @let y = TOP + rows * ROW;
            text.name x="0" y=(y + 12) { "session" }
            rect.works x=(NAMES) y=(y + BAR / 2 - 1) width=(AXIS) height="2" {}
            @for [from, until] in &picture.outages {
                rect.fails x=(x(*from)) y=(y) width=((x(*until) - x(*from)).max(2.0)) height=(BAR) {
                    title { "the session may not work from " (from) " until " (until) }
                }
            }
        }
    }
}

/// A line for each moment, and as many dates as fit.
fn axis(picture: &Picture, height: u32) -> Markup {
    let mut free_from = [0.0; 2];
    let labels = picture.moments.iter().map(|(moment, place)| {
        let x = NAMES + AXIS * place;
        let start = x.min(NAMES + AXIS - LABEL);
        let line = (0..2).find(|line| free_from[*line] <= start);
        if let Some(line) = line {
            free_from[line] = start + LABEL + 8.0;
        }
        let label = moment.to_string().replace('T', " ");
        (x, start, line, label)
    });
    html! {
        @for (x, start, line, label) in labels {
            path.tick d=(format!("M{x:.1} {}V{height}", TOP - 8)) {}
            @if let Some(line) = line { text x=(format!("{start:.1}")) y=(LINES[line]) { (label) } }
        }
    }
}

/// The name of a key, and what it is used for when.
fn bars(picture: &Picture, row: &Row, y: u32) -> Markup {
    let x = |moment: Timestamp| NAMES + AXIS * picture.place(moment);
    html! {
        text.name x="0" y=(y + 12) { (row.name) title { (row.name) } }
        @for ([from, until], used) in picture.uses(row) {
            rect class=(class(used)) x=(format!("{:.1}", x(from))) y=(y) height=(BAR)
                width=(format!("{:.1}", (x(until) - x(from)).max(1.0)))
            {
                title { (row.name) " " (words(used)) " from " (from) " until " (until) }
            }
        }
    }
}

const fn class(used: Use) -> &'static str {
    match used {
        Use::Whole => "whole",
        Use::Accepted => "accepted",
        Use::Sent => "sent",
        Use::Nothing => "nothing",
    }
}

fn words(used: Use) -> &'static str {
    Use::ALL.into_iter().find(|(known, _)| *known == used).map_or("", |(_, words)| words)
}

fn legend() -> Markup {
    let fails = [("works", "the session works"), ("fails", "it may not")];
    let all = Use::ALL.map(|(used, words)| (class(used), words));
    html! {
        ul.legend {
            @for (class, words) in all.into_iter().chain(fails) {
                li {
                    svg.spans width="22" height="14" aria-hidden="true" { rect class=(class) width="22" height="14" {} }
                    (words)
                }
            }
        }
    }
}

fn keys(ends: &Ends<'_>) -> Markup {
    let header = [
        "end",
        "key",
        "line",
        "SendID",
        "RecvID",
        "algorithm",
        "MAC",
        "other TCP options",
        "secret",
        "differs",
        "send",
        "accept",
    ];
    html! {
        section.summary aria-label="Keys" {
            h2 { "Keys" }
            div.scroll {
                table {
                    thead { tr { @for name in header { th scope="col" { (name) } } } }
                    tbody {
                        @for pair in &ends.pairs {
                            @let differs = Ends::differs(pair).join(", ");
                            @for (side, key) in Ends::keys_of(pair) {
                                @let chain = ends.meeting.ends[side].chain;
                                tr class=(if side == 1 { "second" } else { "" }) {
                                    td { (ends.names[side]) }
                                    td { code { (chain.name_of(key)) } }
                                    td.n { @if let Some(at) = key.position { (at.line) } }
                                    td.n { (key.send_id) }
                                    td.n { (key.recv_id) }
                                    td { (key.algorithm) }
                                    td { (key.mac_length) " octets" }
                                    td { (coverage(key.options)) }
                                    td { (secret(key)) }
                                    td.differs { (differs) }
                                    td { (span(&key.send, key.clock)) }
                                    td { (span(&chain.acceptance(key), key.clock)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn outages(ends: &Ends<'_>) -> Markup {
    html! {
        @if !ends.outages.is_empty() {
            section.summary aria-label="Outages" {
                h2 { "When it may not work" }
                ol.causes {
                    @for outage in &ends.outages {
                        li {
                            (ends.said(outage))
                            small { (Ends::span([outage.from, outage.until])) @if !ends.is_certain(outage) { " (possibly)" } }
                        }
                    }
                }
            }
        }
    }
}

fn findings(ends: &Ends<'_>) -> Markup {
    html! {
        @if !ends.findings.is_empty() {
            section.summary aria-label="Findings" {
                h2 { "Findings" }
                @for finding in &ends.findings {
                    div class=(if finding.weight == Weight::Warning { "diagnosis failed" } else { "diagnosis not-judged" }) {
                        p { (finding.sentence) }
                        small { (ends.subjects(finding)) " · " code { (finding.kind) } }
                    }
                }
            }
        }
    }
}
