//! wireseal-interop-linux: runs the rows named on the command line, or all.
//!
//! | module | what is in it |
//! |---|---|
//! | `wire` | the switch between all machines: it records, loses and forges frames |
//! | `guest` | a virtual machine and the line to the agent in it |
//! | `echo_host` | a microcontroller, or lwIP, and its console |
//! | `userspace`, `carrier` | the driver's own TCP stack, and a TCP that takes over a kernel's connection |
//! | `lab` | what all rows share |
//! | `wait` | polling |
//! | `row` | what a row is, and how its outcome is reported, also in RESULTS.md |
//! | `verify` | a recording, judged by the program `wireseal` |
//! | `rows` | the rows and their negative twins |

mod carrier;
mod echo_host;
mod guest;
mod lab;
mod row;
mod rows;
mod userspace;
mod verify;
mod wait;
mod wire;

use anyhow::{Context, Result};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::guest::Setting;
use crate::lab::Lab;
use crate::row::Row;

/// Exit code of a row that does not exist, and of a lab that does not start.
const UNUSABLE: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure:#}");
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Whether all rows have passed.
async fn run() -> Result<bool> {
    let mut names: Vec<String> = env::args().skip(1).collect();
    let rows = rows::all();
    if names == ["--list"] {
        rows.iter().for_each(|row| println!("{}", row.name));
        return Ok(true);
    }
    if names.first().is_some_and(|name| name == "--smoke") {
        names.remove(0);
        if names.is_empty() {
            names.extend(rows::SMOKE.map(str::to_owned));
        }
    }
    let named = |name: &String| {
        let row = rows.iter().find(|row| row.name == *name);
        row.with_context(|| format!("there is no row {name}; --list shows all"))
    };
    // In the order given, and as often.
    let mut chosen: Vec<&Row> = names.iter().map(named).collect::<Result<_>>()?;
    let is_full = names.is_empty();
    if is_full {
        chosen.extend(&rows);
    }
    let setting = Setting {
        state: variable("WIRESEAL_LAB_STATE")?,
        image: variable("WIRESEAL_LAB_FIRMWARE")?,
        lwip: variable("WIRESEAL_LAB_LWIP")?,
    };
    let versions = fs::read_to_string(variable("WIRESEAL_LAB_VERSIONS")?)?;
    let started = Instant::now();
    let lab = Lab::start(setting, variable("WIRESEAL_LAB_JUDGE")?).await?;
    println!("Linux {} is up after {:.1} s", lab.north.kernel(), started.elapsed().as_secs_f64());

    let started = Instant::now();
    let mut outcomes = Vec::new();
    for row in chosen {
        let outcome = row.carry_out(&lab).await;
        println!("{}", row::line(&outcome));
        outcomes.push(outcome);
    }
    // Repeated at the end of a long log.
    let failures: Vec<_> = outcomes.iter().filter(|outcome| !outcome.has_passed()).map(row::line).collect();
    let failed = failures.len();
    for failure in failures {
        println!("\n{failure}");
    }
    println!("\n{} rows, {failed} failed, in {:.0} s", outcomes.len(), started.elapsed().as_secs_f64());
    if is_full {
        row::write_results(&variable("WIRESEAL_LAB_RESULTS")?, &versions, &outcomes)?;
    }
    Ok(failed == 0)
}

fn variable(name: &str) -> Result<PathBuf> {
    env::var_os(name)
        .map(PathBuf::from)
        .with_context(|| format!("{name} is not set: start interop/linux/run"))
}
