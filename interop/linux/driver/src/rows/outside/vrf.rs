//! A daemon in a VRF, under `wireseal run`.

use agent::Counted;

use super::daemon::{Daemon, Speaker, peers, write};
use super::supervised::{SESSION, Supervised};
use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::bgp::bird::{Bird, tcp_ao};
use crate::rows::bgp::common::{FIRST, SECRET, await_routes, evidence, key_chain, key_file};

const VRF: &str = "vrf-blue";

pub fn row() -> Row {
    Row::new(
        "run-vrf",
        "wireseal run, with Debian's FRR in a VRF, whose peer is named with that VRF, against BIRD: sessions over IPv4 (opened by FRR) and IPv6 \
         (opened by BIRD) with 10,000 routes in each",
        async |lab| within(lab, async |south| run(lab, south).await).await,
        "the peer is named with another VRF: FRR calls unsigned, and BIRD's kernel refuses it",
        async |lab| within(lab, async |south| twin(lab, south).await).await,
    )
}

/// Does something while the guest's interface is in the VRF.
async fn within<T>(lab: &Lab, act: impl AsyncFn(&Guest) -> Result<T>) -> Result<T> {
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

async fn run(lab: &Lab, south: &Guest) -> Result<Evidence> {
    let (_, keys) = key_chain(SECRET)?;
    let before = (lab.north.counters().await?, south.counters().await?);
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let speaker = Speaker { vrf: Some(VRF), ..Speaker::of_bird(Port::South) };
    let supervised = Supervised::daemon(south, Daemon::Frr, &speaker, &key_file(SECRET)).await?;
    bird.open().await?;
    await_routes(&bird, 0).await?;
    supervised.await_log(SESSION, 2).await?;
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    counted.1.check_good("south")?;
    bird.stop().await?;
    supervised.stop().await?;
    let counters = [("BIRD's kernel", counted.0.to_string()), ("FRR's kernel", counted.1.to_string())];
    let evidence = evidence(lab, &keys[..1], &counters, 0.0)?;
    Ok(evidence.with_figures("10,000 routes from BIRD in each of 2 sessions"))
}

async fn twin(lab: &Lab, south: &Guest) -> Result<Refusal> {
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let speaker = Speaker { vrf: Some(VRF), ..Speaker::of_bird(Port::South) };
    let supervised = Supervised::daemon(south, Daemon::Frr, &speaker, &key_file(SECRET)).await?;
    write(south, "wireseal.toml", &peers(Port::North, Some("vrf-other"))).await?;
    supervised.change_keys(&key_file(SECRET)).await?;
    let counted = lab.north.await_counted(&before, Counted::required(1)).await?;
    let log = supervised.log().await?;
    let state = bird.state(Family::Ipv4).await?;
    bird.stop().await?;
    supervised.stop().await?;
    ensure!(state.state != "Established", "there was a session: {log}");
    Ok(Refusal::by("north", &counted))
}
