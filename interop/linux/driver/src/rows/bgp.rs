//! BIRD, on a kernel's TCP-AO, with Wireseal's BGP speaker as its peer: on the speaker's userspace stack, and as the program router-peer
//! on a kernel's sockets.

use std::sync::Arc;
use std::time::Instant;

use agent::{Counted, TIME_LIMIT, WriteFile};
use speaker::message::Export;
use speaker::protection;
use speaker::routes::generate;
use speaker::session::{Session, SessionConfig, State};
use wireseal_keys::{KeyChain, KeyChains, Timestamp};
use wireseal_tcp_ao::option::kind;
use wireseal_tcp_ao::{KeyId, Mkt};

use super::bird::{AS, Bird, HOLD_TIME, IPV4_ROUTES, IPV6_ROUTES, PEER_AS, Since, tcp_ao, tcp_md5};
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::session::USERSPACE_PORT;
use crate::userspace::Userspace;
use crate::verify::{Verdicts, verify};
use crate::wait::Program;

pub fn rows() -> Vec<Row> {
    vec![userspace_row(), kernel_row(), migration_row()]
}

/// The description that these rows share.
pub const WHAT: &str = "sessions over IPv4 (opened by router-peer) and IPv6 (opened by BIRD), 10,000 routes each way in each; key \
                chain and BIRD's configuration roll over from AES-128-CMAC-96 to hmac(sha256), sessions stay up";
/// Routes each way in each session.
pub const ROUTES: usize = IPV4_ROUTES + IPV6_ROUTES;
pub const SECRET: &str = "what both ends know";

/// Moments in the life of the key chain: only the first key; both accepted; the second preferred; only the second; none. The
/// lifetimes begin and end between them.
pub const FIRST: i64 = 1_800_000_000;
pub const BOTH: i64 = FIRST + 1000;
pub const SECOND: i64 = FIRST + 2000;
pub const ALONE: i64 = FIRST + 3000;
pub const OVER: i64 = FIRST + 4000;

/// Seconds from one moment of the key chain to the next, where the clock is not set and the row waits.
const STEP: i64 = 8;
/// Far enough away that a row never comes to it.
const DAY: i64 = 24 * 3600;

/// A moment of the key chain, on a clock on which the chain begins at `start`.
pub fn by_clock(start: i64, moment: i64) -> i64 {
    if moment > ALONE { start + DAY } else { start + (moment - FIRST) * STEP / (BOTH - FIRST) }
}

pub fn key_file(secret: &str) -> String {
    key_file_at(secret, Timestamp::from_unix_seconds)
}

/// The key chain with its moments at these times.
pub fn key_file_at(secret: &str, at: impl Fn(i64) -> Timestamp) -> String {
    format!(
        "[[key-chain]]\nname = \"lab\"\n\
         [[key-chain.key]]\nsend-id = 11\nrecv-id = 21\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"{secret} first\"\n\
         send = {{ until = {} }}\naccept = {{ until = {} }}\n\
         [[key-chain.key]]\nsend-id = 12\nrecv-id = 22\nalgorithm = \"hmac(sha256)\"\nsecret = \"{secret} second\"\n\
         send = {{ from = {}, until = {} }}\naccept = {{ from = {}, until = {} }}\n",
        at(SECOND - 500),
        at(ALONE - 500),
        at(SECOND - 500),
        at(OVER - 500),
        at(BOTH - 500),
        at(OVER - 500)
    )
}

/// The key chain of Wireseal's end, and its two keys.
pub fn key_chain(secret: &str) -> Result<(KeyChain, [Mkt; 2])> {
    let chains = KeyChains::from_toml(&key_file(secret))?;
    let [chain] = chains.chains() else { bail!("there is one key chain") };
    let [first, second] = chain.keys() else { bail!("there are two keys") };
    Ok((chain.clone(), [first.mkt().clone(), second.mkt().clone()]))
}

/// Waits until a port sends a new segment under a key in both families.
pub async fn await_signed(lab: &Lab, from: Port, key_id: KeyId) -> Result<()> {
    for family in Family::ALL {
        await_signed_over(lab, family, from, key_id).await?;
    }
    Ok(())
}

