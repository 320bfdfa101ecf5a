//! `wireseal run`: a program with keys on its sockets.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::Command;

use wireseal_agent::{Error, Supervisor, run_in_background, stop_with};

use super::outcome::{Outcome, Result};
use super::peer_arguments::PeerArguments;
use super::say::say;

/// Run a program that has no TCP-AO, with keys on its sockets
///
/// Needs Linux 6.7 or later with TCP-AO. The program is unchanged; its sessions with these peers at these ports are signed in both
/// directions, and the keys roll over as the key chains say. On SIGHUP the files are read again. Other signals are passed on.
///
/// A peer in a VRF is written 192.0.2.1%vrf-blue=core. refuse-others and md5 can be set in the configuration file only.
///
/// Exit code: the program's, or 128 and the signal's number if a signal ended it; 127: there is no such program; 126: it cannot be executed; 2: the
/// configuration or the kernel cannot be used, and nothing was started.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    peers: PeerArguments,
    /// Kill the program if this supervisor is killed. Otherwise it keeps its open sessions and cannot open others
    #[arg(long)]
    stop_with_supervisor: bool,
    /// For daemons that a script starts: end when the program goes into the background; a supervisor stays with it
    #[arg(long)]
    background: bool,
    /// This process is the supervisor that goes on in the background
    #[arg(long, hide = true)]
    is_in_background: bool,
    /// This process is the supervisor whose program is killed with it
    #[arg(long, hide = true)]
    is_guarded: bool,
    /// The program and its arguments, after --
    #[arg(last = true, required_unless_present = "dry_run", value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(super) fn run(arguments: Arguments) -> Result {
    let Arguments { peers, stop_with_supervisor, background, is_in_background, is_guarded, program } =
        arguments;
    let source = peers.source();
    peers.start_log()?;
    if peers.dry_run {
        let config = source.read()?;
        config.check_for_kernel()?;
        write!(io::stdout(), "{config}")?;
        return Ok(Outcome::Good);
    }
    let result = if background && !is_in_background {
        once_more("--is-in-background").and_then(|mut supervisor| run_in_background(&mut supervisor))
    } else if stop_with_supervisor && !is_guarded {
        once_more("--is-guarded").and_then(|mut supervisor| stop_with(&mut supervisor))
    } else {
        let (program, arguments) = program.split_first().ok_or("no program: give one after --")?;
        Supervisor { source, metrics: peers.metrics, in_background: is_in_background }.run(program, arguments)
    };
    Ok(Outcome::Program(result.unwrap_or_else(|error| {
        say(&error);
        error.exit_code()
    })))
}

/// The same command line once more, with another argument in front.
fn once_more(argument: &str) -> std::result::Result<Command, Error> {
    let own = env::current_exe().map_err(|error| Error::System { what: "supervise".into(), error })?;
    let mut command = Command::new(own);
    let mut arguments = env::args_os().skip(1);
    command.args(arguments.next()).arg(argument).args(arguments);
    Ok(command)
}
