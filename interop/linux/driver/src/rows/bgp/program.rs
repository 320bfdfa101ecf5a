//! The program router-peer: on the second guest, over the sockets of its kernel, or on this machine, with its own TCP stack.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;

use agent::{TIME_LIMIT, WriteFile};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::bird::{AS, Bird, HOLD_TIME, IPV4_ROUTES, IPV6_ROUTES, PEER_AS, Since};
use super::common::{ROUTES, await_routes};
use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::wait::wait;
use crate::wire::Plug;

const NAME: &str = "router-peer";
const CONFIGURATION: &str = "/tmp/peer/peer.toml";
/// What the log says of each session.
pub const ESTABLISHED: &str = "session established";
/// A line of each peer's table.
pub const UNDER_AO: &str = "key-chain = \"lab\"";
/// The secret of TCP-MD5, where that is in use.
pub const MD5_SECRET: &str = "what both ends have long known";

/// The program, running.
pub enum Program<'a> {
    OnGuest(&'a Guest),
    /// Dropping it ends it.
    Here {
        child: Box<Child>,
        log: PathBuf,
        _plug: Plug,
    },
}

/// A configuration of the program at a port, against BIRD. `protection` is a line of each peer's table.
fn configuration(at: Port, transport: &str, protection: &str) -> String {
    let (own, bird) = (at, Port::North);
    let mut text = format!(
        "key-chains = \"keys.toml\"\n[router]\nas = {PEER_AS}\nid = \"{}\"\n[transport]\n{transport}",
        own.ipv4()
    );
    for family in Family::ALL {
        text += &format!(
            "[[peer]]\nname = \"{}\"\naddress = \"{}\"\nas = {AS}\npassive = {}\nhold-time = {HOLD_TIME}\n\
             next-hop-ipv4 = \"{}\"\nnext-hop-ipv6 = \"{}\"\nroutes = \"routes.txt\"\n{protection}\n",
            family,
            bird.address(family),
            family == Family::Ipv6,
            own.ipv4(),
            own.ipv6()
        );
    }
    text
}

/// One for a transport of frames, run on the kernel's sockets.
fn kernel_configuration(protection: &str) -> String {
    let own = Port::South;
    let transport = format!(
        "kind = \"tun\"\ndevice = \"seal0\"\nmtu = 1500\naddresses = [\"{}/24\", \"{}/64\"]\n",
        own.ipv4(),
        own.ipv6()
    );
    let mut text = configuration(Port::South, &transport, protection);
    // No machine has these addresses. They share a listening socket with BIRD over IPv6, each with another protection.
    for (name, address, protection) in
        [("unprotected", "2001:db8::8", ""), ("older", "2001:db8::9", "md5-secret-file = \"bird.md5\"")]
    {
        text += &format!(
            "[[peer]]\nname = \"{name}\"\naddress = \"{address}\"\nas = {AS}\npassive = true\n{protection}\n"
        );
    }
    text
}

/// As many routes as BIRD has.
fn routes() -> String {
    let ipv4 = (0..IPV4_ROUTES).map(|route| format!("70.{}.{}.0/24\n", route / 250, route % 250));
    ipv4.chain((0..IPV6_ROUTES).map(|route| format!("2a02:{}:{}::/48\n", route / 250, route % 250))).collect()
}

/// A seed with which the stack has the port's hardware address, of which it chooses the last five octets.
fn seed() -> u64 {
    let [_, a, b, c, d, e] = Port::Host.hardware_address();
    let [.., x, y, z] = fastrand::u64(..).to_be_bytes();
    u64::from_be_bytes([a, b, c, d, e, x, y, z])
}

