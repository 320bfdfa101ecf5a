//! What `wireseal probe` says on two guests of BIRD, FRR and GoBGP: with TCP-MD5, with TCP-AO in a VRF, and with nothing in a network
//! namespace; and on a kernel without TCP-AO, of GoBGP behind a gateway.

use serde_json::{Value, json};

use super::daemon::{Daemon, FOLDER, Speaker, write};
use super::gateway::{Behind, start_gateway};
use super::run::{VRF, begin_in_vrf, within};
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::{FIRST, MD5_SECRET, SECRET, await_routes, evidence, key_chain, key_file};
use crate::rows::bird::{Bird, tcp_ao, tcp_md5};
use crate::wait::Program;

/// The network namespace of GoBGP.
const NAMESPACE: &str = "core";

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "probe",
            "wireseal probe on the hosts of BIRD and Debian's FRR: two sessions under TCP-MD5; then two under TCP-AO, where FRR is in a VRF under \
             wireseal run, beside a GoBGP without anything in a network namespace; it says each rightly",
            async |lab| within(lab, async |south| run(lab, south).await).await,
            "the sessions have no keys: it says so, and exits with 1",
            twin,
        ),
        Row::new(
            "probe-gateway",
            "wireseal probe beside Debian's GoBGP behind wireseal gateway, on Debian's own kernel without TCP-AO: it says that the gateway carries \
             the sessions",
            behind_gateway,
            "the gateway ends and its rules are removed: it says that nothing protects the sessions",
            without_gateway,
        ),
    ]
}

/// What `wireseal probe` says, and its exit code.
pub(super) struct Said {
    json: Value,
    code: String,
}

/// A socket in short.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Seen {
    daemon: String,
    /// Its network namespace, or the VRF.
    place: String,
    is_listener: bool,
    protected_by: String,
    /// SendID and RecvID of its current key.
    key: Option<(u64, u64)>,
}

pub(super) async fn probe(guest: &Guest) -> Result<Said> {
    let said = guest.shell("wireseal probe --json; echo \"exit code $?\"").await?;
    let (json, code) = said.split_once("exit code ").context("it has ended")?;
    Ok(Said { json: serde_json::from_str(json)?, code: code.trim().to_owned() })
}

impl Said {
    /// Checks that there is a session, and that every session is protected.
    pub(super) fn check_sessions(&self) -> Result<()> {
        let count = |of: &str| self.json["sessions"][of].as_u64();
        let counts = [count("all"), count("unprotected"), count("not-judged")];
        ensure!(
            matches!(counts, [Some(1..), Some(0), Some(0)]) && matches!(self.code.as_str(), "0" | "1"),
            "sessions that are not protected: {:#}",
            self.json
        );
        Ok(())
    }

    /// All sockets, sorted, each kind once.
    fn sockets(&self) -> Result<Vec<Seen>> {
        let mut all = Vec::new();
        for group in self.json["groups"].as_array().context("there are groups")? {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            for socket in group["sockets"].as_array().context("there are sockets")? {
                let keys = socket["tcp-ao"].as_array().context("there are keys")?;
                let current = keys.iter().find(|key| key["is-current"] == true);
                all.push(Seen {
                    daemon: text(&group["process"]["name"]),
                    place: text(&group["namespace"]["name"]) + &text(&socket["vrf"]),
                    is_listener: socket["peer"] == Value::Null,
                    protected_by: text(&socket["protected-by"]),
                    key: current.and_then(|key| key["send-id"].as_u64().zip(key["recv-id"].as_u64())),
                });
            }
        }
        all.sort();
        all.dedup();
        Ok(all)
    }

    /// Checks that it has seen these kinds of sockets and nothing else, and how it ends.
    fn check(&self, expected: &[Seen], code: &str) -> Result<()> {
        let mut expected = expected.to_vec();
        expected.sort();
        ensure!(
            self.sockets()? == expected,
            "{expected:?} were expected, not {:?}: {:#}",
            self.sockets()?,
            self.json
        );
        ensure!(self.code == code, "it ended with {}: {:#}", self.code, self.json);
        ensure!(self.json["unseen"] == json!([]), "it did not see all: {:#}", self.json);
        Ok(())
    }

    fn unprotected(&self) -> Refusal {
        let all = self.json["sessions"]["unprotected"].as_u64();
        Refusal::of("wireseal probe: unprotected sessions", all.unwrap_or_default())
    }
}

fn seen(daemon: &str, place: &str, protected_by: &str, key: Option<(u64, u64)>) -> [Seen; 2] {
    // A listener has no current key.
    [(true, None), (false, key)].map(|(is_listener, key)| Seen {
        daemon: daemon.to_owned(),
        place: place.to_owned(),
        is_listener,
        protected_by: protected_by.to_owned(),
        key,
    })
}

/// FRR without a supervisor, with a secret for TCP-MD5 or with nothing.
async fn start_frr<'a>(south: &'a Guest, secret: Option<&str>) -> Result<Program<'a>> {
    let speaker = Speaker::of_bird(Port::South);
    let mut configuration = Daemon::Frr.configuration(&speaker);
    for family in Family::ALL {
        let neighbor = format!("neighbor {}", speaker.peer.address(family));
        let first = format!("{neighbor} remote-as {}\n", speaker.peer_as);
        let password = secret.map(|secret| format!("{neighbor} password {secret}\n")).unwrap_or_default();
        configuration = configuration.replace(&first, &format!("{first}{password}"));
    }
    write(south, "daemon.conf", &configuration).await?;
    Daemon::Frr.prepare(south).await?;
    Program::start(south, "frr", Daemon::Frr.command()).await
}

