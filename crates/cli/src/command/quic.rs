//! `wireseal quic`: opens every QUIC packet of a capture.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::progress::{Bar, PROGRESS_INTERVAL};
use super::{Outcome, Result};
use crate::capture::CaptureError;
use crate::keys::permissions;
use crate::quic::{Format, KeyLog, Observer, Printer, Standing};

/// Open every QUIC packet of a capture, and say why those do not open that stay shut.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The capture: pcap or pcapng, plain or compressed by gzip or zstd; - is standard input
    capture: PathBuf,
    /// The secrets of the connections, as their programs write them where SSLKEYLOGFILE says; without it, only Initial
    /// packets open
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// Report as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result {
    let Arguments { capture, keylog, json } = arguments;
    let log = keylog.as_deref().map(read_key_log).transpose()?.unwrap_or_default();
    let mut reader = super::open(&capture)?;
    let bar = Bar::new();
    let format = if json { Format::Json } else { Format::Text };
    let mut printer = Printer::new(bar.output(), format, &capture.display().to_string())?;
    let mut observer = Observer::new(&log);
    let mut damage = None;
    for count in 1_u64.. {
        let Some(packet) = reader.next_packet() else { break };
        match packet {
            Ok(packet) => observer.packet(&packet),
            Err(error @ CaptureError::Damaged { .. }) => damage = Some(error.to_string()),
            Err(error) => return Err(error.into()),
        }
        for connection in observer.take_finished() {
            printer.connection(&connection)?;
        }
        if count.is_multiple_of(PROGRESS_INTERVAL) {
            bar.show(reader.progress());
        }
    }
    bar.clear();
    let (connections, mut totals) = observer.finish();
    for connection in &connections {
        printer.connection(connection)?;
    }
    totals.damage = damage;
    printer.finish(&totals)?;
    if keylog.is_none() && totals.standing() != Standing::Good {
        super::say("without --keylog nothing but Initial and Retry packets can be opened");
    }
    Ok(match totals.standing() {
        Standing::Good => Outcome::Good,
        Standing::Failed => Outcome::Failed,
        Standing::NotJudged => Outcome::NotJudged,
    })
}

fn read_key_log(path: &Path) -> std::result::Result<KeyLog, String> {
    let refuse = |error: io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(refuse)?;
    if let Some(warning) = permissions::warning(path, &file.metadata().map_err(refuse)?) {
        super::say(format_args!("warning: {warning}"));
    }
    let log = KeyLog::read(WipedReader::new(file)).map_err(refuse)?;
    if let [first, rest @ ..] = log.unreadable_lines() {
        let others = match rest.len() {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        super::say(format_args!("warning: {}: line {first}{others} cannot be read", path.display()));
    }
    if log.connections() == 0 {
        super::say(format_args!("warning: {}: it has no secret of a QUIC connection", path.display()));
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
