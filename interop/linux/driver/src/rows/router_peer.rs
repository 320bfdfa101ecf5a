//! BIRD, on a kernel's TCP-AO, with Wireseal's BGP speaker as its peer: on the speaker's userspace stack, and as the program router-peer
//! on a kernel's sockets.

use std::sync::Arc;
use std::time::Instant;

use agent::{Counted, TIME_LIMIT, WriteFile};
use speaker::message::Export;
use speaker::protection;
use speaker::routes::generate;
use speaker::session::{Session, SessionConfig, State};
use wireseal_keys::{KeyChain, Timestamp};
use wireseal_tcp_ao::option::kind;

use super::bgp::{
    FIRST, MD5_SECRET, OVER, SECRET, await_routes, begin_for, check_still_up, evidence, key_chain, key_file,
    roll,
};
use super::bird::{
    AS, Bird, HOLD_TIME, IPV4_ROUTES, IPV6_ROUTES, PEER_AS, Since, routes_of, tcp_ao, tcp_md5,
};
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::session::USERSPACE_PORT;
use crate::userspace::Userspace;
use crate::wait::Program;

/// The sessions of these rows.
const WHAT: &str = "sessions over IPv4 (opened by router-peer) and IPv6 (opened by BIRD), 10,000 routes each way in each; key \
                chain and BIRD's configuration roll over from AES-128-CMAC-96 to hmac(sha256), sessions stay up";
const ROLL: &str =
    "key chain and BIRD's configuration roll over from AES-128-CMAC-96 to hmac(sha256), it stays up";
/// Routes each way in each session.
pub const ROUTES: usize = IPV4_ROUTES + IPV6_ROUTES;
pub fn rows() -> Vec<Row> {
    let one_family = Family::ALL.iter().flat_map(|family| {
        let family = std::slice::from_ref(family);
        [userspace_row(family), kernel_row(family)]
    });
    let both = [userspace_row(&Family::ALL), kernel_row(&Family::ALL), migration_row()];
    both.into_iter().chain(one_family).collect()
}

/// The end of a row's name, and the sessions in its description.
fn named(families: &[Family]) -> (String, String) {
    match families {
        [family] => {
            let opener = if *family == Family::Ipv4 { "router-peer" } else { "BIRD" };
            let routes: usize = routes_of(families).iter().sum();
            (
                format!("-{family}"),
                format!(
                    "one session over {family} (opened by {opener}), which carries {routes} routes of this family each way; {ROLL}"
                ),
            )
        }
        _ => (String::new(), WHAT.to_owned()),
    }
}

const CONFIGURATION: &str = "/tmp/peer/peer.toml";
/// What the log says of each session.
pub const ESTABLISHED: &str = "session established";
/// A line of each peer's table.
pub const UNDER_AO: &str = "key-chain = \"lab\"";
/// A configuration of the program, on the kernel's sockets, against BIRD. `protection` is a line of each peer's table.
fn configuration(families: &[Family], protection: &str) -> String {
    let (own, bird) = (Port::South, Port::North);
    let mut text = format!(
        "key-chains = \"keys.toml\"\n[router]\nas = {PEER_AS}\nid = \"{0}\"\n[transport]\nkind = \"tun\"\ndevice = \"seal0\"\n\
         mtu = 1500\naddresses = [\"{0}/24\", \"{1}/64\"]\n",
        own.ipv4(),
        own.ipv6()
    );
    let next_hops: String = families
        .iter()
        .map(|family| {
            format!("next-hop-{} = \"{}\"\n", family.to_string().to_lowercase(), own.address(*family))
        })
        .collect();
    for family in families {
        text += &format!(
            "[[peer]]\nname = \"{}\"\naddress = \"{}\"\nas = {AS}\npassive = {}\nhold-time = {HOLD_TIME}\n\
             {next_hops}routes = \"routes.txt\"\n{protection}\n",
            family,
            bird.address(*family),
            *family == Family::Ipv6
        );
    }
    if families == [Family::Ipv4] {
        return text;
    }
    // No machine has these addresses. These peers share a listening socket with BIRD over IPv6, each with a different protection.
    for (name, address, protection) in
        [("unprotected", "2001:db8::8", ""), ("older", "2001:db8::9", "md5-secret-file = \"bird.md5\"")]
    {
        text += &format!(
            "[[peer]]\nname = \"{name}\"\naddress = \"{address}\"\nas = {AS}\npassive = true\n{protection}\n"
        );
    }
    text
}

