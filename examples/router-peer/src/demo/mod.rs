//! The demonstration: a table of checks, each of which can fail.

mod attacks;
mod pair;
mod quic;
mod report;
mod rollover;
mod sessions;
mod tally;

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use rustls::CipherSuite;
use speaker::bgp::rib::Family::{self, Ipv4, Ipv6};
use wireseal_algorithms::TcpAoAlgorithm;

use self::Kind::{
    BadKeySession, FlippedBit, Impairments, QuicCertificate, QuicKeyUpdate, QuicRoutes, Replay, Rollover,
    Routes, Struck,
};
use self::attacks::Strike;
pub use self::report::Report;
use self::sessions::Conditions;

/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// Something that is done, and what must come of it.
#[derive(Debug)]
pub struct Check {
    /// What `--only` and `--break` call it.
    pub name: &'static str,
    action: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Session(TcpAoAlgorithm, Family),
    Routes,
    Rollover,
    Struck(Strike),
    BadKeySession,
    Replay,
    FlippedBit,
    Impairments,
    Quic(CipherSuite),
    QuicRoutes,
    QuicKeyUpdate,
    QuicCertificate,
}

const fn session(name: &'static str, algorithm: TcpAoAlgorithm, family: Family) -> Check {
    check(name, "a session opens, routes go each way", Kind::Session(algorithm, family))
}

const fn quic(name: &'static str, suite: CipherSuite) -> Check {
    check(name, "a session opens over QUIC, routes go each way", Kind::Quic(suite))
}

const fn check(name: &'static str, action: &'static str, kind: Kind) -> Check {
    Check { name, action, kind }
}

/// All checks, in the order in which they run.
pub const CHECKS: &[Check] = &[
    session("hmac-sha-1-96/ipv4", TcpAoAlgorithm::HmacSha1, Ipv4),
    session("hmac-sha-1-96/ipv6", TcpAoAlgorithm::HmacSha1, Ipv6),
    session("aes-128-cmac-96/ipv4", TcpAoAlgorithm::Aes128Cmac, Ipv4),
    session("aes-128-cmac-96/ipv6", TcpAoAlgorithm::Aes128Cmac, Ipv6),
    session("linux-hmac-sha-256/ipv4", TcpAoAlgorithm::LinuxHmacSha256, Ipv4),
    session("linux-hmac-sha-256/ipv6", TcpAoAlgorithm::LinuxHmacSha256, Ipv6),
    session("hmac-sha256-128/ipv4", TcpAoAlgorithm::HmacSha256_128, Ipv4),
    session("hmac-sha256-128/ipv6", TcpAoAlgorithm::HmacSha256_128, Ipv6),
    session("kmac256-128/ipv4", TcpAoAlgorithm::Kmac256_128, Ipv4),
    session("kmac256-128/ipv6", TcpAoAlgorithm::Kmac256_128, Ipv6),
    check("routes", "a full table goes each way", Routes),
    check("rollover", "a key chain changes the key twice while routes flow each way", Rollover),
    check("bad-key", "a third host signs a NOTIFICATION with another secret", Struck(Strike::BadKey)),
    check("bad-key-session", "a router with another secret tries to open a session", BadKeySession),
    check("unknown-key-id", "a NOTIFICATION is signed under an unknown key id", Struck(Strike::UnknownKeyId)),
    check("unsigned-reset", "a RST in the right place comes unsigned", Struck(Strike::UnsignedReset)),
    check("forged-reset", "the same RST comes with a made-up MAC", Struck(Strike::ForgedReset)),
    check("replay", "a segment of this session comes again, then one of an earlier session", Replay),
    check("flipped-bit", "copies of a segment come first, each with one bit flipped", FlippedBit),
    check("impairments", "routes go each way; 5 % of segments are lost, 5 % late, 5 % doubled", Impairments),
    quic("quic/aes-128-gcm", CipherSuite::TLS13_AES_128_GCM_SHA256),
    quic("quic/aes-256-gcm", CipherSuite::TLS13_AES_256_GCM_SHA384),
    quic("quic/chacha20-poly1305", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    quic("quic/aes-128-ccm", CipherSuite::TLS13_AES_128_CCM_SHA256),
    check("quic-routes", "a full table goes each way over QUIC", QuicRoutes),
    check("quic-key-update", "each router updates the QUIC key once while routes flow", QuicKeyUpdate),
    check("quic-certificate", "a router, once at either end, shows the wrong certificate", QuicCertificate),
];

/// Runs the checks one after the other, or the one named `only`. The one named `sabotage` is sabotaged, and must then fail.
/// `seed` is that of everything random.
pub async fn run(only: Option<&str>, sabotage: Option<&str>, seed: u64) -> Report {
    let mut report = Report::default();
    for check in CHECKS.iter().filter(|check| only.is_none_or(|only| only == check.name)) {
        let started = Instant::now();
        let conditions = Conditions { seed, is_sabotaged: sabotage == Some(check.name) };
        let outcome = tokio::time::timeout(PATIENCE, check.kind.run(conditions)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("no result in {} s", PATIENCE.as_secs())));
        report.add(check.name, check.action, started.elapsed(), outcome);
    }
    report
}

impl Kind {
    /// Carries it out, and says in a few words what was seen.
    async fn run(self, conditions: Conditions) -> Result<String> {
        match self {
            Self::Session(algorithm, family) => pair::session(algorithm, family, conditions).await,
            Routes => pair::full_table(conditions).await,
            Impairments => pair::impairments(conditions).await,
            Rollover => rollover::twice(conditions).await,
            Struck(strike) => attacks::strike(strike, conditions).await,
            BadKeySession => attacks::bad_key_session(conditions).await,
            Replay => attacks::replay(conditions).await,
            FlippedBit => attacks::flipped_bit(conditions).await,
            Self::Quic(suite) => quic::session(suite, conditions).await,
            QuicRoutes => quic::full_table(conditions).await,
            QuicKeyUpdate => quic::key_update(conditions).await,
            QuicCertificate => quic::other_certificate(conditions).await,
        }
    }
}
