//! Programs on the guest.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use wireseal_interop_linux_guest::Ran;

/// The programs that were started, by their names.
#[derive(Default)]
pub struct Processes(Mutex<HashMap<String, Child>>);

/// Runs a command to its end.
pub fn run(command: &[String]) -> Result<Ran> {
    let output = prepared(command)?.stdin(Stdio::null()).output()?;
    Ok(Ran {
        status: output.status.code(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

impl Processes {
    pub fn start(&self, name: String, command: &[String]) -> Result<()> {
        let mut running = self.0.lock().unwrap();
        if let Some(child) = running.get_mut(&name)
            && child.try_wait()?.is_none()
        {
            bail!("{name} runs already");
        }
        let log = File::create(log_of(&name))?;
        let child = prepared(command)?.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        running.insert(name, child);
        Ok(())
    }

    pub fn stop(&self, name: &str) -> Result<()> {
        let child = self.0.lock().unwrap().remove(name);
        let mut child = child.with_context(|| format!("{name} was not started"))?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    pub fn log(&self, name: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(log_of(name))?).into_owned())
    }
}

fn prepared(command: &[String]) -> Result<Command> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut prepared = Command::new(program);
    prepared.args(arguments);
    Ok(prepared)
}

fn log_of(name: &str) -> PathBuf {
    PathBuf::from(format!("/tmp/{name}.log"))
}
