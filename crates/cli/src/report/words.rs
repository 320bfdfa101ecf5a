//! The words that the reports share, and the summary of all connections, which stays small however many there are.

use std::fmt;

use serde::Serialize;
use wireseal_tcp_ao::Endpoint;

use super::groups::Groups;
use crate::capture::{Place, Time};
use crate::keys::Keys;
use crate::text::{Printable, counted, grouped};
use crate::verify::report::{
    ConnectionReport, Counts, Diagnosis, DirectionReport, IsnSource, KeyUse, Standing, Totals, Verdict,
    failed, not_judged,
};

/// How many runs of a KeyID are shown per direction: routers roll over rarely, and a forger may write any KeyID.
pub(super) const KEY_USES_SHOWN: usize = 32;

/// The kinds of verdict in words, at [`Verdict::index`].
pub(super) const VERDICTS: [&str; Verdict::KINDS] = [
    "good",
    "bad MAC",
    "unknown KeyID",
    "no TCP-AO option",
    "malformed option",
    "two TCP-AO options",
    "ISN not seen",
    "cut off",
];

/// A verdict in words, with what is wrong with malformed options.
pub(crate) struct VerdictInWords(pub(crate) Verdict);

impl fmt::Display for VerdictInWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERDICTS[self.0.index()])?;
        match self.0 {
            Verdict::MalformedOption(error) => write!(f, " ({error})"),
            _ => Ok(()),
        }
    }
}

/// A verdict on a connection or a capture, such as `FAILED`.
pub(crate) const fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Good => "good",
        Standing::Failed => "FAILED",
        Standing::NotOpen => "NOT OPEN",
        Standing::NotJudged => "not judged",
        Standing::Empty => "empty",
    }
}

/// The counts above zero: `19 good, 1 bad MAC`.
pub(crate) fn counts(counts: &Counts) -> String {
    let above_zero = counts.iter().zip(VERDICTS).filter(|(count, _)| **count > 0);
    let counted: Vec<_> = above_zero.map(|(count, name)| format!("{} {name}", grouped(*count))).collect();
    counted.join(", ")
}

/// A run of a KeyID: `KeyID 100 (core/100)`.
pub(super) fn key(KeyUse { key_id, key_name, .. }: &KeyUse) -> String {
    match key_name {
        // A key without a chain may have only its id as a name.
        Some(name) if *name != key_id.to_string() => format!("KeyID {key_id} ({name})"),
        _ => format!("KeyID {key_id}"),
    }
}

/// The ISN of a direction, and where it is from if its SYN or SYN-ACK was not seen.
pub(super) fn isn(direction: &DirectionReport) -> String {
    let Some(isn) = direction.isn else { return "not seen".to_owned() };
    let source = match direction.isn_source {
        Some(IsnSource::Inferred { is_confirmed: true }) => " (inferred: confirmed by a MAC)",
        Some(IsnSource::Inferred { is_confirmed: false }) => " (inferred)",
        Some(IsnSource::Given) => " (given)",
        Some(IsnSource::Seen) | None => "",
    };
    format!("{}{source}", isn.0)
}

/// The words before a run of a KeyID. Only segments that verify show that the key was rolled over.
pub(super) fn transition(uses: &[KeyUse], place: usize) -> Option<&'static str> {
    let before = uses[..place].iter().rev().find(|key_use| key_use.key.is_some());
    let of = |key_use: &KeyUse| key_use.key.map(|key| (key, key_use.key_id));
    let is_rollover =
        of(&uses[place]).is_some() && before.is_some_and(|before| of(before) != of(&uses[place]));
    match (place, is_rollover) {
        (0, _) => None,
        (_, true) => Some("rolled over to"),
        (_, false) => Some("then"),
    }
}

/// The sentences of a connection's diagnoses, each with the segments it explains: once if it is the same for both ends. The first word is
/// `why`, or `note` for a remark on good segments.
pub(super) fn reasons(connection: &ConnectionReport) -> Vec<(&'static str, String, String)> {
    let mut reasons: Vec<(&str, String, String)> = Vec::new();
    for diagnosis in &connection.diagnoses {
        let (sentence, explained) = (diagnosis.sentence(), explained(diagnosis, &connection.ends));
        match reasons.iter_mut().find(|(_, known, _)| *known == sentence) {
            Some((_, _, all)) => *all += &format!("; {explained}"),
            None => {
                let word = if diagnosis.about == Standing::Good { "note" } else { "why" };
                reasons.push((word, sentence, explained));
            }
        }
    }
    reasons
}

