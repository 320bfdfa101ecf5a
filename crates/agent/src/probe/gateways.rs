//! Which sessions a running `wireseal gateway` carries.

use std::io;
use std::path::Path;

use wireseal_linux::IpCidr;

use super::host::{CarriedBy, Role};
use super::processes::subcommand;
use super::sockets::Found;
use crate::status::{Command, Status, process_namespace, running, running_in};

/// The gateways of this host that answer, and the processes that may be others.
#[derive(Default)]
pub(super) struct Gateways {
    answered: Vec<Answered>,
    silent: Vec<Silent>,
}

struct Answered {
    /// As this process sees it.
    pid: u32,
    namespace: u64,
    status: Status,
}

struct Silent {
    pid: u32,
    /// `None` if that may not be seen.
    namespace: Option<u64>,
}

impl Gateways {
    /// Asks all gateways among these processes, in containers too.
    pub(super) fn ask(pids: &[u32]) -> Self {
        let is_gateway = |status: &Status| status.command == Command::Gateway;
        let own = running(None).map(|instances| instances.answered).unwrap_or_default();
        let own = own.into_iter().filter(is_gateway);
        let mut answered: Vec<_> = own
            .map(|status| Answered { pid: status.pid, namespace: status.network_namespace, status })
            .collect();
        let mut silent = Vec::new();
        for pid in pids.iter().copied().filter(|pid| subcommand(*pid).as_deref() == Some("gateway")) {
            let namespace = process_namespace(pid);
            if answered.iter().any(|gateway| gateway.pid == pid && Some(gateway.namespace) == namespace) {
                continue;
            }
            // A container's gateway answers for its own network namespace alone, whatever it says.
            let folder = Path::new("/proc").join(pid.to_string()).join("root/run/wireseal");
            let instances = running_in(&folder, None).map(|instances| instances.answered).unwrap_or_default();
            let is_its = |status: &Status| is_gateway(status) && Some(status.network_namespace) == namespace;
            match instances.into_iter().find(is_its).zip(namespace) {
                Some((status, namespace)) => answered.push(Answered { pid, namespace, status }),
                None => silent.push(Silent { pid, namespace }),
            }
        }
        Self { answered, silent }
    }

    /// The gateway that carries a socket's packets, if any.
    ///
    /// # Errors
    /// Why that cannot be known. `is_locked` is whether the kernel shows a gateway in the namespace, if it may be asked.
    pub(super) fn of(
        &self,
        namespace: u64,
        socket: &Found,
        is_locked: &io::Result<bool>,
    ) -> Result<Option<CarriedBy>, String> {
        let mut here = self.answered.iter().filter(|gateway| gateway.namespace == namespace).peekable();
        if here.peek().is_some() {
            return Ok(here.find_map(|gateway| carried(gateway.pid, &gateway.status, socket)));
        }
        let is_possible = |silent: &&Silent| silent.namespace.is_none_or(|other| other == namespace);
        match (is_locked, self.silent.iter().find(is_possible)) {
            (Ok(false), _) | (Err(_), None) => Ok(None),
            (Ok(true), None) => Err("a gateway runs in its network namespace, but shows no status".into()),
            (Ok(true), Some(silent)) => Err(format!(
                "a gateway (process {}) runs in its network namespace, but shows no status",
                silent.pid
            )),
            (Err(_), Some(silent)) => Err(format!(
                "a gateway (process {}) may carry it, and shows its status to root alone",
                silent.pid
            )),
        }
    }
}

/// What a gateway with this status does for a socket.
fn carried(pid: u32, status: &Status, socket: &Found) -> Option<CarriedBy> {
    // Without the rules packets may pass it by.
    if status.rules.as_ref().is_some_and(|rules| rules.problem.is_some()) {
        return None;
    }
    let is_protected = |port| status.ports.contains(&port);
    let peers = match socket.role {
        Role::Listener if is_protected(socket.local.port()) => {
            status.peers.iter().map(|peer| peer.peer.clone()).collect()
        }
        Role::Session { peer, .. } if is_protected(socket.local.port()) || is_protected(peer.port()) => {
            let networks = status.peers.iter().filter_map(|status| {
                let network: IpCidr = status.peer.parse().ok()?;
                network.contains(&peer.ip()).then_some((network.network_length(), &status.peer))
            });
            // The longest prefix decides, as in the gateway.
            networks.max().map(|(_, name)| vec![name.clone()])?
        }
        _ => return None,
    };
    Some(CarriedBy { pid, peers })
}
