//! Key managers, by number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use cidr::IpCidr;
use wireseal_interop_linux_guest::{Attach, Chain, ConnectFrom, Manage, NewManager, SetPeers, Step, Stepped};
use wireseal_keys::Timestamp;
use wireseal_linux::{
    Action, Attachment, KeyManager, Local, PeerName, SocketReport, StepReport, TcpAoListener, TcpAoStream,
};

use crate::sockets::Sockets;

/// The managers, and what is attached to them.
#[derive(Default)]
pub struct Managers {
    managers: Mutex<Vec<KeyManager>>,
    attachments: Mutex<HashMap<u64, Attachment>>,
    listeners: Mutex<HashMap<u64, Arc<TcpAoListener>>>,
}

impl Managers {
    pub fn add(&self, new: &NewManager) -> Result<u64> {
        let manager = KeyManager::default();
        set_peers(&manager, &new.peers)?;
        let mut managers = self.managers.lock().unwrap();
        managers.push(manager);
        Ok(managers.len() as u64 - 1)
    }

    pub fn attach(&self, sockets: &Sockets, attach: &Attach) -> Result<()> {
        let socket = sockets.get(attach.socket)?;
        let now = Timestamp::from_unix_seconds(attach.now);
        let manager = self.get(attach.manager)?;
        let attachment = match attach.remote {
            Some(remote) => manager.attach_connecting(&*socket, remote, now)?,
            None => manager.attach(&*socket, now)?,
        };
        self.attachments.lock().unwrap().insert(attach.socket, attachment);
        Ok(())
    }

    pub fn manage(&self, sockets: &Sockets, manage: &Manage) -> Result<()> {
        let socket = sockets.get(manage.socket)?.try_clone()?;
        let listener = TcpAoListener::from_socket(socket, &self.get(manage.manager)?)?;
        self.listeners.lock().unwrap().insert(manage.socket, Arc::new(listener));
        Ok(())
    }

    pub fn accept(&self, sockets: &Sockets, listener: u64) -> Result<u64> {
        let listener = self.listeners.lock().unwrap().get(&listener).cloned();
        let (stream, _) = listener.context("the listener is not managed")?.accept()?;
        let (stream, attachment) = stream.into_parts();
        let socket = sockets.add(stream.into());
        self.attachments.lock().unwrap().insert(socket, attachment);
        Ok(socket)
    }

    pub fn connect_from(&self, sockets: &Sockets, connect: &ConnectFrom) -> Result<u64> {
        let local = Local { address: None, vrf: connect.vrf };
        let stream = TcpAoStream::connect_from(local, connect.remote, &self.get(connect.manager)?)?;
        let (stream, attachment) = stream.into_parts();
        let socket = sockets.add(stream.into());
        self.attachments.lock().unwrap().insert(socket, attachment);
        Ok(socket)
    }

    pub fn detach(&self, socket: u64) -> Result<()> {
        let attachment = self.attachments.lock().unwrap().remove(&socket);
        attachment.map(drop).with_context(|| format!("socket {socket} is not attached"))
    }

    pub fn detach_all(&self) {
        self.attachments.lock().unwrap().clear();
        self.listeners.lock().unwrap().clear();
    }

    pub fn step(&self, step: &Step) -> Result<Stepped> {
        stepped(&self.get(step.manager)?.step(Timestamp::from_unix_seconds(step.now)))
    }

    pub fn set_peers(&self, set: &SetPeers) -> Result<()> {
        set_peers(&self.get(set.manager)?, &set.peers)
    }

    fn get(&self, number: u64) -> Result<KeyManager> {
        let managers = self.managers.lock().unwrap();
        let manager = usize::try_from(number).ok().and_then(|number| managers.get(number)).cloned();
        manager.with_context(|| format!("there is no key manager {number}"))
    }
}

fn set_peers(manager: &KeyManager, peers: &[(IpCidr, Option<u32>, Chain)]) -> Result<()> {
    for (remote, vrf, chain) in peers {
        manager.set_peer(PeerName { remote: *remote, vrf: *vrf }, chain.key_chain()?)?;
    }
    Ok(())
}

fn stepped(report: &StepReport) -> Result<Stepped> {
    let sockets = || report.sockets.iter();
    let is_overdue = |socket: &SocketReport, action: &Option<Action>| {
        action.is_some_and(|action| socket.overdue.contains(&action.key()))
    };
    let is_done = |socket: &SocketReport| socket.failed.iter().all(|(action, _)| is_overdue(socket, action));
    ensure!(sockets().all(is_done), "{report:?}");
    Ok(Stepped {
        expired: report.expired.len(),
        ended: sockets().filter(|socket| socket.expired).count(),
        done: sockets().flat_map(|socket| &socket.done).map(ToString::to_string).collect(),
        overdue: sockets().map(|socket| socket.overdue.len()).sum(),
    })
}
