//! BIRD on the first guest, with a session over IPv4 and another over IPv6, or with one of them.

use std::cell::RefCell;

use agent::WriteFile;
use wireseal_tcp_ao::Mkt;

use crate::guest::Guest;
use crate::row::prelude::*;
use crate::wait::Program;

/// BIRD's AS number, and Wireseal's.
pub const AS: u32 = 64513;
pub const PEER_AS: u32 = 64512;
/// Hold time in seconds. KEEPALIVEs are sent every third of it.
pub const HOLD_TIME: u16 = 9;
/// Routes that BIRD announces in each session.
pub const IPV4_ROUTES: usize = 8_000;
pub const IPV6_ROUTES: usize = 2_000;

/// IPv4 and IPv6 routes that BIRD announces in each session, where its peer has these families.
pub fn routes_of(families: &[Family]) -> [usize; 2] {
    let routes = |family, routes| if families.contains(&family) { routes } else { 0 };
    [routes(Family::Ipv4, IPV4_ROUTES), routes(Family::Ipv6, IPV6_ROUTES)]
}

const CONFIGURATION: &str = "/tmp/bird.conf";
const CONTROL: &str = "/tmp/bird.ctl";

/// BIRD, running.
pub struct Bird<'a> {
    pub program: Program<'a>,
    remote: Port,
    /// There is a session over each, which carries the routes of all.
    pub families: &'static [Family],
    /// What protects the sessions, and whether BIRD opens the one over IPv6.
    configured: RefCell<(String, bool)>,
}

/// A time of day that BIRD prints, in milliseconds. BIRD combines two clocks, so the last digit may vary between two queries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Since(u32);

impl Since {
    const LEEWAY: u32 = 20;

    fn read(text: &str) -> Result<Self> {
        let [hours, minutes, seconds] = text.split(':').collect::<Vec<_>>()[..] else {
            bail!("no time: {text}")
        };
        let seconds = (seconds.parse::<f64>()? * 1000.0).round() as u32;
        Ok(Self(hours.parse::<u32>()? * 3_600_000 + minutes.parse::<u32>()? * 60_000 + seconds))
    }
}

impl PartialEq for Since {
    fn eq(&self, other: &Self) -> bool {
        self.0.abs_diff(other.0) <= Self::LEEWAY
    }
}

/// A session's state according to BIRD.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct State {
    /// When it entered this state.
    pub since: Since,
    pub state: String,
    /// Routes from the peer, of both families.
    pub imported: usize,
    /// Routes to the peer, of both families.
    pub exported: usize,
    /// The SendID of the key that it signs with.
    pub current_key: Option<u8>,
    /// The RecvID of the key that it asks the peer for.
    pub rnext_key: Option<u8>,
}

/// BIRD's configuration of a session with these keys, which have the other end's ids.
pub fn tcp_ao(keys: &[&Mkt], preferred: &Mkt) -> Result<String> {
    let mut text = "authentication ao; keys {\n".to_owned();
    for mkt in keys {
        let algorithm = mkt.parameters().algorithm;
        let algorithm = algorithm.bird_name().with_context(|| format!("BIRD has no {algorithm}"))?;
        let secret = str::from_utf8(mkt.master_key().expose_secret())?;
        let rank = if mkt.send_id() == preferred.send_id() { "preferred; " } else { "" };
        text += &format!(
            "key {{ send id {}; recv id {}; secret \"{secret}\"; algorithm {algorithm}; {rank}}};\n",
            mkt.recv_id(),
            mkt.send_id()
        );
    }
    Ok(text + "};")
}

/// BIRD's configuration of a session under TCP-MD5.
pub fn tcp_md5(secret: &str) -> String {
    format!("authentication md5; password \"{secret}\";")
}

const fn protocol(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "wireseal4",
        Family::Ipv6 => "wireseal6",
    }
}