/// As many routes of these families as BIRD announces.
fn routes(families: &[Family]) -> String {
    let [ipv4, ipv6] = routes_of(families);
    let ipv4 = (0..ipv4).map(|route| format!("70.{}.{}.0/24\n", route / 250, route % 250));
    ipv4.chain((0..ipv6).map(|route| format!("2a02:{}:{}::/48\n", route / 250, route % 250))).collect()
}

/// Starts it on a guest.
async fn start<'a>(
    guest: &'a Guest,
    families: &[Family],
    protection: &str,
    keys: &str,
) -> Result<Program<'a>> {
    let files = [
        ("peer.toml", configuration(families, protection)),
        ("keys.toml", keys.into()),
        ("bird.md5", MD5_SECRET.into()),
        ("routes.txt", routes(families)),
    ];
    guest.shell("mkdir -p /tmp/peer").await?;
    for (name, contents) in files {
        guest.call(WriteFile { path: format!("/tmp/peer/{name}"), contents }).await?;
    }
    guest.shell("cd /tmp/peer && chmod 600 keys.toml bird.md5").await?;
    let command = format!("router-peer --config {CONFIGURATION} --transport kernel");
    Program::start(guest, "router-peer", &command).await
}

/// Waits until the session over IPv4 is up, makes BIRD open the one over IPv6, and waits until both ends have all routes of both.
/// Returns since when BIRD's are up.
async fn exchange(program: &Program<'_>, bird: &Bird<'_>) -> Result<Vec<Since>> {
    if bird.families.contains(&Family::Ipv4) {
        program.await_log(ESTABLISHED, 1).await?;
    }
    open(program, bird).await?;
    let [ipv4, ipv6] = routes_of(bird.families);
    let received = format!("initial routes received ipv4={ipv4} ipv6={ipv6}");
    program.await_log(&received, bird.families.len()).await?;
    await_routes(bird, ipv4 + ipv6).await
}

/// Makes BIRD open its session over IPv6, if there is one, once router-peer listens.
async fn open(program: &Program<'_>, bird: &Bird<'_>) -> Result<()> {
    if bird.families.contains(&Family::Ipv6) {
        let listens = async || Ok(program.guest.shell(LISTENS).await.is_ok());
        program.wait("router-peer to listen", listens).await?;
        bird.open().await?;
    }
    Ok(())
}

/// Whether a socket listens for BGP over IPv6.
const LISTENS: &str = "awk '$2 ~ /:00B3$/ && $4 == \"0A\" { found = 1 } END { exit !found }' /proc/net/tcp6";
/// Where BGP is served.
const BGP: u16 = 179;

fn userspace_row(families: &'static [Family]) -> Row {
    let (suffix, sessions) = named(families);
    Row::new(
        format!("bird-userspace{suffix}"),
        format!("router-peer's stack against BIRD: {sessions}"),
        async move |lab| userspace(lab, families).await,
        "another secret at one end: no session, each end that is called counts the SYNs",
        async move |lab| userspace_twin(lab, families).await,
    )
}

/// Wireseal's end in this process: a stack, and the terms of a session over it.
fn stack(lab: &Lab, families: &[Family], chain: &KeyChain) -> Result<(Userspace, SessionConfig)> {
    let mkts = chain.mkts(Timestamp::from_unix_seconds(FIRST));
    let peer = |family: &Family| {
        protection::peer(Port::Userspace.address(*family), Port::North.address(*family), mkts.clone())
    };
    let userspace = Userspace::start(&lab.wire, families.iter().map(peer).collect(), fastrand::u64(..))?;
    let next_hop = |family| families.contains(&family).then_some(Port::Userspace.address(family));
    let next_hops = Family::ALL.map(next_hop);
    let export = Export { local_as: PEER_AS, peer_as: AS, next_hops };
    Ok((userspace, SessionConfig { export, router_id: Port::Userspace.ipv4(), hold_time: HOLD_TIME }))
}

