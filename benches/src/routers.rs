//! T4: how the cost of a segment grows with the number of connections.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::contenders::segment::{self, Established, LENGTH};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_kernels::prefetch;
use wireseal_tcp_ao::{Connection, Segment, verify_batch};

use crate::table::{Cell, Table, range};
use crate::timing::Effort;

const ALGORITHMS: [TcpAoAlgorithm; 3] =
    [TcpAoAlgorithm::Aes128Cmac, TcpAoAlgorithm::HmacSha1, TcpAoAlgorithm::LinuxHmacSha256];
const COUNTS: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
/// The length of a segment without data, and of one that fills an IPv4 packet of 1500 octets.
const ACK: usize = 20 + 16;
const FULL: usize = 1500 - 20;
/// How many connections the runs with mixed lengths have.
const MIXED: usize = 1_000;
/// How many packets a router takes from its network card at once, as Linux does at most.
const POLLED: usize = 64;
/// The fewest segments that arrive in a row, and that make a round.
const ARRIVING: usize = 1_000;
const ROUND: usize = 10_000;

/// The connections of one thread, and their segments in the order of arrival, equally many of each connection.
struct Router {
    connections: Vec<Connection<2>>,
    arriving: Vec<(usize, Vec<u8>)>,
}

/// The length of a connection's segments, by its index.
type Length = fn(usize) -> usize;

/// How segments are verified.
#[derive(Clone, Copy)]
enum Way {
    OneByOne,
    /// As a router does that takes many packets from its network card at once: it asks for the connections and headers of those that
    /// come after them.
    InBatches,
}

impl Way {
    const ALL: [Self; 2] = [Self::OneByOne, Self::InBatches];

    fn look_ahead(self, connections: &[Connection<2>], following: &[(usize, Vec<u8>)]) {
        if matches!(self, Self::InBatches) {
            for (index, tcp) in following {
                connections[*index].prefetch();
                prefetch(&tcp[..], ACK);
            }
        }
    }

    /// Verifies every segment once.
    fn verify(self, connections: &mut [Connection<2>], segments: &[(usize, Segment<'_>)]) {
        match self {
            Self::OneByOne => {
                for (index, segment) in segments {
                    connections[*index].verify(black_box(segment)).expect("signed");
                }
            }
            Self::InBatches => {
                verify_batch(connections, black_box(segments), |_, verdict| {
                    assert!(verdict.is_ok(), "signed");
                });
            }
        }
    }
}

impl Router {
    fn new(algorithm: TcpAoAlgorithm, count: usize, length: Length, seed: u64) -> Self {
        let mkts = segment::mkts(algorithm);
        let (connections, segments): (Vec<_>, Vec<_>) = (0..count)
            .map(|index| {
                let ends = Established::new(algorithm, &mkts, index as u32, length(index));
                (ends.receiver, (index, ends.tcp))
            })
            .unzip();
        let again = std::iter::repeat_n(segments, ARRIVING.div_ceil(count));
        let mut arriving: Vec<(usize, Vec<u8>)> = again.flatten().collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut arriving);
        Self { connections, arriving }
    }

    fn run(&mut self, way: Way, passes: usize) {
        for _ in 0..passes {
            let mut chunks = self.arriving.chunks(POLLED).peekable();
            while let Some(arriving) = chunks.next() {
                way.look_ahead(&self.connections, chunks.peek().copied().unwrap_or_default());
                let parse = |i: usize| {
                    let (index, tcp) = &arriving[i % arriving.len()];
                    let pair = self.connections[*index].pair();
                    let (local, remote) = (pair.local.address(), pair.remote.address());
                    (*index, Segment::from_tcp(remote, local, tcp).expect("well-formed"))
                };
                let segments: [(usize, Segment<'_>); POLLED] = std::array::from_fn(parse);
                way.verify(&mut self.connections, &segments[..arriving.len()]);
            }
        }
    }
}

/// Nanoseconds per segment in the best round, with a thread for each router, all starting together.
fn measure(effort: Effort, routers: &mut [Router], way: Way) -> f64 {
    let segments: usize = routers.iter().map(|router| router.arriving.len()).sum();
    let (passes, time) = match effort {
        Effort::Once => (1, Duration::ZERO),
        Effort::For(time) => (ROUND.div_ceil(segments), time),
    };
    let mut best = f64::INFINITY;
    let start = Instant::now();
    for round in 0.. {
        if round >= 1 && start.elapsed() > time && (effort.is_once() || round >= 3) {
            break;
        }
        let barrier = Barrier::new(routers.len());
        let longest = thread::scope(|scope| {
            let threads: Vec<_> = routers
                .iter_mut()
                .map(|router| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        let start = Instant::now();
                        router.run(way, passes);
                        start.elapsed()
                    })
                })
                .collect();
            let times = threads.into_iter().map(|thread| thread.join().expect("segments verify"));
            times.max().unwrap_or_default()
        });
        best = best.min(longest.as_nanos() as f64 / (passes * segments) as f64);
    }
    best
}

