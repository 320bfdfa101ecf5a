//! T2: authenticating 1 KiB with different MACs, with one hot context and with many.

use std::hint::black_box;

use crate::contenders::mac::{self, Contender, Library};
use crate::contenders::one_time;
use wireseal_algorithms::MacAlgorithm;

use crate::table::{Cell, Table};
use crate::timing::{Effort, Timed, alternate};

const MESSAGE: usize = 1024;
const CONTEXTS: usize = 10_000;

/// The times of one library's MAC.
struct Measured {
    name: String,
    hot: f64,
    cycling: f64,
}

/// Times with one context over and over, and with `count` in random order. `run` uses the one at an index for a message.
fn hot_and_cycling(effort: Effort, count: usize, run: impl FnMut(usize, &[u8])) -> [f64; 2] {
    let message = vec![0x5a_u8; MESSAGE];
    let mut order: Vec<usize> = (0..CONTEXTS).collect();
    fastrand::Rng::with_seed(2).shuffle(&mut order);
    let mut turn = 0;
    let run = std::cell::RefCell::new(run);
    let (run, message) = (&run, &message);
    let mut timed = [
        Timed::new("hot", || run.borrow_mut()(0, black_box(message))),
        Timed::new("cycling", || {
            let index = order[turn % order.len()] % count;
            turn += 1;
            run.borrow_mut()(index, black_box(message));
        })
        .rounds_of(CONTEXTS),
    ];
    let times = alternate(effort, &mut timed);
    [times[0], times[1]]
}

pub(crate) fn table(effort: Effort) -> Table {
    let columns = ["MAC", "library", "hot", "10,000 contexts in turn", "ratio", "octets per context"];
    let mut table = Table::new("T2", format!("T2: authenticating {MESSAGE} octets"), columns);
    let mut measured = Vec::new();
    let mut add = |mac: &str, library: &str, [hot, cycling]: [f64; 2], octets: Option<usize>| {
        table.rows.push(vec![
            Cell::text(mac),
            Cell::text(library),
            Cell::ns(hot),
            Cell::ns(cycling),
            Cell::ratio(cycling / hot),
            Cell::or_none(octets, |octets| Cell::Count(octets as u64)),
        ]);
        measured.push(Measured { name: format!("{mac} of {library}"), hot, cycling });
    };
    let keyed = |library: &Library, length: usize| {
        let count = if effort.is_once() { 2 } else { CONTEXTS };
        let key = |i: usize| -> Vec<u8> { (0..length).map(|j| (i >> (j % 4 * 8)) as u8).collect() };
        let mut contexts: Vec<Contender> = (0..count).map(|i| library.with_key(&key(i))).collect();
        hot_and_cycling(effort, count, |index, message| {
            black_box(contexts[index](&[message]));
        })
    };
    if let Some(umac96) = mac::umac96() {
        add("UMAC96", umac96.name, keyed(&umac96, 24), umac96.octets);
    }
    for algorithm in [MacAlgorithm::HmacSha1, MacAlgorithm::HmacSha256, MacAlgorithm::Aes128Cmac] {
        for library in mac::libraries(algorithm) {
            let times = keyed(&library, algorithm.output_length());
            add(algorithm.name(), library.name, times, library.octets);
        }
    }
    // The key of Poly1305 is for one message.
    let keys: Vec<[u8; 32]> =
        (0..CONTEXTS).map(|i| std::array::from_fn(|j| (i >> (j % 4 * 8)) as u8)).collect();
    for (name, mut contender) in one_time::contenders() {
        let times = hot_and_cycling(effort, CONTEXTS, |index, message| {
            black_box(contender(black_box(&keys[index]), message));
        });
        add("Poly1305", name, times, Some(32));
    }
    let least = |time: fn(&Measured) -> f64| measured.iter().min_by(|a, b| time(a).total_cmp(&time(b)));
    let most = measured.iter().max_by(|a, b| (a.cycling / a.hot).total_cmp(&(b.cycling / b.hot)));
    if let (Some(hot), Some(cycling), Some(most)) = (least(|m| m.hot), least(|m| m.cycling), most) {
        table.reading = format!(
            "With one context {} is the fastest, with {CONTEXTS} in turn {}. {} slows down most from one context to many, to {:.2} times \
             its time. A router with many peers pays the second column; the octets per context say why. Poly1305 sets up a key for \
             each message. A dash means that the context is behind a pointer.",
            hot.name,
            cycling.name,
            most.name,
            most.cycling / most.hot,
        );
    }
    table
}
