//! `wireseal gateway`: TCP-AO between programs and the wire.

use std::io::{self, Write};
use std::path::PathBuf;

use wireseal_agent::Gateway;

use super::outcome::{Outcome, Result};
use super::peer_arguments::PeerArguments;
use super::say::say;

/// Sign and verify the packets of programs that have no TCP-AO, on any kernel from 5.10 on
///
/// Packets of these peers at these ports reach the gateway through the kernel's packet queues; it installs the rules for that in
/// nftables or iptables. Start it before the programs: sessions that are open already stall until their ends open them again. On
/// SIGHUP the files are read again. On SIGTERM it ends; its rules stay, and the peers' packets are dropped until it is started again.
///
/// Exit code 0: ended by SIGTERM or SIGINT; 1: `--check` failed, or something that may pass by itself, such as a full disk, keeps it from
/// starting; 2: the configuration or the kernel cannot be used.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    peers: PeerArguments,
    /// Write open sessions to this file at SIGTERM, and read it at the start, so that sessions survive a restart
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// First packet queue: the gateway takes two for each thread and one more; no other program may use them
    #[arg(long, value_name = "NUMBER", default_value_t = Gateway::QUEUE, value_parser = clap::value_parser!(u16).range(..=65_000))]
    queue: u16,
    /// Threads that carry packets; all packets between two addresses use the same one
    #[arg(long, value_name = "NUMBER", default_value_t = Gateway::default_threads(), value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Connections that each thread has room for, at most 1048576; each takes 1.2 KiB of memory
    #[arg(long, value_name = "NUMBER", default_value_t = Gateway::CONNECTIONS, value_parser = connections)]
    connections: usize,
    /// Let routers' ICMP errors about established sessions through, as RFC 5925 advises against; ICMPv6's Packet Too Big always passes
    #[arg(long)]
    accept_icmp: bool,
    /// Remove the rules at SIGTERM: packets then pass UNSIGNED
    #[arg(long)]
    open_on_exit: bool,
    /// Remove the rules that a gateway has left, and do nothing else: packets then pass UNSIGNED
    #[arg(long, exclusive = true)]
    remove_rules: bool,
    /// Ask the gateway of this network namespace whether its rules are in place, and do nothing else: exit code 0 if so, else 1
    #[arg(long, exclusive = true)]
    check: bool,
}

pub(super) fn run(arguments: Arguments) -> Result {
    if arguments.remove_rules {
        let removed = Gateway::remove_rules()?;
        say(match removed.is_empty() {
            true => "there were no rules".to_owned(),
            false => format!(
                "the rules in {} are removed: the peers' packets pass unsigned",
                removed.join(" and ")
            ),
        });
        return Ok(Outcome::Good);
    }
    if arguments.check {
        return Ok(match Gateway::check() {
            Ok(by) => {
                writeln!(io::stdout(), "a gateway runs, and its rules are in place ({by})")?;
                Outcome::Good
            }
            Err(error) => {
                say(error);
                Outcome::Failed
            }
        });
    }
    let peers = arguments.peers;
    let source = peers.source();
    peers.start_log()?;
    if peers.dry_run {
        let config = source.read()?;
        config.check_for_gateway()?;
        write!(io::stdout(), "{config}")?;
        return Ok(Outcome::Good);
    }
    let gateway = Gateway {
        source,
        queue: arguments.queue,
        threads: arguments.threads,
        connections: arguments.connections,
        state: arguments.state,
        accepts_icmp: arguments.accept_icmp,
        metrics: peers.metrics,
        opens_on_exit: arguments.open_on_exit,
    };
    Ok(match gateway.run() {
        Ok(()) => Outcome::Good,
        Err(error) if error.may_pass() => {
            say(error);
            Outcome::Failed
        }
        Err(error) => return Err(error.into()),
    })
}

fn connections(text: &str) -> std::result::Result<usize, String> {
    let most = Gateway::MOST_CONNECTIONS;
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from 1 to {most}, which takes 1.2 GiB in each thread"))
}
