//! Changing a gateway's files, and making it read them again.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Operator;
use crate::instance::Instance;
use crate::keys::{Key, now};
use crate::world::Side;

impl Operator {
    /// Makes both gateways or one read the files again, which they must use or refuse.
    pub(super) fn hang_up(&self, sides: &[Side], is_good: bool) -> Result<()> {
        let before: Vec<_> =
            sides.iter().map(|side| self.instance(*side).map(Instance::said)).collect::<Result<_>>()?;
        for side in sides {
            self.instance(*side)?.hang_up()?;
        }
        for (side, since) in sides.iter().zip(before) {
            let gateway = self.instance(*side)?;
            if !gateway.is_log_read() {
                sleep(Duration::from_millis(1500));
                continue;
            }
            let word = if is_good {
                "the configuration was read again"
            } else {
                "the configuration stays as it was"
            };
            if !gateway.says(since, |line| line.contains(word)) {
                let log = gateway.log();
                self.journal.fault(&format!(
                    "{side}: after SIGHUP the log does not say \"{word}\": {:?}",
                    &log[since..]
                ));
                // Its state is now unknown.
                self.journal.excuse_losses();
            }
        }
        Ok(())
    }

    /// Other keys and other peers, whose rules cannot be installed: everything stays as it was.
    pub(super) fn rules_fail(&mut self, side: Side) -> Result<()> {
        let good = self.files[side as usize].clone();
        let mut other = good.clone();
        other.keys = vec![Key { id: 99, until: None, sent_from: None }];
        other.others += 1;
        other.write()?;
        fs::write(self.failing(side), "")?;
        self.hang_up(&[side], false)?;
        sleep(Duration::from_secs(2));
        fs::remove_file(self.failing(side))?;
        good.write()?;
        self.hang_up(&[side], true)
    }

    pub(super) fn peer_gone(&mut self, side: Side) -> Result<()> {
        for has_peer in [false, true] {
            self.files[side as usize].has_peer = has_peer;
            // One peer stays, so that there are rules.
            self.files[side as usize].others = self.files[side as usize].others.max(1);
            self.files[side as usize].write()?;
            if !has_peer {
                self.journal.open(side, "the peer is taken out of the configuration");
            }
            self.hang_up(&[side], true)?;
            sleep(Duration::from_secs(1));
        }
        self.journal.close(side);
        Ok(())
    }

    /// The next key takes over in two seconds, and the last one is removed later.
    pub(super) fn roll_over(&mut self) -> Result<()> {
        let at = now() + 3;
        for files in &mut self.files {
            let last = files.keys.last_mut().context("a key")?;
            last.until = Some((at, at + 5));
            let next = Key { id: last.id + 1, until: None, sent_from: Some(at) };
            let keep = files.keys.len().saturating_sub(1);
            files.keys.drain(..keep);
            files.keys.push(next);
            files.write()?;
        }
        self.hang_up(&Side::BOTH, true)?;
        while now() < at + 2 {
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Both keys, then the next preferred, then the next alone.
    pub(super) fn roll_over_by_files(&mut self) -> Result<()> {
        let id = self.files[0].keys.last().context("a key")?.id;
        let old = Key { id, until: None, sent_from: None };
        let over = Key { until: Some((now() - 1000, now() + 1_000_000)), ..old.clone() };
        let next = Key { id: id + 1, ..old.clone() };
        for keys in [vec![old, next.clone()], vec![over, next.clone()], vec![next]] {
            for files in &mut self.files {
                files.keys.clone_from(&keys);
                files.write()?;
            }
            self.hang_up(&Side::BOTH, true)?;
            sleep(Duration::from_millis(700));
        }
        Ok(())
    }
}
