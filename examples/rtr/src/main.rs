//! An RPKI-to-Router server and client (RFC 8210) whose sessions TCP-AO protects: how a tokio daemon uses `wireseal-linux`.

mod client;
mod config;
mod server;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

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
        Some(server) => client::fetch(&config, server).await,
        None => server::serve(&config).await,
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("rtr: {error:#}");
    ExitCode::from(2)
}
