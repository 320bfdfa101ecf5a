use linux_raw_sys::net::{tcp_ao_info_opt, tcp_info};

use super::*;
use crate::sys::{Plain, octets};

fn network(text: &str) -> IpCidr {
    text.parse().unwrap()
}

fn mkt(algorithm: TcpAoAlgorithm, secret: &[u8]) -> Mkt {
    Mkt::new(KeyId(100), KeyId(200), algorithm, MasterKey::new(secret).unwrap()).unwrap()
}

/// A key as `TCP_AO_GET_KEYS` returns it.
fn returned(algorithm: &str, secret: &[u8]) -> Secret<tcp_ao_getsockopt> {
    let mut key: Secret<tcp_ao_getsockopt> = zeroed();
    key.addr = to_kernel("192.0.2.0".parse().unwrap());
    key.prefix = 24;
    for (place, octet) in key.alg_name.iter_mut().zip(algorithm.bytes()) {
        *place = octet as c_char;
    }
    (key.sndid, key.rcvid, key.maclen) = (100, 200, 12);
    key.keylen = secret.len() as u8;
    key.key[..secret.len()].copy_from_slice(secret);
    key
}

/// `struct sockaddr_storage` of an IPv6 address.
fn ipv6_storage(address: &str) -> Vec<u8> {
    let mut octets = vec![0; 128];
    octets[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
    octets[8..24].copy_from_slice(&address.parse::<std::net::Ipv6Addr>().unwrap().octets());
    octets
}

/// A word of one-bit fields, with these indices set: C starts from the low end on little-endian machines and from the high end on
/// big-endian ones.
fn bits<const N: usize>(set: &[usize]) -> [u8; N] {
    let mut word = [0; N];
    for index in set {
        word[index / 8] |= if cfg!(target_endian = "big") { 0x80 >> (index % 8) } else { 1 << (index % 8) };
    }
    word
}

/// `Plain`'s implementations check sizes, offsets and padding.
#[test]
fn ao_39_each_flag_is_the_bit_field_of_its_name() {
    fn check<T: Plain>(offset: usize, setters: &[fn(&mut T)]) {
        for (index, set) in setters.iter().enumerate() {
            let mut value = zeroed();
            set(&mut value);
            let mut expected = vec![0; size_of::<T>()];
            expected[offset..offset + 2].copy_from_slice(&bits::<2>(&[index]));
            assert_eq!(octets(&value), expected, "bit {index}");
        }
    }
    check::<tcp_ao_add>(196, &[|add| add.set_set_current(1), |add| add.set_set_rnext(1)]);
    let del: [fn(&mut tcp_ao_del); 3] =
        [|del| del.set_set_current(1), |del| del.set_set_rnext(1), |del| del.set_del_async(1)];
    check(132, &del);
    let info: [fn(&mut tcp_ao_info_opt); 5] = [
        |info| info.set_set_current(1),
        |info| info.set_set_rnext(1),
        |info| info.set_ao_required(1),
        |info| info.set_set_counters(1),
        |info| info.set_accept_icmps(1),
    ];
    check(0, &info);
    let keys: [fn(&mut tcp_ao_getsockopt); 3] =
        [|key| key.set_is_current(1), |key| key.set_is_rnext(1), |key| key.set_get_all(1)];
    check(276, &keys);
    // Two bit fields of four bits in one octet.
    let mut info: tcp_info = zeroed();
    info.set_tcpi_snd_wscale(7);
    info.set_tcpi_rcv_wscale(11);
    assert_eq!(octets(&info)[6], if cfg!(target_endian = "big") { 0x7b } else { 0xb7 });
}

#[test]
fn every_field_of_a_key_reaches_its_place() {
    let secret = [7; 80];
    let mkt = mkt(TcpAoAlgorithm::Aes128Cmac, &secret).with_mac_length(16).unwrap();
    let mkt = mkt.with_options(OptionCoverage::Excluded);
    let key = SocketKey { vrf: Some(9), set_rnext: true, ..SocketKey::new(network("2001:db8::/32"), &mkt) };
    let add = key.to_kernel("cmac(aes128)", Family::Ipv6).unwrap();
    let mut expected = ipv6_storage("2001:db8::");
    expected.extend(b"cmac(aes128)");
    expected.extend([0; 52]);
    expected.extend(9u32.to_ne_bytes());
    expected.extend(bits::<4>(&[1]));
    expected.extend([0, 0, 32, 100, 200, 16, 0b11, 80]);
    expected.extend(secret);
    assert_eq!(octets(&**add), expected);

    let successor = Successor { current: Some(KeyId(3)), rnext: None };
    let delete = delete_key(&key.name(), successor, Family::Ipv6, true).unwrap();
    let mut expected = ipv6_storage("2001:db8::");
    expected.extend(9u32.to_ne_bytes());
    expected.extend(bits::<4>(&[0, 2]));
    expected.extend([0, 0, 32, 100, 200, 3, 0, 0b01]);
    assert_eq!(octets(&delete), expected);
}

#[test]
fn ao_12_an_ipv6_socket_takes_ipv4_peers_as_mapped_addresses() {
    let mkt = mkt(TcpAoAlgorithm::HmacSha1, b"secret");
    let address = |family| {
        let add = SocketKey::new(network("192.0.2.0/24"), &mkt).to_kernel("hmac(sha1)", family).unwrap();
        assert_eq!(add.prefix, 24);
        octets(&**add)[..128].to_vec()
    };
    assert_eq!(address(Family::Ipv6), ipv6_storage("::ffff:192.0.2.0"));
    let mut ipv4 = vec![0; 128];
    ipv4[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    ipv4[4..8].copy_from_slice(&[192, 0, 2, 0]);
    assert_eq!(address(Family::Ipv4), ipv4);
}

#[test]
fn what_the_kernel_writes_is_read() {
    let remote = |address: &str, prefix| {
        let mut key = returned("hmac(sha1)", b"secret");
        key.addr = to_kernel(address.parse().unwrap());
        key.prefix = prefix;
        InstalledKey::from_kernel(&key).map(|key| key.name.remote)
    };
    for (address, prefix, expected) in [
        ("192.0.2.0", 24, "192.0.2.0/24"),
        ("2001:db8::", 32, "2001:db8::/32"),
        ("::", 0, "::/0"),
        ("::ffff:192.0.2.0", 120, "192.0.2.0/24"),
    ] {
        assert_eq!(remote(address, prefix).unwrap(), network(expected));
    }
    // Too long a prefix, and host bits.
    assert!(remote("192.0.2.0", 33).is_err() && remote("192.0.2.0", 8).is_err());
    let mut no_family = returned("hmac(sha1)", b"secret");
    no_family.addr = zeroed::<Secret<tcp_ao_getsockopt>>().addr;
    assert!(InstalledKey::from_kernel(&no_family).is_err());
}

#[test]
fn ao_36_structs_with_secrets_are_wiped_on_drop() {
    // `Drop` calls this.
    let mut key = returned("hmac(sha1)", &[0x5a; 80]);
    key.wipe();
    assert!(octets(&key).iter().all(|octet| *octet == 0));
}

#[test]
fn a_vrf_of_zero_is_not_any_vrf() {
    let mkt = mkt(TcpAoAlgorithm::HmacSha1, b"secret");
    let any = SocketKey::new(network("192.0.2.1"), &mkt);
    let flags =
        |vrf| SocketKey { vrf, ..any }.to_kernel("hmac(sha1)", Family::Ipv4).map(|add| add.keyflags).unwrap();
    assert_eq!((flags(None), flags(Some(0))), (0, IFINDEX));
}

#[test]
fn an_installed_key_is_the_mkt_it_was_made_from_and_no_other() {
    let secret = b"a master key";
    let ours = mkt(TcpAoAlgorithm::HmacSha1, secret);
    let mut kernel = returned("hmac(sha1)", secret);
    kernel.set_is_rnext(1);
    kernel.pkt_good = 5;
    let key = InstalledKey::from_kernel(&kernel).unwrap();
    assert_eq!((key.is_current, key.is_rnext, key.good, key.bad), (false, true, 5, 0));
    assert_eq!(key.name, SocketKey::new(network("192.0.2.0/24"), &ours).name());
    assert!(key.is(&ours));
    let others = [
        mkt(TcpAoAlgorithm::HmacSha1, b"another key!"),
        mkt(TcpAoAlgorithm::HmacSha1, b"a master key and more"),
        mkt(TcpAoAlgorithm::LinuxHmacSha256, secret),
        ours.clone().with_mac_length(16).unwrap(),
        ours.clone().with_options(OptionCoverage::Excluded),
        Mkt::new(KeyId(100), KeyId(1), TcpAoAlgorithm::HmacSha1, MasterKey::new(secret).unwrap()).unwrap(),
        Mkt::new(KeyId(1), KeyId(200), TcpAoAlgorithm::HmacSha1, MasterKey::new(secret).unwrap()).unwrap(),
    ];
    assert!(others.iter().all(|other| !key.is(other)));
}

#[test]
fn ao_05_the_kernel_keeps_compressed_keys_for_cmac() {
    for name in ["cmac(aes)", "cmac(aes128)"] {
        let whole = mkt(TcpAoAlgorithm::Aes128Cmac, b"0123456789abcdef");
        assert!(InstalledKey::from_kernel(&returned(name, b"0123456789abcdef")).unwrap().is(&whole));
        for secret in [&b"0123456789"[..], &[7; 17], &[9; 80]] {
            let ours = mkt(TcpAoAlgorithm::Aes128Cmac, secret);
            let kept = as_kept_by_kernel(TcpAoAlgorithm::Aes128Cmac, ours.master_key());
            assert_eq!(kept.len(), 16);
            assert!(InstalledKey::from_kernel(&returned(name, &kept)).unwrap().is(&ours));
            assert!(!InstalledKey::from_kernel(&returned(name, &kept)).unwrap().is(&whole));
            assert!(!InstalledKey::from_kernel(&returned(name, secret)).unwrap().is(&ours));
        }
    }
    // RFC 4615's vector: the key of 10 octets 00..09 compressed.
    let mkt = mkt(TcpAoAlgorithm::Aes128Cmac, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let message: Vec<u8> = (0..20).collect();
    let kept = as_kept_by_kernel(TcpAoAlgorithm::Aes128Cmac, mkt.master_key());
    let key: [u8; 16] = kept.as_slice().try_into().unwrap();
    let prf = wireseal_mac::MacKey::aes_128_cmac(&key).mac(&[&message]);
    assert_eq!(
        prf.as_bytes(),
        [0x29, 0x0d, 0x9e, 0x11, 0x2e, 0xdb, 0x09, 0xee, 0x14, 0x1f, 0xcf, 0x64, 0xc0, 0xb7, 0x2f, 0x3d]
    );
}

#[test]
fn keys_of_other_programs_are_named_and_not_guessed() {
    let error = InstalledKey::from_kernel(&returned("hmac(sha512)", b"x")).unwrap_err();
    let Error::ForeignAlgorithm { name, algorithm } = &error else { panic!("{error}") };
    assert_eq!((name.send_id, algorithm.as_str()), (KeyId(100), "hmac(sha512)"));
    let mut kernel = returned("hmac(sha512)", b"a master key");
    kernel.set_is_current(1);
    (kernel.pkt_good, kernel.pkt_bad, kernel.keyflags) = (7, 2, EXCLUDE_OPT);
    let seen = SeenKey::from_kernel(&kernel).unwrap();
    let expected = SeenKey {
        name: *name,
        algorithm: "hmac(sha512)".to_owned(),
        mac_length: 12,
        options: OptionCoverage::Excluded,
        is_current: true,
        is_rnext: false,
        good: 7,
        bad: 2,
    };
    assert_eq!(seen, expected);
    let empty = InstalledKey::from_kernel(&returned("hmac(sha1)", b"")).unwrap();
    assert!(!empty.is(&mkt(TcpAoAlgorithm::HmacSha1, b"\0")));
    let mut long = returned("hmac(sha1)", b"x");
    long.keylen = 81;
    assert!(matches!(InstalledKey::from_kernel(&long), Err(Error::Io(_))));
}

#[test]
fn ao_36_debug_shows_no_secret() {
    let secret = b"Zq7#Zq7#Zq7#Zq7#";
    let mkt = mkt(TcpAoAlgorithm::HmacSha1, secret);
    let key = InstalledKey::from_kernel(&returned("hmac(sha1)", secret)).unwrap();
    let shown = format!("{key:?} {:?} {:#?}", SocketKey::new(network("192.0.2.1"), &mkt), key.clone());
    assert!(!shown.contains("Zq7") && !shown.contains("90, 113, 55"), "{shown}");
    assert!(shown.contains("HmacSha1"), "{shown}");
}

#[test]
fn ao_36_a_list_of_keys_does_not_grow() {
    let filled = |buffer: &mut [Secret<tcp_ao_getsockopt>]| {
        for key in buffer.iter_mut() {
            *key = returned("hmac(sha1)", b"Zq7#Zq7#Zq7#Zq7#");
        }
        Ok(9)
    };
    let keys = installed_keys(&all_keys(filled).unwrap()).unwrap();
    // A list that grew would have a capacity of 16.
    assert_eq!((keys.len(), keys.capacity()), (9, 9));
}

#[test]
fn ao_42_keys_are_asked_for_until_all_fit() {
    for count in [0, 1, FIRST_ROOM, FIRST_ROOM + 1, 300] {
        let mut rooms = Vec::new();
        let keys = all_keys(|buffer| {
            rooms.push(buffer.len());
            assert_eq!(buffer[0].get_all(), 1);
            buffer[0].set_get_all(0);
            assert!(
                buffer.iter().all(|key| octets(key).iter().all(|octet| *octet == 0)),
                "it is a clean buffer"
            );
            for (index, key) in buffer.iter_mut().take(count).enumerate() {
                key.sndid = (index % 256) as u8;
            }
            Ok(count)
        });
        let keys = keys.unwrap();
        assert_eq!(keys.len(), count);
        assert!(keys.iter().enumerate().all(|(index, key)| usize::from(key.sndid) == index % 256));
        assert_eq!(rooms.len(), if count > FIRST_ROOM { 2 } else { 1 });
    }
}

#[test]
fn ao_42_keys_that_are_added_meanwhile_are_not_missed() {
    let mut there = FIRST_ROOM;
    let keys = all_keys(|_| {
        there += if there < FIRST_ROOM + 3 { 1 } else { 0 };
        Ok(there)
    });
    assert_eq!(keys.unwrap().len(), FIRST_ROOM + 3);
    let failed = all_keys(|_| Err(io::Error::from_raw_os_error(libc::ENOENT)));
    assert_eq!(failed.err().and_then(|error| error.raw_os_error()), Some(libc::ENOENT));
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
        let named = canonical_network(network(remote));
        assert!(matches!(error, Error::UnusableNetwork { remote, .. } if remote == named), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