async fn userspace(lab: &Lab, families: &'static [Family]) -> Result<Evidence> {
    let (chain, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    let (userspace, config) = stack(lab, families, &chain)?;
    let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
    let started = Instant::now();
    let protection = tcp_ao(&[&keys[0]], &keys[0])?;
    let bird = Bird::start_for(&lab.north, Port::Userspace, families, &protection).await?;
    let mut sessions = Vec::new();
    for family in families {
        let stream = match family {
            Family::Ipv4 => userspace.connect(Port::North.at(*family, BGP)).await?,
            Family::Ipv6 => {
                bird.open().await?;
                userspace.accept(&mut listener).await?
            }
        };
        sessions.push(Session::start(stream, config));
    }
    for session in &sessions {
        session.announce(generate(ROUTES as u32)).await?;
    }
    let routes = routes_of(families);
    for session in &sessions {
        let complete = session.until(TIME_LIMIT, "BIRD's routes", |status| status.routes == routes);
        complete.await?;
    }
    // As many of each family as BIRD's.
    let since = await_routes(&bird, routes.iter().sum()).await?;
    let seconds = started.elapsed().as_secs_f64();

    roll(lab, &bird, Port::Userspace, &keys, async |seconds| {
        for place in 0..families.len() {
            protection::apply(&userspace.stack, place, &chain, Timestamp::from_unix_seconds(seconds));
        }
        Ok(())
    })
    .await?;
    // The next ones of the same series.
    let more: Arc<[_]> = generate(ROUTES as u32 + 10)[ROUTES..].into();
    for session in &sessions {
        session.announce(Arc::clone(&more)).await?;
    }
    let is_for_bird = |route: &&speaker::routes::Route| {
        families.contains(if route.prefix.is_v4() { &Family::Ipv4 } else { &Family::Ipv6 })
    };
    let imported = routes.iter().sum::<usize>() + more.iter().filter(is_for_bird).count();
    check_still_up(&bird, imported, &since).await?;
    for session in &sessions {
        session.established(TIME_LIMIT).await?;
        session.shutdown().await?;
        session.status().wait_for(|status| status.state == State::Closed).await?;
    }
    userspace.idle().await?;
    bird.stop().await?;

    let (sent, received) = (lab.wire.segments_from(Port::Userspace), lab.wire.segments_from(Port::North));
    let [sent, received] = [sent, received].map(Counted::good);
    let north = lab.north.await_counted(&before, sent).await?.check("north", &sent)?;
    let counted = userspace.await_counted(received).await?.check("userspace", &received)?;
    let counters = [("BIRD's kernel", north), ("userspace", counted)];
    evidence(lab, &keys, &counters, seconds)
}

async fn userspace_twin(lab: &Lab, families: &'static [Family]) -> Result<Refusal> {
    let (_, keys) = key_chain(SECRET)?;
    let (other, _) = key_chain("what one end knows")?;
    let before = lab.north.counters().await?;
    let (userspace, _) = stack(lab, families, &other)?;
    let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
    let protection = tcp_ao(&[&keys[0]], &keys[0])?;
    let bird = Bird::start_for(&lab.north, Port::Userspace, families, &protection).await?;
    let bad = |family| if families.contains(&family) { Counted::bad(1) } else { Counted::default() };
    if families.contains(&Family::Ipv6) {
        bird.open().await?;
    }
    // BIRD is called over IPv4, and calls over IPv6.
    let (by_opened, by_opening) = (bad(Family::Ipv4), bad(Family::Ipv6));
    let counted = async {
        tokio::try_join!(lab.north.await_counted(&before, by_opened), userspace.await_counted(by_opening))
    };
    let connect = async {
        match families.contains(&Family::Ipv4) {
            true => userspace.connect(Port::North.at(Family::Ipv4, BGP)).await.map(drop),
            false => std::future::pending().await,
        }
    };
    let counted = refused(refused(counted, connect), userspace.accept(&mut listener));
    let (by_kernel, by_userspace) = counted.await?;
    bird.stop().await?;
    Ok(Refusal::by("north", &by_kernel).and(Refusal::by("userspace", &by_userspace)))
}

fn kernel_row(families: &'static [Family]) -> Row {
    let (suffix, sessions) = named(families);
    let (shared, end) = match families {
        [Family::Ipv4] => ("", "the session is reset, and does not come back"),
        _ => (
            "; its listening socket is shared with a peer under TCP-MD5 and an unprotected one",
            "all sessions are reset, and BIRD is kept out",
        ),
    };
    Row::new(
        format!("bird-kernel{suffix}"),
        format!(
            "router-peer --transport kernel against BIRD{shared}: {sessions}; then the chain runs out: {end}"
        ),
        async move |lab| kernel(lab, families).await,
        match families {
            [Family::Ipv4] => {
                "another secret at one end: no session, BIRD's kernel counts router-peer's SYNs"
            }
            _ => {
                "another secret at one end: no session, each end that is called counts the SYNs, and router-peer says so"
            }
        },
        async move |lab| kernel_twin(lab, families).await,
    )
}

async fn kernel(lab: &Lab, families: &'static [Family]) -> Result<Evidence> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let set_clock = async |seconds| south.set_clock(seconds).await;
    let started = Instant::now();
    let (bird, before) = begin_for(lab, families).await?;
    let program = start(south, families, UNDER_AO, &key_file(SECRET)).await?;
    let since = exchange(&program, &bird).await?;
    let seconds = started.elapsed().as_secs_f64();

    roll(lab, &bird, Port::South, &keys, set_clock).await?;
    check_still_up(&bird, routes_of(families).iter().sum(), &since).await?;
    let log = program.log().await?;
    ensure!(
        log.matches(ESTABLISHED).count() == families.len() && !log.contains("session over"),
        "router-peer's sessions did not stay up: {log}"
    );
    let counted = before.good().await?;
    let refused = run_out(lab, &bird, program, set_clock).await?;
    bird.stop().await?;
    let counters = [
        ("BIRD's kernel", counted[0]),
        ("router-peer's kernel", counted[1]),
        ("router-peer's kernel, of BIRD's calls after the chain", refused),
    ];
    evidence(lab, &keys, &counters, seconds)
}

/// Lets the key chain run out: router-peer resets its sessions, and BIRD cannot open any.
async fn run_out(
    lab: &Lab,
    bird: &Bird<'_>,
    program: Program<'_>,
    set_clock: impl AsyncFn(i64) -> Result<()>,
) -> Result<Counted> {
    let south = lab.south().await?;
    let before = south.counters().await?;
    set_clock(OVER).await?;
    let sessions = bird.families.len();
    program.await_log("no key may be sent with: connection reset", sessions).await?;
    // Only the session over IPv6 is BIRD's to open again.
    let opens = bird.families.contains(&Family::Ipv6);
    let expected = if opens { Counted::key_not_found(1) } else { Counted::default() };
    let refused = south.await_counted(&before, expected).await?;
    bird.check_kept_out().await?;
    if opens {
        bird.close().await?;
    }
    let log = program.stop().await?;
    ensure!(log.matches(ESTABLISHED).count() == sessions, "there was another session: {log}");
    let said: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("TCP-AO of the connection "))
        .map(|(_, said)| said)
        .collect();
    let is_good = |said: &&str| said.ends_with("bad=0 key_not_found=0 required=0 dropped_icmp=0");
    ensure!(said.len() == sessions && said.iter().all(is_good), "router-peer reports {said:?}");
    Ok(refused)
}

