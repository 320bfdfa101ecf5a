//! `wireseal verify`: checks every TCP segment of a capture.

use std::io::Write;
use std::path::PathBuf;

use cidr::IpCidr;

use super::key_arguments::KeyArguments;
use super::progress::{Bar, PROGRESS_INTERVAL};
use super::{Outcome, Result};
use crate::capture::{CaptureError, Reader};
use crate::report::{self, Format, Report, Standing, Subject};
use crate::verify::report::Totals;
use crate::verify::{IsnHint, NatHint, Options, Verifier};

/// Check every TCP segment of a capture against keys, and say why those fail that do.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The capture: pcap or pcapng, plain or compressed by gzip or zstd; - is standard input
    capture: PathBuf,
    #[command(flatten)]
    keys: KeyArguments,
    /// Look at connections with this peer only: an address or a prefix; may be given several times
    #[arg(long = "peer", value_name = "PREFIX")]
    peers: Vec<IpCidr>,
    /// Look at connections with this port at either end only; may be given several times
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<u16>,
    /// The ISNs of a connection that began before the capture, in the order of its ends, such as
    /// 192.0.2.1:50000-192.0.2.2:179=1000,0x9000; may be given several times
    #[arg(long = "isn", value_name = "FLOW=ISN,ISN")]
    isns: Vec<IsnHint>,
    /// An address, or address and port, that is another on the other side of a translation, such as
    /// 10.0.0.1=198.51.100.1; may be given several times
    #[arg(long = "nat", value_name = "INSIDE=OUTSIDE")]
    nat: Vec<NatHint>,
    /// Report every single segment
    #[arg(long)]
    segments: bool,
    /// Report as one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page with a timeline of each connection as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> Result {
    let Arguments { capture, keys, peers, ports, isns, nat, segments, json, html } = arguments;
    keys.check_capture(&capture)?;
    let keys = keys.keys()?;
    let mut reader = super::open(&capture)?;
    let name = capture.display().to_string();
    let subject = Subject { capture: &name, keys: &keys };
    let format = match json {
        true => Format::Json { segments },
        false => Format::Text { colours: report::colours_wanted() },
    };
    let bar = Bar::new();
    let mut report = Report::new(bar.output(), format, subject)?;
    let keep_segments = html.is_some();
    if let Some(path) = &html {
        report = report.with_page(path, subject)?;
    }
    let mut verifier = Verifier::new(&keys, Options { peers, ports, isns, nat, keep_segments });
    let damage = verify(&mut reader, &mut verifier, &mut report, segments, &bar)?;
    bar.clear();
    let (rest, totals) = verifier.finish(damage);
    for connection in rest {
        report.connection(&connection)?;
    }
    report.finish(&totals)?;
    Ok(outcome(&totals))
}

/// Judges packet by packet, and reports connections as soon as they are over. Gives how the file broke off, if it did.
fn verify<W: Write>(
    reader: &mut Reader,
    verifier: &mut Verifier<'_>,
    report: &mut Report<'_, W>,
    segments: bool,
    bar: &Bar,
) -> std::result::Result<Option<String>, Box<dyn std::error::Error>> {
    loop {
        let mut packets = 0;
        while packets < PROGRESS_INTERVAL {
            let packet = match reader.next_packet() {
                None => return Ok(None),
                Some(Ok(packet)) => packet,
                Some(Err(error @ CaptureError::Damaged { .. })) => return Ok(Some(error.to_string())),
                Some(Err(error)) => return Err(error.into()),
            };
            if let Some(judged) = verifier.packet(&packet)
                && segments
            {
                report.segment(judged.connection, judged.ends, &judged.segment)?;
            }
            while let Some(connection) = verifier.next_finished() {
                report.connection(&connection)?;
            }
            packets += 1;
        }
        bar.show(reader.progress());
    }
}

/// How the run ends, by what was found.
fn outcome(totals: &Totals) -> Outcome {
    let could_not_be_read = totals.fragments + totals.unreadable > 0 || totals.damage.is_some();
    match Standing::of(&totals.counts) {
        Standing::Failed => Outcome::Failed,
        Standing::Good if !could_not_be_read => Outcome::Good,
        Standing::Good | Standing::NotJudged | Standing::Empty => Outcome::NotJudged,
    }
}
