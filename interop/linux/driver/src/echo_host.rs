//! Hosts of the wire with an echo service under Wireseal's TCP-AO and a console: the microcontroller of examples/firmware, in QEMU, and
//! lwIP of examples/lwip, a process.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use agent::{Counted, TIME_LIMIT};
use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use wireseal_tcp_ao::Mkt;

use crate::lab::Lab;
use crate::wait::becomes;
use crate::wire::Family;
use crate::wire::Plug;
use crate::wire::Port;

/// How often to ask the console.
const CHECK: Duration = Duration::from_millis(20);
/// The port of the echo service (RFC 862).
const ECHO: u16 = 7;

/// A running host. Dropping it stops it.
pub struct EchoHost {
    /// Its name in results.
    pub name: &'static str,
    port: Port,
    lines: tokio::sync::Mutex<BufReader<Box<dyn AsyncRead + Unpin>>>,
    commands: tokio::sync::Mutex<Box<dyn AsyncWrite + Unpin>>,
    _process: Child,
    _plug: Plug,
}

/// The counters, as the console reports them.
#[derive(Clone, Debug)]
pub struct Report {
    pub counted: Counted,
    figures: HashMap<String, u64>,
}

impl Report {
    /// A figure by its name on the console.
    pub fn figure(&self, name: &str) -> Result<u64> {
        self.figures.get(name).copied().with_context(|| format!("the console does not say {name}"))
    }
}

