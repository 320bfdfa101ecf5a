use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use super::*;

const TCP: SocketFacts = SocketFacts { is_tcp: true, is_listening: false, peer: None };

fn network(text: &str) -> IpCidr {
    text.parse().unwrap()
}

fn mkt() -> Mkt {
    Mkt::new(KeyId(1), KeyId(2), TcpAoAlgorithm::HmacSha1, MasterKey::new(b"secret").unwrap()).unwrap()
}

fn outcome(request: &Request<'_>, errno: i32, socket: &SocketFacts) -> Error {
    request.error(io::Error::from_raw_os_error(errno), socket)
}

/// Calls `test` with every request and its name in the table.
fn every_request(test: impl Fn(&str, &Request<'_>)) {
    let mkt = mkt();
    let key = SocketKey::new(network("192.0.2.1"), &mkt);
    let name = key.name();
    let change = Change { current_key: Some(KeyId(1)), ..Change::default() };
    let remote = key.remote;
    let requests = [
        ("add", Request::AddKey(&key)),
        ("delete", Request::DeleteKey(&name, Successor::default())),
        ("keys", Request::GetKeys),
        ("info", Request::GetInfo),
        ("change", Request::SetInfo(&change)),
        ("md5", Request::SetMd5Key { vrf: None }),
        ("delete md5", Request::DeleteMd5Key { remote, vrf: None }),
        ("repair", Request::Repair),
    ];
    requests.iter().for_each(|(name, request)| test(name, request));
}

#[test]
fn ao_40_every_errno_of_every_call_is_a_typed_error() {
    use libc::{
        EBADF, EBUSY, EEXIST, EINVAL, EISCONN, EKEYREJECTED, EMSGSIZE, ENOBUFS, ENOENT, ENOMEM, ENOPROTOOPT,
        EPERM,
    };
    every_request(|call, request| {
        let for_keys = [EEXIST, EKEYREJECTED, EMSGSIZE, EBUSY, EISCONN];
        for errno in for_keys.into_iter().chain([EINVAL, ENOENT, EPERM, ENOPROTOOPT, ENOMEM, ENOBUFS, EBADF])
        {
            let other = format!("Io(Os {{ code: {errno},");
            let expected = match (call, errno) {
                (_, EINVAL) => "Refused {",
                ("add", EEXIST) => "IdInUse { send_id: KeyId(1), recv_id: KeyId(2) }",
                ("add" | "change", EKEYREJECTED) => "Md5KeyInTheWay",
                ("md5", EKEYREJECTED) => "AoKeyInTheWay",
                ("add", EMSGSIZE) => "MacTooLong { octets: 12 }",
                ("add", ENOENT) => "AlgorithmMissing(HmacSha1)",
                ("delete", ENOENT) => "NoSuchKey { send_id: Some(KeyId(1)), recv_id: Some(KeyId(2)) }",
                ("change", ENOENT) => "NoSuchKey { send_id: Some(KeyId(1)), recv_id: None }",
                ("delete md5", ENOENT) => "NoSuchMd5Key(",
                ("delete", EBUSY) => "KeyInUse(",
                ("add" | "delete" | "change", EISCONN) => "Connected",
                (_, EPERM) => "NoPermission {",
                ("md5" | "delete md5", ENOPROTOOPT) => &other,
                (_, ENOPROTOOPT) => "NotSupported",
                (_, ENOMEM | ENOBUFS) => "NoMemory",
                _ => &other,
            };
            let error = format!("{:?}", outcome(request, errno, &TCP));
            assert!(error.starts_with(expected), "{call} {errno}: {error}");
            assert!(errno != EINVAL || error.contains("because: Unknown"), "{call}: {error}");
        }
    });
}

#[test]
fn ao_40_a_socket_that_is_not_tcp_is_not_an_old_kernel() {
    let socket = SocketFacts { is_tcp: false, ..TCP };
    every_request(|call, request| {
        for errno in [libc::ENOPROTOOPT, libc::EOPNOTSUPP, libc::ENOTSOCK, libc::EINVAL] {
            assert!(matches!(outcome(request, errno, &socket), Error::NotATcpSocket), "{call}");
        }
    });
}

#[test]
fn ao_40_einval_is_explained_by_what_the_socket_is() {
    let mkt = mkt();
    let key = SocketKey::new(network("192.0.2.0/24"), &mkt);
    let peer = |text: &str| SocketFacts { peer: Some(text.parse().unwrap()), ..TCP };
    let listening = SocketFacts { is_listening: true, ..TCP };
    let got = "198.51.100.1".parse().unwrap();
    // The same network in another form.
    let mapped = SocketKey { remote: network("::ffff:192.0.2.0/120"), ..key };
    for (key, socket, expected) in [
        (key, peer("192.0.2.9"), EinvalReason::Unknown),
        (mapped, peer("192.0.2.9"), EinvalReason::Unknown),
        (key, peer("198.51.100.1"), EinvalReason::AnotherPeer { expected: key.remote, got }),
        (SocketKey { set_current: true, ..key }, listening, EinvalReason::Listening),
        (SocketKey { set_rnext: true, ..key }, listening, EinvalReason::Listening),
        (SocketKey { vrf: Some(7), ..key }, listening, EinvalReason::NotThisVrf(7)),
        (SocketKey { vrf: Some(0), ..key }, listening, EinvalReason::Unknown),
    ] {
        let error = outcome(&Request::AddKey(&key), libc::EINVAL, &socket);
        let Error::Refused { call: "TCP_AO_ADD_KEY", because } = error else { panic!("{error:?}") };
        assert_eq!(because, expected, "{key:?} {socket:?}");
    }
    let change = Change { rnext_key: Some(KeyId(1)), ..Change::default() };
    let error = outcome(&Request::SetInfo(&change), libc::EINVAL, &listening);
    assert!(matches!(error, Error::Refused { because: EinvalReason::Listening, .. }));
    assert!(
        error.to_string().starts_with("the kernel refused TCP_AO_INFO (writing): a listening socket has")
    );
}

#[test]
fn ao_40_a_missing_successor_is_told_from_a_missing_key() {
    let remote = network("192.0.2.1");
    let key = |send_id, recv_id| {
        let name = KeyName { remote, vrf: None, send_id: KeyId(send_id), recv_id: KeyId(recv_id) };
        InstalledKey::of(name, &mkt())
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

    // Linux 6.18 searches for every key among those without a VRF.
    let in_vrf = |vrf| InstalledKey { name: KeyName { vrf: Some(vrf), ..keys[0].name }, ..key(1, 11) };
    for (key, stays) in [(in_vrf(5), true), (in_vrf(0), false)] {
        let error = missing_successor(std::slice::from_ref(&key), &key.name, Successor::default());
        assert_eq!(matches!(error, Some(Error::KeyStays(name)) if name == key.name), stays, "{error:?}");
    }
}

#[test]
fn ao_40_messages_say_what_to_do() {
    let name = KeyName { remote: network("192.0.2.1"), vrf: Some(3), send_id: KeyId(1), recv_id: KeyId(2) };
    let expected: [(Error, &[&str]); 20] = [
        (Error::NotSupported, &["Linux 6.7", "CONFIG_TCP_AO", "`wireseal gateway`", "Wireseal's shim"]),
        (
            Error::AlgorithmNotInLinux { algorithm: TcpAoAlgorithm::Kmac256_128, key_id: None },
            &["KMAC256-128", "configure", "userspace"],
        ),
        (Error::AlgorithmMissing(TcpAoAlgorithm::Aes128Cmac), &["AES-128-CMAC-96", "configure"]),
        (Error::IdInUse { send_id: KeyId(1), recv_id: KeyId(2) }, &["SendID 1", "RecvID 2", "delete"]),
        (Error::Md5KeyInTheWay, &["TCP-MD5", "delete that key first"]),
        (Error::AoKeyInTheWay, &["TCP-AO key", "delete the key"]),
        (Error::MacTooLong { octets: 17 }, &["17 octets", "at most 16"]),
        (
            Error::NoSuchKey { send_id: Some(KeyId(1)), recv_id: None },
            &["no key with SendID 1;", "added first"],
        ),
        (
            Error::NoSuchKey { send_id: Some(KeyId(1)), recv_id: Some(KeyId(2)) },
            &["no key with SendID 1 and RecvID 2;"],
        ),
        (Error::NoSuchKey { send_id: None, recv_id: Some(KeyId(2)) }, &["no key with RecvID 2;"]),
        (Error::NoSuchMd5Key(network("192.0.2.1")), &["TCP-MD5", "192.0.2.1"]),
        (Error::KeyInUse(name), &["SendID 1", "VRF 3", "successor"]),
        (Error::KeyStays(name), &["SendID 1", "VRF 3", "stays", "bound to the VRF"]),
        (Error::Connected, &["before it connects"]),
        (Error::NoPermission { what: "TCP_REPAIR" }, &["TCP_REPAIR needs CAP_NET_ADMIN"]),
        (Error::NoMemory, &["net.core.optmem_max"]),
        (
            Error::UnusableNetwork { remote: network("0.0.0.0/8"), advice: "use another" },
            &["0.0.0.0/8", "; use another"],
        ),
        (Error::CannotRestore { kernel: "6.8.0".to_owned() }, &["6.8.0", "6.17", "6.12.49"]),
        (Error::NotATcpSocket, &["not a TCP socket", "IPPROTO_TCP"]),
        (Error::NotEstablished, &["established", "wait"]),
    ];
    for (error, parts) in expected {
        let message = error.to_string();
        assert!(!message.contains('\n'), "{message}");
        // A program in C, or an operator, reads it, too.
        assert!(!message.contains("::") && !message.contains("_key"), "{message}");
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}
