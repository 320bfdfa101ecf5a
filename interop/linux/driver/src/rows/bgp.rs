//! BIRD, on a kernel's TCP-AO, as the peer of Wireseal's BGP speaker: on its userspace stack, and on a kernel's sockets.

mod bird;
mod host;
mod program;

use std::sync::Arc;
use std::time::Instant;

use agent::{AwaitCounters, NetworkCounters};
use futures_util::FutureExt;
use router_peer::bgp::session::{Session, SessionConfig, State};
use router_peer::bgp::update::Export;
use router_peer::protection;
use router_peer::routes::generate;
use tokio::time::timeout;
use wireseal_tcp_ao::key_chain::{KeyChain, KeyChains, Timestamp};
use wireseal_tcp_ao::{Counters, Mkt};

use self::bird::{AS, Bird, HOLD_TIME, IPV4_ROUTES, IPV6_ROUTES, PEER_AS, tcp_ao, tcp_md5};
use self::program::{MD5_SECRET, Program};
use super::session::{USERSPACE_PORT, described};
use super::{Evidence, Refusal, Row};
use crate::failure::{Failure, ensure};
use crate::guest::at;
use crate::lab::{Addresses, Family, Lab, TIME_LIMIT, TIME_LIMIT_MILLISECONDS};
use crate::recording::Recording;
use crate::userspace::Userspace;
use crate::verify::{Keys, Verdicts, verify};
use crate::wire::Port;

/// Where BGP is served.
const BGP: u16 = 179;
/// Routes each way in each session.
const ROUTES: usize = IPV4_ROUTES + IPV6_ROUTES;
const SECRET: &str = "what both ends know";
const MD5_SIGNATURE: u8 = 19;

/// Moments in the life of the key chain: only the first key; both accepted; the second preferred; only the second; none. The
/// lifetimes begin and end between them.
const FIRST: i64 = 1_800_000_000;
const BOTH: i64 = FIRST + 1000;
const SECOND: i64 = FIRST + 2000;
const ALONE: i64 = FIRST + 3000;
const OVER: i64 = FIRST + 4000;

pub fn rows() -> Vec<Row> {
    let what = "sessions over IPv4 (opened by router-peer) and IPv6 (opened by BIRD), 10,000 routes each way in each; key \
                chain and BIRD's configuration roll over from AES-128-CMAC-96 to hmac(sha256), sessions stay up";
    vec![
        Row::new(
            "bird-userspace",
            format!("router-peer's stack against BIRD: {what}"),
            |lab| userspace(lab).boxed_local(),
            "another secret at one end: no session, both ends count the other's SYNs",
            |lab| userspace_twin(lab).boxed_local(),
        ),
        host::row(what),
        Row::new(
            "bird-kernel",
            format!(
                "router-peer --transport kernel against BIRD, its listening socket shared with a peer under TCP-MD5 and an \
                 unprotected one: {what}; then the chain runs out: sessions are reset, and BIRD is kept out"
            ),
            |lab| kernel(lab).boxed_local(),
            "another secret at one end: no session, both ends count the other's SYNs, and router-peer says so",
            |lab| kernel_twin(lab).boxed_local(),
        ),
        Row::new(
            "bird-md5-to-ao",
            "router-peer --transport kernel against BIRD, over IPv4 and IPv6: first under TCP-MD5; with both \
             configurations changed, under TCP-AO; then TCP-MD5 and unsigned calls are refused",
            |lab| migration(lab).boxed_local(),
            "BIRD's configuration stays with TCP-MD5",
            |lab| migration_twin(lab).boxed_local(),
        ),
    ]
}

fn key_file(secret: &str) -> String {
    key_file_at(secret, Timestamp::from_unix_seconds)
}

