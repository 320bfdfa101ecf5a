//! Two daemons without TCP-AO, each under `wireseal run`, against each other.

use std::time::Duration;

use wireseal_keys::{KeyChains, Timestamp};
use wireseal_tcp_ao::Mkt;

use super::daemon::{Daemon, Speaker};
use super::supervised::{SESSION, Supervised};
use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::bgp::common::{FIRST, await_signed, evidence};
use crate::rows::wait::wait;
use agent::Counted;

/// Routes that FRR announces.
const ROUTES: usize = 1_000;
const ALGORITHMS: [&str; 3] = ["AES-128-CMAC-96", "HMAC-SHA-1-96", "hmac(sha256)"];
/// Seconds from one moment of the key chain to the next: a key is accepted one before it is sent with, and one after.
const STEP: i64 = 1000;

pub fn row() -> Row {
    Row::new(
        "run-frr-gobgp",
        format!(
            "wireseal run at both ends, Debian's FRR with {ROUTES} routes and GoBGP; each opens a session, over IPv4 and IPv6; the key chains of \
             both roll over from {} to {} to {}, sessions stay up",
            ALGORITHMS[0], ALGORITHMS[1], ALGORITHMS[2]
        ),
        run,
        "another secret at one end: no session, and both logs say whose segments failed",
        twin,
    )
}

/// The key chain of one end; FRR's SendIDs begin with 11, GoBGP's with 21.
fn key_file(is_frr: bool, secret: &str) -> String {
    let mut text = "[[key-chain]]\nname = \"lab\"\n".to_owned();
    for (number, algorithm) in (0..).zip(ALGORITHMS) {
        let (own, other) = if is_frr { (11, 21) } else { (21, 11) };
        let moment = |step: i64| Timestamp::from_unix_seconds(FIRST + (2 * number + step) * STEP - STEP / 2);
        text += &format!(
            "[[key-chain.key]]\nsend-id = {}\nrecv-id = {}\nalgorithm = \"{algorithm}\"\nsecret = \"{secret} {number}, in 32 octets or more\"\n\
             send = {{ from = {}, until = {} }}\naccept = {{ from = {}, until = {} }}\n",
            own + number,
            other + number,
            moment(0),
            moment(2),
            moment(-1),
            moment(3)
        );
    }
    text
}

fn mkts(secret: &str) -> Result<Vec<Mkt>> {
    let chains = KeyChains::from_toml(&key_file(true, secret))?;
    let chain = chains.get("lab").context("the chain is there")?;
    Ok(chain.keys().iter().map(|key| key.mkt().clone()).collect())
}

/// Starts both, FRR on the second guest and GoBGP on the first.
async fn start<'a>(lab: &'a Lab, secrets: [&str; 2]) -> Result<[Supervised<'a>; 2]> {
    let south = lab.south().await?;
    let frr = Speaker { routes: ROUTES, ..Speaker::of_bird(Port::South) };
    let gobgp = Speaker {
        own: Port::North,
        own_as: frr.peer_as,
        peer: Port::South,
        peer_as: frr.own_as,
        opens: [false, true],
        vrf: None,
        routes: 0,
    };
    set_clocks(lab, 0).await?;
    Ok([
        Supervised::daemon(&lab.north, Daemon::GoBgp, &gobgp, &key_file(false, secrets[0])).await?,
        Supervised::daemon(south, Daemon::Frr, &frr, &key_file(true, secrets[1])).await?,
    ])
}

/// Takes both guests to a moment of the key chains.
async fn set_clocks(lab: &Lab, step: i64) -> Result<()> {
    let set = format!("date -u -s @{}", FIRST + step * STEP);
    tokio::try_join!(lab.north.shell(&set), lab.south().await?.shell(&set)).map(drop)
}

/// The sessions that FRR has established, how often each was, and the routes that it has announced in all of them.
async fn established(guest: &Guest) -> Result<(usize, u64, u64)> {
    let said = guest.shell("vtysh -c 'show bgp ipv4 unicast summary json' 2>/dev/null").await?;
    let summary: serde_json::Value = serde_json::from_str(&said)?;
    let peers = summary["peers"].as_object().context("there are peers")?;
    let up = peers.values().filter(|peer| peer["state"] == "Established");
    let sum = |name: &str| peers.values().filter_map(|peer| peer[name].as_u64()).sum();
    Ok((up.count(), sum("connectionsEstablished"), sum("pfxSnt")))
}

async fn run(lab: &Lab) -> Result<Evidence> {
    let south = lab.south().await?;
    let before = (lab.north.counters().await?, south.counters().await?);
    let [gobgp, frr] = start(lab, ["what both ends know"; 2]).await?;
    let expected = (2, 2, 2 * ROUTES as u64);
    let are_up = async || Ok(established(south).await? == expected);
    wait("FRR's routes", are_up, async || frr.log().await).await?;
    // Otherwise the first new key may come to a session before it is looked at, which happens once a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    // A daemon may have tried once more until the other was ready for it.
    let mut opened = Vec::new();
    for end in [&gobgp, &frr] {
        end.await_log(SESSION, 2).await?;
        opened.push(end.log().await?.matches(SESSION).count());
    }
    for step in 1..=5 {
        set_clocks(lab, step).await?;
        if step % 2 == 0 {
            let key = u8::try_from(step / 2)?;
            await_signed(lab, Port::South, wireseal_tcp_ao::KeyId(11 + key)).await?;
            await_signed(lab, Port::North, wireseal_tcp_ao::KeyId(21 + key)).await?;
        } else {
            // The new key comes to two listeners and two sessions at each end, and the old one goes.
            for (end, own) in [(&gobgp, 21), (&frr, 11)].into_iter().filter(|_| step < 5) {
                end.await_log(&format!("add the key with SendID {} ", own + (step + 1) / 2), 4).await?;
            }
        }
    }
    ensure!(established(south).await? == expected, "a session did not stay up");
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    counted.1.check_good("south")?;
    for (end, opened) in [gobgp, frr].into_iter().zip(opened) {
        let log = end.stop().await?;
        ensure!(log.matches(SESSION).count() == opened, "there were other sessions: {log}");
    }
    Daemon::Frr.end(south).await?;
    let counters = [("GoBGP's kernel", counted.0.to_string()), ("FRR's kernel", counted.1.to_string())];
    let evidence = evidence(lab, &mkts("what both ends know")?, &counters, 0.0)?;
    let by_key = format!("segments by key: {:?}", evidence.wire.by_key);
    ensure!(evidence.wire.by_key.len() == 6, "{by_key}");
    Ok(evidence.with_figures(format!("{ROUTES} routes in each of 2 sessions, {by_key}")))
}

async fn twin(lab: &Lab) -> Result<Refusal> {
    let south = lab.south().await?;
    let before = (lab.north.counters().await?, south.counters().await?);
    let [gobgp, frr] = start(lab, ["what one end knows", "what the other knows"]).await?;
    let bad = Counted::bad(1);
    let counted =
        tokio::try_join!(lab.north.await_counted(&before.0, bad), south.await_counted(&before.1, bad))?;
    for end in [gobgp, frr] {
        end.await_log("bad MAC under the", 1).await?;
        let log = end.stop().await?;
        ensure!(!log.contains(SESSION), "there was a session: {log}");
    }
    Daemon::Frr.end(south).await?;
    Ok(Refusal::by("north", &counted.0).and(Refusal::by("south", &counted.1)))
}
