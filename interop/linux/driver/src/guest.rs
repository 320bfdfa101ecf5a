//! A virtual machine, and the connection to the agent in it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::{AwaitCounters, Call, Counted, GetCounters, Message, Reply, Run};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::wire::Port;
use crate::wire::{Plug, Wire};

/// Time limit for booting until the agent answers; it usually takes four seconds, and twenty with Debian.
const BOOT: Duration = Duration::from_secs(180);
/// Time limit for a request; most requests have a shorter one of their own.
const REQUEST: Duration = Duration::from_secs(150);
/// Octets of each packet in QEMU's own recording: the headers.
const DUMPED: u32 = 128;

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<Value, String>>>>>;

/// Files that the guests and the other hosts need.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Directory for recordings and logs; it also has the guests' kernels and file systems.
    pub state: PathBuf,
    /// The image of the microcontroller.
    pub image: PathBuf,
    /// The program of examples/lwip.
    pub lwip: PathBuf,
}

/// A kind of guest: the name of its kernel and file system, and its memory in MiB.
const fn machine(port: Port) -> (&'static str, &'static str) {
    match port {
        Port::South | Port::East => ("debian", "1280"),
        Port::Stock => ("stock", "1280"),
        _ => ("small", "512"),
    }
}

/// A running guest. Dropping it stops the machine.
pub struct Guest {
    port: Port,
    kernel: String,
    control: tokio::sync::Mutex<OwnedWriteHalf>,
    next_id: AtomicU64,
    waiting: Waiting,
    serial: String,
    _process: Child,
    _plug: Plug,
}

impl Guest {
    /// Boots a machine at a port of the wire and configures the port's addresses.
    pub async fn boot(port: Port, wire: &Wire, setting: &Setting) -> Result<Self> {
        let directory = setting.state.join(port.to_string());
        std::fs::create_dir_all(&directory)?;
        let file = |name: &str| directory.join(name);
        for stale in ["control", "card", "wire"] {
            let _ = std::fs::remove_file(file(stale));
        }
        let control = UnixListener::bind(file("control"))?;
        let plug = wire.plug_unix(port, &file("wire"), &file("card"))?;
        let mut process = qemu(port, &directory, setting).spawn()?;
        let serial = file("serial.log").display().to_string();

        let (stream, _) = tokio::select! {
            connection = timeout(BOOT, control.accept()) => connection??,
            status = process.wait() => return Err(anyhow!("QEMU of guest {port} ended with {}", status?)),
        };
        let (read, write) = stream.into_split();
        let mut lines = BufReader::new(read);
        let mut first = String::new();
        tokio::select! {
            read = timeout(BOOT, lines.read_line(&mut first)) => read.with_context(|| format!("no answer; see {serial}"))??,
            status = process.wait() => return Err(anyhow!("QEMU ended with {}; see {serial}", status?)),
        };
        let first: Reply = serde_json::from_str(&first)?;
        let (kernel, has_tcp_ao): (String, bool) =
            serde_json::from_value(first.result.map_err(anyhow::Error::msg)?)?;
        ensure!(has_tcp_ao == (port != Port::Stock), "TCP-AO in Linux {kernel}: {has_tcp_ao}");
        let waiting = Waiting::default();
        tokio::spawn(read_replies(lines, Arc::clone(&waiting)));
        let guest = Self {
            port,
            kernel,
            control: write.into(),
            next_id: AtomicU64::new(1),
            waiting,
            serial,
            _process: process,
            _plug: plug,
        };
        guest.configure().await?;
        Ok(guest)
    }

    pub const fn port(&self) -> Port {
        self.port
    }