/// The same with its moments at these times.
fn key_file_at(secret: &str, at: impl Fn(i64) -> Timestamp) -> String {
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
fn key_chain(secret: &str) -> Result<(KeyChain, [Mkt; 2]), Failure> {
    let chains = KeyChains::from_toml(&key_file(secret))?;
    let [chain] = chains.chains() else { return Err(Failure("there is one key chain".to_owned())) };
    let [first, second] = chain.keys() else { return Err(Failure("there are two keys".to_owned())) };
    Ok((chain.clone(), [first.mkt().clone(), second.mkt().clone()]))
}

/// Waits until a port has sent a segment under a key in both families, from now on.
async fn await_signed(lab: &Lab, from: Port, key_id: wireseal_tcp_ao::KeyId) -> Result<(), Failure> {
    for family in Family::ALL {
        let source = Addresses::of(from).in_family(family);
        let mut next = None;
        lab.wire
            .await_recorded(
                &format!("{from}'s segment under key {key_id} over {}", family.name()),
                |recording: &Recording| {
                    let frames = &recording.frames[*next.get_or_insert(recording.frames.len())..];
                    next = Some(recording.frames.len());
                    let mut segments = frames.iter().filter_map(|frame| frame.segment());
                    let signed = |ao: wireseal_tcp_ao::AoOption<'_>| ao.key_id == key_id;
                    segments
                        .any(|segment| {
                            segment.source_address() == source
                                && segment.ao_option().ok().flatten().is_some_and(signed)
                        })
                        .then_some(())
                },
            )
            .await?;
    }
    Ok(())
}

/// Rolls the key over at both ends of both sessions: `at` has Wireseal's end live at a moment of the key chain.
async fn roll(
    lab: &Lab,
    bird: &Bird<'_>,
    remote: Port,
    [first, second]: &[Mkt; 2],
    at: impl AsyncFn(i64) -> Result<(), Failure>,
) -> Result<(), Failure> {
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

/// Waits until both sessions have all routes in BIRD, and says since when they are up.
async fn await_routes(bird: &Bird<'_>, imported: usize) -> Result<[String; 2], Failure> {
    let ipv4 = bird.await_routes(Family::Ipv4, imported).await?;
    let ipv6 = bird.await_routes(Family::Ipv6, imported).await?;
    Ok([ipv4.since, ipv6.since])
}

/// Checks that a kernel has counted nothing but good segments.
fn check_all_good(name: &str, counted: &NetworkCounters) -> Result<(), Failure> {
    let wanted = NetworkCounters { good: counted.good, ..NetworkCounters::default() };
    ensure(counted.good > 0 && *counted == wanted, || format!("{name} has counted {counted}"))
}

/// What the recording says, all of which has to verify.
fn check_recording(lab: &Lab, local: Port, mkts: &[Mkt]) -> Result<(Verdicts, Recording), Failure> {
    let recording = lab.wire.take_recording();
    let keys =
        Family::ALL.map(|family| Keys { local: Addresses::of(local).in_family(family), mkts: mkts.to_vec() });
    let wire = verify(&recording, &keys);
    wire.check_all_verified()?;
    Ok((wire, recording))
}

fn figures(seconds: f64, wire: &Verdicts) -> String {
    let by_key: Vec<String> =
        wire.by_key.iter().map(|(key, segments)| format!("{segments} under key {key}")).collect();
    format!("2 sessions, {ROUTES} routes each way in each after {seconds:.1} s; {}", by_key.join(", "))
}

async fn kernel(lab: &Lab) -> Result<Evidence, Failure> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let before = (lab.north.counters().await?, south.counters().await?);
    let set_clock = async |seconds: i64| south.shell(&format!("date -u -s @{seconds}")).await.map(drop);
    set_clock(FIRST).await?;
    let started = Instant::now();
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let program = Program::start(south, "key-chain = \"lab\"", &key_file(SECRET)).await?;
    program.await_log("session established", 1).await?;
    bird.open().await?;
    program.await_log(&format!("initial routes received ipv4={IPV4_ROUTES} ipv6={IPV6_ROUTES}"), 2).await?;
    let since = await_routes(&bird, ROUTES).await?;
    let seconds = started.elapsed().as_secs_f64();

    roll(lab, &bird, Port::South, &keys, set_clock).await?;
    let now = await_routes(&bird, ROUTES).await?;
    ensure(since == now, || format!("BIRD's sessions are up since {now:?}, and were since {since:?}"))?;
    let log = program.log().await?;
    ensure(log.matches("session established").count() == 2 && !log.contains("session over"), || {
        format!("router-peer's sessions did not stay up: {log}")
    })?;
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    check_all_good("north", &counted.0)?;
    check_all_good("south", &counted.1)?;
    let refused = run_out(lab, &bird, program, set_clock).await?;
    bird.stop().await?;
    let (wire, recording) = check_recording(lab, Port::South, &keys)?;
    Ok(Evidence {
        counters: vec![
            ("BIRD's kernel".into(), counted.0.to_string()),
            ("router-peer's kernel".into(), counted.1.to_string()),
            ("router-peer's kernel, of BIRD's calls after the chain".into(), refused.to_string()),
        ],
        figures: figures(seconds, &wire),
        wire,
        unsigned: 0,
        recording,
    })
}

/// Lets the key chain run out: router-peer resets its sessions, and nobody gets in any more.
async fn run_out(
    lab: &Lab,
    bird: &Bird<'_>,
    program: Program<'_>,
    set_clock: impl AsyncFn(i64) -> Result<(), Failure>,
) -> Result<NetworkCounters, Failure> {
    let south = lab.south().await?;
    let before = south.counters().await?;
    set_clock(OVER).await?;
    program.await_log("no key may be sent with: connection reset", 2).await?;
    let at_least = before.plus(&NetworkCounters { key_not_found: 1, ..NetworkCounters::default() });
    let after = south.call(AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS }).await?;
    for family in Family::ALL {
        let state = bird.state(family).await?;
        ensure(state.state != "Established", || format!("BIRD's session over {} is up", family.name()))?;
    }
    bird.close().await?;
    let log = program.stop().await?;
    ensure(log.matches("session established").count() == 2, || format!("there was another session: {log}"))?;
    let said: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("TCP-AO of the connection "))
        .map(|(_, said)| said)
        .collect();
    let is_good = |said: &&str| said.ends_with("bad=0 key_not_found=0 required=0 dropped_icmp=0");
    ensure(said.len() == 2 && said.iter().all(is_good), || {
        format!("router-peer says of its connections: {said:?}")
    })?;
    Ok(after.since(&before))
}

