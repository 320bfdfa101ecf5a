//! Listeners and streams: the errors if they cannot be opened.

use std::env;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};
use std::process::Command;

use socket2::{Domain, Socket, Type};
use wireseal_linux::key_chain::{Key, KeyChain, Timestamp};
use wireseal_linux::{
    Attachment, Error, KeyManager, Local, PeerName, Remote, TcpAoAlgorithm, TcpAoListener, TcpAoStream,
};

use super::{has_tcp_ao, mkt};

fn manager() -> KeyManager {
    let keys = vec![Key::new(1, mkt(1, TcpAoAlgorithm::HmacSha1))];
    super::manager("127.0.0.0/8", KeyChain::new("tested", keys).unwrap())
}

/// An address that this host does not have (RFC 5737).
const ELSEWHERE: &str = "192.0.2.1:179";

#[tokio::test]
async fn errors_name_the_address() {
    let elsewhere: SocketAddr = ELSEWHERE.parse().unwrap();
    let errors = [
        TcpAoListener::bind(elsewhere, &manager()).unwrap_err(),
        TcpAoListener::bind_async(elsewhere, &manager()).await.unwrap_err(),
    ];
    for error in errors {
        let said = error.to_string();
        assert_eq!(said, "cannot listen on 192.0.2.1:179: Cannot assign requested address (os error 99)");
    }
    let here: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let local = Local { address: Some(elsewhere.ip()), vrf: None };
    let errors = [
        TcpAoStream::connect_from(local, here, &manager()).unwrap_err(),
        TcpAoStream::connect_async_from(local, here, &manager()).await.unwrap_err(),
    ];
    for error in errors {
        let said = error.to_string();
        assert_eq!(said, "cannot connect to 127.0.0.1:9: Cannot assign requested address (os error 99)");
    }
    for error in [
        TcpAoStream::connect(elsewhere, &manager()).unwrap_err(),
        TcpAoStream::connect_async(elsewhere, &manager()).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::NoPeer(address) if address == elsewhere.ip()), "{error}");
    }
}

#[tokio::test]
async fn a_kernel_without_tcp_ao_is_named_and_one_with_it_serves() {
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let manager = manager();
    let plain = TcpListener::bind(free).unwrap();
    let attached = manager.attach(&plain, Timestamp::MIN);
    let listener = match TcpAoListener::bind_async(free, &manager).await {
        Ok(listener) => listener,
        Err(error) => {
            assert!(!has_tcp_ao(), "{error}");
            for error in [error, attached.unwrap_err()] {
                assert!(matches!(error, Error::NotSupported), "{error}");
            }
            return;
        }
    };
    let _attachment = attached.unwrap();
    let (address, local) = (listener.local_addr(), Local { address: Some([127, 0, 0, 2].into()), vrf: None });
    let (accepted, connected) =
        tokio::join!(listener.accept(), TcpAoStream::connect_async_from(local, address, &manager));
    let remote = accepted.unwrap().1;
    assert_eq!(connected.unwrap().local_addr().unwrap(), remote);
    assert_eq!(remote.ip(), std::net::IpAddr::from([127, 0, 0, 2]));
}

/// Set in the process that runs in its own network namespace, where a link joins two interfaces.
const INSIDE: &str = "WIRESEAL_TEST_IN_NAMESPACE";
const LINK: &str = "ip link add near type veth peer name far && ip address add fe80::1/64 dev near nodad && \
                    ip address add fe80::2/64 dev far nodad && ip link set near up && ip link set far up";

/// Whether this process has CAP_SYS_ADMIN, which permits making namespaces (`linux/capability.h`). In many containers root lacks it.
fn is_privileged() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() >> CAP_SYS_ADMIN & 1 == 1
}

/// Runs a test of this file again in a namespace; false if this user may not make one, or there is no `ip`.
fn in_namespace(test: &str) -> bool {
    let unshare = |options: &[&str], line: &str| {
        let mut command = Command::new("unshare");
        command.args(options).args(["--net", "sh", "-c", line, "sh"]).arg(env::current_exe().unwrap());
        command
            .args(["--exact", test, "--nocapture"])
            .env(INSIDE, "1")
            .status()
            .is_ok_and(|status| status.success())
    };
    let ways: [&[&str]; 2] = [&[], &["--map-root-user"]];
    let Some(way) = ways.into_iter().find(|way| unshare(way, LINK)) else {
        assert!(
            !is_privileged() || Command::new("ip").arg("-V").output().is_err(),
            "{test}: {LINK}, in a namespace"
        );
        return false;
    };
    assert!(unshare(way, &format!("{LINK} && exec \"$@\"")), "{test}, in a namespace");
    true
}

