//! Key managers, by number.

use std::collections::HashMap;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use wireseal_interop_linux_guest::{Attach, NewManager, SetChain, Step, Stepped};
use wireseal_linux::{Attachment, KeyManager, StepReport};
use wireseal_tcp_ao::key_chain::Timestamp;

use crate::sockets::Sockets;

/// The managers, and what is attached to them.
#[derive(Default)]
pub struct Managers {
    managers: Mutex<Vec<KeyManager>>,
    attachments: Mutex<HashMap<u64, Attachment>>,
}

impl Managers {
    pub fn add(&self, new: &NewManager) -> Result<u64> {
        let manager = KeyManager::new(new.chain.key_chain()?, new.remote, None)?;
        let mut managers = self.managers.lock().unwrap();
        managers.push(manager);
        Ok(managers.len() as u64 - 1)
    }

    pub fn attach(&self, sockets: &Sockets, attach: &Attach) -> Result<()> {
        let socket = sockets.get(attach.socket)?;
        let now = Timestamp::from_unix_seconds(attach.now);
        let attachment = self.get(attach.manager)?.attach(&*socket, now)?;
        self.attachments.lock().unwrap().insert(attach.socket, attachment);
        Ok(())
    }

    pub fn detach(&self, socket: u64) -> Result<()> {
        let attachment = self.attachments.lock().unwrap().remove(&socket);
        attachment.map(drop).with_context(|| format!("socket {socket} is not attached"))
    }

    pub fn detach_all(&self) {
        self.attachments.lock().unwrap().clear();
    }

    pub fn step(&self, step: &Step) -> Result<Stepped> {
        stepped(&self.get(step.manager)?.step(Timestamp::from_unix_seconds(step.now)))
    }

    pub fn set_chain(&self, set: &SetChain) -> Result<Stepped> {
        let now = Timestamp::from_unix_seconds(set.now);
        stepped(&self.get(set.manager)?.set_chain(set.chain.key_chain()?, now)?)
    }

    fn get(&self, number: u64) -> Result<KeyManager> {
        let managers = self.managers.lock().unwrap();
        let manager = usize::try_from(number).ok().and_then(|number| managers.get(number)).cloned();
        manager.with_context(|| format!("there is no key manager {number}"))
    }
}

fn stepped(report: &StepReport) -> Result<Stepped> {
    let sockets = || report.sockets.iter();
    ensure!(sockets().all(|socket| socket.failed.is_empty()), "{report:?}");
    Ok(Stepped {
        expired: report.expired,
        done: sockets().flat_map(|socket| &socket.done).map(ToString::to_string).collect(),
        overdue: sockets().map(|socket| socket.overdue.len()).sum(),
    })
}
