//! The rows with goals: the fraction of the best peer's time that Wireseal may take.

use wireseal_algorithms::{AeadAlgorithm, MacAlgorithm, TcpAoAlgorithm};
use wireseal_benches::tcp_ao::{BATCH, HASHED};
use wireseal_benches::{Contender, aead, mac, quic, tcp_ao};

use AeadAlgorithm::{Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};

use crate::machine::Class;
use crate::table::{Cell, Table};
use crate::timing::{Effort, alternate};

/// The libraries with a column of their own.
const COLUMNS: [&str; 6] = ["ring", "aws-lc-rs", "rustcrypto", "boringssl", "openssl", "nettle"];

/// An operation with a goal.
pub(crate) struct Row {
    /// Its name on the command line.
    pub(crate) name: String,
    title: String,
    /// The libraries that the goal compares with. If one is missing, the goal is not judged.
    peers: &'static [&'static str],
    /// The largest fraction of the best peer's time that Wireseal may take.
    goal: f64,
    /// How many packets, segments or masks one run processes.
    of: usize,
    /// Wireseal first, then the others.
    contenders: Box<dyn Fn() -> Vec<Contender>>,
}

/// The goal for this machine's class of processors: with VAES-512, or with AES-NI but no VAES. On all others Wireseal must be as fast as
/// the best peer.
fn by_class(vaes512: f64, aes_ni: f64) -> f64 {
    match Class::here() {
        Class::Vaes512 => vaes512,
        Class::AesNi => aes_ni,
        Class::Other => 1.0,
    }
}

/// The libraries that an AEAD is compared with.
const AEADS: &[&str] = &["boringssl", "ring", "aws-lc-rs"];

/// A row for each AEAD, length, and direction.
pub(crate) fn aeads() -> Vec<Row> {
    type Messages = fn(AeadAlgorithm, usize) -> Vec<Contender>;
    let verbs: [(&str, Messages); 2] = [("seal", aead::seal), ("open", aead::open)];
    let algorithms = [(Aes128Gcm, "128"), (Aes256Gcm, "256"), (ChaCha20Poly1305, "chacha20")];
    let rows = algorithms.into_iter().flat_map(|(algorithm, word)| {
        verbs.into_iter().flat_map(move |(verb, contenders)| {
            aead::LENGTHS.into_iter().map(move |length| Row {
                name: format!("aead-{verb}-{word}-{length}"),
                title: format!("{} {verb}, {length} octets", aead::name(algorithm)),
                peers: AEADS,
                goal: 1.0,
                of: 1,
                contenders: Box::new(move || contenders(algorithm, length)),
            })
        })
    });
    rows.collect()
}