async fn kernel_twin(lab: &Lab, families: &'static [Family]) -> Result<Refusal> {
    let south = lab.south().await?;
    let (bird, _) = begin_for(lab, families).await?;
    let before = [lab.north.counters().await?, south.counters().await?];
    let program = start(south, families, UNDER_AO, &key_file("what one end knows")).await?;
    open(&program, &bird).await?;
    let mut refusal = Refusal::default();
    // BIRD is called over IPv4, and calls over IPv6.
    if families.contains(&Family::Ipv4) {
        refusal =
            refusal.and(Refusal::by("north", &lab.north.await_counted(&before[0], Counted::bad(1)).await?));
    }
    if families.contains(&Family::Ipv6) {
        refusal = refusal.and(Refusal::by("south", &south.await_counted(&before[1], Counted::bad(1)).await?));
        program.await_log("segments were refused", 1).await?;
    }
    let log = program.stop().await?;
    bird.stop().await?;
    ensure!(!log.contains(ESTABLISHED), "there was a session");
    Ok(refusal)
}

pub fn migration_row() -> Row {
    Row::new(
        "bird-md5-to-ao",
        "router-peer --transport kernel against BIRD, from TCP-MD5 to TCP-AO, over IPv4 and IPv6: first under TCP-MD5; with both \
         configurations changed, under TCP-AO; then TCP-MD5 and unsigned calls are refused",
        migration,
        "BIRD's configuration stays with TCP-MD5",
        migration_twin,
    )
}

