//! The report for people.

use std::fmt;
use std::io::{self, Write};

use super::report::{
    ConnectionReport, DirectionReport, Kind, NotOpened, PhaseReport, Side, Standing, Totals,
};
use crate::hex::Hex;

/// Phases that are written of a direction; of many updates, more would hide the rest.
const MOST_PHASES: usize = 8;

pub(super) fn connection(output: &mut impl Write, report: &ConnectionReport) -> io::Result<()> {
    let ConnectionReport { number, paths, first, last, .. } = report;
    write!(output, "connection {number}")?;
    for (place, path) in paths.iter().enumerate() {
        let [client, server] = path.ends;
        match place {
            0 => writeln!(output, "  {client} -> {server}")?,
            _ => writeln!(output, "  moved to {client} -> {server} in packet {}", path.first.packet)?,
        }
    }
    write!(output, "  packets {} to {}", first.packet, last.packet)?;
    if let (Some(first), Some(last)) = (first.time, last.time) {
        let nanoseconds = last.unix_nanoseconds().saturating_sub(first.unix_nanoseconds());
        let milliseconds = nanoseconds / 1_000_000;
        write!(output, ", from {first} for {}.{:03} s", milliseconds / 1000, milliseconds % 1000)?;
    }
    writeln!(output, "{}", if report.is_closed { ", closed" } else { "" })?;

    write!(output, "  {}", report.version)?;
    if report.first_version != report.version {
        write!(output, " (begun with {})", report.first_version)?;
    }
    match report.suite {
        Some(suite) => write!(output, ", {}", suite.name())?,
        None => write!(output, ", cipher suite not seen")?,
    }
    if let Some(suite) = report.early_suite.filter(|early| report.suite != Some(*early)) {
        write!(output, ", 0-RTT {}", suite.name())?;
    }
    if report.version_negotiations != 0 {
        write!(output, ", {}", Count(report.version_negotiations, "Version Negotiation packet"))?;
    }
    writeln!(output)?;
    if let Some(random) = &report.client_random {
        writeln!(output, "  client random {}", Hex(random))?;
    }

    write!(output, "  opened")?;
    for kind in Kind::ALL {
        write!(output, "{:>10}", kind.name())?;
    }
    writeln!(output, "{:>12}", "not opened")?;
    for side in Side::BOTH {
        let direction = &report.directions[side as usize];
        write!(output, "  {}", side.name())?;
        for kind in Kind::ALL {
            write!(output, "{:>10}", direction.opened[kind as usize])?;
        }
        let not_opened: u64 = direction.not_opened.iter().map(|not_opened| not_opened.packets).sum();
        writeln!(output, "{not_opened:>12}")?;
    }
    for side in Side::BOTH {
        let direction = &report.directions[side as usize];
        about_direction(output, side.name(), direction)?;
        // Every client goes from its own choice to the server's, by way of a Retry's if there is one.
        let usual = match side {
            Side::Client => 2 + report.directions[Side::Server as usize].opened[Kind::Retry as usize].min(1),
            Side::Server => 1,
        };
        if direction.connection_ids > usual {
            writeln!(output, "  {}: {} destination connection IDs", side.name(), direction.connection_ids)?;
        }
    }
    writeln!(output)
}

fn about_direction(output: &mut impl Write, sender: &str, report: &DirectionReport) -> io::Result<()> {
    let DirectionReport { phases, not_opened, greased, resets, .. } = report;
    if !phases.is_empty() {
        write!(output, "  {sender}'s key phases")?;
        for (place, phase) in phases.iter().take(MOST_PHASES).enumerate() {
            let PhaseReport { generation, first_number, first, .. } = phase;
            let comma = if place == 0 { "" } else { "," };
            write!(output, "{comma} {generation} from number {first_number} (packet {})", first.packet)?;
        }
        match phases.len().saturating_sub(MOST_PHASES) {
            0 => writeln!(output)?,
            more => writeln!(output, ", and {more} more")?,
        }
    }
    if *greased != 0 {
        writeln!(output, "  {sender} cleared the fixed bit of {}", Count(*greased, "packet"))?;
    }
    if *resets != 0 {
        writeln!(output, "  {sender} sent {}", Count(*resets, "stateless reset"))?;
    }
    for NotOpened { kind, reason, first, packets } in not_opened {
        let kind = kind.map_or(String::new(), |kind| format!("{} ", kind.name()));
        let (packet, sentence) = (first.packet, reason.sentence());
        writeln!(
            output,
            "  {sender}: {kind}packets not opened: {packets}, from packet {packet} on: {sentence}"
        )?;
    }
    Ok(())
}

pub(super) fn totals(output: &mut impl Write, totals: &Totals) -> io::Result<()> {
    let Totals { opened, connections, failed, not_judged, .. } = *totals;
    for (count, what) in [
        (totals.retries, "Retry packet"),
        (totals.version_negotiations, "Version Negotiation packet"),
        (totals.resets, "stateless reset"),
        (totals.other_datagrams, "other UDP datagram"),
        (totals.other, "other packet"),
    ] {
        if count != 0 {
            writeln!(output, "{}", Count(count, what))?;
        }
    }
    for (count, what, why) in [
        (totals.of_no_connection, "datagram", "of no connection that begins in this capture"),
        (totals.unknown_version, "datagram", "of a QUIC version that is not known here"),
        (totals.fragments, "fragment", "of UDP datagrams, not put together"),
        (totals.unreadable, "packet", "whose headers cannot be read"),
    ] {
        if count != 0 {
            writeln!(output, "not judged: {} {why}", Count(count, what))?;
        }
    }
    if let Some(damage) = &totals.damage {
        writeln!(output, "{damage}")?;
    }
    write!(output, "{} of {}: ", Count(opened, "packet"), Count(connections, "connection"))?;
    match totals.standing() {
        Standing::Good => writeln!(output, "everything opened"),
        Standing::Failed => writeln!(output, "opened; {failed} failed, {not_judged} could not be judged"),
        Standing::NotJudged if connections == 0 => {
            writeln!(output, "no QUIC connection begins in this capture")
        }
        Standing::NotJudged if not_judged == 0 => {
            writeln!(output, "opened; not all of the capture could be judged")
        }
        Standing::NotJudged => writeln!(output, "opened; {not_judged} could not be judged"),
    }
}

/// So many of something.
struct Count(u64, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}
