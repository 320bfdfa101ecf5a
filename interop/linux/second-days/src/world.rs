//! Two hosts in network namespaces of their own. The cable between them is in this process: a TAP device at each end.

use std::fmt;
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    A,
    B,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The name of its network namespace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The settings of a day.
pub struct Orders {
    pub seed: u64,
    pub program: PathBuf,
    pub folder: PathBuf,
    /// Whether the rules are removed in secret: the witness must notice.
    pub is_open: bool,
    pub is_loud: bool,
    /// Whether this is a virtual machine with a kernel that has TCP-AO, and with nothing else to do.
    pub is_in_guest: bool,
}

/// The hosts. Their namespaces are in the day's own /run, and disappear with it.
pub struct World {
    folder: PathBuf,
    is_ipv6: bool,
}

impl World {
    /// Makes the hosts; returns the two ends of the cable.
    pub fn make(folder: &Path, is_ipv6: bool) -> Result<(Self, [SyncDevice; 2])> {
        let world = Self { folder: folder.to_owned(), is_ipv6 };
        let mut ends = Vec::new();
        for side in Side::BOTH {
            let name = side.name();
            shell(&format!("ip netns add {name} && ip -n {name} link set lo up"))?;
            let end = thread::spawn(move || -> Result<SyncDevice> {
                let namespace = File::open(format!("/run/netns/{name}"))?;
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(DeviceBuilder::new().name("wire").layer(Layer::L2).build_sync()?)
            });
            ends.push(end.join().expect("it does not panic").context("a TAP device")?);
            let (ipv4, ipv6) = (address(side, false), address(side, true));
            shell(&format!(
                "ip -n {name} addr add {ipv4}/24 dev wire && ip -n {name} addr add {ipv6}/64 dev wire nodad && \
                 ip -n {name} link set wire up"
            ))?;
            // A disk of its own for the sessions, small enough to be filled.
            let state = world.state_folder(side);
            shell(&format!("mkdir {0} && mount -t tmpfs -o size=256k,mode=700 tmpfs {0}", state.display()))?;
        }
        let ends = ends.try_into().map_err(|_| anyhow::anyhow!("two ends"))?;
        Ok((world, ends))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn state_folder(&self, side: Side) -> PathBuf {
        self.folder.join(format!("state-{}", side.name()))
    }

    /// The address of a host in today's version of IP.
    pub fn address(&self, side: Side) -> IpAddr {
        address(side, self.is_ipv6).parse().expect("an address")
    }

    /// A program in a host.
    pub fn command(&self, side: Side, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", side.name()]).arg(program);
        command
    }

    /// Runs a command line in a host to its end.
    pub fn run(&self, side: Side, line: &str) -> Result<String> {
        finish(self.command(side, "sh").args(["-c", line]), line)
    }
}

fn address(side: Side, is_ipv6: bool) -> String {
    let prefix = if is_ipv6 { "2001:db8::" } else { "192.0.2." };
    format!("{prefix}{}", side as u8 + 1)
}

/// Runs a command line to its end.
pub fn shell(line: &str) -> Result<String> {
    finish(Command::new("sh").args(["-c", line]), line)
}

fn finish(command: &mut Command, line: &str) -> Result<String> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{line}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}
