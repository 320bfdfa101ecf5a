//! What this host has for TCP-AO, and which of its routing sessions are protected by what. Nothing is changed, on no socket: every answer
//! comes from a netlink dump, a socket's read-only options, or `/proc`.
//!
//! ```no_run
//! for socket in wireseal_agent::probe::probe().sockets {
//!     let protection = &socket.protection;
//!     println!("{:?} {} {:?}: {} TCP-AO keys", socket.service, socket.local, socket.role, protection.tcp_ao.len());
//! }
//! ```

mod daemon;
mod files;
mod gateways;
mod host;
mod kernel;
mod namespaces;
mod processes;
mod sockets;

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;
use std::process;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use rustix::process::geteuid;
use socket2::{Protocol, SockRef};
use wireseal_linux::{IpCidr, TcpAoSocket, vrf_of_device};

use self::gateways::Gateways;
use self::namespaces::{Place, places};
use self::processes::{Holders, Known, duplicate, holders, pids};
use self::sockets::{Found, listeners_and_sessions};
use crate::gateway::is_locked;

#[cfg(fuzzing)]
pub use self::sockets::listed_sockets;

pub use self::daemon::{Daemon, Daemons};
pub use self::host::{
    Ability, AoKey, CarriedBy, Host, Kernel, Namespace, ProbedSocket, Process, Protection, Role,
    RunningGateway, Service,
};

/// What was seen inside a network namespace.
struct Inside {
    sockets: Vec<Found>,
    /// The sockets' devices, by their indices.
    devices: HashMap<u32, Device>,
    /// Why TCP-MD5 keys were not seen where they were not; `None` if there are none.
    unseen_md5: Option<&'static str>,
    /// Whether a gateway runs there.
    is_locked: io::Result<bool>,
}

/// Looks at the kernel, and at all listeners and sessions of the known services in all network namespaces that this process may enter.
///
/// Without root it sees its own network namespace and its user's processes, and [`Host::unseen`] says so. Sockets that are closed
/// meanwhile are left out.
#[must_use]
pub fn probe() -> Host {
    let mut known = Known::default();
    let is_under_run = known.process(process::id()).is_some_and(|own| own.is_under_run);
    let kernel = kernel::kernel(&wireseal_linux::probe(), is_under_run);
    let (mut seen, mut unseen) = look_everywhere(&kernel);
    // A new list, for those that were started meanwhile.
    let pids = pids();
    let inodes = seen.iter().flat_map(|(_, inside)| &inside.sockets).map(|socket| socket.inode);
    let (holders, hidden) = holders(&pids, &inodes.filter(|inode| *inode != 0).collect());
    let mut without = 0;
    for (place, inside) in &mut seen {
        without += inside.drop_closed(place, &holders);
    }
    if without > 0 {
        let why = match hidden {
            0 => "/proc does not show them".to_owned(),
            _ => takes_root("seeing them"),
        };
        unseen.push(format!("the processes of {}: {why}", counted(without, "socket", "sockets")));
    }
    let any = seen.iter().any(|(_, inside)| !inside.sockets.is_empty());
    let gateways = if any { Gateways::ask(&pids) } else { Gateways::default() };
    let mut judge = Judge { has_tcp_ao: kernel.tcp_ao != Ability::No, holders, known, gateways };
    let mut sockets = Vec::new();
    for (place, inside) in &seen {
        sockets.extend(inside.sockets.iter().map(|found| judge.socket(place, inside, found)));
    }
    sockets.sort_by_cached_key(|socket| {
        let ProbedSocket { namespace, device, service, role, local, .. } = socket;
        let namespace = namespace.as_ref().map(|namespace| (namespace.name.is_none(), namespace.clone()));
        (namespace, *service, *role, *local, device.clone())
    });
    let shown = seen.iter().filter(|(_, inside)| matches!(inside.is_locked, Ok(true)));
    let gateways = shown.filter_map(|(place, _)| judge.gateways.running(place)).collect();
    Host { kernel, sockets, gateways, unseen }
}

/// A device of the network namespace that was looked at.
struct Device {
    name: String,
    /// As [`ProbedSocket::vrf`].
    vrf: Option<String>,
}

/// The device with this index in the calling thread's network namespace.
fn device(index: u32) -> Device {
    let name = |index| {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None);
        // It may have been removed; its sockets stay bound to its number.
        socket
            .and_then(|socket| netdevice::index_to_name(socket, index))
            .unwrap_or_else(|_| format!("device {index}"))
    };
    let own = name(index);
    let vrf = match vrf_of_device(own.as_bytes()) {
        Ok(0) => None,
        Ok(vrf) => Some(name(vrf)),
        Err(_) => Some(own.clone()),
    };
    Device { name: own, vrf }
}

