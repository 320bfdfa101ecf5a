//! The lifetimes of both ends' keys over time, and when the session works.
//!
//! The axis is not to scale: an hour of overlap is as visible as a year. The time between two moments at which something changes has a width by the
//! logarithm of its length.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use wireseal_keys::{Lifetime, Timestamp};

use super::{Ends, together};

/// The least time after the last change that is shown, if there is no end.
const AFTER: u32 = 30 * 86_400;
/// The fewest columns of the axis, however narrow the terminal is.
const LEAST_COLUMNS: usize = 16;
/// The columns of a label such as `2026-07-01 00:00`.
const LABEL: usize = 16;

/// What the picture shows.
pub(crate) struct Picture {
    pub(crate) rows: Vec<Row>,
    /// When something may be refused, one after the other.
    pub(crate) outages: Vec<[Timestamp; 2]>,
    /// All moments at which something changes, from the first to the last that are shown, and where they are, from 0 to 1.
    pub(crate) moments: Vec<(Timestamp, f64)>,
}

/// A key of one end.
pub(crate) struct Row {
    /// The names of the end and of its key.
    pub(crate) name: String,
    send: Lifetime,
    acceptance: Lifetime,
}

/// What a key is used for at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Whole,
    Accepted,
    Sent,
    Nothing,
}

impl Use {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Whole, "signs and accepts"),
        (Self::Accepted, "accepts only"),
        (Self::Sent, "signs only"),
        (Self::Nothing, "neither"),
    ];

    const fn letter(self) -> char {
        match self {
            Self::Whole => '█',
            Self::Accepted => '▒',
            Self::Sent => '▀',
            Self::Nothing => '·',
        }
    }
}

impl Row {
    fn use_at(&self, now: Timestamp) -> Use {
        match (self.send.contains(now), self.acceptance.contains(now)) {
            (true, true) => Use::Whole,
            (false, true) => Use::Accepted,
            (true, false) => Use::Sent,
            (false, false) => Use::Nothing,
        }
    }
}

impl Picture {
    pub(crate) fn new(ends: &Ends<'_>) -> Self {
        let of_keys = ends.pairs.iter().flat_map(Ends::keys_of);
        let rows: Vec<_> = of_keys
            .map(|(side, key)| {
                let chain = ends.meeting.ends[side].chain;
                let name = format!("{} {}", ends.names[side], chain.name_of(key));
                Row { name, send: key.send, acceptance: chain.acceptance(key) }
            })
            .collect();
        let of_rows = rows.iter().flat_map(|row| [row.send, row.acceptance]);
        let of_rows = of_rows.flat_map(|lifetime| [lifetime.from(), lifetime.until()]).flatten();
        let of_outages = ends.outages.iter().flat_map(|outage| [outage.from, outage.until]);
        let inside = of_rows.chain(of_outages).filter(|moment| ends.now < *moment && *moment < ends.until);
        let mut moments: BTreeSet<_> = inside.chain([ends.now]).collect();
        let last = moments.last().copied().unwrap_or(ends.now);
        moments.insert(match ends.until {
            Timestamp::MAX => last.later_by(AFTER),
            until => until,
        });
        Self { rows, outages: together(&ends.outages), moments: places(&moments) }
    }

    /// Where a moment is, from 0 to 1.
    pub(crate) fn place(&self, moment: Timestamp) -> f64 {
        let after = self.moments.partition_point(|(known, _)| *known <= moment);
        let (Some(before), Some(next)) =
            (after.checked_sub(1).map(|at| self.moments[at]), self.moments.get(after))
        else {
            return if after == 0 { 0.0 } else { 1.0 };
        };
        before.1 + (next.1 - before.1) * seconds(before.0, moment) / seconds(before.0, next.0)
    }

    /// The moment at a place from 0 to 1.
    fn moment(&self, place: f64) -> Timestamp {
        let after =
            self.moments.partition_point(|(_, known)| *known <= place).clamp(1, self.moments.len() - 1);
        let (before, next) = (self.moments[after - 1], self.moments[after]);
        let share = (place - before.1) / (next.1 - before.1);
        let since = seconds(before.0, next.0) * share;
        Timestamp::from_unix_seconds(before.0.unix_seconds() + since as i64)
    }

