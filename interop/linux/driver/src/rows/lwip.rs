//! lwIP on libwireseal, the program of examples/lwip, and the first guest's kernel.

use std::net::SocketAddr;

use agent::{Connect, Counted, Listen};
use fastrand::Rng;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::Mkt;

use super::echo::{Session, check_used, kernel_socket};
use crate::echo_host::EchoHost;
use crate::row::prelude::*;
use crate::rows::session::{key, key_with};

/// Octets there and back.
const SOME: u64 = 64 << 10;
/// How many of a thousand segments are lost each way, if any are.
const LOSS: u32 = 30;

/// A session, and how it is opened.
#[derive(Clone, Copy)]
struct Setup {
    family: Family,
    algorithm: TcpAoAlgorithm,
    lwip_opens: bool,
    loses: bool,
}

pub fn rows() -> Vec<Row> {
    let setup = |family, algorithm, lwip_opens, loses| Setup { family, algorithm, lwip_opens, loses };
    let setups = [
        setup(Family::Ipv4, TcpAoAlgorithm::HmacSha1, false, false),
        setup(Family::Ipv4, TcpAoAlgorithm::Aes128Cmac, true, false),
        setup(Family::Ipv6, TcpAoAlgorithm::LinuxHmacSha256, false, false),
        setup(Family::Ipv6, TcpAoAlgorithm::HmacSha1, true, false),
        setup(Family::Ipv4, TcpAoAlgorithm::HmacSha1, false, true),
        setup(Family::Ipv6, TcpAoAlgorithm::Aes128Cmac, true, true),
    ];
    let rollovers = Family::ALL.map(|family| {
        Row::new(
            format!("lwip-rollover-{family}"),
            format!(
                "lwIP over {family}, from HMAC-SHA-1-96 to AES-128-CMAC-96 and back, twice, under traffic: lwIP asks first, then the kernel"
            ),
            async move |lab| roll_over(lab, family).await,
            "the kernel's second secret differs",
            async move |lab| roll_to_another_secret(lab, family).await,
        )
    });
    setups.into_iter().map(Setup::row).chain(rollovers).collect()
}

impl Setup {
    fn row(self) -> Row {
        let Self { family, algorithm, lwip_opens, loses } = self;
        let opener = if lwip_opens { "lwip" } else { "kernel" };
        let (kind, lost) = match loses {
            false => ("", String::new()),
            true => ("loss-", format!(", {} % of all segments lost", LOSS / 10)),
        };
        Row::new(
            format!("lwip-{kind}{family}-{opener}-opens"),
            format!("lwIP with {algorithm} over {family}, {opener} opens: 64 KiB there and back{lost}"),
            async move |lab| self.echo(lab).await,
            "the last octet of the kernel's master key changed",
            async move |lab| self.with_another_secret(lab).await,
        )
    }

    /// Where the session is opened to: lwIP's service, or a listening socket of the kernel's.
    async fn begin<'a>(&self, lab: &'a Lab, lwip: &[Mkt], kernel: &[Mkt]) -> Result<Opening<'a>> {
        lab.clear().await?;
        let before = lab.north.counters().await?;
        let socket = kernel_socket(lab, self.family, Port::Userspace, kernel).await?;
        let listens_at = match self.lwip_opens {
            true => Some(lab.north.call(Listen { socket }).await?),
            false => None,
        };
        if self.loses {
            let mut random = Rng::with_seed(1);
            lab.wire.lose(move |_, segment| !segment.flags().syn() && random.u32(..1000) < LOSS);
        }
        let lwip = EchoHost::start_lwip(lab, self.family, lwip, listens_at.map(|at| at.port())).await?;
        Ok(Opening { lab, lwip, socket, listens_at, before })
    }

    async fn open<'a>(&self, lab: &'a Lab, lwip: &[Mkt], kernel: &[Mkt]) -> Result<Session<'a>> {
        let Opening { lab, lwip, socket, listens_at, before } = self.begin(lab, lwip, kernel).await?;
        match listens_at {
            Some(at) => Session::accept(lab, lwip, (socket, at), before).await,
            None => Session::open(lab, lwip, self.family, socket, before).await,
        }
    }

    async fn echo(self, lab: &Lab) -> Result<Evidence> {
        let mkts = [key(1, self.algorithm)?];
        let mut session = self.open(lab, &mkts, &mkts).await?;
        session.echo(SOME).await?;
        // Linux neither verifies nor counts segments in TIME-WAIT, so no FIN may be lost.
        lab.wire.reset();
        session.quiet().await?;
        let (evidence, _) = session.close(&mkts, Counted::default()).await?;
        let lost = evidence.recording.frames.iter().filter(|frame| frame.is_lost).count();
        ensure!((lost > 0) == self.loses, "{lost} segments were lost");
        let figures = if self.loses { format!("{lost} segments lost") } else { String::new() };
        Ok(evidence.with_figures(figures))
    }

    /// The SYNs do not verify, and the end that is called counts them.
    async fn with_another_secret(self, lab: &Lab) -> Result<Refusal> {
        let (mkt, other) =
            (key(1, self.algorithm)?, key_with(1, self.algorithm, "secret of key 1, 32 octetS")?);
        let Opening { lwip, socket, before, .. } = self.begin(lab, &[mkt], &[other]).await?;
        if self.lwip_opens {
            let counted = lab.north.await_counted(&before, Counted::bad(1)).await?;
            return Ok(Refusal::by("the kernel", &counted));
        }
        let connect = lab.north.call(Connect { socket, remote: lwip.service(self.family) });
        let counted = refused(lwip.await_counted(&Counted::bad(2)), connect).await?;
        Ok(Refusal::by(lwip.name, &counted))
    }
}

/// A session that is about to be opened.
struct Opening<'a> {
    lab: &'a Lab,
    lwip: EchoHost,
    socket: u64,
    listens_at: Option<SocketAddr>,
    before: Counted,
}

/// The keys of a rollover.
fn keys() -> Result<[Mkt; 2]> {
    Ok([key(1, TcpAoAlgorithm::HmacSha1)?, key(2, TcpAoAlgorithm::Aes128Cmac)?])
}

/// How the session of a rollover is opened: by the kernel, on a good wire.
const fn rolling(family: Family) -> Setup {
    Setup { family, algorithm: TcpAoAlgorithm::HmacSha1, lwip_opens: false, loses: false }
}

async fn roll_over(lab: &Lab, family: Family) -> Result<Evidence> {
    let mkts = keys()?;
    let [first, second] = &mkts;
    let mut session = rolling(family).open(lab, &mkts, &mkts).await?;
    session.echo(SOME).await?;
    session.roll_over(&[second, first, second, first]).await?;
    session.quiet().await?;
    let (evidence, _) = session.close(&mkts, Counted::default()).await?;
    check_used(&evidence, &mkts)?;
    Ok(evidence.with_figures("4 rollovers each way"))
}

/// lwIP asks for the second key, and segments under it do not verify.
async fn roll_to_another_secret(lab: &Lab, family: Family) -> Result<Refusal> {
    let [first, second] = keys()?;
    let other = key_with(2, second.parameters().algorithm, "another secret of key 2, 32 octets")?;
    let mut session = rolling(family).open(lab, &[first.clone(), second], &[first, other]).await?;
    session.echo(SOME).await?;
    session.quiet().await?;
    session.host.roll_over().await?;
    let counted = session.until_refused(SOME, session.host.await_counted(&Counted::bad(2))).await?;
    Ok(Refusal::by(session.host.name, &counted))
}
