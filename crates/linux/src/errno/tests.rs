use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{MasterKey, Mkt, OptionCoverage};

use super::*;

const TCP: Circumstances = Circumstances { is_tcp: true, is_listening: false, peer: None };

fn network(text: &str) -> IpCidr {
    text.parse().unwrap()
}

fn mkt() -> Mkt {
    Mkt::new(KeyId(1), KeyId(2), TcpAoAlgorithm::HmacSha1, MasterKey::new(b"secret").unwrap()).unwrap()
}

fn outcome(asked: &Asked<'_>, errno: i32, circumstances: &Circumstances) -> Error {
    error(asked, io::Error::from_raw_os_error(errno), circumstances)
}

/// Every call of TCP-AO's, with the name it is known by in the table.
fn every_call(test: impl Fn(&str, &Asked<'_>)) {
    let mkt = mkt();
    let key = SocketKey::new(network("192.0.2.1"), &mkt);
    let name = key.name();
    let change = Change { current_key: Some(KeyId(1)), ..Change::default() };
    let remote = key.remote;
    let calls = [
        ("add", Asked::Add(&key)),
        ("delete", Asked::Delete(&name, Successor::default())),
        ("keys", Asked::Keys),
        ("info", Asked::Info),
        ("change", Asked::Change(&change)),
        ("md5", Asked::SetMd5 { vrf: None }),
        ("delete md5", Asked::DeleteMd5 { remote, vrf: None }),
        ("repair", Asked::Repair),
    ];
    calls.iter().for_each(|(name, asked)| test(name, asked));
}

#[test]
fn ao_40_every_errno_of_every_call_is_a_typed_error() {
    every_call(|call, asked| {
        let errno_names = [
            ("EINVAL", libc::EINVAL),
            ("EEXIST", libc::EEXIST),
            ("EKEYREJECTED", libc::EKEYREJECTED),
            ("EMSGSIZE", libc::EMSGSIZE),
            ("ENOENT", libc::ENOENT),
            ("EBUSY", libc::EBUSY),
            ("EISCONN", libc::EISCONN),
            ("EPERM", libc::EPERM),
            ("ENOPROTOOPT", libc::ENOPROTOOPT),
            ("ENOMEM", libc::ENOMEM),
            ("ENOBUFS", libc::ENOBUFS),
            ("EBADF", libc::EBADF),
        ];
        for (name, errno) in errno_names {
            let error = outcome(asked, errno, &TCP);
            let expected = match (call, name) {
                (_, "EINVAL") => matches!(error, Error::Refused { because: Refusal::Unknown, .. }),
                ("add", "EEXIST") => {
                    matches!(error, Error::IdInUse { send_id: KeyId(1), recv_id: KeyId(2) })
                }
                ("add" | "change", "EKEYREJECTED") => matches!(error, Error::Md5KeyInTheWay),
                ("md5", "EKEYREJECTED") => matches!(error, Error::AoKeyInTheWay),
                ("add", "EMSGSIZE") => matches!(error, Error::MacTooLong { octets: 12 }),
                ("add", "ENOENT") => matches!(error, Error::AlgorithmMissing(TcpAoAlgorithm::HmacSha1)),
                ("delete", "ENOENT") => {
                    matches!(error, Error::NoSuchKey { send_id: Some(KeyId(1)), recv_id: Some(KeyId(2)) })
                }
                ("change", "ENOENT") => {
                    matches!(error, Error::NoSuchKey { send_id: Some(KeyId(1)), recv_id: None })
                }
                ("delete md5", "ENOENT") => matches!(error, Error::NoSuchMd5Key(_)),
                ("delete", "EBUSY") => matches!(error, Error::KeyInUse(_)),
                ("add" | "delete" | "change", "EISCONN") => matches!(error, Error::Connected),
                (_, "EPERM") => matches!(error, Error::NoPermission { .. }),
                ("md5" | "delete md5", "ENOPROTOOPT") => matches!(error, Error::Io(_)),
                (_, "ENOPROTOOPT") => matches!(error, Error::NotSupported),
                (_, "ENOMEM" | "ENOBUFS") => matches!(error, Error::NoMemory),
                _ => matches!(&error, Error::Io(source) if source.raw_os_error() == Some(errno)),
            };
            assert!(expected, "{call} {name}: {error:?}");
        }
    });
}

#[test]
fn ao_40_a_socket_that_is_not_tcp_is_not_an_old_kernel() {
    let circumstances = Circumstances { is_tcp: false, ..TCP };
    every_call(|call, asked| {
        for errno in [libc::ENOPROTOOPT, libc::EOPNOTSUPP, libc::ENOTSOCK, libc::EINVAL] {
            assert!(matches!(outcome(asked, errno, &circumstances), Error::NotATcpSocket), "{call}");
        }
    });
}

#[test]
fn ao_40_einval_is_explained_by_what_the_socket_is() {
    let mkt = mkt();
    let key = SocketKey::new(network("192.0.2.0/24"), &mkt);
    let reason =
        |key: &SocketKey<'_>, circumstances| match outcome(&Asked::Add(key), libc::EINVAL, &circumstances) {
            Error::Refused { call: Call::AddKey, because } => because,
            other => panic!("{other:?}"),
        };
    let peer = |text: &str| Circumstances { peer: Some(text.parse().unwrap()), ..TCP };
    let listening = Circumstances { is_listening: true, ..TCP };
    assert_eq!(reason(&key, peer("192.0.2.9")), Refusal::Unknown);
    let elsewhere = Refusal::AnotherPeer { remote: key.remote, peer: "198.51.100.1".parse().unwrap() };
    assert_eq!(reason(&key, peer("198.51.100.1")), elsewhere);
    let mapped = SocketKey { remote: network("::ffff:192.0.2.0/120"), ..key };
    assert_eq!(reason(&mapped, peer("192.0.2.9")), Refusal::Unknown, "the same network in another form");
    assert_eq!(reason(&SocketKey { set_current: true, ..key }, listening), Refusal::Listening);
    assert_eq!(reason(&SocketKey { set_rnext: true, ..key }, listening), Refusal::Listening);
    assert_eq!(reason(&SocketKey { vrf: Some(7), ..key }, listening), Refusal::NotThisVrf(7));
    assert_eq!(reason(&SocketKey { vrf: Some(0), ..key }, listening), Refusal::Unknown);
    let change = Change { rnext_key: Some(KeyId(1)), ..Change::default() };
    let error = outcome(&Asked::Change(&change), libc::EINVAL, &listening);
    assert!(matches!(error, Error::Refused { call: Call::SetInfo, because: Refusal::Listening }));
}

