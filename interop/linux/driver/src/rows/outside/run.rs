//! Daemons under `wireseal run` on the second guest, against BIRD.

use std::time::{Duration, Instant};

use agent::Counted;
use wireseal_keys::Timestamp;

use super::daemon::{Daemon, FOLDER, Speaker};
use super::supervised::{CONNECTING, SESSION, Supervised};
use crate::prelude::*;
use crate::rows::bgp::bird::{Bird, HOLD_TIME, Since, tcp_ao};
use crate::rows::bgp::common::{
    FIRST, OVER, SECRET, await_routes, by_clock, check_still_up, evidence, key_chain, key_file, key_file_at,
    roll,
};

const WHAT: &str = "against BIRD: sessions over IPv4 (opened by the daemon) and IPv6 (opened by BIRD) with 10,000 routes in each; the key chain \
                    changes on SIGHUP and rolls over from AES-128-CMAC-96 to hmac(sha256), sessions stay up";

pub fn rows() -> Vec<Row> {
    let row = |name: &str, program: &str, daemon: Daemon, end: &str| {
        Row::new(
            format!("run-{name}"),
            format!("wireseal run, with Debian's {program} {WHAT}; {end}"),
            async move |lab: &Lab| run(lab, daemon).await,
            "another secret at one end: no session, and the supervisor's log says whose segments failed",
            async move |lab: &Lab| twin(lab, daemon).await,
        )
    };
    vec![
        row(
            "gobgp",
            "GoBGP",
            Daemon::GoBgp,
            "then the supervisor is killed: sessions go on, and no new one opens until the daemon is started again under wireseal run",
        ),
        row(
            "frr",
            "FRR",
            Daemon::Frr,
            "then the chain runs out: sessions are shut down, and BIRD is kept out",
        ),
        row("exabgp", "ExaBGP", Daemon::ExaBgp, "SIGTERM ends both"),
    ]
}

/// The key chain with its first key alone.
pub fn first_key(keys: &str) -> Result<&str> {
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
    let speaker = Speaker::of_bird(Port::South);
    let supervised = Supervised::daemon(south, daemon, &speaker, first_key(&both)?).await?;
    supervised.await_log(CONNECTING, 1).await?;
    bird.open().await?;
    let since = await_routes(&bird, 0).await?;
    let seconds = started.elapsed().as_secs_f64();

    if daemon == Daemon::ExaBgp {
        // Its timers go by the clock, so that one that is set ends its sessions.
        let now: i64 = south.shell("date +%s").await?.trim().parse()?;
        let at = |moment| Timestamp::from_unix_seconds(by_clock(now, moment));
        supervised.change_keys(&key_file_at(SECRET, at)).await?;
        let wait = async |moment| {
            let until = by_clock(now, moment);
            south.shell(&format!("while [ $(date +%s) -lt {until} ]; do sleep 0.2; done")).await.map(drop)
        };
        roll(lab, &bird, Port::South, &keys, wait).await?;
    } else {
        supervised.change_keys(&both).await?;
        roll(lab, &bird, Port::South, &keys, set_clock).await?;
    }
    check_still_up(&bird, 0, &since).await?;
    let log = supervised.log().await?;
    ensure!(log.matches(SESSION).count() == 2, "there were other sessions: {log}");
    check_status(&supervised).await?;
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    counted.1.check_good("south")?;
    let end = match daemon {
        Daemon::GoBgp => kill(&bird, supervised, &since).await?,
        Daemon::Frr => run_out(lab, &bird, supervised, set_clock).await?,
        Daemon::ExaBgp => {
            supervised.stop().await?;
            bird.close().await?;
            south.counters().await?.since(&before.1).check_good("south")?
        }
    };
    daemon.end(south).await?;
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

/// Whether `wireseal status` knows both sessions, their keys at both ends, and their segments.
async fn check_status(supervised: &Supervised<'_>) -> Result<()> {
    let status = supervised.status().await?;
    let peers = status["peers"].as_array().context("there are peers")?;
    ensure!(peers.len() == 2, "status: {status}");
    for peer in peers {
        let session = &peer["sessions"][0];
        let is_good = session["is-established"] == true
            && (&session["send-id"], &session["asked-for"]) == (&12.into(), &22.into())
            && session["is-peer-behind"] == false
            && peer["segments"]["good"].as_u64() > Some(5)
            && peer["segments"]["bad-mac"] == 0;
        ensure!(is_good && peer["sessions"].as_array().is_some_and(|all| all.len() == 1), "status: {status}");
    }
    Ok(())
}

/// Kills the supervisor: the sessions go on for longer than the hold time, and once they are closed no other opens, until the daemon is
/// started again under another.
async fn kill(bird: &Bird<'_>, supervised: Supervised<'_>, since: &[Since; 2]) -> Result<Counted> {
    let south = supervised.guest;
    supervised.signal("KILL").await?;
    tokio::time::sleep(Duration::from_secs(u64::from(HOLD_TIME) + 2)).await;
    check_still_up(bird, 0, since).await?;
    let before = south.counters().await?;
    bird.restart(Family::Ipv4).await?;
    // GoBGP tries again after five seconds at most.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let state = bird.state(Family::Ipv4).await?;
    ensure!(state.state != "Established", "a session was opened without the supervisor");
    Daemon::GoBgp.end(south).await?;
    let run = format!("run --config {FOLDER}/wireseal.toml -- {}", Daemon::GoBgp.command());
    let again = Supervised::start(south, "run", &run).await?;
    bird.await_routes(Family::Ipv4, 0).await?;
    again.await_log(SESSION, 1).await?;
    let counted = south.counters().await?.since(&before);
    // It ends with the program.
    south.shell("pkill -9 gobgpd").await?;
    again.await_end().await?;
    bird.close().await?;
    counted.check_good("south")
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
    let speaker = Speaker::of_bird(Port::South);
    let supervised = Supervised::daemon(south, daemon, &speaker, &key_file("what one end knows")).await?;
    bird.open().await?;
    let bad = Counted::bad(1);
    let counted =
        tokio::try_join!(lab.north.await_counted(&before.0, bad), south.await_counted(&before.1, bad))?;
    supervised.await_log("bad MAC under the", 1).await?;
    let log = supervised.stop().await?;
    daemon.end(south).await?;
    bird.close().await?;
    bird.stop().await?;
    ensure!(!log.contains(SESSION), "there was a session: {log}");
    Ok(Refusal::by("north", &counted.0).and(Refusal::by("south", &counted.1)))
}
