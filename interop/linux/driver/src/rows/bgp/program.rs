//! The program router-peer on the second guest, over the sockets of its kernel.

use agent::WriteFile;

use super::bird::{AS, Bird, HOLD_TIME, IPV4_ROUTES, IPV6_ROUTES, PEER_AS, Since};
use super::common::{ROUTES, await_routes};
use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::wait::wait;

const NAME: &str = "router-peer";
const CONFIGURATION: &str = "/tmp/peer/peer.toml";
/// What the log says of each session.
pub const ESTABLISHED: &str = "session established";
/// A line of each peer's table.
pub const UNDER_AO: &str = "key-chain = \"lab\"";
/// The secret of TCP-MD5, where that is in use.
pub const MD5_SECRET: &str = "what both ends have long known";

/// The program, running on a guest.
pub struct Program<'a>(&'a Guest);

/// A configuration of the program, on the kernel's sockets, against BIRD. `protection` is a line of each peer's table.
fn configuration(protection: &str) -> String {
    let (own, bird) = (Port::South, Port::North);
    let mut text = format!(
        "key-chains = \"keys.toml\"\n[router]\nas = {PEER_AS}\nid = \"{0}\"\n[transport]\nkind = \"tun\"\ndevice = \"seal0\"\n\
         mtu = 1500\naddresses = [\"{0}/24\", \"{1}/64\"]\n",
        own.ipv4(),
        own.ipv6()
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

impl<'a> Program<'a> {
    /// Starts it on a guest.
    pub async fn start(guest: &'a Guest, protection: &str, keys: &str) -> Result<Self> {
        let files = [
            ("peer.toml", configuration(protection)),
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
        Ok(Self(guest))
    }

    /// What it has logged so far.
    pub async fn log(&self) -> Result<String> {
        self.0.log(NAME).await
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
        let guest = self.0;
        guest.shell("kill -TERM $(cat /tmp/router-peer.pid)").await?;
        // A zombie has no command line.
        let ended = "test -z \"$(cat /proc/$(cat /tmp/router-peer.pid)/cmdline)\"";
        let has_ended = async || Ok(guest.shell(ended).await.is_ok());
        wait("router-peer to stop", has_ended, async || self.log().await).await?;
        self.log().await
    }
}
