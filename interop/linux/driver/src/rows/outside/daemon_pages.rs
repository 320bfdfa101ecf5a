//! The commands of the pages in docs/daemons as they stand there, on Debian 13 with its own services and with Wireseal installed. Each row
//! follows both ways of a page at the same time: one on the second guest, whose kernel has TCP-AO, the other on the third, whose kernel has not.
//! Then it follows the way back.

use std::time::Duration;

use agent::{Counted, TIME_LIMIT, WriteFile};
use tokio::time::timeout;
use wireseal_tcp_ao::Mkt;

use super::daemon::await_no_sockets;
use super::page::{self, Page, run};
use super::probe::probe;
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::evidence;
use crate::rows::bird::{AS, PEER_AS};
use crate::wait::{Program, becomes};

/// The part that makes the key, and the one that shows whether the session is protected.
const KEY: &str = "The key";
const PROTECTED: &str = "Is it protected?";
const GATEWAY: &str = "`wireseal gateway`";
const RUN: &str = "`wireseal run`";

/// Where a page makes the key, and where it writes it for the peer.
const KEYS: &str = "/etc/wireseal/keys.toml";
const PEER_KEYS: &str = "/root/peer.conf";

/// A page about a daemon.
#[derive(Clone, Copy)]
struct Daemon {
    page: Page,
    /// The headings of what is followed on the second guest and on the third, and the daemon's service on each.
    ways: [(&'static str, &'static str); 2],
}

/// How often a guest is asked.
const CHECK: Duration = Duration::from_millis(200);

/// The pages are written for the second guest. ExaBGP's configuration has its own address, so the third guest's gets another.
const OWN_ADDRESS: &str =
    "sed -i 's/local-address 192.0.2.3/local-address 192.0.2.5/' /etc/exabgp/exabgp.conf 2>/dev/null; true";

const AT: [Port; 2] = [Port::South, Port::Stock];

pub fn rows() -> Vec<Row> {
    let bgp = |name: &'static str, text, service, own| {
        let daemon = Daemon { page: Page { text }, ways: [(own, service), (GATEWAY, service)] };
        Row::new(
            name,
            format!(
                "the commands of docs/daemons, as they stand there, for {service}; on Debian 13 with and without TCP-AO in the kernel, against BIRD; \
                 then the way back, after which sessions are unsigned"
            ),
            async move |lab: &Lab| followed(lab, daemon, bgp_session).await,
            "BIRD has another secret: no session",
            async move |lab: &Lab| followed(lab, daemon, bgp_refusal).await,
        )
    };
    let between = |name: &'static str, text, ways, has_session: &'static str, what: &str| {
        let daemon = Daemon { page: Page { text }, ways };
        Row::new(
            name,
            format!(
                "the commands of docs/daemons, as they stand there, for {what}; on two Debian 13; then the way back"
            ),
            async move |lab: &Lab| {
                followed(lab, daemon, async |lab, daemon| session(lab, daemon, has_session).await).await
            },
            "the router has another secret: no session",
            async move |lab: &Lab| followed(lab, daemon, refusal).await,
        )
    };
    vec![
        bgp("page-frr", include_str!("../../../../../../docs/daemons/frr.md"), "frr", RUN),
        bgp("page-gobgp", include_str!("../../../../../../docs/daemons/gobgp.md"), "gobgpd", RUN),
        bgp("page-exabgp", include_str!("../../../../../../docs/daemons/exabgp.md"), "exabgp", RUN),
        bgp("page-openbgpd", include_str!("../../../../../../docs/daemons/openbgpd.md"), "openbgpd", RUN),
        bgp("page-bird", include_str!("../../../../../../docs/daemons/bird.md"), "bird", "BIRD's own"),
        between(
            "page-rtr",
            include_str!("../../../../../../docs/daemons/rtr.md"),
            [(RUN, "stayrtr"), (GATEWAY, "bird")],
            "birdc show route table r4 | grep -q 203.0.113.0/24",
            "StayRTR under run, and BIRD, which asks it, behind gateway",
        ),
        between(
            "page-bmp",
            include_str!("../../../../../../docs/daemons/bmp.md"),
            [(RUN, "pmbmpd"), (GATEWAY, "frr")],
            "vtysh -c 'show bmp' | grep -q '192.0.2.3:1790.*Up'",
            "pmbmpd under run, and FRR, which sends to it, behind gateway",
        ),
    ]
}

