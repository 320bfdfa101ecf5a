//! router-peer over the sockets of the second guest's kernel.

use std::time::Instant;

use agent::Counted;

use super::bird::{Bird, tcp_ao};
use super::common::{FIRST, OVER, ROUTES, SECRET, WHAT, check_still_up, evidence, key_chain, key_file, roll};
use super::program::{ESTABLISHED, Program, UNDER_AO};
use crate::prelude::*;

pub fn row() -> Row {
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
    let before = (lab.north.counters().await?, south.counters().await?);
    let set_clock = async |seconds: i64| south.shell(&format!("date -u -s @{seconds}")).await.map(drop);
    set_clock(FIRST).await?;
    let started = Instant::now();
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let program = Program::start(south, UNDER_AO, &key_file(SECRET)).await?;
    let since = program.exchange(&bird).await?;
    let seconds = started.elapsed().as_secs_f64();

    roll(lab, &bird, Port::South, &keys, set_clock).await?;
    check_still_up(&bird, ROUTES, &since).await?;
    let log = program.log().await?;
    ensure!(
        log.matches(ESTABLISHED).count() == 2 && !log.contains("session over"),
        "router-peer's sessions did not stay up: {log}"
    );
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    counted.1.check_good("south")?;
    let refused = run_out(lab, &bird, program, set_clock).await?;
    bird.stop().await?;
    let counters = [
        ("BIRD's kernel", counted.0.to_string()),
        ("router-peer's kernel", counted.1.to_string()),
        ("router-peer's kernel, of BIRD's calls after the chain", refused.to_string()),
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
    for family in Family::ALL {
        let state = bird.state(family).await?;
        ensure!(state.state != "Established", "BIRD's session over {family} is up");
    }
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
    let (_, keys) = key_chain(SECRET)?;
    let before = (lab.north.counters().await?, south.counters().await?);
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let program = Program::start(south, UNDER_AO, &key_file("what one end knows")).await?;
    bird.open().await?;
    let bad = Counted::bad(1);
    let counted =
        tokio::try_join!(lab.north.await_counted(&before.0, bad), south.await_counted(&before.1, bad))?;
    program.await_log("segments were refused", 1).await?;
    let log = program.stop().await?;
    bird.stop().await?;
    ensure!(!log.contains(ESTABLISHED), "there was a session");
    Ok(Refusal::by("north", &counted.0).and(Refusal::by("south", &counted.1)))
}
