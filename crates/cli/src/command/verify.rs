//! `wireseal verify`: checks every TCP segment of a capture.

use std::io::{self, BufWriter, IsTerminal, LineWriter, StdoutLock, Write};
use std::path::PathBuf;

use cidr::{IpCidr, IpInet};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::key_arguments::KeyArguments;
use super::outcome::{Outcome, Result};
use crate::capture::{CaptureError, Progress, Reader};
use crate::report::{self, Format, Report, Subject};
use crate::terminal::Wrapped;
use crate::verify::report::Standing;
use crate::verify::{IsnHint, NatHint, Verifier, VerifyEvent, VerifyOptions};

/// Check every TCP segment of a capture against keys, and say why segments fail.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The capture: pcap or pcapng, plain or compressed with gzip or zstd; - for standard input
    capture: PathBuf,
    #[command(flatten)]
    keys: KeyArguments,
    /// Only connections with this peer: an address or a prefix [repeatable]
    #[arg(long = "peer", value_name = "PREFIX", value_parser = prefix)]
    peers: Vec<IpCidr>,
    /// Only connections with this port at either end [repeatable]
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<u16>,
    /// The ISNs of a connection that began before the capture, in the order of its ends, such as
    /// 192.0.2.1:50000-192.0.2.2:179=1000,0x9000 [repeatable]
    #[arg(long = "isn", value_name = "FLOW=ISN,ISN")]
    isns: Vec<IsnHint>,
    /// An address, or address and port, before and after a NAT, such as
    /// 10.0.0.1=198.51.100.1 [repeatable]
    #[arg(long = "nat", value_name = "INSIDE=OUTSIDE")]
    nat: Vec<NatHint>,
    /// Report every single segment
    #[arg(long)]
    segments: bool,
    /// Report as one JSON object
    #[arg(long)]
    json: bool,
    /// Also write an HTML page with a timeline of each connection
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn prefix(text: &str) -> std::result::Result<IpCidr, String> {
    text.parse().map_err(|_| match text.parse::<IpInet>() {
        Ok(inet) => format!("write {} for the network, or {} for the host", inet.network(), inet.address()),
        Err(_) => "expected an address or a prefix, such as 192.0.2.1 or 2001:db8::/32".to_owned(),
    })
}

pub(super) fn run(arguments: Arguments) -> Result {
    let Arguments { capture, keys, peers, ports, isns, nat, segments, json, html } = arguments;
    keys.check_input("capture", &capture)?;
    let keys = keys.keys()?;
    let name = capture.display().to_string();
    let mut reader = Reader::open(&capture).map_err(|error| match error {
        CaptureError::Open { .. } => error.to_string(),
        error => format!("{name}: {error}"),
    })?;
    let bar = Bar::new();
    let subject = Subject { capture: &name, keys: &keys };
    let format = match json {
        true => Format::Json { segments },
        false => Format::Text { colours: report::colours_wanted() },
    };
    let mut report = Report::new(bar.output(json), format, subject)?;
    let keep_segments = html.is_some();
    if let Some(path) = &html {
        report = report.with_page(path, subject)?;
    }
    let options = VerifyOptions { peers, ports, isns, nat, keep_segments, ..VerifyOptions::default() };
    let mut verifier = Verifier::new(&keys, options);
    let mut each = |found: VerifyEvent<'_>| match found {
        VerifyEvent::Segment { connection, ends, segment } if segments => {
            report.segment(connection, ends, &segment)
        }
        VerifyEvent::Segment { .. } => Ok(()),
        VerifyEvent::Connection(connection) => report.connection(&connection),
    };
    let damage = loop {
        match reader.next_packet() {
            None => break None,
            Some(Ok(packet)) => {
                let number = packet.number;
                verifier.packet(&packet, &mut each)?;
                // The next packet may take a while to arrive.
                if !reader.is_ahead() {
                    verifier.judge_queued(&mut each)?;
                }
                if number.is_multiple_of(PROGRESS_INTERVAL) {
                    bar.show(reader.progress());
                }
            }
            Some(Err(error @ CaptureError::Damaged { .. })) => break Some(error.to_string()),
            Some(Err(error)) => return Err(error.into()),
        }
    };
    bar.clear();
    let totals = verifier.finish(damage, &mut each)?;
    let standing = report.standing();
    report.finish(&totals)?;
    Ok(match standing {
        Standing::Good if totals.is_incomplete() => Outcome::NotJudged,
        standing => standing.into(),
    })
}

/// After how many packets the bar is redrawn.
const PROGRESS_INTERVAL: u64 = 16_384;

/// A progress bar on standard error, if that is a terminal.
struct Bar(Option<ProgressBar>);

impl Bar {
    pub(super) fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = "{bar:40} {percent:>3} %  {bytes} of {total_bytes}, {eta} left";
        Self(ProgressStyle::with_template(style).ok().map(|style| bar.with_style(style)))
    }

    /// Shows how far the capture was read.
    pub(super) fn show(&self, progress: Progress) {
        let Some(bar) = &self.0 else { return };
        if let Some(total) = progress.total {
            bar.set_length(total);
        }
        bar.set_position(progress.read);
    }

    /// Removes the bar from the terminal.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }

    /// Standard output, for JSON or for lines that fit the terminal. If it is a terminal too, the bar makes way for each line of the
    /// report.
    pub(super) fn output(&self, is_json: bool) -> Box<dyn Write> {
        let output = io::stdout().lock();
        let output: Box<dyn Write> = match &self.0 {
            Some(bar) if output.is_terminal() => {
                Box::new(LineWriter::new(BesideBar { output, bar: bar.clone() }))
            }
            _ => Box::new(BufWriter::with_capacity(1 << 16, output)),
        };
        if is_json { output } else { Box::new(Wrapped::new(output)) }
    }
}

struct BesideBar {
    output: StdoutLock<'static>,
    bar: ProgressBar,
}

impl Write for BesideBar {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let Self { output, bar } = self;
        bar.suspend(|| output.write(octets))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
