//! What is found: the types.

use std::net::SocketAddr;
use std::path::PathBuf;

use wireseal_linux::{IpCidr, KeyId};

/// What was found on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// What its kernel can do.
    pub kernel: Kernel,
    /// The listeners and sessions on the ports of the known services, those of the own network namespace first; sorted, so that two looks
    /// at the same host read alike.
    pub sockets: Vec<ProbedSocket>,
    /// The gateways that the kernel shows and that have answered.
    pub gateways: Vec<RunningGateway>,
    /// What could not be looked at, and why: one plain clause each. Empty if all was seen.
    pub unseen: Vec<String>,
}

/// What the running kernel can do, found out by trying.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// TCP-AO on its own sockets, which `wireseal run` and some daemons need.
    pub tcp_ao: Ability,
    /// TCP-MD5 (RFC 2385).
    pub tcp_md5: Ability,
    /// Packet queues (nfnetlink_queue), which `wireseal gateway` needs.
    pub packet_queues: Ability,
    /// Notifications of system calls by seccomp, which `wireseal run` needs.
    pub seccomp_notifications: Ability,
}

/// Whether the kernel can do something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ability {
    /// It can.
    Yes,
    /// It cannot.
    No,
    /// It could not be tried: why, in a plain clause.
    Unknown(String),
}

/// A listener or session of a known service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbedSocket {
    /// Its network namespace; `None` for that of this process.
    pub namespace: Option<Namespace>,
    /// The device that it is bound to, such as a VRF.
    pub device: Option<String>,
    /// The VRF that this device is or belongs to; the device itself where that could not be found out.
    pub vrf: Option<String>,
    /// The service, by its port.
    pub service: Service,
    /// Listener or session.
    pub role: Role,
    /// This end. An IPv4 address of an IPv6 socket is shown as such.
    pub local: SocketAddr,
    /// What protects it.
    pub protection: Protection,
    /// The process that has it; `None` if that could not be seen, or if it has none any more.
    pub process: Option<Process>,
}

/// A network namespace other than that of this process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Namespace {
    /// Its name among those of `ip netns`, by which `ip netns exec NAME` enters it.
    pub name: Option<String>,
    /// A process in it, by which `nsenter --net=/proc/PID/ns/net` enters it; `None` if no process is in it.
    pub pid: Option<u32>,
    /// The inode number of `/proc/PID/ns/net`.
    pub inode: u64,
}

/// A service whose sessions TCP-AO is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Service {
    /// Border Gateway Protocol (RFC 4271).
    Bgp,
    /// Label Distribution Protocol (RFC 5036).
    Ldp,
    /// Multicast Source Discovery Protocol (RFC 3618).
    Msdp,
    /// Path Computation Element Communication Protocol (RFC 5440).
    Pcep,
    /// RPKI to Router protocol (RFC 8210).
    Rtr,
    /// BGP Monitoring Protocol (RFC 7854).
    Bmp,
}

impl Service {
    /// All services.
    pub const ALL: [Self; 6] = [Self::Bgp, Self::Ldp, Self::Msdp, Self::Pcep, Self::Rtr, Self::Bmp];

    /// The TCP ports that it is known by. Those of IANA; RTR's also Routinator's (3323) and StayRTR's (8282), which an ordinary user can
    /// listen on; for BMP, which has none, those of pmacct (1790) and GoBGP (11019). Not OpenBMP's 5000, which many other programs use.
    #[must_use]
    pub const fn ports(self) -> &'static [u16] {
        match self {
            Self::Bgp => &[179],
            Self::Ldp => &[646],
            Self::Msdp => &[639],
            Self::Pcep => &[4189],
            Self::Rtr => &[323, 3323, 8282],
            Self::Bmp => &[1790, 11_019],
        }
    }
}

/// What a socket is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// It waits for connections.
    Listener,
    /// It is a connection.
    Session {
        /// The other end.
        peer: SocketAddr,
        /// Whether this end opened it: it does not have the service's port, and the other end has it. `None` if both have it.
        is_opener: Option<bool>,
        /// Whether both ends have agreed on it. Otherwise this end still opens it, or the other end has closed it.
        is_established: bool,
    },
}

/// What protects a socket's segments. If everything in it is empty, nothing does. A listener can have keys of several kinds, each for other
/// peers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Protection {
    /// The TCP-AO keys on it; of a session, those that are for its peer.
    pub tcp_ao: Vec<AoKey>,
    /// Whether it refuses unsigned segments from peers without a key, too.
    pub is_ao_required: bool,
    /// The peers that it has TCP-MD5 keys for; of a session, those keys that are for its peer.
    pub tcp_md5: Vec<IpCidr>,
    /// The gateway that signs and verifies its packets.
    pub gateway: Option<CarriedBy>,
    /// Which of this could not be looked at, and why: one plain clause each. What was found stands anyway.
    pub unknown: Vec<String>,
}

/// A TCP-AO key on a socket, without its secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AoKey {
    /// The peers that it is for.
    pub peer: IpCidr,
    /// The KeyID in segments that this end sends.
    pub send_id: KeyId,
    /// The KeyID in segments that this end accepts.
    pub recv_id: KeyId,
    /// The algorithm by the kernel's name, such as `cmac(aes)`.
    pub algorithm: String,
    /// Whether this end signs with it. Never on a listener.
    pub is_current: bool,
    /// Whether this end asks the peer to sign with it. Never on a listener.
    pub is_rnext: bool,
}

/// A running `wireseal gateway` of the socket's network namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CarriedBy {
    /// Its process number.
    pub pid: u32,
    /// The peers that it carries, as in its configuration: all for a listener, the one for a session.
    pub peers: Vec<String>,
}

/// A `wireseal gateway` that runs, whether it carries a socket or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningGateway {
    /// Its network namespace; `None` for that of this process.
    pub namespace: Option<Namespace>,
    /// Its process number.
    pub pid: u32,
    /// The TCP ports that it protects; none if an earlier version does not tell.
    pub ports: Vec<u16>,
    /// Its peers, as in its configuration: addresses and networks.
    pub peers: Vec<String>,
}

/// A process that has a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its number in the PID namespace of this process.
    pub pid: u32,
    /// Its name (`/proc/PID/comm`). Any process can choose its own, so it may hold any octet but NUL: escape it before you print it.
    pub name: String,
    /// The file that it executes, as its root directory names it; `None` if that may not be read. It ends in ` (deleted)` if the file was
    /// replaced or removed since.
    pub executable: Option<PathBuf>,
    /// The user that it runs as.
    pub user: Option<u32>,
    /// Whether it has another root directory or PID namespace than this process, as in a container: a path of it is another file here.
    pub is_in_container: bool,
    /// Whether a `wireseal run` is among its parents.
    pub is_under_run: bool,
    /// The systemd unit that it belongs to, such as `frr.service`.
    pub unit: Option<String>,
}
