//! `wireseal quic`: opens every QUIC packet of a capture.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::capture::CaptureRun;
use super::outcome::Result;
use super::say::{say, warn};
use crate::keys::permissions;
use crate::quic::{Format, KeyLogFile, Observer, Printer};
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
    let format = if json { Format::Json } else { Format::Text };
    let mut printer = Printer::new(run.bar.output(), format, &capture.display().to_string())?;
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
    let file = File::open(path).map_err(named)?;
    if let Some(warning) = permissions::warning(path, &file.metadata().map_err(named)?) {
        warn(warning);
    }
    let log = KeyLogFile::read(WipedReader::new(file)).map_err(named)?;
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

/// A buffered reader that leaves no secrets in memory.
struct WipedReader {
    file: File,
    octets: Zeroizing<Vec<u8>>,
    start: usize,
    end: usize,
}

impl WipedReader {
    fn new(file: File) -> Self {
        Self { file, octets: Zeroizing::new(vec![0; 1 << 16]), start: 0, end: 0 }
    }
}

impl Read for WipedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for WipedReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, self.file.read(&mut self.octets)?);
        }
        Ok(&self.octets[self.start..self.end])
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
    }
}
