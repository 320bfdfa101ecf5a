//! Daemons without TCP-AO, unchanged, under `wireseal run` on the second guest.

use std::time::{Duration, Instant};

use agent::{Counted, WriteFile};

use super::bird::{AS, Bird, HOLD_TIME, PEER_AS, tcp_ao};
use super::common::{FIRST, OVER, SECRET, await_routes, check_still_up, evidence, key_chain, key_file, roll};
use super::wait::wait;
use crate::guest::Guest;
use crate::prelude::*;

/// The daemon, and the name of its supervisor's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Daemon {
    GoBgp,
    Frr,
}

const NAME: &str = "supervised";
/// The folder of the daemon's configuration, and of the keys.
pub(super) const FOLDER: &str = "/tmp/supervised";
/// What the log says of a session that the daemon has opened, and of one that it has accepted.
const CONNECTING: &str = "connecting with the keys of the peer";
const ACCEPTED: &str = "a session with the keys of the peer";
const WHAT: &str = "against BIRD: sessions over IPv4 (opened by the daemon) and IPv6 (opened by BIRD) with 10,000 routes in each; the key chain \
                    changes on SIGHUP and rolls over from AES-128-CMAC-96 to hmac(sha256), sessions stay up";

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "run-gobgp",
            format!(
                "wireseal run, with Debian's GoBGP {WHAT}; then the supervisor is killed: sessions go on, and no new one opens"
            ),
            async |lab| run(lab, Daemon::GoBgp).await,
            "another secret at one end: no session, and the supervisor's log says whose segments failed",
            async |lab| twin(lab, Daemon::GoBgp).await,
        ),
        Row::new(
            "run-frr",
            format!(
                "wireseal run, with Debian's FRR {WHAT}; then the chain runs out: sessions are shut down, and BIRD is kept out"
            ),
            async |lab| run(lab, Daemon::Frr).await,
            "another secret at one end: no session, and the supervisor's log says whose segments failed",
            async |lab| twin(lab, Daemon::Frr).await,
        ),
    ]
}

impl Daemon {
    /// It opens the session over IPv4 and waits for the one over IPv6.
    pub(super) fn configuration(self) -> String {
        let (own, bird) = (Port::South, Port::North);
        let (ipv4, ipv6, id) = (bird.ipv4(), bird.ipv6(), own.ipv4());
        match self {
            Self::GoBgp => {
                let mut text = format!("[global.config]\nas = {PEER_AS}\nrouter-id = \"{id}\"\n");
                for family in Family::ALL {
                    text += &format!(
                        "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{}\"\npeer-as = {AS}\n\
                         [neighbors.transport.config]\npassive-mode = {}\n\
                         [neighbors.timers.config]\nconnect-retry = 5\nhold-time = {HOLD_TIME}\nkeepalive-interval = 3\n",
                        bird.address(family),
                        family == Family::Ipv6
                    );
                    for name in ["ipv4-unicast", "ipv6-unicast"] {
                        text += &format!(
                            "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{name}\"\n"
                        );
                    }
                }
                text
            }
            Self::Frr => format!(
                "log stdout informational\nrouter bgp {PEER_AS}\nbgp router-id {id}\nno bgp ebgp-requires-policy\n\
                 timers bgp 3 {HOLD_TIME}\nneighbor {ipv4} remote-as {AS}\nneighbor {ipv4} timers connect 5\n\
                 neighbor {ipv6} remote-as {AS}\nneighbor {ipv6} passive\n\
                 address-family ipv4 unicast\nneighbor {ipv6} activate\nexit-address-family\n\
                 address-family ipv6 unicast\nneighbor {ipv4} activate\nneighbor {ipv6} activate\nexit-address-family\n"
            ),
        }
    }

