//! Two daemons without TCP-AO, each under `wireseal run`, against each other: over BGP, and over LDP (RFC 5036).

use std::time::Duration;

use agent::Counted;
use wireseal_keys::{KeyChains, Timestamp};
use wireseal_tcp_ao::{KeyId, Mkt};

use super::daemon::{Daemon, FOLDER, SESSION, Speaker, start as start_wireseal, supervise, write};
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::{
    ALONE, BOTH, FIRST, SECOND, SECRET, await_signed, await_signed_over, evidence, key_chain, key_file,
};
use crate::wait::Program;

/// Routes that FRR announces.
pub(super) const ROUTES: usize = 1_000;
const ALGORITHMS: [&str; 3] = ["AES-128-CMAC-96", "HMAC-SHA-1-96", "hmac(sha256)"];
/// Seconds from one moment of the key chain to the next: a key is accepted from one moment before its send lifetime to one after.
const STEP: i64 = 1000;

pub fn bgp() -> Row {
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
fn pair_key_file(is_frr: bool, secret: &str) -> String {
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
    let chains = KeyChains::from_toml(&pair_key_file(true, secret))?;
    let chain = chains.get("lab").context("the chain is there")?;
    Ok(chain.keys().iter().map(|key| key.mkt().clone()).collect())
}

/// The key files of GoBGP's end and of FRR's.
fn pair_key_files(secrets: [&str; 2]) -> [String; 2] {
    [pair_key_file(false, secrets[0]), pair_key_file(true, secrets[1])]
}

/// Starts both with their key files at a moment, GoBGP on the first guest and FRR on the second.
pub(super) async fn start<'a>(lab: &'a Lab, keys: &[String; 2], moment: i64) -> Result<[Program<'a>; 2]> {
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
    set_guest_clocks([&lab.north, south], moment).await?;
    Ok([
        supervise(&lab.north, Daemon::GoBgp, &gobgp, &keys[0]).await?,
        supervise(south, Daemon::Frr, &frr, &keys[1]).await?,
    ])
}

/// Takes both guests to a moment of the key chains.
async fn set_clocks(lab: &Lab, step: i64) -> Result<()> {
    set_guest_clocks([&lab.north, lab.south().await?], FIRST + step * STEP).await
}

/// FRR's established sessions, how often each was established, and the routes announced in all of them.
pub(super) async fn established(guest: &Guest) -> Result<(usize, u64, u64)> {
    let said = guest.shell("vtysh -c 'show bgp ipv4 unicast summary json' 2>/dev/null").await?;
    let summary: serde_json::Value = serde_json::from_str(&said)?;
    let peers = summary["peers"].as_object().context("there are peers")?;
    let up = peers.values().filter(|peer| peer["state"] == "Established");
    let sum = |name: &str| peers.values().filter_map(|peer| peer[name].as_u64()).sum();
    Ok((up.count(), sum("connectionsEstablished"), sum("pfxSnt")))
}

async fn run(lab: &Lab) -> Result<Evidence> {
    let south = lab.south().await?;
    let before = Both::of(&lab.north, south).await?;
    let [gobgp, frr] = start(lab, &pair_key_files(["what both ends know"; 2]), FIRST).await?;
    let expected = (2, 2, 2 * ROUTES as u64);
    let are_up = async || Ok(established(south).await? == expected);
    frr.wait("FRR's routes", are_up).await?;
    // Otherwise a session may get its first new key before the supervisor has found it, which takes up to a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    // A daemon may have needed another attempt before the other was ready.
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
            // At each end two listeners and two sessions get the new key and lose the old one.
            for (end, own) in [(&gobgp, 21), (&frr, 11)].into_iter().filter(|_| step < 5) {
                end.await_log(&format!("add the key with SendID {} ", own + (step + 1) / 2), 4).await?;
            }
        }
    }
    ensure!(established(south).await? == expected, "a session did not stay up");
    let counted = before.good().await?;
    for (end, opened) in [gobgp, frr].into_iter().zip(opened) {
        let log = end.stop().await?;
        ensure!(log.matches(SESSION).count() == opened, "there were other sessions: {log}");
    }
    Daemon::Frr.end(south).await?;
    let counters = [("GoBGP's kernel", counted[0]), ("FRR's kernel", counted[1])];
    let evidence = evidence(lab, &mkts("what both ends know")?, &counters, 0.0)?;
    let by_key = format!("segments by key: {:?}", evidence.wire.by_key);
    ensure!(evidence.wire.by_key.len() == 6, "{by_key}");
    Ok(evidence.with_figures(format!("{ROUTES} routes in each of 2 sessions, {by_key}")))
}

async fn twin(lab: &Lab) -> Result<Refusal> {
    let south = lab.south().await?;
    let before = Both::of(&lab.north, south).await?;
    let [gobgp, frr] =
        start(lab, &pair_key_files(["what one end knows", "what the other knows"]), FIRST).await?;
    let refusal = before.bad().await?;
    for end in [gobgp, frr] {
        end.await_log("bad MAC under the", 1).await?;
        let log = end.stop().await?;
        ensure!(!log.contains(SESSION), "there was a session: {log}");
    }
    Daemon::Frr.end(south).await?;
    Ok(refusal)
}

