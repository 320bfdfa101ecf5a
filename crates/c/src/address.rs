//! Addresses, socket pairs and networks as C has them: octets as on the wire, numbers as the processor has them.

use core::ffi::c_char;
use core::net::IpAddr;

use cidr::{IpCidr, Ipv4Cidr, Ipv6Cidr};
use wireseal_tcp_ao::{Endpoint, SocketPair};

use crate::border::{guarded, place, text};
use crate::status::{wireseal_status, wireseal_status as Status};

/// An IP address. An IPv4-mapped IPv6 address means the IPv4 address.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_address {
    /// 4 or 6.
    pub version: u8,
    /// The address, in network byte order. IPv4 uses the first four octets; the others are ignored.
    pub octets: [u8; 16],
}

/// One end of a connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_endpoint {
    /// The address.
    pub address: wireseal_address,
    /// The port, in host byte order.
    pub port: u16,
}

/// The two ends of a connection, as one of them sees it. Both addresses are of one version.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_pair {
    /// This end.
    pub local: wireseal_endpoint,
    /// The other end.
    pub remote: wireseal_endpoint,
}

/// A network, such as 192.0.2.0/24, or one host, such as 192.0.2.1/32.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_network {
    /// Its first address: the bits after the prefix are zero.
    pub address: wireseal_address,
    /// Bits of the prefix: at most 32 for IPv4, 128 for IPv6. Zero means any address of that version.
    pub prefix_length: u8,
}

/// Reads an address such as "192.0.2.1" or "2001:db8::1".
///
/// Errors: WIRESEAL_STATUS_BAD_ADDRESS for any other text; _BAD_ARGUMENT if it is not UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_address_from_text(
    text: *const c_char,
    address: *mut wireseal_address,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    guarded(|| unsafe {
        let (text, mut address) = (self::text(text)?, place(address)?);
        address.write(text.parse::<IpAddr>().map_err(|_| Status::BadAddress)?.into());
        Ok(())
    })
}

/// Reads a network such as "192.0.2.0/24" or "2001:db8::/32", or one host such as "192.0.2.1".
///
/// Errors: WIRESEAL_STATUS_BAD_ADDRESS for any other text, also if a bit after the prefix is set; _BAD_ARGUMENT if it is not UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_network_from_text(
    text: *const c_char,
    network: *mut wireseal_network,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    guarded(|| unsafe {
        let (text, mut network) = (self::text(text)?, place(network)?);
        network.write(text.parse::<IpCidr>().map_err(|_| Status::BadAddress)?.into());
        Ok(())
    })
}

impl TryFrom<&wireseal_address> for IpAddr {
    type Error = Status;

    fn try_from(address: &wireseal_address) -> Result<Self, Status> {
        let [a, b, c, d, ..] = address.octets;
        match address.version {
            4 => Ok([a, b, c, d].into()),
            6 => Ok(address.octets.into()),
            _ => Err(Status::BadAddress),
        }
    }
}

impl From<IpAddr> for wireseal_address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&address.octets());
                Self { version: 4, octets }
            }
            IpAddr::V6(address) => Self { version: 6, octets: address.octets() },
        }
    }
}

impl TryFrom<&wireseal_endpoint> for Endpoint {
    type Error = Status;

    fn try_from(endpoint: &wireseal_endpoint) -> Result<Self, Status> {
        Ok(Self::new(IpAddr::try_from(&endpoint.address)?, endpoint.port))
    }
}

impl From<Endpoint> for wireseal_endpoint {
    fn from(endpoint: Endpoint) -> Self {
        Self { address: endpoint.address().into(), port: endpoint.port() }
    }
}

impl TryFrom<&wireseal_pair> for SocketPair {
    type Error = Status;

    fn try_from(pair: &wireseal_pair) -> Result<Self, Status> {
        let pair = Self { local: (&pair.local).try_into()?, remote: (&pair.remote).try_into()? };
        let is_one_version = pair.local.address().is_ipv4() == pair.remote.address().is_ipv4();
        is_one_version.then_some(pair).ok_or(Status::BadAddress)
    }
}

impl From<SocketPair> for wireseal_pair {
    fn from(pair: SocketPair) -> Self {
        Self { local: pair.local.into(), remote: pair.remote.into() }
    }
}

impl From<IpCidr> for wireseal_network {
    fn from(network: IpCidr) -> Self {
        Self { address: network.first_address().into(), prefix_length: network.network_length() }
    }
}

impl TryFrom<&wireseal_network> for IpCidr {
    type Error = Status;

    fn try_from(network: &wireseal_network) -> Result<Self, Status> {
        let length = network.prefix_length;
        let found = match IpAddr::try_from(&network.address)? {
            IpAddr::V4(address) => Ipv4Cidr::new(address, length).map(Self::V4),
            IpAddr::V6(address) => Ipv6Cidr::new(address, length).map(Self::V6),
        };
        found.map_err(|_| Status::BadAddress)
    }
}
