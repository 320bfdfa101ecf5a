//! The report for people.

use std::io::{self, Write};

use super::report::{ConnectionReport, DirectionReport, NotOpened, PacketKind, PhaseReport, Side, Totals};
use crate::hex::Hex;
use crate::standing::Standing;
use crate::text::counted;

/// How many key phases of a direction are written.
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
        write!(output, " (began with {})", report.first_version)?;
    }
    match report.suite {
        Some(suite) => write!(output, ", {}", suite.name())?,
        None => write!(output, ", cipher suite not seen")?,
    }
    if let Some(suite) = report.early_suite.filter(|early| report.suite != Some(*early)) {
        write!(output, ", 0-RTT {}", suite.name())?;
    }
    if report.version_negotiations != 0 {
        write!(output, ", {}", counted(report.version_negotiations, "Version Negotiation packet"))?;
    }
    writeln!(output)?;
    if let Some(random) = &report.client_random {
        writeln!(output, "  client random {}", Hex(random))?;
    }

    write!(output, "  opened")?;
    for kind in PacketKind::ALL {
        write!(output, "{:>10}", kind.name())?;
    }
    writeln!(output, "{:>12}", "not opened")?;
    for side in Side::BOTH {
        let direction = &report.directions[side as usize];
        write!(output, "  {}", side.name())?;
        for count in direction.opened {
            write!(output, "{count:>10}")?;
        }
        let not_opened: u64 = direction.not_opened.iter().map(|not_opened| not_opened.packets).sum();
        writeln!(output, "{not_opened:>12}")?;
    }
    for side in Side::BOTH {
        let direction = &report.directions[side as usize];
        about_direction(output, side.name(), direction)?;
        // A client uses its own choice and then the server's, and a Retry's in between if there is one.
        let retries = report.directions[Side::Server as usize].opened[PacketKind::Retry as usize];
        let usual = if side == Side::Client { 2 + retries.min(1) } else { 1 };
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
        writeln!(output, "  {sender} cleared the fixed bit of {}", counted(*greased, "packet"))?;
    }
    if *resets != 0 {
        writeln!(output, "  {sender} sent {}", counted(*resets, "stateless reset"))?;
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
    for (count, what, before, after) in [
        (totals.retries, "Retry packet", "", ""),
        (totals.version_negotiations, "Version Negotiation packet", "", ""),
        (totals.resets, "stateless reset", "", ""),
        (totals.other_datagrams, "other UDP datagram", "", ""),
        (totals.other, "other packet", "", ""),
        (
            totals.of_no_connection,
            "datagram",
            "not judged: ",
            " of no connection that begins in this capture",
        ),
        (totals.unknown_version, "datagram", "not judged: ", " of an unknown QUIC version"),
        (totals.fragments, "IP fragment", "not judged: ", " of UDP datagrams"),
        (totals.unreadable, "packet", "not judged: ", " with unreadable headers"),
    ] {
        if count != 0 {
            writeln!(output, "{before}{}{after}", counted(count, what))?;
        }
    }
    if let Some(damage) = &totals.damage {
        writeln!(output, "{damage}")?;
    }
    write!(output, "{} of {}: ", counted(opened, "packet"), counted(connections, "connection"))?;
    match totals.standing() {
        Standing::Failed | Standing::NotOpen => {
            writeln!(output, "opened; {failed} failed, {not_judged} could not be judged")
        }
        Standing::NotJudged if connections == 0 => {
            writeln!(output, "no QUIC connection begins in this capture")
        }
        Standing::NotJudged if not_judged == 0 => {
            writeln!(output, "opened; not all of the capture could be judged")
        }
        Standing::NotJudged => writeln!(output, "opened; {not_judged} could not be judged"),
        Standing::Good | Standing::Empty => writeln!(output, "everything opened"),
    }
}
