//! Without arguments, as in the CI stage `models`: searches all scopes, simulates some years, and checks that injected faults are found.
//! `year --years N --seed S` simulates N years, with seeds from S on; with `--fault NAME`, it stops when the fault is found.

use std::process::ExitCode;
use std::time::Instant;

use models::year::{self, Summary};
use models::{COMPLETE, FAULTS, Outcome};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => search(),
        ["year", options @ ..] => match years(options) {
            Ok(code) => code,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::from(2)
            }
        },
        _ => {
            eprintln!("usage: wireseal-models [year [--years N] [--seed S] [--fault NAME]]");
            ExitCode::from(2)
        }
    }
}

/// Simulates years, and prints what has failed.
fn years(options: &[&str]) -> Result<ExitCode, String> {
    let (mut count, mut first, mut fault) = (1, 0, None);
    for option in options.chunks(2) {
        let [name, value] = option else { return Err(format!("{} needs a value", option[0])) };
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        match *name {
            "--years" => count = number()?,
            "--seed" => first = number()?,
            "--fault" => {
                let found = year::FAULTS.into_iter().find(|fault| format!("{fault:?}") == *value);
                fault = Some(found.ok_or_else(|| format!("the faults are {:?}", year::FAULTS))?);
            }
            _ => return Err(format!("there is no option {name}")),
        }
    }
    let (started, mut failures, mut total) = (Instant::now(), 0, Summary::default());
    for seed in first..first.saturating_add(count) {
        let done = seed - first;
        if done > 0 && done.is_multiple_of(100) {
            println!("{done} years, {failures} failed");
        }
        match year::run(seed, fault) {
            Ok(summary) => total.add(&summary),
            Err(failure) => {
                println!("{failure}");
                failures += 1;
                if fault.is_some() {
                    println!("found after {} years", seed - first + 1);
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    }
    println!("{count} years in {:.1} s, {failures} failed: {total:?}", started.elapsed().as_secs_f64());
    Ok(if failures == 0 && fault.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Years of the CI stage.
const YEARS: u64 = 15;

/// Within so many years the stage must find each fault.
const MOST_YEARS: u64 = 40;

/// Simulates some years, then years with each fault until it is found.
fn some_years() -> bool {
    let (mut is_good, mut total) = (true, Summary::default());
    for seed in 1..=YEARS {
        match year::run(seed, None) {
            Ok(summary) => total.add(&summary),
            Err(failure) => {
                println!("\n{failure}");
                is_good = false;
            }
        }
    }
    println!("\n{YEARS} years: {total:?}");
    for fault in year::FAULTS {
        match (1..=MOST_YEARS).find_map(|seed| year::run(seed, Some(fault)).err()) {
            Some(failure) => {
                println!("\nfound as it should be in year {0}: {fault:?}\n{failure}", failure.seed);
            }
            None => {
                println!("\nNOT FOUND in {MOST_YEARS} years: {fault:?}");
                is_good = false;
            }
        }
    }
    is_good
}

/// Searches the scopes and finds the faults.
fn search() -> ExitCode {
    let (mut states, mut is_good) = (0, true);
    println!(
        "| searched | states | transitions | depth | end states | runs of the real code | sent until healed | seconds |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for scope in COMPLETE {
        let Outcome { found, counts: (ends, _, runs), rounds } = scope.search();
        match found {
            Ok(found) => {
                let rounds =
                    rounds.filter(|rounds| *rounds > 0).map_or(String::new(), |rounds| rounds.to_string());
                let (transitions, depth, seconds) = (found.transitions, found.depth, found.time.as_secs());
                println!(
                    "| {scope} | {} | {transitions} | {depth} | {ends} | {runs} | {rounds} | {seconds} |",
                    found.states
                );
                states += found.states;
            }
            Err(counterexample) => {
                println!("{scope}:\n{counterexample}");
                is_good = false;
            }
        }
    }
    for scope in FAULTS {
        match scope.search().found {
            Ok(_) => {
                println!("\nNOT FOUND: {scope}");
                is_good = false;
            }
            Err(counterexample) => println!("\nfound as it should be: {scope}\n{counterexample}"),
        }
    }
    is_good &= some_years();
    if !is_good {
        return ExitCode::FAILURE;
    }
    println!("\nsearched {states} states, found {} faults of {0}", FAULTS.len());
    ExitCode::SUCCESS
}
