//! `wireseal probe`: what it says of made-up hosts, word for word.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use wireseal::probe::{Answer, Findings, Setting, Verdict, Way, json, steps, text};
use wireseal_agent::probe::{
    Ability, AoKey, CarriedBy, Daemon, Host, Kernel, Namespace, ProbedSocket, Process, Protection, Role,
    RunningGateway, Service,
};
use wireseal_linux::KeyId;

use crate::support::files::{Files, crates, workspace_file};
use crate::support::pictures::{assert_is_picture, drawing};
use crate::support::program::{Run, path};
use crate::support::schema::Schema;

/// A kernel with or without TCP-AO, and all the rest.
fn kernel(has_tcp_ao: bool) -> Kernel {
    Kernel {
        release: if has_tcp_ao { "7.3.4+deb13-amd64" } else { "6.12.118+deb13-amd64" }.to_owned(),
        tcp_ao: if has_tcp_ao { Ability::Yes } else { Ability::No },
        tcp_md5: Ability::Yes,
        packet_queues: Ability::Yes,
        seccomp_notifications: Ability::Yes,
    }
}

fn setting() -> Setting {
    Setting {
        program: "/usr/bin/wireseal".to_owned(),
        is_root: true,
        has_gateway_unit: true,
        has_run_unit: true,
        has_keys: false,
    }
}

fn process(pid: u32, executable: &str, unit: Option<&str>) -> Process {
    Process {
        pid,
        name: executable.rsplit('/').next().unwrap().to_owned(),
        executable: Some(PathBuf::from(executable)),
        user: Some(0),
        is_in_container: false,
        is_under_run: false,
        unit: unit.map(str::to_owned),
    }
}

fn listener(process: &Process, local: &str) -> ProbedSocket {
    let local: SocketAddr = local.parse().unwrap();
    ProbedSocket {
        namespace: None,
        device: None,
        vrf: None,
        service: match local.port() {
            646 => Service::Ldp,
            3323 => Service::Rtr,
            _ => Service::Bgp,
        },
        role: Role::Listener,
        local,
        protection: Protection::default(),
        process: Some(process.clone()),
    }
}

fn session(process: &Process, local: &str, peer: &str) -> ProbedSocket {
    let peer: SocketAddr = peer.parse().unwrap();
    let is_opener = Some(peer.port() < 4000);
    let role = Role::Session { peer, is_opener, is_established: true };
    let service = if peer.port() == 3323 { Service::Rtr } else { Service::Bgp };
    ProbedSocket { role, service, ..listener(process, local) }
}

fn key(peer: &str, id: u8, is_current: bool, is_rnext: bool) -> AoKey {
    AoKey {
        peer: peer.parse().unwrap(),
        send_id: KeyId(id),
        recv_id: KeyId(id + 100),
        algorithm: "cmac(aes128)".to_owned(),
        is_current,
        is_rnext,
    }
}

fn with(socket: ProbedSocket, protection: Protection) -> ProbedSocket {
    ProbedSocket { protection, ..socket }
}

/// Bound to a VRF.
fn in_vrf(name: &str, socket: ProbedSocket) -> ProbedSocket {
    ProbedSocket { device: Some(name.to_owned()), vrf: Some(name.to_owned()), ..socket }
}

fn tcp_ao(keys: Vec<AoKey>) -> Protection {
    Protection { tcp_ao: keys, ..Protection::default() }
}

fn not_known() -> Protection {
    Protection { unknown: vec!["its keys: ptrace is not permitted".to_owned()], ..Protection::default() }
}

