//! `wireseal verify`: checks every TCP segment of a capture.

use std::path::PathBuf;

use cidr::{IpCidr, IpInet};

use super::capture::CaptureRun;
use super::key_arguments::KeyArguments;
use super::outcome::{Outcome, Result};
use crate::report::{self, Format, Report, Subject};
use crate::standing::Standing;
use crate::verify::{IsnHint, NatHint, SearchLimits, Verifier, VerifyEvent, VerifyOptions};

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
    keys.check_capture(&capture)?;
    let keys = keys.keys()?;
    let run = CaptureRun::open(&capture)?;
    let name = capture.display().to_string();
    let subject = Subject { capture: &name, keys: &keys };
    let format = match json {
        true => Format::Json { segments },
        false => Format::Text { colours: report::colours_wanted() },
    };
    let mut report = Report::new(run.bar.output(json), format, subject)?;
    let keep_segments = html.is_some();
    if let Some(path) = &html {
        report = report.with_page(path, subject)?;
    }
    let limits = SearchLimits::default();
    let options = VerifyOptions { peers, ports, isns, nat, keep_segments, limits };
    let mut verifier = Verifier::new(&keys, options);
    let mut each = |found: VerifyEvent<'_>| match found {
        VerifyEvent::Segment { connection, ends, segment } if segments => {
            report.segment(connection, ends, &segment)
        }
        VerifyEvent::Segment { .. } => Ok(()),
        VerifyEvent::Connection(connection) => report.connection(&connection),
    };
    let damage = run.packets(|packet| match packet {
        Some(packet) => verifier.packet(packet, &mut each),
        None => verifier.judge_queued(&mut each),
    })?;
    let totals = verifier.finish(damage, &mut each)?;
    let standing = report.standing();
    report.finish(&totals)?;
    Ok(match standing {
        Standing::Good if totals.is_incomplete() => Outcome::NotJudged,
        standing => standing.into(),
    })
}