/// The peer opens the session over IPv4, BIRD the one over IPv6.
fn configuration(remote: Port, families: &[Family], (protection, is_open): &(String, bool)) -> String {
    let own = Port::North;
    let mut text = format!("log stderr all;\nrouter id {};\nprotocol device {{ }}\n", own.ipv4());
    let mut channels = String::new();
    for family in families {
        let (channel, list) = match family {
            Family::Ipv4 => ("ipv4", "/tmp/routes4.conf"),
            Family::Ipv6 => ("ipv6", "/tmp/routes6.conf"),
        };
        text += &format!("protocol static {{ {channel};\ninclude \"{list}\";\n}}\n");
        channels += &format!(
            "{channel} {{ import all; export where source = RTS_STATIC; next hop address {}; }};\n",
            own.address(*family)
        );
    }
    for family in families {
        let opening = match (family, is_open) {
            (Family::Ipv4, _) => "passive yes",
            (Family::Ipv6, true) => "passive no",
            (Family::Ipv6, false) => "disabled yes",
        };
        text += &format!(
            "protocol bgp {} {{\nlocal {} as {AS};\nneighbor {} as {PEER_AS};\n{opening};\n\
             connect delay time 1;\nconnect retry time 5;\nerror wait time 1, 5;\nhold time {HOLD_TIME};\n{protection}\n\
             {channels}}}\n",
            protocol(*family),
            own.address(*family),
            remote.address(*family)
        );
    }
    text
}

async fn write(guest: &Guest, contents: String) -> Result<()> {
    guest.call(WriteFile { path: CONFIGURATION.to_owned(), contents }).await
}

impl<'a> Bird<'a> {
    pub async fn start(guest: &'a Guest, remote: Port, protection: &str) -> Result<Self> {
        Self::start_for(guest, remote, &Family::ALL, protection).await
    }

    /// The same with a peer that has these families only.
    pub async fn start_for(
        guest: &'a Guest,
        remote: Port,
        families: &'static [Family],
        protection: &str,
    ) -> Result<Self> {
        let route = |routes: usize, prefix: &str, path: &str| {
            format!(
                "awk 'BEGIN {{ for (i = 0; i < {routes}; i++) printf \"route {prefix} blackhole;\\n\", i / 250, i % 250 }}' >{path}"
            )
        };
        guest.shell(&route(IPV4_ROUTES, "60.%d.%d.0/24", "/tmp/routes4.conf")).await?;
        guest.shell(&route(IPV6_ROUTES, "2a01:%d:%d::/48", "/tmp/routes6.conf")).await?;
        let configured = (protection.to_owned(), false);
        write(guest, configuration(remote, families, &configured)).await?;
        let program =
            Program::start(guest, "bird", &format!("bird -f -c {CONFIGURATION} -s {CONTROL}")).await?;
        let bird = Self { program, remote, families, configured: RefCell::new(configured) };
        // Only then has the listening socket its keys. The session over IPv6 alone is not enabled yet.
        let wanted = if families.contains(&Family::Ipv4) { "Passive" } else { "" };
        let listens = async || Ok(bird.state(families[0]).await.is_ok_and(|state| state.state == wanted));
        bird.program.wait("BIRD to listen", listens).await?;
        Ok(bird)
    }

    /// Changes what protects the sessions.
    pub async fn configure(&self, protection: &str) -> Result<()> {
        self.configured.borrow_mut().0 = protection.to_owned();
        self.replace(self.text()).await
    }

    /// Its configuration, as it was last generated.
    pub fn text(&self) -> String {
        configuration(self.remote, self.families, &self.configured.borrow())
    }

    /// Puts another configuration in the place of its own, and makes BIRD read it.
    pub async fn replace(&self, contents: String) -> Result<()> {
        write(self.program.guest, contents).await?;
        let said = self.ask("configure").await?;
        ensure!(said.contains("Reconfigur"), "BIRD rejected its configuration: {said}");
        Ok(())
    }

