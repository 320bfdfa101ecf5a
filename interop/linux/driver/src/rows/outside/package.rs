//! The Debian package on a machine with systemd: installed by halves, upgraded under a session, removed and purged.

use std::time::Duration;

use agent::Counted;
use tokio::time::sleep;

use super::daemon::{Daemon, await_no_sockets};
use super::pages::{GATEWAY, Reader, forget};
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::evidence;
use crate::rows::bird::HOLD_TIME;

const SERVICE: &str = "wireseal-gateway";
const CHECK: &str = "wireseal-gateway-check@frr";
/// The units that the package brings, as `systemd-analyze security` rates them.
const UNITS: [&str; 3] = [SERVICE, CHECK, "wireseal-run@gobgpd"];

/// All files, but what Debian's tools, systemd, FRR's daemons and the rows write about themselves.
const FILES: &str = r"find / /run -xdev \( -path /tmp -o -path /var/log -o -path /var/cache -o -path /var/tmp -o -path /var/lib/dpkg -o -path /var/lib/apt \
    -o -path /run/frr -o -path /run/log -o -path '/run/systemd/*' -o -path '/run/*.lock' -o -path /var/lib/frr -o -path /var/lib/systemd \) -prune -o -print | sort";

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "package-by-halves",
            "the .deb is installed, and the rest done piece by piece; on Debian 13 with its own kernel and systemd: without keys, without peers and with \
             a damaged configuration the gateway ends with one line that says what is missing, is not started again, and FRR does not start; then both \
             start",
            async |lab| by_halves(lab).await,
            "no peer is ever named: FRR does not start",
            async |lab| without_peers(lab).await,
        ),
        Row::new(
            "package-upgrade-and-purge",
            "the .deb is upgraded, removed and purged under a gateway's session; on Debian 13 with its own kernel and systemd, FRR against BIRD: the \
             session stays up and all its segments are signed; remove says that packets pass unsigned, and leaves no rule and no unit; purge leaves \
             no file",
            async |lab| upgrade_and_purge(lab).await,
            "the gateway has no --state: an upgrade ends the session",
            async |lab| upgrade_without_state(lab).await,
        ),
    ]
}

/// Installs the package as the pages do, if it is not installed, without an administrator's keys and peers.
pub async fn install(guest: &Guest) -> Result<()> {
    guest.shell("cd /root && apt-get install ./wireseal_*_amd64.deb").await?;
    forget(guest).await
}

async fn purge(guest: &Guest) -> Result<()> {
    guest.shell("dpkg -s wireseal >/dev/null 2>&1 || exit 0; apt-get purge wireseal").await.map(drop)
}

/// Starts a service, which has to fail at once and for good; returns the one line that `unit` has written.
async fn fails(guest: &Guest, service: &str, unit: &str) -> Result<String> {
    guest.shell("journalctl --rotate --vacuum-time=1s -q").await?;
    let starts = guest.shell(&format!("systemctl start {service}")).await;
    ensure!(starts.is_err(), "{service} starts");
    // Were it started again, that would be after a second.
    sleep(Duration::from_millis(1500)).await;
    let state = guest.shell(&format!("systemctl show -p NRestarts -p ActiveState {service}")).await?;
    let is_active = state.contains("ActiveState=activ");
    ensure!(!is_active && state.contains("NRestarts=0"), "{service} is started again: {state}");
    let said = guest.shell(&format!("journalctl --no-pager -o cat _SYSTEMD_UNIT={unit}.service")).await?;
    let [line] = said.lines().collect::<Vec<_>>()[..] else {
        bail!("{unit} says more or less than one line: {said}")
    };
    Ok(line.to_owned())
}

/// Runs `act` on the guest with the package and FRR, and takes away what it has added.
async fn installed<T>(lab: &Lab, act: impl AsyncFn(&Guest) -> Result<T>) -> Result<T> {
    let guest = lab.stock().await?;
    Daemon::Frr.end(guest).await?;
    install(guest).await?;
    guest.shell(&format!("systemctl enable {CHECK}")).await?;
    let result = act(guest).await;
    let log =
        guest.shell(&format!("journalctl --no-pager -o cat -n 20 -u {SERVICE} -u {CHECK} -u frr")).await?;
    GATEWAY.leave(guest).await?;
    result.with_context(|| format!("the log: {log}"))
}

const NEW_KEYS: &str = "wireseal keys new core --output /etc/wireseal/keys.toml";

async fn by_halves(lab: &Lab) -> Result<Evidence> {
    let said = installed(lab, async |guest| {
        let mut said = Vec::new();
        for (step, missing) in [
            ("true", "keys.toml"),
            (NEW_KEYS, "peer"),
            ("echo '\"192.0.2.2\" = core' >>/etc/wireseal/gateway.toml", "gateway.toml"),
        ] {
            guest.shell(step).await?;
            let line = fails(guest, SERVICE, SERVICE).await?;
            ensure!(line.contains(missing), "the line is not about {missing}: {line}");
            said.push(line);
        }
        said.push(fails(guest, "frr", CHECK).await?);
        guest.shell("sed -i 's/= core/= \"core\"/' /etc/wireseal/gateway.toml").await?;
        guest.shell(&format!("systemctl start {SERVICE} && systemctl start frr")).await?;
        let active = guest.shell(&format!("systemctl is-active {SERVICE} frr")).await?;
        ensure!(active == "active\nactive\n", "the gateway and FRR are {active}");
        for unit in UNITS {
            let rated =
                guest.shell(&format!("systemd-analyze security --no-pager {unit} | tail -n 1")).await?;
            said.push(rated.trim_start_matches(['→', ' ']).trim_end().to_owned());
        }
        Ok(said)
    });
    Ok(Evidence::default().with_figures(said.await?.join("; ")))
}

