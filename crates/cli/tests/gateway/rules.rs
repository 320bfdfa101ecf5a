//! The rules by which the kernel gives packets to the gateway, and changes of them by other programs.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::net::{Net, Python, Side, WIRESEAL, await_that, backend_of};
use crate::{IPV4, IPV6, first};

/// Learns a session from 192.0.2.1 to 192.0.2.2 on the former's wire, and sends segments in its name that bypass all rules there.
const FORGE: &str = "
import socket, struct, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(('wire', 0))
print('ready', flush=True)
while True:
    f = s.recv(2000)
    if f[12:14] == b'\\x08\\x00' and f[23] == 6 and f[29] == 1 and f[36:38] == b'\\0\\xb3': break
length, = struct.unpack('!H', f[16:18])
port, _, seq, ack, words = struct.unpack('!HHIIB', f[34:47])
seq += length - 20 - (words >> 4) * 4
def checksum(data):
    data += b'\\0' * (len(data) % 2)
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return struct.pack('!H', ~total & 0xffff)
tcp = struct.pack('!HHIIBBHHH', port, 179, seq & 0xffffffff, ack, 0x50, flags, 500, 0, 0) + payload
tcp = tcp[:16] + checksum(f[26:34] + struct.pack('!HH', 6, len(tcp)) + tcp) + tcp[18:]
ip = b'\\x45\\0' + struct.pack('!H', 20 + len(tcp)) + b'\\0\\0\\x40\\0\\x40\\x06\\0\\0' + f[26:34]
frame = f[:14] + ip[:10] + checksum(ip) + ip[12:] + tcp
s.send(frame)
print('sent', flush=True)
while True:
    time.sleep(.002)
    s.send(frame)
";

/// Sends segments with these flags and octets in the name of the session's client at A, once its next packet was seen.
fn forge(net: &Net, flags: &str, payload: &str) -> Python {
    let forger = net.python(Side::A, &format!("flags, payload = {flags}, b'{payload}'\n{FORGE}"), "");
    forger.await_ready();
    forger
}

/// Writes everything received into a file.
const KEEP: &str = "
import socket
l = socket.create_server(('192.0.2.2', 179))
print('ready', flush=True)
s, _ = l.accept()
while True:
    part = s.recv(100)
    if not part: break
    open(path, 'ab').write(part)
    s.sendall(part)
";

const TALK: &str = "
import socket
s = socket.create_connection(('192.0.2.2', 179), 5)
print('connected', flush=True)
input()
s.sendall(b'hello')
input()
";

#[test]
fn what_is_forged_stays_out_whichever_queue_it_is_in() {
    let net = Net::new(1500);
    let peers: Vec<_> = (0..1000).map(|n| format!("\"10.1.{}.{}\" = \"core\"\n", n / 250, n % 250)).collect();
    let config = net.peers(&peers.concat());
    let programs = net.without_nft();
    let _other = net.gateway(Side::A, &first(), &[]);
    let of_threads = |threads: &str| {
        net.gateway_with_path(Side::B, &first(), &["--config", &config, "--threads", threads], &programs)
    };
    let gateway = of_threads("2");
    let kept = net.folder().join("kept");
    let serve = net.python(Side::B, &format!("path = '{}'\n{KEEP}", kept.display()), "");
    serve.await_ready();
    let talk = net.python(Side::A, TALK, "");
    assert_eq!(talk.line(), "connected");
    // It learns the one segment with data, after which the server waits for more.
    let forger = forge(&net, "0x18", "EVIL");
    talk.say("");
    assert_eq!(forger.line(), "sent");
    // The queues for packets from programs: 17900 and 17901.
    for _ in 0..10 {
        let queue = "iptables -w -t raw -I PREROUTING -p tcp --dport 179 -j NFQUEUE --queue-num 17900";
        net.run(Side::B, &format!("{queue}; sleep .05"));
    }
    // With four threads these are the numbers of the old rules for packets to programs, until there are new rules.
    gateway.kill();
    let gateway = of_threads("4");
    std::thread::sleep(Duration::from_millis(300));
    let kept = fs::read(&kept).unwrap();
    assert!(kept.starts_with(b"hello"));
    assert!(!kept.windows(4).any(|part| part == b"EVIL"), "{}", gateway.log());
}

#[test]
fn a_forged_reset_closes_nothing_in_connection_tracking() {
    let net = Net::new(1500);
    net.run(
        Side::B,
        "iptables -w -A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT
         iptables -w -A INPUT -p tcp --syn --dport 179 -j ACCEPT
         iptables -w -A INPUT -p tcp -j DROP
         sysctl -q -w net.netfilter.nf_conntrack_tcp_timeout_close=1",
    );
    let _gateways = net.gateways(&[]);
    let session = net.session(Side::B, IPV4[1], Side::A);
    let forger = forge(&net, "0x04", "");
    assert!(session.echoes());
    assert_eq!(forger.line(), "sent");
    // Connection tracking would forget a closed session, and then the next segment would belong to none.
    drop(forger);
    std::thread::sleep(Duration::from_millis(2500));
    assert!(session.echoes());
}

