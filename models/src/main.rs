//! Without arguments, as in the CI stage `models`: searches all scopes, simulates some years, and checks that injected faults are found.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand, ValueEnum as _};
use models::year::{self, Fault, Summary};
use models::{COMPLETE, FAULTS, Outcome};

/// Searches every interleaving of TCP-AO's key roll-over and QUIC's key update, simulates routers for several years, and checks that injected faults
/// are found.
#[derive(Parser)]
#[command(name = "wireseal-models")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Only simulates years, and prints each failure.
    Year {
        /// How many years
        #[arg(long, default_value_t = 1)]
        years: u64,
        /// Seed of the first year; it increases by 1 each year
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Injects a fault, and stops at the first year that detects it
        #[arg(long)]
        fault: Option<Fault>,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        None => search(),
        Some(Command::Year { years, seed, fault }) => simulate(years, seed, fault),
    }
}

/// Simulates years, and prints what has failed.
fn simulate(count: u64, first: u64, fault: Option<Fault>) -> ExitCode {
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
                    return ExitCode::SUCCESS;
                }
            }
        }
    }
    println!("{count} years in {:.1} s, {failures} failed: {total:?}", started.elapsed().as_secs_f64());
    if failures == 0 && fault.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
    for &fault in Fault::value_variants() {
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
