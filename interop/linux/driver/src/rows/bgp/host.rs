//! The program router-peer on this machine: its own TCP stack on the unix transport, its configuration file, the machine's clock.

use std::time::{Duration, Instant};

use agent::Counted;
use tokio::time::sleep;
use wireseal_tcp_ao::key_chain::Timestamp;

use super::bird::{Bird, tcp_ao};
use super::common::{ROUTES, SECRET, WHAT, by_clock, check_still_up, evidence, key_chain, key_file_at, roll};
use super::program::{ESTABLISHED, Program};
use crate::prelude::*;

/// What the log says of a packet that Wireseal does not let through, with `--verbose`; and of one that came with a wrong MAC.
const REFUSED: &str = "packet refused";
const BAD: &str = "inbound packet refused: MAC does not verify";

/// Starts the program, its key chain beginning at `start`.
async fn start(lab: &Lab, secret: &str, start: i64) -> Result<Program<'static>> {
    let at = |moment| Timestamp::from_unix_seconds(by_clock(start, moment));
    Program::start_here(lab, &key_file_at(secret, at)).await
}

pub fn row() -> Row {
    Row::new(
        "bird-program",
        format!(
            "the program router-peer on this machine, unix transport and real time, against BIRD: {WHAT}"
        ),
        carry,
        "another secret at one end: no session, each end refuses the other's SYNs",
        twin,
    )
}

async fn carry(lab: &Lab) -> Result<Evidence> {
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    let bird = Bird::start(&lab.north, Port::Host, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let (started, now) = (Instant::now(), Timestamp::now().unix_seconds());
    let program = start(lab, SECRET, now).await?;
    let since = program.exchange(&bird).await?;
    let seconds = started.elapsed().as_secs_f64();

    roll(lab, &bird, Port::Host, &keys, async |moment| {
        let left = by_clock(now, moment) - Timestamp::now().unix_seconds();
        sleep(Duration::from_secs(u64::try_from(left).unwrap_or_default())).await;
        Ok(())
    })
    .await?;
    check_still_up(&bird, ROUTES, &since).await?;
    let counted = settled(lab, &before).await?;

    bird.close().await?;
    let log = program.stop().await?;
    ensure!(
        log.matches(ESTABLISHED).count() == 2 && !log.contains(REFUSED),
        "router-peer's sessions did not stay up, or it has refused something: {log}"
    );
    bird.stop().await?;
    let counters = [("BIRD's kernel", counted.to_string()), ("router-peer", "0 packets refused".into())];
    evidence(lab, &keys, &counters, seconds)
}

/// What BIRD's kernel has counted when all that router-peer has sent is with it: all of it, as good.
async fn settled(lab: &Lab, before: &Counted) -> Result<Counted> {
    loop {
        let sent = lab.wire.segments_from(Port::Host);
        let expected = Counted::good(sent);
        let counted = lab.north.await_counted(before, expected).await?;
        if sent == lab.wire.segments_from(Port::Host) {
            return counted.check("north", &expected);
        }
    }
}

async fn twin(lab: &Lab) -> Result<Refusal> {
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    let bird = Bird::start(&lab.north, Port::Host, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let program = start(lab, "what one end knows", Timestamp::now().unix_seconds()).await?;
    bird.open().await?;
    let counted = lab.north.await_counted(&before, Counted::bad(1));
    let (counted, ()) = tokio::try_join!(counted, program.await_log(BAD, 1))?;
    bird.close().await?;
    let log = program.stop().await?;
    bird.stop().await?;
    ensure!(!log.contains(ESTABLISHED), "there was a session");
    let bad = Refusal::of("router-peer: packets with a wrong MAC", log.matches(BAD).count() as u64);
    Ok(Refusal::by("north", &counted).and(bad))
}
