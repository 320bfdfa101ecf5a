//! How many segments per second `wireseal verify` checks, and in how much memory, over a capture that is generated for it:
//!
//! ```text
//! cargo build --release -p wireseal --bin wireseal
//! cargo run --release -p wireseal --example throughput -- [SEGMENTS [CONNECTIONS [PAYLOAD]]]
//! ```
//!
//! Without numbers: 5,000,000 segments of 1,000 connections with 128 octets of payload, which take 1.1 GB of disk for the time
//! being. Linux alone, where `/proc` has a process's memory and time.

#[path = "../tests/verify_support/generate.rs"]
mod generate;
#[path = "../tests/verify_support/packet.rs"]
mod packet;

use std::error::Error;
use std::io::{BufWriter, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use generate::{Generate, KEY};

/// How often a running program is looked at.
const INTERVAL: Duration = Duration::from_millis(5);
const TURNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |place: usize, default: u64| numbers.get(place).copied().unwrap_or(default);
    let what = Generate {
        segments: number(0, 5_000_000),
        connections: u32::try_from(number(1, 1000))?,
        payload: usize::try_from(number(2, 128))?,
        lifetime: None,
    };
    let mut file = tempfile::NamedTempFile::new()?;
    let mut output = BufWriter::with_capacity(1 << 20, file.as_file_mut());
    generate::write(&mut output, what)?;
    output.flush()?;
    drop(output);
    // Examples are built to a directory beside the programs.
    let program = std::env::current_exe()?.with_file_name("../wireseal");
    for _ in 0..TURNS {
        let begin = Instant::now();
        let child = Command::new(&program)
            .arg("verify")
            .arg(file.path())
            .args(["--json", "--key", KEY])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let (status, memory, ticks) = watch(child)?;
        if !status.success() {
            return Err(format!("{}: {status}", program.display()).into());
        }
        let per_second = |seconds: f64| what.segments as f64 / seconds / 1e6;
        println!(
            "{:.2} million segments per second ({:.2} per second of processor time), {:.1} MiB at most",
            per_second(begin.elapsed().as_secs_f64()),
            per_second(ticks as f64 / 100.0),
            memory as f64 / 1024.0
        );
    }
    Ok(())
}

/// Waits for a program. Gives how it ended, its peak memory in KiB, and its processor time in hundredths of a second.
fn watch(mut child: Child) -> Result<(ExitStatus, u64, u64), Box<dyn Error>> {
    let (mut memory, mut ticks) = (0, 0);
    loop {
        let file = |name| std::fs::read_to_string(format!("/proc/{}/{name}", child.id())).unwrap_or_default();
        let peak = file("status")
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        memory = memory.max(peak.unwrap_or(0));
        // Behind the name in parentheses: fields 3 and on of proc_pid_stat(5), of which 14 and 15 are the times.
        let stat = file("stat");
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let times = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
        ticks = ticks.max(times.sum());
        if let Some(status) = child.try_wait()? {
            return Ok((status, memory, ticks));
        }
        std::thread::sleep(INTERVAL);
    }
}
