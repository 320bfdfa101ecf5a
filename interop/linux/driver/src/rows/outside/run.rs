//! Daemons under `wireseal run` on the second guest, against BIRD: by themselves, in a VRF, and as a service of systemd.

use std::time::{Duration, Instant};

use agent::{Counted, WriteFile};
use wireseal_keys::Timestamp;

use super::daemon::{
    CONNECTING, Daemon, FOLDER, SESSION, Speaker, change_keys, peers, start as start_wireseal, supervise,
    write,
};
use super::package::install;
use super::pages::forget;
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::{
    FIRST, OVER, SECRET, await_routes, begin, by_clock, check_still_up, evidence, key_chain, key_file,
    key_file_at, roll,
};
use crate::rows::bird::{Bird, HOLD_TIME, Since, State, tcp_ao};
use crate::wait::Program;

const WHAT: &str = "against BIRD: sessions over IPv4 (opened by the daemon) and IPv6 (opened by BIRD) with 10,000 routes in each; the key chain \
                    changes on SIGHUP and rolls over from AES-128-CMAC-96 to hmac(sha256), sessions stay up";

pub fn daemons() -> Vec<Row> {
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

/// The key chain with only its first key.
pub fn first_key(keys: &str) -> Result<&str> {
    let second = keys.rfind("[[key-chain.key]]").context("there are two keys")?;
    Ok(&keys[..second])
}

async fn run(lab: &Lab, daemon: Daemon) -> Result<Evidence> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let both = key_file(SECRET);
    let set_clock = async |seconds| south.set_clock(seconds).await;
    let started = Instant::now();
    let (bird, before) = begin(lab).await?;
    let speaker = Speaker::of_bird(Port::South);
    let supervised = supervise(south, daemon, &speaker, first_key(&both)?).await?;
    supervised.await_log(CONNECTING, 1).await?;
    bird.open().await?;
    let since = await_routes(&bird, 0).await?;
    let seconds = started.elapsed().as_secs_f64();

    if daemon == Daemon::ExaBgp {
        // Its timers use the wall clock, so setting the clock ends its sessions.
        let now: i64 = south.shell("date +%s").await?.trim().parse()?;
        let at = |moment| Timestamp::from_unix_seconds(by_clock(now, moment));
        change_keys(&supervised, &key_file_at(SECRET, at)).await?;
        let wait = async |moment| {
            let until = by_clock(now, moment);
            south.shell(&format!("while [ $(date +%s) -lt {until} ]; do sleep 0.2; done")).await.map(drop)
        };
        roll(lab, &bird, Port::South, &keys, wait).await?;
    } else {
        change_keys(&supervised, &both).await?;
        roll(lab, &bird, Port::South, &keys, set_clock).await?;
    }
    check_still_up(&bird, 0, &since).await?;
    let log = supervised.log().await?;
    ensure!(log.matches(SESSION).count() == 2, "there were other sessions: {log}");
    check_status(&supervised).await?;
    let counted = before.good().await?;
    let end = match daemon {
        Daemon::GoBgp => kill(&bird, supervised, &since).await?,
        Daemon::Frr => run_out(lab, &bird, supervised, set_clock).await?,
        Daemon::ExaBgp => {
            supervised.stop().await?;
            bird.close().await?;
            before.good().await?[1]
        }
    };
    daemon.end(south).await?;
    bird.stop().await?;
    let counters = [
        ("BIRD's kernel", counted[0]),
        ("the daemon's kernel", counted[1]),
        ("the daemon's kernel, of what came at the end", end),
    ];
    let mut evidence = evidence(lab, &keys, &counters, seconds)?;
    evidence.figures = evidence.figures.replace("routes each way", "routes from BIRD");
    Ok(evidence)
}

