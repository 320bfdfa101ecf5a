//! Daemons without TCP-AO, as Debian packages them, and programs under `wireseal run` on a guest.

use agent::WriteFile;

use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bird::{AS, HOLD_TIME, PEER_AS};
use crate::wait::Program;

/// The folder of a daemon's configuration, and of its keys.
pub const FOLDER: &str = "/tmp/daemon";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Daemon {
    GoBgp,
    Frr,
    ExaBgp,
}

/// One end of a BGP session in each family.
#[derive(Clone, Copy, Debug)]
pub struct Speaker {
    pub own: Port,
    pub own_as: u32,
    pub peer: Port,
    pub peer_as: u32,
    /// Whether it opens the session, in the order of [`Family::ALL`].
    pub opens: [bool; 2],
    /// The VRF that it is in.
    pub vrf: Option<&'static str>,
    /// How many IPv4 routes it announces; only FRR can be told.
    pub routes: usize,
}

impl Speaker {
    /// One at a port whose peer is BIRD: it opens the session over IPv4 and waits for the one over IPv6.
    pub const fn of_bird(own: Port) -> Self {
        Self {
            own,
            own_as: PEER_AS,
            peer: Port::North,
            peer_as: AS,
            opens: [true, false],
            vrf: None,
            routes: 0,
        }
    }
}

impl Daemon {
    pub fn configuration(self, speaker: &Speaker) -> String {
        match self {
            Self::GoBgp => gobgp(speaker),
            Self::Frr => frr(speaker),
            Self::ExaBgp => exabgp(speaker),
        }
    }

    pub const fn command(self) -> &'static str {
        match self {
            Self::GoBgp => "gobgpd -f /tmp/daemon/daemon.conf --config-type toml --api-hosts 127.0.0.1:50051",
            Self::Frr => {
                "/usr/lib/frr/bgpd -f /tmp/daemon/daemon.conf -i /run/frr/bgpd.pid -z /run/frr/zserv.api \
                 --vty_socket /run/frr -A 127.0.0.1"
            }
            Self::ExaBgp => {
                "env exabgp.daemon.user=root exabgp.tcp.bind=2001:db8::3 exabgp.api.cli=false exabgp /tmp/daemon/daemon.conf"
            }
        }
    }

    /// Starts what it needs beside itself, unsupervised.
    pub async fn prepare(self, guest: &Guest) -> Result<()> {
        self.end(guest).await?;
        if self == Self::Frr {
            guest.shell("mkdir -p /run/frr /var/tmp/frr && chown frr:frr /run/frr /var/tmp/frr").await?;
            let zebra = "/usr/lib/frr/zebra -i /run/frr/zebra.pid -z /run/frr/zserv.api --vty_socket /run/frr -A 127.0.0.1";
            let zebra = Program::start(guest, "zebra", zebra).await?;
            let is_there = async || Ok(guest.shell("test -S /run/frr/zserv.api").await.is_ok());
            zebra.wait("zebra", is_there).await?;
        }
        Ok(())
    }

    /// Ends it and what was started for it, also after a failed row.
    pub async fn end(self, guest: &Guest) -> Result<()> {
        let end = "for p in bgpd zebra ldpd gobgpd exabgp; do pkill -9 $p; done 2>/dev/null; rm -rf /run/frr/*; true";
        guest.shell(end).await.map(drop)
    }
}

/// Waits until the kernel has nothing left to send for orphaned BGP sockets. Connections in TIME-WAIT (6) send nothing on their own. The
/// kernel soon gives up what the peer does not answer.
pub async fn await_no_sockets(guest: &Guest) -> Result<()> {
    guest
        .shell(
            "sysctl -q -w net.ipv4.tcp_orphan_retries=1; for try in $(seq 200); do
             awk '($2 ~ /:00B3$/ || $3 ~ /:00B3$/) && $4 != \"06\"' /proc/net/tcp /proc/net/tcp6 | grep -q . || break; sleep 0.1; done
             sysctl -q -w net.ipv4.tcp_orphan_retries=0",
        )
        .await
        .map(drop)
}

/// Writes a file beside the daemon's configuration.
pub async fn write(guest: &Guest, name: &str, contents: &str) -> Result<()> {
    guest.shell(&format!("mkdir -p {FOLDER}")).await?;
    guest.call(WriteFile { path: format!("{FOLDER}/{name}"), contents: contents.to_owned() }).await
}

