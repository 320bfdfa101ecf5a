//! The microcontroller of examples/firmware: its sessions with the first guest's kernel, an attacker's packets, and a QUIC packet.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use agent::{Connect, Counted};
use etherparse::{IpNumber, Ipv4Header, PacketBuilder, ether_type};
use serde_json::Value;
use speaker::forge::{Forgery, correct_checksum};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Mkt, SocketPair};

use crate::echo_host::EchoHost;
use crate::row::prelude::*;
use crate::rows::echo::{Session, check_used, kernel_socket};
use crate::rows::session::{key, key_with};
use crate::wire::inject;

/// Octets there and back.
const SOME: u64 = 64 << 10;

/// The board's keys, as configured there.
fn keys() -> Result<[Mkt; 2]> {
    Ok([key(1, TcpAoAlgorithm::HmacSha1)?, key(2, TcpAoAlgorithm::Aes128Cmac)?])
}

pub fn sessions() -> Vec<Row> {
    let one = |number: usize, slug: &str, algorithm: &str| {
        Row::new(
            format!("firmware-{slug}"),
            format!("a Cortex-M4 with {algorithm}: the kernel opens, 64 KiB there and back"),
            async move |lab| echo(lab, number).await,
            "the last octet of the kernel's master key changed",
            async move |lab| with_another_secret(lab, number).await,
        )
    };
    vec![
        one(0, "sha1", "HMAC-SHA-1-96"),
        one(1, "cmac", "AES-128-CMAC-96"),
        Row::new(
            "firmware-rollover",
            "a Cortex-M4, from HMAC-SHA-1-96 to AES-128-CMAC-96 and back, twice, under traffic: the board asks first, then the \
             kernel",
            roll_over,
            "the kernel's second secret differs",
            roll_to_another_secret,
        ),
    ]
}

/// A board, and a socket with these keys.
async fn prepare(lab: &Lab, mkts: &[Mkt]) -> Result<(EchoHost, u64, Counted)> {
    lab.clear().await?;
    let firmware = EchoHost::boot_firmware(lab, fastrand::u64(..)).await?;
    let before = lab.north.counters().await?;
    let socket = kernel_socket(lab, Family::Ipv4, Port::Firmware, mkts).await?;
    Ok((firmware, socket, before))
}

/// A session with a board, from a socket with these keys.
async fn open<'a>(lab: &'a Lab, mkts: &[Mkt]) -> Result<Session<'a>> {
    let (firmware, socket, before) = prepare(lab, mkts).await?;
    Session::open(lab, firmware, Family::Ipv4, socket, before).await
}

/// Closes a session, with what the board's stack needed; besides good segments, the board must have counted these.
async fn close(session: Session<'_>, beside: Counted) -> Result<Evidence> {
    let (evidence, report) = session.close(&keys()?, beside).await?;
    let stack = report.figure("stack")?;
    Ok(evidence.with_figures(format!("deepest stack {stack} octets")))
}

async fn echo(lab: &Lab, number: usize) -> Result<Evidence> {
    let mut session = open(lab, &keys()?[number..=number]).await?;
    session.echo(SOME).await?;
    session.quiet().await?;
    close(session, Counted::default()).await
}

/// The kernel's SYNs do not verify.
async fn with_another_secret(lab: &Lab, number: usize) -> Result<Refusal> {
    let parameters = *keys()?[number].parameters();
    let secret = format!("secret of key {}, 32 octetS", number + 1);
    let mkt = key_with(number as u8 + 1, parameters.algorithm, &secret)?;
    let (firmware, socket, _) = prepare(lab, &[mkt]).await?;
    let connect = lab.north.call(Connect { socket, remote: firmware.service(Family::Ipv4) });
    let counted = refused(firmware.await_counted(&Counted::bad(2)), connect).await?;
    let kept = firmware.report().await?.figure("connections")?;
    ensure!(kept == 0, "the board keeps something of a refused SYN");
    Ok(Refusal::by("firmware", &counted))
}

async fn roll_over(lab: &Lab) -> Result<Evidence> {
    let [first, second] = &keys()?;
    let mut session = open(lab, &keys()?).await?;
    session.echo(SOME).await?;
    session.roll_over(&[second, first, second, first]).await?;
    session.quiet().await?;
    let evidence = close(session, Counted::default()).await?;
    check_used(&evidence, &keys()?)?;
    let figures = format!("4 rollovers each way, {}", evidence.figures);
    Ok(evidence.with_figures(figures))
}

/// The board asks for the second key, and segments under it do not verify.
async fn roll_to_another_secret(lab: &Lab) -> Result<Refusal> {
    let [first, second] = keys()?;
    let other = key_with(2, second.parameters().algorithm, "another secret of key 2, 32 octets")?;
    let mut session = open(lab, &[first, other]).await?;
    session.echo(SOME).await?;
    session.quiet().await?;
    session.host.roll_over().await?;
    let counted = session.until_refused(SOME, session.host.await_counted(&Counted::bad(2))).await?;
    let counted = Counted { bad: counted.bad, ..Counted::default() };
    Ok(Refusal::by("firmware", &counted))
}

