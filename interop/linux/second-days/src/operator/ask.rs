//! Asking `--check` and `status`.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Operator;
use crate::daemon::Daemon;
use crate::instance::Kind;
use crate::world::Side;

/// How long they may take: two seconds, and as much again on a busy machine. On an emulated processor they only have to answer.
const ANSWER: Duration = Duration::from_secs(4);
const ANSWER_IN_GUEST: Duration = Duration::from_secs(20);

impl Operator {
    /// The answer of `--check`, within its time.
    pub(super) fn is_in_place(&self, side: Side) -> Result<(Option<i32>, String)> {
        let mut command = self.world.command(side, &self.program);
        let output = self.ask(side, command.args(["gateway", "--check"]))?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8_lossy(&said).trim().to_owned()))
    }

    fn ask(&self, side: Side, command: &mut Command) -> Result<Output> {
        let asked = Instant::now();
        let output = command.output()?;
        let limit = if self.is_in_guest { ANSWER_IN_GUEST } else { ANSWER };
        if asked.elapsed() > limit {
            let took = asked.elapsed().as_secs_f64();
            self.journal.fault(&format!("{side}: {command:?} took {took:.1} s"));
        }
        Ok(output)
    }

    /// Checks that `--check` and `status` tell the truth.
    pub fn check(&self, side: Side, is_up: bool) -> Result<()> {
        let is_gateway = self.kinds[side as usize] == Kind::Gateway;
        let (code, said) = if is_gateway { self.is_in_place(side)? } else { (Some(0), String::new()) };
        if (code == Some(0)) != is_up {
            self.journal.fault(&format!(
                "{side}: --check, with the gateway {}: {said}",
                if is_up { "up" } else { "killed" }
            ));
        }
        if !is_up {
            return Ok(());
        }
        let id = self.instance(side)?.id().to_string();
        let output = self.ask(side, Command::new(&self.program).args(["status", "--json", "--pid", &id]))?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let problem = &status[0]["rules"]["problem"];
        if !problem.is_null() {
            self.journal.fault(&format!("{side}: status says of the rules: {problem}"));
        }
        let peers = status[0]["peers"].as_array().cloned().unwrap_or_default();
        let peer = self.world.address(side.other()).to_string();
        let Some(peer) = peers.iter().find(|status| status["peer"] == peer.as_str()) else {
            self.journal.fault(&format!(
                "{side}: status does not show the peer: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ));
            return Ok(());
        };
        let sessions = peer["sessions"].as_array().cloned().unwrap_or_default();
        let shown = sessions.iter().filter(|session| session["is-established"] == true).count();
        let is_settled = self.has_been_up(Duration::from_secs(2)) && !self.journal.are_losses_excused();
        // An end that lost a session silently may still be closing it.
        if is_settled && !(1..=1 + self.journal.broken_off()).contains(&shown) {
            self.journal.fault(&format!(
                "{side}: there is one session, and status shows {shown}: {}",
                peer["sessions"]
            ));
        }
        Ok(())
    }

    /// Whether both daemons have had a session for this long.
    pub fn has_been_up(&self, time: Duration) -> bool {
        self.daemons.iter().all(|daemon| {
            daemon.as_ref().and_then(Daemon::up_since).is_some_and(|since| since.elapsed() >= time)
        })
    }
}
