//! Kernel sockets: configurations that are refused, and two processes that speak over loopback. What the kernel's TCP-AO does
//! is for a laboratory with such a kernel; where this machine has it, two processes use it here too.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use common::pattern;
use common::program::{Router, check, check_file, refused, shipped, write_keys};
use router_peer::kernel::{Listener, Protection, connect};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wireseal_linux::probe;

const PATIENCE: Duration = Duration::from_secs(60);

const KEYS: &str = r#"
[[key-chain]]
name = "spring"
[[key-chain.key]]
send-id = 1
algorithm = "AES-128-CMAC-96"
secret = "of spring"
"#;

/// A router on one of the addresses of loopback, with the other one as its peer; `peer` goes into the peer's table.
fn config(own: &str, other: &str, port: u16, peer: &str) -> String {
    format!(
        r#"
[router]
as = 64512
id = "{own}"

[transport]
kind = "kernel"
addresses = ["{own}/8"]

[[peer]]
name = "other"
address = "{other}"
as = 64512
port = {port}
next-hop-ipv6 = "2001:db8::1"
{peer}
"#
    )
}

/// A configuration with the key chain, which takes a key file beside it.
fn with_chain(config: &str) -> String {
    format!("key-chains = \"keys.toml\"\n{config}key-chain = \"spring\"\n")
}