pub fn ldp() -> Row {
    Row::new(
        "run-ldp",
        "wireseal run at both ends, LDP between Debian's FRRs on two guests; the key chains roll over from AES-128-CMAC-96 to hmac(sha256), the \
         session stays up",
        run_ldp,
        "another secret at one end: no session",
        ldp_twin,
    )
}

/// The key chain of one end: the other's has the ids the other way round.
fn ldp_keys(at: Port, secret: &str) -> String {
    let text = key_file(secret);
    if at == Port::South {
        return text;
    }
    let exchanged = text.lines().map(|line| match line.split_once("-id = ") {
        Some(("send", id)) => format!("recv-id = {id}"),
        Some(("recv", id)) => format!("send-id = {id}"),
        _ => line.to_owned(),
    });
    exchanged.collect::<Vec<_>>().join("\n")
}

async fn start_ldp<'a>(guest: &'a Guest, peer: Port, secret: &str) -> Result<Program<'a>> {
    let (own, peer) = (guest.port().ipv4(), peer.ipv4());
    let configuration = format!(
        "log stdout informational\nmpls ldp\n router-id {own}\n neighbor {peer} session holdtime 15\n \
         address-family ipv4\n  discovery transport-address {own}\n  interface eth0\n  exit\n exit-address-family\n"
    );
    write(guest, "daemon.conf", &configuration).await?;
    write(guest, "keys.toml", &ldp_keys(guest.port(), secret)).await?;
    guest.shell("sysctl -q -w net.mpls.platform_labels=1000 net.mpls.conf.eth0.input=1").await?;
    Daemon::Frr.prepare(guest).await?;
    let command = format!(
        "run --keys {FOLDER}/keys.toml --peer {peer} --port 646 -- /usr/lib/frr/ldpd -f {FOLDER}/daemon.conf -i /run/frr/ldpd.pid \
         -z /run/frr/zserv.api --vty_socket /run/frr --ctl_socket /run/frr -A 127.0.0.1"
    );
    start_wireseal(guest, "run", &command).await
}

async fn set_guest_clocks(guests: [&Guest; 2], moment: i64) -> Result<()> {
    tokio::try_join!(guests[0].set_clock(moment), guests[1].set_clock(moment)).map(drop)
}

async fn run_ldp(lab: &Lab) -> Result<Evidence> {
    let (south, east) = (lab.south().await?, lab.east().await?);
    let (_, mkts) = key_chain(SECRET)?;
    let before = Both::of(south, east).await?;
    set_guest_clocks([south, east], FIRST).await?;
    let ends = [start_ldp(south, Port::East, SECRET).await?, start_ldp(east, Port::South, SECRET).await?];
    let is_operational = async || {
        let mut all = true;
        for end in &ends {
            let said = end.guest.shell("vtysh -c 'show mpls ldp neighbor' 2>/dev/null; true").await?;
            all &= said.contains("OPERATIONAL");
        }
        Ok(all)
    };
    ends[0].wait("the session", is_operational).await?;
    for (moment, ldp_keys) in [(BOTH, None), (SECOND, Some((12, 22))), (ALONE, Some((12, 22)))] {
        set_guest_clocks([south, east], moment).await?;
        if let Some((of_south, of_east)) = ldp_keys {
            await_signed_over(lab, Family::Ipv4, Port::South, KeyId(of_south)).await?;
            await_signed_over(lab, Family::Ipv4, Port::East, KeyId(of_east)).await?;
        }
    }
    ensure!(is_operational().await?, "the session did not stay up");
    let counted = before.good().await?;
    for end in ends {
        let guest = end.guest;
        let log = end.stop().await?;
        ensure!(log.matches(SESSION).count() == 1, "there were other sessions: {log}");
        Daemon::Frr.end(guest).await?;
    }
    let counters = [("south", counted[0]), ("east", counted[1])];
    let evidence = evidence(lab, &mkts, &counters, 0.0)?;
    let by_key = format!("segments by key: {:?}", evidence.wire.by_key);
    Ok(evidence.with_figures(by_key))
}

async fn ldp_twin(lab: &Lab) -> Result<Refusal> {
    let (south, east) = (lab.south().await?, lab.east().await?);
    let before = south.counters().await?;
    set_guest_clocks([south, east], FIRST).await?;
    let ends = [
        start_ldp(south, Port::East, SECRET).await?,
        start_ldp(east, Port::South, "what one end knows").await?,
    ];
    // The one with the higher address opens.
    let counted = south.await_counted(&before, Counted::bad(1)).await?;
    for end in ends {
        let guest = end.guest;
        let log = end.stop().await?;
        ensure!(!log.contains(SESSION), "there was a session: {log}");
        Daemon::Frr.end(guest).await?;
    }
    Ok(Refusal::by("south", &counted))
}
