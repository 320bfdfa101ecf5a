//! The microcontroller of examples/firmware: its sessions with the first guest's kernel, an attacker's packets, and a QUIC packet.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use agent::{Amount, Connect, Counted, Finish, GetInfo, Key, Open, SetKeys, Transfer};
use etherparse::{IpNumber, Ipv4Header, PacketBuilder, ether_type};
use serde_json::Value;
use speaker::forge::{Forgery, correct_checksum};
use speaker::protection::mirrored;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Mkt, SocketPair};

use crate::firmware::Firmware;
use crate::row::prelude::*;
use crate::rows::session::{key, key_with};
use crate::verify::verify;
use crate::wire::inject;

/// The port of the board's echo service (RFC 862).
const ECHO: SocketAddr = Port::Firmware.at(Family::Ipv4, 7);
/// Octets there and back.
const SOME: u64 = 64 << 10;
/// Octets there and back between two checks of the keys.
const PIECE: u64 = 8 << 10;

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

/// An established connection of the kernel's with the board.
pub struct Session<'a> {
    pub lab: &'a Lab,
    pub firmware: Firmware,
    pub pair: SocketPair,
    socket: u64,
    before: Counted,
    carried: u64,
}

impl<'a> Session<'a> {
    /// Starts the board, and opens a connection from a socket with these keys, the first of which is preferred. All are written as the
    /// board's.
    pub async fn open(lab: &'a Lab, mkts: &[Mkt]) -> Result<Self> {
        let (firmware, socket, before) = prepare(lab, mkts).await?;
        let local = lab.north.call(Connect { socket, remote: ECHO }).await?;
        let pair = SocketPair { local: ECHO.into(), remote: local.into() };
        Ok(Self { lab, firmware, pair, socket, before, carried: 0 })
    }

    /// Sends this many octets, and checks that they come back.
    pub async fn echo(&mut self, octets: u64) -> Result<()> {
        let amount = Amount { octets, seed: 7, from: self.carried };
        self.lab.north.call(Transfer { socket: self.socket, send: amount, receive: amount }).await?;
        self.carried += octets;
        Ok(())
    }

    /// Waits until everything is acknowledged and nothing more is sent.
    pub async fn quiet(&self) -> Result<()> {
        self.lab.quiet(self.pair, [Port::Firmware, Port::North]).await
    }

    /// Closes it, and accounts for all segments; besides good ones, the board must have counted these.
    pub async fn close(self, beside: Counted) -> Result<Evidence> {
        let Self { lab, firmware, socket, before, .. } = self;
        lab.north.call(Finish { socket }).await?;
        while !lab.is_still([Port::Firmware, Port::North]).await? {}
        let to = |port| lab.wire.segments_from(port);
        let report = firmware.report().await?;
        let board = report.counted.check("the board", &Counted::good(to(Port::North)).plus(&beside))?;
        let kernel = lab.north.counters().await?.since(&before);
        let kernel = kernel.check("the kernel", &Counted::good(to(Port::Firmware)))?;
        let recording = lab.wire.take_recording();
        let wire = verify(lab, &recording, &keys()?)?;
        wire.check_all_verified()?;
        let counters = vec![("kernel".into(), kernel.to_string()), ("firmware".into(), board.to_string())];
        let figures = format!("deepest stack {} octets", report.stack);
        Ok(Evidence { counters, wire, recording, figures, ..Evidence::default() })
    }
}

/// A board, and a socket with these keys.
async fn prepare(lab: &Lab, mkts: &[Mkt]) -> Result<(Firmware, u64, Counted)> {
    lab.clear().await?;
    let firmware = Firmware::boot(lab, fastrand::u64(..)).await?;
    let before = lab.north.counters().await?;
    let key = |mkt: &Mkt| anyhow::Ok(Key::new(ECHO.ip(), &mirrored(mkt)?)?);
    let mut keys: Vec<Key> = mkts.iter().map(key).collect::<Result<_>>()?;
    keys[0].is_preferred = true;
    let local = Port::North.at(Family::Ipv4, 0);
    let socket = lab.north.call(Open { local, keys, required: true }).await?;
    Ok((firmware, socket, before))
}

async fn echo(lab: &Lab, number: usize) -> Result<Evidence> {
    let mut session = Session::open(lab, &keys()?[number..=number]).await?;
    session.echo(SOME).await?;
    session.quiet().await?;
    session.close(Counted::default()).await
}