    /// The kernel's release.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    pub async fn call<C: Call>(&self, call: C) -> Result<C::Answer> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let gone = || anyhow!("guest {} is gone; see {}", self.port, self.serial);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, sender);
        let mut line = serde_json::to_vec(&Message { id, request: call.into_request() })?;
        line.push(b'\n');
        self.control.lock().await.write_all(&line).await.map_err(|_| gone())?;
        let answer = timeout(REQUEST, answer).await.map_err(|_| gone())?.map_err(|_| gone())?;
        let answer = answer.map_err(|error| anyhow!("guest {}: {error}", self.port))?;
        Ok(serde_json::from_value(answer)?)
    }

    /// Runs a command line in the guest's shell. Fails unless it exits with 0.
    pub async fn shell(&self, line: &str) -> Result<String> {
        self.call(Run { line: line.to_owned() }).await
    }

    /// Sets the clock, in seconds since 1970.
    pub async fn set_clock(&self, seconds: i64) -> Result<()> {
        self.shell(&format!("date -u -s @{seconds}")).await.map(drop)
    }

    /// The machine's TCP-AO and TCP-MD5 counters.
    pub async fn counters(&self) -> Result<Counted> {
        self.call(GetCounters {}).await
    }

    /// Waits until the kernel has counted at least `grown` since `before`; returns the increase.
    pub async fn await_counted(&self, before: &Counted, grown: Counted) -> Result<Counted> {
        Ok(self.call(AwaitCounters { at_least: before.plus(&grown) }).await?.since(before))
    }

    async fn configure(&self) -> Result<()> {
        let (ipv4, ipv6) = (self.port.ipv4(), self.port.ipv6());
        // Addresses must work at once, and the guest must not send anything on its own.
        self.shell(&format!(
            "sysctl -q -w net.ipv6.conf.eth0.accept_dad=0 net.ipv6.conf.eth0.accept_ra=0 \
             net.ipv6.conf.eth0.router_solicitations=0 && \
             ip address add {ipv4}/24 dev eth0 && ip -6 address add {ipv6}/64 dev eth0 && ip link set eth0 up"
        ))
        .await?;
        Ok(())
    }
}

fn qemu(port: Port, directory: &Path, setting: &Setting) -> Command {
    let hardware_address = port.hardware_address().map(|octet| format!("{octet:02x}")).join(":");
    let at = |name: &str| directory.join(name).display().to_string();
    let (name, memory) = machine(port);
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args(["-nodefaults", "-display", "none", "-accel", "tcg", "-cpu", "max", "-m", memory, "-smp", "1"])
        .args([
            "-no-reboot",
            "-append",
            "console=ttyS0 quiet panic=-1 nokaslr mitigations=off no_timer_check",
        ])
        .arg("-kernel")
        .arg(setting.state.join(format!("{name}.vmlinuz")))
        .arg("-initrd")
        .arg(setting.state.join(format!("{name}.initramfs")))
        .args(["-serial", &format!("file:{}", at("serial.log"))])
        .args(["-device", "virtio-serial-pci"])
        .args(["-chardev", &format!("socket,id=control,path={}", at("control"))])
        .args(["-device", "virtserialport,chardev=control,nr=1"])
        .args([
            "-netdev",
            &format!(
                "dgram,id=wire,local.type=unix,local.path={},remote.type=unix,remote.path={}",
                at("card"),
                at("wire")
            ),
        ])
        // With event_idx and ioeventfd, QEMU 7.2 without KVM sometimes misses a packet to send, and then sends no more.
        .args([
            "-device",
            &format!(
                "virtio-net-pci,netdev=wire,mac={hardware_address},romfile=,event_idx=off,ioeventfd=off"
            ),
        ])
        .args([
            "-object",
            &format!("filter-dump,id=dump,netdev=wire,maxlen={DUMPED},file={}", at("wire.pcap")),
        ])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn read_replies(mut lines: BufReader<OwnedReadHalf>, waiting: Waiting) {
    let mut line = String::new();
    while matches!(lines.read_line(&mut line).await, Ok(octets) if octets > 0) {
        if let Ok(Reply { id, result }) = serde_json::from_str(&line)
            && let Some(sender) = waiting.lock().unwrap().remove(&id)
        {
            // The caller may have stopped waiting.
            let _ = sender.send(result);
        }
        line.clear();
    }
    waiting.lock().unwrap().clear();
}
