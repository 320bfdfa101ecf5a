//! What was found, and what to do, for people.

use std::fmt::Display;
use std::io::{self, Write};

use clap::builder::styling::{AnsiColor, Style};
use wireseal_agent::probe::{Ability, AoKey, Namespace, ProbedSocket, Role, Service};

use super::findings::{Answer, Findings, Group, Verdict};
use super::step::{Setting, Step};
use crate::report::table::table;
use crate::terminal::Wrapped;
use crate::text::Printable;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const NOT_JUDGED: Style = AnsiColor::Yellow.on_default();
const HEADING: Style = Style::new().bold();

/// Writes the answer in one line, the kernel, the sockets by daemon, and the steps.
///
/// # Errors
/// Those of writing.
pub fn text(
    output: &mut impl Write,
    findings: &Findings,
    steps: &[Step],
    setting: &Setting,
    colours: bool,
) -> io::Result<()> {
    let styled = |style: Style, text: &dyn Display| match colours {
        true => format!("{style}{text}{style:#}"),
        false => text.to_string(),
    };
    let style = match findings.answer() {
        Answer::Protected => GOOD,
        Answer::Unprotected => BAD,
        Answer::NotJudged => NOT_JUDGED,
    };
    let mut lines = Wrapped::new(&mut *output);
    writeln!(lines, "{}\n", styled(style, &findings.sentence()))?;
    let kernel = &findings.host.kernel;
    writeln!(lines, "Linux {}", Printable(&kernel.release))?;
    for (name, ability) in [
        ("TCP-AO", &kernel.tcp_ao),
        ("TCP-MD5", &kernel.tcp_md5),
        ("packet queues", &kernel.packet_queues),
        ("seccomp notifications", &kernel.seccomp_notifications),
    ] {
        match ability {
            Ability::Yes => writeln!(lines, "  {name:<22} yes")?,
            Ability::No => writeln!(lines, "  {name:<22} no")?,
            Ability::Unknown(why) => writeln!(lines, "  {name:<22} not known: {}", Printable(why))?,
        }
    }
    for group in &findings.groups {
        writeln!(lines, "\n{}", styled(HEADING, &heading(group)))?;
        let header = ["service", "this end", "peer", "protection"];
        let rows = group.sockets.iter().map(|(socket, verdict)| row(socket, *verdict));
        lines.flush()?;
        writeln!(lines, "{}", table(header, rows, 4))?;
    }
    if !steps.is_empty() {
        writeln!(lines, "\n{}", styled(HEADING, &"What to do, as root"))?;
    }
    for (number, step) in steps.iter().enumerate() {
        let peers = match step.peers.as_slice() {
            [] => String::new(),
            [peer] => format!(", peer {peer}"),
            peers => format!(", peers {}", peers.join(", ")),
        };
        let of = subject(&findings.groups[step.group]);
        writeln!(lines, "\n{}. {of}{peers}: {}", number + 1, step.way.in_words())?;
        writeln!(lines, "   {}", Printable(&step.reason))?;
        lines.flush()?;
        // A command is pasted, so it is never wrapped.
        for command in &step.commands {
            writeln!(lines.get_mut(), "     {command}")?;
        }
        for note in &step.notes {
            writeln!(lines, "   {}", Printable(note))?;
        }
        writeln!(lines, "   See {}.", step.page)?;
    }
    if !findings.host.unseen.is_empty() {
        writeln!(lines)?;
    }
    for clause in &findings.host.unseen {
        writeln!(lines, "{} {}", styled(NOT_JUDGED, &"not seen:"), Printable(clause))?;
    }
    if !findings.host.unseen.is_empty() && !setting.is_root {
        writeln!(lines, "`sudo wireseal probe` sees more")?;
    }
    lines.flush()
}

/// `FRR (process 411)`.
fn subject(group: &Group) -> String {
    let name = group.daemon.as_ref().map_or("unknown program", |daemon| daemon.name);
    match &group.process {
        Some(process) => format!("{name} (process {})", process.pid),
        None => "process that could not be seen".to_owned(),
    }
}

