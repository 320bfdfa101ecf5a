//! A small BGP daemon around the adapter in `keys`: it keeps sessions up, and changes their keys when told to on standard input.

mod config;
mod keys;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::{TryFutureExt, future::OptionFuture};
use speaker::message::Export;
use speaker::session::{Session, SessionConfig, State};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::net::TcpListener;
use tokio::time::sleep;
use wireseal_linux::{Attachment, Barrier, Generation, StepReport};

use crate::config::{Config, Peer};
use crate::keys::{Connection, Keys};

/// Between two attempts to open a session, or to accept one.
const RETRY: Duration = Duration::from_secs(5);

struct Daemon {
    config: Config,
    keys: Keys,
    /// The sessions with keys, by the numbers of their attachments.
    sessions: Mutex<BTreeMap<u64, Attachment>>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "daemon.toml".into());
    let Err(error) = run(Path::new(&path)).await else { return ExitCode::SUCCESS };
    eprintln!("bgp-daemon-keys: {error:#}");
    ExitCode::from(2)
}

async fn run(path: &Path) -> Result<()> {
    let config = Config::load(path)?;
    let daemon = Arc::new(Daemon { keys: Keys::new(&config)?, config, sessions: Mutex::default() });
    tokio::spawn(daemon.keys.manager.clone().run_reporting(print));
    for address in &daemon.config.listen {
        let (listener, attachment) = daemon.keys.listen(*address)?;
        println!("listening at {address}");
        tokio::spawn(Arc::clone(&daemon).accept(listener, attachment));
    }
    for peer in daemon.config.peer.iter().filter(|peer| !peer.passive) {
        tokio::spawn(Arc::clone(&daemon).open(peer.clone()));
    }
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        if let Err(error) = daemon.obey(line.trim(), path) {
            println!("nothing changed: {error:#}");
        }
    }
    Ok(())
}

impl Daemon {
    fn obey(self: &Arc<Self>, line: &str, path: &Path) -> Result<()> {
        let generation = match line {
            "rotate" => self.keys.change(Config::load(path)?)?,
            "undo" => self.keys.undo()?,
            "status" => return self.status(),
            other => bail!("{other:?} is none of rotate, undo, status"),
        };
        tokio::spawn(Arc::clone(self).follow(generation));
        Ok(())
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, _attachment: Attachment) {
        loop {
            let Ok((stream, remote)) = listener.accept().await else {
                sleep(RETRY).await;
                continue;
            };
            match self.keys.admit(stream, remote.ip()) {
                Ok((peer, connection)) => drop(tokio::spawn(Arc::clone(&self).talk(peer, connection))),
                Err(error) => println!("{remote}: reset: {error:#}"),
            }
        }
    }

    async fn open(self: Arc<Self>, peer: Peer) {
        loop {
            match self.keys.dial(&peer).await {
                Ok(connection) => Arc::clone(&self).talk(peer.clone(), connection).await,
                Err(error) => println!("{}: {error:#}", peer.address),
            }
            sleep(RETRY).await;
        }
    }

    /// Speaks BGP until the session ends, or its keys do.
    async fn talk(self: Arc<Self>, Peer { address, remote_as, .. }: Peer, (stream, attachment): Connection) {
        let Config { local_as, router_id, hold_time, .. } = self.config;
        let expired = OptionFuture::from(attachment.as_ref().map(Attachment::expired));
        let number = attachment.as_ref().map(Attachment::number);
        self.sessions.lock().unwrap().extend(number.zip(attachment));
        let export = Export { local_as, peer_as: remote_as, next_hops: [None, None] };
        let session = Session::start(stream, SessionConfig { export, router_id, hold_time });
        println!("{address}: connected");
        let is_up = session.established(6 * RETRY).await.is_ok();
        println!("{address}: {}", if is_up { "established" } else { "not established" });
        let closed = || session.until(Duration::MAX, "its end", |now| now.state == State::Closed);
        let closed = tokio::select! {
            closed = closed() => closed,
            // The keys are still on the socket, so the goodbye is signed.
            Some(()) = expired => session.shutdown().and_then(|()| closed()).await,
        };
        println!("{address}: closed: {:?}", closed.map(|now| now.closed));
        self.sessions.lock().unwrap().retain(|key, _| Some(*key) != number);
    }

    /// Says how far a change of the keys has come.
    async fn follow(self: Arc<Self>, generation: Generation) {
        for (barrier, said) in [(Barrier::Held, "on all sockets"), (Barrier::Moved, "used by all peers")] {
            let progress = self.keys.manager.reached(generation, barrier).await;
            let said = if progress.has_reached(barrier) { said } else { "superseded" };
            println!("{generation}: {said}, but for {:?}", progress.given_up);
        }
    }

    /// Says which keys each session has, how many segments were good and bad under each, and which sockets lack keys.
    fn status(&self) -> Result<()> {
        for (number, attachment) in &*self.sessions.lock().unwrap() {
            println!("session {number}: {:?}", attachment.state());
            for key in attachment.keys()? {
                println!("{}: {} good, {} bad, in use: {}", key.name, key.good, key.bad, key.is_current);
            }
        }
        let progress = self.keys.manager.progress(self.keys.manager.generation());
        progress.not_held.iter().for_each(|socket| println!("not all keys on {socket}"));
        println!("{}: end of status", progress.generation);
        Ok(())
    }
}

/// Says what failed in a step, and what policies did about it.
fn print(report: StepReport) {
    for socket in &report.sockets {
        socket.failed.iter().for_each(|(_, error)| println!("socket {}: {error}", socket.attachment));
        socket.policy.iter().for_each(|(peer, action)| println!("{peer}: the policy: {action:?}"));
    }
}
