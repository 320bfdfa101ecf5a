//! Which peers have which keys: the arguments that `run` and `gateway` share.

use std::io;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use wireseal_agent::{MetricsAddress, PeerArgument, Source};

use wireseal_keys::End;

use super::log;

/// The peers and their keys, and the log.
#[derive(Debug, clap::Args)]
pub(super) struct PeerArguments {
    /// A file of key chains: TOML, RFC 8177 JSON, or a router's configuration
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// The end that the file is of, which sends with the SendIDs in it: this-end, the default, or peer
    #[arg(long, value_name = "END", value_parser = end())]
    keys_of: Option<End>,
    /// A peer and its key chain, such as 192.0.2.1=core or 2001:db8::/32=edge; if there is only one key chain, its name can be left out
    /// [repeatable]
    #[arg(long = "peer", value_name = "PEER")]
    peers: Vec<PeerArgument>,
    /// A TCP port to protect, in place of 179 [repeatable]
    #[arg(long = "port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    ports: Vec<u16>,
    /// A file in TOML with key-chains, ports and [peers]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show which keys each peer would have, and do nothing; checks neither the program nor the kernel
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Serve metrics for Prometheus at unix:PATH or at a loopback address such as 127.0.0.1:9417, under /metrics
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<MetricsAddress>,
    /// Log as JSON, a line for each event
    #[arg(long)]
    json: bool,
}

fn end() -> impl TypedValueParser<Value = End> {
    let ends = PossibleValuesParser::new(["this-end", "peer"]);
    ends.map(|end| if end == "peer" { End::Peer } else { End::ThisEnd })
}

impl PeerArguments {
    pub(super) fn source(&self) -> Source {
        let Self { keys, keys_of, peers, ports, config, .. } = self;
        Source {
            keys: keys.clone(),
            keys_of: *keys_of,
            config: config.clone(),
            peers: peers.clone(),
            ports: ports.clone(),
        }
    }

    /// Logs to standard error from now on.
    pub(super) fn start_log(&self) -> io::Result<()> {
        log::start(self.json)
    }
}