/// What rpki-client, which has no repositories here, would have made for StayRTR.
const ORIGINS: &str = r#"mkdir -p /var/lib/rpki-client; cat >/var/lib/rpki-client/json <<END
{"metadata": {"buildtime": "$(date -u +%FT%TZ)"}, "roas": [{"asn": 64496, "prefix": "203.0.113.0/24", "maxLength": 24, "ta": "lab", "expires": 4000000000}]}
END"#;

/// Both guests, with Wireseal's package and nothing of a page.
async fn guests(lab: &Lab) -> Result<[&Guest; 2]> {
    let (south, stock) = tokio::try_join!(lab.south(), lab.stock())?;
    let install = "[ -e /usr/bin/wireseal ] || apt-get install -qq -y /root/wireseal_*_amd64.deb >&2";
    tokio::try_join!(south.shell(install), stock.shell(install))?;
    Ok([south, stock])
}

impl Daemon {
    /// Follows a part on one of the guests.
    async fn follow(&self, words: &str, guest: &Guest) -> Result<()> {
        let done = self.page.part(words)?.follow(guest).await.map(drop);
        done.with_context(|| format!("{words}, at {}", guest.port()))
    }

    /// Does something for both ways at once, with the heading.
    async fn both(
        &self,
        guests: [&Guest; 2],
        act: impl AsyncFn(&'static str, &Guest) -> Result<()>,
    ) -> Result<()> {
        let [first, second] = self.ways.map(|(words, _)| words);
        tokio::try_join!(act(first, guests[0]), act(second, guests[1])).map(drop)
    }

    async fn follow_ways(&self, guests: [&Guest; 2]) -> Result<()> {
        self.both(guests, async |words, guest| self.follow(words, guest).await).await
    }

    /// Runs what shows that sessions are protected. The supervisor finds a session that was accepted within a second. Listeners of the
    /// address family without peers make `wireseal probe` end with 1, as the pages say.
    async fn see_protection(&self, guests: [&Guest; 2]) -> Result<()> {
        self.both(guests, async |_, guest| {
            let (probes, others): (Vec<_>, Vec<_>) =
                self.page.part(PROTECTED)?.commands().partition(|command| *command == "wireseal probe");
            ensure!(probes.len() == 1, "the page runs wireseal probe once");
            run(guest, others.into_iter()).await?;
            probe(guest).await?.check_sessions()
        })
        .await
    }

    async fn follow_back(&self, guests: [&Guest; 2]) -> Result<()> {
        self.both(guests, async |words, guest| {
            let back = run(guest, self.page.part(words)?.way_back()).await;
            back.map(drop).with_context(|| format!("the way back from {words}"))
        })
        .await
    }

    /// Makes the key on the second guest; the third gets the same.
    async fn share_key(&self, guests: [&Guest; 2], change: impl Fn(String) -> String) -> Result<Mkt> {
        let keys = guests[0].shell(&format!("cat {KEYS}")).await?;
        let contents = change(keys.clone());
        guests[1].call(WriteFile { path: KEYS.to_owned(), contents }).await?;
        guests[1].shell(&format!("chmod 600 {KEYS}")).await?;
        page::key(&keys)
    }

    /// Takes everything away again, also after a failure.
    async fn leave(&self, guests: [&Guest; 2]) -> Result<()> {
        for (guest, (_, service)) in guests.into_iter().zip(self.ways) {
            guest
                .shell(&format!("systemctl disable --now wireseal-run@{service} 2>/dev/null; systemctl disable --now {service} 2>/dev/null; true"))
                .await?;
            await_no_sockets(guest).await?;
            let leave = format!(
                "systemctl disable --now wireseal-gateway wireseal-gateway-check@{service} 2>/dev/null
                 wireseal gateway --remove-rules 2>/dev/null
                 sed -i 's/^bgpd=yes/bgpd=no/; /^bgpd_wrap=/d; s/-M bmp //' /etc/frr/daemons
                 sed -i 's/^ports = .*/#ports = [179]/; /^\\[peers\\]/q' /etc/wireseal/gateway.toml
                 rm -rf {KEYS} {PEER_KEYS} /etc/wireseal/{{frr.toml,exabgp.*,openbgpd.*,stayrtr.*,pmbmpd.*}} /etc/gobgpd.conf /etc/bgpd.conf
                 rm -rf /etc/exabgp/exabgp.conf /etc/bird/core.conf /etc/pmacct/pmbmpd.conf /etc/systemd/system/wireseal-run@openbgpd.service.d
                 userdel gobgpd 2>/dev/null
                 systemctl daemon-reload; systemctl reset-failed; true"
            );
            guest.shell(&format!("bash -c '{}'", leave.replace('\'', "'\\''"))).await?;
        }
        Ok(())
    }
}

/// Does `act` on guests without anything of the page, and leaves them so. On failure, says what their logs end with.
async fn followed<T>(lab: &Lab, daemon: Daemon, act: impl AsyncFn(&Lab, Daemon) -> Result<T>) -> Result<T> {
    let guests = guests(lab).await?;
    daemon.leave(guests).await?;
    let mut result = act(lab, daemon).await;
    if result.is_err() {
        for guest in guests {
            let log = guest.shell("journalctl --no-pager -o cat -n 15").await?;
            result = result.with_context(|| format!("{}'s log: {log}", guest.port()));
        }
    }
    lab.north.shell("kill -9 $(pidof bird) 2>/dev/null; true").await?;
    daemon.leave(guests).await?;
    result
}

const CONFIGURATION: &str = "/tmp/bird.conf";

/// BIRD's configuration with both guests as peers, which open the sessions.
fn bird(protection: &str) -> String {
    let own = Port::North.ipv4();
    let mut text = format!(
        "log stderr all;\nrouter id {own};\nprotocol device {{ }}\n\
         protocol static {{ ipv4; route 60.0.0.0/24 blackhole; route 60.0.1.0/24 blackhole; }}\n"
    );
    for port in AT {
        text += &format!(
            "protocol bgp {port} {{\nlocal {own} as {AS};\nneighbor {} as {PEER_AS};\npassive;\nerror wait time 1, 5;\n{protection}\n\
             ipv4 {{ import all; export where source = RTS_STATIC; next hop address {own}; }};\n}}\n",
            port.ipv4()
        );
    }
    text
}

/// BIRD on the first guest. Its keys are what the page has written for it, after `change`.
async fn start_bird<'a>(
    lab: &'a Lab,
    guests: [&Guest; 2],
    change: impl Fn(&str) -> String,
) -> Result<Program<'a>> {
    let keys = guests[0].shell(&format!("cat {PEER_KEYS}")).await?;
    let (_, keys) = keys.split_once("authentication ao;").context("the keys are BIRD's")?;
    let (keys, _) = keys.rsplit_once('}').context("the keys are a protocol's")?;
    let contents = change(&bird(&format!("authentication ao;\n{keys}")));
    lab.north.call(WriteFile { path: CONFIGURATION.to_owned(), contents }).await?;
    let bird =
        Program::start(&lab.north, "bird", &format!("bird -f -c {CONFIGURATION} -s /tmp/bird.ctl")).await?;
    bird.wait("BIRD to listen", async || Ok(bird_says(lab, "show protocols").await.is_ok())).await?;
    Ok(bird)
}

