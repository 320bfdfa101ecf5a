//! Which sessions a running `wireseal gateway` carries.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use rustix::process::geteuid;
use wireseal_linux::IpCidr;

use super::files::{by_descriptor, place_under};
use super::host::{CarriedBy, Role, RunningGateway};
use super::namespaces::Place;
use super::processes::{folder, roots_own_number, subcommand};
use super::sockets::Found;
use crate::status::{Command, Status, ask_all, process_namespace};

/// The most gateways that are asked.
const MOST: usize = 64;

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
    ///
    /// A process's name proves nothing: only root's answers are taken, each from the process itself and for its own network namespace.
    pub(super) fn ask(pids: &[u32]) -> Self {
        let (mut asked, mut silent) = (HashMap::new(), Vec::new());
        for pid in pids.iter().copied().filter(|pid| subcommand(*pid).as_deref() == Some("gateway")) {
            let namespace = process_namespace(pid);
            let place = || {
                let name = format!("{}-{}", Command::Gateway.name(), roots_own_number(pid)?);
                place_under(&folder(pid).join("root"), &Path::new("/run/wireseal").join(name)).ok()
            };
            match namespace.filter(|_| asked.len() < MOST).and_then(|namespace| Some((namespace, place()?))) {
                Some((namespace, place)) => {
                    asked.insert(by_descriptor(&place), (pid, namespace, place));
                }
                None => silent.push(Silent { pid, namespace }),
            }
        }
        let mut answered = Vec::new();
        let sockets = asked.iter().map(|(path, (pid, ..))| (path.clone(), Some(*pid))).collect();
        for (path, answer) in ask_all(sockets) {
            let (pid, namespace, _) = asked[&path];
            match answer {
                Ok(status) if status.command == Command::Gateway && status.network_namespace == namespace => {
                    answered.push(Answered { pid, namespace, status });
                }
                _ => silent.push(Silent { pid, namespace: Some(namespace) }),
            }
        }
        Self { answered, silent }
    }

    /// The gateway that carries a socket's packets, if any.
    ///
    /// # Errors
    /// Why that cannot be known. `is_locked` is whether the kernel shows a gateway in the namespace, if it may be asked; `may_be_in_vrf`
    /// whether the socket's device may be a VRF or in one.
    pub(super) fn of(
        &self,
        namespace: u64,
        socket: &Found,
        is_locked: &io::Result<bool>,
        may_be_in_vrf: bool,
    ) -> Result<Option<CarriedBy>, String> {
        let mut here = self.answered.iter().filter(|gateway| gateway.namespace == namespace).peekable();
        let has_answered = here.peek().map(|gateway| gateway.pid);
        let is_possible = |silent: &&Silent| silent.namespace.is_none_or(|other| other == namespace);
        let pid = has_answered.or_else(|| Some(self.silent.iter().find(is_possible)?.pid));
        let does = match (is_locked, pid) {
            // The kernel knows better than whoever answers.
            (Ok(false), _) | (Err(_), None) => return Ok(None),
            (Ok(true), _) if has_answered.is_some() => {
                let by = here.find_map(|gateway| carried(gateway.pid, &gateway.status, socket));
                return match may_be_in_vrf && by.is_some() {
                    true => Err("it may be in a VRF, whose sessions the gateway does not carry".to_owned()),
                    false => Ok(by),
                };
            }
            (Ok(true), _) => "runs in its network namespace",
            (Err(_), Some(_)) => "may carry it",
        };
        let shows = match has_answered {
            Some(_) => "the kernel does not show its queues",
            None if geteuid().is_root() => "does not show its status",
            None => "shows its status only to root",
        };
        Err(format!("a gateway{} {does}, but {shows}", crate::error::process(pid)))
    }

    /// The gateway of a network namespace that has answered, if any.
    pub(super) fn running(&self, place: &Place) -> Option<RunningGateway> {
        let Answered { pid, status, .. } =
            self.answered.iter().find(|gateway| gateway.namespace == place.inode)?;
        let (namespace, ports) = (place.namespace.clone(), status.ports.clone());
        let peers = status.peers.iter().map(|peer| peer.peer.clone()).collect();
        Some(RunningGateway { namespace, pid: *pid, ports, peers })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::host::Service;
    use crate::status::examples;

    fn socket(local: &str, peer: Option<&str>) -> Found {
        let session =
            |peer: &str| Role::Session { peer: peer.parse().unwrap(), is_opener: None, is_established: true };
        let (local, role) = (local.parse().unwrap(), peer.map_or(Role::Listener, session));
        Found { service: Service::Bgp, role, local, device: 0, inode: 5, tcp_md5: None }
    }

    /// A gateway of peers 192.0.2.1 and 2001:db8::/32 at port 179.
    fn answered() -> Answered {
        Answered { pid: 7, namespace: 1, status: examples::status() }
    }

    #[test]
    fn a_gateway_carries_its_peers_at_its_ports() {
        let mut gateway = answered();
        let mut around = gateway.status.peers[0].clone();
        around.peer = "192.0.2.0/24".to_owned();
        gateway.status.peers.push(around);
        let gateways = Gateways { answered: vec![gateway], silent: Vec::new() };
        let carried = |local, peer| {
            let carried = gateways.of(1, &socket(local, peer), &Ok(true), false).unwrap();
            carried.map(|carried| (carried.pid, carried.peers.join(" ")))
        };
        let some = |peers: &str| Some((7, peers.to_owned()));
        assert_eq!(carried("0.0.0.0:179", None), some("192.0.2.1 2001:db8::/32 192.0.2.0/24"));
        assert_eq!(carried("192.0.2.9:40000", Some("192.0.2.1:179")), some("192.0.2.1"));
        assert_eq!(carried("192.0.2.9:179", Some("192.0.2.7:40000")), some("192.0.2.0/24"));
        assert_eq!(carried("[::1]:179", Some("[2001:db8::7]:40000")), some("2001:db8::/32"));
        for (local, peer) in [
            ("0.0.0.0:646", None),
            ("192.0.2.9:179", Some("198.51.100.1:40000")),
            ("192.0.2.9:40000", Some("192.0.2.1:646")),
        ] {
            assert_eq!(carried(local, peer), None, "{local}");
        }
        // In another network namespace it carries nothing.
        let of = |namespace, is_locked, in_vrf| {
            let carried = gateways.of(namespace, &socket("0.0.0.0:179", None), &is_locked, in_vrf);
            carried.map(|carried| carried.map(|carried| carried.pid))
        };
        assert_eq!(of(2, Ok(false), false), Ok(None));
        // An answer is not enough.
        assert_eq!(of(1, Ok(false), false), Ok(None));
        let refused = of(1, Err(io::Error::from_raw_os_error(libc::EACCES)), false);
        assert!(refused.unwrap_err().contains("the kernel does not show its queues"));
        // Nor is the gateway for VRFs.
        assert_eq!(of(1, Ok(true), false), Ok(Some(7)));
        assert!(of(1, Ok(true), true).unwrap_err().contains("VRF"));
    }

    #[test]
    fn a_gateway_without_rules_carries_nothing() {
        let mut gateway = answered();
        let rules = |problem: Option<&str>| crate::status::RulesStatus {
            by: "nft".to_owned(),
            since: gateway.status.since,
            problem: problem.map(Into::into),
        };
        let [good, gone] = [rules(None), rules(Some("gone"))];
        for (rules, is_carried) in [(good, true), (gone, false)] {
            gateway.status.rules = Some(rules);
            let carried = carried(7, &gateway.status, &socket("0.0.0.0:179", None));
            assert_eq!(carried.is_some(), is_carried);
        }
    }

    #[test]
    fn what_a_silent_gateway_carries_is_not_known() {
        let silent =
            |namespace| Gateways { answered: Vec::new(), silent: vec![Silent { pid: 9, namespace }] };
        let none = Gateways::default();
        let refused = || Err(io::Error::from_raw_os_error(libc::EACCES));
        let of =
            |gateways: &Gateways, is_locked| gateways.of(1, &socket("0.0.0.0:179", None), &is_locked, false);
        // The kernel knows better than a process's name.
        assert_eq!(of(&silent(Some(1)), Ok(false)), Ok(None));
        assert_eq!(of(&silent(Some(2)), refused()), Ok(None));
        assert_eq!(of(&none, refused()), Ok(None));
        assert!(of(&none, Ok(true)).unwrap_err().starts_with("a gateway runs in"));
        assert!(of(&silent(Some(1)), Ok(true)).unwrap_err().contains("(process 9)"));
        for namespace in [Some(1), None] {
            assert!(of(&silent(namespace), refused()).unwrap_err().contains("may carry it"));
        }
    }
}
