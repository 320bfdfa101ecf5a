//! The places on the wire and their addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Port {
    /// The driver's own TCP stack.
    Userspace,
    /// The first guest, which has little but BIRD.
    North,
    /// The second guest, with Debian.
    South,
    /// Another process on this machine.
    Host,
    /// The third guest, with a kernel without TCP-AO.
    Stock,
    /// The fourth guest, as the second.
    East,
    /// The microcontroller, whose image has these addresses built in.
    Firmware,
}

impl Port {
    pub const ALL: [Self; 7] =
        [Self::Userspace, Self::North, Self::South, Self::Host, Self::Stock, Self::East, Self::Firmware];

    /// The port whose address this is.
    pub fn of(address: IpAddr) -> Result<Self> {
        let has_it = |port: &Self| Family::ALL.map(|family| port.address(family)).contains(&address);
        Self::ALL.into_iter().find(has_it).with_context(|| format!("no port of the wire has {address}"))
    }

    pub const fn hardware_address(self) -> [u8; 6] {
        [2, 0, 0, 0, 0, self as u8 + 1]
    }

    /// Its address in 192.0.2.0/24 (RFC 5737).
    pub const fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, self as u8 + 1)
    }

    /// Its address in 2001:db8::/64 (RFC 3849).
    pub const fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, self as u16 + 1)
    }

    pub const fn address(self, family: Family) -> IpAddr {
        match family {
            Family::Ipv4 => IpAddr::V4(self.ipv4()),
            Family::Ipv6 => IpAddr::V6(self.ipv6()),
        }
    }

    pub const fn at(self, family: Family, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(family), port)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Userspace => "userspace",
            Self::North => "north",
            Self::South => "south",
            Self::Host => "host",
            Self::Stock => "stock",
            Self::East => "east",
            Self::Firmware => "firmware",
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Ipv4,
    Ipv6,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// Port `port` of all interfaces.
    pub const fn any(self, port: u16) -> SocketAddr {
        match self {
            Self::Ipv4 => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
            Self::Ipv6 => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Ipv4 { "IPv4" } else { "IPv6" })
    }
}