/// The corpora whose files are packets or parts of packets.
const CORPORA: [&str; 4] = ["shim_inbound", "shim_outbound", "segment_verify", "option_walker"];
/// Octets of the longest packet on the wire.
const LONGEST: usize = 1500;
/// IP hop limit.
const HOP_LIMIT: u8 = 64;
/// After this many frames the board gets time to process them.
const AT_ONCE: usize = 4;

pub fn attacks() -> Vec<Row> {
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
        // The octets after the ports.
        let behind = 24 + place % (next.len() - 24);
        mixed[behind] ^= octet;
    }
    for packet in [&mut segment, &mut mixed] {
        // Only a whole segment has a checksum.
        let _ = correct_checksum(packet);
    }
    Ok([file.to_vec(), segment, mixed])
}

async fn open_used(lab: &Lab) -> Result<Session<'_>> {
    let mut session = open(lab, &[key(1, TcpAoAlgorithm::HmacSha1)?]).await?;
    session.echo(4096).await?;
    session.quiet().await?;
    Ok(session)
}

async fn replay(lab: &Lab) -> Result<Evidence> {
    let mut session = open_used(lab).await?;
    let before = session.host.report().await?;
    // Sent in the kernel's name.
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
    let report = session.host.report().await?;
    let counted = report.counted.since(&before.counted);
    let grown = |name| anyhow::Ok(report.figure(name)? - before.figure(name)?);
    // Refused packets, whether or not counted above, and frames that could not be read.
    let refused = grown("refused")? + grown("unreadable")?;
    ensure!(counted.bad > 0 && counted.required > 0, "the board has counted {counted}");
    ensure!(refused as usize * 2 > sent, "{refused} of {sent} refused");
    let beside = Counted { good: 0, ..report.counted };
    let evidence = close(session, beside).await?;
    let figures = format!("{sent} packets, {refused} refused, {}", evidence.figures);
    Ok(evidence.with_figures(figures))
}

async fn unsigned(lab: &Lab) -> Result<Refusal> {
    let mut session = open_used(lab).await?;
    let pair = session.pair.reversed();
    for _ in 0..3 {
        let packet = lab
            .wire
            .look(|recording| Forgery::next(recording.packets(), pair)?.carrying(b"octets").unsigned())?;
        inject(&lab.wire, pair, &packet)?;
    }
    let counted = session.host.await_counted(&Counted::required(3)).await?;
    session.echo(4096).await?;
    Ok(Refusal::of("firmware: required", counted.required))
}

/// RFC 9001 appendix A.
const VECTORS: &str = include_str!("../../../../../crates/quic/tests/data/vectors/rfc9001.json");
const OPENED: &str = "Initial packet 2, 1162 octets of payload";
const NOT_OPENED: &str = "a datagram that is no Initial packet";

pub fn quic() -> Vec<Row> {
    vec![Row::new(
        "firmware-quic-initial",
        "a Cortex-M4 opens the client's Initial packet of RFC 9001 §A.2 with RustCrypto's ciphers; it goes on after one that is cut \
         off",
        open_initial,
        "one bit of the payload changed",
        open_changed,
    )]
}

/// The client's Initial packet of RFC 9001 §A.2.
fn initial() -> Result<Vec<u8>> {
    let vectors: Value = serde_json::from_str(VECTORS)?;
    let packet = vectors["client_initial"]["packet"].as_str().context("no packet")?;
    let octet = |at: usize| Ok(u8::from_str_radix(packet.get(at..at + 2).context("half an octet")?, 16)?);
    (0..packet.len()).step_by(2).map(octet).collect()
}

/// Sends a datagram to the board; returns what its console says about it.
async fn send(lab: &Lab, firmware: &EchoHost, datagram: &[u8]) -> Result<String> {
    let (from, to) = (Port::Host, Port::Firmware);
    let mut frame =
        [&to.hardware_address()[..], &from.hardware_address(), &ether_type::IPV4.0.to_be_bytes()].concat();
    PacketBuilder::ipv4(from.ipv4().octets(), to.ipv4().octets(), 64)
        .udp(50_000, 443)
        .write(&mut frame, datagram)?;
    lab.wire.inject(to, frame);
    firmware.line().await
}

async fn open_initial(lab: &Lab) -> Result<Evidence> {
    lab.clear().await?;
    let firmware = EchoHost::boot_firmware(lab, 1).await?;
    let initial = initial()?;
    for (datagram, wanted) in [(&initial[..], OPENED), (&initial[..40], NOT_OPENED), (&initial, OPENED)] {
        let said = send(lab, &firmware, datagram).await?;
        ensure!(said == wanted, "the console says {said}");
    }
    let report = firmware.report().await?;
    let counters = vec![("firmware".into(), report.counted.to_string())];
    Ok(Evidence { counters, figures: OPENED.to_owned(), ..Evidence::default() })
}

async fn open_changed(lab: &Lab) -> Result<Refusal> {
    lab.clear().await?;
    let firmware = EchoHost::boot_firmware(lab, 1).await?;
    let mut initial = initial()?;
    initial[600] ^= 1;
    let said = send(lab, &firmware, &initial).await?;
    ensure!(said == NOT_OPENED, "the console says {said}");
    Ok(Refusal::of(format!("firmware: {said}"), 1))
}