/// `FRR 10.3, process 411 (bgpd, /usr/lib/frr/bgpd, user 100, frr.service), in network namespace blue`.
fn heading(group: &Group) -> String {
    let mut text = match &group.daemon {
        Some(daemon) => {
            format!("{} {}", daemon.name, daemon.version.as_deref().unwrap_or("of unknown version"))
        }
        None => "unknown program".to_owned(),
    };
    match &group.process {
        None => "process that could not be seen".clone_into(&mut text),
        Some(process) => {
            let executable = process.executable.as_ref().map(|path| path.to_string_lossy());
            let user = process.user.map(|user| format!("user {user}"));
            let of: Vec<_> = [
                Some(process.name.as_str()),
                executable.as_deref(),
                user.as_deref(),
                process.unit.as_deref(),
                process.is_in_container.then_some("in a container"),
                process.is_under_run.then_some("under wireseal run"),
            ]
            .into_iter()
            .flatten()
            .map(|part| Printable(part).to_string())
            .collect();
            text += &format!(", process {} ({})", process.pid, of.join(", "));
        }
    }
    match &group.namespace {
        None => {}
        Some(Namespace { name: Some(name), .. }) => {
            text += &format!(", in network namespace {}", Printable(name));
        }
        Some(Namespace { inode, .. }) => text += &format!(", in network namespace {inode}"),
    }
    text
}

fn row(socket: &ProbedSocket, verdict: Verdict) -> [String; 4] {
    let service = service(socket.service).to_owned();
    let device = socket.device.as_deref();
    let device = device.map(|device| format!("%{}", Printable(device))).unwrap_or_default();
    let peer = match socket.role {
        Role::Listener => "listens".to_owned(),
        Role::Session { peer, is_established: true, .. } => peer.to_string(),
        Role::Session { peer, .. } => format!("{peer}, not open"),
    };
    [service, format!("{}{device}", socket.local), peer, protection(socket, verdict)]
}

/// The service's name.
pub(super) const fn service(service: Service) -> &'static str {
    match service {
        Service::Bgp => "BGP",
        Service::Ldp => "LDP",
        Service::Msdp => "MSDP",
        Service::Pcep => "PCEP",
        Service::Rtr => "RTR",
        Service::Bmp => "BMP",
    }
}

fn protection(socket: &ProbedSocket, verdict: Verdict) -> String {
    let protection = &socket.protection;
    let is_listener = socket.role == Role::Listener;
    let mut parts = Vec::new();
    if let Some(gateway) = &protection.gateway {
        parts.push(format!("wireseal gateway (process {})", gateway.pid));
    }
    if !protection.tcp_ao.is_empty() {
        let keys: Vec<_> = protection.tcp_ao.iter().map(|key| key_in_words(key, is_listener)).collect();
        parts.push(format!("TCP-AO: {}", keys.join("; ")));
    }
    if protection.is_ao_required {
        parts.push("refuses what is not signed".to_owned());
    }
    if !protection.tcp_md5.is_empty() {
        let peers = protection.tcp_md5.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        parts.push(if is_listener { format!("TCP-MD5 for {peers}") } else { "TCP-MD5".to_owned() });
    }
    match verdict {
        Verdict::OnlyLocal => parts.push("none needed: only this host reaches it".to_owned()),
        Verdict::Unprotected => parts.push("NONE".to_owned()),
        _ => {}
    }
    parts.extend(protection.unknown.iter().map(|why| format!("not known: {}", Printable(why))));
    parts.join("; ")
}

fn key_in_words(key: &AoKey, is_listener: bool) -> String {
    let AoKey { peer, send_id, recv_id, algorithm, .. } = key;
    let of = if is_listener { format!("{peer} ") } else { String::new() };
    let ids = format!("{of}SendID {send_id}, RecvID {recv_id}, {}", Printable(algorithm));
    match (key.is_current, key.is_rnext) {
        (true, true) => format!("{ids}, in use"),
        (true, false) => format!("{ids}, this end signs with it"),
        (false, true) => format!("{ids}, the peer is asked to sign with it"),
        (false, false) => ids,
    }
}
