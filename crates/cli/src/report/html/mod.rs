//! The report as one page that needs no network and no other file, and can be read without its script.
//!
//! Everything from the capture and the keys goes through maud, which escapes it.

mod connection;
pub(crate) mod ends;
mod timeline;

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tempfile::SpooledTempFile;

use self::connection::{article, badge};
use self::timeline::symbol;
use super::groups::FEW;
use super::words::{Subject, Summary, VERDICTS, skipped};
use crate::keys::Keys;
use crate::output;
use crate::text::{counted, coverage, grouped};
use crate::verify::report::{ConnectionReport, Counts, Standing, Totals, Verdict, failed, not_judged};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");
/// What the browser enforces: the page loads nothing and runs only the script with this SHA-256.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
                      script-src 'sha256-i8+DZyKMtwaTdlM6Oq31CDV+SY6Dz0R35iKkXs2z4K8='";

/// Octets of connections kept in memory until the summary above them is written; more go to a temporary file.
const WAITING_IN_MEMORY: usize = 1 << 20;
/// How many segments of one connection are drawn.
const MARKS_OF_CONNECTION: usize = 2_000;

#[derive(Debug)]
pub(super) struct Page<'a> {
    file: BufWriter<File>,
    subject: Subject<'a>,
    /// Connections that failed or did not open.
    failed: Part,
    not_judged: Part,
    good: Part,
}

/// The connections of one kind, as many as a browser can handle.
#[derive(Debug)]
struct Part {
    waiting: SpooledTempFile,
    /// How many are on the page, and how many are left out.
    shown: u64,
    left_out: u64,
    /// How many connections, octets and segments may still be added.
    connections: u64,
    octets: usize,
    marks: usize,
}

impl Part {
    fn new(connections: u64, octets: usize, marks: usize) -> Self {
        let waiting = SpooledTempFile::new(WAITING_IN_MEMORY);
        Self { waiting, shown: 0, left_out: 0, connections, octets, marks }
    }

    fn add(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        if self.connections == 0 {
            self.left_out += 1;
            return Ok(());
        }
        let mut marks = connection.segments.len().min(MARKS_OF_CONNECTION).min(self.marks);
        let mut markup = printable(article(connection, &connection.segments[..marks]));
        if markup.len() > self.octets {
            marks = 0;
            markup = printable(article(connection, &[]));
        }
        let Some(octets) = self.octets.checked_sub(markup.len()) else {
            self.left_out += 1;
            return Ok(());
        };
        self.shown += 1;
        self.connections -= 1;
        self.octets = octets;
        self.marks -= marks;
        self.waiting.write_all(markup.as_bytes())
    }

    fn write(&mut self, output: &mut impl Write) -> io::Result<()> {
        self.waiting.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.waiting, output).map(|_| ())
    }
}

impl<'a> Page<'a> {
    pub(super) fn create(path: &Path, subject: Subject<'a>) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        Ok(Self {
            file: BufWriter::new(output::create(path, 0o666).map_err(named)?),
            subject,
            failed: Part::new(500, 16 << 20, 12_000),
            not_judged: Part::new(100, 4 << 20, 4_000),
            good: Part::new(100, 4 << 20, 4_000),
        })
    }

    pub(super) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let part = match connection.standing() {
            Standing::Failed | Standing::NotOpen => &mut self.failed,
            Standing::Good => &mut self.good,
            Standing::NotJudged | Standing::Empty => &mut self.not_judged,
        };
        part.add(connection)
    }

    pub(super) fn finish(mut self, totals: &Totals, summary: &Summary) -> io::Result<()> {
        let head = html! {
            (DOCTYPE)
            // Elements that are not closed here are closed below.
            (PreEscaped("<html lang=\"en\">"))
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (self.subject.capture) " – wireseal verify" }
                style { (PreEscaped(STYLE)) }
            }
            (PreEscaped("<body>"))
            (timeline::symbols())
            (header(self.subject, totals, summary))
            (PreEscaped("<main>"))
            (section(self.subject, totals, summary))
            (groups(totals, summary))
            (connections_heading(summary))
        };
        self.file.write_all(printable(head).as_bytes())?;
        self.failed.write(&mut self.file)?;
        self.file.write_all(left_out(&self.failed, "that failed or did not open").0.as_bytes())?;
        self.not_judged.write(&mut self.file)?;
        self.file.write_all(left_out(&self.not_judged, "that could not be judged").0.as_bytes())?;
        if self.good.shown > 0 {
            let is_folded = summary.failed + summary.not_open > 0 || totals.connections > FEW;
            let open = if is_folded { "" } else { " open" };
            let are = if summary.good == 1 { "is" } else { "are" };
            let fold = html! {
                (PreEscaped(format!("<details class=\"fold\"{open}>")))
                summary {
                    (counted(summary.good, "connection")) " " (are) " good: "
                    (counted(summary.good_segments, "segment"))
                }
            };
            self.file.write_all(fold.0.as_bytes())?;
            self.good.write(&mut self.file)?;
            self.file.write_all(left_out(&self.good, "that are good").0.as_bytes())?;
            self.file.write_all(b"</details>")?;
        }
        self.file.write_all(foot().0.as_bytes())?;
        self.file.flush()
    }
}