/// FRR with an unprotected session, one with a cache, and one with TCP-MD5.
fn frr() -> Vec<ProbedSocket> {
    let bgpd = process(411, "/usr/lib/frr/bgpd", Some("frr.service"));
    let md5 = Protection { tcp_md5: vec!["192.0.2.3/32".parse().unwrap()], ..Protection::default() };
    vec![
        with(listener(&bgpd, "0.0.0.0:179"), md5.clone()),
        session(&bgpd, "192.0.2.1:179", "192.0.2.2:41822"),
        session(&bgpd, "[2001:db8::1]:40110", "[2001:db8::2]:179"),
        with(session(&bgpd, "192.0.2.1:40112", "192.0.2.3:179"), md5),
        session(&bgpd, "192.0.2.1:50000", "198.51.100.9:3323"),
    ]
}

/// Every other case.
fn others() -> Vec<ProbedSocket> {
    let bird = process(500, "/usr/sbin/bird", Some("bird.service"));
    let plain_bird = Process { is_in_container: true, ..process(501, "/usr/sbin/bird", None) };
    let gobgpd = process(600, "/usr/bin/gobgpd", Some("gobgpd.service"));
    let supervised = Process { is_under_run: true, ..process(700, "/usr/sbin/bgpd", None) };
    let cache = process(800, "/usr/bin/routinator", None);
    let carried = process(900, "/usr/bin/stayrtr", None);
    let hostile = Process {
        name: "\x1b[31mbird\n\u{9b}".to_owned(),
        ..process(1000, "/tmp/$(reboot)\x07", Some("a$(reboot)\x1b[2J.service"))
    };
    let anybodys = Process { user: Some(1000), ..process(1200, "/home/mallory/bird", None) };
    let ldpd = process(1100, "/usr/lib/frr/ldpd", Some("frr.service"));
    let blue = Namespace { name: Some("blue".to_owned()), pid: Some(501), inode: 4026532001 };
    let nameless = Namespace { name: None, pid: Some(1000), inode: 4026532002 };
    let opening = Role::Session {
        peer: "192.0.2.60:179".parse().unwrap(),
        is_opener: Some(true),
        is_established: false,
    };
    let gateway = CarriedBy { pid: 77, peers: vec!["192.0.2.90".to_owned()] };
    let gateway = Protection { gateway: Some(gateway), ..Protection::default() };
    let keys = vec![key("192.0.2.50/32", 1, true, false), key("192.0.2.50/32", 2, false, true)];
    let in_blue = |socket| ProbedSocket { namespace: Some(blue.clone()), ..socket };
    let in_nameless = |socket| ProbedSocket { namespace: Some(nameless.clone()), ..socket };
    let required = Protection { is_ao_required: true, ..tcp_ao(vec![key("192.0.2.0/24", 1, false, false)]) };
    vec![
        with(listener(&bird, "[::]:179"), required),
        with(session(&bird, "192.0.2.1:179", "192.0.2.50:40000"), tcp_ao(keys)),
        with(
            session(&bird, "192.0.2.1:179", "192.0.2.51:40000"),
            tcp_ao(vec![key("192.0.2.51/32", 1, true, true)]),
        ),
        session(&gobgpd, "192.0.2.1:40001", "192.0.2.61:179"),
        ProbedSocket { role: opening, ..session(&gobgpd, "192.0.2.1:40000", "192.0.2.60:179") },
        session(&supervised, "192.0.2.1:179", "192.0.2.70:40000"),
        listener(&cache, "127.0.0.1:3323"),
        session(&cache, "127.0.0.1:3323", "127.0.0.1:40000"),
        with(listener(&carried, "0.0.0.0:3323"), gateway),
        listener(&ldpd, "0.0.0.0:646"),
        ProbedSocket {
            process: None,
            ..with(session(&cache, "192.0.2.1:179", "192.0.2.99:40000"), not_known())
        },
        session(&anybodys, "192.0.2.1:40003", "192.0.2.63:179"),
        in_blue(session(&plain_bird, "192.0.2.1:179", "192.0.2.55:40000")),
        in_nameless(session(&hostile, "192.0.2.1:179", "192.0.2.100:40000")),
        in_nameless(in_vrf("$(reboot)", listener(&hostile, "0.0.0.0:179"))),
        in_vrf("vrf-red", session(&gobgpd, "192.0.2.1:40002", "192.0.2.62:179")),
    ]
}

