//! What an attacker sends the microcontroller while it has a session: the fuzz corpora of the shim, over the network card.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use agent::Counted;
use etherparse::{IpNumber, Ipv4Header};
use speaker::forge::{Forgery, correct_checksum};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::SocketPair;

use super::session::Session;
use crate::forge::inject;
use crate::prelude::*;
use crate::rows::session::key;

/// The corpora whose files are packets, or what is made of packets.
const CORPORA: [&str; 4] = ["shim_inbound", "shim_outbound", "segment_verify", "option_walker"];
/// Octets of the longest packet on the wire.
const LONGEST: usize = 1500;
/// IP hop limit.
const HOP_LIMIT: u8 = 64;
/// Frames after which the board is given time to take them.
const AT_ONCE: usize = 4;

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "firmware-fuzz-corpora",
        "a Cortex-M4 with a session receives the fuzz corpora of the shim: each file as a packet, as a segment of the session, and \
         mixed into one; it counts what it refuses, and the session goes on",
        replay,
        "segments of the session's, unsigned, with data that is expected next",
        unsigned,
    )]
}

fn corpora() -> Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    let mut files = Vec::new();
    for corpus in CORPORA {
        let mut paths: Vec<_> =
            fs::read_dir(folder.join(corpus))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        paths.sort();
        for path in paths {
            files.push(fs::read(path)?);
        }
    }
    ensure!(files.len() > 20, "{} files", files.len());
    Ok(files)
}

/// Each file in three forms, with IPv4 in front and right checksums where there is room for one.
fn packets(pair: SocketPair, next: &[u8], file: &[u8]) -> Result<[Vec<u8>; 3]> {
    let file = &file[..file.len().min(LONGEST - 60)];
    let (IpAddr::V4(from), IpAddr::V4(to)) = (pair.local.address(), pair.remote.address()) else {
        bail!("the board has IPv4")
    };
    let ip = Ipv4Header::new(
        u16::try_from(4 + file.len())?,
        HOP_LIMIT,
        IpNumber::TCP,
        from.octets(),
        to.octets(),
    )?;
    let mut segment = ip.to_bytes().to_vec();
    segment.extend(pair.local.port().to_be_bytes());
    segment.extend(pair.remote.port().to_be_bytes());
    segment.extend(file);
    let mut mixed = next.to_vec();
    for (place, octet) in file.iter().enumerate() {
        // Behind the ports.
        let behind = 24 + place % (next.len() - 24);
        mixed[behind] ^= octet;
    }
    for packet in [&mut segment, &mut mixed] {
        // Only what is a whole segment has a checksum.
        let _ = correct_checksum(packet);
    }
    Ok([file.to_vec(), segment, mixed])
}

async fn open(lab: &Lab) -> Result<Session<'_>> {
    let mut session = Session::open(lab, &[key(1, TcpAoAlgorithm::HmacSha1)?]).await?;
    session.echo(4096).await?;
    session.quiet().await?;
    Ok(session)
}

async fn replay(lab: &Lab) -> Result<Evidence> {
    let mut session = open(lab).await?;
    let before = session.firmware.report().await?;
    // In the kernel's name.
    let pair = session.pair.reversed();
    let mkt = key(1, TcpAoAlgorithm::HmacSha1)?;
    let next = lab.wire.look(|recording| {
        let forgery = Forgery::next(recording.packets(), pair)?.carrying(b"octets");
        forgery.signed(&speaker::protection::mirrored(&mkt)?, recording.packets())
    })?;
    let mut sent = 0;
    for file in corpora()? {
        for packet in packets(pair, &next, &file)? {
            inject(&lab.wire, pair, &packet)?;
            sent += 1;
            if sent % AT_ONCE == 0 {
                lab.take_in(Port::Firmware).await?;
            }
        }
    }
    session.echo(4096).await?;
    session.quiet().await?;
    let report = session.firmware.report().await?;
    let counted = report.counted.since(&before.counted);
    let refused = report.refused - before.refused + report.unreadable - before.unreadable;
    ensure!(counted.bad > 0 && counted.required > 0, "the board has counted {counted}");
    ensure!(refused as usize * 2 > sent, "{refused} of {sent} refused");
    let beside = Counted { good: 0, ..report.counted };
    let evidence = session.close(beside).await?;
    let figures = format!("{sent} packets, {refused} refused, {}", evidence.figures);
    Ok(evidence.with_figures(figures))
}

async fn unsigned(lab: &Lab) -> Result<Refusal> {
    let mut session = open(lab).await?;
    let pair = session.pair.reversed();
    for _ in 0..3 {
        let packet = lab
            .wire
            .look(|recording| Forgery::next(recording.packets(), pair)?.carrying(b"octets").unsigned())?;
        inject(&lab.wire, pair, &packet)?;
    }
    let counted = session.firmware.await_counted(&Counted::required(3)).await?;
    session.echo(4096).await?;
    Ok(Refusal::of("firmware: required", counted.required))
}
