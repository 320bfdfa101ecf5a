//! What to do about what was found: for each daemon the next step, with commands to be pasted into a root shell.
//!
//! Names that a user could have chosen (of devices, network namespaces, units) get into a command only if they have letters that no
//! shell, no unit file and no TOML gives a meaning.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use wireseal_agent::probe::{Ability, Kernel, ProbedSocket, Process, Role, RunningGateway, Service};
use wireseal_linux::IpCidr;

use super::findings::{Findings, Group, Verdict};
use super::step::{Setting, Step, Way, is_plain};

/// What `run` and `gateway` protect unless told otherwise.
const DEFAULT_PORTS: [u16; 1] = [179];
const KEYS: &str = "/etc/wireseal/keys.toml";
const GATEWAY_FILE: &str = "/etc/wireseal/gateway.toml";
const NEW_KEYS: &str = "wireseal keys new core --output";
const RUN: &str = "docs/run.md";
const GATEWAY: &str = "docs/gateway.md";
const KERNELS: &str = "docs/kernels.md";
const PROBE: &str = "docs/probe.md";

/// The next steps: those about what is unprotected first, then about what could not be judged, what TCP-MD5 protects, and the rest.
#[must_use]
pub fn steps(findings: &Findings, setting: &Setting) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for verdict in [Verdict::Unprotected, Verdict::NotJudged, Verdict::TcpMd5, Verdict::TcpAo] {
        for (number, group) in findings.groups.iter().enumerate() {
            let has = |verdict| group.with(verdict).next().is_some();
            let advisor = Advisor { number, group, kernel: &findings.host.kernel, setting };
            match verdict {
                Verdict::Unprotected if has(verdict) => steps.extend(advisor.protect(findings)),
                Verdict::NotJudged if has(verdict) => {
                    steps.push(advisor.become_root("What protects these sockets could not be seen."));
                }
                Verdict::TcpMd5 if has(verdict) => steps.push(advisor.migrate()),
                Verdict::TcpAo if has(verdict) || has(Verdict::Gateway) => steps.push(advisor.look()),
                _ => {}
            }
        }
    }
    // One file of keys is made once.
    let mut made = BTreeSet::new();
    for step in &mut steps {
        step.commands.retain(|command| !command.starts_with(NEW_KEYS) || made.insert(command.clone()));
    }
    steps
}

/// What a step of a group depends on.
struct Advisor<'a> {
    number: usize,
    group: &'a Group,
    kernel: &'a Kernel,
    setting: &'a Setting,
}

