use super::*;

fn network(text: &str) -> IpCidr {
    text.parse().unwrap()
}

#[test]
fn ao_12_mapped_networks_are_ipv4_networks() {
    assert_eq!(canonical(network("::ffff:192.0.2.0/120")), network("192.0.2.0/24"));
    assert_eq!(canonical(network("::ffff:192.0.2.7")), network("192.0.2.7"));
    assert_eq!(canonical(network("::ffff:0:0/96")), network("0.0.0.0/0"));
    for other in ["::/0", "::fffe:0:0/95", "2001:db8::/32", "192.0.2.0/24"] {
        assert_eq!(canonical(network(other)), network(other));
    }
}

#[test]
fn ao_12_an_ipv6_socket_takes_ipv4_peers_as_mapped_addresses() {
    let mapped = Network::for_ao_key(network("192.0.2.0/24"), Family::Ipv6).unwrap();
    assert_eq!(mapped.prefix, 24);
    assert_eq!(mapped.addr[..2], (libc::AF_INET6 as u16).to_ne_bytes());
    assert_eq!(mapped.addr[2..8], [0; 6]);
    assert_eq!(mapped.addr[8..24], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 0]);
    assert_eq!(mapped.addr[24..], [0; 104]);
    assert_eq!(Network::for_ao_key(network("::ffff:192.0.2.0/120"), Family::Ipv6).unwrap(), mapped);
}

#[test]
fn an_ipv4_socket_takes_ipv4_networks_in_either_form() {
    let plain = Network::for_ao_key(network("192.0.2.0/24"), Family::Ipv4).unwrap();
    assert_eq!((plain.prefix, &plain.addr[4..8]), (24, &[192, 0, 2, 0][..]));
    assert_eq!(plain.addr[..2], (libc::AF_INET as u16).to_ne_bytes());
    assert_eq!(plain.addr[8..], [0; 120]);
    assert_eq!(Network::for_ao_key(network("::ffff:192.0.2.0/120"), Family::Ipv4).unwrap(), plain);
    assert!(Network::for_ao_key(network("0.0.0.0/0"), Family::Ipv4).is_ok());
    let other = Network::for_ao_key(network("2001:db8::/32"), Family::Ipv4);
    assert!(matches!(other, Err(Error::AnotherFamily(remote)) if remote == network("2001:db8::/32")));
}

#[test]
fn what_no_kernel_takes_is_an_error_before_the_call() {
    for any in ["0.0.0.0/0", "::ffff:0:0/96"] {
        let error = Network::for_ao_key(network(any), Family::Ipv6).unwrap_err();
        assert!(matches!(error, Error::AnyIpv4OnIpv6Socket), "{error}");
    }
    assert!(Network::for_ao_key(network("::/0"), Family::Ipv6).is_ok());
    for (zero, family) in [("0.0.0.0/1", Family::Ipv4), ("0.0.0.0/8", Family::Ipv6), ("::/64", Family::Ipv6)]
    {
        let error = Network::for_ao_key(network(zero), family).unwrap_err();
        assert!(matches!(error, Error::NetworkAtZero(remote) if remote == network(zero)), "{error}");
    }
    // TCP-MD5 takes both.
    assert!(Network::new(network("0.0.0.0/0"), Family::Ipv6).is_ok());
}

#[test]
fn what_the_kernel_writes_is_read() {
    for (text, family) in
        [("192.0.2.0/24", Family::Ipv4), ("2001:db8::/32", Family::Ipv6), ("::/0", Family::Ipv6)]
    {
        let written = Network::new(network(text), family).unwrap();
        assert_eq!(written.read(), Some(network(text)));
    }
    let ipv4 = Network::new(network("192.0.2.0/24"), Family::Ipv4).unwrap();
    assert_eq!(Network { prefix: 33, ..ipv4 }.read(), None);
    assert_eq!(Network { prefix: 8, ..ipv4 }.read(), None, "host bits");
    assert_eq!(Network { addr: [0; ADDRESS_LENGTH], prefix: 0 }.read(), None, "no family");
}