/// Files of a host of the wire: the folder and its sockets, the host's own and the wire's. What an earlier run has left is gone.
fn files(lab: &Lab, port: Port, stale: &[&str]) -> Result<[PathBuf; 3]> {
    let folder = lab.setting.state.join(port.to_string());
    std::fs::create_dir_all(&folder)?;
    for name in stale {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let (card, wire) = (folder.join("card"), folder.join("wire"));
    Ok([folder, card, wire])
}

impl EchoHost {
    /// Starts the microcontroller at its port of the wire.
    pub async fn boot_firmware(lab: &Lab, seed: u64) -> Result<Self> {
        let [folder, card, wire] = files(lab, Port::Firmware, &["console", "card", "wire"])?;
        let console_path = folder.join("console");
        let console = UnixListener::bind(&console_path)?;
        let plug = lab.wire.plug_unix(Port::Firmware, &wire, &card)?;
        let process = Command::new("qemu-system-arm")
            .args(["-machine", "mps2-an386", "-nodefaults", "-display", "none", "-kernel"])
            .arg(&lab.setting.image)
            .args(["-chardev", &format!("socket,id=console,path={}", console_path.display())])
            .args(["-serial", "chardev:console", "-net", "nic,netdev=wire,model=lan9118"])
            .args([
                "-netdev",
                &format!(
                    "dgram,id=wire,local.type=unix,local.path={},remote.type=unix,remote.path={}",
                    card.display(),
                    wire.display()
                ),
            ])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("qemu-system-arm")?;
        let (stream, _) =
            timeout(TIME_LIMIT, console.accept()).await.context("the board does not start")??;
        let (read, write) = stream.into_split();
        let firmware = Self::new("firmware", Port::Firmware, (read, write), process, plug);
        ensure!(firmware.line().await? == "seed?", "the board does not ask for a seed");
        firmware.commands.lock().await.write_all(&[seed.to_le_bytes(); 3].concat()).await?;
        ensure!(firmware.line().await? == "up", "the board does not come up");
        lab.take_in(Port::Firmware).await?;
        Ok(firmware)
    }

    /// Starts lwIP with these keys at [`Port::Userspace`]. It listens, or calls the first guest's port `calls`.
    pub async fn start_lwip(lab: &Lab, family: Family, mkts: &[Mkt], calls: Option<u16>) -> Result<Self> {
        let own = Port::Userspace;
        let [folder, card, wire] = files(lab, own, &["card", "wire"])?;
        let mut keys = String::new();
        for mkt in mkts {
            let secret = str::from_utf8(mkt.master_key().expose_secret())?;
            keys += &format!("{} {} {} {secret}\n", mkt.send_id(), mkt.recv_id(), mkt.parameters().algorithm);
        }
        let key_file = folder.join("keys");
        std::fs::write(&key_file, keys)?;
        let plug = lab.wire.plug_unix(own, &wire, &card)?;
        let [ipv4, ipv6] = Family::ALL.map(|family| own.address(family).to_string());
        let mut command = Command::new(&lab.setting.lwip);
        command
            .args(["-e", "-s", &format!("{},{}", card.display(), wire.display()), "-k"])
            .arg(&key_file)
            .args(["-a", &ipv4, "-a", &ipv6, "-p", &Port::North.address(family).to_string()])
            .args(["-P", &calls.unwrap_or(ECHO).to_string()])
            .args(calls.map(|_| "-c"));
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("log"))?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| lab.setting.lwip.display().to_string())?;
        let (read, write) = (process.stdout.take(), process.stdin.take());
        let console = (read.context("no console")?, write.context("no console")?);
        let lwip = Self::new("lwIP", own, console, process, plug);
        // Once it answers, it listens or calls.
        lwip.report().await?;
        Ok(lwip)
    }

    fn new(
        name: &'static str,
        port: Port,
        (read, write): (impl AsyncRead + Unpin + 'static, impl AsyncWrite + Unpin + 'static),
        process: Child,
        plug: Plug,
    ) -> Self {
        let lines = BufReader::new(Box::new(read) as Box<dyn AsyncRead + Unpin>);
        let commands = Box::new(write) as Box<dyn AsyncWrite + Unpin>;
        Self { name, port, lines: lines.into(), commands: commands.into(), _process: process, _plug: plug }
    }

    /// Where it is on the wire.
    pub const fn port(&self) -> Port {
        self.port
    }

    /// Where its service is.
    pub const fn service(&self, family: Family) -> SocketAddr {
        self.port.at(family, ECHO)
    }

    /// The next line on the console.
    pub async fn line(&self) -> Result<String> {
        let mut line = String::new();
        let mut lines = self.lines.lock().await;
        let read = timeout(TIME_LIMIT, lines.read_line(&mut line)).await;
        let read = read.with_context(|| format!("the console of {} is silent", self.name))??;
        ensure!(read > 0, "the console of {} has ended", self.name);
        Ok(line.trim_end().to_owned())
    }

    /// Types a command; returns the answer, a line.
    async fn command(&self, command: u8) -> Result<String> {
        self.commands.lock().await.write_all(&[command]).await?;
        self.line().await
    }

    /// Asks the peers of all connections to sign with the next key.
    pub async fn roll_over(&self) -> Result<()> {
        let answer = self.command(b'r').await?;
        ensure!(answer == "asked for the next key", "the console says {answer}");
        Ok(())
    }

    pub async fn report(&self) -> Result<Report> {
        let line = self.command(b'c').await?;
        let said = |part: &str| {
            let (name, number) = part.rsplit_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        };
        let said: Option<HashMap<String, u64>> = line.split(", ").map(said).collect();
        let figures = said.with_context(|| format!("the console says {line}"))?;
        let mut report = Report { counted: Counted::default(), figures };
        report.counted = Counted {
            good: report.figure("good")?,
            bad: report.figure("bad")?,
            key_not_found: report.figure("key not found")?,
            required: report.figure("required")?,
            dropped_icmps: report.figure("dropped ICMPs")?,
            ..Counted::default()
        };
        Ok(report)
    }

    /// Waits until each counter has reached this.
    pub async fn await_counted(&self, at_least: &Counted) -> Result<Counted> {
        let has_reached = async || Ok(self.report().await?.counted.has_reached(at_least));
        let has_reached = becomes(CHECK, has_reached).await?;
        let counted = self.report().await?.counted;
        ensure!(has_reached, "{} has counted {counted} by now", self.name);
        Ok(counted)
    }
}
