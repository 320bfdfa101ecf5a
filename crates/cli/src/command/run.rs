//! `wireseal run`: a program with keys on its sockets.

use std::ffi::OsString;
use std::io::{self, Write};

use super::outcome::{Outcome, Result};
use super::peer_arguments::PeerArguments;
use super::say::say;

/// Run a program that has no TCP-AO, with keys on its sockets
///
/// Linux 6.7 or later with TCP-AO. The program is unchanged; its sessions with these peers, at these ports, are signed in both directions,
/// and the keys roll over as the key chains say. On SIGHUP the files are read again. Other signals are passed on.
///
/// Exit code: the program's, 128 and more if a signal ended it; 127: there is no such program; 126: it cannot be executed; 2: the
/// configuration or the kernel cannot be used, and nothing was started.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    peers: PeerArguments,
    /// The program and its arguments, behind --
    #[arg(last = true, required_unless_present = "dry_run", value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(super) fn run(arguments: Arguments) -> Result {
    let Arguments { peers, program } = arguments;
    let source = peers.source();
    if peers.dry_run {
        let config = source.read()?;
        config.check_for_kernel()?;
        write!(io::stdout(), "{config}")?;
        return Ok(Outcome::Good);
    }
    let (program, arguments) = program.split_first().ok_or("no program: give one behind --")?;
    peers.start_log();
    match wireseal_agent::run(program, arguments, &source) {
        Ok(code) => Ok(Outcome::Program(code)),
        Err(error) => {
            say(&error);
            Ok(Outcome::Program(error.exit_code()))
        }
    }
}