/// The peers at a port, in both families, with their key chain.
pub fn peers(at: Port, vrf: Option<&str>) -> String {
    let device = vrf.map(|device| format!("%{device}")).unwrap_or_default();
    let peers = Family::ALL.map(|family| format!("\"{}{device}\" = \"lab\"\n", at.address(family)));
    format!("key-chains = \"keys.toml\"\n[peers]\n{}", peers.concat())
}

fn gobgp(speaker: &Speaker) -> String {
    let Speaker { own, own_as, peer, peer_as, opens, .. } = speaker;
    let mut text = format!("[global.config]\nas = {own_as}\nrouter-id = \"{}\"\n", own.ipv4());
    for (family, opens) in Family::ALL.into_iter().zip(opens) {
        text += &format!(
            "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{}\"\npeer-as = {peer_as}\n\
             [neighbors.transport.config]\npassive-mode = {}\n\
             [neighbors.timers.config]\nconnect-retry = 5\nhold-time = {HOLD_TIME}\nkeepalive-interval = 3\n",
            peer.address(family),
            !opens
        );
        for name in ["ipv4-unicast", "ipv6-unicast"] {
            text += &format!(
                "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{name}\"\n"
            );
        }
    }
    text
}

fn frr(speaker: &Speaker) -> String {
    let Speaker { own, own_as, peer, peer_as, opens, vrf, routes } = speaker;
    let vrf = vrf.map(|device| format!(" vrf {device}")).unwrap_or_default();
    let mut text = format!(
        "log stdout informational\nrouter bgp {own_as}{vrf}\nbgp router-id {}\nno bgp ebgp-requires-policy\nno bgp network import-check\n\
         timers bgp 3 {HOLD_TIME}\n",
        own.ipv4()
    );
    for (family, opens) in Family::ALL.into_iter().zip(opens) {
        let neighbor = format!("neighbor {}", peer.address(family));
        text += &format!("{neighbor} remote-as {peer_as}\n{neighbor} timers connect 5\n");
        text += &if *opens { String::new() } else { format!("{neighbor} passive\n") };
    }
    for name in ["ipv4", "ipv6"] {
        text += &format!("address-family {name} unicast\n");
        for family in Family::ALL {
            text += &format!("neighbor {} activate\n", peer.address(family));
        }
        for route in 0..if name == "ipv4" { *routes } else { 0 } {
            text += &format!("network 60.{}.{}.0/24\n", route / 250, route % 250);
        }
        text += "exit-address-family\n";
    }
    text
}

fn exabgp(speaker: &Speaker) -> String {
    let Speaker { own, own_as, peer, peer_as, opens, .. } = speaker;
    let mut text = String::new();
    for (family, opens) in Family::ALL.into_iter().zip(opens) {
        let passive = if *opens { "" } else { "passive true;\n" };
        text += &format!(
            "neighbor {} {{\nrouter-id {};\nlocal-address {};\nlocal-as {own_as};\npeer-as {peer_as};\nhold-time {HOLD_TIME};\n{passive}\
             family {{ ipv4 unicast; ipv6 unicast; }}\n}}\n",
            peer.address(family),
            own.ipv4(),
            own.address(family)
        );
    }
    text
}

/// Log lines of a session that the program opens, and of any session.
pub const CONNECTING: &str = "connecting with the keys of the peer";
pub const SESSION: &str = "a session with the keys of the peer";
pub const LISTENING: &str = "listening with the keys of all peers";

/// A command of `wireseal` that keeps running.
pub async fn start<'a>(guest: &'a Guest, name: &'static str, arguments: &str) -> Result<Program<'a>> {
    Program::start(guest, name, &format!("wireseal {arguments}")).await
}

/// A daemon under `wireseal run`, once it listens.
pub async fn supervise<'a>(
    guest: &'a Guest,
    daemon: Daemon,
    speaker: &Speaker,
    keys: &str,
) -> Result<Program<'a>> {
    write(guest, "daemon.conf", &daemon.configuration(speaker)).await?;
    write(guest, "wireseal.toml", &peers(speaker.peer, speaker.vrf)).await?;
    write(guest, "keys.toml", keys).await?;
    daemon.prepare(guest).await?;
    let command = format!("run --config {FOLDER}/wireseal.toml -- {}", daemon.command());
    let supervised = start(guest, "run", &command).await?;
    supervised.await_log(LISTENING, 1).await?;
    Ok(supervised)
}

/// Changes the key chain of a supervisor or a gateway while it runs.
pub async fn change_keys(program: &Program<'_>, keys: &str) -> Result<()> {
    let read = "the configuration was read again";
    let times = program.log().await?.matches(read).count();
    write(program.guest, "keys.toml", keys).await?;
    program.signal("HUP").await?;
    program.await_log(read, times + 1).await
}