/// The kernel's SYNs do not verify.
async fn with_another_secret(lab: &Lab, number: usize) -> Result<Refusal> {
    let parameters = *keys()?[number].parameters();
    let secret = format!("secret of key {}, 32 octetS", number + 1);
    let mkt = key_with(number as u8 + 1, parameters.algorithm, &secret)?;
    let (firmware, socket, _) = prepare(lab, &[mkt]).await?;
    let connect = lab.north.call(Connect { socket, remote: ECHO });
    let counted = refused(firmware.await_counted(&Counted::bad(2)), connect).await?;
    ensure!(firmware.report().await?.connections == 0, "the board keeps something of a refused SYN");
    Ok(Refusal::by("firmware", &counted))
}

async fn roll_over(lab: &Lab) -> Result<Evidence> {
    let mkts = keys()?;
    let mut session = Session::open(lab, &mkts).await?;
    session.echo(SOME).await?;
    for turn in [1, 0, 1, 0] {
        // First the kernel follows the board, then the board follows the kernel.
        session.firmware.roll_over().await?;
        carry_until(&mut session, async |session| {
            let info = session.lab.north.call(GetInfo { socket: session.socket }).await?;
            Ok(info.and_then(|info| info.current_key) == Some(mkts[turn].recv_id().0))
        })
        .await?;
        let rnext = Some(mkts[turn].send_id().0);
        lab.north.call(SetKeys { socket: session.socket, current: None, rnext }).await?;
        carry_until(&mut session, async |session| {
            let id = |segment: wireseal_tcp_ao::Segment<'_>| Some(segment.ao_option().ok()??.key_id);
            let last = session
                .lab
                .wire
                .look(|recording| recording.segments_from(Port::Firmware).last().and_then(id));
            Ok(last == Some(mkts[turn].send_id()))
        })
        .await?;
    }
    session.quiet().await?;
    let evidence = session.close(Counted::default()).await?;
    for id in mkts.iter().flat_map(|mkt| [mkt.send_id(), mkt.recv_id()]) {
        ensure!(evidence.wire.by_key.contains_key(&id.0), "nothing was sent with KeyID {id}");
    }
    let figures = format!("4 rollovers each way, {}", evidence.figures);
    Ok(evidence.with_figures(figures))
}

/// Sends pieces there and back until this holds.
async fn carry_until(
    session: &mut Session<'_>,
    is_so: impl AsyncFn(&Session<'_>) -> Result<bool>,
) -> Result<()> {
    for _ in 0..20 {
        session.echo(PIECE).await?;
        if is_so(session).await? {
            return session.echo(PIECE).await;
        }
    }
    bail!("the end does not change its key")
}

/// The board asks for the second key, and segments under it do not verify.
async fn roll_to_another_secret(lab: &Lab) -> Result<Refusal> {
    let [first, second] = keys()?;
    let other = key_with(2, second.parameters().algorithm, "another secret of key 2, 32 octets")?;
    let mut session = Session::open(lab, &[first, other]).await?;
    session.echo(SOME).await?;
    session.quiet().await?;
    session.firmware.roll_over().await?;
    let amount = Amount { octets: SOME, seed: 7, from: session.carried };
    let transfer = lab.north.call(Transfer { socket: session.socket, send: amount, receive: amount });
    let counted = refused(session.firmware.await_counted(&Counted::bad(2)), transfer).await?;
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
    let mut session = Session::open(lab, &[key(1, TcpAoAlgorithm::HmacSha1)?]).await?;
    session.echo(4096).await?;
    session.quiet().await?;
    Ok(session)
}

async fn replay(lab: &Lab) -> Result<Evidence> {
    let mut session = open_used(lab).await?;
    let before = session.firmware.report().await?;
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
    let mut session = open_used(lab).await?;
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
async fn send(lab: &Lab, firmware: &Firmware, datagram: &[u8]) -> Result<String> {
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
    let firmware = Firmware::boot(lab, 1).await?;
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
    let firmware = Firmware::boot(lab, 1).await?;
    let mut initial = initial()?;
    initial[600] ^= 1;
    let said = send(lab, &firmware, &initial).await?;
    ensure!(said == NOT_OPENED, "the console says {said}");
    Ok(Refusal::of(format!("firmware: {said}"), 1))
}
