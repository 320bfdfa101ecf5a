//! A daemon as a service of systemd, by the unit in crates/cli/systemd.

use agent::{Counted, WriteFile};

use super::daemon::{Daemon, Speaker, peers, write};
use super::run::first_key;
use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::bgp::bird::{Bird, tcp_ao};
use crate::rows::bgp::common::{FIRST, SECRET, evidence, key_chain, key_file};
use crate::rows::wait::wait;

const SERVICE: &str = "wireseal-run@gobgpd";

pub fn row() -> Row {
    Row::new(
        "run-service",
        "Debian's GoBGP as systemd's wireseal-run@gobgpd.service, against BIRD: a session with 10,000 routes; then the supervisor is killed, systemd \
         kills the daemon and starts both again, and the next session is signed",
        async |lab| around(lab, run).await,
        "another secret at one end: no session",
        async |lab| around(lab, twin).await,
    )
}

/// Takes the guest back to where it was.
async fn around<T>(lab: &Lab, act: impl AsyncFn(&Lab, &Guest) -> Result<T>) -> Result<T> {
    let south = lab.south().await?;
    let result = act(lab, south).await;
    let log = south.shell(&format!("journalctl --no-pager -o cat -u {SERVICE}")).await?;
    south.shell(&format!("systemctl stop {SERVICE}; rm -rf /etc/wireseal /usr/local/bin/wireseal; journalctl --rotate --vacuum-time=1s -q")).await?;
    result.with_context(|| format!("the service's log: {log}"))
}

async fn start(south: &Guest, secret: &str) -> Result<()> {
    let speaker = Speaker::of_bird(Port::South);
    south.shell(&format!("date -u -s @{FIRST}; mkdir -p /etc/wireseal; ln -sf ../sbin/wireseal /usr/local/bin/wireseal; cp systemd/*.service /etc/systemd/system/; systemctl daemon-reload")).await?;
    write(south, "daemon.conf", &Daemon::GoBgp.configuration(&speaker)).await?;
    for (name, contents) in [
        (
            "gobgpd.env",
            format!("DAEMON={}\n", Daemon::GoBgp.command().replace("gobgpd ", "/usr/bin/gobgpd ")),
        ),
        ("gobgpd.toml", peers(Port::North, None)),
        ("keys.toml", first_key(&key_file(secret))?.to_owned()),
    ] {
        south.call(WriteFile { path: format!("/etc/wireseal/{name}"), contents }).await?;
    }
    south.shell(&format!("systemctl start {SERVICE}")).await.map(drop)
}

async fn run(lab: &Lab, south: &Guest) -> Result<Evidence> {
    let (_, keys) = key_chain(SECRET)?;
    let before = (lab.north.counters().await?, south.counters().await?);
    start(south, SECRET).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let first = bird.await_routes(Family::Ipv4, 0).await?;
    let main = format!("systemctl show -p MainPID --value {SERVICE}");
    let supervisor = south.shell(&main).await?;
    south.shell(&format!("kill -9 {supervisor}")).await?;
    let is_another = async || {
        let state = bird.state(Family::Ipv4).await?;
        Ok(state.state == "Established" && state.since != first.since)
    };
    wait("the next session", is_another, async || Ok(String::new())).await?;
    bird.await_routes(Family::Ipv4, 0).await?;
    ensure!(south.shell(&main).await? != supervisor, "it was not started again");
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    counted.1.check_good("south")?;
    bird.stop_alone().await?;
    let counters = [("BIRD's kernel", counted.0.to_string()), ("the daemon's kernel", counted.1.to_string())];
    let evidence = evidence(lab, &keys[..1], &counters, 0.0)?;
    Ok(evidence.with_figures("10,000 routes from BIRD, in each of two sessions"))
}

async fn twin(lab: &Lab, south: &Guest) -> Result<Refusal> {
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    start(south, "what one end knows").await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let counted = lab.north.await_counted(&before, Counted::bad(1)).await?;
    let state = bird.state(Family::Ipv4).await?;
    bird.stop().await?;
    ensure!(state.state != "Established", "there was a session");
    Ok(Refusal::by("north", &counted))
}