/// The times of one thread, one by one and in batches; and those of two, if there are connections for both.
fn times(
    effort: Effort,
    algorithm: TcpAoAlgorithm,
    count: usize,
    length: Length,
) -> ([f64; 2], Option<[f64; 2]>) {
    let mut all = [Router::new(algorithm, count, length, 1)];
    let one = Way::ALL.map(|way| measure(effort, &mut all, way));
    let two = (count > 1).then(|| {
        let mut halves = [1, 2].map(|seed| Router::new(algorithm, count / 2, length, seed));
        Way::ALL.map(|way| measure(effort, &mut halves, way))
    });
    (one, two)
}

pub(crate) fn table(effort: Effort) -> Table {
    let columns = [
        "algorithm",
        "octets of a segment",
        "connections",
        "one thread",
        "one thread, 64 at once",
        "two threads",
        "two threads, 64 at once",
        "octets per connection",
    ];
    let title = "T4: nanoseconds to verify a segment of many connections that arrive interleaved; lengths with the TCP header";
    let mut table = Table::new("T4", title, columns);
    let mut add = |algorithm: TcpAoAlgorithm, lengths: String, count: usize, length: Length| {
        let (one, two) = times(effort, algorithm, count, length);
        let [two_single, two_batched] = [0, 1].map(|i| Cell::or_none(two, |two| Cell::ns(two[i])));
        table.rows.push(vec![
            Cell::text(algorithm.name()),
            Cell::text(lengths),
            Cell::Count(count as u64),
            Cell::ns(one[0]),
            Cell::ns(one[1]),
            two_single,
            two_batched,
            Cell::Count(size_of::<Connection<2>>() as u64),
        ]);
        (one, two)
    };
    let (mut growth, mut growth_in_batches) = (0.0_f64, 0.0_f64);
    let (mut gain, mut threads, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
    for algorithm in ALGORITHMS {
        let mut with_one = [f64::NAN; 2];
        let most = if effort.is_once() { 1_000 } else { usize::MAX };
        for count in COUNTS.into_iter().filter(|count| *count <= most) {
            let (one, two) = add(algorithm, LENGTH.to_string(), count, |_| LENGTH);
            if count == 1 {
                with_one = one;
            }
            growth = growth.max(one[0] / with_one[0]);
            growth_in_batches = growth_in_batches.max(one[1] / with_one[1]);
            gain.push(one[0] / one[1]);
            threads.extend(two.map(|two| one[0] / two[0]));
        }
        // Every second connection sends only acknowledgements, so that every batch has both lengths.
        let length = |index| if index % 2 == 0 { ACK } else { FULL };
        let (one, _) = add(algorithm, format!("{ACK} or {FULL}"), MIXED, length);
        mixed.push(one[0] / one[1]);
    }
    table.reading = format!(
        "A segment costs at most {growth:.2} times what it costs with one connection, {growth_in_batches:.2} times in batches: as the \
         connections outgrow the caches, their keys have to be fetched. Batches of {POLLED} are {} times as fast as one by one, and {} times with acknowledgements of {ACK} octets \
         and full segments of {FULL}, half of each. Two threads, which share nothing, are {} times as fast as one, on {} cores. Times \
         are wall clock divided by the segments of all threads. A connection has nothing on the heap.",
        range(&gain),
        range(&mixed),
        range(&threads),
        thread::available_parallelism().map_or(1, usize::from),
    );
    table
}