/// BGP unnumbered uses such addresses.
#[test]
fn a_link_local_address_is_of_the_interface_to_connect_over() {
    if env::var_os(INSIDE).is_none() {
        if !in_namespace("net::a_link_local_address_is_of_the_interface_to_connect_over") {
            println!("not tested: it takes unshare, ip, and the right to make a network namespace");
        }
        return;
    }
    // Address, interface index in hexadecimal, and others.
    let addresses = std::fs::read_to_string("/proc/net/if_inet6").unwrap();
    let of_near = addresses.lines().find(|line| line.ends_with(" near")).unwrap();
    let index = u32::from_str_radix(of_near.split_whitespace().nth(1).unwrap(), 16).unwrap();
    let [own, peer]: [Ipv6Addr; 2] = ["fe80::1", "fe80::2"].map(|address| address.parse().unwrap());
    let local = Local { address: Some(own.into()), vrf: None };
    let connect = |scope| {
        let remote = SocketAddrV6::new(peer, 179, 0, scope);
        TcpAoStream::connect_from(local, remote.into(), &manager()).unwrap_err()
    };
    let error = connect(index);
    assert!(matches!(error, Error::NoPeer(address) if address == peer), "{error}");
    let error = connect(0).to_string();
    assert!(error.starts_with("cannot connect to [fe80::2]:179: Invalid argument"), "{error}");
}

/// Two routers may have one link-local address on two links: the scope id tells the connections apart, or the interface that the socket is
/// bound to.
#[test]
fn a_connection_is_of_the_peer_on_its_link() {
    if env::var_os(INSIDE).is_none() {
        if !in_namespace("net::a_connection_is_of_the_peer_on_its_link") {
            println!("not tested: it takes unshare, ip, and the right to make a network namespace");
        }
        return;
    }
    let chain = KeyChain::new("tested", vec![Key::new(1, mkt(1, TcpAoAlgorithm::HmacSha1))]).unwrap();
    let of = |peer: &str| super::manager(peer, chain.clone());
    let index = |name: &str| format!("fe80::1%{name}").parse::<PeerName>().unwrap().interface.unwrap();
    let now = Timestamp::now();
    // Without TCP-AO in the kernel, a peer that is found is refused for that.
    let is_found = |attached: Result<Attachment, Error>| match attached.map(drop) {
        Ok(()) | Err(Error::NotSupported | Error::Unsigned) => true,
        Err(Error::NoPeer(_)) => false,
        Err(error) => panic!("{error}"),
    };
    let socket = |device: Option<&[u8]>| {
        let socket = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
        socket.bind_device(device).unwrap();
        socket
    };
    let remote = |address: &str, scope| SocketAddrV6::new(address.parse().unwrap(), 179, 0, scope);
    for (peer, expected) in [("fe80::2%near", [true, false, false, true, false]), ("fe80::2", [true; 5])] {
        let manager = of(peer);
        let connecting = |device: Option<&[u8]>, remote: Remote| {
            is_found(manager.attach_connecting(&socket(device), remote, now))
        };
        let unscoped = SocketAddr::from(remote("fe80::2", 0));
        let found = [
            connecting(None, SocketAddr::from(remote("fe80::2", index("near"))).into()),
            connecting(None, SocketAddr::from(remote("fe80::2", index("far"))).into()),
            connecting(None, unscoped.ip().into()),
            connecting(Some(b"near"), unscoped.ip().into()),
            connecting(Some(b"far"), unscoped.ip().into()),
        ];
        assert_eq!(found, expected, "{peer}");
    }

    let listener = TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = socket(Some(b"near"));
    client
        .bind(&SocketAddr::from(SocketAddrV6::new("fe80::1".parse().unwrap(), 0, 0, index("near"))).into())
        .unwrap();
    client
        .connect(
            &SocketAddr::from(SocketAddrV6::new("fe80::2".parse().unwrap(), port, 0, index("near"))).into(),
        )
        .unwrap();
    let (accepted, caller) = listener.accept().unwrap();
    assert!(matches!(caller, SocketAddr::V6(caller) if caller.scope_id() == index("far")), "{caller}");
    for (peer, expected) in
        [("fe80::1%far", true), ("fe80::1%near", false), ("fe80::/10%far", true), ("fe80::1", true)]
    {
        assert_eq!(is_found(of(peer).attach_accepted(&accepted, caller.ip(), now)), expected, "{peer}");
    }
}