/// Waits for both sessions, looks at both hosts, and ends the daemons.
async fn look(lab: &Lab, south: &Guest, secret: Option<&str>) -> Result<[Said; 2]> {
    let protection = secret.map(tcp_md5).unwrap_or_default();
    let bird = Bird::start(&lab.north, Port::South, &protection).await?;
    let frr = start_frr(south, secret).await?;
    bird.open().await?;
    await_routes(&bird, 0).await?;
    let said = [probe(&lab.north).await?, probe(south).await?];
    bird.close().await?;
    frr.stop().await?;
    Daemon::Frr.end(south).await?;
    bird.stop().await?;
    Ok(said)
}

async fn run(lab: &Lab, south: &Guest) -> Result<Evidence> {
    south.shell("ip link set eth0 nomaster").await?;
    let secret = MD5_SECRET.replace(' ', "-");
    let [north, other] = look(lab, south, Some(&secret)).await?;
    north.check(&seen("bird", "", "tcp-md5", None), "0")?;
    other.check(&seen("bgpd", "", "tcp-md5", None), "0")?;
    lab.wire.take_recording();

    south.shell(&format!("ip link set eth0 master {VRF}")).await?;
    let (_, keys) = key_chain(SECRET)?;
    let (bird, before, supervised) = begin_in_vrf(lab, south).await?;
    write(south, "core.conf", "[global.config]\nas = 64999\nrouter-id = \"192.0.2.99\"\n").await?;
    south.shell(&format!("ip netns add {NAMESPACE} && ip -n {NAMESPACE} link set lo up")).await?;
    let gobgp = format!(
        "ip netns exec {NAMESPACE} gobgpd -f {FOLDER}/core.conf --config-type toml --api-hosts 127.0.0.1:50051"
    );
    let gobgp = Program::start(south, "core", &gobgp).await?;
    let listens = format!("ip netns exec {NAMESPACE} ss -Htln sport = :179 | grep -q .");
    gobgp.wait("GoBGP to listen", async || Ok(south.shell(&listens).await.is_ok())).await?;
    let (north, other) = (probe(&lab.north).await?, probe(south).await?);
    south.shell(&format!("pkill gobgpd; ip netns del {NAMESPACE}")).await?;

    let counted = before.good().await?;
    bird.stop().await?;
    supervised.stop().await?;
    north.check(&seen("bird", "", "tcp-ao", Some((21, 11))), "0")?;
    let [nobody, _] = seen("gobgpd", NAMESPACE, "none", None);
    let [of_vrf, session] = seen("bgpd", VRF, "tcp-ao", Some((11, 21)));
    other.check(&[of_vrf, session, nobody], "1")?;
    for said in [&north, &other] {
        let kernel = &said.json["kernel"];
        for ability in ["tcp-ao", "tcp-md5", "packet-queues", "seccomp-notifications"] {
            ensure!(kernel[ability]["ability"] == "yes", "{ability}: {kernel}");
        }
    }
    let groups = other.json["groups"].as_array().context("there are groups")?;
    let under_run = groups.iter().filter(|group| group["process"]["is-under-run"] == true).count();
    ensure!(under_run == 1, "{under_run} are under wireseal run: {groups:?}");
    let counters = [("BIRD's kernel", counted[0]), ("FRR's kernel", counted[1])];
    Ok(evidence(lab, &keys[..1], &counters, 0.0)?
        .with_figures("each of 4 looks as it was, exit codes 0 and 1"))
}

async fn twin(lab: &Lab) -> Result<Refusal> {
    let south = lab.south().await?;
    let [north, other] = look(lab, south, None).await?;
    north.check(&seen("bird", "", "none", None), "1")?;
    other.check(&seen("bgpd", "", "none", None), "1")?;
    Ok(other.unprotected())
}

async fn start_behind<'a>(lab: &'a Lab, stock: &'a Guest) -> Result<(Bird<'a>, Behind<'a>)> {
    let (_, keys) = key_chain(SECRET)?;
    stock.set_clock(FIRST).await?;
    let bird = Bird::start(&lab.north, Port::Stock, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let behind = Behind::start(stock, Daemon::GoBgp, &key_file(SECRET)).await?;
    bird.open().await?;
    await_routes(&bird, 0).await?;
    Ok((bird, behind))
}

async fn behind_gateway(lab: &Lab) -> Result<Evidence> {
    let stock = lab.stock().await?;
    let before = lab.north.counters().await?;
    let (bird, behind) = start_behind(lab, stock).await?;
    let said = probe(stock).await?;
    let counted = lab.north.counters().await?.since(&before).check_good("north")?;
    bird.stop_alone().await?;
    behind.stop().await?;
    said.check(&seen("gobgpd", "", "gateway", None), "0")?;
    let kernel = &said.json["kernel"];
    ensure!(kernel["tcp-ao"]["ability"] == "no" && kernel["packet-queues"]["ability"] == "yes", "{kernel}");
    let (_, keys) = key_chain(SECRET)?;
    Ok(evidence(lab, &keys[..1], &[("BIRD's kernel", counted)], 0.0)?
        .with_figures("2 sessions behind the gateway"))
}

async fn without_gateway(lab: &Lab) -> Result<Refusal> {
    let stock = lab.stock().await?;
    let (bird, mut behind) = start_behind(lab, stock).await?;
    behind.end_gateway().await?;
    stock.shell("wireseal gateway --remove-rules").await?;
    let said = probe(stock).await?;
    // The sessions go on, so that they end in order.
    behind.gateway = start_gateway(stock).await?;
    bird.stop_alone().await?;
    behind.stop().await?;
    said.check(&seen("gobgpd", "", "none", None), "1")?;
    Ok(said.unprotected())
}