/// Checks that `wireseal status` knows both sessions, their keys at both ends, and their segments.
async fn check_status(supervised: &Program<'_>) -> Result<()> {
    let command = "wireseal status --json --pid $(cat /tmp/run.pid)";
    let said = supervised.guest.shell(command).await?;
    let status = serde_json::from_str::<serde_json::Value>(&said)?[0].take();
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
async fn kill(bird: &Bird<'_>, supervised: Program<'_>, since: &[Since]) -> Result<Counted> {
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
    let again = start_wireseal(south, "run", &run).await?;
    bird.await_routes(Family::Ipv4, 0).await?;
    again.await_log(SESSION, 1).await?;
    let counted = south.counters().await?.since(&before);
    // It ends with the program.
    south.shell("pkill -9 gobgpd").await?;
    again.await_end().await?;
    bird.close().await?;
    counted.check_good("south")
}

/// Lets the key chain expire: the sessions are shut down, and BIRD cannot open any.
async fn run_out(
    lab: &Lab,
    bird: &Bird<'_>,
    supervised: Program<'_>,
    set_clock: impl AsyncFn(i64) -> Result<()>,
) -> Result<Counted> {
    let south = lab.south().await?;
    let before = south.counters().await?;
    set_clock(OVER).await?;
    supervised.await_log("no key is valid for sending: close the connection", 2).await?;
    // FRR and BIRD call each other again; FRR's listener has a key that nobody knows.
    supervised.await_log("connect was refused", 1).await?;
    let refused = south.await_counted(&before, Counted::key_not_found(1)).await?;
    bird.check_kept_out().await?;
    bird.close().await?;
    supervised.stop().await?;
    Ok(refused)
}

async fn twin(lab: &Lab, daemon: Daemon) -> Result<Refusal> {
    let south = lab.south().await?;
    let (bird, before) = begin(lab).await?;
    let speaker = Speaker::of_bird(Port::South);
    let supervised = supervise(south, daemon, &speaker, &key_file("what one end knows")).await?;
    bird.open().await?;
    let refusal = before.bad().await?;
    supervised.await_log("bad MAC under the", 1).await?;
    let log = supervised.stop().await?;
    daemon.end(south).await?;
    bird.close().await?;
    bird.stop().await?;
    ensure!(!log.contains(SESSION), "there was a session: {log}");
    Ok(refusal)
}

pub const VRF: &str = "vrf-blue";

pub fn vrf() -> Row {
    Row::new(
        "run-vrf",
        "wireseal run, with Debian's FRR in a VRF, whose peer is named with that VRF, against BIRD: sessions over IPv4 (opened by FRR) and IPv6 \
         (opened by BIRD) with 10,000 routes in each",
        async |lab| within(lab, async |south| run_in_vrf(lab, south).await).await,
        "the peer is named with another VRF: FRR calls unsigned, and BIRD's kernel refuses it",
        async |lab| within(lab, async |south| twin_in_vrf(lab, south).await).await,
    )
}

/// Runs `act` while the guest's interface is in the VRF.
pub async fn within<T>(lab: &Lab, act: impl AsyncFn(&Guest) -> Result<T>) -> Result<T> {
    let south = lab.south().await?;
    let enter = format!(
        "ip link add {VRF} type vrf table 1001 && ip link add vrf-other type vrf table 1002 && ip link set {VRF} up && \
         ip link set vrf-other up && sysctl -q -w net.ipv6.conf.eth0.keep_addr_on_down=1 && ip link set eth0 master {VRF}"
    );
    south.shell(&enter).await?;
    let result = act(south).await;
    Daemon::Frr.end(south).await?;
    let leave = format!(
        "ip link set eth0 nomaster && ip link del {VRF} && ip link del vrf-other && \
         (ip -6 address show dev eth0 | grep -q {0}/ || ip -6 address add {0}/64 dev eth0)",
        Port::South.ipv6()
    );
    south.shell(&leave).await?;
    result
}

/// BIRD, the counters before it, and FRR in the VRF under `wireseal run`, with both sessions.
pub async fn begin_in_vrf<'l>(lab: &'l Lab, south: &'l Guest) -> Result<(Bird<'l>, Both<'l>, Program<'l>)> {
    let (bird, before) = begin(lab).await?;
    let speaker = Speaker { vrf: Some(VRF), ..Speaker::of_bird(Port::South) };
    let supervised = supervise(south, Daemon::Frr, &speaker, &key_file(SECRET)).await?;
    bird.open().await?;
    await_routes(&bird, 0).await?;
    supervised.await_log(SESSION, 2).await?;
    Ok((bird, before, supervised))
}

async fn run_in_vrf(lab: &Lab, south: &Guest) -> Result<Evidence> {
    let (_, keys) = key_chain(SECRET)?;
    let (bird, before, supervised) = begin_in_vrf(lab, south).await?;
    let counted = before.good().await?;
    bird.stop().await?;
    supervised.stop().await?;
    let counters = [("BIRD's kernel", counted[0]), ("FRR's kernel", counted[1])];
    let evidence = evidence(lab, &keys[..1], &counters, 0.0)?;
    Ok(evidence.with_figures("10,000 routes from BIRD in each of 2 sessions"))
}

async fn twin_in_vrf(lab: &Lab, south: &Guest) -> Result<Refusal> {
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    south.set_clock(FIRST).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let speaker = Speaker { vrf: Some(VRF), ..Speaker::of_bird(Port::South) };
    let supervised = supervise(south, Daemon::Frr, &speaker, &key_file(SECRET)).await?;
    write(south, "wireseal.toml", &peers(Port::North, Some("vrf-other"))).await?;
    change_keys(&supervised, &key_file(SECRET)).await?;
    let counted = lab.north.await_counted(&before, Counted::required(1)).await?;
    let log = supervised.log().await?;
    let state = bird.state(Family::Ipv4).await?;
    bird.stop().await?;
    supervised.stop().await?;
    ensure!(state.state != "Established", "there was a session: {log}");
    Ok(Refusal::by("north", &counted))
}

/// Daemons as the package's unit runs them: the instance's name, the command, and the daemon's configuration.
const GOBGP: (&str, &str, &str) = (
    "gobgpd",
    "/usr/bin/gobgpd -f /etc/gobgpd.toml --config-type toml --api-hosts 127.0.0.1:50051",
    "/etc/gobgpd.toml",
);
/// It changes its user.
const BIRD: (&str, &str, &str) = (
    "bird",
    "/usr/sbin/bird -f -u bird -g bird -c /etc/bird/lab.conf -s /run/bird/bird.ctl",
    "/etc/bird/lab.conf",
);

