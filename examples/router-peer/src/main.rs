//! router-peer: a BGP speaker whose sessions Wireseal authenticates. Without arguments it demonstrates what it can do.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use router_peer::certificate;
use router_peer::config::{Config, TransportKind};
use router_peer::demo::{self, CHECKS, Selection};
use router_peer::run;
use tracing::level_filters::LevelFilter;

/// Exit code of a failed check.
const FAILED: u8 = 1;
/// Exit code of a configuration that cannot be used.
const BAD_CONFIGURATION: u8 = 2;

/// A BGP speaker whose sessions Wireseal authenticates.
///
/// Without --config it runs the demonstration: two routers in this process, joined by a wire in memory.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Order>,
    /// Run this configuration instead of the demonstration.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, start nothing.
    #[arg(long, requires = "config")]
    check: bool,
    /// Use this transport in place of the one in the configuration.
    #[arg(long, value_name = "KIND", requires = "config")]
    transport: Option<TransportKind>,
    /// Run this check of the demonstration only.
    #[arg(long, value_name = "NAME", value_parser = check_names(), conflicts_with = "config")]
    only: Option<String>,
    /// Sabotage this check of the demonstration: it must fail.
    #[arg(long = "break", value_name = "NAME", value_parser = check_names(), conflicts_with = "config")]
    sabotage: Option<String>,
    /// Seed of everything random; another one each time unless given.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Log more; twice for everything.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Make a self-signed certificate and its private key, for the quic transport.
    Certificate {
        /// The directory to write NAME.pem and NAME.key into; nothing is overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// The name of the files, and in the certificate.
        #[arg(long, default_value = "router-peer")]
        name: String,
    },
}

fn check_names() -> PossibleValuesParser {
    PossibleValuesParser::new(CHECKS.iter().map(|check| check.name))
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Order::Certificate { out, name }) = &arguments.command {
        return match certificate::create(out, name) {
            Ok(written) => {
                println!("certificate: {}", written.certificate.display());
                println!("private key: {}", written.key.display());
                println!("certificate-sha256: {}", written.fingerprint);
                ExitCode::SUCCESS
            }
            Err(error) => refuse(&error),
        };
    }
    let level = match (arguments.verbose, &arguments.config) {
        (0, None) => LevelFilter::ERROR,
        (0, Some(_)) => LevelFilter::INFO,
        (1, _) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));

    if let (Some(only), Some(sabotage)) = (&arguments.only, &arguments.sabotage)
        && only != sabotage
    {
        eprintln!("router-peer: --break {sabotage}: --only {only} leaves that check out");
        return ExitCode::from(BAD_CONFIGURATION);
    }
    let Some(path) = &arguments.config else {
        let selection =
            Selection { only: arguments.only.as_deref(), sabotage: arguments.sabotage.as_deref(), seed };
        let report = demo::run(selection).await;
        println!("{report}");
        return if report.failed().next().is_none() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) };
    };
    let config = match Config::load(path, arguments.transport) {
        Ok(config) => config,
        Err(error) => return refuse(&error),
    };
    if arguments.check {
        println!("{}: good, peers: {}", path.display(), config.neighbours.len());
        return ExitCode::SUCCESS;
    }
    let stop = match told_to_stop() {
        Ok(stop) => stop,
        Err(error) => return refuse(&format_args!("signals cannot be heard: {error}")),
    };
    match run::run(config, seed, stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.names_field() => refuse(&format_args!("{}: {error}", path.display())),
        Err(error) => refuse(&error),
    }
}

/// An interrupt, or what a service manager sends. Heard from this call on, and not only once the future is
/// polled: whoever reads the first line of the log may already send it.
#[cfg(unix)]
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// An interrupt.
#[cfg(not(unix))]
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

fn refuse(error: &dyn Display) -> ExitCode {
    eprintln!("router-peer: {error}");
    ExitCode::from(BAD_CONFIGURATION)
}