fn host(has_tcp_ao: bool, sockets: Vec<ProbedSocket>) -> Host {
    let unseen = vec!["network namespace 4026532009: \x1b[1mno permission".to_owned()];
    let carried = sockets.iter().find_map(|socket| socket.protection.gateway.as_ref());
    let gateways = carried.map(|CarriedBy { pid, peers }| RunningGateway {
        namespace: None,
        pid: *pid,
        ports: vec![179, 3323],
        peers: peers.clone(),
    });
    Host { kernel: kernel(has_tcp_ao), sockets, gateways: gateways.into_iter().collect(), unseen }
}

/// What a package installs.
fn is_packaged(process: &Process) -> bool {
    process.executable.as_ref().is_some_and(|path| path.starts_with("/usr"))
}

fn findings(host: Host) -> Findings {
    let daemon = |process: &Process| match process.pid {
        411 | 1100 => Daemon::named("FRR", Some("10.3")),
        500 | 1200 => Daemon::named("BIRD", Some("3.1.4")),
        501 => Daemon::named("BIRD", None),
        600 => Daemon::named("GoBGP", Some("4.10.0")),
        700 => Daemon::named("OpenBGPD", None),
        800 => Daemon::named("Routinator", Some("0.14.2")),
        900 => Daemon::named("StayRTR", Some("0.6.2")),
        _ => None,
    };
    Findings::new(host, daemon, is_packaged)
}

fn said(findings: &Findings, setting: &Setting) -> String {
    written(findings, setting, false)
}

fn written(findings: &Findings, setting: &Setting, colours: bool) -> String {
    let mut output = Vec::new();
    text(&mut output, findings, &steps(findings, setting), setting, colours).unwrap();
    String::from_utf8(output).unwrap()
}

/// Compares with a file in `tests/data/probe`.
/// To write them anew: `WIRESEAL_WRITE=1 cargo test -p wireseal --test it probe::every`.
#[track_caller]
fn assert_as_written(name: &str, said: &str) {
    let path = format!("cli/tests/data/probe/{name}.txt");
    if std::env::var_os("WIRESEAL_WRITE").is_some() {
        fs::write(crates().join(&path), said).unwrap();
    }
    let written = String::from_utf8(workspace_file(&path)).unwrap();
    assert!(said == written, "crates/{path} does not have this:\n{said}");
}

#[test]
fn every_case_is_said_as_it_is_written_here() {
    let all = || [frr(), others()].concat();
    assert_as_written("all-with-tcp-ao", &said(&findings(host(true, all())), &setting()));
    assert_as_written("all-without-tcp-ao", &said(&findings(host(false, all())), &setting()));
    // A program that was copied there, on a kernel without anything.
    let bare = Setting { is_root: false, has_gateway_unit: false, has_run_unit: false, ..setting() };
    assert_as_written("frr-without-package", &said(&findings(host(false, frr())), &bare));
    let mut nothing = host(false, frr());
    nothing.kernel.packet_queues = Ability::Unknown("CAP_NET_ADMIN is missing".to_owned());
    assert_as_written("frr-not-root", &said(&findings(nothing.clone()), &bare));
    nothing.kernel.packet_queues = Ability::No;
    nothing.unseen.clear();
    assert_as_written("frr-without-queues", &said(&findings(nothing), &setting()));
}