impl<'a> Program<'a> {
    /// Starts it on a guest.
    pub async fn start(guest: &'a Guest, protection: &str, keys: &str) -> Result<Self> {
        let files = [
            ("peer.toml", kernel_configuration(protection)),
            ("keys.toml", keys.into()),
            ("bird.md5", MD5_SECRET.into()),
            ("routes.txt", routes()),
        ];
        guest.shell("mkdir -p /tmp/peer").await?;
        for (name, contents) in files {
            guest.call(WriteFile { path: format!("/tmp/peer/{name}"), contents }).await?;
        }
        guest.shell("cd /tmp/peer && chmod 600 keys.toml bird.md5").await?;
        guest.start(NAME, &format!("router-peer --config {CONFIGURATION} --transport kernel")).await?;
        Ok(Self::OnGuest(guest))
    }

    /// Starts it on this machine, which goes by the machine's clock.
    pub async fn start_here(lab: &Lab, keys: &str) -> Result<Self> {
        let directory = lab.setting.state.join(Port::Host.to_string());
        fs::create_dir_all(&directory)?;
        let file = |name: &str| directory.join(name);
        let own = Port::Host;
        let transport = format!(
            "kind = \"unix\"\nlocal-path = \"card\"\npeer-path = \"wire\"\naddresses = [\"{}/24\", \"{}/64\"]\n",
            own.ipv4(),
            own.ipv6()
        );
        fs::write(file("peer.toml"), configuration(own, &transport, UNDER_AO))?;
        fs::write(file("routes.txt"), routes())?;
        fs::write(file("keys.toml"), keys)?;
        fs::set_permissions(file("keys.toml"), Permissions::from_mode(0o600))?;
        let log = file("log");
        // The program of this build stands beside this one.
        let child = Command::new(std::env::current_exe()?.with_file_name(NAME))
            .args(["--verbose", "--seed", &seed().to_string(), "--config"])
            .arg(file("peer.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()?;
        // Frames for a socket that is not there yet would be lost, and a socket that a killed run has left takes nothing.
        let is_there = async || Ok(UnixDatagram::unbound()?.connect(file("card")).is_ok());
        wait("router-peer's socket", is_there, async || Ok(fs::read_to_string(&log)?)).await?;
        let plug = lab.wire.plug_unix(own, &file("wire"), &file("card"))?;
        Ok(Self::Here { child: Box::new(child), log, _plug: plug })
    }

    /// What it has logged so far.
    pub async fn log(&self) -> Result<String> {
        match self {
            Self::OnGuest(guest) => guest.log(NAME).await,
            Self::Here { log, .. } => Ok(fs::read_to_string(log)?),
        }
    }

    /// Waits until so many lines of its log have these words.
    pub async fn await_log(&self, words: &str, lines: usize) -> Result<()> {
        let has_lines =
            async || Ok(self.log().await?.lines().filter(|line| line.contains(words)).count() >= lines);
        wait(words, has_lines, async || self.log().await).await
    }

    /// Waits until its session over IPv4 is up, has BIRD open the one over IPv6, and waits until both ends have all routes of
    /// both; says since when BIRD's are up.
    pub async fn exchange(&self, bird: &Bird<'_>) -> Result<[Since; 2]> {
        self.await_log(ESTABLISHED, 1).await?;
        bird.open().await?;
        let received = format!("initial routes received ipv4={IPV4_ROUTES} ipv6={IPV6_ROUTES}");
        self.await_log(&received, 2).await?;
        await_routes(bird, ROUTES).await
    }

    /// Ends it in order, and returns its log.
    pub async fn stop(self) -> Result<String> {
        match self {
            Self::OnGuest(guest) => {
                guest.shell("kill -TERM $(cat /tmp/router-peer.pid)").await?;
                // A zombie has no command line.
                let ended = "test -z \"$(cat /proc/$(cat /tmp/router-peer.pid)/cmdline)\"";
                let has_ended = async || Ok(guest.shell(ended).await.is_ok());
                wait("router-peer to stop", has_ended, async || self.log().await).await?;
                self.log().await
            }
            Self::Here { mut child, log, _plug } => {
                let id = child.id().context("router-peer has ended by itself")?;
                Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
                let status = timeout(TIME_LIMIT, child.wait()).await??;
                ensure!(status.success(), "router-peer ended with {status}");
                Ok(fs::read_to_string(log)?)
            }
        }
    }
}
