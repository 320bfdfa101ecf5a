//! Compares the throughput of `wireseal gateway` between two network namespaces with the same packet queues when they accept every packet
//! uninspected. Needs root and iproute2; the traffic stays in the two namespaces.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use wireseal_agent::{Gateway, Source};
use wireseal_algorithms::TcpAoAlgorithm;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
const PORT: u16 = 179;
const SECRET: &str = "what both ends know, 32 octets..";

/// Moves data between two network namespaces, through a gateway on each side and through queues that accept everything, in turn, and
/// prints what each moved.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Transfers of each kind.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Megabytes of each transfer.
    #[arg(long, default_value_t = 400)]
    megabytes: usize,
    /// Connections at once, between which the data are divided.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// The algorithm of the key.
    #[arg(long, default_value = "AES-128-CMAC-96")]
    algorithm: TcpAoAlgorithm,
    /// The MTU of the link.
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
}

/// The tasks of the processes in the namespaces; the program starts them itself.
#[derive(Subcommand)]
enum Role {
    #[command(hide = true)]
    Carry { keys: PathBuf, peer: String },
    #[command(hide = true)]
    Accept { most: usize },
    #[command(hide = true)]
    Send { to: SocketAddrV4, octets: usize, connections: usize },
    #[command(hide = true)]
    Receive { connections: usize },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.role {
        None => measure(&arguments),
        Some(Role::Carry { keys, peer }) => {
            let source = Source { keys: Some(keys.clone()), peers: vec![peer.parse()?], ..Source::default() };
            Ok(Gateway { threads: 1, ..Gateway::new(source) }.run()?)
        }
        Some(Role::Accept { most }) => Ok(Gateway::accept_all(3, *most)?),
        Some(Role::Send { to, octets, connections }) => send(*to, *octets, *connections),
        Some(Role::Receive { connections }) => receive(*connections),
    }
}

fn send(to: SocketAddrV4, octets: usize, connections: usize) -> Result<()> {
    let started = Instant::now();
    let each = octets / connections;
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            spawn(move || {
                let mut stream = TcpStream::connect(to)?;
                let data = vec![0; 1 << 16];
                let mut left = each;
                while left > 0 {
                    left -= stream.write(&data[..left.min(data.len())])?;
                }
                stream.shutdown(std::net::Shutdown::Write)?;
                // The other end confirms that it has received everything.
                stream.read_exact(&mut [0])
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread has panicked")??;
    }
    println!("{}", started.elapsed().as_secs_f64());
    Ok(())
}

fn receive(connections: usize) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    println!("ready");
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            let (mut stream, _) = listener.accept()?;
            Ok(spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while stream.read(&mut buffer)? > 0 {}
                stream.write_all(&[1])
            }))
        })
        .collect::<Result<_>>()?;
    for thread in threads {
        thread.join().map_err(|_| "a thread has panicked")??;
    }
    Ok(())
}

/// Two network namespaces connected by one link.
struct Net {
    names: [String; 2],
}

fn shell(line: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", line]).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

impl Net {
    fn new(mtu: u32) -> Result<Self> {
        let names = ["a", "b"].map(|side| format!("wireseal-bench-{}-{side}", std::process::id()));
        let net = Self { names };
        let [a, b] = &net.names;
        shell(&format!("ip netns add {a} && ip netns add {b}"))?;
        shell(&format!("ip link add wire netns {a} type veth peer name wire netns {b}"))?;
        for (name, address) in net.names.iter().zip(ADDRESSES) {
            shell(&format!(
                "ip -n {name} link set lo up && ip -n {name} addr add {address}/24 dev wire && \
                 ip -n {name} link set wire mtu {mtu} up"
            ))?;
        }
        Ok(net)
    }

    /// Starts this program in a namespace, with a role.
    fn start(&self, side: usize, arguments: &[&str]) -> Result<Process> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side]]).arg(std::env::current_exe()?).args(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        Ok(Process(child))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = shell(&format!("ip netns del {name}"));
        }
    }
}

struct Process(Child);

impl Process {
    /// The next line that the process prints.
    fn line(&mut self) -> Result<String> {
        let stdout = self.0.stdout.as_mut().ok_or("its output is read")?;
        let mut line = Vec::new();
        let mut octet = [0];
        while stdout.read(&mut octet)? == 1 && octet != *b"\n" {
            line.push(octet[0]);
        }
        Ok(String::from_utf8(line)?)
    }

