//! `wireseal attach`: keys on the sockets of a program that runs already.

use wireseal_agent::Supervisor;

use super::outcome::{Outcome, Result};
use super::peer_arguments::{PeerArguments, show_for_kernel};

/// Put keys on the sockets of a program that runs already
///
/// As `run`, for a process and its children. Listeners get keys at once. Sessions that are open already stay unsigned until they are
/// opened anew; the log names them. It needs CAP_SYS_PTRACE, and ends with the program or by SIGTERM. From then on the program opens no
/// connection and no listener until it is attached to again: so a program whose supervisor was killed gets another.
///
/// Exit code 0: it has ended; 2: the process, the configuration or the kernel cannot be used.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    peers: PeerArguments,
    /// The process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: u32,
}

pub(super) fn run(arguments: Arguments) -> Result {
    let Arguments { peers, pid } = arguments;
    let source = peers.source();
    peers.start_log()?;
    if peers.dry_run {
        return show_for_kernel(&source);
    }
    Supervisor { source, metrics: peers.metrics, in_background: false }.attach(pid)?;
    Ok(Outcome::Good)
}