async fn migration(lab: &Lab) -> Result<Evidence> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    south.set_clock(FIRST).await?;
    let key_file = key_file(SECRET);
    let start = async |protection: &str| start(south, &Family::ALL, protection, &key_file).await;
    let md5 = "md5-secret-file = \"bird.md5\"";
    let exchange_under = async |bird: &Bird<'_>, protection| {
        let program = start(protection).await?;
        exchange(&program, bird).await?;
        bird.close().await?;
        program.stop().await.map(drop)
    };

    let bird = Bird::start(&lab.north, Port::South, &tcp_md5(MD5_SECRET)).await?;
    exchange_under(&bird, md5).await?;
    let under_md5 = lab.wire.take_recording();
    let (signed, others): (Vec<_>, Vec<_>) = under_md5.segments().partition(|segment| {
        segment.options().any(|option| option.is_ok_and(|option| option.kind == kind::MD5_SIGNATURE))
    });
    ensure!(
        !signed.is_empty() && others.is_empty(),
        "{} segments with TCP-MD5, {} without",
        signed.len(),
        others.len()
    );

    let before = Both::of(&lab.north, south).await?;
    bird.configure(&tcp_ao(&[&keys[0]], &keys[0])?).await?;
    exchange_under(&bird, UNDER_AO).await?;
    let counted = before.good().await?;

    let counters = [("BIRD's kernel", counted[0]), ("router-peer's kernel", counted[1])];
    let mut evidence = evidence(lab, &keys, &counters, 0.0)?;

    // There is no way back.
    let refusals = [(md5, Counted::md5_unexpected(1)), ("", Counted::required(1))];
    let mut refused = Vec::new();
    for (protection, wanted) in refusals {
        let before = lab.north.counters().await?;
        let program = start(protection).await?;
        let counted = lab.north.await_counted(&before, wanted).await?;
        let log = program.stop().await?;
        ensure!(!log.contains(ESTABLISHED), "there was a session with `{protection}`");
        refused.push(counted.to_string());
    }
    bird.stop().await?;
    let signed = signed.len();
    let figures = format!(
        "{ROUTES} routes each way in each of 2 sessions, twice; {signed} segments under TCP-MD5 before"
    );
    evidence
        .counters
        .push(("BIRD's kernel, of TCP-MD5 and of unsigned calls afterwards".into(), refused.join("; ")));
    Ok(evidence.with_figures(figures))
}

async fn migration_twin(lab: &Lab) -> Result<Refusal> {
    let south = lab.south().await?;
    south.set_clock(FIRST).await?;
    let before = lab.north.counters().await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_md5(MD5_SECRET)).await?;
    let program = start(south, &Family::ALL, UNDER_AO, &key_file(SECRET)).await?;
    let counted = lab.north.await_counted(&before, Counted::key_not_found(1)).await?;
    let log = program.stop().await?;
    bird.stop().await?;
    ensure!(!log.contains(ESTABLISHED), "there was a session");
    Ok(Refusal::by("north", &counted))
}
