//! The subcommands: each prints what the other modules find.

mod annotate;
mod derive;
mod documents;
mod explain;
mod extcap;
mod gateway;
mod key_arguments;
mod keys;
mod log;
mod outcome;
mod peer_arguments;
mod private;
mod probe;
mod procedure;
mod roll;
mod roll_status;
mod run;
mod say;
mod selftest;
mod signals;
mod status;
mod verify;
mod verify_live;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use wireseal_algorithms::TcpAoAlgorithm;

use self::say::say;
use crate::terminal;

pub use outcome::Outcome;

/// Why is this session down? Checks TCP-AO captures against their keys, and adds TCP-AO to daemons that lack it.
#[derive(Debug, Parser)]
#[command(name = "wireseal", version, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    order: Order,
}

const EXIT_CODES: &str = "Exit codes: 0 all good, 1 something failed to verify, 2 the command line, the keys or the \
                          file cannot be used, 3 something could not be judged.";

/// The columns of help that is not for a terminal.
const HELP_WIDTH: usize = 100;

#[derive(Debug, Subcommand)]
enum Order {
    Verify(Box<verify::Arguments>),
    Keys(keys::Arguments),
    Derive(derive::Arguments),
    Extcap(extcap::Arguments),
    Explain(explain::Arguments),
    Run(run::Arguments),
    Gateway(gateway::Arguments),
    Probe(probe::Arguments),
    Status(status::Arguments),
    Selftest(selftest::Arguments),
    Completions(documents::CompletionsArguments),
    Man(documents::ManArguments),
}

/// Reads the command line of the process.
///
/// # Errors
/// How the run ends if there is nothing to do: it has printed help, the version, or what is wrong with the command line.
pub fn parse() -> Result<Arguments, Outcome> {
    let mut command = Arguments::command().version(version()).long_version(long_version());
    command = command.term_width(terminal::width().unwrap_or(HELP_WIDTH));
    let mut given: Vec<_> = std::env::args_os().collect();
    // Wireshark runs a link without arguments of its own.
    if given.first().and_then(|name| Path::new(name).file_name()?.to_str()?.strip_suffix("extcap")).is_some()
    {
        given.splice(..1, ["wireseal", "extcap"].map(OsString::from));
    }
    let matches = command.try_get_matches_from_mut(given);
    let arguments = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    arguments.map_err(|error| error.format(&mut command)).map_err(|error| {
        if repeats_secret(&error.to_string(), std::env::args_os()) {
            say(MISPLACED_SECRET);
        } else {
            // If printing fails, nobody can be told.
            let _ = error.print();
        }
        if error.use_stderr() { Outcome::Unusable } else { Outcome::Good }
    })
}

/// What `-V` prints: the version and the commit, in one line.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match env!("WIRESEAL_COMMIT") {
        "" => version.to_owned(),
        commit => format!("{version} ({commit})"),
    }
}

/// What `--version` prints: also what was built in, and which of it this processor uses.
fn long_version() -> String {
    let libraries = if cfg!(target_feature = "crt-static") { "static" } else { "with shared libraries" };
    let algorithms = TcpAoAlgorithm::ALL.map(TcpAoAlgorithm::name).join(", ");
    let mut machine = Vec::new();
    // Writing to memory does not fail.
    let _ = selftest::write_machine(&mut machine);
    format!(
        "{}\n\
         target:                {}, {libraries}\n\
         TCP-AO:                {algorithms}\n\
         {}",
        version(),
        env!("WIRESEAL_TARGET"),
        String::from_utf8_lossy(&machine).trim_end()
    )
}

/// Runs a subcommand. If it fails, says why in one line on standard error.
#[must_use]
pub fn run(arguments: Arguments) -> Outcome {
    let result = match arguments.order {
        Order::Verify(arguments) => verify::run(*arguments),
        Order::Keys(arguments) => keys::run(arguments),
        Order::Derive(arguments) => derive::run(arguments),
        Order::Extcap(arguments) => extcap::run(arguments),
        Order::Explain(arguments) => explain::run(&arguments),
        Order::Run(arguments) => run::run(arguments),
        Order::Gateway(arguments) => gateway::run(arguments),
        Order::Probe(arguments) => probe::run(&arguments),
        Order::Status(arguments) => status::run(&arguments),
        Order::Selftest(arguments) => selftest::run(arguments),
        Order::Completions(arguments) => documents::completions(arguments, Arguments::command()),
        Order::Man(arguments) => documents::man(arguments, Arguments::command()),
    };
    let outcome = result.unwrap_or_else(|error| {
        // A reader who closes the output wants no error.
        let reader_left =
            error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == ErrorKind::BrokenPipe);
        if !reader_left {
            let message = error.to_string();
            let is_secret = repeats_secret(&message, std::env::args_os());
            say(if is_secret { MISPLACED_SECRET } else { &message });
        }
        Outcome::Unusable
    });
    log::flush();
    outcome
}

const MISPLACED_SECRET: &str = "the command line has a secret where no key is expected: give keys with --key";

/// Whether a message repeats a secret from the command line, for instance of a key given with `--keys` instead of `--key`.
fn repeats_secret(message: &str, mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.any(|argument| {
        let argument = argument.to_string_lossy();
        let mut parts = argument.split(',').filter_map(|part| {
            let place = ["secret=", "secret-hex="].iter().find_map(|name| part.find(name))?;
            Some(&part[place..])
        });
        parts.any(|part| !part.ends_with('=') && message.contains(part))
    })
}