#[test]
fn ao_40_a_missing_successor_is_told_from_a_missing_key() {
    let remote = network("192.0.2.1");
    let key = |send_id, recv_id| InstalledKey {
        name: KeyName { remote, vrf: None, send_id: KeyId(send_id), recv_id: KeyId(recv_id) },
        algorithm: TcpAoAlgorithm::HmacSha1,
        mac_length: 12,
        options: OptionCoverage::Covered,
        is_current: false,
        is_rnext: false,
        good: 0,
        bad: 0,
        master_key: None,
    };
    let keys = [key(1, 11), key(2, 12)];
    let missing = |name: &KeyName, current: u8, rnext: u8| {
        missing_successor(&keys, name, Successor { current: Some(KeyId(current)), rnext: Some(KeyId(rnext)) })
    };
    assert!(missing(&keys[0].name, 2, 12).is_none());
    let error = missing(&keys[0].name, 5, 12);
    assert!(matches!(error, Some(Error::NoSuchKey { send_id: Some(KeyId(5)), recv_id: None })));
    let error = missing(&keys[0].name, 2, 6);
    assert!(matches!(error, Some(Error::NoSuchKey { send_id: None, recv_id: Some(KeyId(6)) })));
    assert!(matches!(missing(&keys[0].name, 1, 12), Some(Error::KeyInUse(_))), "its own successor");
    assert!(missing(&key(3, 13).name, 5, 6).is_none(), "the key itself is missing");
}

#[test]
fn ao_40_messages_say_what_to_do() {
    let name = KeyName { remote: network("192.0.2.1"), vrf: Some(3), send_id: KeyId(1), recv_id: KeyId(2) };
    let expected: [(Error, &[&str]); 18] = [
        (Error::NotSupported, &["Linux 6.7", "CONFIG_TCP_AO", "wireseal-smoltcp", "wireseal_tcp_ao::shim"]),
        (Error::AlgorithmNotInLinux(TcpAoAlgorithm::Kmac256_128), &["KMAC256-128", "configure", "userspace"]),
        (Error::AlgorithmMissing(TcpAoAlgorithm::Aes128Cmac), &["AES-128-CMAC-96", "configure"]),
        (Error::IdInUse { send_id: KeyId(1), recv_id: KeyId(2) }, &["SendID 1", "RecvID 2", "delete"]),
        (Error::Md5KeyInTheWay, &["TCP-MD5", "delete_md5_key"]),
        (Error::AoKeyInTheWay, &["TCP-AO key", "delete_key"]),
        (Error::MacTooLong { octets: 17 }, &["17 octets", "at most 16"]),
        (Error::NoSuchKey { send_id: Some(KeyId(1)), recv_id: None }, &["no key with SendID 1;", "add_key"]),
        (Error::NoSuchMd5Key(network("192.0.2.1")), &["TCP-MD5", "192.0.2.1"]),
        (Error::KeyInUse(name), &["SendID 1", "VRF 3", "successor"]),
        (Error::Connected, &["before it connects"]),
        (Error::NoPermission { what: "TCP_REPAIR" }, &["TCP_REPAIR needs CAP_NET_ADMIN"]),
        (Error::NoMemory, &["net.core.optmem_max"]),
        (Error::AnyIpv4OnIpv6Socket, &["0.0.0.0/0", "use an IPv4 socket"]),
        (Error::NetworkAtZero(network("0.0.0.0/8")), &["0.0.0.0/8", "name a network"]),
        (Error::AnotherFamily(network("::1")), &["::1", "use an IPv6 socket"]),
        (Error::NotATcpSocket, &["not a TCP socket", "IPPROTO_TCP"]),
        (Error::NotEstablished, &["established", "wait"]),
    ];
    for (error, parts) in expected {
        let message = error.to_string();
        assert!(!message.contains('\n'), "{message}");
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}
