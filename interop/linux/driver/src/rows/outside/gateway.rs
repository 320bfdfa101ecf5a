//! Daemons behind `wireseal gateway` on the third guest, whose kernel has no TCP-AO, against BIRD.

use std::time::{Duration, Instant};

use agent::Counted;

use super::daemon::{
    Daemon, FOLDER, Speaker, await_no_sockets, change_keys, peers, start as start_wireseal, write,
};
use super::run::first_key;
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::{FIRST, SECRET, await_routes, check_still_up, evidence, key_chain, key_file, roll};
use crate::rows::bird::{Bird, tcp_ao};
use crate::wait::Program;

const CARRIES: &str = "carries the packets of its peers";
const WHAT: &str = "behind wireseal gateway, on Debian's own kernel without TCP-AO, against BIRD: sessions over IPv4 (opened by the daemon) and \
                    IPv6 (opened by BIRD) with 10,000 routes in each; the key chain changes on SIGHUP and rolls over from AES-128-CMAC-96 to \
                    hmac(sha256)";

/// What a row does to its sessions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// The gateway is restarted cleanly.
    Restart,
    /// The gateway is killed and started again.
    Kill,
    /// Every twentieth packet is lost in each direction.
    Loss,
}

pub fn rows() -> Vec<Row> {
    let twin = "another secret at one end: no session, and the gateway's log says whose segments failed";
    let row = |name: &str, program: &str, what: &str, daemon, trial| {
        Row::new(
            format!("gateway-{name}"),
            format!("Debian's {program} {WHAT}; {what}"),
            async move |lab: &Lab| run(lab, daemon, trial).await,
            twin,
            async move |lab: &Lab| refuse(lab, daemon).await,
        )
    };
    vec![
        row("gobgp", "GoBGP", "the gateway is restarted, sessions stay up", Daemon::GoBgp, Trial::Restart),
        row(
            "frr",
            "FRR",
            "the gateway is killed and started again: the sessions are refused, and others open",
            Daemon::Frr,
            Trial::Kill,
        ),
        row("loss", "FRR", "5 % of all packets are lost, sessions stay up", Daemon::Frr, Trial::Loss),
    ]
}

/// A gateway, and the daemon behind it.
pub struct Behind<'a> {
    guest: &'a Guest,
    daemon: Daemon,
    pub gateway: Program<'a>,
}

impl<'a> Behind<'a> {
    pub async fn start(guest: &'a Guest, daemon: Daemon, keys: &str) -> Result<Self> {
        guest.shell(&format!("wireseal gateway --remove-rules 2>/dev/null; rm -f {FOLDER}/sessions")).await?;
        let speaker = Speaker::of_bird(Port::Stock);
        write(guest, "daemon.conf", &daemon.configuration(&speaker)).await?;
        write(guest, "wireseal.toml", &peers(speaker.peer, None)).await?;
        write(guest, "keys.toml", keys).await?;
        let gateway = start_gateway(guest).await?;
        daemon.prepare(guest).await?;
        Program::start(guest, "daemon", daemon.command()).await?;
        Ok(Self { guest, daemon, gateway })
    }

    /// Ends the gateway with SIGTERM.
    pub async fn end_gateway(&self) -> Result<String> {
        self.gateway.signal("TERM").await?;
        self.gateway.await_log("the sessions were written", 1).await?;
        self.gateway.log().await
    }

    /// Ends the daemon first, so that what the kernel still has to send for it is signed.
    pub async fn stop(self) -> Result<String> {
        self.daemon.end(self.guest).await?;
        await_no_sockets(self.guest).await?;
        let log = self.end_gateway().await?;
        self.guest.shell("wireseal gateway --remove-rules").await?;
        Ok(log)
    }
}

pub async fn start_gateway(guest: &Guest) -> Result<Program<'_>> {
    let arguments = format!("gateway --config {FOLDER}/wireseal.toml --state {FOLDER}/sessions");
    let gateway = start_wireseal(guest, "gateway", &arguments).await?;
    gateway.await_log(CARRIES, 1).await?;
    Ok(gateway)
}

async fn run(lab: &Lab, daemon: Daemon, trial: Trial) -> Result<Evidence> {
    let stock = lab.stock().await?;
    let (_, keys) = key_chain(SECRET)?;
    let both = key_file(SECRET);
    let before = lab.north.counters().await?;
    let set_clock = async |seconds| stock.set_clock(seconds).await;
    set_clock(FIRST).await?;
    if trial == Trial::Loss {
        lab.wire.lose(|_, _| fastrand::u8(..20) == 0);
    }
    let started = Instant::now();
    let bird = Bird::start(&lab.north, Port::Stock, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let mut behind = Behind::start(stock, daemon, first_key(&both)?).await?;
    behind.gateway.await_log(": established", 1).await?;
    bird.open().await?;
    let since = await_routes(&bird, 0).await?;
    let seconds = started.elapsed().as_secs_f64();

    change_keys(&behind.gateway, &both).await?;
    roll(lab, &bird, Port::Stock, &keys, set_clock).await?;
    check_still_up(&bird, 0, &since).await?;
    match trial {
        Trial::Restart => {
            let log = behind.end_gateway().await?;
            ensure!(log.contains("sessions=2") && !log.contains("closed"), "the gateway's log: {log}");
            behind.gateway = start_gateway(stock).await?;
            // KEEPALIVEs come every three seconds, and the hold time is nine.
            tokio::time::sleep(Duration::from_secs(11)).await;
            check_still_up(&bird, 0, &since).await?;
        }
        Trial::Kill => {
            behind.gateway.signal("KILL").await?;
            behind.gateway.await_end().await?;
            behind.gateway = start_gateway(stock).await?;
            // Both ends give the sessions up after the hold time.
            behind.gateway.await_log(": established", 2).await?;
            let again = await_routes(&bird, 0).await?;
            ensure!(again.iter().zip(&since).all(|(again, since)| again != since), "a session was guessed");
        }
        Trial::Loss => lab.wire.reset(),
    }
    let counted = lab.north.counters().await?.since(&before).check_good("north")?;
    // First BIRD, so that its last segments are still answered.
    bird.stop_alone().await?;
    behind.stop().await?;
    let mut evidence = evidence(lab, &keys, &[("BIRD's kernel", counted)], seconds)?;
    evidence.figures = evidence.figures.replace("routes each way", "routes from BIRD");
    Ok(evidence)
}

async fn refuse(lab: &Lab, daemon: Daemon) -> Result<Refusal> {
    let stock = lab.stock().await?;
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    stock.set_clock(FIRST).await?;
    let bird = Bird::start(&lab.north, Port::Stock, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let behind = Behind::start(stock, daemon, &key_file("what one end knows")).await?;
    bird.open().await?;
    let counted = lab.north.await_counted(&before, Counted::bad(1)).await?;
    behind.gateway.await_log("bad MAC: secret, algorithm or option coverage differs", 1).await?;
    bird.stop().await?;
    let log = behind.stop().await?;
    ensure!(!log.contains(": established"), "there was a session: {log}");
    Ok(Refusal::by("north", &counted).and(Refusal::of("gateway's log: bad MAC", 1)))
}