    /// Makes BIRD open the session over IPv6. Listen first: a closed port answers unsigned.
    pub async fn open(&self) -> Result<()> {
        self.configured.borrow_mut().1 = true;
        self.ask(&format!("enable {}", protocol(Family::Ipv6))).await.map(drop)
    }

    /// Makes BIRD close that session and not open it again.
    pub async fn close(&self) -> Result<()> {
        self.configured.borrow_mut().1 = false;
        self.ask(&format!("disable {}", protocol(Family::Ipv6))).await?;
        self.program
            .wait("the IPv6 session to close", async || Ok(self.state(Family::Ipv6).await?.state.is_empty()))
            .await
    }

    /// Makes BIRD close a session, and wait for the peer to open it again.
    pub async fn restart(&self, family: Family) -> Result<()> {
        self.ask(&format!("restart {}", protocol(family))).await.map(drop)
    }

    async fn ask(&self, command: &str) -> Result<String> {
        let said = self.program.guest.shell(&format!("birdc -s {CONTROL} {command}")).await;
        said.with_context(|| format!("birdc {command}"))
    }

    pub async fn state(&self, family: Family) -> Result<State> {
        let said = self.ask(&format!("show protocols all {}", protocol(family))).await?;
        let mut state = State::default();
        for line in said.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [name, "BGP", _, _, since, rest @ ..] if *name == protocol(family) => {
                    state.since = Since::read(since)?;
                    state.state = rest.join(" ");
                }
                ["Current", "key:", id] => state.current_key = id.parse().ok(),
                ["RNext", "key:", id] => state.rnext_key = id.parse().ok(),
                ["Routes:", counts @ ..] => {
                    for count in counts.chunks_exact(2) {
                        match count[1].trim_end_matches(',') {
                            "imported" => state.imported += count[0].parse::<usize>()?,
                            "exported" => state.exported += count[0].parse::<usize>()?,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(state)
    }

    /// Waits until a session is established, has imported this many routes and exported all of BIRD's.
    pub async fn await_routes(&self, family: Family, imported: usize) -> Result<State> {
        self.await_exported(family, imported, routes_of(self.families).iter().sum()).await
    }

    /// The same with this many of BIRD's routes.
    pub async fn await_exported(&self, family: Family, imported: usize, exported: usize) -> Result<State> {
        let wanted = |state: &State| {
            state.state == "Established" && (state.imported, state.exported) == (imported, exported)
        };
        let what = format!("{imported} and {exported} routes in BIRD's session over {family}");
        self.program.wait(&what, async || Ok(wanted(&self.state(family).await?))).await?;
        self.state(family).await
    }

    /// Checks that no session is up.
    pub async fn check_kept_out(&self) -> Result<()> {
        for family in self.families {
            let state = self.state(*family).await?;
            ensure!(state.state != "Established", "BIRD's session over {family} is up");
        }
        Ok(())
    }

    /// [`stop`](Self::stop) where connections may be left whose other end is gone: makes the kernel give them up after seconds instead of
    /// minutes.
    pub async fn stop_alone(self) -> Result<()> {
        let guest = self.program.guest;
        guest.shell("sysctl -q -w net.ipv4.tcp_orphan_retries=1").await?;
        self.stop().await?;
        guest.shell("sysctl -q -w net.ipv4.tcp_orphan_retries=0").await.map(drop)
    }

    /// Stops BIRD, and waits until the guest's kernel has nothing left to send for it.
    pub async fn stop(self) -> Result<()> {
        self.ask("down").await?;
        self.program.wait("BIRD to stop", async || {
            // BIRD removes its control socket last. Connections in TIME-WAIT (6) send nothing on their own.
            let left = format!(
                "test ! -e {CONTROL} && awk '($2 ~ /:00B3$/ || $3 ~ /:00B3$/) && $4 != \"06\"' /proc/net/tcp /proc/net/tcp6"
            );
            Ok(self.program.guest.shell(&left).await.is_ok_and(|left| left.is_empty()))
        })
        .await
    }
}
