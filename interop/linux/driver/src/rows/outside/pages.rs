//! The commands of docs/run.md and docs/gateway.md as they stand there, on a Debian 13 with its own services, and with Wireseal's unit. What the
//! pages install by apt-get was installed so when the guest's file system was made.

use std::time::Duration;

use agent::{Counted, WriteFile};
use wireseal_keys::KeyChains;
use wireseal_tcp_ao::Mkt;

use super::daemon::{Daemon, await_no_sockets};
use super::page::Page;
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::{FIRST, evidence};
use crate::rows::bird::{Bird, IPV4_ROUTES, tcp_ao};
use crate::wait::becomes;

const RUN: &str = include_str!("../../../../../../docs/run.md");
const GATEWAY: &str = include_str!("../../../../../../docs/gateway.md");
/// The page's own, for the gateway's too: a daemon's configuration is the reader's.
const FRR_CONFIGURATION: &str = "/etc/frr/frr.conf";

/// How often the guest is asked.
const CHECK: Duration = Duration::from_millis(100);

/// A page, and where it is followed.
#[derive(Clone, Copy)]
struct Followed {
    page: Page,
    at: Port,
    /// The service whose log says what became of segments.
    service: &'static str,
    /// What is killed, to see it come back.
    killed: &'static str,
}

const PAGES: [Followed; 2] = [
    Followed { page: Page { text: RUN }, at: Port::South, service: "frr", killed: "bgpd" },
    Followed {
        page: Page { text: GATEWAY },
        at: Port::Stock,
        service: "wireseal-gateway",
        killed: "wireseal",
    },
];

pub fn rows() -> Vec<Row> {
    let row = |name: &str, what: &str, page: Followed| {
        Row::new(
            name,
            what,
            async move |lab: &Lab| run(lab, page).await,
            "the peer has another secret: no session",
            async move |lab: &Lab| twin(lab, page).await,
        )
    };
    vec![
        row(
            "page-run",
            "the commands of docs/run.md, as they stand there; on Debian 13 with systemd and FRR's own service, against BIRD: 8,000 routes; then \
             bgpd is killed, watchfrr starts it again under supervision, and the next session is signed",
            PAGES[0],
        ),
        row(
            "page-gateway",
            "the commands of docs/gateway.md, as they stand there; on Debian 13 with its own kernel, systemd and FRR's own service, against BIRD: \
             8,000 routes; then the gateway is killed, systemd starts it again, and the next session is signed",
            PAGES[1],
        ),
    ]
}

impl Followed {
    fn mkt(&self) -> Result<Mkt> {
        let files = self.page.files();
        let (_, keys) =
            files.iter().find(|(name, _)| name.ends_with("keys.toml")).context("the page has keys")?;
        let chains = KeyChains::from_toml(keys)?;
        Ok(chains.chains()[0].keys()[0].mkt().clone())
    }

    async fn guest<'a>(&self, lab: &'a Lab) -> Result<&'a Guest> {
        if self.at == Port::South { lab.south().await } else { lab.stock().await }
    }

    async fn log(&self, guest: &Guest) -> Result<String> {
        guest.shell(&format!("journalctl --no-pager -o cat -u {}", self.service)).await
    }

    /// Follows the page; returns what each command prints.
    async fn follow(&self, guest: &Guest) -> Result<Vec<String>> {
        let is_written = |page: Page| page.files().into_iter().find(|(name, _)| name == FRR_CONFIGURATION);
        if is_written(self.page).is_none() {
            let (path, contents) = is_written(PAGES[0].page).context("the page has FRR's configuration")?;
            guest.call(WriteFile { path, contents }).await?;
            guest.shell("sed -i 's/^bgpd=no/bgpd=yes/' /etc/frr/daemons").await?;
        }
        self.page.follow(guest).await
    }

    /// Undoes it all. First the daemon's sockets end, because without the rules their last segments would go unsigned.
    async fn leave(&self, guest: &Guest) -> Result<()> {
        guest.shell("systemctl stop frr").await?;
        await_no_sockets(guest).await?;
        let leave = "systemctl disable --now wireseal-gateway 2>/dev/null; wireseal gateway --remove-rules 2>/dev/null
            sed -i 's/^bgpd=yes/bgpd=no/; /^bgpd_wrap=/d' /etc/frr/daemons
            rm -rf /usr/local/bin/wireseal /etc/systemd/system/frr.service.d; systemctl daemon-reload; journalctl --rotate --vacuum-time=1s -q; true";
        guest.shell(leave).await?;
        Daemon::Frr.end(guest).await
    }
}

async fn run(lab: &Lab, page: Followed) -> Result<Evidence> {
    let guest = page.guest(lab).await?;
    let mkt = page.mkt()?;
    let before = lab.north.counters().await?;
    guest.shell(&format!("date -u -s @{FIRST}")).await?;
    let bird = Bird::start(&lab.north, page.at, &tcp_ao(&[&mkt], &mkt)?).await?;
    Daemon::Frr.end(guest).await?;
    let mut result = followed(&bird, guest, page).await;
    if result.is_err() {
        let log = page.log(guest).await?;
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        result = result.with_context(|| format!("the service's log, last line first: {tail:?}"));
    }
    bird.stop_alone().await?;
    page.leave(guest).await?;
    result?;
    let counted = lab.north.counters().await?.since(&before);
    counted.check_good("north")?;
    let evidence = evidence(lab, &[mkt], &[("BIRD's kernel", counted)], 0.0)?;
    Ok(evidence.with_figures("8,000 routes from BIRD, in each of two sessions"))
}

async fn followed(bird: &Bird<'_>, guest: &Guest, page: Followed) -> Result<()> {
    let said = page.follow(guest).await?;
    let has_routes = async || bird.await_exported(Family::Ipv4, 0, IPV4_ROUTES).await;
    let first = has_routes().await?;
    if page.at == Port::South {
        let [.., shown, _] = said.as_slice() else { bail!("the page ends with --dry-run and status") };
        ensure!(page.page.text.contains(shown), "--dry-run prints something else than the page: {shown}");
    }
    let status = async || guest.shell("wireseal status").await;
    let has_session = becomes(CHECK, async || Ok(status().await?.contains("1 session"))).await?;
    ensure!(has_session, "the status shows no session: {}", status().await?);
    guest.shell(&format!("pkill -9 -x {}", page.killed)).await?;
    let is_another = async || {
        let state = bird.state(Family::Ipv4).await?;
        Ok(state.state == "Established" && state.since != first.since)
    };
    // watchfrr looks every five seconds, and the hold time is over by then.
    ensure!(becomes(CHECK, is_another).await?, "there is no next session");
    has_routes().await.map(drop)
}

async fn twin(lab: &Lab, page: Followed) -> Result<Refusal> {
    let guest = page.guest(lab).await?;
    let mkt = page.mkt()?;
    let before = lab.north.counters().await?;
    guest.shell(&format!("date -u -s @{FIRST}")).await?;
    let protection = tcp_ao(&[&mkt], &mkt)?.replace("a secret of 16", "another secret of 16");
    let bird = Bird::start(&lab.north, page.at, &protection).await?;
    Daemon::Frr.end(guest).await?;
    let refused = async {
        page.follow(guest).await?;
        let counted = lab.north.await_counted(&before, Counted::bad(1)).await?;
        let state = bird.state(Family::Ipv4).await?;
        ensure!(state.state != "Established", "there was a session");
        Ok(Refusal::by("north", &counted))
    };
    let refused = refused.await;
    bird.stop_alone().await?;
    page.leave(guest).await?;
    refused
}