/// Markup without control characters of names, which a terminal that shows the file would obey.
fn printable(PreEscaped(markup): Markup) -> String {
    let is_harmful = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if markup.contains(is_harmful) { markup.replace(is_harmful, "\u{fffd}") } else { markup }
}

/// How many connections of a kind are not on the page.
fn left_out(part: &Part, which: &str) -> Markup {
    html! {
        @if part.left_out > 0 {
            p.note {
                "Counted above but not shown, so that a browser can handle this page: "
                (grouped(part.left_out)) " more connections " (which) "."
            }
        }
    }
}

fn foot() -> Markup {
    html! {
        (PreEscaped("</main>"))
        footer {
            "Written by wireseal " (env!("CARGO_PKG_VERSION")) ". This page contains no secrets and loads nothing."
        }
        div #tip role="tooltip" hidden {}
        script { (PreEscaped(SCRIPT)) }
        (PreEscaped("</body></html>\n"))
    }
}

/// Of many connections: what failed, by reason and peers.
fn groups(totals: &Totals, summary: &Summary) -> Markup {
    let parts = [
        ("failed", "failed", summary.failed, &summary.failed_by),
        ("not-open", "did not open", summary.not_open, &summary.not_open_by),
        ("not-judged", "could not be judged", summary.not_judged, &summary.not_judged_by),
    ];
    html! {
        @for (class, words, count, groups) in parts {
            @if totals.connections > FEW && count > 0 {
                @let (rows, others) = groups.table();
                section.summary.(class) {
                    h2 { (grouped(count)) " of " (counted(totals.connections, "connection")) " " (words) }
                    div.scroll {
                        table {
                            thead {
                                tr {
                                    @for name in ["reason", "peers", "first packet", "connections", "segments"] {
                                        th scope="col" { (name) }
                                    }
                                }
                            }
                            tbody {
                                @for row in rows {
                                    tr {
                                        td { (row.reason) }
                                        td { @if row.first.is_some() { code { (row.peers) } } @else { (row.peers) } }
                                        td {
                                            @if let Some(first) = row.first {
                                                (grouped(first.packet))
                                                @if let Some(time) = first.time { ", " time { (time.timestamp()) } }
                                            }
                                        }
                                        td.n { (grouped(row.connections)) }
                                        td.n { (grouped(row.segments)) }
                                    }
                                }
                            }
                        }
                    }
                    @if others > 0 { p.note { "and " (counted(others, "connection")) " for other reasons" } }
                }
            }
        }
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
            @for hint in &totals.unused_hints {
                p.note { code { (hint) } ": no such connection in this capture." }
            }
            // The answer already names a single cause.
            @if summary.causes.len() > 1 {
                h2 { "Why" }
                ol.causes {
                    @for cause in summary.worst_causes() {
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
                    // Wide enough that even the smallest share is visible.
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
fn connections_heading(summary: &Summary) -> Markup {
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
