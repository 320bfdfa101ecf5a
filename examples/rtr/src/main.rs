//! An RPKI-to-Router server and client (RFC 8210) whose sessions TCP-AO protects: how a tokio daemon uses `wireseal-linux`.

mod config;
mod server;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use rpki::rtr::client::{Client, PayloadError, PayloadTarget};
use rpki::rtr::payload::{Action, Payload, Timing};
use wireseal_linux::{KeyManager, TcpAoStream};

use crate::config::Config;

/// Serves route origins to routers over TCP-AO; reads the configuration again on SIGHUP
#[derive(Parser)]
struct Arguments {
    /// The configuration
    #[arg(long)]
    config: PathBuf,
    /// Be a router instead: print this server's origins, now and whenever they change
    #[arg(long, value_name = "ADDRESS:PORT")]
    fetch: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let Arguments { config, fetch } = Arguments::parse();
    let done = match fetch {
        Some(server) => print_origins(&config, server).await,
        None => server::serve(&config).await,
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("rtr: {error:#}");
    ExitCode::from(2)
}

/// Connects to a server and prints its origins until it closes the connection.
async fn print_origins(config: &Path, server: SocketAddr) -> Result<()> {
    let peers = KeyManager::default();
    Config::load(config, &peers)?;
    let stream = TcpAoStream::connect_async(server, &peers).await?;
    Client::new(stream, Origins::default(), None).run().await?;
    Ok(())
}

/// The server's origins.
#[derive(Default)]
struct Origins(BTreeSet<Payload>);

impl Origins {
    /// What is printed: how many there are, and each.
    fn lines(&self) -> impl Iterator<Item = String> {
        let origins = self.0.iter().filter_map(Payload::to_origin);
        let origins = origins.map(|origin| format!("{} {}", origin.prefix, origin.asn));
        [format!("{} origins", self.0.len())].into_iter().chain(origins)
    }
}

impl PayloadTarget for Origins {
    type Update = Vec<(Action, Payload)>;

    fn start(&mut self, reset: bool) -> Self::Update {
        if reset {
            self.0.clear();
        }
        Vec::new()
    }

    fn apply(&mut self, update: Self::Update, _: Timing) -> Result<(), PayloadError> {
        for (action, payload) in update {
            match action {
                Action::Announce => self.0.insert(payload),
                Action::Withdraw => self.0.remove(&payload),
            };
        }
        self.lines().for_each(|line| println!("{line}"));
        Ok(())
    }
}
