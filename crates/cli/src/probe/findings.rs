//! A verdict on each socket, and the sockets by the daemon that has them.

use wireseal_agent::probe::{Daemon, Host, Namespace, ProbedSocket, Process, Role};

use crate::text::{counted, grouped};

/// What was found on a host, judged.
#[derive(Clone, Debug)]
pub struct Findings {
    /// What was seen; its sockets are in the groups.
    pub host: Host,
    /// The sockets by daemon and network namespace, in the order of the first of each.
    pub groups: Vec<Group>,
}

/// The sockets that a process has in a network namespace.
#[derive(Clone, Debug)]
pub struct Group {
    /// The process; `None` if it could not be seen.
    pub process: Option<Process>,
    /// Which daemon it is; `None` if its program is not known.
    pub daemon: Option<Daemon>,
    /// The network namespace, if it is not that of this process.
    pub namespace: Option<Namespace>,
    /// The sockets, each with what protects it.
    pub sockets: Vec<(ProbedSocket, Verdict)>,
    /// Whether root alone can change the process's program.
    pub is_roots_program: bool,
}

/// What protects a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// TCP-AO keys on the socket.
    TcpAo,
    /// A `wireseal gateway`.
    Gateway,
    /// TCP-MD5 alone.
    TcpMd5,
    /// Nothing, but only this host reaches it.
    OnlyLocal,
    /// Nothing.
    Unprotected,
    /// It could not be judged.
    NotJudged,
}

/// Sessions or listeners.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// All of them.
    pub all: u64,
    /// Those that nothing protects.
    pub unprotected: u64,
    /// Those that could not be judged.
    pub not_judged: u64,
}

/// Whether anything is unprotected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Everything is protected, or there is nothing.
    Protected,
    /// Something is not.
    Unprotected,
    /// Nothing unprotected was found, but not everything could be judged.
    NotJudged,
}

impl Group {
    /// The sockets with this verdict.
    pub(super) fn with(&self, verdict: Verdict) -> impl Iterator<Item = &ProbedSocket> {
        self.sockets.iter().filter(move |(_, found)| *found == verdict).map(|(socket, _)| socket)
    }
}

impl Findings {
    /// Judges what was seen. `daemon` says which daemon a process is, and `is_roots` whether root alone can change its program.
    pub fn new(
        mut host: Host,
        daemon: impl Fn(&Process) -> Option<Daemon>,
        is_roots: impl Fn(&Process) -> bool,
    ) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for socket in std::mem::take(&mut host.sockets) {
            let pid = |process: &Option<Process>| process.as_ref().map(|process| process.pid);
            let own = groups.iter_mut().find(|group| {
                pid(&group.process) == pid(&socket.process) && group.namespace == socket.namespace
            });
            let verdict = Verdict::of(&socket);
            match own {
                Some(group) => group.sockets.push((socket, verdict)),
                None => groups.push(Group {
                    is_roots_program: socket.process.as_ref().is_some_and(&is_roots),
                    daemon: socket.process.as_ref().and_then(&daemon),
                    process: socket.process.clone(),
                    namespace: socket.namespace.clone(),
                    sockets: vec![(socket, verdict)],
                }),
            }
        }
        Self { host, groups }
    }

    /// The sessions, and the listeners.
    #[must_use]
    pub fn counts(&self) -> [Count; 2] {
        let mut counts = [Count::default(); 2];
        for (socket, verdict) in self.groups.iter().flat_map(|group| &group.sockets) {
            let count = &mut counts[usize::from(socket.role == Role::Listener)];
            count.all += 1;
            count.unprotected += u64::from(*verdict == Verdict::Unprotected);
            count.not_judged += u64::from(*verdict == Verdict::NotJudged);
        }
        counts
    }

    /// Whether anything is unprotected.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let counts = self.counts();
        if counts.iter().any(|count| count.unprotected > 0) {
            Answer::Unprotected
        } else if counts.iter().any(|count| count.not_judged > 0) || !self.host.unseen.is_empty() {
            Answer::NotJudged
        } else {
            Answer::Protected
        }
    }

    /// The answer in one sentence, without a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        let counts = self.counts();
        let nouns = ["session", "listener"];
        let some = |number: fn(&Count) -> u64| {
            let parts = counts.iter().zip(nouns).filter(|(count, _)| number(count) > 0);
            let parts: Vec<_> = parts
                .map(|(count, noun)| format!("{} of {}", number(count), counted(count.all, noun)))
                .collect();
            let is_one = counts.iter().map(number).sum::<u64>() == 1;
            (parts.join(" and "), if is_one { "is" } else { "are" })
        };
        let all: Vec<_> = counts
            .iter()
            .zip(nouns)
            .filter(|(count, _)| count.all > 0)
            .map(|(count, noun)| counted(count.all, noun))
            .collect();
        let by_md5 = self.groups.iter().flat_map(|group| group.with(Verdict::TcpMd5)).count() as u64;
        let by_md5 =
            if by_md5 > 0 { format!(", {} by TCP-MD5 alone", grouped(by_md5)) } else { String::new() };
        let (unprotected, not_judged) = (some(|count| count.unprotected), some(|count| count.not_judged));
        match self.answer() {
            Answer::Unprotected => format!("{} {} not protected", unprotected.0, unprotected.1),
            _ if !not_judged.0.is_empty() => {
                format!("{} could not be judged; nothing unprotected was found", not_judged.0)
            }
            Answer::NotJudged if all.is_empty() => {
                "no session or listener was found, but not everything could be seen".to_owned()
            }
            _ if all.is_empty() => {
                "there is no session or listener of BGP, LDP, MSDP, PCEP, RTR or BMP".to_owned()
            }
            Answer::NotJudged => {
                format!("{} that could be seen: all protected{by_md5}", all.join(" and "))
            }
            _ => format!("{}: all protected{by_md5}", all.join(" and ")),
        }
    }
}

impl Verdict {
    fn of(socket: &ProbedSocket) -> Self {
        let protection = &socket.protection;
        let is_local = match socket.role {
            Role::Listener => socket.local.ip().is_loopback(),
            Role::Session { peer, .. } => socket.local.ip().is_loopback() && peer.ip().is_loopback(),
        };
        if protection.gateway.is_some() {
            Self::Gateway
        } else if !protection.tcp_ao.is_empty() || protection.is_ao_required {
            Self::TcpAo
        } else if !protection.tcp_md5.is_empty() {
            Self::TcpMd5
        } else if is_local {
            Self::OnlyLocal
        } else if protection.unknown.is_empty() {
            Self::Unprotected
        } else {
            Self::NotJudged
        }
    }

    /// The stable word for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpAo => "tcp-ao",
            Self::Gateway => "gateway",
            Self::TcpMd5 => "tcp-md5",
            Self::OnlyLocal => "only-local",
            Self::Unprotected => "none",
            Self::NotJudged => "unknown",
        }
    }
}