/// Whose segments a diagnosis is about: `4 segments of 192.0.2.2:179, from packet 9 on`.
fn explained(diagnosis: &Diagnosis, ends: &[Endpoint; 2]) -> String {
    let (from, packet) = (ends[diagnosis.sender as usize], diagnosis.first.packet);
    match diagnosis.segments {
        1 => format!("1 segment of {from}, packet {packet}"),
        segments => format!("{} of {from}, from packet {packet} on", counted(segments, "segment")),
    }
}

/// `packet 3` or `packets 3 to 9`.
pub(super) fn packets(first: Place, last: Place) -> String {
    if first.packet == last.packet {
        format!("packet {}", first.packet)
    } else {
        format!("packets {} to {}", first.packet, last.packet)
    }
}

/// A time in RFC 3339, without day and zone if the day is that of `start`.
pub(super) fn time_after(start: Option<Time>, time: Time) -> String {
    let (text, start) = (time.to_string(), start.map(|start| start.to_string()));
    match (text.split_once('T'), start.as_deref().and_then(|start| start.split_once('T'))) {
        (Some((day, clock)), Some((first_day, _))) if day == first_day => {
            clock.trim_end_matches('Z').to_owned()
        }
        _ => text,
    }
}

/// What was not judged, with its count.
pub(super) fn skipped(totals: &Totals) -> Vec<String> {
    let mut skipped: Vec<_> = totals
        .skipped
        .kinds()
        .into_iter()
        .map(|(kind, packets)| match kind {
            Some(kind) => kind.counted(packets),
            None => format!("{} of other kinds", counted(packets, "packet")),
        })
        .collect();
    if totals.left_out > 0 {
        skipped.push(format!("{} that --peer or --port leaves out", counted(totals.left_out, "TCP packet")));
    }
    if totals.after_given_up > 0 {
        let segments = counted(totals.after_given_up, "segment");
        skipped.push(format!("{segments} of connections whose state had been given up"));
    }
    if totals.dropped > 0 {
        let dropped = counted(totals.dropped, "packet");
        skipped.push(format!("{dropped} that the kernel dropped: missing answers may be due to that"));
    }
    skipped
}

/// How many connections were given up, and how many segments came later, if any.
pub(super) fn given_up(totals: &Totals) -> Option<String> {
    let (many, later) = (counted(totals.given_up, "connection"), counted(totals.after_given_up, "segment"));
    let advice = "select fewer with --peer or --port";
    match (totals.given_up, totals.after_given_up) {
        (0, 0) => None,
        (0, _) => Some(format!(
            "{later} came late, when their closed connections were no longer remembered, and were not judged: {advice}"
        )),
        (_, 0) => Some(format!(
            "too many connections were live or kept failing: {many} could not be followed to the end; {advice}"
        )),
        _ => Some(format!(
            "too many connections were live or kept failing: {many} could not be followed to the end, and {later} were not \
             judged; {advice}"
        )),
    }
}

/// The time between two packets in a suitable unit; `None` if the clock went back.
pub(super) fn duration(from: Time, to: Time) -> Option<String> {
    Some(nanoseconds(to.unix_nanoseconds().checked_sub(from.unix_nanoseconds())?))
}

/// A duration in a suitable unit: three significant digits up to a minute, then whole seconds.
pub(super) fn nanoseconds(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    match nanoseconds {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => digits(nanoseconds as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => digits(nanoseconds as f64 / 1e6, "ms"),
        _ if seconds < 60 => digits(nanoseconds as f64 / 1e9, "s"),
        _ if seconds < 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

fn digits(value: f64, unit: &str) -> String {
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    let text = format!("{value:.decimals$}");
    let short = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short} {unit}")
}

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The capture, as the command line names it.
    pub capture: &'a str,
    /// The keys it was checked against; no report contains their secrets.
    pub keys: &'a Keys,
}

/// How many failed connections are named at the end.
const FAILED_NAMED: usize = 10;

/// The diagnoses of one kind, in all connections.
#[derive(Debug, Serialize)]
pub(super) struct Cause {
    /// See [`Diagnosis::kind`].
    pub(super) kind: &'static str,
    /// How many segments it explains.
    pub(super) segments: u64,
    /// In how many connections.
    pub(super) connections: u64,
    /// The sentence of the first.
    pub(super) sentence: String,
    /// The cause that the first names.
    #[serde(skip)]
    cause: String,
    /// Whether all name that cause.
    #[serde(skip)]
    is_one: bool,
    /// See [`Diagnosis::about`].
    #[serde(skip)]
    about: Standing,
}

/// Connections by standing, and why some failed.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Connections whose segments are all good.
    pub(super) good: u64,
    /// Connections with a segment that failed.
    pub(super) failed: u64,
    /// The lowest numbers of these, in order.
    pub(super) first_failed: Vec<u64>,
    /// Connections that did not open, though no segment failed.
    pub(super) not_open: u64,
    /// Other connections that could not be judged, or one of whose segments could not.
    pub(super) not_judged: u64,
    /// The diagnoses by kind, in the order of first mention.
    pub(super) causes: Vec<Cause>,
    /// How many segments the good connections have.
    pub(super) good_segments: u64,
    /// Connections that failed, by reason and peer.
    pub(super) failed_by: Groups,
    /// Connections that did not open.
    pub(super) not_open_by: Groups,
    /// Connections that were not judged.
    pub(super) not_judged_by: Groups,
}