/// FRR, GoBGP and BIRD with each other.
fn of_the_page() -> Vec<ProbedSocket> {
    let [bgpd, gobgpd, bird] = [
        (411, "/usr/lib/frr/bgpd", "frr"),
        (602, "/usr/bin/gobgpd", "gobgpd"),
        (502, "/usr/sbin/bird", "bird"),
    ]
    .map(|(pid, path, unit)| process(pid, path, Some(&format!("{unit}.service"))));
    let md5 = |peer: &str| Protection { tcp_md5: vec![peer.parse().unwrap()], ..Protection::default() };
    vec![
        with(listener(&bgpd, "192.0.2.1:179"), md5("192.0.2.3/32")),
        session(&bgpd, "192.0.2.1:42929", "192.0.2.2:179"),
        with(session(&bgpd, "192.0.2.1:44035", "192.0.2.3:179"), md5("192.0.2.3/32")),
        listener(&gobgpd, "192.0.2.2:179"),
        session(&gobgpd, "192.0.2.2:179", "192.0.2.1:42929"),
        with(listener(&bird, "192.0.2.3:179"), md5("192.0.2.1/32")),
        with(session(&bird, "192.0.2.3:179", "192.0.2.1:44035"), md5("192.0.2.1/32")),
    ]
}

#[test]
fn the_pages_show_what_is_said() {
    let daemon = |process: &Process| match process.pid {
        411 => Daemon::named("FRR", Some("10.3")),
        602 => Daemon::named("GoBGP", Some("3.36.0")),
        _ => Daemon::named("BIRD", Some("3.1.8")),
    };
    let of_frr =
        Findings::new(Host { unseen: Vec::new(), ..host(false, of_the_page()) }, daemon, is_packaged);
    let drawn = written(&of_frr, &setting(), true);
    assert_is_picture("probe.svg", &drawing(&format!("$ wireseal probe\n{drawn}")));
    let new = findings(host(true, Vec::new()));
    for (page, findings) in [("probe.md", of_frr), ("kernels.md", new)] {
        let said = said(&findings, &setting());
        let said: String = said.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        let page = String::from_utf8(workspace_file(&format!("../docs/{page}"))).unwrap();
        let shown = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
        for part in shown.split("…\n") {
            assert!(said.contains(part), "{part}\nis not in\n{said}");
        }
    }
}

#[test]
fn the_answer_counts_what_is_unprotected_and_what_could_not_be_judged() {
    let bgpd = process(411, "/usr/lib/frr/bgpd", None);
    let bare = session(&bgpd, "192.0.2.1:179", "192.0.2.2:40000");
    let signed = with(bare.clone(), tcp_ao(vec![key("192.0.2.2/32", 1, true, true)]));
    let unknown = with(bare.clone(), not_known());
    let local = listener(&bgpd, "[::1]:179");
    let open = listener(&bgpd, "[::]:179");
    let answer = |sockets: &[&ProbedSocket], unseen: &[&str]| {
        let unseen = unseen.iter().map(|clause| (*clause).to_owned()).collect();
        let sockets = sockets.iter().map(|socket| (*socket).clone()).collect();
        let findings = findings(Host { kernel: kernel(true), sockets, gateways: Vec::new(), unseen });
        (findings.answer(), findings.sentence())
    };
    for (sockets, unseen, expected, sentence) in [
        (
            &[][..],
            &[][..],
            Answer::Protected,
            "there is no session or listener of BGP, LDP, MSDP, PCEP, RTR or BMP",
        ),
        (
            &[],
            &["the sockets of others"],
            Answer::NotJudged,
            "no session or listener was found, but not everything could be seen",
        ),
        (&[&signed, &local], &[], Answer::Protected, "1 session and 1 listener: all protected"),
        (&[&signed], &["others"], Answer::NotJudged, "1 session that could be seen: all protected"),
        (
            &[&signed, &unknown, &unknown],
            &[],
            Answer::NotJudged,
            "2 of 3 sessions could not be judged; nothing unprotected was found",
        ),
        (&[&bare, &signed, &unknown], &["others"], Answer::Unprotected, "1 of 3 sessions is not protected"),
        (
            &[&bare, &bare, &signed, &open, &local],
            &[],
            Answer::Unprotected,
            "2 of 3 sessions and 1 of 2 listeners are not protected",
        ),
        (&[&open], &[], Answer::Unprotected, "1 of 1 listener is not protected"),
    ] {
        assert_eq!(answer(sockets, unseen), (expected, sentence.to_owned()));
    }
}

