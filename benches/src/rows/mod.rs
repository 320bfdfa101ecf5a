//! The rows that have a goal: how much of the best peer's time we may take.

pub(crate) mod mac;
mod quic;
mod row;

use row::{PEERS, Row};

use crate::table::{Cell, Table};
use crate::timing::{Effort, alternate};

/// Every row, in the order of printing.
pub(crate) fn all() -> Vec<Row> {
    quic::rows().into_iter().chain(mac::rows()).collect()
}

/// Times the rows.
pub(crate) fn table(rows: &[Row], effort: Effort) -> Table {
    let columns = ["row", "name", "wireseal"].into_iter().chain(PEERS);
    let columns = columns.chain(["best peer", "ratio", "goal", "mark"]);
    let mut table = Table::new(
        "rows",
        "Goals: nanoseconds each, and Wireseal's time divided by the best peer's",
        columns,
    );
    let (mut held, mut missed, mut open) = (0, Vec::new(), 0);
    let mut all_absent: Vec<&str> = Vec::new();
    for row in rows {
        let mut timed = (row.contenders)();
        let times = alternate(effort, &mut timed);
        let mut times = times.iter().map(|time| time / row.of as f64);
        let ours = times.next().unwrap_or(f64::NAN);
        let peers: Vec<(&str, f64)> = timed[1..].iter().map(|timed| timed.name).zip(times).collect();
        let time_of = |peer: &str| peers.iter().find(|(name, _)| *name == peer);
        let best = peers.iter().copied().min_by(|(_, a), (_, b)| a.total_cmp(b));
        let (best, time) = best.unwrap_or(("-", f64::NAN));
        let ratio = ours / time;
        let mut absent = row.peers.iter().copied().filter(|peer| time_of(peer).is_none()).peekable();
        let is_held = absent.peek().is_none().then_some(ratio <= row.goal);
        match is_held {
            Some(true) => held += 1,
            Some(false) => missed.push(row.name),
            None => open += 1,
        }
        for peer in absent {
            if !all_absent.contains(&peer) {
                all_absent.push(peer);
            }
        }
        let mut cells = vec![Cell::text(&*row.title), Cell::text(row.name), Cell::ns(ours)];
        cells.extend(PEERS.iter().map(|peer| Cell::or_none(time_of(peer), |(_, time)| Cell::ns(*time))));
        cells.extend([
            Cell::text(best),
            Cell::Number(ratio, 3, ""),
            Cell::ratio(row.goal),
            Cell::or_none(is_held, |is_held| effort.mark(is_held)),
        ]);
        table.rows.push(cells);
    }
    let missed = if missed.is_empty() { "none".to_owned() } else { missed.join(", ") };
    table.reading = format!(
        "Lower is better. {held} of {} goals are met; missed: {missed}. The best peer is the fastest in this build.",
        rows.len()
    );
    if open > 0 {
        table.reading += &format!(
            " {open} could not be judged: {} are not here (the feature `peers` adds AWS-LC, BoringSSL, OpenSSL and nettle; OpenSSL's \
             library must be on the machine too).",
            all_absent.join(", ")
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::timing::Timed;

    fn mark(peers: &'static [&'static str], goal: f64) -> (Cell, String) {
        let contenders = || {
            let slow = || std::thread::sleep(Duration::from_millis(1));
            vec![Timed::new("wireseal", || std::thread::sleep(Duration::ZERO)), Timed::new("ring", slow)]
        };
        let title = "A row".to_owned();
        let row = Row { name: "row", title, peers, goal, of: 1, contenders: Box::new(contenders) };
        let mut table = table(&[row], Effort::For(Duration::from_millis(1)));
        (table.rows[0].pop().expect("a mark"), table.reading)
    }

    #[test]
    fn a_goal_is_judged_if_all_its_peers_are_there() {
        let (held, reading) = mark(&["ring"], 0.9);
        assert!(matches!(held, Cell::Held(true)) && reading.contains("1 of 1 goals are met"));
        let (missed, reading) = mark(&["ring"], 0.0);
        assert!(matches!(missed, Cell::Held(false)) && reading.contains("missed: row"));
    }

    #[test]
    fn a_goal_with_an_absent_peer_is_neither_met_nor_missed() {
        for goal in [0.0, 0.9] {
            let (mark, reading) = mark(&["ring", "nettle"], goal);
            assert!(matches!(mark, Cell::None));
            assert!(reading.contains("0 of 1 goals are met; missed: none"));
            assert!(reading.contains("1 could not be judged") && reading.contains("nettle are not here"));
        }
    }
}
