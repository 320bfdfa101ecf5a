//! The commands of docs/run.md and docs/gateway.md as they stand there, on a Debian 13 with its own services, and with Wireseal's package. What
//! the pages install from Debian was installed so when the guest's file system was made.

use std::time::Duration;

use agent::{Counted, WriteFile};
use wireseal_tcp_ao::Mkt;

use super::daemon::{Daemon, await_no_sockets};
use super::page::{self, Page};
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::{FIRST, evidence};
use crate::rows::bird::{Bird, IPV4_ROUTES, State, tcp_ao};
use crate::wait::becomes;

/// How often the guest is asked.
const CHECK: Duration = Duration::from_millis(100);

/// A page, and where it is followed.
#[derive(Clone, Copy)]
pub struct Followed {
    page: Page,
    at: Port,
    /// The service whose log says what became of segments.
    service: &'static str,
    /// What is killed, to see it come back.
    killed: &'static str,
}

const RUN: Followed = Followed {
    page: Page { text: include_str!("../../../../../../docs/run.md") },
    at: Port::South,
    service: "frr",
    killed: "bgpd",
};
pub const GATEWAY: Followed = Followed {
    page: Page { text: include_str!("../../../../../../docs/gateway.md") },
    at: Port::Stock,
    service: "wireseal-gateway",
    killed: "wireseal",
};

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
            "the commands of docs/run.md, as they stand there, from the .deb; on Debian 13 with systemd and FRR's own service, against BIRD: 8,000 \
             routes; then bgpd is killed, watchfrr starts it again under supervision, and the next session is signed",
            RUN,
        ),
        row(
            "page-gateway",
            "the commands of docs/gateway.md, as they stand there, from the .deb; on Debian 13 with its own kernel, systemd and FRR's own service, \
             against BIRD: 8,000 routes; then the gateway is killed, systemd starts it again, and the next session is signed",
            GATEWAY,
        ),
    ]
}

/// What a page has come to.
pub struct Reader<'a> {
    pub bird: Bird<'a>,
    /// The key that the page's commands have made.
    pub mkt: Mkt,
    /// What its commands have printed.
    said: Vec<String>,
}

impl Followed {
    async fn guest<'a>(&self, lab: &'a Lab) -> Result<&'a Guest> {
        if self.at == Port::South { lab.south().await } else { lab.stock().await }
    }

    /// The end of the service's log.
    async fn log(&self, guest: &Guest) -> Result<String> {
        guest.shell(&format!("journalctl --no-pager -o cat -n 20 -u {}", self.service)).await
    }

    /// Follows the page. Once it has made the keys, and before it starts anything, BIRD gets the same ones, and its configuration is changed.
    pub async fn follow<'a>(&self, lab: &'a Lab, change: impl Fn(&str) -> String) -> Result<Reader<'a>> {
        let guest = self.guest(lab).await?;
        forget(guest).await?;
        guest.shell(&format!("date -u -s @{FIRST}")).await?;
        Daemon::Frr.end(guest).await?;
        if self.at == Port::Stock {
            // A daemon's configuration is the reader's. It is the other page's.
            let is_frr = |(path, _): &(String, String)| path == "/etc/frr/frr.conf";
            let (path, contents) =
                RUN.page.files().into_iter().find(is_frr).context("FRR's configuration")?;
            guest.call(WriteFile { path, contents }).await?;
            guest.shell("sed -i 's/^bgpd=no/bgpd=yes/' /etc/frr/daemons").await?;
        }
        self.page.write(guest).await?;
        let starts = self.page.commands().position(|command| command.starts_with("systemctl "));
        let starts = starts.context("the page starts something")?;
        let mut said = page::run(guest, self.page.commands().take(starts)).await?;
        let mkt = page::key(&guest.shell("cat /etc/wireseal/keys.toml").await?)?;
        let bird = Bird::start(&lab.north, self.at, &tcp_ao(&[&mkt], &mkt)?).await?;
        bird.replace(change(&bird.text())).await?;
        said.extend(page::run(guest, self.page.commands().skip(starts)).await?);
        Ok(Reader { bird, mkt, said })
    }

    /// Undoes it all but the installation. First the daemon's sockets end, because without the rules their last segments would go unsigned.
    pub async fn leave(&self, guest: &Guest) -> Result<()> {
        guest.shell("systemctl stop frr").await?;
        await_no_sockets(guest).await?;
        let leave = "systemctl disable --now wireseal-gateway wireseal-gateway-check@frr 2>/dev/null; wireseal gateway --remove-rules 2>/dev/null
            sed -i 's/^bgpd=yes/bgpd=no/; /^bgpd_wrap=/d' /etc/frr/daemons
            systemctl daemon-reload; systemctl reset-failed; journalctl --rotate --vacuum-time=1s -q; true";
        guest.shell(leave).await?;
        forget(guest).await?;
        Daemon::Frr.end(guest).await
    }
}

