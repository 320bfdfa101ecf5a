//! A program under `wireseal run` on a guest.

use super::daemon::{Daemon, FOLDER, Speaker, peers, write};
use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::wait::wait;

/// What the log says of a session that the program opens, and of every session that it has.
pub const CONNECTING: &str = "connecting with the keys of the peer";
pub const SESSION: &str = "a session with the keys of the peer";
pub const LISTENING: &str = "listening with the keys of all peers";

/// A supervisor or a gateway, with its log.
pub struct Supervised<'a> {
    pub guest: &'a Guest,
    /// Of its log and of its process.
    name: &'static str,
}

impl<'a> Supervised<'a> {
    /// A daemon under `wireseal run`, once it listens.
    pub async fn daemon(guest: &'a Guest, daemon: Daemon, speaker: &Speaker, keys: &str) -> Result<Self> {
        write(guest, "daemon.conf", &daemon.configuration(speaker)).await?;
        write(guest, "wireseal.toml", &peers(speaker.peer, speaker.vrf)).await?;
        write(guest, "keys.toml", keys).await?;
        daemon.prepare(guest).await?;
        let supervised = Self::start(
            guest,
            "run",
            &format!("run --config {FOLDER}/wireseal.toml -- {}", daemon.command()),
        )
        .await?;
        supervised.await_log(LISTENING, 1).await?;
        Ok(supervised)
    }

    /// Any of the program's commands that goes on.
    pub async fn start(guest: &'a Guest, name: &'static str, arguments: &str) -> Result<Self> {
        guest.start(name, &format!("wireseal {arguments}")).await?;
        Ok(Self { guest, name })
    }

    pub async fn log(&self) -> Result<String> {
        self.guest.log(self.name).await
    }

    pub async fn await_log(&self, words: &str, lines: usize) -> Result<()> {
        let has_lines =
            async || Ok(self.log().await?.lines().filter(|line| line.contains(words)).count() >= lines);
        wait(words, has_lines, async || self.log().await).await
    }

    pub async fn signal(&self, signal: &str) -> Result<()> {
        self.guest.shell(&format!("kill -{signal} $(cat /tmp/{}.pid)", self.name)).await.map(drop)
    }

    /// Changes the key chain while it runs.
    pub async fn change_keys(&self, keys: &str) -> Result<()> {
        let read = "the configuration was read again";
        let times = self.log().await?.matches(read).count();
        write(self.guest, "keys.toml", keys).await?;
        self.signal("HUP").await?;
        self.await_log(read, times + 1).await
    }

    /// What `wireseal status` says of it.
    pub async fn status(&self) -> Result<serde_json::Value> {
        let said =
            self.guest.shell(&format!("wireseal status --json --pid $(cat /tmp/{}.pid)", self.name)).await?;
        Ok(serde_json::from_str::<serde_json::Value>(&said)?[0].take())
    }

    /// Ends it by a signal, which `run` passes on, and waits until it is gone. Returns its log.
    pub async fn stop(self) -> Result<String> {
        self.signal("TERM").await?;
        self.await_end().await?;
        self.log().await
    }

    pub async fn await_end(&self) -> Result<()> {
        let ended = format!("test -z \"$(cat /proc/$(cat /tmp/{}.pid)/cmdline 2>/dev/null)\"", self.name);
        let has_ended = async || Ok(self.guest.shell(&ended).await.is_ok());
        wait("it to end", has_ended, async || self.log().await).await
    }
}
