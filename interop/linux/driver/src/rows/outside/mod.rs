//! TCP-AO for unchanged daemons, under `wireseal run` and behind `wireseal gateway`; and an operator's random days, which `second-days`
//! plays on a guest.

mod daemon;
mod daemon_pages;
mod gateway;
mod keys_roll;
mod migrate;
mod package;
mod page;
mod pages;
mod pair;
mod planned;
mod probe;
mod program;
mod run;

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::guest::Guest;
use crate::row::Row;
use crate::row::prelude::*;
use crate::wait::Program;

pub fn rows() -> Vec<Row> {
    let mut rows = run::daemons();
    rows.extend([pair::bgp(), pair::ldp(), run::vrf(), program::row(), run::service(), second_days()]);
    rows.extend(keys_roll::rows());
    rows.extend(gateway::rows());
    // Before others install the package, so that it sees whether purge leaves any file.
    rows.extend(package::rows());
    rows.extend(pages::rows());
    rows.extend(migrate::rows());
    rows.extend(probe::rows());
    rows.extend(daemon_pages::rows());
    rows
}

/// After this many seconds no more days begin.
const SECONDS: &str = "--days 6 --seconds 40";
const TWIN: &str = "--days 1 --open";
/// How long to wait for the end.
const LIMIT: Duration = Duration::from_secs(170);

pub fn second_days() -> Row {
    Row::new(
        "second-days",
        "random days of an operator of wireseal run and wireseal gateway with nftables; in two network namespaces of a guest, beside an \
         attacker who injects all the while; files are read again, keys roll over, programs and supervisors are killed and started again, the log \
         is not read, the clock is set",
        async |lab| {
            let said = days(lab.south().await?, SECONDS).await?;
            let days = said.lines().last().unwrap_or_default();
            Ok(Evidence::default().with_figures(days))
        },
        "the rules are removed in secret: each day's witness sees unsigned segments",
        async |lab| {
            let said = days(lab.south().await?, TWIN).await?;
            let seen = said.lines().filter(|line| line.contains("sent an unsigned segment")).count();
            Ok(Refusal::of("witness: unsigned segments of some kind", seen as u64))
        },
    )
}

/// Runs days; returns what was printed, if each went as it should.
async fn days(guest: &Guest, options: &str) -> Result<String> {
    let program = "wireseal-second-days --program /opt/lab/wireseal --guest";
    let days =
        Program::start(guest, "days", &format!("sh -c '{program} {options}; echo it ended with $?'")).await?;
    let started = Instant::now();
    let said = loop {
        let said = days.log().await?;
        if said.contains("it ended with ") {
            break said;
        }
        ensure!(started.elapsed() < LIMIT, "it has not ended: {said}");
        sleep(Duration::from_secs(1)).await;
    };
    let Some(said) = said.strip_suffix("it ended with 0\n") else { bail!("{said}") };
    Ok(said.to_owned())
}
