//! A key's network in the form that a socket takes.

use std::net::IpAddr;

use cidr::{IpCidr, Ipv4Cidr};

use crate::error::Error;

/// The address family of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Ipv4,
    /// Also talks to IPv4 peers, under IPv4-mapped addresses.
    Ipv6,
}

/// Turns a network of IPv4-mapped IPv6 addresses into the IPv4 network; leaves any other as it is.
pub(crate) fn canonical(network: IpCidr) -> IpCidr {
    let IpCidr::V6(mapped) = network else { return network };
    let ipv4 = mapped.first_address().to_ipv4_mapped().zip(mapped.network_length().checked_sub(96));
    ipv4.and_then(|(address, length)| Ipv4Cidr::new(address, length).ok()).map_or(network, IpCidr::V4)
}

/// Address and prefix length for a TCP-AO key. An IPv4 network keeps its own prefix length when its address is mapped.
///
/// # Errors
/// [`Error::UnusableNetwork`] for networks that no kernel takes.
pub(crate) fn for_ao_key(remote: IpCidr, family: Family) -> Result<(IpAddr, u8), Error> {
    let remote = canonical(remote);
    let is_unspecified = remote.first_address().is_unspecified();
    if is_unspecified && remote.network_length() != 0 {
        let advice = "choose a network that does not start at address zero, or all addresses";
        return Err(Error::UnusableNetwork { remote, advice });
    }
    if is_unspecified && remote.is_ipv4() && family == Family::Ipv6 {
        let advice = "use an IPv4 socket, or give the peers' networks";
        return Err(Error::UnusableNetwork { remote, advice });
    }
    for_md5_key(remote, family)
}

/// Address and prefix length for a TCP-MD5 key, as above.
///
/// # Errors
/// [`Error::UnusableNetwork`] for IPv6 on an IPv4 socket.
pub(crate) fn for_md5_key(remote: IpCidr, family: Family) -> Result<(IpAddr, u8), Error> {
    let remote = canonical(remote);
    let address = match (family, remote.first_address()) {
        (Family::Ipv4, IpAddr::V6(_)) => {
            return Err(Error::UnusableNetwork { remote, advice: "use an IPv6 socket" });
        }
        (Family::Ipv6, IpAddr::V4(address)) => address.to_ipv6_mapped().into(),
        (_, address) => address,
    };
    Ok((address, remote.network_length()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> IpCidr {
        text.parse().unwrap()
    }

    #[test]
    fn ao_12_mapped_networks_are_ipv4_networks() {
        for (mapped, ipv4) in [
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(canonical(network(mapped)), network(ipv4));
        }
        for other in ["::/0", "::fffe:0:0/95", "2001:db8::/32", "192.0.2.0/24"] {
            assert_eq!(canonical(network(other)), network(other));
        }
    }

    #[test]
    fn ao_12_a_socket_takes_networks_in_the_terms_of_its_family() {
        for (remote, family, address, prefix) in [
            ("192.0.2.0/24", Family::Ipv6, "::ffff:192.0.2.0", 24),
            ("::ffff:192.0.2.0/120", Family::Ipv6, "::ffff:192.0.2.0", 24),
            ("192.0.2.0/24", Family::Ipv4, "192.0.2.0", 24),
            ("::ffff:192.0.2.0/120", Family::Ipv4, "192.0.2.0", 24),
            ("0.0.0.0/0", Family::Ipv4, "0.0.0.0", 0),
            ("2001:db8::/32", Family::Ipv6, "2001:db8::", 32),
            ("::/0", Family::Ipv6, "::", 0),
        ] {
            let expected = (address.parse().unwrap(), prefix);
            assert_eq!(for_ao_key(network(remote), family).unwrap(), expected, "{remote}");
        }
        // TCP-MD5 has no rule against it.
        assert!(for_md5_key(network("0.0.0.0/0"), Family::Ipv6).is_ok());
    }

    #[test]
    fn networks_that_no_kernel_takes_are_refused_before_the_call() {
        for (remote, family, expected) in [
            ("0.0.0.0/0", Family::Ipv6, "use an IPv4 socket"),
            ("::ffff:0:0/96", Family::Ipv6, "use an IPv4 socket"),
            ("0.0.0.0/1", Family::Ipv4, "address zero"),
            ("0.0.0.0/8", Family::Ipv6, "address zero"),
            ("::/64", Family::Ipv6, "address zero"),
            ("2001:db8::/32", Family::Ipv4, "use an IPv6 socket"),
        ] {
            let error = for_ao_key(network(remote), family).unwrap_err();
            let named = canonical(network(remote));
            assert!(matches!(error, Error::UnusableNetwork { remote, .. } if remote == named), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