    /// The process's seconds of processor time so far, in user mode and in the kernel.
    fn seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // Fields 14 and 15 of proc(5), in hundredths of a second on Linux; the parenthesis closes the second field.
        Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Megabits per second, and the two processes' processor seconds per gigabyte.
type Moved = (f64, f64);

fn transfer(net: &Net, arguments: &Arguments, processes: &[Process]) -> Result<Moved> {
    let connections = arguments.connections.to_string();
    let before = processes.iter().map(Process::seconds).sum::<Result<f64>>()?;
    let mut receiver = net.start(1, &["receive", &connections])?;
    receiver.line()?;
    let octets = arguments.megabytes * 1_000_000;
    let to = format!("{}:{PORT}", ADDRESSES[1]);
    let seconds: f64 = net.start(0, &["send", &to, &octets.to_string(), &connections])?.line()?.parse()?;
    let used = processes.iter().map(Process::seconds).sum::<Result<f64>>()? - before;
    Ok((octets as f64 * 8.0 / 1e6 / seconds, used / (octets as f64 / 1e9)))
}

/// The path of a transfer's packets. All use the rules of the gateways, which stay when the gateways are killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Through {
    Gateways,
    /// Queues that accept packets uninspected, at most this many at once.
    Queues(usize),
}

impl Through {
    const ALL: [Self; 3] = [Self::Gateways, Self::Queues(64), Self::Queues(1)];

    const fn name(self) -> &'static str {
        match self {
            Self::Gateways => "gateways",
            Self::Queues(1) => "queues, packets accepted one by one",
            Self::Queues(_) => "queues, packets accepted in the gateway's batches",
        }
    }

    fn start(self, net: &Net, side: usize, keys: &str) -> Result<Process> {
        match self {
            Self::Gateways => net.start(side, &["carry", keys, &ADDRESSES[1 - side].to_string()]),
            Self::Queues(most) => net.start(side, &["accept", &most.to_string()]),
        }
    }
}

fn measure(arguments: &Arguments) -> Result<()> {
    let Arguments { algorithm, rounds, megabytes, connections, mtu, .. } = arguments;
    println!("{}; {algorithm}, MTU {mtu}\n", processor()?);
    let folder = std::env::temp_dir().join(format!("wireseal-bench-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let keys = folder.join("keys.toml").display().to_string();
    fs::write(
        &keys,
        format!(
            "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"{algorithm}\"\nsecret = \"{SECRET}\"\n"
        ),
    )?;
    let net = Net::new(*mtu)?;
    let mut moved: [Vec<Moved>; 3] = Default::default();
    for _ in 0..*rounds {
        for (moved, through) in moved.iter_mut().zip(Through::ALL) {
            let processes =
                (0..2).map(|side| through.start(&net, side, &keys)).collect::<Result<Vec<_>>>()?;
            // Wait for the rules and the queues.
            sleep(Duration::from_millis(500));
            moved.push(transfer(&net, arguments, &processes)?);
        }
    }
    fs::remove_dir_all(folder)?;
    let medians = moved.each_ref().map(|moved| {
        let median = |of: fn(&Moved) -> f64| {
            let mut values: Vec<_> = moved.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        (median(|moved| moved.0), median(|moved| moved.1))
    });
    println!("{rounds} transfers of {megabytes} MB through each, in turn, {connections} connections:\n");
    println!(
        "| through | Mbit/s | median | CPU seconds for each gigabyte, both sides | gateways' part |\n|---|---|---|---|---|"
    );
    for (through, (moved, median)) in Through::ALL.iter().zip(moved.iter().zip(medians)) {
        let each: Vec<_> = moved.iter().map(|moved| format!("{:.0}", moved.0)).collect();
        println!(
            "| {} | {} | {:.0} | {:.2} | {:.2} |",
            through.name(),
            each.join(", "),
            median.0,
            median.1,
            medians[0].0 / median.0
        );
    }
    Ok(())
}

fn processor() -> Result<String> {
    let info = fs::read_to_string("/proc/cpuinfo")?;
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Ok(name.map_or("unknown processor", |(_, name)| name).to_owned())
}