pub fn service() -> Row {
    Row::new(
        "run-service",
        "Debian's GoBGP as systemd's wireseal-run@gobgpd.service from the .deb, against BIRD: a session with 10,000 routes; then the supervisor is killed, \
         systemd kills the daemon and starts both again, and the next session is signed; then BIRD without keys of its own as wireseal-run@bird.service",
        async |lab| around(lab, run_service).await,
        "another secret at one end: no session",
        async |lab| around(lab, twin_of_service).await,
    )
}

/// Runs `act` with the package, and undoes on the guest what the services have changed.
async fn around<T>(lab: &Lab, act: impl AsyncFn(&Lab, &Guest) -> Result<T>) -> Result<T> {
    let south = lab.south().await?;
    south.set_clock(FIRST).await?;
    install(south).await?;
    let result = act(lab, south).await;
    let log = south.shell("journalctl --no-pager -o cat -n 30 -u 'wireseal-run@*'").await?;
    south.shell("systemctl stop 'wireseal-run@*'; journalctl --rotate --vacuum-time=1s -q").await?;
    forget(south).await?;
    result.with_context(|| format!("the services' log: {log}"))
}

async fn start_service(
    south: &Guest,
    (name, command, path): (&str, &str, &str),
    configuration: String,
    secret: &str,
) -> Result<()> {
    for (path, contents) in [
        (path.to_owned(), configuration),
        (format!("/etc/wireseal/{name}.env"), format!("DAEMON={command}\n")),
        (format!("/etc/wireseal/{name}.toml"), peers(Port::North, None)),
        ("/etc/wireseal/keys.toml".to_owned(), first_key(&key_file(secret))?.to_owned()),
    ] {
        south.call(WriteFile { path, contents }).await?;
    }
    south.shell(&format!("systemctl start wireseal-run@{name}")).await.map(drop)
}

async fn run_service(lab: &Lab, south: &Guest) -> Result<Evidence> {
    let (_, keys) = key_chain(SECRET)?;
    let before = Both::of(&lab.north, south).await?;
    let speaker = Speaker::of_bird(Port::South);
    start_service(south, GOBGP, Daemon::GoBgp.configuration(&speaker), SECRET).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let first = bird.await_routes(Family::Ipv4, 0).await?;
    let main = "systemctl show -p MainPID --value wireseal-run@gobgpd";
    let supervisor = south.shell(main).await?;
    south.shell(&format!("kill -9 {supervisor}")).await?;
    let second = next_session(&bird, &first).await?;
    ensure!(south.shell(main).await? != supervisor, "it was not started again");
    south.shell("systemctl stop wireseal-run@gobgpd; mkdir -p /run/bird; chown bird: /run/bird").await?;
    start_service(south, BIRD, another_bird(&speaker), SECRET).await?;
    next_session(&bird, &second).await?;
    let counted = before.good().await?;
    bird.stop_alone().await?;
    let counters = [("BIRD's kernel", counted[0]), ("the daemons' kernel", counted[1])];
    let evidence = evidence(lab, &keys[..1], &counters, 0.0)?;
    Ok(evidence.with_figures("10,000 routes from BIRD, in each of three sessions"))
}

/// Waits for another session with all routes.
async fn next_session(bird: &Bird<'_>, last: &State) -> Result<State> {
    let is_another = async || {
        let state = bird.state(Family::Ipv4).await?;
        Ok(state.state == "Established" && state.since != last.since)
    };
    bird.program.wait("the next session", is_another).await?;
    bird.await_routes(Family::Ipv4, 0).await
}

/// BIRD's configuration at the other end, without TCP-AO.
fn another_bird(speaker: &Speaker) -> String {
    let Speaker { own, own_as, peer, peer_as, .. } = speaker;
    format!(
        "router id {own};\nprotocol device {{ }}\nprotocol bgp {{\nlocal {own} as {own_as};\nneighbor {peer} as {peer_as};\n\
         connect delay time 1;\nconnect retry time 5;\nerror wait time 1, 5;\nhold time {HOLD_TIME};\n\
         ipv4 {{ import all; export none; }};\nipv6 {{ import all; export none; }};\n}}\n",
        own = own.ipv4(),
        peer = peer.ipv4()
    )
}

async fn twin_of_service(lab: &Lab, south: &Guest) -> Result<Refusal> {
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    let configuration = Daemon::GoBgp.configuration(&Speaker::of_bird(Port::South));
    start_service(south, GOBGP, configuration, "what one end knows").await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let counted = lab.north.await_counted(&before, Counted::bad(1)).await?;
    let state = bird.state(Family::Ipv4).await?;
    bird.stop().await?;
    ensure!(state.state != "Established", "there was a session");
    Ok(Refusal::by("north", &counted))
}
