//! What the probe and the counters say of this kernel and of others.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::{Error, NetworkCounters, Support, probe};

#[test]
fn ao_40_the_probe_says_what_this_kernel_has() {
    let support = probe().unwrap();
    let shown = support.to_string();
    let sentence = Error::NotSupported.to_string();
    assert!(!support.kernel.is_empty() && shown.contains(&support.kernel), "{shown}");
    assert_eq!(shown.contains(&sentence), !support.tcp_ao, "{shown}");
    for algorithm in TcpAoAlgorithm::ALL {
        let named =
            shown.lines().any(|line| line.starts_with("TCP-AO: yes") && line.contains(algorithm.name()));
        assert_eq!(named, support.supports(algorithm), "{algorithm}: {shown}");
        assert!(support.tcp_ao || !support.supports(algorithm));
        assert!(algorithm.linux_name().is_some() || !support.supports(algorithm), "{algorithm}: {shown}");
    }
    if support.tcp_ao {
        assert!(TcpAoAlgorithm::ALL.into_iter().any(|algorithm| support.supports(algorithm)), "{shown}");
    }
    assert_eq!(probe().unwrap(), support, "probing leaves nothing behind");
}

#[test]
fn ao_40_either_kernel_is_described_in_full() {
    let old = Support {
        tcp_ao: false,
        algorithms: [false; 5],
        md5: true,
        repair: false,
        kernel: "6.1.0".to_owned(),
    };
    assert_eq!(
        old.to_string(),
        "kernel: 6.1.0\n\
         TCP-AO: this kernel has no TCP-AO (it needs Linux 6.7 or later with CONFIG_TCP_AO); use a userspace transport \
         (wireseal-smoltcp or wireseal_tcp_ao::shim)\n\
         TCP-MD5: yes\n\
         moving connections: no (needs CAP_NET_ADMIN)"
    );
    let algorithms = [true, false, true, false, false];
    let new = Support { tcp_ao: true, algorithms, md5: false, repair: true, kernel: "7.3.4".to_owned() };
    assert_eq!(
        new.to_string(),
        "kernel: 7.3.4\nTCP-AO: yes, with HMAC-SHA-1-96, hmac(sha256)\nTCP-MD5: no\nmoving connections: yes"
    );
    assert!(new.supports(TcpAoAlgorithm::HmacSha1) && !new.supports(TcpAoAlgorithm::Aes128Cmac));
}

/// From a machine with TCP-AO and TCP-MD5; each counter has a number of its own.
const NETSTAT: &str = include_str!("../data/netstat.txt");

#[test]
fn ao_27_the_namespaces_counters_are_read_by_name() {
    let counters = NetworkCounters::parse(NETSTAT).unwrap();
    let NetworkCounters { tcp_ao, md5_not_found, md5_unexpected, md5_failure } = counters;
    assert_eq!((tcp_ao.good, tcp_ao.bad, tcp_ao.key_not_found), (3747, 11, 12));
    assert_eq!((tcp_ao.required, tcp_ao.dropped_icmp), (13, 14));
    assert_eq!((md5_not_found, md5_unexpected, md5_failure), (21, 22, 23));
}

#[test]
fn other_texts_are_errors_that_say_why() {
    let older = "TcpExt: SyncookiesSent TCPMD5NotFound\nTcpExt: 0 0\n";
    for (text, expected) in [
        ("", "names"),
        ("TcpExt: TCPAOGood\nIpExt: InNoRoutes\n", "values"),
        ("TcpExt: TCPAOGood TCPAOBad\nTcpExt: 1\n", "more or fewer values"),
        (older, "no TCPAOGood: this kernel has no TCP-AO"),
        (&NETSTAT.replace("3747", "many"), "TCPAOGood is not a number"),
    ] {
        let error = NetworkCounters::parse(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.kind() == std::io::ErrorKind::Unsupported, text == older);
    }
}

#[test]
fn this_machines_counters_are_read_or_it_has_none() {
    match NetworkCounters::read() {
        Ok(_) => {}
        Err(error) => assert!(!probe().unwrap().tcp_ao, "{error}"),
    }
}
