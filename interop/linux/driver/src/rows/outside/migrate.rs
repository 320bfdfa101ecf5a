//! The commands of docs/migrate.md as they stand there: FRR's session from TCP-MD5 to TCP-AO and back, on a Debian 13 with its own kernel, by the
//! package's gateway.

use std::time::Duration;

use agent::{Counted, WriteFile};
use wireseal_tcp_ao::Mkt;

use super::daemon::{Daemon, await_no_sockets};
use super::package;
use super::page::{self, Page};
use super::pages::{GATEWAY, forget};
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::FIRST;
use crate::rows::bird::{AS, Bird, IPV4_ROUTES, PEER_AS, tcp_ao, tcp_md5};
use crate::wait::becomes;

const PAGE: Page = Page { text: include_str!("../../../../../../docs/migrate.md") };
/// The page's own.
const PASSWORD: &str = "the-old-password";

/// How often the guest is asked.
const CHECK: Duration = Duration::from_millis(100);

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "page-migrate",
        "the commands of docs/migrate.md, as they stand there; on Debian 13 with its own kernel, systemd and FRR's own service, against BIRD: a session \
         under TCP-MD5, which preparing leaves alone; then one under TCP-AO, with 8,000 routes; then the way back, and TCP-MD5 again",
        async |lab| migrated(lab).await,
        "the other end stays with TCP-MD5: no session",
        async |lab| not_at_the_other_end(lab).await,
    )]
}

/// Follows a part of the page; returns what its commands have printed.
async fn follow(guest: &Guest, part: &str) -> Result<Vec<String>> {
    page::run(guest, PAGE.part(part)?.commands()).await
}

/// FRR with a session under TCP-MD5, and the page's first part, which makes the key.
async fn prepared<'a>(lab: &'a Lab, guest: &Guest) -> Result<(Bird<'a>, Mkt)> {
    Daemon::Frr.end(guest).await?;
    package::install(guest).await?;
    forget(guest).await?;
    guest.shell(&format!("date -u -s @{FIRST}")).await?;
    let peer = Port::North.ipv4();
    let contents = format!(
        "router bgp {PEER_AS}\n neighbor {peer} remote-as {AS}\n neighbor {peer} password {PASSWORD}\n no bgp ebgp-requires-policy\n"
    );
    guest.call(WriteFile { path: "/etc/frr/frr.conf".to_owned(), contents }).await?;
    let bird = Bird::start(&lab.north, Port::Stock, &tcp_md5(PASSWORD)).await?;
    guest.shell("sed -i 's/^bgpd=no/bgpd=yes/' /etc/frr/daemons && systemctl restart frr").await?;
    let first = bird.await_exported(Family::Ipv4, 0, IPV4_ROUTES).await?;
    follow(guest, "1. Prepare").await?;
    let now = bird.state(Family::Ipv4).await?;
    ensure!(now.state == "Established" && now.since == first.since, "preparing closed the session: {now:?}");
    Ok((bird, page::key(&guest.shell("cat /etc/wireseal/keys.toml").await?)?))
}

async fn migrated(lab: &Lab) -> Result<Evidence> {
    let guest = lab.stock().await?;
    let result = async {
        let (bird, mkt) = prepared(lab, guest).await?;
        follow(guest, "2. Change").await?;
        bird.configure(&tcp_ao(&[&mkt], &mkt)?).await?;
        bird.await_exported(Family::Ipv4, 0, IPV4_ROUTES).await?;
        let has_session = async || {
            let said = follow(guest, "3. Check").await?;
            Ok(said.iter().any(|said| said.contains("1 session"))
                && said.iter().any(|said| said.contains("Total number of neighbors 1")))
        };
        ensure!(becomes(CHECK, has_session).await?, "{:?}", follow(guest, "3. Check").await?);
        let before = lab.north.counters().await?;
        let sent = lab.north.await_counted(&before, Counted::good(4)).await?.check_good("north")?;

        bird.configure(&tcp_md5(PASSWORD)).await?;
        page::run(guest, PAGE.part("The way back")?.way_back()).await?;
        bird.await_exported(Family::Ipv4, 0, IPV4_ROUTES).await?;
        let left = guest.shell("nft list ruleset | grep -i wireseal; pidof wireseal; true").await?;
        ensure!(left.is_empty(), "the way back leaves {left}");
        leave(guest).await?;
        bird.stop_alone().await?;
        anyhow::Ok(sent)
    };
    let counted = result.await;
    leave(guest).await?;
    lab.wire.take_recording();
    let mut evidence = Evidence::default().with_figures("8,000 routes from BIRD, in each of three sessions");
    evidence.counters.push(("BIRD's kernel, a while under TCP-AO".into(), counted?.to_string()));
    Ok(evidence)
}

async fn not_at_the_other_end(lab: &Lab) -> Result<Refusal> {
    let guest = lab.stock().await?;
    let result = async {
        let (bird, _) = prepared(lab, guest).await?;
        let before = lab.north.counters().await?;
        follow(guest, "2. Change").await?;
        let counted = lab.north.await_counted(&before, Counted::key_not_found(1)).await?;
        let state = bird.state(Family::Ipv4).await?;
        leave(guest).await?;
        bird.stop_alone().await?;
        ensure!(state.state != "Established", "there was a session");
        Ok(Refusal::by("north", &counted))
    };
    let refused = result.await;
    leave(guest).await?;
    lab.wire.take_recording();
    refused
}

/// Ends FRR and the gateway, and takes away what was configured.
async fn leave(guest: &Guest) -> Result<()> {
    guest.shell("systemctl stop frr").await?;
    await_no_sockets(guest).await?;
    GATEWAY.leave(guest).await
}
