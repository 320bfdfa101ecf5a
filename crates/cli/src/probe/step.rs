//! What a step is, and what it depends on besides the sockets.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use wireseal_agent::probe::Process;

/// What the steps depend on besides the sockets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The path of this program.
    pub program: String,
    /// Whether this process is root.
    pub is_root: bool,
    /// Whether systemd runs and has the unit `wireseal-gateway`, and `/etc/wireseal/gateway.toml` is there.
    pub has_gateway_unit: bool,
    /// Whether systemd runs and has the unit `wireseal-run@`.
    pub has_run_unit: bool,
    /// Whether `/etc/wireseal/keys.toml` is there.
    pub has_keys: bool,
}

impl Setting {
    /// Looks at this machine.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let exists = |path: &str| Path::new(path).symlink_metadata().is_ok();
        let has_unit = |name: &str| {
            // As sd_booted(3) asks.
            exists("/run/systemd/system")
                && ["/etc", "/usr/lib", "/lib"]
                    .iter()
                    .any(|folder| exists(&format!("{folder}/systemd/system/{name}")))
        };
        let program = std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
        Self {
            program: program.filter(|path| is_plain(path)).unwrap_or_else(|| "/usr/bin/wireseal".to_owned()),
            is_root: rustix::process::geteuid().is_root(),
            has_gateway_unit: has_unit("wireseal-gateway.service") && exists("/etc/wireseal/gateway.toml"),
            has_run_unit: has_unit("wireseal-run@.service"),
            has_keys: exists("/etc/wireseal/keys.toml"),
        }
    }
}

/// Whether root alone can change the program that a process executes: the file and every folder above it are root's, and writable for
/// nobody else. `false` where that cannot be seen, in a container, and for a file that was replaced since.
#[must_use]
pub fn is_roots_program(process: &Process) -> bool {
    let Some(path) = process.executable.as_deref().filter(|_| !process.is_in_container) else { return false };
    let executed = fs::metadata(format!("/proc/{}/exe", process.pid));
    let is_executed = executed.and_then(|executed| {
        let there = path.symlink_metadata()?;
        Ok((executed.dev(), executed.ino()) == (there.dev(), there.ino()))
    });
    let is_roots = |part: &Path| {
        part.symlink_metadata().is_ok_and(|found| found.uid() == 0 && found.mode() & 0o022 == 0)
    };
    is_executed.unwrap_or(false) && path.ancestors().all(is_roots)
}

/// A kind of step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The daemon's own TCP-AO.
    Daemon,
    /// `wireseal run`.
    Run,
    /// `wireseal gateway`.
    Gateway,
    /// From TCP-MD5 to TCP-AO.
    Migrate,
    /// A listener whose peers are not known.
    NamePeers,
    /// Another kernel.
    Kernel,
    /// To look again, as root.
    Root,
    /// It is protected: how to look at it.
    Look,
}

impl Way {
    /// What to use, or what it is about.
    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Self::Daemon => "its own TCP-AO",
            Self::Run => "wireseal run",
            Self::Gateway => "wireseal gateway",
            Self::Migrate => "from TCP-MD5 to TCP-AO",
            Self::NamePeers => "an unprotected listener",
            Self::Kernel => "another kernel",
            Self::Root => "not judged",
            Self::Look => "protected",
        }
    }

    /// The stable word for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Run => "run",
            Self::Gateway => "gateway",
            Self::Migrate => "migrate",
            Self::NamePeers => "name-peers",
            Self::Kernel => "kernel",
            Self::Root => "root",
            Self::Look => "look",
        }
    }
}

/// What to do next about a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The group's place in [`Findings::groups`](super::Findings::groups).
    pub group: usize,
    /// What it is.
    pub way: Way,
    /// The peers that it is for, each once: an address, and its VRF as `%device`.
    pub peers: Vec<String>,
    /// Why: one or more sentences.
    pub reason: String,
    /// Lines for a root shell, in this order.
    pub commands: Vec<String>,
    /// What the commands cannot do, or what to know: a sentence each.
    pub notes: Vec<String>,
    /// The page about it.
    pub page: &'static str,
}

impl Step {
    pub(super) fn new(group: usize, way: Way, page: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { group, way, peers: Vec::new(), reason, commands: Vec::new(), notes: Vec::new(), page }
    }

    pub(super) fn with(self, peers: Vec<String>) -> Self {
        Self { peers, ..self }
    }
}

/// Whether a name has only letters without a meaning for shells, unit files, TOML and options.
pub(super) fn is_plain(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/@".contains(letter);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}