/// The same in one family.
pub async fn await_signed_over(lab: &Lab, family: Family, from: Port, key_id: KeyId) -> Result<()> {
    let source = from.address(family);
    let mut next = None;
    let is_signed = |recording: &Recording| {
        let frames = &recording.frames[*next.get_or_insert(recording.frames.len())..];
        next = Some(recording.frames.len());
        let mut segments = frames.iter().filter_map(|frame| frame.segment());
        let has_key = |ao: wireseal_tcp_ao::AoOption<'_>| ao.key_id == key_id;
        let is_wanted = segments.any(|segment| {
            segment.source_address() == source && segment.ao_option().ok().flatten().is_some_and(has_key)
        });
        is_wanted.then_some(())
    };
    let what = format!("{from}'s segment under key {key_id} over {family}");
    lab.wire.await_recorded(&what, is_signed).await
}

/// Rolls the key over at both ends of both sessions: `at` has Wireseal's end live at a moment of the key chain.
pub async fn roll(
    lab: &Lab,
    bird: &Bird<'_>,
    remote: Port,
    [first, second]: &[Mkt; 2],
    at: impl AsyncFn(i64) -> Result<()>,
) -> Result<()> {
    at(BOTH).await?;
    bird.configure(&tcp_ao(&[first, second], first)?).await?;
    // Each end asks the other for the second key, one after the other.
    bird.configure(&tcp_ao(&[first, second], second)?).await?;
    await_signed(lab, remote, second.send_id()).await?;
    at(SECOND).await?;
    await_signed(lab, Port::North, second.recv_id()).await?;
    at(ALONE).await?;
    bird.configure(&tcp_ao(&[second], second)?).await?;
    await_signed(lab, remote, second.send_id()).await?;
    await_signed(lab, Port::North, second.recv_id()).await
}

/// Waits until BIRD has all routes of both sessions; returns since when they are up.
pub async fn await_routes(bird: &Bird<'_>, imported: usize) -> Result<[Since; 2]> {
    let ipv4 = bird.await_routes(Family::Ipv4, imported).await?;
    let ipv6 = bird.await_routes(Family::Ipv6, imported).await?;
    Ok([ipv4.since, ipv6.since])
}

/// Waits for this many routes, and checks that the sessions are still the same.
pub async fn check_still_up(bird: &Bird<'_>, imported: usize, since: &[Since; 2]) -> Result<()> {
    let now = await_routes(bird, imported).await?;
    ensure!(*since == now, "BIRD's sessions are up since {now:?}, and were since {since:?}");
    Ok(())
}

/// Takes the second guest to the first moment of the key chain, and starts BIRD with the chain's first key; also says what both
/// kernels count from now on.
pub async fn begin(lab: &Lab) -> Result<(Bird<'_>, Both<'_>)> {
    let south = lab.south().await?;
    let (_, [first, _]) = key_chain(SECRET)?;
    let before = Both::of(&lab.north, south).await?;
    south.set_clock(FIRST).await?;
    Ok((Bird::start(&lab.north, Port::South, &tcp_ao(&[&first], &first)?).await?, before))
}

/// The evidence of what went over the wire, all of which has to verify, with what was counted.
pub fn evidence(lab: &Lab, mkts: &[Mkt], counters: &[(&str, Counted)], seconds: f64) -> Result<Evidence> {
    let recording = lab.wire.take_recording();
    let wire = verify(lab, &recording, mkts)?;
    wire.check_all_verified()?;
    let counters = counters.iter().map(|(end, counted)| ((*end).to_owned(), counted.to_string())).collect();
    Ok(Evidence { counters, figures: figures(seconds, &wire), wire, unsigned: 0, recording })
}

fn figures(seconds: f64, wire: &Verdicts) -> String {
    let by_key: Vec<String> =
        wire.by_key.iter().map(|(key, segments)| format!("{segments} under key {key}")).collect();
    format!("2 sessions, {ROUTES} routes each way in each after {seconds:.1} s; {}", by_key.join(", "))
}

