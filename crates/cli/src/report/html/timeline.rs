//! The timeline of a connection: what the opener sent above the axis, what the listener sent below.
//!
//! Marks are in order of time and never overlap, and pauses are shortened. `data-scale` is a mark's position on an axis of the same width
//! that is true to scale; the page's script can move the mark there.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use crate::capture::Time;
use crate::report::words::{self, VerdictInWords};
use crate::text::{counted, flags};
use crate::verify::report::{ConnectionReport, DirectionReport, SegmentReport, Sender, Verdict};

/// The marks by verdict, centred. Each has a shape of its own, so that none depends on colour alone.
const SHAPES: [&str; Verdict::KINDS] = [
    r#"<circle r="4.6" fill="currentColor"/>"#,
    r#"<path d="M-4.6-4.6 4.6 4.6M4.6-4.6-4.6 4.6" stroke="currentColor" stroke-width="3" stroke-linecap="round"/>"#,
    r#"<path d="M0-6.4 6.4 0 0 6.4-6.4 0Z" fill="currentColor"/>"#,
    r#"<path d="M-4.4-4.4H4.4V4.4H-4.4Z" class="hollow" stroke="currentColor" stroke-width="2.2"/>"#,
    r#"<path d="M0-6 5.8 4.6H-5.8Z" fill="currentColor"/>"#,
    r#"<path d="M-5.6-5H-.9V5H-5.6ZM.9-5H5.6V5H.9Z" fill="currentColor"/>"#,
    r#"<circle r="4.2" class="hollow" stroke="currentColor" stroke-width="2.2" stroke-dasharray="2.6 1.8"/>"#,
    r#"<circle r="4.2" class="hollow" stroke="currentColor" stroke-width="1.6"/><path d="M0-5A5 5 0 0 0 0 5Z" fill="currentColor"/>"#,
];

/// Pixels between neighbouring marks.
const LEAST_STEP: f64 = 13.0;
const MOST_STEP: f64 = 72.0;
/// Pixels beside the outermost marks.
const MARGIN: f64 = 26.0;
/// Pixels to which a short connection is stretched.
const FULL_WIDTH: f64 = 858.0;
/// The parts of the picture from its top: the opener's keys and marks, the axis, the listener's marks and keys.
const KEYS_HEIGHT: u32 = 18;
const AXIS: u32 = 124;
const AXIS_HALF: u32 = 13;
const HEIGHT: u32 = 2 * AXIS;
/// Pixels between two labels of the axis.
const BETWEEN_LABELS: u32 = 78;
const MOST_LABELS_TO_SCALE: u64 = 9;

