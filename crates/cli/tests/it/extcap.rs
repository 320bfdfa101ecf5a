//! What Wireshark asks of a program that it captures with. `extcap-in-tshark` shows that it understands the answers.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::support::files::Files;
use crate::support::namespace::{is_inside, send, shell};
use crate::support::program::{Run, program, wireseal};
use crate::support::session::session;

fn extcap<S: AsRef<OsStr>>(arguments: &[S]) -> Run {
    program().arg("extcap").args(arguments).output().unwrap().into()
}

#[test]
fn interfaces_link_types_and_options_are_listed() {
    let run = extcap(&["--extcap-interfaces", "--extcap-version=4.4"]);
    assert_eq!(run.code, 0, "{run:?}");
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!(
        lines[0],
        concat!("extcap {version=", env!("CARGO_PKG_VERSION"), "}{display=TCP-AO verified}")
    );
    for name in ["lo", "any"] {
        run.assert_says(&format!("interface {{value=wireseal-{name}}}{{display=TCP-AO verified: {name}}}\n"));
    }
    let run = extcap(&["--extcap-interface", "wireseal-lo", "--extcap-dlts"]);
    assert_eq!(run.out, "dlt {number=1}{name=EN10MB}{display=Ethernet}\n");
    let run = extcap(&["--extcap-interface", "wireseal-any", "--extcap-dlts"]);
    assert_eq!(run.out, "dlt {number=113}{name=LINUX_SLL}{display=Linux cooked}\n");
    // Every option that Wireshark is told of is one.
    let run = extcap(&["--extcap-interface", "wireseal-lo", "--extcap-config"]);
    for line in run.out.lines() {
        let option = line.split("{call=").nth(1).unwrap().split('}').next().unwrap();
        let value = if line.contains("boolflag") { vec![option] } else { vec![option, ""] };
        let asked = [&["--extcap-interface", "wireseal-lo", "--extcap-dlts"], value.as_slice()].concat();
        assert_eq!(extcap(&asked).code, 0, "{line}");
    }
}

#[test]
fn an_interface_whose_name_wireshark_cannot_read_is_not_listed() {
    if !is_inside("extcap::an_interface_whose_name_wireshark_cannot_read_is_not_listed") {
        return;
    }
    shell("ip link set far down && ip link set far name 'v{x}]a}'");
    let run = extcap(&["--extcap-interfaces"]);
    let values: Vec<_> = run.out.lines().filter(|line| line.starts_with("interface ")).collect();
    assert_eq!(values.len(), 3, "{run:?}");
    assert!(!run.out.contains("v{x"), "{run:?}");
    assert_eq!(run.err, "wireseal: \"v{x}]a}\" is not listed: Wireshark cannot read such a name\n");
}

#[test]
fn filters_are_checked() {
    let check = |filter: &str| {
        let run = extcap(&["--extcap-interface", "wireseal-lo", "--extcap-capture-filter", filter]);
        assert_eq!(run.code, 0, "{run:?}");
        run.out
    };
    for filter in [
        "",
        "tcp",
        "port 179",
        "tcp port 179 or port 646",
        "host 192.0.2.1 and port 179",
        "tcp and (port 179 or port 646) and (net 2001:db8::/32 or host 192.0.2.1)",
    ] {
        assert_eq!(check(filter), "", "{filter}");
    }
    for (filter, said) in [
        ("udp", "is not understood here"),
        ("port bgp", "expected ports"),
        ("net 192.0.2.1/24", "write 192.0.2.0/24 for the network"),
        (
            "port 179 or host 192.0.2.1",
            "\"or\" joins only ports, or only addresses; join the two with \"and\"",
        ),
        ("port 179 and port 646", "write them with or"),
        ("tcp or port 179", "is not understood here"),
    ] {
        assert!(check(filter).contains(said), "{filter}: {}", check(filter));
    }
}