/// Writes a secret that only its owner can read.
fn write_secret(directory: &Path, secret: &str) {
    use std::os::unix::fs::PermissionsExt;

    let file = directory.join("other.md5");
    fs::write(&file, secret).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn free_port(address: &str) -> u16 {
    TcpListener::bind((address, 0)).unwrap().local_addr().unwrap().port()
}

fn run(directory: &Path, config: &str) -> Output {
    fs::write(directory.join("peer.toml"), config).unwrap();
    Command::new(env!("CARGO_BIN_EXE_router-peer"))
        .args(["--config", "peer.toml"])
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Checks that a configuration, good in itself, cannot be run, and that a line says why.
fn not_run(directory: &Path, config: &str, line: &str) {
    let output = run(directory, config);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().last(), Some(format!("router-peer: peer.toml: {line}").as_str()), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_secret_of_tcp_md5_takes_the_kernel_and_no_key_chain() {
    let directory = TempDir::new().unwrap();
    let md5 = "md5-secret-file = \"other.md5\"\n";
    let good = config("127.0.0.1", "127.0.0.2", 17900, md5);
    let field = "peer.toml: peer[0].md5-secret-file";
    let missing = format!("{field}: other.md5: cannot read: No such file or directory (os error 2)");
    refused(directory.path(), &good, &missing);
    write_secret(directory.path(), "old times\n");
    assert!(check(directory.path(), &good).status.success());

    for kind in ["memory", "tun\"\ndevice = \"seal0"] {
        let line = format!("{field}: TCP-MD5 is the kernel's, so it takes the kernel transport");
        refused(directory.path(), &good.replace("\"kernel", &format!("\"{kind}")), &line);
    }
    write_keys(directory.path(), KEYS);
    let line = format!("{field}: there is `key-chain` already, and a connection has one of the two");
    refused(directory.path(), &with_chain(&good), &line);
    write_secret(directory.path(), "\n");
    let line = format!("{field}: other.md5: master key is empty");
    refused(directory.path(), &good, &line);
    write_secret(directory.path(), &"x".repeat(81));
    let line = format!("{field}: other.md5: master key has 81 octets, at most 80 are possible");
    refused(directory.path(), &good, &line);
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory.path().join("other.md5"), fs::Permissions::from_mode(0o644)).unwrap();
    let line = format!("{field}: other.md5: mode 0644 lets others read these secrets, chmod it to 0600");
    refused(directory.path(), &good, &line);
}

#[test]
fn a_key_that_linux_lacks_is_named() {
    let directory = TempDir::new().unwrap();
    let keys = KEYS.replace("AES-128-CMAC-96", "HMAC-SHA256-128").replace("of spring", &"s".repeat(32));
    write_keys(directory.path(), &keys);
    let config = with_chain(&config("127.0.0.1", "127.0.0.2", 17900, ""));
    let line =
        "peer.toml: peer[0].key-chain: key chain \"spring\", key 1, algorithm: Linux has no HMAC-SHA256-128";
    refused(directory.path(), &config, line);
}

#[test]
fn configurations_of_other_transports_will_do() {
    let directory = shipped();
    for file in ["unix-east.toml", "unix-west.toml", "kernel.toml"] {
        let output = Command::new(env!("CARGO_BIN_EXE_router-peer"))
            .args(["--config", file, "--check", "--transport", "kernel"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let output = check_file(directory.path(), "kernel.toml");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "kernel.toml: good, peers: 1\n");
}

#[test]
fn what_the_system_does_not_give_is_named() {
    let directory = TempDir::new().unwrap();
    // An address of documentation (RFC 5737), which no machine has.
    let line = "cannot open TCP socket 192.0.2.7:0: Cannot assign requested address (os error 99)";
    let elsewhere = config("192.0.2.7", "192.0.2.8", 17900, "");
    not_run(directory.path(), &elsewhere, &format!("transport.addresses: {line}"));
    let passive = config("192.0.2.7", "192.0.2.8", 17900, "passive = true");
    let line = line.replace(":0:", ":17900:");
    not_run(directory.path(), &passive, &format!("transport.addresses: {line}"));
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let line = format!(
        "peer[0].port: cannot open TCP socket 127.0.0.1:{port}: Address already in use (os error 98)"
    );
    not_run(directory.path(), &config("127.0.0.1", "127.0.0.2", port, "passive = true"), &line);
}

/// Two routers, the second of which is called by the first, up to the routes of the first.
fn speak(keys: &str, peer: &str) -> (String, String) {
    let (east, west) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let port = free_port("127.0.0.2");
    for (directory, own, other, more) in [
        (east.path(), "127.0.0.1", "127.0.0.2", "routes = \"routes.txt\"\n"),
        (west.path(), "127.0.0.2", "127.0.0.1", "passive = true\n"),
    ] {
        fs::write(directory.join("routes.txt"), "198.51.100.0/24\n2001:db8:100::/40\n").unwrap();
        write_keys(directory, KEYS);
        write_secret(directory, "old times");
        let config = config(own, other, port, &format!("{more}{peer}\n"));
        fs::write(directory.join("peer.toml"), format!("{keys}{config}")).unwrap();
    }
    let mut west = Router::start(west.path(), "peer.toml", &[]);
    west.wait_for(|line| {
        line.contains("not protected") || line.contains("TCP-MD5") || line.contains("keys in use")
    });
    let mut east = Router::start(east.path(), "peer.toml", &[]);
    west.wait_for(|line| line.contains("ipv4=1 ipv6=1"));
    let east = {
        east.wait_for(|line| line.contains("session established"));
        east.stop()
    };
    west.wait_for(|line| line.contains("session over"));
    (east, west.stop())
}

#[test]
fn two_processes_speak_and_are_warned() {
    let (east, west) = speak("", "");
    for log in [east, west] {
        assert!(log.contains("no key chain: this session is not protected"), "{log}");
        assert!(log.contains("AdministrativeShutdown"), "{log}");
    }
}

#[test]
fn a_key_chain_is_kept_or_the_kernel_is_named() {
    if probe().unwrap().tcp_ao {
        let (east, west) = speak("key-chains = \"keys.toml\"\n", "key-chain = \"spring\"");
        for log in [east, west] {
            assert!(log.contains("keys in use chain=\"spring\" preferred=1"), "{log}");
            assert!(log.contains("TCP-AO of the connection good="), "{log}");
            assert!(log.contains("bad=0 key_not_found=0 required=0"), "{log}");
        }
        return;
    }
    let directory = TempDir::new().unwrap();
    write_keys(directory.path(), KEYS);
    for peer in ["", "passive = true\n"] {
        let config = with_chain(&config("127.0.0.1", "127.0.0.2", 17900, peer));
        // It is good, but not for this machine.
        assert!(check(directory.path(), &config).status.success());
        let line = "peer[0].key-chain: this kernel has no TCP-AO (it needs Linux 6.7 or later with CONFIG_TCP_AO); use \
                    a userspace transport (wireseal-smoltcp or wireseal_tcp_ao::shim)";
        not_run(directory.path(), &config, line);
    }
}

#[test]
fn tcp_md5_is_used_or_the_kernel_is_named() {
    let md5 = "md5-secret-file = \"other.md5\"";
    if probe().unwrap().md5 {
        let (east, west) = speak("", md5);
        for log in [east, west] {
            assert!(log.contains("TCP-MD5 is weak"), "{log}");
            assert!(!log.contains("old times"), "{log}");
        }
        return;
    }
    let directory = TempDir::new().unwrap();
    write_secret(directory.path(), "old times");
    for peer in ["", "passive = true\n"] {
        let config = config("127.0.0.1", "127.0.0.2", 17900, &format!("{peer}{md5}"));
        let line = "peer[0].md5-secret-file: this kernel has no TCP-MD5 (it needs CONFIG_TCP_MD5SIG)";
        not_run(directory.path(), &config, line);
    }
}

#[test]
fn a_stranger_is_turned_away() {
    let directory = TempDir::new().unwrap();
    let port = free_port("127.0.0.1");
    // Called on 127.0.0.1, and that is where the call comes from too.
    let config = config("127.0.0.1", "127.0.0.2", port, "passive = true");
    fs::write(directory.path().join("peer.toml"), config).unwrap();
    let mut router = Router::start(directory.path(), "peer.toml", &[]);
    router.wait_for(|line| line.contains("not protected"));
    let mut stream = loop {
        if let Ok(stream) = std::net::TcpStream::connect(("127.0.0.1", port)) {
            break stream;
        }
    };
    router.wait_for(|line| line.contains("not a configured peer"));
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    router.stop();
}

#[tokio::test]
async fn octets_arrive_over_both_families() {
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let port = TcpListener::bind((address, 0)).unwrap().local_addr().unwrap().port();
        let local = SocketAddr::from((address, port));
        let stranger = (IpAddr::from([192, 0, 2, 1]), Protection::Nothing);
        let mut listener = Listener::bind(local, vec![stranger, (address, Protection::Nothing)]).unwrap();
        let opened = async { tokio::join!(connect(address, local, &Protection::Nothing), listener.accept()) };
        let (near, call) = timeout(PATIENCE, opened).await.unwrap();
        let (mut near, call) = (near.unwrap(), call.unwrap());
        assert_eq!((call.peer, call.remote.ip()), (1, address));
        let mut far = call.stream;
        let sent = pattern(3_000_000, 9);
        let expected = sent.clone();
        let writing = async move {
            near.write_all(&sent).await.unwrap();
            near.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let both = async { tokio::join!(writing, far.read_to_end(&mut received)) };
        timeout(PATIENCE, both).await.unwrap().1.unwrap();
        assert!(received == expected);
    }
}