/// The marks, defined once for all timelines.
pub(super) fn symbols() -> Markup {
    let mut marks = String::new();
    for (place, shape) in SHAPES.iter().enumerate() {
        let _ = write!(marks, r#"<g id="mark-{place}">{shape}</g>"#);
    }
    html! {
        svg width="0" height="0" aria-hidden="true" style="position:absolute" { defs { (PreEscaped(marks)) } }
    }
}

/// The mark of the verdict at this place of the counts.
pub(super) fn symbol(place: usize, y: i64) -> Markup {
    html! { use class=(format!("v{place}")) href=(format!("#mark-{place}")) y=(y) {} }
}

/// Positions along the axis.
struct Axis {
    /// Pixels from the left, for each segment.
    shortened: Vec<u32>,
    to_scale: Vec<u32>,
    width: u32,
    /// The first and the last time.
    span: Option<(Time, Time)>,
}

impl Axis {
    fn new(segments: &[SegmentReport]) -> Self {
        let times = || segments.iter().filter_map(|segment| segment.place.time);
        let span = times().min().zip(times().max());
        let mut places = Vec::with_capacity(segments.len());
        let (mut place, mut before) = (0.0, None);
        for (number, segment) in segments.iter().enumerate() {
            let time = segment.place.time.or(before);
            if number > 0 {
                place += step(before.zip(time));
            }
            places.push(place);
            before = time;
        }
        let stretch = (FULL_WIDTH / place.max(1.0)).max(1.0);
        let width = place * stretch;
        let shortened: Vec<_> = places.iter().map(|place| (MARGIN + place * stretch) as u32).collect();
        let to_scale = segments
            .iter()
            .zip(&shortened)
            .map(|(segment, shortened)| match (segment.place.time, span) {
                (Some(time), Some((from, until))) if from < until => {
                    (MARGIN + width * share(time, from, until)) as u32
                }
                _ => *shortened,
            })
            .collect();
        Self { shortened, to_scale, width: (width + 2.0 * MARGIN) as u32, span }
    }

    /// The first segment that is not before this packet: its position with shortened pauses, and to scale.
    fn at(&self, segments: &[SegmentReport], packet: u64) -> (u32, u32) {
        let place = segments.partition_point(|segment| segment.place.packet < packet);
        let place = place.min(segments.len() - 1);
        (self.shortened[place], self.to_scale[place])
    }
}

/// Pixels from one mark to the next, by the logarithm of the time between.
fn step(times: Option<(Time, Time)>) -> f64 {
    let microseconds = times
        .map_or(0, |(before, time)| time.unix_nanoseconds().saturating_sub(before.unix_nanoseconds()) / 1000);
    (LEAST_STEP + 8.0 * (1.0 + microseconds as f64 / 1000.0).log10()).min(MOST_STEP)
}

/// How far along a time is between two others, from 0 to 1.
fn share(time: Time, from: Time, until: Time) -> f64 {
    let since = |time: Time| time.unix_nanoseconds().saturating_sub(from.unix_nanoseconds()) as f64;
    since(time) / since(until)
}

/// The picture of these segments of the connection, at least one.
pub(super) fn timeline(connection: &ConnectionReport, segments: &[SegmentReport]) -> Markup {
    let axis = Axis::new(segments);
    let label = format!(
        "Timeline of connection {}: {} marks, one for each segment",
        connection.number,
        segments.len()
    );
    html! {
        svg.timeline width=(axis.width) height=(HEIGHT) viewBox=(format!("0 0 {} {HEIGHT}", axis.width))
            role="img" aria-label=(label)
        {
            rect.axis x="0" y=(AXIS - AXIS_HALF) width=(axis.width) height=(2 * AXIS_HALF) {}
            (ticks(&axis, segments))
            @for sender in Sender::BOTH {
                (key_uses(&axis, segments, sender, &connection.directions[sender as usize]))
            }
            // True to scale, marks may overlap; those that are not good go on top.
            @for is_good in [true, false] {
                @for (number, segment) in segments.iter().enumerate() {
                    @if (segment.verdict == Verdict::Good) == is_good { (mark(&axis, number, segment, connection)) }
                }
            }
        }
    }
}

/// The labels of the axis, from the first segment: one set for shortened pauses, one for time to scale.
fn ticks(axis: &Axis, segments: &[SegmentReport]) -> Markup {
    let Some((from, until)) = axis.span else { return Markup::default() };
    let mut shortened = Vec::new();
    let mut free_from = 0;
    for (segment, x) in segments.iter().zip(&axis.shortened) {
        if let (Some(time), true) = (segment.place.time, *x >= free_from) {
            shortened.push((*x, words::duration(from, time).unwrap_or_default()));
            free_from = x + BETWEEN_LABELS;
        }
    }
    let to_scale = round_times(until.unix_nanoseconds() - from.unix_nanoseconds()).map(|(share, text)| {
        let x = MARGIN + (f64::from(axis.width) - 2.0 * MARGIN) * share;
        (x as u32, text)
    });
    let to_scale: Vec<_> = to_scale.collect();
    html! {
        @for (class, ticks) in [("ticks shortened", &shortened), ("ticks scale", &to_scale)] {
            g class=(class) {
                @for (x, text) in ticks {
                    path d=(format!("M{x} {}v4M{x} {}v-4", AXIS - AXIS_HALF, AXIS + AXIS_HALF)) {}
                    text x=(x) y=(AXIS + 4) { (text) }
                }
            }
        }
    }
}

/// Round times from 0 to this many nanoseconds, and how far along each is, from 0 to 1.
fn round_times(all: u64) -> impl Iterator<Item = (f64, String)> {
    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400 * SECOND;
    let decimal = |unit: u64, most: u32| {
        (0..most).flat_map(move |power| [1, 2, 5].map(|digit| digit * 10u64.pow(power) * unit))
    };
    let clock = [20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200]
        .map(|seconds| seconds * SECOND);
    let mut steps = decimal(1, 9)
        .chain([SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND])
        .chain(clock)
        .chain(decimal(DAY, 5));
    let step = steps.find(|step| all / step <= MOST_LABELS_TO_SCALE).unwrap_or(u64::MAX);
    let count = if all == 0 { 0 } else { all / step };
    (0..=count).map(move |number| {
        let time = number * step;
        (if all == 0 { 0.0 } else { time as f64 / all as f64 }, words::nanoseconds(time))
    })
}

/// Bands for the KeyIDs that a direction used, and a line at each change.
fn key_uses(axis: &Axis, segments: &[SegmentReport], sender: Sender, direction: &DirectionReport) -> Markup {
    // Segments that are not drawn have no position.
    let last = segments.last().map_or(0, |segment| segment.place.packet);
    let drawn = direction.key_uses.partition_point(|key_use| key_use.first.packet <= last);
    let uses = &direction.key_uses[..drawn];
    let (y, line) = match sender {
        Sender::Opener => (0, format!("M0 {KEYS_HEIGHT}V{}", AXIS - AXIS_HALF)),
        Sender::Listener => {
            (HEIGHT - KEYS_HEIGHT, format!("M0 {}V{}", AXIS + AXIS_HALF, HEIGHT - KEYS_HEIGHT))
        }
    };
    let half = LEAST_STEP as u32 / 2;
    html! {
        @for (number, key_use) in uses.iter().enumerate() {
            @let (x, scale) = axis.at(segments, key_use.first.packet);
            @let end = uses.get(number + 1).map(|next| axis.at(segments, next.first.packet));
            @let (end_x, end_scale) = end.unwrap_or((axis.width, axis.width));
            @let [(x, width), (scale, scale_width)] =
                [(x, end_x), (scale, end_scale)].map(|(from, to)| (from.saturating_sub(half), to.saturating_sub(from)));
            @let name = words::key(key_use);
            svg class=(format!("key-use k{}", number % 2)) x=(x) y=(y) width=(width) height=(KEYS_HEIGHT)
                data-x=(x) data-width=(width) data-scale=(scale) data-scale-width=(scale_width)
            {
                rect width="100%" height="100%" rx="4" {}
                text x="7" y="13" { (name) }
                title { (name) " · " (counted(key_use.segments, "segment")) " · " (words::packets(key_use.first, key_use.last)) }
            }
            @if number > 0 {
                g.change transform=(format!("translate({x},0)")) data-x=(x) data-scale=(scale) {
                    path d=(line) {}
                }
            }
        }
    }
}

/// A segment: a stem as long as the logarithm of its payload, and the mark of its verdict.
fn mark(axis: &Axis, number: usize, segment: &SegmentReport, connection: &ConnectionReport) -> Markup {
    let (x, scale) = (axis.shortened[number], axis.to_scale[number]);
    let stem = 18 + (4.0 * f64::from(1 + segment.payload_length).log2()) as i64;
    let (axis, half, up) = (i64::from(AXIS), i64::from(AXIS_HALF), segment.sender == Sender::Opener);
    let (from, to) = if up { (axis - half, axis - half - stem) } else { (axis + half, axis + half + stem) };
    let letter_at = if up { to - 9 } else { to + 15 };
    let letter = match segment.flags {
        flags if flags.syn() => "S",
        flags if flags.rst() => "R",
        flags if flags.fin() => "F",
        _ => "",
    };
    html! {
        g.mark transform=(format!("translate({x},0)")) data-x=(x) data-scale=(scale) {
            path.stem d=(format!("M0 {from}V{to}")) {}
            @if segment.is_retransmission { circle.again cy=(to) r="8" {} }
            (symbol(segment.verdict.index(), to))
            @if !letter.is_empty() { text y=(letter_at) { (letter) } }
            // Wider than the mark, so that it is easy to hit.
            rect.touch x="-6" y=(from.min(to) - 12) width="12" height=(stem + 12 + if up { 0 } else { 12 }) {}
            title { (details(segment, connection)) }
        }
    }
}

/// Everything known of a segment: a line `name: value` for each thing.
fn details(segment: &SegmentReport, connection: &ConnectionReport) -> String {
    let mut text = format!("verdict: {}", VerdictInWords(segment.verdict));
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let _ = write!(text, "\n{name}: {value}");
    };
    line("packet", &segment.place.packet);
    if let Some(time) = segment.place.time {
        line("time", &time);
        if let Some(since) = connection.first.time.and_then(|first| words::duration(first, time)) {
            line("since start", &since);
        }
    }
    line("sender", &connection.ends[segment.sender as usize]);
    line("flags", &flags(segment.flags).join(" "));
    line("sequence", &segment.sequence.0);
    if let Some(acknowledgment) = segment.acknowledgment {
        line("acknowledgment", &acknowledgment.0);
    }
    line("payload", &counted(segment.payload_length.into(), "octet"));
    if let Some([key_id, rnext_key_id]) = segment.key_ids {
        line("KeyID", &key_id);
        line("RNextKeyID", &rnext_key_id);
    }
    if let Some(sne) = segment.sne {
        line("SNE", &sne.0);
    }
    if segment.is_retransmission {
        line("retransmission", &"yes");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_to_scale_has_round_times() {
        let labels = |all| round_times(all).map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(labels(0), ["0 s"]);
        assert_eq!(labels(7), ["0 s", "1 ns", "2 ns", "3 ns", "4 ns", "5 ns", "6 ns", "7 ns"]);
        assert_eq!(labels(13_400_000_000), ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s", "12 s"]);
        let hour = 3_600_000_000_000;
        assert_eq!(
            labels(hour / 20),
            [
                "0 s",
                "20 s",
                "40 s",
                "1 min 0 s",
                "1 min 20 s",
                "1 min 40 s",
                "2 min 0 s",
                "2 min 20 s",
                "2 min 40 s",
                "3 min 0 s"
            ]
        );
        assert_eq!(labels(50 * hour).len(), 9);
        assert!((1..=10).contains(&labels(u64::MAX).len()));
        for (share, _) in round_times(u64::MAX).chain(round_times(999)) {
            assert!((0.0..=1.0).contains(&share));
        }
    }
}
