//! The interfaces that packets come from.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use wireseal_linux::{PacketFilter, PacketSocket};

use crate::capture::{InterfaceDescription, Packet, Statistics, Time};

/// The name for all interfaces.
const ANY: &str = "any";
/// The most octets that are recorded of a packet.
const SNAP_LENGTH: u32 = 65_536;
/// How often packets are taken from one interface before it is the next one's turn.
const TURN: usize = 64;

/// Interfaces from which packets are taken.
#[derive(Debug)]
pub struct Interfaces {
    interfaces: Vec<Interface>,
    /// How many packets were taken.
    packets: u64,
}

#[derive(Debug)]
struct Interface {
    name: String,
    socket: PacketSocket,
}

/// Why packets cannot be taken from an interface, or no more.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// There is no such interface.
    #[error("no interface {name:?}: there {}", .there)]
    Unknown {
        /// Its name.
        name: String,
        /// Those that there are, with a verb.
        there: String,
    },
    /// The process may not capture.
    #[error(
        "{name}: capturing needs CAP_NET_RAW: use sudo, or allow it to all who run this file: \
         setcap cap_net_raw,cap_net_admin=ep {program}"
    )]
    NotPermitted {
        /// The interface.
        name: String,
        /// The running program.
        program: String,
    },
    /// The interface is down.
    #[error("{name}: the interface is down: bring it up with: ip link set {name} up")]
    Down {
        /// The interface.
        name: String,
    },
    /// The interface went down, or was removed, while packets were taken from it.
    #[error("{name}: the interface went down or was removed")]
    WentDown {
        /// The interface.
        name: String,
    },
    /// All interfaces cannot be made to receive packets for other hosts.
    #[error("--promiscuous is for interfaces with a name, not for {ANY}")]
    AnyPromiscuous,
    /// Anything else.
    #[error("{name}: {error}")]
    System {
        /// The interface.
        name: String,
        /// What the system says.
        error: io::Error,
    },
}

impl Interfaces {
    /// Opens the interfaces with these names, or all for `any`. Only what passes the filter is taken.
    ///
    /// # Errors
    /// The first one that cannot be opened.
    pub fn open(
        names: &[String],
        filter: &PacketFilter,
        is_promiscuous: bool,
    ) -> Result<Self, InterfaceError> {
        let open = |name: &String| {
            if name == ANY && is_promiscuous {
                return Err(InterfaceError::AnyPromiscuous);
            }
            let socket = open(name, filter, is_promiscuous).map_err(|error| refusal(name, error))?;
            Ok(Interface { name: name.clone(), socket })
        };
        let mut distinct: Vec<&String> = Vec::new();
        for name in names {
            if !distinct.contains(&name) {
                distinct.push(name);
            }
        }
        let interfaces = distinct.into_iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { interfaces, packets: 0 })
    }

    /// The names of this machine's interfaces.
    ///
    /// # Errors
    /// Those of reading the kernel's list.
    pub fn names() -> io::Result<Vec<String>> {
        // Two lines of headings, then one for each interface.
        let list = fs::read_to_string("/proc/self/net/dev")?;
        let names = list.lines().skip(2).filter_map(|line| line.split_once(':'));
        Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
    }

    /// The names, with commas between them.
    #[must_use]
    pub fn name(&self) -> String {
        let names: Vec<_> = self.interfaces.iter().map(|interface| interface.name.as_str()).collect();
        names.join(", ")
    }

    /// What a file says of each, in the order of the numbers that packets are taken with.
    pub fn descriptions(&self) -> impl Iterator<Item = InterfaceDescription<'_>> {
        self.interfaces.iter().map(|interface| InterfaceDescription {
            name: Some(&interface.name),
            link_type: interface.socket.link_type(),
            snap_length: SNAP_LENGTH,
        })
    }

    /// Waits for packets, or a signal, at most so long.
    ///
    /// # Errors
    /// Those of the system.
    pub fn wait(&self, limit: Duration) -> io::Result<()> {
        let mut waiting: Vec<_> =
            self.interfaces.iter().map(|interface| PollFd::new(&interface.socket, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut waiting, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes packets that are there: calls `each` with the number of the interface and the packet, until it returns an error. Returns
    /// whether there may be more.
    ///
    /// # Errors
    /// [`InterfaceError`] if an interface fails; all packets before that were taken. The inner one is that of `each`.
    pub fn take<E>(
        &mut self,
        mut each: impl FnMut(u32, &Packet<'_>) -> Result<(), E>,
    ) -> Result<Result<bool, E>, InterfaceError> {
        let mut has_more = false;
        for (number, interface) in (0..).zip(&mut self.interfaces) {
            let Interface { name, socket, .. } = interface;
            for turn in 1..=TURN {
                let may_have_more = socket.receive().map_err(|error| failure(name, error))?;
                let link_type = socket.link_type();
                for received in socket.packets() {
                    self.packets += 1;
                    let packet = Packet {
                        number: self.packets,
                        time: Some(Time::from_unix_nanoseconds(received.unix_nanoseconds)),
                        link_type,
                        octets: received.octets,
                        original_length: received.original_length,
                    };
                    if let Err(error) = each(number, &packet) {
                        return Ok(Err(error));
                    }
                }
                if !may_have_more {
                    break;
                }
                has_more |= turn == TURN;
            }
        }
        Ok(Ok(has_more))
    }

    /// What the kernel has counted so far at each interface, in order.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn statistics(&mut self) -> io::Result<Vec<Statistics>> {
        let of = |interface: &mut Interface| {
            let counted = interface.socket.statistics()?;
            Ok(Statistics { received: counted.passed, dropped: counted.dropped })
        };
        self.interfaces.iter_mut().map(of).collect()
    }
}

fn open(name: &str, filter: &PacketFilter, is_promiscuous: bool) -> io::Result<PacketSocket> {
    if name == ANY {
        return PacketSocket::open(None, filter);
    }
    let any_socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    let index = netdevice::name_to_index(any_socket, name)?;
    let socket = PacketSocket::open(Some(index), filter)?;
    if is_promiscuous {
        socket.set_promiscuous(index)?;
    }
    Ok(socket)
}

/// Why an interface cannot be opened.
fn refusal(name: &str, error: io::Error) -> InterfaceError {
    let name = name.to_owned();
    match Errno::from_io_error(&error) {
        Some(Errno::NODEV) => {
            let names = Interfaces::names().unwrap_or_default();
            let there = match names.as_slice() {
                [] => "are none".to_owned(),
                [one] => format!("is only {one}"),
                names => format!("are {}", names.join(", ")),
            };
            InterfaceError::Unknown { name, there }
        }
        Some(Errno::PERM | Errno::ACCESS) => {
            let program = std::env::current_exe().unwrap_or_else(|_| "wireseal".into());
            InterfaceError::NotPermitted { name, program: program.display().to_string() }
        }
        Some(Errno::NETDOWN) => InterfaceError::Down { name },
        _ => InterfaceError::System { name, error },
    }
}

/// Why an interface gives no more packets.
fn failure(name: &str, error: io::Error) -> InterfaceError {
    let name = name.to_owned();
    match Errno::from_io_error(&error) {
        Some(Errno::NETDOWN | Errno::NODEV | Errno::NXIO) => InterfaceError::WentDown { name },
        _ => InterfaceError::System { name, error },
    }
}
