//! The program router-peer on the second guest, over the sockets of its kernel.

use super::bird::{AS, HOLD_TIME, IPV4_ROUTES, IPV6_ROUTES, PEER_AS};
use super::wait::{has_lines, wait};
use crate::failure::Result;
use crate::guest::Guest;
use crate::net::{Family, Port};
use agent::{Log, Start, Stop, WriteFile};

const NAME: &str = "router-peer";
const CONFIGURATION: &str = "/tmp/peer/peer.toml";
/// The secret of TCP-MD5, where that is in use.
pub const MD5_SECRET: &str = "what both ends have long known";

/// The program, running.
pub struct Program<'a> {
    guest: &'a Guest,
}

/// A configuration of the program at a port, against BIRD. `protection` is a line of each peer's table.
pub fn configuration(at: Port, transport: &str, protection: &str) -> String {
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

impl<'a> Program<'a> {
    /// Starts it with as many routes as BIRD has.
    pub async fn start(guest: &'a Guest, protection: &str, keys: &str) -> Result<Self> {
        let files = [
            ("peer.toml", kernel_configuration(protection)),
            ("keys.toml", keys.into()),
            ("bird.md5", MD5_SECRET.into()),
        ];
        for (name, contents) in files {
            guest.call(WriteFile { path: format!("/tmp/peer/{name}"), contents }).await?;
        }
        let routes = |routes: usize, prefix: &str| {
            format!(
                "awk 'BEGIN {{ for (i = 0; i < {routes}; i++) printf \"{prefix}\\n\", i / 250, i % 250 }}'"
            )
        };
        guest
            .shell(&format!(
                "cd /tmp/peer && chmod 600 keys.toml bird.md5 && ({}; {}) >routes.txt",
                routes(IPV4_ROUTES, "70.%d.%d.0/24"),
                routes(IPV6_ROUTES, "2a02:%d:%d::/48")
            ))
            .await?;
        // A row that has failed may have left one.
        let _ = guest.call(Stop { name: NAME.to_owned() }).await;
        let command = ["/bin/router-peer", "--config", CONFIGURATION, "--transport", "kernel"];
        guest.call(Start { name: NAME.to_owned(), command: command.map(str::to_owned).to_vec() }).await?;
        Ok(Self { guest })
    }

    /// What it has logged so far.
    pub async fn log(&self) -> Result<String> {
        self.guest.call(Log { name: NAME.to_owned() }).await
    }

    /// Waits until so many lines of its log have these words.
    pub async fn await_log(&self, words: &str, lines: usize) -> Result<()> {
        let is_there = async || Ok(has_lines(&self.log().await?, words, lines));
        wait(words, is_there, async || self.log().await).await
    }

    /// Ends it in order, and returns its log.
    pub async fn stop(self) -> Result<String> {
        self.guest.shell("kill -TERM $(pidof router-peer)").await?;
        // A program that has ended has no command line, and nothing but its parent's interest.
        let ended = "test -z \"$(cat /proc/$(pidof router-peer)/cmdline)\"";
        let has_ended = async || Ok(self.guest.shell(ended).await.is_ok());
        wait("router-peer's end", has_ended, async || self.log().await).await?;
        let log = self.log().await?;
        self.guest.call(Stop { name: NAME.to_owned() }).await?;
        Ok(log)
    }
}