#[test]
fn one_gateway_runs_in_a_network_namespace() {
    let net = Net::new(1500);
    // At the same moment.
    let mut started: Vec<_> = (0..4)
        .map(|number: u16| {
            let queue = (100 * (number + 1)).to_string();
            let (mut command, keys) = net.gateway_command(Side::A, &first(), &["--queue", &queue]);
            let log = keys.with_extension("log");
            (command.stderr(fs::File::create(&log).unwrap()).stdin(Stdio::null()).spawn().unwrap(), log)
        })
        .collect();
    let has_ended =
        |process: u32| fs::read_to_string(format!("/proc/{process}/stat")).unwrap().contains(" Z ");
    await_that("all but one to end", || {
        started.iter().filter(|(child, _)| has_ended(child.id())).count() == 3
    });
    let is_running = |log: &str| !log.contains("wireseal: ");
    let running = started.iter().position(|(_, log)| is_running(&fs::read_to_string(log).unwrap())).unwrap();
    let (mut running, log) = started.remove(running);
    let holder = format!("runs in this network namespace (process {})", running.id());
    for (mut child, log) in started {
        assert_eq!(child.wait().unwrap().code(), Some(2));
        let log = fs::read_to_string(log).unwrap();
        assert!(log.contains(&format!("wireseal: another gateway {holder}: one carries all peers")), "{log}");
    }
    await_that("the gateway", || fs::read_to_string(&log).unwrap().contains("carries the packets"));
    let remove = format!("{WIRESEAL} gateway --remove-rules 2>&1; echo $?");
    assert_eq!(net.run(Side::A, &remove), format!("wireseal: a gateway {holder}: stop it first\n2\n"));
    // Another network namespace is another host.
    net.gateway(Side::B, &first(), &[]).end();
    running.kill().unwrap();
    running.wait().unwrap();
    net.gateway(Side::A, &first(), &[]).end();
}

#[test]
fn queues_that_another_program_has_are_said() {
    let net = Net::new(1500);
    let bind = "
import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
s.send(struct.pack('=IHHIIBBHHHBBH', 28, 0x302, 5, 0, 0, 0, 0, socket.htons(102), 8, 1, 1, 0, 0))
s.recv(100)
print('ready', flush=True)
input()
";
    let other = net.python(Side::A, bind, "");
    other.await_ready();
    let error = net.refused_gateway(Side::A, &first(), &["--queue", "100", "--threads", "2"]);
    let expected = "cannot bind the packet queues 100 to 104";
    assert!(error.contains(expected) && error.contains("another program has one of them"), "{error}");
}

/// Changes that make a gateway's rules incomplete or let packets bypass them, for the program that has installed them.
fn changes(by: &str) -> &'static [&'static str] {
    match by {
        "nft" => &[
            "nft flush ruleset",
            "nft flush chain inet wireseal inbound",
            "nft delete rule inet wireseal outbound handle $(nft -a list chain inet wireseal outbound | awk '/dport/ { print $NF; exit }')",
            "nft add table inet wireseal '{ flags dormant; }'",
            "nft insert rule inet wireseal from-peers accept",
            "nft delete element inet wireseal ip-peers '{ 192.0.2.2 }'; nft add element inet wireseal ip-peers '{ 192.0.2.3 }'",
        ],
        _ => &[
            "iptables -w -t security -F",
            "ip6tables -w -t security -F WIRESEAL-OUT",
            "iptables -w -t security -D INPUT -j WIRESEAL-LAST",
            "iptables -w -t security -I INPUT -p tcp --dport 179 -j ACCEPT",
            "iptables -w -t security -I WIRESEAL-TO -j ACCEPT",
            // The number of rules stays the same.
            "iptables -w -t security -R WIRESEAL-LATE 1 -s 192.0.2.3 -j NFQUEUE --queue-num 17901",
            "ip6tables -w -t security -R WIRESEAL-LAST 1 -j RETURN",
        ],
    }
}

/// The rules as they are.
fn listed(net: &Net) -> String {
    let list = "for t in raw security mangle; do iptables -w -t $t -S; ip6tables -w -t $t -S; done 2>&1; nft list table inet wireseal 2>&1 || true";
    net.run(Side::A, list)
}

