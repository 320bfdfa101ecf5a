//! `wireseal verify` on generated captures, by how many connections take turns.

use std::convert::Infallible;
use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use wireseal::capture::Reader;
use wireseal::verify::report::Verdict;
use wireseal::verify::{Verifier, VerifyEvent, VerifyOptions};
use wireseal_keys::Keys;
use wireseal_mac::{Mac, MacKey, mac_batch};

use crate::Result;
use crate::table::{Cell, Table};
use crate::timing::Effort;

// The generator of the program's own tests.
#[path = "../../../crates/cli/tests/it/support/generate.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod generate;

/// How many connections there are at once.
const CONNECTIONS: [u32; 3] = [100, 20_000, 250_000];
/// How many segments: eight of each connection, if there are many.
const SEGMENTS: u64 = 2_000_000;
/// Octets of payload, and octets that the MAC covers then: SNE, pseudo-header, header and option.
const PAYLOAD: usize = 64;
const COVERED: usize = 4 + 12 + 20 + 16 + PAYLOAD;
/// How often everything is measured; the best counts.
const TURNS: usize = 5;
/// How many MACs are computed side by side.
const BATCH: usize = 16;

const KEY_FILE: &str = "[[key-chain]]\nname = \"generated\"\n[[key-chain.key]]\nsend-id = 100\n\
                        algorithm = \"AES-128-CMAC-96\"\nsecret = \"generated-secret\"\n";

/// Times reading and verifying, and the MACs alone, which are the limit.
pub(crate) fn table(effort: Effort) -> Result<Table> {
    let keys = wireseal_keys::read(Path::new("keys.toml"), KEY_FILE, None)?.keys()?;
    let columns = ["connections", "segments", "one thread", "two threads", "MACs alone", "of it"];
    let mut table = Table::new("verify", "wireseal verify: nanoseconds for each segment", columns);
    for connections in CONNECTIONS {
        let segments = if effort.is_once() { u64::from(connections) * 4 } else { SEGMENTS };
        let mut file = Vec::new();
        let what = generate::Generate { segments, connections, payload: PAYLOAD, lifetime: None };
        generate::write(&mut file, what)?;
        let file: Arc<[u8]> = file.into();
        let turns = if effort.is_once() { 1 } else { TURNS };
        let (mut one, mut two, mut macs) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for _ in 0..turns {
            one = one.min(time(segments, || on_one_thread(&keys, &file, segments)));
            two = two.min(time(segments, || on_two_threads(&keys, &file, segments)));
            macs = macs.min(time(segments, || macs_alone(segments)));
        }
        table.rows.push(vec![
            Cell::Count(connections.into()),
            Cell::Count(segments),
            Cell::ns(one),
            Cell::ns(two),
            Cell::ns(macs),
            Cell::Number(macs / one, 2, ""),
        ]);
    }
    table.reading = format!(
        "Lower is better. A capture in memory is read, decoded, judged and reported to nobody; AES-128-CMAC, {PAYLOAD} octets of payload. The \
         last column is the share of the MACs in the time on one thread."
    );
    Ok(table)
}

/// Nanoseconds for each segment.
fn time(segments: u64, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / segments as f64
}

fn pass(event: VerifyEvent<'_>) -> std::result::Result<(), Infallible> {
    drop(black_box(event));
    Ok(())
}

fn reader(file: &Arc<[u8]>) -> Reader {
    Reader::new(Cursor::new(Arc::clone(file)), Some(file.len() as u64)).expect("a capture")
}

fn check(verifier: Verifier<'_>, segments: u64) {
    let Ok(totals) = verifier.finish(None, pass);
    assert_eq!(totals.counts[Verdict::Good.index()], segments, "every segment is good");
}

fn on_one_thread(keys: &Keys, file: &Arc<[u8]>, segments: u64) {
    let mut verifier = Verifier::new(keys, VerifyOptions::default());
    let mut reader = reader(file);
    while let Some(packet) = reader.next_packet() {
        let Ok(()) = verifier.packet(&packet.expect("a whole capture"), pass);
    }
    check(verifier, segments);
}

/// On as many threads as the program uses.
fn on_two_threads(keys: &Keys, file: &Arc<[u8]>, segments: u64) {
    let mut verifier = Verifier::new(keys, VerifyOptions::default());
    let Ok(error) = verifier.capture(reader(file), pass, |_, _| Ok::<_, Infallible>(()));
    assert!(error.is_none(), "a whole capture");
    check(verifier, segments);
}

fn macs_alone(segments: u64) {
    let keys: Vec<_> = (0..BATCH as u8).map(|octet| MacKey::aes_128_cmac(&[octet; 16])).collect();
    let message = [0x5a; COVERED];
    let parts = [&message[..]];
    let mut macs = [const { Mac::EMPTY }; BATCH];
    for _ in 0..segments / BATCH as u64 {
        mac_batch(keys.iter().map(|key| (key, black_box(&parts[..]))), &mut macs);
        black_box(&macs);
    }
}
