//! Writes a capture of many connections, signed with one key, to standard output, for measuring `wireseal verify`:
//!
//! ```text
//! cargo run --release -p wireseal --example generate -- SEGMENTS CONNECTIONS PAYLOAD [LIFETIME] > FILE
//! time target/release/wireseal verify FILE --key KEY
//! ```
//!
//! `KEY` is printed when the capture is written. After `LIFETIME` segments a connection is reset and replaced by another one.

#[path = "../tests/it/support/generate.rs"]
mod generate;

use std::error::Error;
use std::io::{self, BufWriter, Write};

use generate::{Generate, KEY};

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let (segments, connections, payload, lifetime) = match numbers[..] {
        [segments, connections, payload] => (segments, connections, payload, None),
        [segments, connections, payload, lifetime] => (segments, connections, payload, Some(lifetime)),
        _ => return Err("SEGMENTS CONNECTIONS PAYLOAD [LIFETIME]".into()),
    };
    let what = Generate {
        segments,
        connections: u32::try_from(connections)?,
        payload: usize::try_from(payload)?,
        lifetime,
    };
    let mut output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    generate::write(&mut output, what)?;
    output.flush()?;
    eprintln!("signed with --key {KEY}");
    Ok(())
}
