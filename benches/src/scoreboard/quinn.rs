//! quinn with packet protection from different libraries, end to end: processor time, goodput, and the time of the protection alone.

use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{CipherSuite, quic};
use wireseal_quinn::{CountedKeys, counted_client, counted_server};

use crate::Result;
use crate::table::{Cell, Table, range};
use crate::timing::Effort;
use crate::transfer::{Crypto, Transfer, tls};

const ROUNDS: usize = 10;
/// The length of a transfer in octets.
const OCTETS: usize = 64 << 20;

const SUITES: [(&str, CipherSuite); 3] = [
    ("AES-128-GCM", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("AES-256-GCM", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("ChaCha20-Poly1305", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
];

/// The library that protects packets. The others are compared with the first.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Ring,
    #[cfg(feature = "peers")]
    AwsLc,
    Rustls,
    KeyModule,
}

impl By {
    const ALL: &[Self] = &[
        Self::Ring,
        #[cfg(feature = "peers")]
        Self::AwsLc,
        Self::Rustls,
        Self::KeyModule,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            #[cfg(feature = "peers")]
            Self::AwsLc => "aws-lc-rs",
            Self::Rustls => "Wireseal through rustls",
            Self::KeyModule => "Wireseal's key module",
        }
    }

    fn provider(self) -> CryptoProvider {
        match self {
            Self::Ring | Self::KeyModule => ring::default_provider(),
            #[cfg(feature = "peers")]
            Self::AwsLc => rustls::crypto::aws_lc_rs::default_provider(),
            Self::Rustls => wireseal_rustls::provider(ring::default_provider()),
        }
    }

    fn crypto(self, suite: CipherSuite) -> Result<Crypto> {
        let provider = self.provider();
        let (client, server) = tls(&provider, suite)?;
        Ok(match self {
            Self::KeyModule => Crypto {
                client: Arc::new(wireseal_quinn::QuicClientConfig::try_from(client)?),
                server: Arc::new(wireseal_quinn::QuicServerConfig::try_from(server)?),
            },
            _ => {
                let initial = initial(&provider)?;
                Crypto {
                    client: Arc::new(QuicClientConfig::with_initial(client.into(), initial)?),
                    server: Arc::new(QuicServerConfig::with_initial(server.into(), initial)?),
                }
            }
        })
    }
}

/// The suite for Initial packets, which a configuration with a single other suite does not have.
fn initial(provider: &CryptoProvider) -> Result<quic::Suite> {
    let mut suites = provider.cipher_suites.iter();
    let suite = suites.find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    Ok(suite.and_then(|suite| suite.tls13()?.quic_suite()).ok_or("no suite for Initial packets")?)
}

/// The measurements of a contender, one for each round.
#[derive(Default)]
struct Rounds {
    /// Seconds of processor time for a gigabyte.
    processor: Vec<f64>,
    /// Gigabits per second.
    goodput: Vec<f64>,
    /// Nanoseconds of protection per packet: sealing, masking, unmasking and opening.
    protection: Vec<f64>,
}

/// A library with one of the settings.
struct Contender {
    by: By,
    transfer: Transfer,
    /// The same transfer with the calls of its keys timed, which takes time itself.
    timed: Transfer,
    /// The counts of these keys, at the client and at the server.
    keys: [Arc<CountedKeys>; 2],
    rounds: Rounds,
}

impl Contender {
    fn new(by: By, suite: CipherSuite, has_offload: bool) -> Result<Self> {
        let Crypto { client, server } = by.crypto(suite)?;
        let ((client, of_client), (server, of_server)) = (counted_client(client), counted_server(server));
        Ok(Self {
            by,
            transfer: Transfer::new(by.crypto(suite)?, has_offload)?,
            timed: Transfer::new(Crypto { client, server }, has_offload)?,
            keys: [of_client, of_server],
            rounds: Rounds::default(),
        })
    }

    fn round(&mut self, octets: usize) -> Result<()> {
        let gigabytes = octets as f64 / 1e9;
        let before = processor_time()?;
        let elapsed = self.transfer.run(octets)?;
        self.rounds.processor.push((processor_time()? - before).as_secs_f64() / gigabytes);
        self.rounds.goodput.push(gigabytes * 8.0 / elapsed.as_secs_f64());
        let (time, packets) = self.counted();
        self.timed.run(octets)?;
        let (time_after, packets_after) = self.counted();
        self.rounds.protection.push((time_after - time) / (packets_after - packets));
        Ok(())
    }

    /// The nanoseconds and packets counted so far.
    fn counted(&self) -> (f64, f64) {
        let time: Duration = self.keys.iter().map(|keys| keys.time()).sum();
        let keys = self.keys.iter().flat_map(|keys| [keys.initial_keys(), keys.packet_keys()].concat());
        (time.as_nanos() as f64, keys.map(|key| key.sealed).sum::<u64>() as f64)
    }
}

/// The processor time of all threads of this process so far.
fn processor_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn table(effort: Effort) -> Result<Table> {
    let columns = [
        "suite",
        "segmentation offload",
        "protected by",
        "CPU s/GB",
        "goodput, Gbit/s",
        "protection, ns/packet",
        "protection, to ring's",
    ];
    let mut table = Table::new("quinn", "quinn on loopback, by what protects its packets", columns);
    let (rounds, octets) = if effort.is_once() { (1, 1 << 20) } else { (ROUNDS, OCTETS) };
    let mut ratios = Vec::new();
    for (name, suite) in SUITES {
        for has_offload in [true, false] {
            let contenders = By::ALL.iter().map(|by| Contender::new(*by, suite, has_offload));
            let mut contenders = contenders.collect::<Result<Vec<_>>>()?;
            for _ in 0..rounds {
                contenders.iter_mut().try_for_each(|contender| contender.round(octets))?;
            }
            let mut rings = f64::NAN;
            for Contender { by, mut rounds, .. } in contenders {
                let protection = median(&mut rounds.protection);
                match by {
                    By::Ring => rings = protection,
                    By::KeyModule => ratios.push(protection / rings),
                    _ => {}
                }
                table.rows.push(vec![
                    Cell::text(name),
                    Cell::text(if has_offload { "on" } else { "off" }),
                    Cell::text(by.name()),
                    Cell::Number(median(&mut rounds.processor), 2, ""),
                    Cell::Number(median(&mut rounds.goodput), 2, ""),
                    Cell::ns(protection),
                    Cell::ratio(protection / rings),
                ]);
            }
        }
    }
    table.reading = format!(
        "Both ends are in this process; {} MiB a transfer, {rounds} rounds in turn, medians. Processor time is that of both ends, system calls \
         included. Protection is all that quinn calls of its keys for one packet at both ends: sealing, masking, unmasking, opening; it is timed \
         in transfers of its own, less what reading the clock takes. The key module takes {} of ring's time.",
        octets >> 20,
        range(&ratios),
    );
    Ok(table)
}