/// The rows of the table of goals, in the order of printing.
pub(crate) fn goals() -> Vec<Row> {
    const CMACS: &[&str] = &["aws-lc-rs", "rustcrypto", "openssl", "nettle"];
    const HMACS: &[&str] = &["ring", "aws-lc-rs", "rustcrypto", "openssl", "nettle"];
    type Packets = fn(AeadAlgorithm, usize) -> Vec<Contender>;
    let (seal, open): (Packets, Packets) = (quic::seal, quic::open);
    let packets = [
        ("seal-128-1200", "AES-128-GCM seal + mask", seal, Aes128Gcm, 1200, by_class(0.65, 0.80)),
        ("seal-128-64", "AES-128-GCM seal + mask", seal, Aes128Gcm, 64, by_class(0.45, 0.45)),
        ("seal-128-1350", "AES-128-GCM seal + mask", seal, Aes128Gcm, 1350, by_class(0.62, 0.84)),
        ("open-128-1200", "AES-128-GCM open + unmask", open, Aes128Gcm, 1200, by_class(0.62, 0.82)),
        ("seal-256-1200", "AES-256-GCM seal + mask", seal, Aes256Gcm, 1200, by_class(0.70, 0.85)),
        (
            "seal-chacha20-1200",
            "ChaCha20-Poly1305 seal + mask",
            seal,
            ChaCha20Poly1305,
            1200,
            by_class(0.92, 0.85),
        ),
    ];
    let packets = packets.map(|(name, what, packets, algorithm, payload, goal)| {
        let partial = if payload % 16 == 0 { "" } else { " (a partial block)" };
        let title = format!("{what}, {payload} octets{partial}");
        Row {
            name: name.to_owned(),
            title,
            peers: AEADS,
            goal,
            of: 1,
            contenders: Box::new(move || packets(algorithm, payload)),
        }
    });
    let masks = Row {
        name: "masks-chacha20".to_owned(),
        title: "ChaCha20 header mask, 16 at once, each".to_owned(),
        peers: &["ring", "aws-lc-rs"],
        goal: 0.25,
        of: 16,
        contenders: Box::new(|| quic::masks(ChaCha20Poly1305, 16)),
    };
    let signing = [
        ("sign-cmac", TcpAoAlgorithm::Aes128Cmac, CMACS, 1, by_class(0.40, 0.55)),
        ("sign-16-cmac", TcpAoAlgorithm::Aes128Cmac, CMACS, BATCH, by_class(0.20, 0.25)),
        ("sign-sha1", TcpAoAlgorithm::HmacSha1, HMACS, 1, by_class(0.90, 0.92)),
        ("sign-sha256", TcpAoAlgorithm::LinuxHmacSha256, HMACS, 1, by_class(0.88, 0.95)),
        ("sign-16-sha1", TcpAoAlgorithm::HmacSha1, HMACS, BATCH, 0.65),
        ("sign-16-sha256", TcpAoAlgorithm::LinuxHmacSha256, HMACS, BATCH, by_class(0.62, 0.65)),
    ];
    let signing = signing.map(|(name, algorithm, peers, of, goal)| {
        let mac = algorithm.mac().name();
        let title = match of {
            1 => format!("TCP-AO sign, 128 octets after the header ({HASHED} to hash), {mac}"),
            _ => format!("TCP-AO sign, 16 such segments of 16 connections (peers one by one), {mac}, each"),
        };
        let contenders = move || if of == 1 { tcp_ao::sign(algorithm) } else { tcp_ao::sign_many(algorithm) };
        Row { name: name.to_owned(), title, peers, goal, of, contenders: Box::new(contenders) }
    });
    let hmacs = [("hmac-sha1-1024", MacAlgorithm::HmacSha1), ("hmac-sha256-1024", MacAlgorithm::HmacSha256)];
    let hmacs = hmacs.map(|(name, algorithm)| {
        let title = format!("{}, 1024 octets", algorithm.name());
        Row {
            name: name.to_owned(),
            title,
            peers: HMACS,
            goal: 1.0,
            of: 1,
            contenders: Box::new(move || mac::message(algorithm, 1024)),
        }
    });
    let poly1305s = [("poly1305-64", 64, 0.6), ("poly1305-1024", 1024, by_class(0.90, 0.90))];
    let poly1305s = poly1305s.map(|(name, length, goal)| {
        let title = format!("Poly1305 one-shot, {length} octets");
        let contenders = Box::new(move || mac::poly1305(length));
        Row { name: name.to_owned(), title, peers: &["rustcrypto", "openssl"], goal, of: 1, contenders }
    });
    let contexts = Row {
        name: "contexts-cmac".to_owned(),
        title: format!("AES-128-CMAC, {HASHED} octets, 10,000 contexts in turn against one"),
        peers: &[],
        goal: 2.0,
        of: 1,
        contenders: Box::new(|| {
            let [many, one] =
                [10_000, 1].map(|keys| mac::many_keys(MacAlgorithm::Aes128Cmac, HASHED, keys).swap_remove(0));
            vec![many, one.named("itself, hot")]
        }),
    };
    packets
        .into_iter()
        .chain([masks])
        .chain(signing)
        .chain(hmacs)
        .chain(poly1305s)
        .chain([contexts])
        .collect()
}

