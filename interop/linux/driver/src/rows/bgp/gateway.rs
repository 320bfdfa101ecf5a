//! Daemons without TCP-AO, unchanged, behind `wireseal gateway` on the second guest.

use std::time::Instant;

use agent::{Counted, WriteFile};

use super::bird::{Bird, tcp_ao};
use super::common::{FIRST, SECRET, await_routes, check_still_up, evidence, key_chain, key_file, roll};
use super::supervised::{Daemon, FOLDER, first_key};
use super::wait::wait;
use crate::guest::Guest;
use crate::prelude::*;

const NAME: &str = "gateway";
const DAEMON: &str = "daemon";
const WHAT: &str = "behind wireseal gateway, whose kernel's TCP-AO is not used, against BIRD: sessions over IPv4 (opened by the daemon) and IPv6 \
                    (opened by BIRD) with 10,000 routes in each; the key chain changes on SIGHUP and rolls over from AES-128-CMAC-96 to \
                    hmac(sha256); the gateway is restarted; sessions stay up";

pub fn rows() -> Vec<Row> {
    let twin = "another secret at one end: no session, and the gateway's log says whose segments failed";
    let row = |name: &str, program: &str, daemon| {
        Row::new(
            format!("gateway-{name}"),
            format!("Debian's {program} {WHAT}"),
            async move |lab: &Lab| run(lab, daemon).await,
            twin,
            async move |lab: &Lab| refuse(lab, daemon).await,
        )
    };
    vec![row("gobgp", "GoBGP", Daemon::GoBgp), row("frr", "FRR", Daemon::Frr)]
}

/// A gateway, and the daemon behind it.
struct Behind<'a> {
    guest: &'a Guest,
    daemon: Daemon,
}

impl<'a> Behind<'a> {
    async fn start(guest: &'a Guest, daemon: Daemon, keys: &str) -> Result<Self> {
        let peers = Family::ALL.map(|family| format!("\"{}\" = \"lab\"\n", Port::North.address(family)));
        let config = format!("key-chains = \"keys.toml\"\n[peers]\n{}", peers.concat());
        guest.shell(&format!("mkdir -p {FOLDER}; rm -f {FOLDER}/sessions")).await?;
        let behind = Self { guest, daemon };
        behind.write("daemon.conf", &daemon.configuration()).await?;
        behind.write("run.toml", &config).await?;
        behind.write("keys.toml", keys).await?;
        behind.start_gateway().await?;
        daemon.prepare(guest).await?;
        guest.start(DAEMON, daemon.command()).await?;
        Ok(behind)
    }

    async fn start_gateway(&self) -> Result<()> {
        let command = format!("wireseal gateway --config {FOLDER}/run.toml --state {FOLDER}/sessions");
        self.guest.start(NAME, &command).await?;
        self.await_log("carries the packets of its peers").await
    }

    async fn write(&self, name: &str, contents: &str) -> Result<()> {
        self.guest.call(WriteFile { path: format!("{FOLDER}/{name}"), contents: contents.to_owned() }).await
    }

    async fn await_log(&self, words: &str) -> Result<()> {
        let log = async || self.guest.log(NAME).await;
        wait(words, async || Ok(log().await?.contains(words)), log).await
    }

    async fn signal(&self, signal: &str) -> Result<()> {
        self.guest.shell(&format!("kill -{signal} $(cat /tmp/{NAME}.pid)")).await.map(drop)
    }

    /// Ends the gateway in order.
    async fn end_gateway(&self) -> Result<String> {
        self.signal("TERM").await?;
        self.await_log("the sessions were written").await?;
        self.guest.log(NAME).await
    }

    async fn stop(self) -> Result<String> {
        let log = self.end_gateway().await?;
        self.daemon.end(self.guest).await?;
        self.guest.shell("wireseal gateway --remove-rules").await?;
        Ok(log)
    }
}

async fn run(lab: &Lab, daemon: Daemon) -> Result<Evidence> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let both = key_file(SECRET);
    let before = (lab.north.counters().await?, south.counters().await?);
    let set_clock = async |seconds: i64| south.shell(&format!("date -u -s @{seconds}")).await.map(drop);
    set_clock(FIRST).await?;
    let started = Instant::now();
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let behind = Behind::start(south, daemon, first_key(&both)?).await?;
    behind.await_log(": established").await?;
    bird.open().await?;
    let since = await_routes(&bird, 0).await?;
    let seconds = started.elapsed().as_secs_f64();

    behind.write("keys.toml", &both).await?;
    behind.signal("HUP").await?;
    behind.await_log("the configuration was read again").await?;
    roll(lab, &bird, Port::South, &keys, set_clock).await?;
    let log = behind.end_gateway().await?;
    ensure!(log.contains("sessions=2") && !log.contains("closed"), "the gateway's log: {log}");
    behind.start_gateway().await?;
    // KEEPALIVEs come every three seconds, and the hold time is nine.
    tokio::time::sleep(std::time::Duration::from_secs(11)).await;
    check_still_up(&bird, 0, &since).await?;
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    ensure!(counted.1 == Counted::default(), "the daemon's kernel has seen TCP-AO: {}", counted.1);
    // First, so that its last segments are still answered.
    bird.stop().await?;
    behind.stop().await?;
    let counters = [("BIRD's kernel", counted.0.to_string())];
    let mut evidence = evidence(lab, &keys, &counters, seconds)?;
    evidence.figures = evidence.figures.replace("routes each way", "routes from BIRD");
    Ok(evidence)
}

async fn refuse(lab: &Lab, daemon: Daemon) -> Result<Refusal> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let behind = Behind::start(south, daemon, &key_file("what one end knows")).await?;
    bird.open().await?;
    let counted = lab.north.await_counted(&before, Counted::bad(1)).await?;
    behind.await_log("bad MAC: the secret differs from the peer's").await?;
    bird.stop().await?;
    let log = behind.stop().await?;
    ensure!(!log.contains(": established"), "there was a session: {log}");
    Ok(Refusal::by("north", &counted).and(Refusal::of("gateway's log: bad MAC", 1)))
}
