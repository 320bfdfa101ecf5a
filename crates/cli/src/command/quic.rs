//! `wireseal quic`: opens every QUIC packet of a capture.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::capture::CaptureRun;
use super::outcome::Result;
use super::say::{say, warn};
use crate::keys::{permissions, read_wiped};
use crate::quic::{KeyLogFile, Observer, Printer};
use crate::standing::Standing;

/// Open every QUIC packet of a capture, and say why packets do not open.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The capture: pcap or pcapng, plain or compressed with gzip or zstd; - for standard input
    capture: PathBuf,
    /// The connections' secrets, in the format of SSLKEYLOGFILE; without them only Initial packets open
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// Report as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result {
    let Arguments { capture, keylog, json } = arguments;
    let log = keylog.as_deref().map(read_key_log).transpose()?.unwrap_or_default();
    let run = CaptureRun::open(&capture)?;
    let mut printer = Printer::new(run.bar.output(json), json, &capture.display().to_string())?;
    let mut observer = Observer::new(&log);
    let damage = run.packets(|packet| {
        let Some(packet) = packet else { return Ok(()) };
        observer.packet(packet);
        observer.take_finished().try_for_each(|connection| printer.connection(&connection))
    })?;
    let (connections, mut totals) = observer.finish();
    for connection in &connections {
        printer.connection(connection)?;
    }
    totals.damage = damage;
    printer.finish(&totals)?;
    if keylog.is_none() && totals.standing() != Standing::Good {
        say("without --keylog only Initial and Retry packets can be opened");
    }
    Ok(totals.standing().into())
}

fn read_key_log(path: &Path) -> std::result::Result<KeyLogFile, String> {
    let named = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(named)?;
    let metadata = file.metadata().map_err(named)?;
    if let Some(warning) = permissions::warning(path, &metadata) {
        warn(warning);
    }
    let log = KeyLogFile::read(&read_wiped(&mut file, metadata.len(), usize::MAX).map_err(named)?);
    if let [first, rest @ ..] = log.unreadable_lines() {
        let others = match rest.len() {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        warn(format_args!("{}: line {first}{others} cannot be read", path.display()));
    }
    if log.connections() == 0 {
        warn(format_args!("{}: it has no secrets of QUIC connections", path.display()));
    }
    Ok(log)
}
