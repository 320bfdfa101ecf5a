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

fn order() -> Vec<usize> {
    let mut order: Vec<usize> = (0..CONTEXTS).collect();
    fastrand::Rng::with_seed(2).shuffle(&mut order);
    order
}

/// Times with one context over and over, and with many in random order.
fn hot_and_cycling(effort: Effort, contexts: &mut [Contender]) -> [f64; 2] {
    let message = vec![0x5a_u8; MESSAGE];
    let (order, mut turn) = (order(), 0);
    let contexts = std::cell::RefCell::new(contexts);
    let (contexts, message) = (&contexts, &message);
    let mut timed = [
        Timed::new("hot", || {
            black_box(contexts.borrow_mut()[0](&[black_box(message)]));
        }),
        Timed::new("cycling", || {
            let index = order[turn % order.len()] % contexts.borrow().len();
            turn += 1;
            black_box(contexts.borrow_mut()[index](&[black_box(message)]));
        })
        .rounds_of(CONTEXTS),
    ];
    let times = alternate(effort, &mut timed);
    [times[0], times[1]]
}

/// The same for Poly1305, whose key is for one message.
fn one_time_keys(effort: Effort, contender: &mut one_time::Contender) -> [f64; 2] {
    let message = vec![0x5a_u8; MESSAGE];
    let keys: Vec<[u8; 32]> =
        (0..CONTEXTS as u32).map(|i| std::array::from_fn(|j| (i >> (j % 4 * 8)) as u8)).collect();
    let (order, mut turn) = (order(), 0);
    let contender = std::cell::RefCell::new(contender);
    let (contender, keys, message) = (&contender, &keys, &message);
    let mut timed = [
        Timed::new("hot", || {
            black_box(contender.borrow_mut()(black_box(&keys[0]), black_box(message)));
        }),
        Timed::new("cycling", || {
            let index = order[turn % order.len()];
            turn += 1;
            black_box(contender.borrow_mut()(black_box(&keys[index]), black_box(message)));
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
        hot_and_cycling(effort, &mut contexts)
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
    for (name, mut contender) in one_time::contenders() {
        add("Poly1305", name, one_time_keys(effort, &mut contender), Some(32));
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