async fn bird_says(lab: &Lab, command: &str) -> Result<String> {
    lab.north.shell(&format!("birdc -s /tmp/bird.ctl {command}")).await
}

/// Waits until BIRD has a session with each guest.
async fn await_sessions(lab: &Lab, bird: &Program<'_>) -> Result<()> {
    let are_up =
        async || Ok(bird_says(lab, "show protocols").await?.matches("Established").count() == AT.len());
    bird.wait("both sessions", are_up).await
}

async fn bgp_session(lab: &Lab, daemon: Daemon) -> Result<Evidence> {
    let guests = guests(lab).await?;
    let before = lab.north.counters().await?;
    daemon.both(guests, async |_, guest| daemon.follow(KEY, guest).await).await?;
    guests[1].shell(OWN_ADDRESS).await?;
    let mkt = daemon.share_key(guests, |keys| keys).await?;
    let bird = start_bird(lab, guests, str::to_owned).await?;
    daemon.follow_ways(guests).await?;
    await_sessions(lab, &bird).await?;
    daemon.see_protection(guests).await?;
    let counted = lab.north.counters().await?.since(&before).check_good("north")?;
    let evidence = evidence(lab, &[mkt], &[("BIRD's kernel", counted)], 0.0)?;

    lab.north.call(WriteFile { path: CONFIGURATION.to_owned(), contents: self::bird("") }).await?;
    bird_says(lab, "configure").await?;
    daemon.follow_back(guests).await?;
    await_sessions(lab, &bird).await?;
    let unsigned = lab.north.counters().await?.since(&before);
    Ok(evidence.with_figures(format!("2 sessions; north has counted {unsigned} by the end of the way back")))
}