#[test]
fn no_name_that_a_user_chose_gets_into_a_command_or_to_the_terminal() {
    for has_tcp_ao in [true, false] {
        let findings = findings(host(has_tcp_ao, others()));
        for setting in [setting(), Setting { has_gateway_unit: false, has_run_unit: false, ..setting() }] {
            let steps = steps(&findings, &setting);
            for step in &steps {
                for command in &step.commands {
                    assert!(!command.contains("reboot"), "{command}");
                    assert!(!command.contains(char::is_control), "{command:?}");
                }
            }
            let said = said(&findings, &setting);
            assert!(!said.contains(|letter: char| letter.is_control() && letter != '\n'), "{said:?}");
            for step in &steps {
                assert!(crates().join("..").join(step.page).exists(), "{} is not there", step.page);
            }
            let hostile: Vec<_> = steps
                .iter()
                .filter(|step| {
                    findings.groups[step.group].process.as_ref().is_some_and(|process| process.pid == 1000)
                })
                .collect();
            assert_eq!(hostile.len(), 1);
            assert_eq!(hostile[0].peers, ["192.0.2.100"]);
        }
    }
    // Nothing of a peer whose VRF has such a name.
    let gobgpd = process(600, "/usr/bin/gobgpd", None);
    let session = session(&gobgpd, "192.0.2.1:179", "192.0.2.2:40000");
    let findings = findings(host(true, vec![in_vrf("a'b", session)]));
    let steps = steps(&findings, &setting());
    assert!(steps[0].peers.is_empty() && steps[0].commands.is_empty(), "{steps:#?}");
}

#[test]
fn nothing_is_recommended_that_the_machine_cannot_do() {
    let way = |change: &dyn Fn(&mut Host), sockets: Vec<ProbedSocket>| {
        let mut host = Host { unseen: Vec::new(), ..host(true, sockets) };
        change(&mut host);
        steps(&findings(host), &setting()).iter().map(|step| step.way).collect::<Vec<_>>()
    };
    let gobgpd = process(600, "/usr/bin/gobgpd", Some("gobgpd.service"));
    let bgp = vec![session(&gobgpd, "192.0.2.1:40001", "192.0.2.61:179")];
    let of_vrf = vec![ProbedSocket { device: Some("eth0".to_owned()), ..in_vrf("vrf-red", bgp[0].clone()) }];
    let bmp = vec![ProbedSocket { service: Service::Bmp, ..bgp[0].clone() }];
    assert_eq!(way(&|_| (), bgp.clone()), [Way::Daemon]);
    assert_eq!(way(&|_| (), bmp.clone()), [Way::Run], "GoBGP signs BGP alone");
    let no_tcp_ao = |host: &mut Host| host.kernel.tcp_ao = Ability::No;
    assert_eq!(way(&no_tcp_ao, bgp.clone()), [Way::Gateway]);
    assert_eq!(way(&no_tcp_ao, of_vrf), [Way::Kernel], "bound to a device in the VRF");
    let no_seccomp = |host: &mut Host| host.kernel.seccomp_notifications = Ability::No;
    assert_eq!(way(&no_seccomp, bmp), [Way::Gateway]);
    let nothing = |host: &mut Host| {
        no_tcp_ao(host);
        host.kernel.packet_queues = Ability::No;
    };
    assert_eq!(way(&nothing, bgp), [Way::Kernel]);
}

/// What a shell does with the commands, in a folder instead of `/`: nothing is started, stopped or signalled, and gateways only say what
/// they would do.
fn pasted(commands: &[String], root: &Files) -> Run {
    let begin = "set -e; systemctl() { echo \"systemctl $*\"; }; kill() { echo \"kill $*\"; }; ip() { shift 3; \"$@\"; }; \
                 nsenter() { shift; \"$@\"; }; wireseal() { case $1 in gateway) command wireseal \"$@\" --dry-run;; \
                 *) command wireseal \"$@\";; esac; }\n";
    let etc = root.path("etc/");
    let commands = commands.join("\n").replace("/etc/", etc.to_str().unwrap());
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{begin}{commands}")]).current_dir(root.path(".")).env("PATH", path());
    command.output().unwrap().into()
}

