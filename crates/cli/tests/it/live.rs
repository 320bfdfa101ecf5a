//! Packets of an interface, checked as they come.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::tcgetattr;

use crate::support::files::{Files, set_mode};
use crate::support::namespace::{await_text, is_inside, send, shell};
use crate::support::program::{Run, interruptible, program, terminal, wireseal};
use crate::support::schema::Schema;
use crate::support::session::{IPV4_KEY, MSS, Recorded, SYN, Session, session};

const OTHER_KEY: &str = "send=100,recv=100,alg=aes-128-cmac-96,secret=another-secret";

/// The program, listening.
struct Live {
    child: Option<Child>,
    files: Files,
}

impl Live {
    /// Starts `verify` with these arguments, and waits until it listens.
    fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let files = Files::new();
        let [out, err] = ["out", "err"].map(|name| files.path(name));
        let mut command = interruptible();
        command.arg("verify").args(arguments).envs(environment.iter().copied());
        let child = command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap()).spawn();
        await_text(&err, "listening on");
        Self { child: Some(child.unwrap()), files }
    }

    fn out(&self) -> PathBuf {
        self.files.path("out")
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until it ends by itself.
    fn end(mut self) -> Run {
        let code = self.child.take().unwrap().wait().unwrap().code().unwrap();
        let [out, err] = ["out", "err"].map(|name| fs::read_to_string(self.files.path(name)).unwrap());
        Run { code, out, err }
    }

    /// Ends it as Ctrl-C does.
    fn interrupt(self) -> Run {
        self.signal(Signal::INT);
        self.end()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An IPv4 packet in an Ethernet frame.
fn frame(packet: &[u8]) -> Vec<u8> {
    [&[2; 12], [0x08, 0x00].as_slice(), packet].concat()
}

fn frames(packets: &[Recorded]) -> Vec<Vec<u8>> {
    packets.iter().map(|(_, packet)| frame(packet)).collect()
}

fn send_frames(frames: &[Vec<u8>]) {
    send("near", frames.iter().map(Vec::as_slice));
}

/// How many segments there are in a [`session`].
const SEGMENTS: &str = "6";

#[test]
fn a_session_is_checked_as_it_comes_and_written_to_a_file() {
    if !is_inside("live::a_session_is_checked_as_it_comes_and_written_to_a_file") {
        return;
    }
    let files = Files::new();
    let file = files.path("seen.pcapng");
    let arguments = ["-i", "far", "--key", IPV4_KEY, "--count", SEGMENTS, "--port", "179"];
    let write = ["--write", file.to_str().unwrap()];
    let live = Live::start(&[&arguments[..], &write].concat());
    let mut other = Session::usual([7, 8]);
    other.ends[1] = wireseal_tcp_ao::Endpoint::new([192, 0, 2, 2], 80);
    other.shake_hands();
    // The kernel leaves out the other port, else there would be too few of these.
    send_frames(&[frames(&other.packets), frames(&session().packets)].concat());
    let run = live.end();
    assert_eq!(run.code, 0, "{run:?}");
    run.assert_says("connection 1: 192.0.2.1:50000 -> 192.0.2.2:179\n");
    run.assert_says("connection 1 ended: 192.0.2.1:50000 -> 192.0.2.2:179: good, 6 good\n");
    run.assert_says("far: 6 packets, 1 connection, 1 good\n");
    assert!(run.out.ends_with("all 6 segments are good\n"), "{}", run.out);

    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = wireseal(["verify", file.to_str().unwrap(), "--key", IPV4_KEY]);
    assert!(again.out.ends_with("all 6 segments are good\n"), "{}", again.out);
}

#[test]
fn a_failure_is_told_once_with_its_reason_before_the_end() {
    if !is_inside("live::a_failure_is_told_once_with_its_reason_before_the_end") {
        return;
    }
    let live = Live::start(&["-i", "far", "--key", OTHER_KEY]);
    send_frames(&frames(&session().packets));
    await_text(
        &live.out(),
        "connection 1 FAILED: 192.0.2.1:50000 -> 192.0.2.2:179: most likely another secret",
    );
    let mut session = session();
    session.talk();
    send_frames(&frames(&session.packets[6..]));
    let run = live.interrupt();
    assert_eq!(run.code, 1, "{run:?}");
    // Of one segment less can be said than of many, so there may be two reasons, one after the other.
    let reasons: Vec<_> = run.out.lines().filter_map(|line| Some(line.split_once(" FAILED: ")?.1)).collect();
    assert!(matches!(reasons[..], [_]) || matches!(reasons[..], [one, other] if one != other), "{}", run.out);
    run.assert_says("9 of 9 segments failed");
}

#[test]
fn with_json_each_element_is_a_line() {
    if !is_inside("live::with_json_each_element_is_a_line") {
        return;
    }
    let live = Live::start(&["-i", "far", "--key", IPV4_KEY, "--json", "--segments"]);
    send_frames(&frames(&session().packets));
    await_text(&live.out(), "\"sender\":\"listener\"");
    let run = live.interrupt();
    let lines: Vec<serde_json::Value> =
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut schema = Schema::load("verify-lines.json");
    lines.iter().for_each(|line| schema.holds(line));
    let of_type = |name: &str| lines.iter().filter(|line| line["type"] == name).count();
    assert_eq!(["segment", "connection", "totals"].map(of_type), [6, 1, 1], "{}", run.out);
}

/// The lines of /proc/PID/status with these names.
fn status(pid: Pid, names: &[&str]) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap();
    let words = |name: &&str| {
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    names.iter().map(words).collect()
}

#[test]
fn privileges_are_dropped_before_the_first_packet() {
    if !is_inside("live::privileges_are_dropped_before_the_first_packet") {
        return;
    }
    let names = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"];
    let none = "0000000000000000";
    let expected = |id: &str| {
        let ids = [id; 4].join(" ");
        vec![ids.clone(), ids, String::new()]
            .into_iter()
            .chain([none; 5].map(str::to_owned))
            .chain(["1".to_owned()])
            .collect::<Vec<_>>()
    };
    let live = Live::start(&["-i", "far", "--key", IPV4_KEY]);
    assert_eq!(status(live.pid(), &names), expected("65534"));
    assert_eq!(live.interrupt().code, 3);

    let files = Files::new();
    let [file, page] = ["seen.pcapng", "page.html"].map(|name| files.path(name));
    let outputs = ["--write", file.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let arguments = [&["-i", "far", "--key", IPV4_KEY], &outputs[..]].concat();
    let sudo = [("SUDO_UID", "1234"), ("SUDO_GID", "1234")];
    // In a folder of root's the caller of sudo makes no file and empties none.
    let refused = |said: &str| {
        let run: Run = program().arg("verify").args(&arguments).envs(sudo).output().unwrap().into();
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.ends_with(&format!("{}: {said}\n", page.display())), "{run:?}");
    };
    refused("Permission denied (os error 13)");
    assert!(!file.exists() && !page.exists());
    set_mode(file.parent().unwrap(), 0o777);
    fs::write(&page, "of root").unwrap();
    set_mode(&page, 0o600);
    refused("Permission denied (os error 13)");
    assert_eq!(fs::read_to_string(&page).unwrap(), "of root");
    fs::remove_file(&page).unwrap();
    symlink(files.path("elsewhere"), &page).unwrap();
    refused("a symbolic link, which is not followed: name the file itself");
    fs::remove_file(&page).unwrap();
    let live = Live::start_with(&arguments, &sudo);
    assert_eq!(status(live.pid(), &names), expected("1234"));
    for file in [&file, &page] {
        assert_eq!(fs::metadata(file).unwrap().uid(), 1234);
    }
    let live_as_root =
        Live::start_with(&["-i", "far", "--key", IPV4_KEY], &[("SUDO_UID", "0"), ("SUDO_GID", "0")]);
    assert_eq!(status(live_as_root.pid(), &names), expected("65534"));
}

#[test]
fn tags_that_the_kernel_takes_off_are_put_back() {
    if !is_inside("live::tags_that_the_kernel_takes_off_are_put_back") {
        return;
    }
    let packets = session().packets;
    const ONE: &[u8] = &[0x81, 0x00, 0, 7, 0x08, 0x00];
    const TWO: &[u8] = &[0x88, 0xa8, 0, 9, 0x81, 0x00, 0, 7, 0x08, 0x00];
    for (tags, interface) in [(ONE, "far"), (TWO, "far"), (ONE, "any")] {
        let files = Files::new();
        let file = files.path("seen.pcapng");
        let write = ["--write", file.to_str().unwrap()];
        let arguments = ["-i", interface, "--key", IPV4_KEY, "--port", "179", "--segments"];
        let live = Live::start(&[&arguments[..], &write].concat());
        let wrapped: Vec<_> = packets.iter().map(|(_, packet)| [&[2; 12], tags, packet].concat()).collect();
        send_frames(&wrapped);
        await_text(&live.out(), " seq 1019 ack 5021 length 0 ");
        let run = live.interrupt();
        assert_eq!(run.code, 0, "{run:?}");
        // As far sees them, the frames are as they were sent.
        if interface == "far" {
            let mut reader = wireseal::capture::Reader::open(&file).unwrap();
            for frame in &wrapped {
                assert_eq!(reader.next_packet().unwrap().unwrap().octets, frame);
            }
            assert!(reader.next_packet().is_none());
        }
    }
}

/// Makes an interface whose frames begin with IP, and when it reads a line, receives packets there.
const TUNNEL: &str = "import fcntl, struct, sys
tunnel = open('/dev/net/tun', 'r+b', buffering=0)
fcntl.ioctl(tunnel, 0x400454ca, struct.pack('16sH', b'tube', 0x1001))
print('made', flush=True)
for line in sys.stdin:
    tunnel.write(bytes.fromhex(line))
";

#[test]
fn interfaces_without_ethernet_are_read() {
    if !is_inside("live::interfaces_without_ethernet_are_read") || !Path::new("/dev/net/tun").exists() {
        return;
    }
    let mut python = Command::new("python3");
    python.args(["-c", TUNNEL]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    let mut made = String::new();
    BufReader::new(python.stdout.take().unwrap()).read_line(&mut made).unwrap();
    shell("ip link set tube up");
    let live = Live::start(&["-i", "tube", "--key", IPV4_KEY, "--count", SEGMENTS, "--port", "179"]);
    let mut input = python.stdin.take().unwrap();
    for (_, packet) in session().packets {
        writeln!(input, "{}", base16ct::lower::encode_string(&packet)).unwrap();
    }
    let run = live.end();
    drop(input);
    assert!(python.wait().unwrap().success());
    assert!(run.out.ends_with("all 6 segments are good\n"), "{run:?}");
}

#[test]
fn an_interface_that_goes_down_ends_it_with_the_report() {
    if !is_inside("live::an_interface_that_goes_down_ends_it_with_the_report") {
        return;
    }
    for line in ["ip link set far down", "ip link delete far"] {
        shell("ip link set far up");
        let live = Live::start(&["-i", "far", "--key", IPV4_KEY]);
        send_frames(&frames(&session().packets));
        await_text(&live.out(), "connection 1: ");
        shell(line);
        let run = live.end();
        assert_eq!(run.code, 3, "{run:?}");
        run.assert_says("far: the interface went down or was removed\n");
        run.assert_says("all 6 segments are good, but");
    }
}

#[test]
fn what_cannot_be_captured_from_is_said_in_one_line() {
    if !is_inside("live::what_cannot_be_captured_from_is_said_in_one_line") {
        return;
    }
    let refused = |arguments: &[&str]| {
        let run = wireseal([&["verify", "--key", IPV4_KEY], arguments].concat());
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
        run.err.lines().last().unwrap().to_owned()
    };
    let said = refused(&["-i", "eth9"]);
    assert_eq!(said, "wireseal: no interface \"eth9\": there are lo, far, near");
    assert_eq!(
        refused(&[]),
        "wireseal: no packets: give a capture, - for standard input, or an interface with -i"
    );
    assert_eq!(
        refused(&["x.pcap", "-i", "far"]),
        "wireseal: give the capture x.pcap or an interface, not both"
    );
    assert_eq!(
        refused(&["-i", "any", "--promiscuous"]),
        "wireseal: --promiscuous is for interfaces with a name, not for any"
    );
    for option in [&["--count", "3"][..], &["--seconds", "3"], &["--write", "x.pcapng"], &["--promiscuous"]] {
        let said = format!("wireseal: {} needs an interface: -i", option[0]);
        assert_eq!(refused(option), said);
        assert_eq!(refused(&[&["x.pcap"], option].concat()), said);
    }
    shell("ip link set far down");
    let said = refused(&["-i", "far"]);
    assert_eq!(said, "wireseal: far: the interface is down: bring it up with: ip link set far up");

    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_raw", env!("CARGO_BIN_EXE_wireseal")]);
    let run: Run = command.args(["verify", "-i", "far", "--key", IPV4_KEY]).output().unwrap().into();
    assert_eq!(run.code, 2);
    let program = env!("CARGO_BIN_EXE_wireseal");
    assert!(
        run.err.ends_with(&format!(
            "far: capturing needs CAP_NET_RAW: use sudo, or allow it to all who run this file: \
             setcap cap_net_raw,cap_net_admin=ep {program}\n"
        )),
        "{}",
        run.err
    );
}

#[test]
fn a_file_that_cannot_be_written_costs_no_verdict() {
    if !is_inside("live::a_file_that_cannot_be_written_costs_no_verdict") {
        return;
    }
    for option in ["--write", "--html"] {
        // More seconds than a clock counts.
        let ends = ["--seconds", "18446744073709551615", "--count", SEGMENTS];
        let arguments = ["-i", "far", "--key", IPV4_KEY, "--port", "179", option, "/dev/full"];
        let live = Live::start(&[&arguments[..], &ends].concat());
        send_frames(&frames(&session().packets));
        let run = live.end();
        assert_eq!(run.code, 2, "{run:?}");
        run.assert_says("all 6 segments are good\n");
        assert!(run.err.ends_with("wireseal: /dev/full: No space left on device (os error 28)\n"), "{run:?}");
    }
}

#[test]
fn a_filter_for_which_the_kernel_has_no_room_is_made_smaller() {
    const LIMIT: &str = "/proc/sys/net/core/optmem_max";
    // Before Linux 6.9 it is the same in all namespaces, and is not shown in this one.
    if !is_inside("live::a_filter_for_which_the_kernel_has_no_room_is_made_smaller")
        || !Path::new(LIMIT).exists()
    {
        return;
    }
    fs::write(LIMIT, "2048").unwrap();
    let peers: Vec<_> = (0..200).map(|host| format!("--peer=198.51.100.{host}")).collect();
    let mut arguments = vec!["-i", "far", "--key", IPV4_KEY, "--peer=192.0.2.2", "--count", SEGMENTS];
    arguments.extend(peers.iter().map(String::as_str));
    let live = Live::start(&arguments);
    send_frames(&frames(&session().packets));
    live.end().assert_says("all 6 segments are good\n");
}

#[test]
fn dropped_packets_are_counted_and_blamed_on_nobody() {
    if !is_inside("live::dropped_packets_are_counted_and_blamed_on_nobody") {
        return;
    }
    let files = Files::new();
    let file = files.path("seen.pcapng");
    let live = Live::start(&["-i", "far", "--key", IPV4_KEY, "--write", file.to_str().unwrap()]);
    // What its buffer has no room for while it stands still.
    live.signal(Signal::STOP);
    let large = frame(&[&[0x45, 0, 0x05, 0xdc, 0, 0, 0, 0, 64, 4], [0; 1490].as_slice()].concat());
    send("near", std::iter::repeat_n(large.as_slice(), 150_000));
    live.signal(Signal::CONT);
    await_text(&live.out(), " packets: missing answers may be due to that\n");
    // SYNs that nobody answers.
    let mut session = Session::usual([1000, 5000]);
    let syn = session.signed(0, SYN, &MSS, &[]);
    session.repeat(0, &syn, 4);
    for frame in frames(&session.packets) {
        std::thread::sleep(std::time::Duration::from_millis(1100));
        send_frames(&[frame]);
    }
    let run = live.interrupt();
    assert_eq!(run.code, 3, "{run:?}");
    run.assert_says("packets that the kernel dropped: missing answers may be due to that\n");
    run.assert_says("or that was among the");
    assert!(!run.out.contains("NOT OPEN"), "{}", run.out);
    let mut reader = PcapNgReader::new(File::open(&file).unwrap()).unwrap();
    let mut dropped = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::InterfaceStatistics(statistics) = block.unwrap() {
            dropped.extend(statistics.options.into_iter().filter_map(|option| match option {
                InterfaceStatisticsOption::IsbOsDrop(count) => Some(count),
                _ => None,
            }));
        }
    }
    assert!(matches!(dropped[..], [count] if count > 0), "{dropped:?}");
}

/// What a program shows on a terminal.
struct Shown {
    terminal: File,
    /// What was read, and not yet awaited: what comes together may be awaited one by one.
    rest: Vec<u8>,
}

impl Shown {
    /// Reads up to the end of this text, and returns what was shown since the text before.
    #[track_caller]
    fn up_to(&mut self, text: &str) -> String {
        loop {
            let found = self.rest.windows(text.len()).position(|octets| octets == text.as_bytes());
            if let Some(start) = found {
                let shown: Vec<_> = self.rest.drain(..start + text.len()).collect();
                return String::from_utf8_lossy(&shown).into_owned();
            }
            let mut ready = [PollFd::new(&self.terminal, PollFlags::IN)];
            let seconds = Timespec { tv_sec: 60, tv_nsec: 0 };
            let is_ready = rustix::event::poll(&mut ready, Some(&seconds)).unwrap() > 0;
            assert!(is_ready, "{text} is not shown: {}", String::from_utf8_lossy(&self.rest));
            let mut octets = [0; 4096];
            let length = self.terminal.read(&mut octets).unwrap();
            self.rest.extend(&octets[..length]);
        }
    }
}

/// How a user ends it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum By {
    Key,
    Signal,
    TwoSignals,
}

#[test]
fn on_a_terminal_there_is_a_table_which_makes_way_for_the_report() {
    if !is_inside("live::on_a_terminal_there_is_a_table_which_makes_way_for_the_report") {
        return;
    }
    for by in [By::Key, By::Signal, By::TwoSignals] {
        let (ours, theirs) = terminal(Some((24, 80)));
        let before = format!("{:?}", tcgetattr(&theirs).unwrap());
        // The program has the terminal for itself.
        let mut command = Command::new("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_wireseal"), "verify", "-i", "far", "--key", OTHER_KEY]);
        // So that a test that fails ends.
        command.args(["--seconds", "60"]);
        let end = || theirs.try_clone().unwrap();
        let mut child =
            command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm").spawn().unwrap();
        let mut shown = Shown { terminal: File::from(ours), rest: Vec::new() };
        shown.up_to("\x1b[?1049h");
        shown.up_to("PgDn");
        send_frames(&frames(&session().packets));
        shown.up_to("why");
        assert_ne!(format!("{:?}", tcgetattr(&theirs).unwrap()), before);
        let signal = |signal| kill_process(Pid::from_child(&child), signal).unwrap();
        match by {
            By::Key => shown.terminal.write_all(b"q").unwrap(),
            By::Signal => signal(Signal::TERM),
            By::TwoSignals => {
                // Both come at once.
                [Signal::STOP, Signal::HUP, Signal::TERM, Signal::CONT].into_iter().for_each(signal);
                shown.up_to("\x1b[?1049l");
                // It may be so fast that it has ended as with one signal.
                let code = child.wait().unwrap().code().unwrap();
                assert!([1, 128 + 1, 128 + 15].contains(&code), "{code}");
                assert_eq!(format!("{:?}", tcgetattr(&theirs).unwrap()), before);
                continue;
            }
        }
        let rest = shown.up_to("6 of 6 segments failed");
        // The screen of before, then the report.
        let restored = rest.find("\x1b[?1049l").unwrap();
        assert!(restored < rest.find("connection 1: 192.0.2.1:50000 -> 192.0.2.2:179").unwrap(), "{rest}");
        assert_eq!(child.wait().unwrap().code(), Some(1));
        assert_eq!(format!("{:?}", tcgetattr(&theirs).unwrap()), before);
    }
}
