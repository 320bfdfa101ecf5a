//! T5: what the engines of this machine process, from a packet to 63 KiB.

use std::hint::black_box;

use crate::contenders::engines::{Engine, Operation, engines};
use crate::table::{Cell, Table};
use crate::timing::{Effort, Timed, alternate};

const LENGTHS: [usize; 5] = [64, 164, 1200, 4096, 64_512];

/// Published figures in megabytes per second: an offload engine, and the processor beside it.
const OFFLOAD: [(&str, f64, f64); 4] =
    [("QAT", 289.0, 16_171.0), ("QCE", 73.0, 4301.0), ("CAAM", 20.0, 647.0), ("STM32", 3.1, 13.2)];

/// Nanoseconds of each engine that has the operation, for a message of `length` octets.
fn times(effort: Effort, engines: &mut [Engine], length: usize) -> Vec<Option<f64>> {
    let message = std::cell::RefCell::new(vec![0x5a; length]);
    let has_it: Vec<bool> = engines.iter().map(|(_, run)| run.is_some()).collect();
    let mut timed: Vec<Timed<'_>> = engines
        .iter_mut()
        .filter_map(|(name, run)| Some((name, run.as_mut()?)))
        .map(|(name, run)| {
            Timed::new(name, || {
                black_box(run(black_box(&mut message.borrow_mut())));
            })
        })
        .collect();
    let mut times = alternate(effort.share(3), &mut timed).into_iter();
    has_it.into_iter().map(|has_it| if has_it { times.next() } else { None }).collect()
}

pub(crate) fn table(effort: Effort) -> Table {
    let lengths = LENGTHS.iter().flat_map(|length| [format!("{length} octets"), format!("{length}: MB/s")]);
    let columns = ["operation", "engine"].into_iter().map(str::to_owned).chain(lengths);
    let mut table = Table::new("T5", "T5: engines of this machine, a message at a time", columns);
    for operation in Operation::ALL {
        let mut engines = engines(operation);
        let by_length = LENGTHS.map(|length| times(effort, &mut engines, length));
        for (place, (name, _)) in engines.iter().enumerate() {
            let mut row = vec![Cell::text(operation.name()), Cell::text(name)];
            for (length, times) in LENGTHS.iter().zip(&by_length) {
                row.push(Cell::or_none(times[place], Cell::ns));
                row.push(Cell::or_none(times[place], |time| {
                    Cell::Number(*length as f64 * 1000.0 / time, 0, "")
                }));
            }
            table.rows.push(row);
        }
    }
    let offload = OFFLOAD.map(|(engine, its, processors)| {
        format!("{engine} {its} against {processors} (1/{:.0})", processors / its)
    });
    table.reading = format!(
        "Nanoseconds of a message, and 10^6 octets per second. A dash means that the engine has no such call; RustCrypto serves \
         Wireseal where a processor has no path. \
         Published figures of offload engines against the processor beside them, in MB/s: {}. Linux's ciphers through AF_ALG, in \
         messages of 63 KiB: 2112 against OpenSSL's 3759 (3029 of computing alone). Their operations and machines differ from these, \
         so only the ratios compare.",
        offload.join(", ")
    );
    table
}