impl Summary {
    pub(super) fn add(&mut self, connection: &ConnectionReport) {
        let standing = connection.standing();
        match standing {
            Standing::Good => {
                self.good += 1;
                self.good_segments += connection.counts().iter().sum::<u64>();
            }
            Standing::Failed => {
                self.failed += 1;
                self.failed_by.add(connection, standing);
                // Connections come in the order in which they end.
                let place = self.first_failed.partition_point(|number| *number < connection.number);
                self.first_failed.insert(place, connection.number);
                self.first_failed.truncate(FAILED_NAMED);
            }
            Standing::NotOpen => {
                self.not_open += 1;
                self.not_open_by.add(connection, standing);
            }
            Standing::NotJudged => {
                self.not_judged += 1;
                self.not_judged_by.add(connection, standing);
            }
            Standing::Empty => {}
        }
        for (place, diagnosis) in connection.diagnoses.iter().enumerate() {
            let is_first = connection.diagnoses[..place].iter().all(|other| other.kind != diagnosis.kind);
            self.add_cause(diagnosis, is_first);
        }
    }

    fn add_cause(&mut self, diagnosis: &Diagnosis, is_first: bool) {
        let kind = diagnosis.kind;
        let place = self.causes.iter().position(|cause| cause.kind == kind).unwrap_or_else(|| {
            let (sentence, cause) = (diagnosis.sentence(), diagnosis.cause.clone());
            self.causes.push(Cause {
                kind,
                segments: 0,
                connections: 0,
                sentence,
                cause,
                is_one: true,
                about: diagnosis.about,
            });
            self.causes.len() - 1
        });
        let cause = &mut self.causes[place];
        cause.segments += diagnosis.segments;
        cause.connections += u64::from(is_first);
        cause.is_one &= cause.cause == diagnosis.cause;
    }

    /// The verdict on the capture: that of its worst connection.
    pub(super) const fn standing(&self) -> Standing {
        match self {
            Self { failed: 1.., .. } => Standing::Failed,
            Self { not_open: 1.., .. } => Standing::NotOpen,
            Self { not_judged: 1.., .. } => Standing::NotJudged,
            Self { good: 1.., .. } => Standing::Good,
            _ => Standing::Empty,
        }
    }

    /// Answer, counts and reasons in a few lines.
    pub(super) fn in_short(&self, totals: &Totals) -> String {
        let mut lines = vec![
            format!("wireseal verify {}: {}", env!("CARGO_PKG_VERSION"), self.answer(totals)),
            format!("{}: {}", counted(totals.counts.iter().sum(), "segment"), counts(&totals.counts)),
            format!("{}: {}", counted(totals.connections, "connection"), self.connections()),
        ];
        for Cause { kind, segments, connections, cause, .. } in self.worst_causes() {
            // Of several connections, the sentence is about one.
            let example = if *connections > 1 { "for example, " } else { "" };
            let [segments, connections] =
                [counted(*segments, "segment"), counted(*connections, "connection")];
            lines.push(format!("{kind}, {segments} in {connections}: {example}{cause}"));
        }
        lines.extend(skipped(totals).into_iter().map(|what| format!("skipped: {what}")));
        lines.extend(totals.damage.clone());
        let lines: Vec<_> = lines.iter().map(|line| Printable(line).to_string()).collect();
        lines.join("\n")
    }

    /// The causes of failures first, then why connections did not open, then what was not judged.
    pub(super) fn worst_causes(&self) -> impl Iterator<Item = &Cause> {
        let order = [Standing::Failed, Standing::NotOpen, Standing::NotJudged];
        order.into_iter().flat_map(|about| self.causes.iter().filter(move |cause| cause.about == about))
    }

    /// Connections by verdict: `1 good, 2 failed`.
    pub(super) fn connections(&self) -> String {
        let standings = [
            (self.good, "good"),
            (self.failed, "failed"),
            (self.not_open, "not open"),
            (self.not_judged, "not judged"),
        ];
        let above_zero = standings.iter().filter(|(count, _)| *count > 0);
        let counted: Vec<_> = above_zero.map(|(count, name)| format!("{} {name}", grouped(*count))).collect();
        counted.join(", ")
    }