    pub(super) const fn command(self) -> &'static str {
        match self {
            Self::GoBgp => {
                "gobgpd -f /tmp/supervised/daemon.conf --config-type toml --api-hosts 127.0.0.1:50051"
            }
            Self::Frr => {
                "/usr/lib/frr/bgpd -f /tmp/supervised/daemon.conf -i /run/frr/bgpd.pid -z /run/frr/zserv.api \
                 --vty_socket /run/frr -A 127.0.0.1"
            }
        }
    }

    /// Starts what it needs beside itself, without supervision.
    pub(super) async fn prepare(self, guest: &Guest) -> Result<()> {
        if self == Self::Frr {
            guest.shell("mkdir -p /run/frr /var/tmp/frr && chown frr:frr /run/frr /var/tmp/frr").await?;
            let zebra = "/usr/lib/frr/zebra -i /run/frr/zebra.pid -z /run/frr/zserv.api --vty_socket /run/frr -A 127.0.0.1";
            guest.start("zebra", zebra).await?;
            let is_there = async || Ok(guest.shell("test -S /run/frr/zserv.api").await.is_ok());
            wait("zebra", is_there, async || guest.log("zebra").await).await?;
        }
        Ok(())
    }

    /// Ends it, and what was started for it.
    pub(super) async fn end(self, guest: &Guest) -> Result<()> {
        let program = if self == Self::Frr { "bgpd zebra" } else { "gobgpd" };
        guest.shell(&format!("killall -9 {program} 2>/dev/null; true")).await.map(drop)
    }
}

/// A daemon under its supervisor.
struct Supervised<'a> {
    guest: &'a Guest,
    daemon: Daemon,
}

impl<'a> Supervised<'a> {
    async fn start(guest: &'a Guest, daemon: Daemon, keys: &str) -> Result<Self> {
        let peers = Family::ALL.map(|family| format!("\"{}\" = \"lab\"\n", Port::North.address(family)));
        let config = format!("key-chains = \"keys.toml\"\n[peers]\n{}", peers.concat());
        guest.shell(&format!("mkdir -p {FOLDER}")).await?;
        let supervised = Self { guest, daemon };
        supervised.write("daemon.conf", &daemon.configuration()).await?;
        supervised.write("run.toml", &config).await?;
        supervised.write("keys.toml", keys).await?;
        daemon.prepare(guest).await?;
        guest
            .start(NAME, &format!("wireseal run --config {FOLDER}/run.toml -- {}", daemon.command()))
            .await?;
        supervised.await_log("listening with the keys of all peers", 1).await?;
        Ok(supervised)
    }

    async fn write(&self, name: &str, contents: &str) -> Result<()> {
        self.guest.call(WriteFile { path: format!("{FOLDER}/{name}"), contents: contents.to_owned() }).await
    }

    async fn log(&self) -> Result<String> {
        self.guest.log(NAME).await
    }

    async fn await_log(&self, words: &str, lines: usize) -> Result<()> {
        let has_lines =
            async || Ok(self.log().await?.lines().filter(|line| line.contains(words)).count() >= lines);
        wait(words, has_lines, async || self.log().await).await
    }

    /// Changes the key chain of the running supervisor.
    async fn change_keys(&self, keys: &str) -> Result<()> {
        self.write("keys.toml", keys).await?;
        self.guest.shell(&format!("kill -HUP $(cat /tmp/{NAME}.pid)")).await?;
        self.await_log("the configuration was read again", 1).await
    }

    /// Ends the supervisor by a signal that it passes on, and waits until nothing is left.
    async fn stop(self) -> Result<String> {
        self.guest.shell(&format!("kill -TERM $(cat /tmp/{NAME}.pid)")).await?;
        let ended = format!("test -z \"$(cat /proc/$(cat /tmp/{NAME}.pid)/cmdline 2>/dev/null)\"");
        let has_ended = async || Ok(self.guest.shell(&ended).await.is_ok());
        wait("the supervisor to end", has_ended, async || self.log().await).await?;
        self.daemon.end(self.guest).await?;
        self.log().await
    }
}

