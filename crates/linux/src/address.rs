//! Peers' networks in the form a socket takes them.

use std::net::IpAddr;

use cidr::{IpCidr, Ipv4Cidr, Ipv6Cidr};

use crate::error::Error;
use crate::layout::ADDRESS_LENGTH;

/// The address family of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Ipv4,
    /// Its peers may be IPv4 ones, as IPv4-mapped addresses.
    Ipv6,
}

/// A network as a `sockaddr_storage` and a prefix length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Network {
    pub(crate) addr: [u8; ADDRESS_LENGTH],
    /// Counted in IPv4's own bits for an IPv4 network, also when its address is a mapped one.
    pub(crate) prefix: u8,
}

/// A network of IPv4-mapped IPv6 addresses as the IPv4 network that it stands for, any other as it is.
pub(crate) fn canonical(network: IpCidr) -> IpCidr {
    let IpCidr::V6(mapped) = network else { return network };
    let ipv4 = mapped.first_address().to_ipv4_mapped().zip(mapped.network_length().checked_sub(96));
    ipv4.and_then(|(address, length)| Ipv4Cidr::new(address, length).ok()).map_or(network, IpCidr::V4)
}

impl Network {
    /// For a TCP-AO key.
    ///
    /// # Errors
    /// What no kernel takes: [`Error::AnotherFamily`], [`Error::AnyIpv4OnIpv6Socket`] and [`Error::NetworkAtZero`].
    pub(crate) fn for_ao_key(remote: IpCidr, family: Family) -> Result<Self, Error> {
        let remote = canonical(remote);
        if remote.first_address().is_unspecified() {
            match (family, remote) {
                _ if remote.network_length() != 0 => return Err(Error::NetworkAtZero(remote)),
                (Family::Ipv6, IpCidr::V4(_)) => return Err(Error::AnyIpv4OnIpv6Socket),
                _ => {}
            }
        }
        Self::new(remote, family)
    }

    /// For a TCP-MD5 key.
    ///
    /// # Errors
    /// [`Error::AnotherFamily`].
    pub(crate) fn new(remote: IpCidr, family: Family) -> Result<Self, Error> {
        let remote = canonical(remote);
        let address = match (family, remote.first_address()) {
            (Family::Ipv4, IpAddr::V6(_)) => return Err(Error::AnotherFamily(remote)),
            (Family::Ipv6, IpAddr::V4(address)) => IpAddr::V6(address.to_ipv6_mapped()),
            (_, address) => address,
        };
        let mut addr = [0; ADDRESS_LENGTH];
        match address {
            IpAddr::V4(address) => {
                addr[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                addr[4..8].copy_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                addr[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                addr[8..24].copy_from_slice(&address.octets());
            }
        }
        Ok(Self { addr, prefix: remote.network_length() })
    }

    /// What the kernel wrote, read; `None` when it is no network.
    pub(crate) fn read(&self) -> Option<IpCidr> {
        let octets = |start: usize| &self.addr[start..];
        let family = i32::from(u16::from_ne_bytes(*self.addr.first_chunk()?));
        let network = if family == libc::AF_INET {
            let address: [u8; 4] = *octets(4).first_chunk()?;
            Ipv4Cidr::new(address.into(), self.prefix).ok()?.into()
        } else if family == libc::AF_INET6 {
            let address: [u8; 16] = *octets(8).first_chunk()?;
            Ipv6Cidr::new(address.into(), self.prefix).ok()?.into()
        } else {
            return None;
        };
        Some(canonical(network))
    }
}

#[cfg(test)]
mod tests;
