//! A daemon that runs already.

use std::time::Duration;

use agent::Counted;
use wireseal_tcp_ao::SocketPair;

use super::daemon::{Daemon, FOLDER, Speaker, peers, write};
use super::run::first_key;
use super::supervised::{LISTENING, SESSION, Supervised};
use crate::prelude::*;
use crate::rows::bgp::bird::{Bird, tcp_ao};
use crate::rows::bgp::common::{FIRST, SECRET, await_routes, evidence, key_chain, key_file};

const UNSIGNED: &str = "this session is open already and stays unsigned";

pub fn row() -> Row {
    Row::new(
        "attach",
        "wireseal attach, to Debian's GoBGP with two sessions with BIRD that are not signed: both stay up and are named in the log; once BIRD has \
         the keys, the next ones over IPv4 (opened by GoBGP) and IPv6 (opened by BIRD) are signed",
        run,
        "another secret at one end: no session",
        twin,
    )
}

/// A daemon without supervision, with sessions that are not signed.
async fn start(lab: &Lab, secret: &str) -> Result<()> {
    let south = lab.south().await?;
    let speaker = Speaker::of_bird(Port::South);
    write(south, "daemon.conf", &Daemon::GoBgp.configuration(&speaker)).await?;
    write(south, "wireseal.toml", &peers(speaker.peer, None)).await?;
    write(south, "keys.toml", first_key(&key_file(secret))?).await?;
    Daemon::GoBgp.prepare(south).await?;
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    south.start("daemon", Daemon::GoBgp.command()).await
}

async fn attach(lab: &Lab) -> Result<Supervised<'_>> {
    let south = lab.south().await?;
    let arguments = format!("attach --pid $(pidof gobgpd) --config {FOLDER}/wireseal.toml");
    let attached = Supervised::start(south, "attach", &arguments).await?;
    attached.await_log(LISTENING, 2).await?;
    Ok(attached)
}

async fn run(lab: &Lab) -> Result<Evidence> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    start(lab, SECRET).await?;
    let bird = Bird::start(&lab.north, Port::South, "").await?;
    bird.open().await?;
    let since = await_routes(&bird, 0).await?;
    let attached = attach(lab).await?;
    attached.await_log(UNSIGNED, 2).await?;
    attached.change_keys(first_key(&key_file(SECRET))?).await?;
    // The supervisor looks once a second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    ensure!(await_routes(&bird, 0).await? == since, "the sessions did not stay up");
    let pairs: Vec<SocketPair> = lab.wire.look(|recording| {
        let pair = |segment: wireseal_tcp_ao::Segment<'_>| SocketPair {
            local: segment.source(),
            remote: segment.destination(),
        };
        recording.segments().map(pair).collect()
    });
    let before = (lab.north.counters().await?, south.counters().await?);
    bird.configure(&tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let again = await_routes(&bird, 0).await?;
    ensure!(again.iter().zip(&since).all(|(again, since)| again != since), "a session stayed unsigned");
    attached.await_log(SESSION, 2).await?;
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    bird.stop().await?;
    south.shell("pkill gobgpd").await?;
    attached.await_end().await?;
    let counters = [("BIRD's kernel", counted.0.to_string()), ("GoBGP's kernel", counted.1.to_string())];
    // What is judged is what the new sessions sent.
    let mut recording = lab.wire.take_recording();
    recording.frames.retain(|frame| {
        frame.segment().is_none_or(|segment| {
            let (source, destination) = (segment.source(), segment.destination());
            !pairs.iter().any(|pair| (pair.local, pair.remote) == (source, destination))
        })
    });
    lab.wire.put_recording(recording);
    let evidence = evidence(lab, &keys[..1], &counters, 0.0)?;
    Ok(evidence.with_figures("10,000 routes from BIRD in each of 2 sessions, unsigned and then signed"))
}

async fn twin(lab: &Lab) -> Result<Refusal> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    start(lab, "what one end knows").await?;
    let attached = attach(lab).await?;
    let before = lab.north.counters().await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let counted = lab.north.await_counted(&before, Counted::bad(1)).await?;
    let log = attached.log().await?;
    bird.stop().await?;
    south.shell("pkill gobgpd").await?;
    attached.await_end().await?;
    ensure!(!log.contains(SESSION), "there was a session: {log}");
    Ok(Refusal::by("north", &counted))
}