const CONFIGURATION: &str = "/tmp/peer/peer.toml";
/// What the log says of each session.
pub const ESTABLISHED: &str = "session established";
/// A line of each peer's table.
pub const UNDER_AO: &str = "key-chain = \"lab\"";
/// The secret for TCP-MD5, where that is used.
pub const MD5_SECRET: &str = "what both ends have long known";

/// A configuration of the program, on the kernel's sockets, against BIRD. `protection` is a line of each peer's table.
fn configuration(protection: &str) -> String {
    let (own, bird) = (Port::South, Port::North);
    let mut text = format!(
        "key-chains = \"keys.toml\"\n[router]\nas = {PEER_AS}\nid = \"{0}\"\n[transport]\nkind = \"tun\"\ndevice = \"seal0\"\n\
         mtu = 1500\naddresses = [\"{0}/24\", \"{1}/64\"]\n",
        own.ipv4(),
        own.ipv6()
    );
    for family in Family::ALL {
        text += &format!(
            "[[peer]]\nname = \"{}\"\naddress = \"{}\"\nas = {AS}\npassive = {}\nhold-time = {HOLD_TIME}\n\
             next-hop-ipv4 = \"{}\"\nnext-hop-ipv6 = \"{}\"\nroutes = \"routes.txt\"\n{protection}\n",
            family,
            bird.address(family),
            family == Family::Ipv6,
            own.ipv4(),
            own.ipv6()
        );
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

/// As many routes as BIRD announces.
fn routes() -> String {
    let ipv4 = (0..IPV4_ROUTES).map(|route| format!("70.{}.{}.0/24\n", route / 250, route % 250));
    ipv4.chain((0..IPV6_ROUTES).map(|route| format!("2a02:{}:{}::/48\n", route / 250, route % 250))).collect()
}

/// Starts it on a guest.
async fn start<'a>(guest: &'a Guest, protection: &str, keys: &str) -> Result<Program<'a>> {
    let files = [
        ("peer.toml", configuration(protection)),
        ("keys.toml", keys.into()),
        ("bird.md5", MD5_SECRET.into()),
        ("routes.txt", routes()),
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
async fn exchange(program: &Program<'_>, bird: &Bird<'_>) -> Result<[Since; 2]> {
    program.await_log(ESTABLISHED, 1).await?;
    bird.open().await?;
    let received = format!("initial routes received ipv4={IPV4_ROUTES} ipv6={IPV6_ROUTES}");
    program.await_log(&received, 2).await?;
    await_routes(bird, ROUTES).await
}

/// Where BGP is served.
const BGP: u16 = 179;

pub fn userspace_row() -> Row {
    Row::new(
        "bird-userspace",
        format!("router-peer's stack against BIRD: {WHAT}"),
        userspace,
        "another secret at one end: no session, both ends count the other's SYNs",
        userspace_twin,
    )
}

/// Wireseal's end in this process: a stack, and the terms of a session over it.
fn stack(lab: &Lab, chain: &KeyChain) -> Result<(Userspace, SessionConfig)> {
    let mkts = chain.mkts(Timestamp::from_unix_seconds(FIRST));
    let peer = |family: Family| {
        protection::peer(Port::Userspace.address(family), Port::North.address(family), mkts.clone())
    };
    let userspace = Userspace::start(&lab.wire, Family::ALL.map(peer).into(), fastrand::u64(..))?;
    let next_hops = Family::ALL.map(|family| Some(Port::Userspace.address(family)));
    let export = Export { local_as: PEER_AS, peer_as: AS, next_hops };
    Ok((userspace, SessionConfig { export, router_id: Port::Userspace.ipv4(), hold_time: HOLD_TIME }))
}

async fn userspace(lab: &Lab) -> Result<Evidence> {
    let (chain, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    let (userspace, config) = stack(lab, &chain)?;
    let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
    let started = Instant::now();
    let bird = Bird::start(&lab.north, Port::Userspace, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    bird.open().await?;
    let remote = Port::North.at(Family::Ipv4, BGP);
    let streams = tokio::try_join!(userspace.connect(remote), userspace.accept(&mut listener))?;
    let sessions = [Session::start(streams.0, config), Session::start(streams.1, config)];
    for session in &sessions {
        session.announce(generate(ROUTES as u32)).await?;
    }
    for session in &sessions {
        let routes = [IPV4_ROUTES, IPV6_ROUTES];
        let complete = session.until(TIME_LIMIT, "BIRD's routes", |status| status.routes == routes);
        complete.await?;
    }
    let since = await_routes(&bird, ROUTES).await?;
    let seconds = started.elapsed().as_secs_f64();

    roll(lab, &bird, Port::Userspace, &keys, async |seconds| {
        for place in 0..Family::ALL.len() {
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
    check_still_up(&bird, ROUTES + more.len(), &since).await?;
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

async fn userspace_twin(lab: &Lab) -> Result<Refusal> {
    let (_, keys) = key_chain(SECRET)?;
    let (other, _) = key_chain("what one end knows")?;
    let before = lab.north.counters().await?;
    let (userspace, _) = stack(lab, &other)?;
    let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
    let bird = Bird::start(&lab.north, Port::Userspace, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    bird.open().await?;
    let bad = Counted::bad(1);
    let counted =
        async { tokio::try_join!(lab.north.await_counted(&before, bad), userspace.await_counted(bad)) };
    let connect = userspace.connect(Port::North.at(Family::Ipv4, BGP));
    let counted = refused(refused(counted, connect), userspace.accept(&mut listener));
    let (by_kernel, by_userspace) = counted.await?;
    bird.stop().await?;
    Ok(Refusal::by("north", &by_kernel).and(Refusal::by("userspace", &by_userspace)))
}

pub fn kernel_row() -> Row {
    Row::new(
        "bird-kernel",
        format!(
            "router-peer --transport kernel against BIRD; its listening socket is shared with a peer under TCP-MD5 and an \
             unprotected one: {WHAT}; then the chain runs out: sessions are reset, and BIRD is kept out"
        ),
        kernel,
        "another secret at one end: no session, both ends count the other's SYNs, and router-peer says so",
        kernel_twin,
    )
}

async fn kernel(lab: &Lab) -> Result<Evidence> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let set_clock = async |seconds| south.set_clock(seconds).await;
    let started = Instant::now();
    let (bird, before) = begin(lab).await?;
    let program = start(south, UNDER_AO, &key_file(SECRET)).await?;
    let since = exchange(&program, &bird).await?;
    let seconds = started.elapsed().as_secs_f64();

    roll(lab, &bird, Port::South, &keys, set_clock).await?;
    check_still_up(&bird, ROUTES, &since).await?;
    let log = program.log().await?;
    ensure!(
        log.matches(ESTABLISHED).count() == 2 && !log.contains("session over"),
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
    program.await_log("no key may be sent with: connection reset", 2).await?;
    let refused = south.await_counted(&before, Counted::key_not_found(1)).await?;
    bird.check_kept_out().await?;
    bird.close().await?;
    let log = program.stop().await?;
    ensure!(log.matches(ESTABLISHED).count() == 2, "there was another session: {log}");
    let said: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("TCP-AO of the connection "))
        .map(|(_, said)| said)
        .collect();
    let is_good = |said: &&str| said.ends_with("bad=0 key_not_found=0 required=0 dropped_icmp=0");
    ensure!(said.len() == 2 && said.iter().all(is_good), "router-peer reports {said:?}");
    Ok(refused)
}

async fn kernel_twin(lab: &Lab) -> Result<Refusal> {
    let south = lab.south().await?;
    let (bird, before) = begin(lab).await?;
    let program = start(south, UNDER_AO, &key_file("what one end knows")).await?;
    bird.open().await?;
    let refusal = before.bad().await?;
    program.await_log("segments were refused", 1).await?;
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
    let start = async |protection: &str| start(south, protection, &key_file).await;
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
    let program = start(south, UNDER_AO, &key_file(SECRET)).await?;
    let counted = lab.north.await_counted(&before, Counted::key_not_found(1)).await?;
    let log = program.stop().await?;
    bird.stop().await?;
    ensure!(!log.contains(ESTABLISHED), "there was a session");
    Ok(Refusal::by("north", &counted))
}
