//! The demonstration: a table of checks, each of which can fail.

mod algorithms;
mod attacks;
mod copies;
mod forgery;
mod impairments;
mod peers;
mod quic;
mod recording;
mod report;
mod rollover;
mod routes;
mod scene;
mod tally;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use rustls::CipherSuite;
use wireseal_algorithms::TcpAoAlgorithm;

pub use self::report::Report;
use crate::bgp::rib::Family;

/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// Why a check failed: what was expected, and what was seen instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure(pub String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Fails the check with a formatted message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::demo::Failure(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

/// A number as people read it, as in 100,000.
fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// What a check is told.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Seed of everything random.
    pub seed: u64,
    /// Whether this check is to be sabotaged: it must then fail.
    pub sabotaged: bool,
}

/// What a check did, in a few words.
type Outcome = Result<String, Failure>;
type Run = fn(Conditions) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Something that is done, and what must come of it.
#[derive(Clone, Copy)]
pub struct Check {
    /// What `--only` and `--break` call it.
    pub name: &'static str,
    /// What it does.
    pub action: &'static str,
    run: Run,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The check that a session comes up under an algorithm.
macro_rules! session {
    ($name:literal, $algorithm:expr, $family:expr) => {
        Check {
            name: $name,
            action: "a session opens, routes go each way",
            run: |conditions| Box::pin(algorithms::session($algorithm, $family, conditions)),
        }
    };
}

/// The check that a session comes up over QUIC under a suite.
macro_rules! quic_session {
    ($name:literal, $suite:expr) => {
        Check {
            name: $name,
            action: "a session opens over QUIC, routes go each way",
            run: |conditions| Box::pin(quic::session($suite, conditions)),
        }
    };
}

/// All checks, in the order in which they run.
pub const CHECKS: &[Check] = &[
    session!("hmac-sha-1-96/ipv4", TcpAoAlgorithm::HmacSha1, Family::Ipv4),
    session!("hmac-sha-1-96/ipv6", TcpAoAlgorithm::HmacSha1, Family::Ipv6),
    session!("aes-128-cmac-96/ipv4", TcpAoAlgorithm::Aes128Cmac, Family::Ipv4),
    session!("aes-128-cmac-96/ipv6", TcpAoAlgorithm::Aes128Cmac, Family::Ipv6),
    session!("linux-hmac-sha-256/ipv4", TcpAoAlgorithm::LinuxHmacSha256, Family::Ipv4),
    session!("linux-hmac-sha-256/ipv6", TcpAoAlgorithm::LinuxHmacSha256, Family::Ipv6),
    session!("hmac-sha256-128/ipv4", TcpAoAlgorithm::HmacSha256_128, Family::Ipv4),
    session!("hmac-sha256-128/ipv6", TcpAoAlgorithm::HmacSha256_128, Family::Ipv6),
    session!("kmac256-128/ipv4", TcpAoAlgorithm::Kmac256_128, Family::Ipv4),
    session!("kmac256-128/ipv6", TcpAoAlgorithm::Kmac256_128, Family::Ipv6),
    Check {
        name: "routes",
        action: "a full table goes each way",
        run: |conditions| Box::pin(routes::full_table(conditions)),
    },
    Check {
        name: "rollover",
        action: "a key chain changes the key twice while routes flow each way",
        run: |conditions| Box::pin(rollover::twice(conditions)),
    },
    Check {
        name: "bad-key",
        action: "a third host, which knows all but the secret, sends a NOTIFICATION in a router's name",
        run: |conditions| Box::pin(attacks::bad_key(conditions)),
    },
    Check {
        name: "bad-key-session",
        action: "a router with another secret tries to open a session",
        run: |conditions| Box::pin(attacks::bad_key_session(conditions)),
    },
    Check {
        name: "unknown-key-id",
        action: "a NOTIFICATION is signed with the right secret under an id nobody has",
        run: |conditions| Box::pin(attacks::unknown_key_id(conditions)),
    },
    Check {
        name: "unsigned-reset",
        action: "a RST with the right sequence number comes unsigned",
        run: |conditions| Box::pin(attacks::unsigned_reset(conditions)),
    },
    Check {
        name: "forged-reset",
        action: "the same RST comes with a made-up MAC",
        run: |conditions| Box::pin(attacks::forged_reset(conditions)),
    },
    Check {
        name: "replay",
        action: "a segment of this session comes again; then one of an earlier session, same addresses and ports",
        run: |conditions| Box::pin(copies::replay(conditions)),
    },
    Check {
        name: "flipped-bit",
        action: "a segment is held on its way; copies come first, each with one bit of the payload flipped",
        run: |conditions| Box::pin(copies::flipped_bit(conditions)),
    },
    Check {
        name: "impairments",
        action: "routes go each way while 5 % of segments are lost, 5 % reordered, 5 % duplicated",
        run: |conditions| Box::pin(impairments::survived(conditions)),
    },
    quic_session!("quic/aes-128-gcm", CipherSuite::TLS13_AES_128_GCM_SHA256),
    quic_session!("quic/aes-256-gcm", CipherSuite::TLS13_AES_256_GCM_SHA384),
    quic_session!("quic/chacha20-poly1305", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    quic_session!("quic/aes-128-ccm", CipherSuite::TLS13_AES_128_CCM_SHA256),
    Check {
        name: "quic-routes",
        action: "a full table goes each way over QUIC",
        run: |conditions| Box::pin(quic::full_table(conditions)),
    },
    Check {
        name: "quic-key-update",
        action: "each router updates the QUIC key once while a full table goes each way",
        run: |conditions| Box::pin(quic::key_update(conditions)),
    },
    Check {
        name: "quic-certificate",
        action: "a router shows another certificate than the configured one: once it calls, once it is called",
        run: |conditions| Box::pin(quic::other_certificate(conditions)),
    },
];

/// Which checks run, and which of them is sabotaged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// Only the check of this name runs.
    pub only: Option<&'a str>,
    /// The check of this name is sabotaged.
    pub sabotage: Option<&'a str>,
    /// Seed of everything random.
    pub seed: u64,
}

/// Runs the checks one after the other. None is skipped because another failed.
pub async fn run(selection: Selection<'_>) -> Report {
    let mut report = Report::default();
    for check in CHECKS.iter().filter(|check| selection.only.is_none_or(|only| only == check.name)) {
        let conditions =
            Conditions { seed: selection.seed, sabotaged: selection.sabotage == Some(check.name) };
        let started = Instant::now();
        let outcome = match tokio::time::timeout(PATIENCE, (check.run)(conditions)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure(format!("no result within {} s", PATIENCE.as_secs()))),
        };
        report.add(check, started.elapsed(), outcome);
    }
    report
}
