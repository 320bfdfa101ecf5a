//! Which sessions a running `wireseal gateway` carries.

use std::io;
use std::path::Path;

use rustix::process::geteuid;
use wireseal_linux::IpCidr;

use super::host::{CarriedBy, Role, RunningGateway};
use super::namespaces::Place;
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
        let silent = self.silent.iter().find(is_possible).map(|silent| silent.pid);
        let does = match (is_locked, silent) {
            (Ok(false), _) | (Err(_), None) => return Ok(None),
            (Ok(true), _) => "runs in its network namespace",
            (Err(_), Some(_)) => "may carry it",
        };
        let shows =
            if geteuid().is_root() { "does not show its status" } else { "shows its status to root alone" };
        Err(format!("a gateway{} {does}, but {shows}", crate::error::process(silent)))
    }
}

impl Gateways {
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
            let carried = gateways.of(1, &socket(local, peer), &Ok(true)).unwrap();
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
        assert_eq!(gateways.of(2, &socket("0.0.0.0:179", None), &Ok(false)), Ok(None));
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
        let of = |gateways: &Gateways, is_locked| gateways.of(1, &socket("0.0.0.0:179", None), &is_locked);
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
