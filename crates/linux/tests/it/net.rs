//! Listeners and streams: the errors if they cannot be opened.

use std::env;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};
use std::process::Command;

use wireseal_linux::key_chain::{Key, KeyChain, Timestamp};
use wireseal_linux::{Error, KeyManager, Local, TcpAoAlgorithm, TcpAoListener, TcpAoStream};

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
