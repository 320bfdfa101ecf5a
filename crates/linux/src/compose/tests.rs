use cidr::IpCidr;
use wireseal_tcp_ao::{Counters, Mkt};

use super::*;
use crate::info::{Change, Info};
use crate::layout::InfoOpt;

fn network(text: &str) -> IpCidr {
    text.parse().unwrap()
}

fn mkt(algorithm: TcpAoAlgorithm, secret: &[u8]) -> Mkt {
    Mkt::new(KeyId(100), KeyId(200), algorithm, MasterKey::new(secret).unwrap()).unwrap()
}

/// The key as the kernel of 2026 gives it back.
fn given_back(algorithm: &str, secret: &[u8]) -> GetKeys {
    let network = Network::new(network("192.0.2.0/24"), Family::Ipv4).unwrap();
    let mut key = GetKeys::ZERO;
    key.addr = network.addr;
    key.prefix = network.prefix;
    key.alg_name[..algorithm.len()].copy_from_slice(algorithm.as_bytes());
    key.sndid = 100;
    key.rcvid = 200;
    key.maclen = 12;
    key.keylen = secret.len() as u8;
    key.key[..secret.len()].copy_from_slice(secret);
    key
}

#[test]
fn every_field_of_a_key_reaches_its_place() {
    let secret = [7; 80];
    let mkt = mkt(TcpAoAlgorithm::Aes128Cmac, &secret).with_mac_length(16).unwrap();
    let mkt = mkt.with_options(OptionCoverage::Excluded);
    let key = SocketKey { vrf: Some(9), set_rnext: true, ..SocketKey::new(network("2001:db8::/32"), &mkt) };
    let name = algorithm_name(TcpAoAlgorithm::Aes128Cmac).unwrap();
    let add = add(&key, name, Family::Ipv6).unwrap();
    assert_eq!(add.alg_name[..13], *b"cmac(aes128)\0");
    assert_eq!((add.ifindex, add.prefix, add.sndid, add.rcvid), (9, 32, 100, 200));
    assert_eq!((add.maclen, add.keylen, add.key, add.bits), (16, 80, secret, Add::SET_RNEXT));
    assert_eq!(add.keyflags, KEYF_IFINDEX | KEYF_EXCLUDE_OPT);
    assert_eq!(add.reserved2, 0);

    let successor = Successor { current: Some(KeyId(3)), rnext: None };
    let delete = delete(&key.name(), successor, Family::Ipv6).unwrap();
    assert_eq!((delete.addr, delete.prefix, delete.ifindex), (add.addr, add.prefix, 9));
    assert_eq!((delete.sndid, delete.rcvid, delete.keyflags), (100, 200, KEYF_IFINDEX));
    assert_eq!((delete.bits, delete.current_key, delete.rnext), (Del::SET_CURRENT, 3, 0));
}

#[test]
fn a_vrf_of_zero_is_not_any_vrf() {
    let mkt = mkt(TcpAoAlgorithm::HmacSha1, b"secret");
    let any = SocketKey::new(network("192.0.2.1"), &mkt);
    let none = SocketKey { vrf: Some(0), ..any };
    let flags = |key| add(key, "hmac(sha1)", Family::Ipv4).map(|add| add.keyflags).unwrap();
    assert_eq!((flags(&any), flags(&none)), (0, KEYF_IFINDEX));
}

#[test]
fn ao_40_draft_algorithms_have_no_name_in_linux() {
    for algorithm in [TcpAoAlgorithm::HmacSha256_128, TcpAoAlgorithm::Kmac256_128] {
        let error = algorithm_name(algorithm).unwrap_err();
        assert!(matches!(error, Error::AlgorithmNotInLinux(named) if named == algorithm));
        assert!(error.to_string().contains(algorithm.name()), "{error}");
    }
}

#[test]
fn an_installed_key_is_the_mkt_it_was_made_from_and_no_other() {
    let secret = b"a master key";
    let ours = mkt(TcpAoAlgorithm::HmacSha1, secret);
    let mut kernel = given_back("hmac(sha1)", secret);
    kernel.bits = GetKeys::IS_RNEXT;
    kernel.pkt_good = 5;
    let key = installed(&kernel).unwrap();
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
        assert!(installed(&given_back(name, b"0123456789abcdef")).unwrap().is(&whole));
        for secret in [&b"0123456789"[..], &[7; 17], &[9; 80]] {
            let ours = mkt(TcpAoAlgorithm::Aes128Cmac, secret);
            let kept = crate::key::as_the_kernel_keeps_it(TcpAoAlgorithm::Aes128Cmac, ours.master_key());
            assert_eq!(kept.len(), 16);
            assert!(installed(&given_back(name, &kept)).unwrap().is(&ours));
            assert!(!installed(&given_back(name, &kept)).unwrap().is(&whole));
            assert!(!installed(&given_back(name, secret)).unwrap().is(&ours));
        }
    }
    // RFC 4615's vector: the key of 10 octets 00..09 compressed.
    let mkt = mkt(TcpAoAlgorithm::Aes128Cmac, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let message: Vec<u8> = (0..20).collect();
    let kept = crate::key::as_the_kernel_keeps_it(TcpAoAlgorithm::Aes128Cmac, mkt.master_key());
    let key: [u8; 16] = kept.as_slice().try_into().unwrap();
    let prf = wireseal_mac::MacKey::aes_128_cmac(&key).mac(&[&message]);
    assert_eq!(
        prf.as_bytes(),
        [0x29, 0x0d, 0x9e, 0x11, 0x2e, 0xdb, 0x09, 0xee, 0x14, 0x1f, 0xcf, 0x64, 0xc0, 0xb7, 0x2f, 0x3d]
    );
}