impl Advisor<'_> {
    fn step(&self, way: Way, page: &'static str, reason: impl Into<String>) -> Step {
        Step::new(self.number, way, page, reason)
    }

    /// The sockets that nothing protects.
    fn bare(&self) -> impl Iterator<Item = &ProbedSocket> {
        self.group.with(Verdict::Unprotected)
    }

    /// For sockets that nothing protects.
    fn protect(&self, findings: &Findings) -> Vec<Step> {
        if self.bare().all(|socket| socket.role == Role::Listener) {
            return vec![self.name_peers()];
        }
        if self.group.process.is_none() && !self.setting.is_root {
            return vec![self.become_root("Which process has these sockets could not be seen.")];
        }
        let daemon_can = self.daemon_can();
        let peers = peers(self.bare());
        let mut steps = match (&self.kernel.tcp_ao, &daemon_can) {
            (Ability::Yes, Ability::Yes) => vec![self.by_daemon(peers)],
            (Ability::Yes, _) if self.is_under_run() => vec![self.add_to_run(peers)],
            (Ability::Yes, _) if self.kernel.seccomp_notifications == Ability::Yes => {
                vec![self.by_run(peers)]
            }
            _ => self.without_run(findings),
        };
        if let (Ability::Yes, Ability::Unknown(why)) = (&self.kernel.tcp_ao, &daemon_can) {
            let known = self.group.daemon.as_ref().map(|daemon| {
                let ask = daemon.ask.map(|ask| format!(" (`{ask}` prints it)")).unwrap_or_default();
                format!("{why}; its version{ask} could not be read. ")
            });
            steps[0]
                .notes
                .insert(0, known.unwrap_or_default() + "If it has TCP-AO of its own, configure it there.");
        }
        for step in &mut steps {
            if !matches!(step.way, Way::Daemon | Way::Run | Way::Gateway) {
                continue;
            }
            if step.peers.is_empty() {
                step.commands.clear();
                step.notes.push("The name of the peers' VRF is not safe in a command.".to_owned());
            }
            if step.peers.len() > 1 && !step.commands.is_empty() {
                step.notes.push(
                    "This gives all of these peers the same key. For each other organisation, make one more with `wireseal keys new NAME`."
                        .to_owned(),
                );
            }
            step.notes.push("The sessions stay down until the peers have the key, too.".to_owned());
        }
        steps
    }

    /// By the gateway, except in VRFs, whose packets it does not carry.
    fn without_run(&self, findings: &Findings) -> Vec<Step> {
        let is_in_vrf = |socket: &ProbedSocket| socket.vrf.is_some();
        let [inside, outside] =
            [true, false].map(|inside| peers(self.bare().filter(|socket| is_in_vrf(socket) == inside)));
        let mut steps = Vec::new();
        if self.bare().any(|socket| !is_in_vrf(socket) && socket.role != Role::Listener) {
            steps.push(match &self.kernel.packet_queues {
                Ability::Yes => self.by_gateway(findings, outside),
                Ability::Unknown(why) if !self.setting.is_root => self
                    .become_root(&format!("Whether this kernel has packet queues is not known: {why}."))
                    .with(outside),
                _ => self.other_kernel(
                    "this one does not have the packet queues that the gateway needs, either",
                    outside,
                ),
            });
        }
        if self.bare().any(|socket| is_in_vrf(socket) && socket.role != Role::Listener) {
            steps.push(self.other_kernel("the gateway does not carry sessions in a VRF", inside));
        }
        steps
    }

    /// By the daemon itself.
    fn by_daemon(&self, peers: Vec<String>) -> Step {
        let name = self.name();
        let reason = format!("Both this kernel and {name} have TCP-AO.");
        let mut step = self.step(Way::Daemon, self.page(PROBE), reason).with(peers);
        let Some(process) = self.outside_container(&mut step) else { return step };
        if !self.is_trusted(&mut step) {
            return step;
        }
        self.make_keys(&mut step);
        if name == "BIRD" {
            let file = "/etc/bird/core.conf";
            step.commands.push(format!("wireseal keys convert {KEYS} --to bird --output {file}"));
            step.commands.push(format!("sed -i 's/^protocol/template/' {file}"));
            // BIRD's user is the one that its package has chosen, not the one that a process has now.
            step.commands.push(format!("chown --reference=/etc/bird/bird.conf {file}"));
            step.notes.push(format!(
                "Add `include \"{file}\";` to BIRD's configuration, `from 'core'` to the protocol of each peer, and run `birdc configure`. \
                 `birdc show protocols all` shows the keys in use."
            ));
        } else {
            let file = "/etc/wireseal/gobgp-core.toml";
            step.commands.push(format!("wireseal keys convert {KEYS} --to gobgp --output {file}"));
            step.notes.push(format!(
                "Copy the keychain in {file} into gobgpd's configuration, name it in `[neighbors.tcp-ao.config]` of each peer, then `kill -HUP {}`. \
                 `gobgp neighbor` shows the keys in use. This is from GoBGP's documentation; Wireseal's tests do not run it.",
                process.pid
            ));
        }
        step
    }

    /// By `wireseal run`, under which the daemon is started again.
    fn by_run(&self, peers: Vec<String>) -> Step {
        let reason = match self.daemon_can() {
            Ability::No => format!("This kernel has TCP-AO, and {} has none of its own.", self.name()),
            _ => format!("This kernel has TCP-AO; whether {} has it is not known.", self.name()),
        };
        let mut step = self.step(Way::Run, self.page(RUN), reason).with(peers);
        if self.outside_container(&mut step).is_none() {
            return step;
        }
        let is_trusted = self.is_trusted(&mut step);
        let (Some(program), None, true) = (self.program(), &self.group.namespace, is_trusted) else {
            let place = if self.group.namespace.is_some() { " in its network namespace" } else { "" };
            let again = format!(
                "Start it again as `wireseal run --config FILE -- PROGRAM`{place}, with its peers in FILE."
            );
            step.notes.push(again);
            return step;
        };
        let is_frr = self.group.daemon.as_ref().is_some_and(|daemon| daemon.name == "FRR");
        // As its page has it; FRR's other daemons need files of their own.
        let instance = if is_frr && program != "bgpd" { program } else { self.unit().unwrap_or(program) };
        let file = format!("/etc/wireseal/{instance}.toml");
        self.make_keys(&mut step);
        let mut lines = vec!["'key-chains = \"keys.toml\"'".to_owned()];
        lines.extend(self.ports().map(|ports| format!("'ports = {ports}'")));
        lines.push("'[peers]'".to_owned());
        lines.extend(step.peers.iter().map(|peer| format!("'\"{peer}\" = \"core\"'")));
        // Not over a file that is there.
        step.commands.push(format!("(set -C; printf '%s\\n' {} >{file})", lines.join(" ")));
        step.commands.push(format!("wireseal run --config {file} --dry-run"));
        match self.unit() {
            unit if is_frr => {
                let wrap = format!("{program}_wrap=\"{} run --background --config {file} --\"", self.setting.program);
                step.commands.push(format!("sed -i -e '$ a {wrap}' -e '/^{program}_wrap=/d' /etc/frr/daemons"));
                step.commands.push(format!("systemctl restart {}", unit.unwrap_or("frr")));
            }
            Some(unit) if self.setting.has_run_unit && self.page(RUN) != RUN => step.notes.push(format!(
                "{} has the lines of /etc/wireseal/{instance}.env, and the commands that put wireseal-run@{instance} in the place of {unit}.",
                step.page
            )),
            // The words that a process was started with may be anybody's; its unit's are root's.
            Some(unit) if self.setting.has_run_unit => step.notes.push(format!(
                "Write `DAEMON=` and the command of `ExecStart=`, which `systemctl cat {unit}` shows, to /etc/wireseal/{instance}.env; then \
                 `systemctl disable --now {unit} && systemctl enable --now wireseal-run@{instance}`. It then runs as root, without the \
                 settings of {unit}.service: it has to stay in the foreground, and to change its user itself if that unit does."
            )),
            _ => step.notes.push(format!("Start it again as `wireseal run --config {file} -- {program} …`.")),
        }
        step
    }

    /// Its supervisor does not have these peers.
    fn add_to_run(&self, peers: Vec<String>) -> Step {
        let reason = format!(
            "{} runs under `wireseal run`, whose configuration does not name these peers.",
            self.name()
        );
        let mut step = self.step(Way::Run, RUN, reason).with(peers);
        step.commands.push("wireseal status".to_owned());
        step.notes.push("Add them to `[peers]` in its configuration, then `kill -HUP` the process that `wireseal status` shows.".into());
        step
    }

    /// By `wireseal gateway` in the network namespace of the sockets.
    fn by_gateway(&self, findings: &Findings, peers: Vec<String>) -> Step {
        let reason = match self.kernel.tcp_ao {
            Ability::No => "This kernel has no TCP-AO, but it has packet queues.",
            Ability::Yes => {
                "This kernel has TCP-AO and packet queues; seccomp notifications, which `wireseal run` needs, were not found."
            }
            Ability::Unknown(_) => "Whether this kernel has TCP-AO is not known; it has packet queues.",
        };
        let mut step = self.step(Way::Gateway, self.page(GATEWAY), reason).with(peers);
        let running = findings.host.gateways.iter().find(|gateway| gateway.namespace == self.group.namespace);
        let is_packages = self.setting.has_gateway_unit && self.group.namespace.is_none();
        match running {
            Some(gateway) if is_packages => {
                self.add_to_gateway(&mut step, gateway, self.ports_for_gateway(findings));
                return step;
            }
            Some(RunningGateway { pid, .. }) => {
                step.notes.push(format!("The gateway that runs there (process {pid}) does not carry these peers: add them to its configuration, then `kill -HUP {pid}`."));
                return step;
            }
            None => {}
        }
        let mut ports = self.ports_for_gateway(findings);
        ports.extend(DEFAULT_PORTS);
        let has_others = !ports.iter().eq(&DEFAULT_PORTS);
        if is_packages {
            self.make_keys(&mut step);
            step.commands.extend(to_gateway(&step.peers));
            let mut start = vec!["systemctl enable --now wireseal-gateway".to_owned()];
            match self.unit() {
                Some(unit) => {
                    start[0] += &format!(" wireseal-gateway-check@{unit}");
                    start.push(format!("systemctl restart {unit}"));
                }
                None => step.notes.push(format!(
                    "Then close {}'s sessions with these peers, so that they open again.",
                    self.name()
                )),
            }
            match has_others {
                false => step.commands.extend(start),
                // What other ports the file has is not known.
                true => step.notes.insert(
                    0,
                    format!(
                        "Make sure that `ports` in {GATEWAY_FILE} includes {}; then `{}`.",
                        in_words(&ports),
                        start.join(" && ")
                    ),
                ),
            }
            return step;
        }
        let Some(inside) = self.inside() else {
            step.notes.push(
                "Start it in the daemon's network namespace, whose name is not safe in a command.".into(),
            );
            return step;
        };
        step.commands.push(format!("{NEW_KEYS} keys.toml"));
        let arguments = step.peers.iter().map(|peer| format!(" --peer {peer}=core"));
        let arguments: String = arguments
            .chain(ports.iter().filter(|_| has_others).map(|port| format!(" --port {port}")))
            .collect();
        step.commands.push(format!("{inside}wireseal gateway --keys keys.toml{arguments}"));
        step.notes.push(
            "It stays in the foreground. Sessions that are open now stall until they are opened again."
                .into(),
        );
        step
    }

    /// To the file of the gateway that runs: the peers and ports that it does not have.
    fn add_to_gateway(&self, step: &mut Step, gateway: &RunningGateway, mut ports: BTreeSet<u16>) {
        let has = |peer: &IpAddr| {
            gateway
                .peers
                .iter()
                .filter_map(|network| network.parse::<IpCidr>().ok())
                .any(|network| network.contains(peer))
        };
        let missing = step.peers.iter().filter(|peer| !peer.parse().is_ok_and(|peer| has(&peer)));
        let missing: Vec<_> = missing.cloned().collect();
        let running: BTreeSet<_> = gateway.ports.iter().copied().collect();
        let lacks_ports = !ports.is_subset(&running);
        let pid = gateway.pid;
        if missing.is_empty() && !lacks_ports {
            step.commands.push("wireseal status".to_owned());
            step.notes.push(format!(
                "The gateway (process {pid}) has these peers and ports; its status says why it does not carry them."
            ));
            return;
        }
        if !missing.is_empty() {
            self.make_keys(step);
            step.commands.extend(to_gateway(&missing));
        }
        if running.is_empty() {
            let ports = in_words(&ports);
            step.notes.push(format!(
                "The gateway's ports could not be seen: make sure that `ports` in {GATEWAY_FILE} includes {ports}; then \
                 `systemctl reload wireseal-gateway`."
            ));
        } else {
            if lacks_ports {
                ports.extend(running);
                let ports = in_brackets(&ports);
                step.commands.push(format!("sed -i -e '1i ports = {ports}' -e '/^ports =/d' {GATEWAY_FILE}"));
            }
            step.commands.push("systemctl reload wireseal-gateway".to_owned());
        }
        step.notes.push(format!(
            "If the gateway (process {pid}) was started by hand, change its own configuration instead, then `kill -HUP {pid}`."
        ));
    }

    /// No way of this kernel protects the sessions.
    fn other_kernel(&self, why: &str, peers: Vec<String>) -> Step {
        let needed = match self.kernel.tcp_ao {
            Ability::Yes => "seccomp notifications, for `wireseal run`",
            _ => "TCP-AO",
        };
        self.step(Way::Kernel, KERNELS, format!("You need a kernel with {needed}: {why}.")).with(peers)
    }

    /// For listeners without sessions.
    fn name_peers(&self) -> Step {
        let reason = format!(
            "{0} accepts unsigned connections; none is open now. Only {0}'s own list of neighbors stops whoever reaches the port.",
            self.name()
        );
        let mut step = self.step(Way::NamePeers, PROBE, reason);
        step.notes.push(
            "Run `wireseal probe` again when a peer has connected: it then names the peer, with commands."
                .into(),
        );
        step
    }

    fn migrate(&self) -> Step {
        let reason = format!(
            "{} uses TCP-MD5, which TCP-AO replaces (RFC 5925). You can change one session at a time.",
            self.name()
        );
        let peers = peers(self.group.with(Verdict::TcpMd5));
        self.step(Way::Migrate, "docs/migrate.md", reason).with(peers)
    }

    fn become_root(&self, reason: &str) -> Step {
        let mut step = self.step(Way::Root, PROBE, reason);
        if !self.setting.is_root {
            step.commands.push("sudo wireseal probe".to_owned());
        }
        step
    }

    /// How to look at what is protected.
    fn look(&self) -> Step {
        let has_gateway = self.group.with(Verdict::Gateway).next().is_some();
        let name = self.name();
        let own = format!("{name} has keys of its own.");
        let (reason, command, page) = match name.as_str() {
            _ if has_gateway => (format!("A gateway protects {name}."), Some("wireseal status"), GATEWAY),
            _ if self.is_under_run() => {
                (format!("`wireseal run` protects {name}."), Some("wireseal status"), RUN)
            }
            "BIRD" => (own, Some("birdc show protocols all"), self.page(PROBE)),
            "GoBGP" => (own, Some("gobgp neighbor"), self.page(PROBE)),
            _ => (own, None, PROBE),
        };
        let mut step = self.step(Way::Look, page, reason);
        step.commands.extend(command.map(str::to_owned));
        step
    }

    /// The daemon's name for sentences.
    fn name(&self) -> String {
        match (&self.group.daemon, &self.group.process) {
            (Some(daemon), _) => daemon.name.to_owned(),
            (None, Some(process)) => format!("process {}", process.pid),
            (None, None) => "the process".to_owned(),
        }
    }

    /// Whether it can sign all that is bare by itself.
    fn daemon_can(&self) -> Ability {
        let Some(daemon) = &self.group.daemon else {
            return Ability::Unknown("its program is not known".to_owned());
        };
        let services: BTreeSet<Service> = self.bare().map(|socket| socket.service).collect();
        let mut all = services.into_iter().map(|service| daemon.tcp_ao(service));
        all.find(|ability| *ability != Ability::Yes).unwrap_or(Ability::Yes)
    }

    fn is_under_run(&self) -> bool {
        self.group.process.as_ref().is_some_and(|process| process.is_under_run)
    }

    /// The process if its files are those of this machine; else adds what to do in a container.
    fn outside_container(&self, step: &mut Step) -> Option<&Process> {
        let process = self.group.process.as_ref();
        if process.is_some_and(|process| process.is_in_container) {
            step.notes.push(match step.way {
                Way::Daemon => "It runs in a container: put the keys into its configuration there.".to_owned(),
                _ => "It runs in a container: put `wireseal run --config FILE --` at the beginning of its ENTRYPOINT.".to_owned(),
            });
            return None;
        }
        process
    }

    /// Whether commands may be about its files: a program that is known, that root alone can change, and that systemd has started. Otherwise
    /// says what is not so, because any user's program may have the name of a daemon.
    fn is_trusted(&self, step: &mut Step) -> bool {
        let why = match (&self.group.daemon, self.group.is_roots_program, self.unit()) {
            (Some(_), true, Some(_)) => return true,
            (None, ..) => "its program is not known",
            (_, false, _) => "it could not be confirmed that only root can change its program",
            (.., None) => "it is not a service of systemd",
        };
        let is_of = self.group.process.as_ref().map(|process| {
            let program = process
                .executable
                .as_ref()
                .map_or(process.name.as_str().into(), |path| path.to_string_lossy());
            let user = process.user.map(|user| format!(", which user {user} runs")).unwrap_or_default();
            format!(" First check {program}{user}.")
        });
        step.notes.push(format!("No commands are shown, because {why}.{}", is_of.unwrap_or_default()));
        false
    }

    /// The file name of its program, if it can be in a command.
    fn program(&self) -> Option<&str> {
        let process = self.group.process.as_ref()?;
        let program = process.executable.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        let program = program.filter(|program| !program.starts_with("python")).unwrap_or(&process.name);
        Some(program).filter(|program| is_plain(program) && !program.contains('/'))
    }

    /// Its unit's name without `.service`, if it can be in a command.
    fn unit(&self) -> Option<&str> {
        let unit = self.group.process.as_ref()?.unit.as_deref()?.strip_suffix(".service")?;
        Some(unit).filter(|unit| is_plain(unit) && !unit.contains('/'))
    }

    /// What enters the network namespace, before a command; `None` if it cannot be in one.
    fn inside(&self) -> Option<String> {
        let Some(namespace) = &self.group.namespace else {
            return Some(String::new());
        };
        match (namespace.name.as_deref().filter(|name| is_plain(name)), namespace.pid) {
            (Some(name), _) => Some(format!("ip netns exec {name} ")),
            (None, Some(pid)) => Some(format!("nsenter --net=/proc/{pid}/ns/net ")),
            (None, None) => None,
        }
    }

    /// The ports of its services, if they are others than the default.
    fn ports(&self) -> Option<String> {
        let ports: BTreeSet<_> = self.group.sockets.iter().map(|(socket, _)| port(socket)).collect();
        (!ports.iter().eq(&DEFAULT_PORTS)).then(|| in_brackets(&ports))
    }

    /// The ports of all daemons that the gateway of this network namespace has to carry.
    fn ports_for_gateway(&self, findings: &Findings) -> BTreeSet<u16> {
        let groups = findings.groups.iter().filter(|group| group.namespace == self.group.namespace);
        let sockets = groups.flat_map(|group| &group.sockets);
        let carried =
            sockets.filter(|(_, verdict)| matches!(verdict, Verdict::Unprotected | Verdict::Gateway));
        carried.map(|(socket, _)| port(socket)).collect()
    }

    /// Makes a key chain, unless there is a file of them.
    fn make_keys(&self, step: &mut Step) {
        if self.setting.has_keys {
            step.notes
                .push(format!("If the key chain in {KEYS} has another name, use that instead of `core`."));
            return;
        }
        if !self.setting.has_gateway_unit {
            step.commands.push("mkdir -p /etc/wireseal".to_owned());
        }
        step.commands.push(format!("{NEW_KEYS} {KEYS}"));
    }

    /// The page about the daemon, if there is one.
    fn page(&self, otherwise: &'static str) -> &'static str {
        match self.group.daemon.as_ref().map(|daemon| daemon.name) {
            Some("BIRD") => "docs/daemons/bird.md",
            Some("ExaBGP") => "docs/daemons/exabgp.md",
            Some("FRR") => "docs/daemons/frr.md",
            Some("GoBGP") => "docs/daemons/gobgp.md",
            Some("OpenBGPD") => "docs/daemons/openbgpd.md",
            Some("StayRTR" | "Routinator" | "FORT") => "docs/daemons/rtr.md",
            Some("pmacct") => "docs/daemons/bmp.md",
            _ => otherwise,
        }
    }
}