#[test]
fn the_commands_can_be_pasted() {
    let pid = std::process::id();
    let make = |path: &str, unit: &str| process(pid, path, Some(unit));
    let bgpd = make("/usr/lib/frr/bgpd", "frr.service");
    let exabgp = Process { name: "exabgp".to_owned(), ..make("/usr/bin/python3.13", "exabgp.service") };
    let bird = make("/usr/sbin/bird", "bird.service");
    let gobgpd = make("/usr/bin/gobgpd", "gobgpd.service");
    let other = make("/opt/other/bgp", "other.service");
    let blue = Namespace { name: Some("blue".to_owned()), pid: None, inode: 1 };
    let bare = Setting { has_gateway_unit: false, has_run_unit: false, ..setting() };
    let peers = ["192.0.2.2", "2001:db8::2"];
    for (process, daemon, has_tcp_ao, setting, namespace, port, way, last) in [
        (&bgpd, "FRR", false, setting(), None, 179, Way::Gateway, "systemctl restart frr"),
        (&bgpd, "FRR", false, bare.clone(), None, 3323, Way::Gateway, ""),
        (&bgpd, "FRR", false, setting(), Some(&blue), 179, Way::Gateway, ""),
        (&bgpd, "FRR", true, setting(), None, 3323, Way::Run, "systemctl restart frr"),
        (&exabgp, "ExaBGP", true, setting(), None, 179, Way::Run, ""),
        (&other, "RustyBGP", true, setting(), None, 179, Way::Run, ""),
        (&bird, "BIRD", false, setting(), None, 179, Way::Gateway, "systemctl restart bird"),
        (&bird, "BIRD", true, setting(), None, 179, Way::Daemon, ""),
        (&gobgpd, "GoBGP", true, setting(), None, 179, Way::Daemon, ""),
    ] {
        let root = Files::new();
        for folder in ["frr", "wireseal", "bird"] {
            fs::create_dir_all(root.path("etc").join(folder)).unwrap();
        }
        fs::write(root.path("etc/bird/bird.conf"), "").unwrap();
        fs::write(root.path("etc/frr/daemons"), "bgpd=yes\nbgpd_wrap=\"old\"\n").unwrap();
        fs::write(root.path("etc/wireseal/gateway.toml"), "key-chains = \"keys.toml\"\n\n[peers]\n").unwrap();
        let sessions = peers.map(|peer| {
            let local = if peer.contains(':') { "[2001:db8::1]:40000" } else { "192.0.2.1:40000" };
            let peer = SocketAddr::new(peer.parse().unwrap(), port).to_string();
            ProbedSocket { namespace: namespace.cloned(), ..session(process, local, &peer) }
        });
        let host = Host { unseen: Vec::new(), ..host(has_tcp_ao, sessions.into()) };
        let findings = Findings::new(host, |_| Daemon::named(daemon, Some("4.10")), |_| true);
        let steps = steps(&findings, &setting);
        let [step] = &steps[..] else { panic!("{steps:#?}") };
        assert_eq!((step.way, &step.peers[..]), (way, &peers.map(str::to_owned)[..]), "{step:#?}");
        let run = pasted(&step.commands, &root);
        assert_eq!(run.code, 0, "{step:#?}\n{run:#?}");
        assert!(run.out.trim_end().ends_with(last), "{step:#?}\n{}", run.out);
        // What was written is what the program takes.
        let config = match way {
            Way::Gateway if last.is_empty() => None,
            Way::Gateway => Some("gateway --config /etc/wireseal/gateway.toml"),
            Way::Run if daemon == "FRR" => Some("run --dry-run --config /etc/wireseal/frr.toml"),
            Way::Run if daemon == "ExaBGP" => Some("run --dry-run --config /etc/wireseal/exabgp.toml"),
            Way::Run => Some("run --dry-run --config /etc/wireseal/other.toml"),
            _ => None,
        };
        let said = config.map_or(run, |config| pasted(&[format!("wireseal {config}")], &root)).out;
        if matches!(way, Way::Gateway | Way::Run) {
            for peer in peers {
                assert!(said.contains(&format!("peer {peer}: key chain core\n")), "{said}");
            }
            let ports =
                if last.is_empty() && port != 179 { format!("179, {port}") } else { port.to_string() };
            assert!(said.contains(&format!("ports: {ports}\n")), "{said}");
        }
        if (daemon, way) == ("FRR", Way::Run) {
            let daemons = fs::read_to_string(root.path("etc/frr/daemons")).unwrap();
            let wrap = "bgpd_wrap=\"/usr/bin/wireseal run --background --config ";
            assert!(
                daemons.starts_with(&format!("bgpd=yes\n{wrap}")) && daemons.lines().count() == 2,
                "{daemons}"
            );
        }
        // Nothing that a process says of itself is in a command.
        assert!(!step.commands.iter().any(|command| command.contains("/proc/")), "{step:#?}");
        if daemon == "RustyBGP" {
            let env = "`systemctl cat other` shows, to /etc/wireseal/other.env";
            assert!(step.notes.iter().any(|note| note.contains(env)), "{step:#?}");
        }
        if (daemon, way) == ("BIRD", Way::Daemon) {
            let template = fs::read_to_string(root.path("etc/bird/core.conf")).unwrap();
            assert!(template.contains("template bgp 'core' {") && template.contains("authentication ao;"));
        }
        // A second time nothing is written over.
        if matches!(way, Way::Run | Way::Daemon) {
            assert_ne!(pasted(&step.commands, &root).code, 0);
        }
        // Nor is a peer in the gateway's file twice.
        if let (Way::Gateway, Some(config)) = (way, config) {
            let again = pasted(&step.commands[1..], &root);
            let said = pasted(&[format!("wireseal {config}")], &root);
            assert_eq!((again.code, said.code), (0, 0), "{step:#?}\n{said:#?}");
        }
    }
}