/// Times the rows, for the table with this name.
pub(crate) fn table(name: &'static str, title: &str, rows: &[Row], effort: Effort) -> Table {
    let columns = ["row", "name", "wireseal"].into_iter().chain(COLUMNS);
    let columns = columns.chain(["best peer", "ratio", "goal", "mark"]);
    let title = format!("{title}: nanoseconds each, and Wireseal's time divided by the best peer's");
    let mut table = Table::new(name, title, columns);
    let (mut held, mut missed, mut open) = (0, Vec::<&str>::new(), 0);
    let mut all_absent: Vec<&str> = Vec::new();
    for row in rows {
        let mut contenders = (row.contenders)();
        contenders.retain(|Contender { name, .. }| {
            COLUMNS.contains(name) || *name == "wireseal" || row.peers.is_empty()
        });
        let times = alternate(effort, &mut contenders);
        let mut times = times.iter().map(|time| time / row.of as f64);
        let ours = times.next().unwrap_or(f64::NAN);
        let peers: Vec<(&str, f64)> =
            contenders[1..].iter().map(|contender| contender.name).zip(times).collect();
        let time_of = |peer: &str| peers.iter().find(|(name, _)| *name == peer);
        let best = peers.iter().copied().min_by(|(_, a), (_, b)| a.total_cmp(b));
        let (best, time) = best.unwrap_or(("-", f64::NAN));
        let ratio = ours / time;
        let absent: Vec<&str> = row.peers.iter().copied().filter(|peer| time_of(peer).is_none()).collect();
        let is_held = absent.is_empty().then_some(ratio <= row.goal);
        match is_held {
            Some(true) => held += 1,
            Some(false) => missed.push(&row.name),
            None => open += 1,
        }
        for peer in absent {
            if !all_absent.contains(&peer) {
                all_absent.push(peer);
            }
        }
        let mut cells = vec![Cell::text(&*row.title), Cell::text(&*row.name), Cell::ns(ours)];
        cells.extend(COLUMNS.iter().map(|peer| Cell::or_none(time_of(peer), |(_, time)| Cell::ns(*time))));
        cells.extend([
            Cell::text(best),
            Cell::Number(ratio, 3, ""),
            Cell::ratio(row.goal),
            Cell::or_none(is_held, |is_held| effort.mark(is_held)),
        ]);
        table.rows.push(cells);
    }
    let missed = if missed.is_empty() { "none".to_owned() } else { missed.join(", ") };
    table.reading = format!(
        "Lower is better. {held} of {} goals are met; missed: {missed}. The best peer is the fastest in this build.",
        rows.len()
    );
    if open > 0 {
        table.reading += &format!(
            " {open} could not be judged: {} are not here (the feature `peers` adds AWS-LC, BoringSSL, OpenSSL and nettle; OpenSSL's \
             library must be on the machine too).",
            all_absent.join(", ")
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_goal_is_judged_if_all_its_peers_are_there() {
        for (peers, goal, mark, words) in [
            (&["ring"][..], 0.9, "met", "1 of 1 goals are met; missed: none"),
            (&["ring"], 0.0, "MISSED", "0 of 1 goals are met; missed: row"),
            (&["ring", "nettle"], 0.0, "-", "0 of 1 goals are met; missed: none"),
            (&["ring", "nettle"], 0.9, "-", "1 could not be judged: nettle are not here"),
        ] {
            let contenders = || {
                vec![
                    Contender::new("wireseal", || sleep(Duration::ZERO)),
                    Contender::new("ring", || sleep(Duration::from_millis(1))),
                ]
            };
            let title = "A row".to_owned();
            let row =
                Row { name: "row".to_owned(), title, peers, goal, of: 1, contenders: Box::new(contenders) };
            let table = table("rows", "Goals", &[row], Effort::For(Duration::from_millis(1)));
            let found = table.rows[0].last().expect("a mark").to_string();
            assert_eq!(found, mark, "{peers:?}, {goal}");
            assert!(table.reading.contains(words), "{}", table.reading);
        }
    }
}