async fn bgp_refusal(lab: &Lab, daemon: Daemon) -> Result<Refusal> {
    let guests = guests(lab).await?;
    let before = lab.north.counters().await?;
    daemon.both(guests, async |_, guest| daemon.follow(KEY, guest).await).await?;
    guests[1].shell(OWN_ADDRESS).await?;
    daemon.share_key(guests, |keys| keys).await?;
    let bird = start_bird(lab, guests, |text| text.replace("secret \"", "secret \"another")).await?;
    daemon.follow_ways(guests).await?;
    let have_tried = async || Ok(AT.iter().all(|port| lab.wire.segments_from(*port) > 0));
    bird.wait("both to try", have_tried).await?;
    let counted = lab.north.await_counted(&before, Counted::bad(2)).await?;
    let said = bird_says(lab, "show protocols").await?;
    ensure!(!said.contains("Established"), "there was a session: {said}");
    Ok(Refusal::by("north", &counted))
}

async fn session(lab: &Lab, daemon: Daemon, has_session: &str) -> Result<Evidence> {
    let guests @ [south, stock] = guests(lab).await?;
    let before = south.counters().await?;
    south.shell(ORIGINS).await?;
    daemon.follow(daemon.ways[0].0, south).await?;
    let mkt = daemon.share_key(guests, |keys| keys).await?;
    daemon.follow(daemon.ways[1].0, stock).await?;
    let is_up = async || Ok(stock.shell(has_session).await.is_ok());
    // Less than the row's own limit, so that the logs are shown.
    let is_up = timeout(TIME_LIMIT, becomes(CHECK, is_up)).await;
    ensure!(is_up.is_ok_and(|is_up| is_up.unwrap_or(false)), "there is no session");
    daemon.see_protection(guests).await?;
    let counted = south.counters().await?.since(&before).check_good("south")?;
    let evidence = evidence(lab, &[mkt], &[("south's kernel", counted)], 0.0)?;
    daemon.follow_back(guests).await?;
    Ok(evidence.with_figures("one session"))
}

async fn refusal(lab: &Lab, daemon: Daemon) -> Result<Refusal> {
    let guests @ [south, stock] = guests(lab).await?;
    let before = south.counters().await?;
    south.shell(ORIGINS).await?;
    daemon.follow(daemon.ways[0].0, south).await?;
    daemon.share_key(guests, |keys| keys.replace("secret = \"", "secret = \"another")).await?;
    daemon.follow(daemon.ways[1].0, stock).await?;
    let counted = south.await_counted(&before, Counted::bad(1)).await?;
    ensure!(counted.good == 0, "there was a session: {counted}");
    Ok(Refusal::by("south", &counted))
}