async fn kernel_twin(lab: &Lab) -> Result<Refusal, Failure> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let before = (lab.north.counters().await?, south.counters().await?);
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let program = Program::start(south, "key-chain = \"lab\"", &key_file("what one end knows")).await?;
    bird.open().await?;
    let bad = |before: NetworkCounters| AwaitCounters {
        at_least: before.plus(&NetworkCounters { bad: 1, ..NetworkCounters::default() }),
        time_limit: TIME_LIMIT_MILLISECONDS,
    };
    let counted = tokio::try_join!(lab.north.call(bad(before.0)), south.call(bad(before.1)))?;
    program.await_log("segments were refused", 1).await?;
    let log = program.stop().await?;
    bird.stop().await?;
    ensure(!log.contains("session established"), || "there was a session".to_owned())?;
    let mut refusal = Refusal::by_kernel("north", &counted.0.since(&before.0));
    refusal.counted.extend(Refusal::by_kernel("south", &counted.1.since(&before.1)).counted);
    Ok(refusal)
}

/// Wireseal's end in this process: a stack, and what a session over it is like.
fn stack(lab: &Lab, chain: &KeyChain) -> Result<(Userspace, SessionConfig), Failure> {
    let mkts = |family| {
        let mkts = chain.mkts(Timestamp::from_unix_seconds(FIRST));
        Userspace::peer(Addresses::of(Port::North).in_family(family), mkts)
    };
    let userspace = Userspace::start(&lab.wire, Family::ALL.map(mkts).into())?;
    let own = Addresses::of(Port::Userspace);
    let export = Export {
        local_as: PEER_AS,
        peer_as: AS,
        next_hop_ipv4: Some(own.ipv4),
        next_hop_ipv6: Some(own.ipv6),
    };
    Ok((userspace, SessionConfig { export, router_id: own.ipv4, hold_time: HOLD_TIME }))
}

