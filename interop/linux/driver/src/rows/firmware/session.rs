//! Sessions between the microcontroller and the kernel: the board sends back what it is sent.

use std::net::SocketAddr;

use agent::{Amount, Connect, Counted, Finish, GetInfo, Key, Open, SetKeys, Transfer};
use speaker::protection::mirrored;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Mkt, SocketPair};

use crate::firmware::Firmware;
use crate::prelude::*;
use crate::rows::session::{key, key_with};
use crate::verify::verify;

/// Where the board answers with what it is sent (RFC 862).
const ECHO: SocketAddr = Port::Firmware.at(Family::Ipv4, 7);
/// Octets there and back.
const SOME: u64 = 64 << 10;
/// Octets there and back between two looks at the keys.
const PIECE: u64 = 8 << 10;

/// The board's keys, as it has them.
fn keys() -> Result<[Mkt; 2]> {
    Ok([key(1, TcpAoAlgorithm::HmacSha1)?, key(2, TcpAoAlgorithm::Aes128Cmac)?])
}

pub fn rows() -> Vec<Row> {
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
    /// Starts the board, and opens a connection from a socket with these keys, the first of which is preferred. All are as the board
    /// has them, or would.
    pub async fn open(lab: &'a Lab, mkts: &[Mkt]) -> Result<Self> {
        let (firmware, socket, before) = prepare(lab, mkts).await?;
        let local = lab.north.call(Connect { socket, remote: ECHO }).await?;
        let pair = SocketPair { local: ECHO.into(), remote: local.into() };
        Ok(Self { lab, firmware, pair, socket, before, carried: 0 })
    }

    /// Sends so many octets, which have to come back.
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

    /// Closes it, and accounts for all segments; the board may have counted these besides those that are good.
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
        // The kernel follows the board, and then the board the kernel.
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

/// Sends pieces there and back until this is so.
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

/// The board asks for the second key, and what comes under it does not verify.
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
