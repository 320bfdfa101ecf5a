//! T3: goodput on loopback.

mod quic;
mod stream;

use std::error::Error;
use std::time::{Duration, Instant};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, RootCertStore};

use crate::table::{Cell, Table};
use crate::timing::Effort;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The suite of TLS and of QUIC.
const SUITE: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;
const WRITES: [usize; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
/// What one transfer moves.
const OCTETS: usize = 48 << 20;

/// What the octets of a stream are, so that the receiver can tell those that were sent from others.
pub(crate) static SENT: [u8; 1 << 16] = [0x5a; 1 << 16];

/// Whether these octets can be of what was sent.
pub(crate) fn is_sent(octets: &[u8]) -> bool {
    octets.chunks(SENT.len()).all(|part| part == &SENT[..part.len()])
}

/// Sends octets in writes of one size, and gives the time until the peer has read them all.
type Transfer = Box<dyn Fn(usize, usize) -> Result<Duration>>;

fn contenders() -> Result<Vec<(&'static str, Transfer)>> {
    let ends = Ends::new(&ring::default_provider())?;
    let mut contenders: Vec<(&'static str, Transfer)> = vec![
        ("TCP", Box::new(stream::tcp)),
        ("TLS over TCP (rustls on ring)", Box::new(move |write, octets| stream::tls(&ends, write, octets))),
    ];
    let providers = [
        ("QUIC (quinn) on wireseal", wireseal_rustls::provider(ring::default_provider())),
        ("QUIC (quinn) on ring", ring::default_provider()),
        ("QUIC (quinn) with no encryption", quic::without_encryption(ring::default_provider())),
    ];
    for (name, provider) in providers {
        let quic = quic::Quic::new(&provider)?;
        contenders.push((name, Box::new(move |write, octets| quic.transfer(write, octets))));
    }
    Ok(contenders)
}

/// Both ends' TLS, with a certificate made for the occasion.
pub(crate) struct Ends {
    pub(crate) server: rustls::ServerConfig,
    pub(crate) client: rustls::ClientConfig,
}

impl Ends {
    /// TLS 1.3 with [`SUITE`] alone.
    pub(crate) fn new(provider: &CryptoProvider) -> Result<Self> {
        let suites = provider.cipher_suites.iter().filter(|suite| suite.suite() == SUITE);
        let provider = CryptoProvider { cipher_suites: suites.copied().collect(), ..provider.clone() };
        let provider = std::sync::Arc::new(provider);
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let certificate = CertificateDer::from(own.cert);
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
        let server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { server, client })
    }
}

pub(crate) fn table(effort: Effort) -> Result<Table> {
    let contenders = contenders()?;
    let columns = ["over loopback".to_owned()].into_iter();
    let columns = columns.chain(WRITES.iter().map(|write| format!("writes of {} KiB", write >> 10)));
    let mut table =
        Table::new("T3", "T3: goodput on loopback, both ends in this process, gigabits per second", columns);
    let (time, octets) = match effort {
        Effort::Once => (Duration::ZERO, 1 << 20),
        Effort::For(time) => (time * 10, OCTETS),
    };
    let mut goodput = vec![[0.0_f64; WRITES.len()]; contenders.len()];
    for (place, write) in WRITES.into_iter().enumerate() {
        let start = Instant::now();
        loop {
            for ((_, transfer), goodput) in contenders.iter().zip(&mut goodput) {
                let elapsed = transfer(write, octets)?;
                goodput[place] = goodput[place].max(octets as f64 * 8.0 / elapsed.as_nanos() as f64);
            }
            if start.elapsed() >= time {
                break;
            }
        }
    }
    for ((name, _), goodput) in contenders.iter().zip(&goodput) {
        let cells = goodput.iter().map(|goodput| Cell::Number(*goodput, 2, ""));
        table.rows.push([Cell::text(*name)].into_iter().chain(cells).collect());
    }
    let [tcp, tls, wireseal, ring, bare] = [0, 1, 2, 3, 4].map(|place| goodput[place][WRITES.len() - 1]);
    table.reading = format!(
        "In writes of 64 KiB quinn on Wireseal moves {:.2} times what it moves on ring, and {:.0} % of what it would with no encryption at \
         all: that is all that faster ciphers could still win here, the rest being quinn, its system calls and two cores. TLS over \
         TCP moves {:.0} % of bare TCP and {:.1} times what QUIC on Wireseal does. All with {SUITE:?}, {} MiB a transfer, the best of \
         several in turn.",
        wireseal / ring,
        100.0 * wireseal / bare,
        100.0 * tls / tcp,
        tls / wireseal,
        octets >> 20,
    );
    Ok(table)
}
