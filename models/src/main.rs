//! Searches all scopes of the CI stage `models`, and checks that faults put around the real code are found.

use std::process::ExitCode;

use models::{COMPLETE, FAULTS, Outcome};

fn main() -> ExitCode {
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
    if !is_good {
        return ExitCode::FAILURE;
    }
    println!("\nsearched {states} states, found {} faults of {0}", FAULTS.len());
    ExitCode::SUCCESS
}
