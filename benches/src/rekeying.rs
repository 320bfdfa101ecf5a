//! T6: making keys, and wiping them.

use std::hint::black_box;

use wireseal_algorithms::{AeadAlgorithm, MacAlgorithm, TcpAoAlgorithm};
use wireseal_quic::{Keys, PacketType, TrafficSecret, Version};
use wireseal_tcp_ao::TrafficKey;

use crate::contenders::{mac, segment};
use crate::paths;
use crate::table::{Cell, Table, range};
use crate::timing::{Effort, Timed, alternate};

/// Nanoseconds to make a key, and to make and drop it.
fn times<K>(effort: Effort, make: impl Fn() -> K) -> [f64; 2] {
    let mut timed = [
        Timed::new("made", || std::mem::forget(black_box(make()))),
        Timed::new("made and dropped", || drop(black_box(make()))),
    ];
    let times = alternate(effort.share(3), &mut timed);
    [times[0], times[1]]
}

pub(crate) fn table(effort: Effort) -> Table {
    let columns = ["key", "path", "made", "made and wiped", "keys per second", "the same, wiped", "ratio"];
    let mut table = Table::new("T6", "T6: making keys, in nanoseconds and per second", columns);
    let mut ratios = Vec::new();
    let mut add = |key: String, path: &str, [made, wiped]: [f64; 2]| {
        ratios.push(wiped / made);
        table.rows.push(vec![
            Cell::text(key),
            Cell::text(path),
            Cell::ns(made),
            Cell::ns(wiped),
            Cell::Count((1e9 / made) as u64),
            Cell::Count((1e9 / wiped) as u64),
            Cell::ratio(wiped / made),
        ]);
    };
    for algorithm in MacAlgorithm::ALL {
        let octets = mac::key(algorithm);
        let make = || mac::wireseal_key(algorithm, black_box(&octets));
        let measure = |path| add(format!("MAC, {}", algorithm.name()), path, times(effort, make));
        paths::each(|| make().served_by(), measure);
    }
    let context = segment::kdf_context(segment::pair(0));
    for algorithm in TcpAoAlgorithm::ALL {
        let mkt = segment::mkt(algorithm, 1);
        let make = || TrafficKey::derive(black_box(&mkt), &context);
        let measure = |path| add(format!("TCP-AO traffic key, {algorithm}"), path, times(effort, make));
        paths::each(|| make().mac_key().served_by(), measure);
    }
    for algorithm in AeadAlgorithm::ALL {
        let octets = vec![0x5a; algorithm.secret_length()];
        let make = || {
            let secret = TrafficSecret::new(algorithm, black_box(&octets)).expect("the hash's length");
            Keys::new(Version::V1, PacketType::OneRtt, secret)
        };
        let measure = |path| add(format!("QUIC keys, {algorithm}"), path, times(effort, make));
        paths::each(|| make().served_by(), measure);
    }
    table.reading = format!(
        "QUIC keys are those of a direction: AEAD key, IV and header protection key, derived from a traffic secret by RustCrypto's HKDF. \
         A key is made and forgotten, or made and dropped, which wipes it; the two take turns. Wiped in both: secrets on the way, such as \
         the master key's block and the traffic secret. Making and wiping takes {} times as long as making alone.",
        range(&ratios)
    );
    table
}
