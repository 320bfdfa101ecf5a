//! The demonstration: checks that can fail, and a sabotage of each that makes it fail.

mod attacks;
mod quic;
mod sessions;

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use comfy_table::{ContentArrangement, Table, presets};
use rustls::CipherSuite as Suite;
use speaker::routes::Family::{Ipv4, Ipv6};
use wireseal_algorithms::TcpAoAlgorithm::{
    Aes128Cmac, HmacSha1, HmacSha256_128, Kmac256_128, LinuxHmacSha256,
};

use self::attacks::{Attack, GUESS, UNKNOWN_ID, attack, bad_key_session, flipped_bit, replay};
use self::sessions::{Conditions, SECRET, peak_memory};

/// Time limit for one check.
const PATIENCE: Duration = Duration::from_secs(180);

/// One row of the demonstration.
#[derive(Debug)]
pub struct Check {
    /// Its name for `--only` and `--break`.
    pub name: &'static str,
    action: &'static str,
    /// Describes what was seen.
    run: fn(Conditions) -> Running,
}

type Running = Pin<Box<dyn Future<Output = Result<String>> + Send>>;

/// A row: its name, what is done, and the function that does it, with parameters before the conditions.
macro_rules! check {
    ($name:literal, $action:expr, $run:path $(, $parameter:expr)*) => {
        Check { name: $name, action: $action, run: |conditions| Box::pin($run($($parameter,)* conditions)) }
    };
}

const SESSION: &str = "a session opens, routes go each way";
const QUIC: &str = "a session opens over QUIC, routes go each way";
const BAD_KEY: Attack = Attack { is_reset: false, signed: Some((1, GUESS)), expected: "dropped 1, bad +1" };
const UNKNOWN_KEY_ID: Attack =
    Attack { is_reset: false, signed: Some((UNKNOWN_ID, SECRET)), expected: "dropped 1, key not found +1" };
const UNSIGNED_RESET: Attack = Attack { is_reset: true, signed: None, expected: "dropped 1, required +1" };
const FORGED_RESET: Attack = Attack { is_reset: true, ..BAD_KEY };

/// All checks in the order in which they run.
pub const CHECKS: &[Check] = &[
    check!("hmac-sha-1-96/ipv4", SESSION, sessions::tcp_ao_session, HmacSha1, Ipv4),
    check!("hmac-sha-1-96/ipv6", SESSION, sessions::tcp_ao_session, HmacSha1, Ipv6),
    check!("aes-128-cmac-96/ipv4", SESSION, sessions::tcp_ao_session, Aes128Cmac, Ipv4),
    check!("aes-128-cmac-96/ipv6", SESSION, sessions::tcp_ao_session, Aes128Cmac, Ipv6),
    check!("linux-hmac-sha-256/ipv4", SESSION, sessions::tcp_ao_session, LinuxHmacSha256, Ipv4),
    check!("linux-hmac-sha-256/ipv6", SESSION, sessions::tcp_ao_session, LinuxHmacSha256, Ipv6),
    check!("hmac-sha256-128/ipv4", SESSION, sessions::tcp_ao_session, HmacSha256_128, Ipv4),
    check!("hmac-sha256-128/ipv6", SESSION, sessions::tcp_ao_session, HmacSha256_128, Ipv6),
    check!("kmac256-128/ipv4", SESSION, sessions::tcp_ao_session, Kmac256_128, Ipv4),
    check!("kmac256-128/ipv6", SESSION, sessions::tcp_ao_session, Kmac256_128, Ipv6),
    check!("routes", "a full table goes each way", sessions::full_table),
    check!(
        "rollover",
        "a key chain changes the key twice while routes flow each way",
        attacks::roll_over_twice
    ),
    check!("bad-key", "an attacker signs a NOTIFICATION with a guessed secret", attack, BAD_KEY),
    check!("bad-key-session", "a router with a guessed secret tries to open a session", bad_key_session),
    check!("unknown-key-id", "a NOTIFICATION with an unknown KeyID", attack, UNKNOWN_KEY_ID),
    check!("unsigned-reset", "an unsigned RST with the right sequence number", attack, UNSIGNED_RESET),
    check!("forged-reset", "the same RST, signed with a guessed secret", attack, FORGED_RESET),
    check!("replay", "a segment of this session comes again, then one of an earlier session", replay),
    check!("flipped-bit", "copies of a segment come first, each with one bit flipped", flipped_bit),
    check!("impairments", "5 % of segments are lost, 5 % reordered, 5 % duplicated", sessions::impairments),
    check!("quic/aes-128-gcm", QUIC, quic::session, Suite::TLS13_AES_128_GCM_SHA256),
    check!("quic/aes-256-gcm", QUIC, quic::session, Suite::TLS13_AES_256_GCM_SHA384),
    check!("quic/chacha20-poly1305", QUIC, quic::session, Suite::TLS13_CHACHA20_POLY1305_SHA256),
    check!("quic/aes-128-ccm", QUIC, quic::session, Suite::TLS13_AES_128_CCM_SHA256),
    check!("quic-routes", "a full table goes each way over QUIC", quic::full_table),
    check!("quic-key-update", "each router updates the QUIC key while routes flow", quic::key_update),
    check!("quic-certificate", "a router shows the wrong certificate", quic::other_certificate),
];

/// Runs all checks, or the one named `only`. Sabotages the one named `sabotage`, which must then fail. `seed` is for
/// everything random.
pub async fn run(only: Option<&str>, sabotage: Option<&str>, seed: u64) -> Report {
    let mut report = Report(Vec::new());
    for check in CHECKS.iter().filter(|check| only.is_none_or(|only| only == check.name)) {
        let &Check { name, action, run } = check;
        let started = Instant::now();
        let conditions = Conditions { seed, is_sabotaged: sabotage == Some(name) };
        let outcome = tokio::time::timeout(PATIENCE, run(conditions)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("no result in {} s", PATIENCE.as_secs())));
        report.0.push(Line { name, action, took: started.elapsed(), outcome });
    }
    report
}

/// Width of the table in columns, at most.
const WIDTH: u16 = 120;

/// One check that was run.
#[derive(Debug)]
struct Line {
    name: &'static str,
    action: &'static str,
    took: Duration,
    outcome: Result<String>,
}

/// The outcome of each check that was run.
#[derive(Debug)]
pub struct Report(Vec<Line>);

impl Report {
    /// The names of the checks that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<&'static str> {
        self.0.iter().filter(|line| line.outcome.is_err()).map(|line| line.name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table
            .load_style(presets::ASCII_BORDERS_ONLY_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(["check", "what is done", "what was seen", "verdict"]);
        for Line { name, action, took, outcome } in &self.0 {
            let (verdict, seen) = match outcome {
                Ok(seen) => ("ok", seen.clone()),
                Err(error) => ("FAILED", format!("{error:#}")),
            };
            let verdict = format!("{verdict}, {:.2} s", took.as_secs_f64());
            table.add_row([*name, *action, &seen, &verdict]);
        }
        let took: Duration = self.0.iter().map(|line| line.took).sum();
        write!(f, "{table}\nchecks: {} in {:.1} s", self.0.len(), took.as_secs_f64())?;
        if let Some(peak) = peak_memory() {
            write!(f, ", {peak} MiB of memory at most")?;
        }
        match self.failed().as_slice() {
            [] => write!(f, "\nrouter-peer: all checks passed"),
            failed => write!(f, "\nrouter-peer: failed: {}", failed.join(", ")),
        }
    }
}
