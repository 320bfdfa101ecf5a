//! From TCP-MD5 to TCP-AO.

use agent::Counted;
use wireseal_tcp_ao::option::kind;

use super::bird::{Bird, tcp_ao, tcp_md5};
use super::common::{FIRST, ROUTES, SECRET, evidence, key_chain, key_file};
use super::program::{ESTABLISHED, MD5_SECRET, Program, UNDER_AO};
use crate::prelude::*;

pub fn row() -> Row {
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
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let key_file = key_file(SECRET);
    let start = async |protection: &str| Program::start(south, protection, &key_file).await;
    let md5 = "md5-secret-file = \"bird.md5\"";
    let exchange = async |bird: &Bird<'_>, protection| {
        let program = start(protection).await?;
        program.exchange(bird).await?;
        bird.close().await?;
        program.stop().await.map(drop)
    };

    let bird = Bird::start(&lab.north, Port::South, &tcp_md5(MD5_SECRET)).await?;
    exchange(&bird, md5).await?;
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

    let before = (lab.north.counters().await?, south.counters().await?);
    bird.configure(&tcp_ao(&[&keys[0]], &keys[0])?).await?;
    exchange(&bird, UNDER_AO).await?;
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    counted.1.check_good("south")?;

    let counters =
        [("BIRD's kernel", counted.0.to_string()), ("router-peer's kernel", counted.1.to_string())];
    let mut evidence = evidence(lab, &keys, &counters, 0.0)?;

    // And no way back.
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
    south.shell(&format!("date -u -s @{FIRST}")).await?;
    let before = lab.north.counters().await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_md5(MD5_SECRET)).await?;
    let program = Program::start(south, UNDER_AO, &key_file(SECRET)).await?;
    let counted = lab.north.await_counted(&before, Counted::key_not_found(1)).await?;
    let log = program.stop().await?;
    bird.stop().await?;
    ensure!(!log.contains(ESTABLISHED), "there was a session");
    Ok(Refusal::by("north", &counted))
}