    /// The causes for this standing, and the one that explains most of them. What has nothing to do with TCP-AO comes last, and of several
    /// that explain as many a certain one comes before a likely one, and then the first.
    fn causes_of(&self, about: Standing) -> (usize, Option<&Cause>) {
        let causes = || self.causes.iter().filter(|cause| cause.about == about);
        let rank = |cause: &&Cause| {
            let is_likely = matches!(cause.kind, "unexplained" | "secrets-differ" | "secret-changed");
            (cause.kind != "unsigned-without-key", cause.segments, !is_likely)
        };
        (causes().count(), causes().rev().max_by_key(rank))
    }

    /// Why the session is down, or that it is not, in one line.
    pub(super) fn answer(&self, totals: &Totals) -> String {
        let counts = &totals.counts;
        let all: u64 = counts.iter().sum();
        let segments = counted(all, "segment");
        let with_cause = |begin: String, cause: Option<&Cause>| match cause {
            Some(most) => format!("{begin}: {}", most.cause),
            None => begin,
        };
        let (_, not_judged_because) = self.causes_of(Standing::NotJudged);
        let all_good = || match all {
            1 => "the only segment is good".to_owned(),
            _ => format!("all {segments} are good"),
        };
        let unjudged = match not_judged(counts) {
            0 => None,
            count => Some(format!("{} of {segments} could not be judged", grouped(count))),
        };
        match self.standing() {
            Standing::Empty => "no TCP segment to judge".to_owned(),
            Standing::Good => {
                let but =
                    if totals.is_incomplete() { ", but part of the capture could not be read" } else { "" };
                all_good() + but
            }
            Standing::NotOpen => {
                let begin = match unjudged {
                    None => all_good(),
                    Some(unjudged) => format!("no segment failed and {unjudged}"),
                };
                let which = match totals.connections {
                    1 => "the connection".to_owned(),
                    all => format!("{} of {}", grouped(self.not_open), counted(all, "connection")),
                };
                let (_, because) = self.causes_of(Standing::NotOpen);
                with_cause(format!("{begin}, but {which} did not open"), because)
            }
            Standing::NotJudged => {
                let begin = match unjudged {
                    None => format!(
                        "{}, but {} could not be judged",
                        all_good(),
                        counted(self.not_judged, "connection")
                    ),
                    Some(unjudged) => format!("no segment failed, but {unjudged}"),
                };
                with_cause(begin, not_judged_because)
            }
            Standing::Failed => {
                let failed = failed(counts);
                let (kinds, most) = self.causes_of(Standing::Failed);
                let how = match (most, kinds) {
                    (None, _) => ", and nothing that was tried explains it".to_owned(),
                    (Some(cause), 1) if cause.segments >= failed && cause.connections > 1 => format!(
                        " in {} for reasons of one kind, for example",
                        counted(cause.connections, "connection")
                    ),
                    (Some(cause), 1) if cause.segments >= failed && cause.is_one => String::new(),
                    (Some(cause), 1) if cause.segments >= failed => {
                        " for reasons of one kind, for example".to_owned()
                    }
                    (Some(cause), 1) if cause.is_one => {
                        format!(", {} of them for this reason", grouped(cause.segments))
                    }
                    (Some(cause), 1) => {
                        format!(", {} of them for reasons of one kind, for example", grouped(cause.segments))
                    }
                    (Some(cause), kinds) => {
                        let segments = counted(cause.segments, "segment");
                        let example = if cause.is_one { "" } else { ", for example" };
                        // What has nothing to do with TCP-AO may be more.
                        let is_most = self
                            .causes
                            .iter()
                            .all(|other| other.about != Standing::Failed || other.segments <= cause.segments);
                        let which = if is_most { "the most frequent" } else { "the first to look at" };
                        format!(" for {kinds} reasons, {which} ({segments}) being{example}")
                    }
                };
                let answer = with_cause(format!("{} of {segments} failed{how}", grouped(failed)), most);
                match not_judged(counts) {
                    0 => answer,
                    more => {
                        let begin = format!("{answer}; {} more could not be judged", grouped(more));
                        with_cause(begin, not_judged_because)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let rows = [
            (0, "0 s"),
            (999, "999 ns"),
            (1_500, "1.5 µs"),
            (12_340_000, "12.3 ms"),
            (250_000_000, "250 ms"),
            (5_000_000_000, "5 s"),
            (59_994_000_000, "60 s"),
            (61_000_000_000, "1 min 1 s"),
            (3_660_000_000_000, "1 h 1 min"),
            (90_000_000_000_000, "1 d 1 h"),
        ];
        for (value, expected) in rows {
            assert_eq!(nanoseconds(value), expected);
        }
    }
}