/// The peers of sessions as configurations name them, each once; none of a listener, nor in a VRF whose name cannot be in a command.
fn peers<'s>(sockets: impl Iterator<Item = &'s ProbedSocket>) -> Vec<String> {
    let peers: BTreeSet<_> = sockets
        .filter_map(|socket| match (socket.role, &socket.vrf) {
            (Role::Session { peer, .. }, None) => Some(peer.ip().to_string()),
            (Role::Session { peer, .. }, Some(vrf)) => is_plain(vrf).then(|| format!("{}%{vrf}", peer.ip())),
            (Role::Listener, _) => None,
        })
        .collect();
    peers.into_iter().collect()
}

/// The port of the service.
fn port(socket: &ProbedSocket) -> u16 {
    match socket.role {
        Role::Session { peer, is_opener: Some(true), .. } => peer.port(),
        _ => socket.local.port(),
    }
}

/// What adds peers to the gateway's file, whose last table is that of the peers: each once, because a key that is there twice keeps the gateway
/// from starting.
fn to_gateway(peers: &[String]) -> impl Iterator<Item = String> {
    peers.iter().map(|peer| {
        format!("grep -q '^\"{peer}\"' {GATEWAY_FILE} || echo '\"{peer}\" = \"core\"' >>{GATEWAY_FILE}")
    })
}

fn in_words(ports: &BTreeSet<u16>) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn in_brackets(ports: &BTreeSet<u16>) -> String {
    format!("[{}]", in_words(ports))
}