async fn userspace(lab: &Lab) -> Result<Evidence, Failure> {
    let (chain, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    let (userspace, config) = stack(lab, &chain)?;
    let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
    let started = Instant::now();
    let bird = Bird::start(&lab.north, Port::Userspace, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    bird.open().await?;
    let remote = at(Addresses::of(Port::North).ipv4, BGP);
    let streams = tokio::try_join!(userspace.connect(remote), userspace.accept(&mut listener))?;
    let sessions = [Session::start(streams.0, config), Session::start(streams.1, config)];
    for session in &sessions {
        session.announce(generate(ROUTES)).await?;
    }
    for session in &sessions {
        let mut status = session.status();
        let complete = status.wait_for(|status| {
            status.state == State::Established
                && (status.ipv4_routes, status.ipv6_routes) == (IPV4_ROUTES, IPV6_ROUTES)
        });
        timeout(TIME_LIMIT, complete)
            .await
            .map_err(|_| Failure("BIRD's routes did not all come".to_owned()))??;
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
    let more: Arc<[_]> = generate(ROUTES + 10)[ROUTES..].into();
    for session in &sessions {
        session.announce(Arc::clone(&more)).await?;
    }
    let now = await_routes(&bird, ROUTES + more.len()).await?;
    ensure(since == now, || format!("BIRD's sessions are up since {now:?}, and were since {since:?}"))?;
    for session in &sessions {
        let mut status = session.status();
        ensure(status.borrow().state == State::Established, || format!("{:?}", *status.borrow()))?;
        session.shutdown().await?;
        timeout(TIME_LIMIT, status.wait_for(|status| status.state == State::Closed)).await??;
    }
    timeout(TIME_LIMIT, userspace.stack.idle()).await?;
    bird.stop().await?;

    let (sent, received) = (lab.wire.segments_from(Port::Userspace), lab.wire.segments_from(Port::North));
    let expected = NetworkCounters { good: sent, ..NetworkCounters::default() };
    let wait = AwaitCounters { at_least: before.plus(&expected), time_limit: TIME_LIMIT_MILLISECONDS };
    let north = lab.north.call(wait).await?.since(&before);
    ensure(north == expected, || format!("north has counted {north}, {sent} segments have reached it"))?;
    let counted = userspace.await_counters(|counters| counters.good >= received).await?;
    ensure(counted == Counters { good: received, ..Counters::default() }, || {
        format!("userspace has counted {}, {received} segments have reached it", described(&counted))
    })?;
    userspace.check_nothing_dropped()?;
    let (wire, recording) = check_recording(lab, Port::Userspace, &keys)?;
    Ok(Evidence {
        counters: vec![
            ("BIRD's kernel".into(), north.to_string()),
            ("userspace".into(), described(&counted)),
        ],
        figures: figures(seconds, &wire),
        wire,
        unsigned: 0,
        recording,
    })
}

async fn userspace_twin(lab: &Lab) -> Result<Refusal, Failure> {
    let (_, keys) = key_chain(SECRET)?;
    let (other, _) = key_chain("what one end knows")?;
    let before = lab.north.counters().await?;
    let (userspace, _) = stack(lab, &other)?;
    let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
    let bird = Bird::start(&lab.north, Port::Userspace, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    bird.open().await?;
    let at_least = before.plus(&NetworkCounters { bad: 1, ..NetworkCounters::default() });
    let counted = async {
        let by_kernel = lab.north.call(AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS });
        tokio::try_join!(by_kernel, userspace.await_counters(|counters| counters.bad > 0))
    };
    let (by_kernel, by_userspace) = tokio::select! {
        counted = counted => counted?,
        _ = userspace.connect(at(Addresses::of(Port::North).ipv4, BGP)) => {
            return Err(Failure("BIRD has answered".to_owned()));
        }
        _ = userspace.accept(&mut listener) => return Err(Failure("BIRD was let in".to_owned())),
    };
    bird.stop().await?;
    let mut refusal = Refusal::by_kernel("north", &by_kernel.since(&before));
    refusal.counted.extend(Refusal::by_userspace("bad", by_userspace.bad).counted);
    Ok(refusal)
}

async fn migration(lab: &Lab) -> Result<Evidence, Failure> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let key_file = key_file(SECRET);
    let start = async |protection: &str| Program::start(south, protection, &key_file).await;
    let (md5, ao) = ("md5-secret-file = \"bird.md5\"", "key-chain = \"lab\"");
    let received = format!("initial routes received ipv4={IPV4_ROUTES} ipv6={IPV6_ROUTES}");

    let exchange = async |bird: &Bird<'_>, protection| {
        let program = start(protection).await?;
        program.await_log("session established", 1).await?;
        bird.open().await?;
        program.await_log(&received, 2).await?;
        await_routes(bird, ROUTES).await?;
        bird.close().await?;
        program.stop().await.map(drop)
    };

    let bird = Bird::start(&lab.north, Port::South, &tcp_md5(MD5_SECRET)).await?;
    exchange(&bird, md5).await?;
    let under_md5 = lab.wire.take_recording();
    let segments = under_md5.frames.iter().filter_map(|frame| frame.segment());
    let (signed, others): (Vec<_>, Vec<_>) = segments.partition(|segment| {
        segment.options().any(|option| option.is_ok_and(|option| option.kind == MD5_SIGNATURE))
    });
    ensure(!signed.is_empty() && others.is_empty(), || {
        format!("{} segments with TCP-MD5, {} without", signed.len(), others.len())
    })?;

    let before = (lab.north.counters().await?, south.counters().await?);
    bird.configure(&tcp_ao(&[&keys[0]], &keys[0])?).await?;
    exchange(&bird, ao).await?;
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    check_all_good("north", &counted.0)?;
    check_all_good("south", &counted.1)?;
    let (wire, recording) = check_recording(lab, Port::South, &keys)?;

    // And no way back.
    let refusals = [
        (md5, NetworkCounters { md5_unexpected: 1, ..NetworkCounters::default() }),
        ("", NetworkCounters { ao_required: 1, ..NetworkCounters::default() }),
    ];
    let mut refused = Vec::new();
    for (protection, wanted) in refusals {
        let before = lab.north.counters().await?;
        let program = start(protection).await?;
        let at_least = before.plus(&wanted);
        let after = lab.north.call(AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS }).await?;
        let log = program.stop().await?;
        ensure(!log.contains("session established"), || format!("there was a session with `{protection}`"))?;
        refused.push(after.since(&before).to_string());
    }
    bird.stop().await?;
    Ok(Evidence {
        counters: vec![
            ("BIRD's kernel".into(), counted.0.to_string()),
            ("router-peer's kernel".into(), counted.1.to_string()),
            ("BIRD's kernel, of TCP-MD5 and of unsigned calls afterwards".into(), refused.join("; ")),
        ],
        figures: format!(
            "{ROUTES} routes each way in each of 2 sessions, twice; {} segments under TCP-MD5 before",
            signed.len()
        ),
        wire,
        unsigned: 0,
        recording,
    })
}

async fn migration_twin(lab: &Lab) -> Result<Refusal, Failure> {
    let south = lab.south().await?;
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let before = lab.north.counters().await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_md5(MD5_SECRET)).await?;
    let program = Program::start(south, "key-chain = \"lab\"", &key_file(SECRET)).await?;
    let at_least = before.plus(&NetworkCounters { key_not_found: 1, ..NetworkCounters::default() });
    let after = lab.north.call(AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS }).await?;
    let log = program.stop().await?;
    bird.stop().await?;
    ensure(!log.contains("session established"), || "there was a session".to_owned())?;
    Ok(Refusal::by_kernel("north", &after.since(&before)))
}
