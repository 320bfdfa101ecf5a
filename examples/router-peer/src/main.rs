//! The command line of router-peer.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use router_peer::config::{Config, TransportKind};
use router_peer::demo::{self, CHECKS};
use router_peer::{run, tls};
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;

/// A BGP speaker whose sessions Wireseal protects.
///
/// Without --config it runs the demonstration: routers in this process, joined in memory and over loopback.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Run this configuration instead of the demonstration.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, start nothing.
    #[arg(long, requires = "config")]
    check: bool,
    /// Use this transport instead of the configured one.
    #[arg(long, value_name = "KIND", requires = "config")]
    transport: Option<TransportKind>,
    /// Run this check of the demonstration only.
    #[arg(long, value_name = "NAME", value_parser = check_names(), conflicts_with = "config")]
    only: Option<String>,
    /// Sabotage this check of the demonstration: it must fail.
    #[arg(long = "break", value_name = "NAME", value_parser = check_names(), conflicts_with = "config")]
    sabotage: Option<String>,
    /// Seed for everything random; by default a new one each time.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Log more; twice for everything.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a self-signed certificate and its private key, for the quic transport.
    Certificate {
        /// Directory for NAME.pem and NAME.key; nothing is overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Name of the files and of the certificate's subject.
        #[arg(long, default_value = "router-peer")]
        name: String,
    },
}

fn check_names() -> PossibleValuesParser {
    PossibleValuesParser::new(CHECKS.iter().map(|check| check.name))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let level = match (arguments.verbose, &arguments.config) {
        (0, None) => LevelFilter::ERROR,
        (0, Some(_)) => LevelFilter::INFO,
        (1, _) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    carry_out(&arguments).unwrap_or_else(|error| {
        eprintln!("router-peer: {error:#}");
        ExitCode::from(2)
    })
}

/// When it returns, every task has ended: what `main` prints after it is the last line.
#[tokio::main]
async fn carry_out(arguments: &Arguments) -> Result<ExitCode> {
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    match (&arguments.command, &arguments.config) {
        (Some(Command::Certificate { out, name }), _) => make_certificate(out, name),
        (None, Some(config)) => configured(arguments, config, seed).await,
        (None, None) => demonstrate(arguments, seed).await,
    }
}

fn make_certificate(out: &Path, name: &str) -> Result<ExitCode> {
    let fingerprint = tls::create_certificate(out, name)?;
    println!("certificate: {}", out.join(format!("{name}.pem")).display());
    println!("private key: {}", out.join(format!("{name}.key")).display());
    println!("certificate-sha256: {fingerprint}");
    Ok(ExitCode::SUCCESS)
}

async fn demonstrate(arguments: &Arguments, seed: u64) -> Result<ExitCode> {
    let (only, sabotage) = (arguments.only.as_deref(), arguments.sabotage.as_deref());
    let runs = only.is_none() || sabotage.is_none() || only == sabotage;
    ensure!(runs, "--only leaves out the check that --break names");
    let report = demo::run(only, sabotage, seed).await;
    println!("{report}");
    Ok(if report.failed().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn configured(arguments: &Arguments, path: &Path, seed: u64) -> Result<ExitCode> {
    let config = Config::load(path, arguments.transport)?;
    if arguments.check {
        println!("{}: good, peers: {}", path.display(), config.peers());
        return Ok(ExitCode::SUCCESS);
    }
    // Before the first log line, whose reader may already send a signal.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let stop = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    run::run(config, seed, stop).await.with_context(|| path.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}
