//! The rows that have a goal: our time to the best of the peers, and how much of it we may take.

pub(crate) mod mac;
mod quic;

use crate::table::{Cell, Table};
use crate::timing::{Effort, Timed, alternate};

/// The libraries that have a column.
const PEERS: [&str; 6] = ["ring", "aws-lc-rs", "rustcrypto", "boringssl", "openssl", "nettle"];

/// One thing that several libraries do.
pub(crate) struct Row {
    /// The word that picks it on the command line.
    pub(crate) name: &'static str,
    title: &'static str,
    /// The most of the best peer's time that we may take.
    goal: f64,
    /// Packets, segments or masks of one run.
    of: usize,
    /// Ours first, outputs compared.
    contenders: fn() -> Vec<Timed<'static>>,
}

/// Every row, in the order in which they are printed.
pub(crate) fn all() -> Vec<Row> {
    quic::rows().into_iter().chain(mac::rows()).collect()
}

/// Times the rows.
pub(crate) fn table(rows: &[Row], effort: Effort) -> Table {
    let columns = ["row", "name", "wireseal"].into_iter().chain(PEERS);
    let columns = columns.chain(["best peer", "ratio", "goal", "mark"]);
    let mut table =
        Table::new("rows", "Held to: nanoseconds each, and ours to the best of the peers", columns);
    let (mut held, mut missed) = (0, Vec::new());
    for row in rows {
        let mut timed = (row.contenders)();
        let times = alternate(effort, &mut timed);
        let mut times = times.iter().map(|time| time / row.of as f64);
        let ours = times.next().unwrap_or(f64::NAN);
        let peers: Vec<(&str, f64)> = timed[1..].iter().map(|timed| timed.name).zip(times).collect();
        let best = peers.iter().copied().min_by(|(_, a), (_, b)| a.total_cmp(b));
        let (best, time) = best.unwrap_or(("-", f64::NAN));
        let ratio = ours / time;
        if ratio <= row.goal {
            held += 1;
        } else {
            missed.push(row.name);
        }
        let mut cells = vec![Cell::text(row.title), Cell::text(row.name), Cell::ns(ours)];
        cells.extend(PEERS.iter().map(|peer| {
            let found = peers.iter().find(|(name, _)| name == peer);
            Cell::or_none(found, |(_, time)| Cell::ns(*time))
        }));
        cells.extend([
            Cell::text(best),
            Cell::Number(ratio, 3, ""),
            Cell::ratio(row.goal),
            effort.mark(ratio <= row.goal),
        ]);
        table.rows.push(cells);
    }
    let missed = if missed.is_empty() { "none".to_owned() } else { missed.join(", ") };
    table.reading = format!(
        "Lower is better: {held} of {} rows are held, and missed {missed}. The best peer is the fastest that this build has.",
        rows.len()
    );
    table
}