#[test]
fn keys_of_other_programs_are_named_and_not_guessed() {
    let error = installed(&given_back("hmac(sha512)", b"x")).unwrap_err();
    let Error::ForeignAlgorithm { name, algorithm } = &error else { panic!("{error}") };
    assert_eq!((name.send_id, algorithm.as_str()), (KeyId(100), "hmac(sha512)"));
    let empty = installed(&given_back("hmac(sha1)", b"")).unwrap();
    assert!(!empty.is(&mkt(TcpAoAlgorithm::HmacSha1, b"\0")));
    let mut long = given_back("hmac(sha1)", b"x");
    long.keylen = 81;
    assert!(matches!(installed(&long), Err(Error::Io(_))));
}

#[test]
fn ao_36_debug_shows_no_secret() {
    let secret = b"Zq7#Zq7#Zq7#Zq7#";
    let mkt = mkt(TcpAoAlgorithm::HmacSha1, secret);
    let key = installed(&given_back("hmac(sha1)", secret)).unwrap();
    let shown = format!("{key:?} {:?} {:#?}", SocketKey::new(network("192.0.2.1"), &mkt), key.clone());
    assert!(!shown.contains("Zq7") && !shown.contains("90, 113, 55"), "{shown}");
    assert!(shown.contains("HmacSha1"), "{shown}");
}

#[test]
fn ao_42_keys_are_asked_for_until_all_fit() {
    for count in [0, 1, FIRST_ROOM, FIRST_ROOM + 1, 300] {
        let mut rooms = Vec::new();
        let keys = all_keys(|buffer| {
            rooms.push(buffer.len());
            assert_eq!(buffer[0].bits, GetKeys::GET_ALL);
            assert!(
                buffer.iter().skip(1).all(|key| key.bits == 0 && key.sndid == 0),
                "the buffer is not clean"
            );
            for (index, key) in buffer.iter_mut().take(count).enumerate() {
                key.bits = 0;
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
fn ao_41_changing_one_thing_writes_the_others_as_they_were() {
    let read = Info {
        current_key: Some(KeyId(1)),
        rnext_key: Some(KeyId(2)),
        required: true,
        accept_icmps: true,
        counters: Counters { good: 9, ..Counters::default() },
    };
    let both = InfoOpt::AO_REQUIRED | InfoOpt::ACCEPT_ICMPS;
    let written = read.changed(&Change { current_key: Some(KeyId(7)), ..Change::default() });
    let expected = InfoOpt { bits: both | InfoOpt::SET_CURRENT, current_key: 7, ..InfoOpt::ZERO };
    assert_eq!(written, expected, "neither the rnext key nor a counter is written");

    let written = read.changed(&Change { rnext_key: Some(KeyId(8)), ..Change::default() });
    assert_eq!(written, InfoOpt { bits: both | InfoOpt::SET_RNEXT, rnext: 8, ..InfoOpt::ZERO });

    let written = read.changed(&Change { required: Some(false), ..Change::default() });
    assert_eq!(written, InfoOpt { bits: InfoOpt::ACCEPT_ICMPS, ..InfoOpt::ZERO });

    let written = read.changed(&Change { accept_icmps: Some(false), ..Change::default() });
    assert_eq!(written, InfoOpt { bits: InfoOpt::AO_REQUIRED, ..InfoOpt::ZERO });

    let counters = Counters { good: 1, bad: 2, key_not_found: 3, required: 4, dropped_icmp: 5 };
    let written = read.changed(&Change { counters: Some(counters), ..Change::default() });
    assert_eq!(written.bits, both | InfoOpt::SET_COUNTERS);
    assert_eq!(Info::from_kernel(&written).counters, counters);

    assert_eq!(Info::NONE.changed(&Change::default()), InfoOpt::ZERO);
}

#[test]
fn ao_41_what_is_read_is_what_the_kernel_said() {
    let kernel = InfoOpt {
        bits: InfoOpt::SET_CURRENT | InfoOpt::AO_REQUIRED,
        current_key: 5,
        rnext: 6,
        pkt_dropped_icmp: 3,
        ..InfoOpt::ZERO
    };
    let info = Info::from_kernel(&kernel);
    assert_eq!((info.current_key, info.rnext_key), (Some(KeyId(5)), None));
    assert_eq!((info.required, info.accept_icmps, info.counters.dropped_icmp), (true, false, 3));
}
