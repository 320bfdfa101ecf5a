//! `wireseal run`: a program with keys on its sockets.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use wireseal_agent::{PeerArgument, Source};

use super::outcome::{Outcome, Result};
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
    /// A file of key chains: TOML, or RFC 8177 JSON
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// A peer and its key chain, such as 192.0.2.1=core, 2001:db8::/32=edge, or in a VRF 192.0.2.1%vrf-blue=core; if there is only one key
    /// chain, its name can be left out [repeatable]
    #[arg(long = "peer", value_name = "PEER")]
    peers: Vec<PeerArgument>,
    /// A TCP port to protect, in place of 179 [repeatable]
    #[arg(long = "port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    ports: Vec<u16>,
    /// A file in TOML with key-chains, ports, refuse-others, md5 and [peers]; see docs/run.md
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show what would be set on what, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Log as JSON, a line for each event
    #[arg(long)]
    json: bool,
    /// The program and its arguments, behind --
    #[arg(last = true, required_unless_present = "dry_run", value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(super) fn run(arguments: Arguments) -> Result {
    let Arguments { keys, peers, ports, config, dry_run, json, program } = arguments;
    let source = Source { keys, config, peers, ports };
    if dry_run {
        let config = source.read()?;
        write!(io::stdout(), "{config}")?;
        return Ok(Outcome::Good);
    }
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_target(false);
    if json {
        log.json().flatten_event(true).init();
    } else {
        log.with_ansi(false).init();
    }
    let (program, arguments) = program.split_first().ok_or("no program: give one behind --")?;
    match wireseal_agent::run(program, arguments, &source) {
        Ok(code) => Ok(Outcome::Program(code)),
        Err(error) => {
            say(&error);
            Ok(Outcome::Program(error.exit_code()))
        }
    }
}
