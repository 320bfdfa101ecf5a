//! What the probe and the counters say of this kernel and of others.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::{NetworkCounters, Support, probe};

#[test]
fn ao_40_the_probe_says_what_this_kernel_has() {
    let support = probe().unwrap();
    assert!(support.kernel.contains('.'), "{support:?}");
    for algorithm in TcpAoAlgorithm::ALL {
        let may_be_supported = support.tcp_ao && algorithm.linux_name().is_some();
        assert!(may_be_supported || !support.supports(algorithm), "{algorithm}: {support:?}");
    }
    assert_eq!(support.tcp_ao, support.algorithms.contains(&true), "{support:?}");
    assert_eq!(probe().unwrap(), support, "probing leaves nothing behind");
}

#[test]
fn ao_38_support_says_which_kernels_restore_connections() {
    let support = |tcp_ao, kernel: &str| {
        let kernel = kernel.to_owned();
        Support { tcp_ao, algorithms: [tcp_ao; TcpAoAlgorithm::ALL.len()], md5: true, repair: true, kernel }
    };
    assert!(support(true, "6.18.15").can_restore());
    assert!(!support(true, "6.12.48").can_restore());
    assert!(!support(false, "6.18.15").can_restore());
}

#[test]
fn support_for_an_algorithm_is_found_at_its_place() {
    let algorithms = [true, false, true, false, false];
    let support = Support { tcp_ao: true, algorithms, md5: false, repair: true, kernel: "7.3.4".to_owned() };
    let supported: Vec<_> =
        TcpAoAlgorithm::ALL.into_iter().filter(|algorithm| support.supports(*algorithm)).collect();
    assert_eq!(supported, [TcpAoAlgorithm::HmacSha1, TcpAoAlgorithm::LinuxHmacSha256]);
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
