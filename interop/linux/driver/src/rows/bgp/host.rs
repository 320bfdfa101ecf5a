//! The program router-peer on this machine: its own TCP stack on the unix transport, its configuration file, the machine's clock.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use agent::{Counted, TIME_LIMIT};
use speaker::protection;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use wireseal_tcp_ao::key_chain::Timestamp;

use super::bird::{Bird, IPV4_ROUTES, IPV6_ROUTES, tcp_ao};
use super::common::{
    ALONE, BOTH, FIRST, ROUTES, SECRET, WHAT, await_routes, evidence, key_chain, key_file_at, roll,
};
use super::program::configuration;
use super::wait::{has_lines, wait};
use crate::failure::{Failure, Result, ensure};
use crate::lab::Lab;
use crate::net::Port;
use crate::row::{Evidence, Refusal, Row};
use crate::wire::Plug;

/// Seconds of the machine's clock from one moment of the key chain to the next.
const STEP: i64 = 8;
/// What stands for a time that does not come.
const DAY: i64 = 24 * 3600;
/// What the log says of a packet that Wireseal does not let through, with `--verbose`; and of one that came with a wrong MAC.
const REFUSED: &str = "packet dropped";
const BAD: &str = "packet dropped direction=Inbound reason=MAC does not verify";

/// A moment of the key chain, by this machine's clock.
fn by_clock(start: i64, moment: i64) -> i64 {
    if moment > ALONE { start + DAY } else { start + (moment - FIRST) * STEP / (BOTH - FIRST) }
}

/// The program, running. Dropping it ends it.
struct Program {
    child: Child,
    log: PathBuf,
    _plug: Plug,
}

impl Program {
    /// Starts it with as many routes as BIRD has, its key chain beginning now.
    async fn start(lab: &Lab, secret: &str, start: i64) -> Result<Self> {
        let directory = lab.setting.state.join(Port::Host.name());
        fs::create_dir_all(&directory)?;
        let file = |name: &str| directory.join(name);
        let own = Port::Host;
        let transport = format!(
            "kind = \"unix\"\nlocal-path = \"card\"\npeer-path = \"wire\"\naddresses = [\"{}/24\", \"{}/64\"]\n",
            own.ipv4(),
            own.ipv6()
        );
        fs::write(file("peer.toml"), configuration(Port::Host, &transport, "key-chain = \"lab\""))?;
        fs::write(file("routes.txt"), routes())?;
        let keys = key_file_at(secret, |moment| Timestamp::from_unix_seconds(by_clock(start, moment)));
        fs::write(file("keys.toml"), keys)?;
        fs::set_permissions(file("keys.toml"), Permissions::from_mode(0o600))?;
        let log = file("log");
        // The program of this build stands beside this one.
        let child = Command::new(std::env::current_exe()?.with_file_name("router-peer"))
            .args(["--verbose", "--seed", &seed().to_string(), "--config"])
            .arg(file("peer.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()?;
        // Frames for a socket that is not there yet would be lost.
        let is_there = async || Ok(is_socket_of(&child, &file("card")));
        wait("router-peer's socket", is_there, async || Ok(fs::read_to_string(&log)?)).await?;
        let plug = lab.wire.plug_unix(Port::Host, &file("wire"), &file("card"))?;
        Ok(Self { child, log, _plug: plug })
    }

    /// Waits until so many lines of its log have these words.
    async fn await_log(&self, words: &str, lines: usize) -> Result<()> {
        let log = async || Ok(fs::read_to_string(&self.log)?);
        wait(words, async || Ok(has_lines(&log().await?, words, lines)), log).await
    }

    /// Ends it in order, and returns its log.
    async fn stop(mut self) -> Result<String> {
        let id = self.child.id().ok_or_else(|| Failure("router-peer has ended by itself".to_owned()))?;
        Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
        let status = timeout(TIME_LIMIT, self.child.wait()).await??;
        ensure(status.success(), || format!("router-peer ended with {status}"))?;
        Ok(fs::read_to_string(&self.log)?)
    }
}

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

fn is_socket_of(child: &Child, path: &Path) -> bool {
    // One that a killed run has left takes nothing.
    child.id().is_some()
        && std::os::unix::net::UnixDatagram::unbound().is_ok_and(|probe| probe.connect(path).is_ok())
}

pub fn row() -> Row {
    Row::new(
        "bird-program",
        format!(
            "the program router-peer on this machine, unix transport and real time, against BIRD: {WHAT}"
        ),
        carry,
        "another secret at one end: no session, each end refuses the other's SYNs",
        twin,
    )
}

async fn carry(lab: &Lab) -> Result<Evidence> {
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    let bird = Bird::start(&lab.north, Port::Host, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let (started, start) = (Instant::now(), protection::now().unix_seconds());
    let program = Program::start(lab, SECRET, start).await?;
    program.await_log("session established", 1).await?;
    bird.open().await?;
    program.await_log(&format!("initial routes received ipv4={IPV4_ROUTES} ipv6={IPV6_ROUTES}"), 2).await?;
    let since = await_routes(&bird, ROUTES).await?;
    let seconds = started.elapsed().as_secs_f64();

    roll(lab, &bird, Port::Host, &keys, async |moment| {
        let left = by_clock(start, moment) - protection::now().unix_seconds();
        sleep(Duration::from_secs(u64::try_from(left).unwrap_or_default())).await;
        Ok(())
    })
    .await?;
    let now = await_routes(&bird, ROUTES).await?;
    ensure(since == now, || format!("BIRD's sessions are up since {now:?}, and were since {since:?}"))?;
    let counted = settled(lab, &before).await?;

    bird.close().await?;
    let log = program.stop().await?;
    ensure(log.matches("session established").count() == 2 && !log.contains(REFUSED), || {
        format!("router-peer's sessions did not stay up, or it has refused something: {log}")
    })?;
    bird.stop().await?;
    let counters = [("BIRD's kernel", counted.to_string()), ("router-peer", "0 packets refused".into())];
    evidence(lab, &keys, &counters, seconds)
}

/// What BIRD's kernel has counted when all that router-peer has sent is with it: all of it, as good.
async fn settled(lab: &Lab, before: &Counted) -> Result<Counted> {
    loop {
        let sent = lab.wire.segments_from(Port::Host);
        let expected = Counted::good(sent);
        let counted = lab.north.await_counted(before, expected).await?;
        if sent == lab.wire.segments_from(Port::Host) {
            ensure(counted == expected, || {
                format!("north has counted {counted}, {sent} segments have reached it")
            })?;
            return Ok(counted);
        }
    }
}

async fn twin(lab: &Lab) -> Result<Refusal> {
    let (_, keys) = key_chain(SECRET)?;
    let before = lab.north.counters().await?;
    let bird = Bird::start(&lab.north, Port::Host, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let program = Program::start(lab, "what one end knows", protection::now().unix_seconds()).await?;
    bird.open().await?;
    let counted = lab.north.await_counted(&before, Counted::bad(1));
    let (counted, ()) = tokio::try_join!(counted, program.await_log(BAD, 1))?;
    bird.close().await?;
    let log = program.stop().await?;
    bird.stop().await?;
    ensure(!log.contains("session established"), || "there was a session".to_owned())?;
    let bad = Refusal::of("router-peer: packets with a wrong MAC", log.matches(BAD).count() as u64);
    Ok(Refusal::by("north", &counted).and(bad))
}
