//! T3: goodput on loopback.

pub(crate) mod ends;
pub(crate) mod quic;
mod stream;

use std::time::{Duration, Instant};

use ends::{Ends, Result, SUITE};
use rustls::crypto::ring;

use crate::table::{Cell, Table};
use crate::timing::Effort;

const WRITES: [usize; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
/// How many octets one transfer moves.
const OCTETS: usize = 48 << 20;

/// Sends octets in writes of one size; returns the time until the peer has read them all.
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
        "In writes of 64 KiB quinn on Wireseal moves {:.2} times as much as on ring, and {:.0} % of what it moves without encryption: faster \
         ciphers can win no more than that; the rest is quinn, its system calls and two cores. TLS over TCP moves {:.0} % of bare TCP \
         and {:.1} times as much as QUIC on Wireseal. All with {SUITE:?}, {} MiB a transfer, the best of several in turn.",
        wireseal / ring,
        100.0 * wireseal / bare,
        100.0 * tls / tcp,
        tls / wireseal,
        octets >> 20,
    );
    Ok(table)
}
