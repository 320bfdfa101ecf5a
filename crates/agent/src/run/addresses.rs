//! Addresses as `connect` takes them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use rustix::io::Errno;

/// The least octets that an address takes, whatever the socket's state, and the most (`struct sockaddr_storage`).
pub(super) const LEAST: usize = 2;
pub(super) const MOST: usize = 128;
/// Families of addresses, in the host's order of octets.
const AF_UNSPEC: u16 = 0;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Where a TCP socket is to be connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Address {
    /// To this address.
    Remote(SocketAddr),
    /// Nowhere: an existing connection is dissolved.
    Dissolve,
}

/// Reads the octets of `struct sockaddr`, with the errors of the kernel.
pub(super) fn parse(octets: &[u8]) -> Result<Address, Errno> {
    let family = octets.first_chunk().map(|family| u16::from_ne_bytes(*family)).ok_or(Errno::INVAL)?;
    match family {
        AF_UNSPEC => Ok(Address::Dissolve),
        AF_INET => {
            let octets: &[u8; 16] = octets.first_chunk().ok_or(Errno::INVAL)?;
            let [_, _, port @ .., _, _, _, _, _, _, _, _, _, _, _, _] = *octets;
            let [_, _, _, _, address @ .., _, _, _, _, _, _, _, _] = *octets;
            let address = SocketAddrV4::new(Ipv4Addr::from(address), u16::from_be_bytes(port));
            Ok(Address::Remote(address.into()))
        }
        AF_INET6 => {
            // The scope may be missing (RFC 2133).
            let mut whole = [0; 28];
            let given =
                octets.get(..octets.len().min(28)).filter(|given| given.len() >= 24).ok_or(Errno::INVAL)?;
            whole[..given.len()].copy_from_slice(given);
            let number =
                |at: usize| u32::from_ne_bytes([whole[at], whole[at + 1], whole[at + 2], whole[at + 3]]);
            let mut address = [0; 16];
            address.copy_from_slice(&whole[8..24]);
            let (address, port) = (Ipv6Addr::from(address), u16::from_be_bytes([whole[2], whole[3]]));
            let address = SocketAddrV6::new(address, port, u32::from_be(number(4)), number(24));
            Ok(Address::Remote(address.into()))
        }
        _ => Err(Errno::AFNOSUPPORT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(family: u16, rest: &[u8]) -> Vec<u8> {
        [&family.to_ne_bytes()[..], rest].concat()
    }

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let ipv4 = octets(AF_INET, &[0, 179, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(parse(&ipv4), Ok(Address::Remote("192.0.2.1:179".parse().unwrap())));
        let mut ipv6 = octets(AF_INET6, &[0, 179, 0, 0, 0, 0, 0xfe, 0x80]);
        ipv6.resize(23, 0);
        ipv6.push(1);
        assert_eq!(parse(&ipv6), Ok(Address::Remote("[fe80::1]:179".parse().unwrap())));
        ipv6.extend(7u32.to_ne_bytes());
        assert_eq!(parse(&ipv6), Ok(Address::Remote("[fe80::1%7]:179".parse().unwrap())));
        assert_eq!(parse(&octets(AF_UNSPEC, &[])), Ok(Address::Dissolve));
    }

    #[test]
    fn what_is_too_short_or_of_another_family_is_refused() {
        for (family, least) in [(AF_INET, 16), (AF_INET6, 24)] {
            for length in 0..least {
                let mut octets = octets(family, &[0; 32]);
                octets.truncate(length);
                assert_eq!(parse(&octets), Err(Errno::INVAL), "{family}, {length}");
            }
        }
        assert_eq!(parse(&octets(1, b"/run/socket")), Err(Errno::AFNOSUPPORT));
    }
}
