//! router-peer's stack in this process.

use std::sync::Arc;
use std::time::Instant;

use agent::{Counted, TIME_LIMIT};
use speaker::bgp::session::{Session, SessionConfig, State};
use speaker::bgp::update::Export;
use speaker::protection;
use speaker::routes::generate;
use wireseal_keys::{KeyChain, Timestamp};

use super::bird::{AS, Bird, HOLD_TIME, IPV4_ROUTES, IPV6_ROUTES, PEER_AS, tcp_ao};
use super::common::{FIRST, ROUTES, SECRET, WHAT, await_routes, check_still_up, evidence, key_chain, roll};
use crate::prelude::*;
use crate::rows::session::USERSPACE_PORT;
use crate::userspace::Userspace;

/// Where BGP is served.
const BGP: u16 = 179;

pub fn row() -> Row {
    Row::new(
        "bird-userspace",
        format!("router-peer's stack against BIRD: {WHAT}"),
        userspace,
        "another secret at one end: no session, both ends count the other's SYNs",
        userspace_twin,
    )
}

/// Wireseal's end in this process: a stack, and what a session over it is like.
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
    let counters = [("BIRD's kernel", north.to_string()), ("userspace", counted.to_string())];
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