#[test]
fn rules_that_another_program_has_changed_are_installed_again() {
    let net = Net::new(1500);
    let gateway = net.gateway(Side::A, &first(), &[]);
    let before = listed(&net);
    for (number, change) in changes(&gateway.backend()).iter().enumerate() {
        net.run(Side::A, change);
        let started = Instant::now();
        await_that(change, || gateway.log().matches("the rules are installed again").count() == number + 1);
        assert!(started.elapsed() < Duration::from_secs(3), "{change}");
        let mut others = listed(&net);
        if change.contains("--dport 179 -j ACCEPT") {
            net.run(Side::A, &change.replace("-I", "-D"));
            others = listed(&net);
        }
        assert_eq!(others, before, "{change}");
    }
    // Rules of others do not count as a change.
    let others = "iptables -w -A INPUT -p udp -j ACCEPT; iptables -w -t raw -A PREROUTING -p udp -j ACCEPT";
    net.run(Side::A, others);
    std::thread::sleep(Duration::from_millis(300));
    let log = gateway.end();
    let times = log.matches("the rules are installed again").count();
    assert_eq!(times, changes(&backend_of(&log)).len(), "{log}");
}

#[test]
fn rules_that_were_saved_for_other_peers_do_not_stay() {
    let net = Net::new(1500);
    let old = net.gateway(Side::A, &first(), &["--peer", "192.0.2.9"]);
    let by = old.backend();
    let [save, load] = match by.as_str() {
        "nft" => ["nft list ruleset", "nft -f"],
        _ => ["iptables-save", "iptables-restore"],
    };
    let saved = net.folder().join("saved");
    net.run(Side::A, &format!("{save} > {}", saved.display()));
    // The same number of rules, but for other peers.
    let text = fs::read_to_string(&saved).unwrap().replace("192.0.2.9", "192.0.2.8");
    let flush = if by == "nft" { "flush ruleset\n" } else { "" };
    fs::write(&saved, format!("{flush}{text}")).unwrap();
    let before = listed(&net);
    net.run(Side::A, &format!("{load} {}", saved.display()));
    old.await_log("the rules are installed again");
    assert_eq!(listed(&net), before);
    assert!(old.log().contains("192.0.2.8"), "what was wrong: {}", old.log());
}

#[test]
fn a_check_asks_the_gateway_and_says_what_becomes_of_packets() {
    let net = Net::new(1500);
    let none = "no gateway runs, and there are no rules: packets of the peers pass unsigned";
    assert_eq!(net.check(), (1, format!("wireseal: {none}")));
    let gateway = net.gateway(Side::A, &first(), &[]);
    let by = gateway.backend();
    let in_place = (0, format!("a gateway runs, and its rules are in place ({by})"));
    assert_eq!(net.check(), in_place);
    let status = net.status(&["--pid", &gateway.id().to_string()]);
    assert!(status.contains(&format!("rules in {by}: in place")), "{status}");
    gateway.kill();
    let left =
        format!("rules in {by} are there: the packets that they queue are dropped until a gateway runs");
    assert_eq!(net.check(), (1, format!("wireseal: no gateway runs; {left}")));
    net.gateway(Side::A, &first(), &["--queue", "100", "--threads", "1"]).end();
    assert_eq!(
        net.remove_rules(Side::A),
        format!("wireseal: the rules in {by} are removed: the peers' packets pass unsigned\n")
    );
    assert_eq!(net.check(), (1, format!("wireseal: {none}")));
    assert_eq!(net.remove_rules(Side::A), "wireseal: there were no rules\n");
    // Even if some are gone already.
    for change in changes(&by) {
        net.gateway(Side::A, &first(), &[]).end();
        net.run(Side::A, change);
        net.remove_rules(Side::A);
        assert!(!listed(&net).to_lowercase().contains("wireseal-"), "{change}: {}", listed(&net));
    }
}

#[test]
fn rules_that_cannot_be_looked_at_are_not_in_place() {
    let net = Net::new(1500);
    let programs = net.without_nft();
    let gateway = net.gateway_with_path(Side::A, &first(), &[], &programs);
    fs::remove_file(programs.join("iptables")).unwrap();
    net.run(Side::A, "iptables -w -t security -F");
    gateway.await_log("iptables is not installed");
    let (code, said) = net.check();
    assert_eq!(code, 1);
    assert!(said.contains("its rules are not in place") && said.contains("not installed"), "{said}");
    let status = net.status(&["--pid", &gateway.id().to_string()]);
    assert!(status.contains("rules NOT IN PLACE since"), "{status}");
    net.run(Side::A, &format!("ln -s $(command -v iptables) {}/iptables", programs.display()));
    await_that("the rules", || net.check().0 == 0);
    // Logged once, although it was tried again and again.
    assert_eq!(gateway.log().matches("the rules are not in place").count(), 1, "{}", gateway.log());
}

