//! A rollover that `wireseal keys roll` has planned, with the files that it has written.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use agent::WriteFile;
use serde_json::Value;
use wireseal_keys::Timestamp;
use wireseal_tcp_ao::KeyId;

use super::daemon::FOLDER;
use crate::row::prelude::*;
use crate::wait::Program;

/// Seconds from the clock of one end to the other's. A plan allows for 300.
pub const APART: i64 = 299;
/// Seconds that an end which takes its steps late has left.
const LEFT: i64 = 10;
const HOUR: i64 = 3600;
pub const PORTS: [Port; 2] = [Port::North, Port::South];
/// The places of the two ends in arrays.
pub const NORTH: usize = 0;
pub const SOUTH: usize = 1;

/// By how much an end's clock is behind the one that is ahead.
pub const fn behind(place: usize, ahead: usize) -> i64 {
    if place == ahead { 0 } else { APART }
}

/// A step of an end, with the name of its file, and from when until when it may be taken by its own clock.
pub struct Step {
    pub action: String,
    pub file: String,
    pub from: i64,
    pub until: Option<i64>,
}

/// What the command has written for a rollover, in a folder of this machine.
pub struct Rollover<'a> {
    lab: &'a Lab,
    folder: PathBuf,
    files: [&'static str; 2],
    pub plan: Value,
}

impl<'a> Rollover<'a> {
    /// Plans one for an hour later, from today's files under these names.
    pub fn plan(
        lab: &'a Lab,
        files: [&'static str; 2],
        texts: &[String; 2],
        now: i64,
        algorithm: &str,
    ) -> Result<Self> {
        let folder = lab.setting.state.join("keys-roll");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let mut rollover = Self { lab, folder, files, plan: Value::Null };
        for (file, text) in files.iter().zip(texts) {
            fs::write(rollover.folder.join(file), text)?;
        }
        // Made by the clock that is behind, so that both ends may begin.
        let [made, at] =
            [now - APART, now + HOUR].map(|moment| Timestamp::from_unix_seconds(moment).to_string());
        let options = ["--now", &made, "--at", &at, "--algorithm", algorithm, "--out", "."];
        let (code, said) = rollover.keys_roll(&options)?;
        ensure!(code == Some(0), "{said}");
        rollover.plan = serde_json::from_str(&rollover.text("plan.json")?)?;
        let (code, said) = rollover.keys_roll(&["--check", "plan.json"])?;
        ensure!(code == Some(0), "{said}");
        Ok(rollover)
    }

    /// Edits a copy of the plan, so that the first step of an end may come after the other's last, and checks that the command refuses it.
    /// Returns how many times it names in which segments are lost.
    pub fn delay_first_step(&self, place: usize) -> Result<usize> {
        let last = self.steps(1 - place)?.pop().context("there are steps")?;
        let mut edited = self.plan.clone();
        edited["ends"][place]["steps"][0]["until"] =
            Timestamp::from_unix_seconds(last.from + HOUR).to_string().into();
        fs::write(self.folder.join("edited.json"), edited.to_string())?;
        let (code, said) = self.keys_roll(&["--check", "edited.json"])?;
        ensure!(code == Some(1), "--check returned {code:?}: {said}");
        Ok(said.lines().filter(|line| line.contains("refused: segments are lost between")).count())
    }

    /// Runs the command on today's files. Returns its exit code and what it has printed.
    fn keys_roll(&self, options: &[&str]) -> Result<(Option<i32>, String)> {
        let mut command = Command::new(&self.lab.judge);
        let output = command
            .current_dir(&self.folder)
            .args(["keys", "roll"])
            .args(options)
            .args(self.files)
            .output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
    }

    pub fn text(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.folder.join(file)).with_context(|| file.to_owned())
    }

    /// The KeyID that an end sends with the new key.
    pub fn new_key(&self, place: usize) -> Result<KeyId> {
        Ok(KeyId(serde_json::from_value(self.plan["ends"][place]["new"]["send_id"].clone())?))
    }

    pub fn steps(&self, place: usize) -> Result<Vec<Step>> {
        let steps = self.plan["ends"][place]["steps"].as_array().context("the plan has steps")?;
        let (_, extension) = self.files[place].split_once('.').context("a file has an extension")?;
        let step = |step: &Value| {
            let action = step["action"].as_str().context("a step has an action")?.to_owned();
            let number = ["add", "prefer", "remove"].iter().position(|known| *known == action);
            let number = number.with_context(|| format!("another action: {action}"))? + 1;
            let file = format!("{number}-{}-{action}.{extension}", PORTS[place]);
            let until = if step["until"].is_null() { None } else { Some(moment(&step["until"])?) };
            Ok(Step { action, file, from: moment(&step["from"])?, until })
        };
        steps.iter().map(step).collect()
    }

    /// What happens, in order: when by the clock that is ahead, at which end, and which step; none where an end changes over by itself. The end
    /// whose clock is ahead takes its steps as early as it may, the other as late.
    pub fn events(&self, ahead: usize) -> Result<Vec<(i64, usize, Option<Step>)>> {
        let mut events = Vec::new();
        for place in [NORTH, SOUTH] {
            let steps = self.steps(place)?;
            if steps.iter().all(|step| step.action != "prefer") {
                events.push((moment(&self.plan["at"])? + behind(place, ahead), place, None));
            }
            for step in steps {
                let late = step.until.filter(|_| place != ahead).map(|until| until - LEFT);
                events.push((late.unwrap_or(step.from) + behind(place, ahead), place, Some(step)));
            }
        }
        events.sort_by_key(|(moment, ..)| *moment);
        Ok(events)
    }

    /// Waits until the program at an end says that the old key may go.
    pub async fn await_status(&self, program: &Program<'_>) -> Result<()> {
        let path = format!("{FOLDER}/plan.json");
        program.guest.call(WriteFile { path: path.clone(), contents: self.plan.to_string() }).await?;
        let ask = format!("wireseal keys roll --status {path} --pid $(cat /tmp/run.pid) --wait 20");
        let said = program.guest.shell(&ask).await?;
        ensure!(said.ends_with("done: the old key may go\n"), "{said}");
        Ok(())
    }
}

/// A moment of a plan, in seconds since 1970.
fn moment(value: &Value) -> Result<i64> {
    let text = value.as_str().context("a moment is text")?;
    Ok(text.parse::<Timestamp>()?.unix_seconds())
}