#[test]
fn a_gateway_that_runs_keeps_its_ports_and_peers() {
    let cache = process(800, "/usr/bin/routinator", Some("routinator.service"));
    let sockets = ["192.0.2.2:40000", "192.0.2.3:40000"].map(|peer| session(&cache, "192.0.2.1:3323", peer));
    let step = |gateway: Option<(&[u16], &str)>| {
        let gateways = gateway.into_iter().map(|(ports, peer)| RunningGateway {
            namespace: None,
            pid: 77,
            ports: ports.to_vec(),
            peers: vec![peer.to_owned()],
        });
        let host = Host { gateways: gateways.collect(), ..host(false, sockets.to_vec()) };
        steps(&findings(host), &setting()).remove(0)
    };
    let root = Files::new();
    fs::create_dir_all(root.path("etc/wireseal")).unwrap();
    let file = "key-chains = \"keys.toml\"\nports = [179, 646]\n\n[peers]\n\"192.0.2.3\" = \"core\"\n";
    fs::write(root.path("etc/wireseal/gateway.toml"), file).unwrap();
    let run = pasted(&step(Some((&[179, 646], "192.0.2.3"))).commands, &root);
    assert_eq!(run.code, 0, "{run:#?}");
    assert!(run.out.ends_with("systemctl reload wireseal-gateway\n"), "{}", run.out);
    let said = pasted(&["wireseal gateway --config /etc/wireseal/gateway.toml".to_owned()], &root).out;
    for line in ["ports: 179, 646, 3323\n", "peer 192.0.2.2: key", "peer 192.0.2.3: key"] {
        assert!(said.contains(line), "{said}");
    }
    // Its file is changed where it lacks something, and only where that is known.
    let has_all = step(Some((&[179, 3323], "192.0.2.0/24")));
    assert_eq!(has_all.commands, ["wireseal status"], "{has_all:#?}");
    for (gateway, said) in [
        (None, "includes 179, 3323; then `systemctl enable --now"),
        (Some((&[][..], "192.0.2.3")), "includes 3323; then `systemctl reload"),
    ] {
        let step = step(gateway);
        let is_started = |command: &String| command.contains("sed") || command.contains("systemctl");
        assert!(!step.commands.iter().any(is_started), "{step:#?}");
        assert!(step.notes.iter().any(|note| note.contains(said)), "{step:#?}");
    }
}