/// Looks at all network namespaces; what could not be looked at is said.
fn look_everywhere(kernel: &Kernel) -> (Vec<(Place, Inside)>, Vec<String>) {
    let (mut seen, mut unseen, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    let (places, hidden) = places(&pids());
    for place in places {
        match place.within(|| look(kernel)) {
            Ok(inside) => seen.push((place, inside)),
            // Its last process has ended.
            Err(error) if error.kind() == ErrorKind::NotFound && place.namespace.is_some() => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => refused.push(place.to_string()),
            Err(error) => unseen.push(format!("the sockets in {place}: {error}")),
        }
    }
    if !refused.is_empty() {
        unseen.push(format!("the sockets in {}: {}", refused.join(", "), takes_root("entering it")));
    }
    if hidden > 0 {
        let processes = counted(hidden, "process", "processes");
        unseen.push(format!("the network namespaces of {processes}: {}", takes_root("seeing them")));
    }
    (seen, unseen)
}

/// Looks at the network namespace of the calling thread.
fn look(kernel: &Kernel) -> io::Result<Inside> {
    // The capability that shows TCP-MD5 keys is the one for moving connections.
    let has_md5 = kernel.tcp_md5 != Ability::No;
    let may_see_md5 = has_md5 && wireseal_linux::probe()?.repair;
    let sockets = listeners_and_sessions(may_see_md5)?;
    let unseen_md5 = has_md5.then_some(match may_see_md5 {
        true => "there are more than the kernel can list",
        false => "seeing them needs CAP_NET_ADMIN",
    });
    let indices: HashSet<u32> =
        sockets.iter().map(|socket| socket.device).filter(|index| *index != 0).collect();
    let devices = indices.into_iter().map(|index| (index, device(index))).collect();
    Ok(Inside { sockets, devices, unseen_md5, is_locked: is_locked() })
}

impl Inside {
    /// Leaves out sockets without a process that were closed since. Returns how many there are that nobody is seen to have.
    fn drop_closed(&mut self, place: &Place, holders: &Holders) -> usize {
        let is_alone = |socket: &Found| socket.inode != 0 && !holders.contains_key(&socket.inode);
        if !self.sockets.iter().any(is_alone) {
            return 0;
        }
        let open = match place.within(|| listeners_and_sessions(false)) {
            Ok(open) => open.iter().map(|socket| socket.inode).collect(),
            // The namespace has ended with its last process.
            Err(error) if error.kind() == ErrorKind::NotFound => HashSet::new(),
            Err(_) => return self.sockets.iter().filter(|socket| is_alone(socket)).count(),
        };
        self.sockets.retain(|socket| !is_alone(socket) || open.contains(&socket.inode));
        self.sockets.iter().filter(|socket| is_alone(socket)).count()
    }
}

/// What is known besides the sockets.
struct Judge {
    has_tcp_ao: bool,
    holders: Holders,
    known: Known,
    gateways: Gateways,
}

impl Judge {
    /// What protects a socket, and who has it.
    fn socket(&mut self, place: &Place, inside: &Inside, found: &Found) -> ProbedSocket {
        let is_for_it = |network: &IpCidr| match found.role {
            Role::Listener => true,
            Role::Session { peer, .. } => network.contains(&peer.ip()),
        };
        let holders: &mut [_] = self.holders.get_mut(&found.inode).map_or(&mut [], |holders| holders);
        self.known.daemon_first(holders);
        let mut protection = Protection::default();
        match (&found.tcp_md5, inside.unseen_md5) {
            (Some(networks), _) => {
                protection.tcp_md5 = networks.iter().copied().filter(is_for_it).collect();
            }
            (None, Some(why)) => protection.unknown.push(format!("its TCP-MD5 keys: {why}")),
            (None, None) => {}
        }
        if self.has_tcp_ao {
            match tcp_ao(found, holders) {
                Ok((keys, is_required)) => {
                    protection.tcp_ao = keys.into_iter().filter(|key| is_for_it(&key.peer)).collect();
                    protection.is_ao_required = is_required;
                }
                Err(why) => protection.unknown.push(format!("its TCP-AO keys: {why}")),
            }
        }
        let device = inside.devices.get(&found.device);
        let vrf = device.and_then(|device| device.vrf.clone());
        match self.gateways.of(place.inode, found, &inside.is_locked, vrf.is_some()) {
            Ok(gateway) => protection.gateway = gateway,
            Err(why) => protection.unknown.push(why),
        }
        ProbedSocket {
            namespace: place.namespace.clone(),
            device: device.map(|device| device.name.clone()),
            vrf,
            service: found.service,
            role: found.role,
            local: found.local,
            protection,
            process: holders.iter().find_map(|(pid, _)| self.known.process(*pid)),
        }
    }
}

/// The TCP-AO keys on a socket, and whether it requires TCP-AO; read from a duplicate, which is closed at once.
fn tcp_ao(found: &Found, holders: &[(u32, RawFd)]) -> Result<(Vec<AoKey>, bool), String> {
    let mut why = match found.inode {
        0 => "no process has the socket yet".to_owned(),
        _ => "the socket's process could not be seen".to_owned(),
    };
    for (pid, descriptor) in holders {
        let socket = match duplicate(*pid, *descriptor, found.inode) {
            Ok(socket) => socket,
            Err(Errno::PERM) => {
                why = format!("reading them needs permission to trace process {pid}");
                continue;
            }
            Err(error) => {
                why = format!("process {pid} gave no access to the socket: {error}");
                continue;
            }
        };
        // Multipath TCP, with which Go listens by default, takes no keys; the kernel lists its TCP socket under the same number.
        if SockRef::from(&socket).protocol().is_ok_and(|protocol| protocol != Some(Protocol::TCP)) {
            return Ok((Vec::new(), false));
        }
        let socket = TcpAoSocket::new(&socket);
        let read = || Ok((socket.seen_keys()?, socket.info()?.is_some_and(|info| info.required)));
        let (keys, is_required) = read().map_err(|error: wireseal_linux::Error| error.to_string())?;
        let keys = keys.into_iter().map(|key| AoKey {
            peer: key.name.remote,
            send_id: key.name.send_id,
            recv_id: key.name.recv_id,
            algorithm: key.algorithm,
            is_current: key.is_current,
            is_rnext: key.is_rnext,
        });
        return Ok((keys.collect(), is_required));
    }
    Err(why)
}

fn takes_root(what: &str) -> String {
    match geteuid().is_root() {
        true => "permission denied".to_owned(),
        false => format!("{what} needs root"),
    }
}

/// A number with its noun.
fn counted(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

#[cfg(test)]
mod tests;