/// The key chain with its first key alone.
pub(super) fn first_key(keys: &str) -> Result<&str> {
    let second = keys.rfind("[[key-chain.key]]").context("there are two keys")?;
    Ok(&keys[..second])
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
    let supervised = Supervised::start(south, daemon, first_key(&both)?).await?;
    supervised.await_log(CONNECTING, 1).await?;
    bird.open().await?;
    let since = await_routes(&bird, 0).await?;
    let seconds = started.elapsed().as_secs_f64();

    supervised.change_keys(&both).await?;
    roll(lab, &bird, Port::South, &keys, set_clock).await?;
    check_still_up(&bird, 0, &since).await?;
    let log = supervised.log().await?;
    ensure!(log.matches(ACCEPTED).count() == 1, "the daemon has accepted another session: {log}");
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    counted.1.check_good("south")?;
    let end = match daemon {
        Daemon::GoBgp => kill(&bird, supervised, &since).await?,
        Daemon::Frr => run_out(lab, &bird, supervised, set_clock).await?,
    };
    bird.stop().await?;
    let counters = [
        ("BIRD's kernel", counted.0.to_string()),
        ("the daemon's kernel", counted.1.to_string()),
        ("the daemon's kernel, of what came at the end", end.to_string()),
    ];
    let mut evidence = evidence(lab, &keys, &counters, seconds)?;
    evidence.figures = evidence.figures.replace("routes each way", "routes from BIRD");
    Ok(evidence)
}

/// Kills the supervisor: the sessions go on for longer than the hold time, and once they are closed no other opens.
async fn kill(bird: &Bird<'_>, supervised: Supervised<'_>, since: &[String; 2]) -> Result<Counted> {
    let south = supervised.guest;
    south.shell(&format!("kill -9 $(cat /tmp/{NAME}.pid)")).await?;
    tokio::time::sleep(Duration::from_secs(u64::from(HOLD_TIME) + 2)).await;
    check_still_up(bird, 0, since).await?;
    let before = south.counters().await?;
    bird.restart(Family::Ipv4).await?;
    // GoBGP tries again after five seconds at most.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let state = bird.state(Family::Ipv4).await?;
    ensure!(state.state != "Established", "a session was opened without the supervisor");
    supervised.daemon.end(south).await?;
    bird.close().await?;
    let counted = south.counters().await?.since(&before);
    counted.check_good("south")?;
    Ok(counted)
}

/// Lets the key chain run out: the sessions are shut down, and BIRD cannot open any.
async fn run_out(
    lab: &Lab,
    bird: &Bird<'_>,
    supervised: Supervised<'_>,
    set_clock: impl AsyncFn(i64) -> Result<()>,
) -> Result<Counted> {
    let south = lab.south().await?;
    let before = south.counters().await?;
    set_clock(OVER).await?;
    supervised.await_log("no key is valid for sending: close the connection", 2).await?;
    // FRR calls BIRD again, and BIRD calls FRR, whose listener has a key that nobody knows.
    supervised.await_log("connect was refused", 1).await?;
    let refused = south.await_counted(&before, Counted::key_not_found(1)).await?;
    for family in Family::ALL {
        let state = bird.state(family).await?;
        ensure!(state.state != "Established", "BIRD's session over {family} is up");
    }
    bird.close().await?;
    supervised.stop().await?;
    Ok(refused)
}

async fn twin(lab: &Lab, daemon: Daemon) -> Result<Refusal> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let before = (lab.north.counters().await?, south.counters().await?);
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let supervised = Supervised::start(south, daemon, &key_file("what one end knows")).await?;
    bird.open().await?;
    let bad = Counted::bad(1);
    let counted =
        tokio::try_join!(lab.north.await_counted(&before.0, bad), south.await_counted(&before.1, bad))?;
    supervised.await_log("bad MAC under the", 1).await?;
    let log = supervised.stop().await?;
    bird.close().await?;
    bird.stop().await?;
    ensure!(!log.contains(ACCEPTED), "there was a session: {log}");
    Ok(Refusal::by("north", &counted.0).and(Refusal::by("south", &counted.1)))
}