#[test]
fn commands_are_only_about_a_program_that_root_alone_can_change() {
    let bird = process(500, "/usr/sbin/bird", Some("bird.service"));
    let said_of = |process: &Process, daemon: &str, is_roots: bool| {
        let host = host(true, vec![session(process, "192.0.2.1:40001", "192.0.2.61:179")]);
        let findings = Findings::new(host, |_| Daemon::named(daemon, Some("2.17")), |_| is_roots);
        steps(&findings, &setting()).remove(0)
    };
    let chown = "chown --reference=/etc/bird/bird.conf /etc/bird/core.conf".to_owned();
    assert!(said_of(&bird, "BIRD", true).commands.contains(&chown));
    let without_unit = Process { unit: None, ..bird.clone() };
    for daemon in ["BIRD", "GoBGP", "FRR", "RustyBGP", ""] {
        for step in
            [said_of(&bird, daemon, false), said_of(&without_unit, daemon, true), said_of(&bird, "", true)]
        {
            assert_eq!(step.commands, [""; 0], "{step:#?}");
            assert!(step.notes.iter().any(|note| note.contains("No commands are shown")), "{step:#?}");
        }
    }
    assert!(said_of(&bird, "", true).reason.ends_with("whether process 500 has it is not known."));
}

#[test]
fn the_schema_has_every_word() {
    let mut schema = Schema::load("probe.json");
    let mut unknown = host(true, [frr(), others()].concat());
    unknown.kernel.packet_queues = Ability::Unknown("CAP_NET_ADMIN is missing".to_owned());
    let empty = Host { unseen: Vec::new(), ..host(false, Vec::new()) };
    for host in [host(false, [frr(), others()].concat()), unknown, empty] {
        let findings = findings(host);
        schema.holds(&json(&findings, &steps(&findings, &setting())));
    }
    schema.was_seen_whole();
}

#[test]
fn json_and_text_say_the_same() {
    let findings = findings(host(false, [frr(), others()].concat()));
    let all = steps(&findings, &setting());
    let object = json(&findings, &all);
    let said = said(&findings, &setting());
    assert!(said.starts_with(&format!("{}\n", object["sentence"].as_str().unwrap())), "{said}");
    for step in object["steps"].as_array().unwrap() {
        for command in step["commands"].as_array().unwrap() {
            assert!(said.contains(&format!("\n     {}\n", command.as_str().unwrap())), "{command}");
        }
    }
    let sockets =
        object["groups"].as_array().unwrap().iter().flat_map(|group| group["sockets"].as_array().unwrap());
    let words: Vec<_> = sockets.map(|socket| socket["protected-by"].as_str().unwrap()).collect();
    let verdicts = findings.groups.iter().flat_map(|group| &group.sockets).map(|(_, verdict)| verdict.name());
    assert!(verdicts.eq(words.iter().copied()), "{words:?}");
    for verdict in [
        Verdict::TcpAo,
        Verdict::Gateway,
        Verdict::TcpMd5,
        Verdict::OnlyLocal,
        Verdict::Unprotected,
        Verdict::NotJudged,
    ] {
        assert!(words.contains(&verdict.name()), "{verdict:?}");
    }
}
