//! wireseal-second-days: what an operator does on the second day, at random, while an attacker injects frames.
//!
//! ```text
//! wireseal-second-days --program target/debug/wireseal [--days N] [--seed N] [--seconds N] [--at-once N] [--keep FOLDER] [--open]
//!                       [--guest]
//! ```
//!
//! `--seed` alone runs one day and shows its log; with `--days` it is the first day's seed. After `--seconds` no more days begin. `--open`
//! removes the rules in each day without telling the witness, who must notice: a test that cannot fail shows nothing. `--guest` is for a
//! virtual machine with a kernel that has TCP-AO: at least one end is a daemon under `wireseal run`, and the clock is set. The exit code is
//! 0 if each day went as it should, 1 if not, and 2 if no day can be run. Needs root, iproute2, iptables and util-linux.
//!
//! | module | what is in it |
//! |---|---|
//! | `day`, `event` | a day, and what can happen in it |
//! | `operator`, `instance`, `keys` | carries out the events and knows what the documents promise; the gateways; their files |
//! | `daemon` | the programs whose session is protected |
//! | `wire`, `frame` | the cable between the hosts, and the witness, which checks every frame there |
//! | `attacker` | injects frames |
//! | `world`, `journal` | the hosts; what happened |
//!
//! Each day is a process in mount and process namespaces of its own, so nothing of it is left behind.

mod attacker;
mod daemon;
mod day;
mod event;
mod frame;

mod instance;
mod journal;
mod keys;
mod operator;
mod wire;
mod world;

use std::env;
use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::world::Orders;

/// The time limit of a day.
const DAY: Duration = Duration::from_secs(240);
/// Exit code if no day can be run.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["daemon", address, seed, role] => daemon(address, seed, role).map(|()| true),
        ["day", seed, program, folder, how] => day(seed, program, folder, how),
        _ => battery(&words),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("wireseal-second-days: {error:#}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn daemon(address: &str, seed: &str, role: &str) -> Result<()> {
    daemon::run(address.parse()?, seed.parse()?, role == "call")
}

/// One day, in namespaces of its own.
fn day(seed: &str, program: &str, folder: &str, how: &str) -> Result<bool> {
    // Hides the instances and namespaces of others.
    world::shell("mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/netns")?;
    day::run(&Orders {
        seed: seed.parse()?,
        program: program.into(),
        folder: folder.into(),
        is_open: how.contains("--open"),
        is_loud: how.contains("--loud"),
        is_in_guest: how.contains("--guest"),
    })
}

struct Battery {
    program: PathBuf,
    keep: PathBuf,
    seed: u64,
    days: u64,
    end: Option<Instant>,
    is_open: bool,
    /// The options of a day.
    how: String,
}

fn battery(words: &[&str]) -> Result<bool> {
    let mut program = PathBuf::from("target/debug/wireseal");
    let mut keep = env::temp_dir().join(format!("wireseal-second-days-{}", std::process::id()));
    let (mut seed, mut days, mut seconds, mut at_once, mut how) = (None, None, None, 6, String::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if ["--open", "--guest"].contains(word) {
            how += word;
            continue;
        }
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().with_context(|| format!("{word} {value} is no number"));
        match *word {
            "--program" => program = value.into(),
            "--keep" => keep = value.into(),
            "--seed" => seed = Some(number()?),
            "--days" => days = Some(number()?),
            "--seconds" => seconds = Some(Duration::from_secs(number()?)),
            "--at-once" => at_once = number()?,
            _ => bail!("{word} is no option; see the head of main.rs"),
        }
    }
    if days.is_none() && seed.is_some() {
        how += "--loud";
    }
    if how.contains("--guest") {
        // All days share one clock.
        at_once = 1;
    }
    let program = program.canonicalize().with_context(|| format!("{}: build it first", program.display()))?;
    ensure!(rustix::process::geteuid().is_root(), "network namespaces need root");
    let battery = Battery {
        program,
        keep,
        seed: seed.unwrap_or(1),
        days: days.unwrap_or(if seed.is_some() { 1 } else { 100 }),
        end: seconds.map(|seconds| Instant::now() + seconds),
        is_open: how.contains("--open"),
        how,
    };
    fs::create_dir_all(&battery.keep)?;
    battery.run(at_once)
}

impl Battery {
    /// Runs this many days at the same time until all are done; returns whether each went as it should.
    fn run(&self, at_once: u64) -> Result<bool> {
        let started = Instant::now();
        let next = AtomicU64::new(0);
        let ended = Mutex::new((0_u64, Vec::new(), None));
        thread::scope(|scope| {
            for _ in 0..at_once.min(self.days) {
                scope.spawn(|| {
                    while self.end.is_none_or(|end| Instant::now() < end) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.days {
                            break;
                        }
                        let seed = self.seed + number;
                        let result = self.day(seed);
                        let mut ended = ended.lock().expect("no day panics here");
                        match result {
                            Ok((text, is_good)) => {
                                print!("{text}");
                                ended.0 += 1;
                                if !is_good {
                                    ended.1.push(seed);
                                }
                            }
                            Err(error) => {
                                ended.2 = Some(error);
                                break;
                            }
                        }
                    }
                });
            }
        });
        let (days, bad, error) = ended.into_inner().expect("no day panics here");
        if let Some(error) = error {
            return Err(error);
        }
        let took = started.elapsed().as_secs();
        if bad.is_empty() {
            println!("{days} days in {took} s: each went as it should");
            fs::remove_dir_all(&self.keep)?;
        } else {
            println!(
                "{days} days in {took} s; not as they should: {bad:?}; their logs: {}",
                self.keep.display()
            );
        }
        ensure!(days > 0, "no day was run");
        Ok(bad.is_empty())
    }

    /// Runs a day; returns its output, and whether it went as it should.
    fn day(&self, seed: u64) -> Result<(String, bool)> {
        let folder = self.keep.join(format!("day-{seed}"));
        // Removes what an earlier run has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        let mut child = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"])
            .arg(env::current_exe()?)
            .args(["day", &seed.to_string()])
            .args([&self.program, &folder])
            .arg(&self.how)
            .stdout(Stdio::piped())
            .spawn()
            .context("unshare")?;
        let mut output = child.stdout.take().context("its output")?;
        let reader = thread::spawn(move || {
            let mut text = String::new();
            // Output that is not text contains no verdict.
            let _ = output.read_to_string(&mut text);
            text
        });
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status.code();
            }
            if started.elapsed() > DAY {
                child.kill()?;
                child.wait()?;
                break None;
            }
            thread::sleep(Duration::from_millis(50));
        };
        let text = reader.join().unwrap_or_default();
        match status {
            Some(0 | 1) => {}
            None => return Ok((format!("day {seed}: not over after {DAY:?}\n{text}"), false)),
            Some(code) => bail!("day {seed}: exit code {code}; {}", folder.display()),
        }
        let has_noticed = text.contains("A sent an unsigned segment");
        let is_good = if self.is_open { has_noticed } else { status == Some(0) };
        if is_good {
            fs::remove_dir_all(&folder)?;
        }
        let noticed = if self.is_open && !has_noticed {
            "    the witness has NOT noticed that it was open\n"
        } else {
            ""
        };
        Ok((format!("{text}{noticed}"), is_good))
    }
}