#[test]
fn a_link_is_enough() {
    let files = Files::new();
    let folder = files.path("below/extcap");
    for _ in 0..2 {
        let run = wireseal(["extcap", "--install", folder.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    let run: Run =
        Command::new(folder.join("wireseal-extcap")).arg("--extcap-interfaces").output().unwrap().into();
    run.assert_says("{display=TCP-AO verified: lo}");
    // Where older releases of Wireshark look is said if no folder was named.
    let install = |arguments: &[&str]| -> Run {
        let mut program = Command::new(folder.join("wireseal-extcap"));
        program.env("HOME", files.path("home")).arg("--install").args(arguments).output().unwrap().into()
    };
    install(&[])
        .assert_says("(Wireshark 4.0 and older: --install with the folder under Help > About > Folders)\n");
    assert!(!install(&[folder.to_str().unwrap()]).out.contains("older"));
    // Nothing but a link is replaced.
    fs::remove_file(folder.join("wireseal-extcap")).unwrap();
    fs::write(folder.join("wireseal-extcap"), "precious").unwrap();
    let run = wireseal(["extcap", "--install", folder.to_str().unwrap()]);
    assert_eq!(run.code, 2);
    let said =
        "/wireseal-extcap: there is such a file, and it is no link: remove it, or name another folder\n";
    assert!(run.err.ends_with(said), "{run:?}");
    assert_eq!(fs::read_to_string(folder.join("wireseal-extcap")).unwrap(), "precious");
}

fn comments(file: &Path) -> Vec<String> {
    let mut reader = PcapNgReader::new(File::open(file).unwrap()).unwrap();
    let mut comments = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let comment = packet.options.iter().find_map(|option| match option {
                EnhancedPacketOption::Comment(comment) => Some(comment.to_string()),
                _ => None,
            });
            comments.push(comment.unwrap_or_default());
        }
    }
    comments
}

#[test]
fn packets_come_with_their_verdicts() {
    if !is_inside("extcap::packets_come_with_their_verdicts") {
        return;
    }
    let key = |secret| {
        format!(
            "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 100\nalgorithm = \"AES-128-CMAC-96\"\n\
             secret = \"{secret}\"\n"
        )
    };
    // The first packets may be written before it is known that the others fail too.
    for (secret, begin, last) in [
        ("first-secret", "wireseal: good (core/100, SNE 0)", ""),
        ("another-secret", "wireseal: bad MAC: ", "most likely another secret"),
    ] {
        let files = Files::new();
        let (keys, fifo, seen) =
            (files.file("keys.toml", key(secret)), files.path("fifo"), files.path("seen"));
        shell(&format!("mkfifo -m 666 {}", fifo.display()));
        let reader = Command::new("cat").arg(&fifo).stdout(File::create(&seen).unwrap()).spawn();
        let mut extcap = program();
        extcap.args([
            "extcap",
            "--capture",
            "--extcap-interface",
            "wireseal-far",
            "--ports",
            "179, 646",
            "--fifo",
        ]);
        extcap.arg(&fifo).arg("--keys").arg(&keys).stderr(Stdio::piped());
        let mut extcap = extcap.spawn().unwrap();
        // The section and the interface come at once.
        while fs::metadata(&seen).unwrap().len() == 0 {
            assert_eq!(extcap.try_wait().unwrap(), None);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let session = session();
        let wrap = |packet: &[u8]| [&[2; 12], [0x08, 0x00].as_slice(), packet].concat();
        let frames: Vec<_> = session.packets.iter().map(|(_, packet)| wrap(packet)).collect();
        send("near", frames.iter().map(Vec::as_slice));
        while comments(&seen).len() < 6 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let pid = rustix::process::Pid::from_child(&extcap);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(extcap.wait().unwrap().code(), Some(0));
        assert!(reader.unwrap().wait().unwrap().success());
        let comments = comments(&seen);
        assert!(
            comments.len() == 6
                && comments.iter().all(|comment| comment.starts_with(begin))
                && comments[5].contains(last),
            "{comments:#?}"
        );
    }
}