#[test]
fn iptables_may_be_the_legacy_one_by_another_name() {
    let net = Net::new(1500);
    let names = ["iptables", "ip6tables", "iptables-restore", "ip6tables-restore"];
    let legacy = names.map(|name| name.replace("tables", "tables-legacy"));
    let legacy = || legacy.iter().map(String::as_str);
    let programs = legacy().zip(names).chain(legacy().zip(legacy())).chain([("ip", "ip")]);
    let programs = net.programs(programs);
    let gateway = net.gateway_with_path(Side::A, &first(), &[], &programs);
    let rules = "iptables-legacy -w -t security -S | grep -c NFQUEUE || true";
    // Rules for the peer's segments in both directions, and for ICMP errors.
    assert_eq!(net.run(Side::A, rules).trim(), "3");
    assert_eq!(net.check().0, 0);
    // x_tables has no number that changes with its rules.
    net.run(Side::A, "iptables-legacy -w -t security -F WIRESEAL-LAST");
    let started = Instant::now();
    gateway.await_log("the rules are installed again");
    assert!(started.elapsed() < Duration::from_secs(4));
    let log = gateway.end();
    assert_eq!(log.matches("ERROR").count(), 1, "{log}");
    assert_eq!(net.run(Side::A, rules).trim(), "3");
    net.remove_rules(Side::A);
    assert_eq!(net.run(Side::A, rules).trim(), "0");
}

#[test]
fn rules_of_others_see_packets_before_they_are_signed() {
    let net = Net::new(1500);
    let programs = net.without_nft();
    net.run(Side::A, "iptables -w -t mangle -A OUTPUT -p tcp --dport 179 -j DSCP --set-dscp 48");
    net.run(Side::B, "iptables -w -A INPUT -p tcp --dport 179 -m dscp --dscp 48 -j ACCEPT; iptables -w -A INPUT -p tcp -j DROP");
    let _gateways = Side::BOTH.map(|side| net.gateway_with_path(side, &first(), &[], &programs));
    assert!(net.session(Side::B, IPV4[1], Side::A).echoes());
}

#[test]
fn the_log_says_why_the_rules_are_not_in_nftables() {
    let net = Net::new(1500);
    let probe = "printf \"table inet t {\\nchain o {\\ntype filter hook output priority 0;\\nqueue num 5\\n}\\n}\\n\" | nft -f - 2>&1; echo";
    let has_queues = net.run(Side::B, probe).trim().is_empty();
    let gateway = net.gateway(Side::A, &first(), &[]);
    let why = "this kernel's nf_tables has no queues (CONFIG_NFT_QUEUE)";
    assert_eq!(gateway.log().contains(why), !has_queues, "{}", gateway.log());
    assert_eq!(gateway.backend() == "nft", has_queues);
    gateway.end();
    net.remove_rules(Side::A);
    let gateway = net.gateway_with_path(Side::A, &first(), &[], &net.without_nft());
    let log = gateway.log();
    assert!(log.contains("the rules are in iptables, not in nftables why=\"nft is not installed\""), "{log}");
}

#[test]
fn what_nat_leads_to_the_protected_port_is_judged() {
    let net = Net::new(1500);
    let _other = net.gateway(Side::B, &first(), &[]);
    let gateway = net.gateway(Side::A, &first(), &[]);
    let redirect = "for program in iptables ip6tables; do $program -t nat -A PREROUTING -p tcp --dport 8179 -j REDIRECT --to-ports 179; done";
    net.run(Side::A, redirect);
    // Connection tracking tracks this connection.
    net.transfer_at(Side::A, IPV4[0], 8080, Side::B, 1000);
    gateway.await_log("this host tracks connections: from now on");
    for address in [IPV4[0], IPV6[0]] {
        assert!(!net.connects_to(Side::A, address, 8179, Side::B), "{address}");
        assert!(net.connects(Side::A, address, Side::B), "{address}");
    }
    let log = gateway.end();
    assert!(log.contains("segments are not signed"), "{log}");
    net.remove_rules(Side::A);
    assert!(net.connects_to(Side::A, IPV4[0], 8179, Side::B), "it is redirected");
}

/// Sends more SYNs than the queue has room for, from 192.0.2.2 to 192.0.2.1.
const FLOOD: &str = "
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
syn = struct.pack('!HHIIBBHHH', 4000, 179, 1, 0, 0x50, 2, 500, 0, 0)
for n in range(20000): s.sendto(syn, ('192.0.2.1', 0))
print('sent', flush=True)
";

#[test]
fn what_there_was_no_room_for_is_said() {
    let net = Net::new(1500);
    let gateway = net.gateway(Side::A, &first(), &["--threads", "1"]);
    gateway.signal("STOP");
    assert_eq!(net.python(Side::B, FLOOD, "").line(), "sent");
    gateway.signal("CONT");
    gateway.await_log("packets were lost because there was no room");
}
