//! `wireseal verify`: checks every TCP segment of a capture.

use std::cell::RefCell;
use std::io::{self, BufWriter, IsTerminal, LineWriter, StdoutLock, Write};
use std::path::PathBuf;

use cidr::{IpCidr, IpInet};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::annotate::Annotations;
use super::key_arguments::KeyArguments;
use super::outcome::{Outcome, Result};
use super::verify_live::{self, LiveArguments, Wanted};
use crate::capture::{CaptureError, Progress, Reader};
use crate::output;
use crate::report::{self, Format, Report, Subject};
use crate::terminal::Wrapped;
use crate::verify::report::Standing;
use crate::verify::{IsnHint, NatHint, Verifier, VerifyEvent, VerifyOptions};

/// Check every TCP segment of a capture, or of an interface, against keys, and say why segments fail
///
/// Exit codes: 0 all segments are good, 1 one failed or a connection did not open, 2 the command line, the keys or the file cannot be used, 3
/// none of these, but something could not be judged.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The capture: pcap or pcapng, plain or compressed with gzip or zstd; - for standard input
    capture: Option<PathBuf>,
    #[command(flatten)]
    live: LiveArguments,
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
    /// List every connection as soon as it is over, even if there are many
    #[arg(long)]
    all: bool,
    /// Report as one JSON object
    #[arg(long, conflicts_with = "all")]
    json: bool,
    /// Report as JSON, an object on each line, as soon as it is known
    #[arg(long, conflicts_with_all = ["all", "json"])]
    json_lines: bool,
    /// Also write an HTML page with a timeline of each connection
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write the capture again as pcapng, with verdict and reason as a comment on each packet
    #[arg(long, value_name = "FILE", conflicts_with = "interfaces")]
    annotate: Option<PathBuf>,
}

/// Reads a prefix.
pub(super) fn prefix(text: &str) -> std::result::Result<IpCidr, String> {
    text.parse().map_err(|_| match text.parse::<IpInet>() {
        Ok(inet) => format!("write {} for the network, or {} for the host", inet.network(), inet.address()),
        Err(_) => "expected an address or a prefix, such as 192.0.2.1 or 2001:db8::/32".to_owned(),
    })
}

pub(super) fn run(arguments: Arguments) -> Result {
    let Arguments {
        capture,
        live,
        keys,
        peers,
        ports,
        isns,
        nat,
        segments,
        all,
        json,
        json_lines,
        html,
        annotate,
    } = arguments;
    let is_live = !live.interfaces.is_empty();
    match &capture {
        Some(capture) if is_live => {
            return Err(format!("give the capture {} or an interface, not both", capture.display()).into());
        }
        None if !is_live => {
            live.check_without_interface()?;
            return Err("no packets: give a capture, - for standard input, or an interface with -i".into());
        }
        Some(capture) => {
            live.check_without_interface()?;
            keys.check_input("capture", capture)?;
        }
        None => {}
    }
    let outputs = [("--write", &live.write), ("--html", &html), ("--annotate", &annotate)]
        .map(|(option, path)| (option, path.as_deref()));
    for (option, path) in outputs {
        path.map_or(Ok(()), |path| keys.check_output(option, path))?;
    }
    output::check(&outputs, capture.as_deref())?;
    let keys = keys.keys()?;
    let keep_segments = html.is_some();
    let options = VerifyOptions { peers, ports, isns, nat, keep_segments, ..VerifyOptions::default() };
    let format = match (json, json_lines) {
        (true, _) if is_live => Format::JsonLines { segments },
        (true, _) => Format::Json { segments },
        (_, true) => Format::JsonLines { segments },
        // A connection follows its segments.
        _ => Format::Text { colours: report::colours_wanted(), all: all || segments },
    };
    let wanted = Wanted { keys: &keys, options, format, segments, html: html.as_deref() };
    let Some(capture) = capture else { return verify_live::run(live, wanted) };
    let name = capture.display().to_string();
    let in_words = |error| match error {
        CaptureError::Open { .. } => error.to_string(),
        error => format!("{name}: {error}"),
    };
    let (reader, mut annotations) = match &annotate {
        None => (Reader::open(&capture).map_err(in_words)?, None),
        Some(path) => {
            let (reader, annotations) = Annotations::open(&capture, path, &keys)?;
            (reader.map_err(in_words)?, Some(annotations))
        }
    };
    if annotations.is_none() && verify_live::can_follow(&capture, &wanted) {
        return verify_live::follow(reader, wanted);
    }
    let Wanted { options, .. } = wanted;
    let bar = Bar::new();
    let subject = Subject { capture: &name, keys: &keys };
    let mut report = Report::new(bar.output(json || json_lines), format, subject)?;
    if let Some(path) = &html {
        report = report.with_page(path, subject)?;
    }
    let mut verifier = Verifier::new(&keys, options);
    let report = RefCell::new(report);
    let mut each = |found: VerifyEvent<'_>| match found {
        VerifyEvent::Segment { connection, ends, segment } => {
            annotations.as_mut().map_or(Ok(()), |annotations| annotations.segment(connection, &segment))?;
            if segments { report.borrow_mut().segment(connection, ends, &segment) } else { Ok(()) }
        }
        VerifyEvent::Connection(connection) => {
            annotations.as_mut().map_or(Ok(()), |annotations| annotations.connection(&connection))?;
            report.borrow_mut().connection(&connection)
        }
    };
    let between = |progress, is_pause| {
        bar.show(progress);
        if is_pause { report.borrow_mut().flush() } else { Ok(()) }
    };
    let damage = verifier.capture(reader, &mut each, between)?;
    bar.clear();
    let end = damage.as_ref().and_then(CaptureError::offset);
    let totals = verifier.finish(damage.map(|damage| damage.to_string()), &mut each)?;
    let report = report.into_inner();
    let standing = report.standing();
    // Both before the first error: neither is lost because the other cannot be written.
    let annotated = annotations.map(|annotations| annotations.write(&report.in_short(&totals), &totals, end));
    report.finish(&totals)?;
    annotated.transpose()?;
    Ok(match standing {
        Standing::Good if totals.is_incomplete() => Outcome::NotJudged,
        standing => standing.into(),
    })
}

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
