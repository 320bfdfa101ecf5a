//! The microcontroller: a Cortex-M4 with the image of examples/firmware, in QEMU, and its console.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use agent::{Counted, TIME_LIMIT};
use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::lab::Lab;
use crate::wait::becomes;
use crate::wire::Plug;
use crate::wire::Port;

/// How often to ask the console.
const CHECK: Duration = Duration::from_millis(20);

/// A running board. Dropping it stops the machine.
pub struct Firmware {
    lines: tokio::sync::Mutex<BufReader<OwnedReadHalf>>,
    keys: tokio::sync::Mutex<OwnedWriteHalf>,
    _process: Child,
    _plug: Plug,
}

/// The counters, as the console reports them.
#[derive(Clone, Debug)]
pub struct Report {
    pub counted: Counted,
    /// Refused packets, whether or not counted above.
    pub refused: u64,
    /// Frames that could not be read.
    pub unreadable: u64,
    pub connections: u64,
    /// The deepest use of the stack, in octets.
    pub stack: u64,
}

impl Firmware {
    /// Starts the board at its port of the wire.
    pub async fn boot(lab: &Lab, seed: u64) -> Result<Self> {
        let directory = lab.setting.state.join(Port::Firmware.to_string());
        std::fs::create_dir_all(&directory)?;
        let file = |name: &str| directory.join(name);
        for stale in ["console", "card", "wire"] {
            let _ = std::fs::remove_file(file(stale));
        }
        let console = UnixListener::bind(file("console"))?;
        let plug = lab.wire.plug_unix(Port::Firmware, &file("wire"), &file("card"))?;
        let path = |name: &str| file(name).display().to_string();
        let process = Command::new("qemu-system-arm")
            .args(["-machine", "mps2-an386", "-nodefaults", "-display", "none", "-kernel"])
            .arg(&lab.setting.image)
            .args(["-chardev", &format!("socket,id=console,path={}", path("console"))])
            .args(["-serial", "chardev:console", "-net", "nic,netdev=wire,model=lan9118"])
            .args([
                "-netdev",
                &format!(
                    "dgram,id=wire,local.type=unix,local.path={},remote.type=unix,remote.path={}",
                    path("card"),
                    path("wire")
                ),
            ])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("qemu-system-arm")?;
        let (stream, _) =
            timeout(TIME_LIMIT, console.accept()).await.context("the board does not start")??;
        let (read, write) = stream.into_split();
        let firmware =
            Self { lines: BufReader::new(read).into(), keys: write.into(), _process: process, _plug: plug };
        ensure!(firmware.line().await? == "seed?", "the board does not ask for a seed");
        firmware.keys.lock().await.write_all(&[seed.to_le_bytes(); 3].concat()).await?;
        ensure!(firmware.line().await? == "up", "the board does not come up");
        lab.take_in(Port::Firmware).await?;
        Ok(firmware)
    }

    /// The next line on the console.
    pub async fn line(&self) -> Result<String> {
        let mut line = String::new();
        let mut lines = self.lines.lock().await;
        let read = timeout(TIME_LIMIT, lines.read_line(&mut line)).await;
        let read = read.context("the board's console is silent")??;
        ensure!(read > 0, "the board's console has ended");
        Ok(line.trim_end().to_owned())
    }

    /// Types a command; returns the answer, a line.
    async fn command(&self, command: u8) -> Result<String> {
        self.keys.lock().await.write_all(&[command]).await?;
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
        let said = said.with_context(|| format!("the console says {line}"))?;
        let number = |name: &str| said.get(name).copied().with_context(|| format!("no {name} in {line}"));
        Ok(Report {
            counted: Counted {
                good: number("good")?,
                bad: number("bad")?,
                key_not_found: number("key not found")?,
                required: number("required")?,
                dropped_icmps: number("dropped ICMPs")?,
                ..Counted::default()
            },
            refused: number("refused")?,
            unreadable: number("unreadable")?,
            connections: number("connections")?,
            stack: number("stack")?,
        })
    }

    /// Waits until each counter has reached this.
    pub async fn await_counted(&self, at_least: &Counted) -> Result<Counted> {
        let has_reached = async || Ok(self.report().await?.counted.has_reached(at_least));
        let has_reached = becomes(CHECK, has_reached).await?;
        let counted = self.report().await?.counted;
        ensure!(has_reached, "the board has counted {counted} by now");
        Ok(counted)
    }
}