async fn without_peers(lab: &Lab) -> Result<Refusal> {
    installed(lab, async |guest| {
        guest.shell(NEW_KEYS).await?;
        fails(guest, SERVICE, SERVICE).await?;
        let line = fails(guest, "frr", CHECK).await?;
        ensure!(guest.shell("pidof zebra bgpd").await.is_err(), "FRR runs");
        Ok(Refusal::of(line, 1))
    })
    .await
}

/// Upgrades the package by the administrator's own command; checks that another gateway runs then.
async fn upgrade(guest: &Guest) -> Result<()> {
    let main = format!("systemctl show -p MainPID --value {SERVICE}");
    let before = guest.shell(&main).await?;
    guest.shell("cd /root/upgrade && apt-get install ./wireseal_*_amd64.deb").await?;
    let version = guest.shell("dpkg-query -W -f '${Version}' wireseal").await?;
    ensure!(version.ends_with("+later"), "the version is {version}");
    let after = guest.shell(&main).await?;
    ensure!(after != before && after != "0\n", "the gateway was process {before}, and is process {after}");
    Ok(())
}

async fn upgrade_and_purge(lab: &Lab) -> Result<Evidence> {
    let guest = lab.stock().await?;
    purge(guest).await?;
    let files = guest.shell(FILES).await?;
    let before = lab.north.counters().await?;
    let result = async {
        // A restart takes seconds on a busy machine, and TCP waits longer and longer between its tries.
        let is_patient = |text: &str| text.replace(&format!("hold time {HOLD_TIME};"), "hold time 90;");
        let reader = GATEWAY.follow(lab, is_patient).await?;
        let evidence = upgraded(lab, guest, &reader, &before).await?;
        removed(lab, guest).await?;
        reader.bird.stop_alone().await?;
        anyhow::Ok(evidence)
    };
    let mut result = result.await;
    if result.is_err() {
        let log = guest.shell(&format!("journalctl --no-pager -o cat -n 20 -u {SERVICE}")).await?;
        result = result.with_context(|| format!("the gateway's log: {log}"));
    }
    GATEWAY.leave(guest).await?;
    purge(guest).await?;
    let evidence = result?;
    let left = guest.shell(FILES).await?;
    let left: Vec<&str> = left.lines().filter(|file| !files.lines().any(|known| known == *file)).collect();
    ensure!(left.is_empty(), "purge leaves {left:?}");
    Ok(evidence)
}

/// Upgrades the package while a session is up: the same one then carries all routes again.
async fn upgraded(lab: &Lab, guest: &Guest, reader: &Reader<'_>, before: &Counted) -> Result<Evidence> {
    let first = reader.session().await?;
    upgrade(guest).await?;
    let during = lab.north.counters().await?;
    guest.shell("vtysh -c 'clear bgp ipv4 unicast * soft in'").await?;
    lab.north.await_counted(&during, Counted::good(10)).await?;
    ensure!(reader.session().await?.since == first.since, "the session was opened again");
    let counted = lab.north.counters().await?.since(before);
    counted.check_good("north")?;
    evidence(lab, &[reader.mkt.clone()], &[("BIRD's kernel", counted)], 0.0)
        .map(|evidence| evidence.with_figures("8,000 routes from BIRD, in one session"))
}

/// Removes the package while the session is up: the peer refuses what FRR sends from then on.
async fn removed(lab: &Lab, guest: &Guest) -> Result<()> {
    let before = lab.north.counters().await?;
    let said = guest.shell("apt-get remove wireseal 2>&1").await?;
    ensure!(said.contains("pass unsigned"), "remove does not say what becomes of packets: {said}");
    lab.north.await_counted(&before, Counted::required(1)).await?;
    let left = guest.shell("nft list ruleset | grep -i wireseal; systemctl list-unit-files 'wireseal*' --no-legend; find /etc/systemd -name '*wireseal*'; pidof wireseal; true").await?;
    ensure!(left.is_empty(), "remove leaves {left}");
    guest.shell("systemctl restart frr").await?;
    guest.shell("systemctl stop frr").await?;
    await_no_sockets(guest).await
}

const DROP_IN: &str = "/etc/systemd/system/wireseal-gateway.service.d";

async fn upgrade_without_state(lab: &Lab) -> Result<Refusal> {
    let guest = lab.stock().await?;
    purge(guest).await?;
    guest
        .shell(&format!(
            "mkdir -p {DROP_IN} && printf '[Service]\\nExecStart=\\nExecStart=wireseal gateway --config /etc/wireseal/gateway.toml\\n' >{DROP_IN}/lab.conf"
        ))
        .await?;
    let result = async {
        let reader = GATEWAY.follow(lab, str::to_owned).await?;
        let first = reader.session().await?;
        upgrade(guest).await?;
        let refused = "fit no session";
        let is_refused = async || {
            Ok(guest
                .shell(&format!("journalctl --no-pager -o cat -u {SERVICE} | grep -q '{refused}'"))
                .await
                .is_ok())
        };
        reader.bird.program.wait("the gateway's refusal", is_refused).await?;
        let is_over = async || Ok(reader.bird.state(Family::Ipv4).await?.since != first.since);
        reader.bird.program.wait("the session's end", is_over).await?;
        reader.bird.stop_alone().await?;
        Ok(Refusal::of(format!("gateway's log: segments that {refused}"), 1))
    };
    let result = result.await;
    GATEWAY.leave(guest).await?;
    guest.shell(&format!("rm -r {DROP_IN}; systemctl daemon-reload")).await?;
    purge(guest).await?;
    result
}