    /// The uses of a key, each from one moment to another.
    pub(crate) fn uses(&self, row: &Row) -> Vec<([Timestamp; 2], Use)> {
        let mut uses: Vec<([Timestamp; 2], Use)> = Vec::new();
        for pair in self.moments.windows(2) {
            let (from, until, now) = (pair[0].0, pair[1].0, row.use_at(pair[0].0));
            match uses.last_mut() {
                Some((span, same)) if *same == now => span[1] = until,
                _ => uses.push(([from, until], now)),
            }
        }
        uses
    }

    /// The picture in this many columns.
    pub(crate) fn text(&self, columns: usize) -> String {
        const SESSION: &str = "session";
        let length = |text: &str| text.chars().count();
        let names = self.rows.iter().map(|row| row.name.as_str()).chain([SESSION]);
        let name_columns = names.map(length).max().unwrap_or(0).min(columns / 3);
        let width = columns.saturating_sub(name_columns + 1).max(LEAST_COLUMNS);
        let mut text = String::new();
        let mut line = |name: &str, cells: String| {
            let shown: String = match length(name) > name_columns {
                true => name.chars().take(name_columns.saturating_sub(1)).chain(['…']).collect(),
                false => name.to_owned(),
            };
            let shown: String =
                shown.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
            let _ = writeln!(text, "{}", format!("{shown:<name_columns$} {cells}").trim_end());
        };
        let [labels, ticks] = self.axis(width);
        line("", labels);
        line("", ticks);
        let at = |column: usize| self.moment((column as f64 + 0.5) / width as f64);
        for row in &self.rows {
            line(&row.name, (0..width).map(|column| row.use_at(at(column)).letter()).collect());
        }
        let fails = |column: usize| {
            let [from, until] = [column, column + 1].map(|column| column as f64 / width as f64);
            let touches =
                |[start, end]: &[Timestamp; 2]| self.place(*start) < until && from < self.place(*end);
            self.outages.iter().any(touches)
        };
        line(SESSION, (0..width).map(|column| if fails(column) { '✗' } else { '─' }).collect());
        let uses = Use::ALL.map(|(used, words)| format!("{} {words}", used.letter()));
        let words = format!("{}, ─ works, ✗ may not work; the axis is not to scale", uses.join(", "));
        text + &words + "\n"
    }

    /// The dates that fit, and a tick for each moment.
    fn axis(&self, width: usize) -> [String; 2] {
        let (mut labels, mut ticks) = (vec![' '; width], vec![' '; width]);
        let mut free_from = 0;
        for (moment, place) in &self.moments {
            let column = ((place * width as f64) as usize).min(width - 1);
            ticks[column] = '╷';
            // The last ones end where the axis does.
            let start = column.min(width.saturating_sub(LABEL));
            if start >= free_from {
                let label = moment.to_string().replace('T', " ");
                labels
                    .iter_mut()
                    .skip(start)
                    .zip(label.chars().take(LABEL))
                    .for_each(|(cell, letter)| *cell = letter);
                free_from = start + LABEL + 1;
            }
        }
        [labels, ticks].map(|cells| cells.into_iter().collect())
    }
}

/// Where each of at least two moments is.
fn places(moments: &BTreeSet<Timestamp>) -> Vec<(Timestamp, f64)> {
    let mut places = Vec::with_capacity(moments.len());
    let mut place = 0.0;
    for moment in moments {
        if let Some((before, _)) = places.last() {
            place += (1.0 + seconds(*before, *moment) / 60.0).ln();
        }
        places.push((*moment, place));
    }
    let whole = place.max(f64::MIN_POSITIVE);
    places.into_iter().map(|(moment, place)| (moment, place / whole)).collect()
}

fn seconds(from: Timestamp, until: Timestamp) -> f64 {
    (until.unix_seconds() - from.unix_seconds()) as f64
}
