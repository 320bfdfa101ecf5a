//! The report as one page that needs no network and no other file, and can be read without its script.
//!
//! Everything from the capture and the keys goes through maud, which escapes it.

pub(crate) mod ends;
mod timeline;

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tempfile::SpooledTempFile;
use wireseal_tcp_ao::Endpoint;

use self::timeline::{symbol, timeline};
use super::words::{self, KEY_USES_SHOWN, Subject, Summary, VERDICTS, VerdictInWords, skipped};
use crate::capture::Time;
use crate::keys::Keys;
use crate::text::{counted, coverage, flags, grouped};
use crate::verify::report::{
    ConnectionReport, Counts, DirectionReport, KeyUse, SegmentReport, Sender, Standing, Totals, Verdict,
    failed, not_judged,
};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");
/// What the browser enforces: the page loads nothing and runs only the script with this SHA-256.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
                      script-src 'sha256-9mOedgiN+oNM4MYGWV0NTaURJjh5tmPTX+pKMo6DJuI='";

/// Octets of connections kept in memory until the summary above them is written; more go to a temporary file.
const WAITING_IN_MEMORY: usize = 1 << 20;
/// How many connections are shown that failed or did not open, and how many others, so that a browser can handle the page.
const FAILED_SHOWN: u64 = 500;
const OTHERS_SHOWN: u64 = 100;
/// How many segments are drawn on the page, and how many of one connection.
const MARKS_OF_PAGE: usize = 40_000;
const MARKS_OF_CONNECTION: usize = 2_000;

#[derive(Debug)]
pub(super) struct Page<'a> {
    file: BufWriter<File>,
    waiting: SpooledTempFile,
    subject: Subject<'a>,
    failed: Shown,
    others: Shown,
    marks_left: usize,
}

/// How many connections of one kind are on the page, and how many are left out.
#[derive(Clone, Copy, Default, Debug)]
struct Shown {
    on_page: u64,
    left_out: u64,
}

impl Shown {
    /// Counts one, and returns whether to show it.
    const fn count(&mut self, most: u64) -> bool {
        let shown = self.on_page < most;
        *(if shown { &mut self.on_page } else { &mut self.left_out }) += 1;
        shown
    }
}

impl<'a> Page<'a> {
    pub(super) fn create(path: &Path, subject: Subject<'a>) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        Ok(Self {
            file: BufWriter::new(File::create(path).map_err(named)?),
            waiting: SpooledTempFile::new(WAITING_IN_MEMORY),
            subject,
            failed: Shown::default(),
            others: Shown::default(),
            marks_left: MARKS_OF_PAGE,
        })
    }

    pub(super) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let is_shown = match connection.standing() {
            Standing::Failed | Standing::NotOpen => self.failed.count(FAILED_SHOWN),
            _ => self.others.count(OTHERS_SHOWN),
        };
        if !is_shown {
            return Ok(());
        }
        let marks = connection.segments.len().min(MARKS_OF_CONNECTION).min(self.marks_left);
        self.marks_left -= marks;
        let markup = article(connection, &connection.segments[..marks]);
        self.waiting.write_all(markup.0.as_bytes())
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
            (connections_heading(summary))
        };
        self.file.write_all(head.0.as_bytes())?;
        self.waiting.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.waiting, &mut self.file)?;
        self.file.write_all(self.foot().0.as_bytes())?;
        self.file.flush()
    }

    fn foot(&self) -> Markup {
        let (failed, others) = (self.failed.left_out, self.others.left_out);
        html! {
            @if failed + others > 0 {
                p.note {
                    "Counted above but not on this page: " (failed) " more connections with failed segments or not open, and "
                    (others) " others."
                }
            }
            (PreEscaped("</main>"))
            footer {
                "Written by wireseal " (env!("CARGO_PKG_VERSION")) ". This page contains no secrets and loads nothing."
            }
            div #tip role="tooltip" hidden {}
            script { (PreEscaped(SCRIPT)) }
            (PreEscaped("</body></html>\n"))
        }
    }
}

/// A standing's class and its words on a badge.
const fn badge(standing: Standing, is_incomplete: bool) -> (&'static str, &'static str) {
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
            // The answer already names a single cause.
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

/// How many segments that are not good are listed.
const LINES: usize = 200;
/// A list with at least this many lines is folded.
const FOLDED_FROM: usize = 13;

/// The connection, with these of its segments drawn.
fn article(connection: &ConnectionReport, segments: &[SegmentReport]) -> Markup {
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
            @for (sentence, explained) in words::reasons(connection) {
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