/// Takes away what an administrator adds to the package's configuration.
pub async fn forget(guest: &Guest) -> Result<()> {
    let forget = "cd /etc/wireseal 2>/dev/null || exit 0
        rm -f keys.toml frr.toml gobgpd.* bird.*
        sed -i '/^\\[peers\\]/q' gateway.toml";
    guest.shell(forget).await.map(drop)
}

impl Reader<'_> {
    /// Waits for a session with all routes.
    pub async fn session(&self) -> Result<State> {
        self.bird.await_exported(Family::Ipv4, 0, IPV4_ROUTES).await
    }
}

async fn run(lab: &Lab, page: Followed) -> Result<Evidence> {
    let guest = page.guest(lab).await?;
    let before = lab.north.counters().await?;
    let result = async {
        let reader = page.follow(lab, str::to_owned).await?;
        check(&reader, guest, page).await?;
        reader.bird.stop_alone().await?;
        anyhow::Ok(reader.mkt)
    };
    let mut result = result.await;
    if result.is_err() {
        let log = page.log(guest).await?;
        result = result.with_context(|| format!("the service's log: {log}"));
    }
    page.leave(guest).await?;
    let mkt = result?;
    let counted = lab.north.counters().await?.since(&before);
    counted.check_good("north")?;
    let evidence = evidence(lab, &[mkt], &[("BIRD's kernel", counted)], 0.0)?;
    Ok(evidence.with_figures("8,000 routes from BIRD, in each of two sessions"))
}

async fn check(reader: &Reader<'_>, guest: &Guest, page: Followed) -> Result<()> {
    let first = reader.session().await?;
    if page.at == Port::South {
        let [.., shown, _] = reader.said.as_slice() else { bail!("the page ends with --dry-run and status") };
        ensure!(page.page.text.contains(shown), "--dry-run prints something else than the page: {shown}");
    }
    let status = async || guest.shell("wireseal status").await;
    let has_session = becomes(CHECK, async || Ok(status().await?.contains("1 session"))).await?;
    ensure!(has_session, "the status shows no session: {}", status().await?);
    guest.shell(&format!("pkill -9 -x {}", page.killed)).await?;
    let is_another = async || {
        let state = reader.bird.state(Family::Ipv4).await?;
        Ok(state.state == "Established" && state.since != first.since)
    };
    // watchfrr looks every five seconds, and the hold time is over by then.
    ensure!(becomes(CHECK, is_another).await?, "there is no next session");
    reader.session().await.map(drop)
}

async fn twin(lab: &Lab, page: Followed) -> Result<Refusal> {
    let guest = page.guest(lab).await?;
    let before = lab.north.counters().await?;
    let refused = async {
        let reader = page.follow(lab, |text| text.replace("secret \"", "secret \"another")).await?;
        let counted = lab.north.await_counted(&before, Counted::bad(1)).await?;
        let state = reader.bird.state(Family::Ipv4).await?;
        reader.bird.stop_alone().await?;
        ensure!(state.state != "Established", "there was a session");
        Ok(Refusal::by("north", &counted))
    };
    let refused = refused.await;
    page.leave(guest).await?;
    refused
}
