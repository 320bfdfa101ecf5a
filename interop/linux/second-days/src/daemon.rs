//! The daemons: one listens, the other connects, and each sends octets that the other can compute. A daemon is a process of this program,
//! so that it can also be started under `wireseal run`.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::journal::{HOLD, Journal};
use crate::world::Side;

pub const PORT: u16 = 179;
/// Between two records.
const PAUSE: Duration = Duration::from_millis(40);
/// Between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(300);
/// How long an attempt may take.
const CALL: Duration = Duration::from_secs(3);
/// Octets of a record.
const RECORD: usize = 32;
/// Octets that identify a connection.
const HELLO: usize = 16;

/// The mixing step of SplitMix64: good enough that no forgery matches it by chance.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The octets that one end of a session sends.
struct Stream(u64);

impl Stream {
    fn new(seed: u64, session: u64, is_of_caller: bool) -> Self {
        Self(mix(seed ^ mix(session ^ mix(u64::from(is_of_caller)))))
    }

    fn octets(&self, from: usize, count: usize) -> Vec<u8> {
        let octet = |at: usize| mix(self.0 ^ (at / 8) as u64).to_be_bytes()[at % 8];
        (from..from + count).map(octet).collect()
    }
}

fn hello(seed: u64, session: u64) -> [u8; HELLO] {
    let mut octets = [0; HELLO];
    octets[..8].copy_from_slice(&session.to_be_bytes());
    octets[8..].copy_from_slice(&mix(seed ^ session).to_be_bytes());
    octets
}

/// Why a session ended.
enum End {
    /// Octets that the peer has not sent.
    Forged,
    Lost(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Lost(match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "silent for too long".to_owned(),
            ErrorKind::UnexpectedEof => "closed by the other end".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// The process: prints when a session is up, when it is lost, and when an octet is not the peer's.
pub fn run(address: IpAddr, seed: u64, is_caller: bool) -> Result<()> {
    let address = SocketAddr::new(address, PORT);
    let ready = format!("ready {}", std::process::id());
    if !is_caller {
        let listener = TcpListener::bind(address)?;
        say(&ready);
        for stream in listener.incoming() {
            let stream = stream?;
            thread::spawn(move || hold(&stream, seed, None));
        }
    }
    say(&ready);
    for session in 1.. {
        match TcpStream::connect_timeout(&address, CALL) {
            Ok(stream) => hold(&stream, seed, Some(session)),
            Err(error) => say(&format!("call {error}")),
        }
        thread::sleep(AGAIN);
    }
    Ok(())
}

fn say(line: &str) {
    // If nobody reads the output any more, the day is over.
    if writeln!(io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}

/// Keeps a session until it ends. `session` is the caller's count; a listener is told.
fn hold(stream: &TcpStream, seed: u64, session: Option<u64>) {
    let mut was_up = false;
    let end = exchange(stream, seed, session, &mut was_up);
    match end {
        End::Forged => say("forged"),
        End::Lost(why) if was_up => say(&format!("lost {why}")),
        End::Lost(why) => say(&format!("never up: {why}")),
    }
    if was_up {
        say("down");
    }
}

fn exchange(mut stream: &TcpStream, seed: u64, session: Option<u64>, was_up: &mut bool) -> End {
    let begun = || -> Result<u64, End> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HOLD))?;
        stream.set_write_timeout(Some(HOLD))?;
        if let Some(session) = session {
            (&*stream).write_all(&hello(seed, session))?;
            return Ok(session);
        }
        let mut octets = [0; HELLO];
        (&*stream).read_exact(&mut octets)?;
        let session = u64::from_be_bytes(octets[..8].try_into().expect("eight octets"));
        if octets == hello(seed, session) { Ok(session) } else { Err(End::Forged) }
    };
    let session_number = match begun() {
        Ok(number) => number,
        Err(end) => return end,
    };
    let is_caller = session.is_some();
    let own = Stream::new(seed, session_number, is_caller);
    let Ok(mut sending) = stream.try_clone() else { return End::Lost("no descriptor".to_owned()) };
    thread::spawn(move || {
        let mut sent = 0;
        while sending.write_all(&own.octets(sent, RECORD)).is_ok() {
            sent += RECORD;
            thread::sleep(PAUSE);
        }
    });
    let peers = Stream::new(seed, session_number, !is_caller);
    let (mut got, mut buffer) = (0, [0; 4096]);
    let end = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break End::Lost("closed by the other end".to_owned()),
            Ok(count) if buffer[..count] != peers.octets(got, count) => break End::Forged,
            Ok(count) => got += count,
            Err(error) => break error.into(),
        }
        if !*was_up {
            *was_up = true;
            say("up");
        }
    };
    // The other thread notices the closed connection.
    let _ = stream.shutdown(std::net::Shutdown::Both);
    end
}

/// A daemon of the day.
pub struct Daemon {
    /// Its process, unless another process started it.
    child: Option<Child>,
    pid: Pid,
    up: Arc<Mutex<Up>>,
}

#[derive(Default)]
struct Up {
    sessions: u32,
    since: Option<Instant>,
}

/// The arguments for [`run`].
pub fn arguments(address: IpAddr, seed: u64, is_caller: bool) -> [String; 4] {
    let role = if is_caller { "call" } else { "listen" };
    ["daemon".to_owned(), address.to_string(), seed.to_string(), role.to_owned()]
}

impl Daemon {
    /// Starts it by this command, which has all arguments.
    pub fn start(mut command: Command, side: Side, journal: &Arc<Journal>) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("its output")?;
        let mut daemon = Self::follow(stdout, side, journal)?;
        daemon.child = Some(child);
        Ok(daemon)
    }

    /// A running daemon, given its output: waits until it listens or is about to connect.
    pub fn follow(stdout: ChildStdout, side: Side, journal: &Arc<Journal>) -> Result<Self> {
        let mut lines = BufReader::new(stdout).lines();
        let first = lines.next().context("the daemon ended")??;
        let pid = first.strip_prefix("ready ").and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        let pid = pid.with_context(|| format!("the daemon says {first}"))?;
        let up = Arc::new(Mutex::new(Up::default()));
        let (journal, known) = (Arc::clone(journal), Arc::clone(&up));
        thread::spawn(move || {
            let mut last_call = String::new();
            for line in lines.map_while(Result::ok) {
                let mut up = known.lock().unwrap_or_else(PoisonError::into_inner);
                match line.split_once(' ').unwrap_or((&line, "")) {
                    ("up", _) => {
                        up.sessions += 1;
                        up.since = Some(Instant::now());
                        journal.note(&format!("{side}: session up"));
                    }
                    ("down", _) => up.sessions = up.sessions.saturating_sub(1),
                    ("lost", why) => journal.lost(side, why),
                    ("forged", _) if journal.is_open(side) => {
                        journal.note(&format!("{side}: forged octets while it was open"));
                    }
                    ("forged", _) => journal.fault(&format!("{side}: forged octets reached the daemon")),
                    _ if line == last_call => {}
                    _ => {
                        journal.note(&format!("{side}: {line}"));
                        last_call = line;
                    }
                }
            }
        });
        Ok(Self { child: None, pid, up })
    }

    fn up(&self) -> MutexGuard<'_, Up> {
        self.up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when it has had a session.
    pub fn up_since(&self) -> Option<Instant> {
        let up = self.up();
        up.since.filter(|_| up.sessions > 0)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process(self.pid, Signal::KILL);
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
    }
}
