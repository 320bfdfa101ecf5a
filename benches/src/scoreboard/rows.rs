//! The rows with goals: the fraction of the best peer's time that Wireseal may take.

use std::fmt;

use wireseal_algorithms::{AeadAlgorithm, MacAlgorithm, TcpAoAlgorithm};
use wireseal_benches::tcp_ao::{BATCH, HASHED};
use wireseal_benches::{Contender, aead, mac, quic, tcp_ao};

use AeadAlgorithm::{Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};

use crate::limit::{Bound, Limit};
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
    /// The shortest time it can take; `None` if that is not known.
    limit: Option<Limit>,
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

/// The shortest text, in octets, that spends most of its time in the inner loop. For shorter ones a limit would mean nothing.
const WITH_LIMIT: usize = 1000;

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
                limit: (length >= WITH_LIMIT).then(|| Limit::aead(algorithm, contenders, length)),
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
    /// The contenders for packets, and for the text of one alone.
    type Packets = [fn(AeadAlgorithm, usize) -> Vec<Contender>; 2];
    let (seal, open): (Packets, Packets) = ([quic::seal, aead::seal], [quic::open, aead::open]);
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
    let packets = packets.map(|(name, what, [packets, texts], algorithm, payload, goal)| {
        let partial = if payload % 16 == 0 { "" } else { " (a partial block)" };
        let title = format!("{what}, {payload} octets{partial}");
        Row {
            name: name.to_owned(),
            title,
            peers: AEADS,
            goal,
            of: 1,
            limit: (payload >= WITH_LIMIT).then(|| Limit::aead(algorithm, texts, payload)),
            contenders: Box::new(move || packets(algorithm, payload)),
        }
    });
    let masks = Row {
        name: "masks-chacha20".to_owned(),
        title: "ChaCha20 header mask, 16 at once, each".to_owned(),
        peers: &["ring", "aws-lc-rs"],
        goal: 0.25,
        of: 16,
        limit: None,
        contenders: Box::new(|| quic::masks(ChaCha20Poly1305, 16)),
    };
    let macs = [
        ("cmac", TcpAoAlgorithm::Aes128Cmac, CMACS, by_class(0.40, 0.55), by_class(0.20, 0.25)),
        ("sha1", TcpAoAlgorithm::HmacSha1, HMACS, by_class(0.90, 0.92), 0.65),
        ("sha256", TcpAoAlgorithm::LinuxHmacSha256, HMACS, by_class(0.88, 0.95), by_class(0.62, 0.65)),
    ];
    type Segments = fn(TcpAoAlgorithm) -> Vec<Contender>;
    let verbs: [(&str, [Segments; 2]); 2] = [
        ("sign", [tcp_ao::sign, tcp_ao::sign_many]),
        ("verify", [tcp_ao::verify_beside_peers, tcp_ao::verify_many]),
    ];
    let segments = verbs.into_iter().flat_map(|(verb, [one, many])| {
        macs.into_iter().flat_map(move |(word, algorithm, peers, goal, goal_of_many)| {
            let mac = algorithm.mac();
            let row = |name, title, of, goal, limit, contenders: Segments| Row {
                name,
                title,
                peers,
                goal,
                of,
                limit,
                contenders: Box::new(move || contenders(algorithm)),
            };
            let title =
                format!("TCP-AO {verb}, 128 octets after the header ({HASHED} to hash), {}", mac.name());
            let title_of_many = format!(
                "TCP-AO {verb}, {BATCH} such segments of {BATCH} connections (peers one by one), {}, each",
                mac.name()
            );
            [
                row(format!("{verb}-{word}"), title, 1, goal, Limit::mac(mac, HASHED), one),
                row(
                    format!("{verb}-{BATCH}-{word}"),
                    title_of_many,
                    BATCH,
                    goal_of_many,
                    Limit::macs(mac, HASHED),
                    many,
                ),
            ]
        })
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
            limit: Limit::mac(algorithm, 1024),
            contenders: Box::new(move || mac::message(algorithm, 1024)),
        }
    });
    let poly1305s = [("poly1305-64", 64, 0.6), ("poly1305-1024", 1024, by_class(0.90, 0.90))];
    let poly1305s = poly1305s.map(|(name, length, goal)| {
        let title = format!("Poly1305 one-shot, {length} octets");
        let contenders = Box::new(move || mac::poly1305(length));
        let limit = (length >= WITH_LIMIT).then(|| Limit::poly1305(length));
        Row {
            name: name.to_owned(),
            title,
            peers: &["rustcrypto", "openssl"],
            goal,
            of: 1,
            limit,
            contenders,
        }
    });
    let contexts = Row {
        name: "contexts-cmac".to_owned(),
        title: format!("AES-128-CMAC, {HASHED} octets, 10,000 contexts in turn against one"),
        peers: &[],
        goal: 2.0,
        of: 1,
        limit: None,
        contenders: Box::new(|| {
            let [many, one] =
                [10_000, 1].map(|keys| mac::many_keys(MacAlgorithm::Aes128Cmac, HASHED, keys).swap_remove(0));
            vec![many, one.named("itself, hot")]
        }),
    };
    packets
        .into_iter()
        .chain([masks])
        .chain(segments)
        .chain(hmacs)
        .chain(poly1305s)
        .chain([contexts])
        .collect()
}

/// Times the rows, for the table with this name.
pub(crate) fn table(name: &'static str, title: &str, rows: &[Row], effort: Effort) -> Table {
    let columns = ["row", "name", "wireseal"].into_iter().chain(COLUMNS);
    let columns = columns.chain(["best peer", "ratio", "goal", "mark", "limit", "bound", "of limit", "near"]);
    let title = format!("{title}: nanoseconds each, and Wireseal's time divided by the best peer's");
    let mut table = Table::new(name, title, columns);
    let mut goals = Goals::default();
    let mut limits = Goals::default();
    let mut withdrawn = Vec::new();
    let mut all_absent: Vec<&str> = Vec::new();
    for row in rows {
        let mut contenders = (row.contenders)();
        contenders.retain(|Contender { name, .. }| {
            COLUMNS.contains(name) || *name == "wireseal" || row.peers.is_empty()
        });
        let libraries = contenders.len();
        contenders.extend(row.limit.iter().flat_map(Limit::contenders));
        let times = alternate(effort, &mut contenders);
        let (times, long) = times.split_at(libraries);
        let mut times = times.iter().map(|time| time / row.of as f64);
        let ours = times.next().unwrap_or(f64::NAN);
        let peers: Vec<(&str, f64)> =
            contenders[1..libraries].iter().map(|contender| contender.name).zip(times).collect();
        let time_of = |peer: &str| peers.iter().find(|(name, _)| *name == peer);
        let best = peers.iter().copied().min_by(|(_, a), (_, b)| a.total_cmp(b));
        let (best, time) = best.unwrap_or(("-", f64::NAN));
        let ratio = ours / time;
        // A single run says nothing about the limit either.
        let limit = row.limit.as_ref().filter(|_| !effort.is_once());
        let limit = limit.map(|limit| limit.of(long));
        let least = limit.map(|(_, limit)| limit / time);
        // A limit above the best peer's time is only Wireseal's own: the peer's loop is faster.
        let out_of_reach = least.filter(|least| *least > row.goal && *least <= 1.0 && ratio > row.goal);
        let absent: Vec<&str> = row.peers.iter().copied().filter(|peer| time_of(peer).is_none()).collect();
        let is_held =
            (absent.is_empty() && out_of_reach.is_none()).then(|| goals.judge(&row.name, ratio <= row.goal));
        if out_of_reach.is_some() {
            withdrawn.push(&*row.name);
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
            match out_of_reach {
                Some(least) => Cell::text(format!("withdrawn: limit {least:.2}")),
                None => Cell::ratio(row.goal),
            },
            Cell::or_none(is_held, |is_held| effort.mark(is_held)),
            Cell::or_none(limit, |(_, limit)| Cell::ns(limit)),
            Cell::or_none(limit, |(bound, _)| Cell::text(bound.name())),
            Cell::or_none(limit, |(_, limit)| Cell::Number(100.0 * ours / limit, 0, " %")),
            Cell::or_none(limit, |(bound, limit)| {
                Cell::Held(limits.judge(&row.name, ours <= bound.goal() * limit))
            }),
        ]);
        table.rows.push(cells);
    }
    let open = rows.len() - goals.judged - withdrawn.len();
    table.reading = format!("Lower is better. {goals} The best peer is the fastest in this build.");
    if !withdrawn.is_empty() {
        table.reading += &format!(
            " Withdrawn, because the limit is above the goal on this processor: {}.",
            withdrawn.join(", ")
        );
    }
    if open > 0 {
        table.reading += &format!(
            " {open} could not be judged: {} are not here (the feature `peers` adds AWS-LC, BoringSSL, OpenSSL and nettle; OpenSSL's \
             library must be on the machine too).",
            all_absent.join(", ")
        );
    }
    if limits.judged > 0 {
        table.reading += &format!(
            " The limit is what the row's blocks take in a long message, or the MAC alone if that takes less. Near is at most {:.0} % of \
             it if each block waits for the one before (chain), and {:.0} % if not: {limits}",
            100.0 * Bound::Chain.goal(),
            100.0 * Bound::Port.goal(),
        );
    }
    table
}

/// The number of goals judged, and those that were missed.
#[derive(Default)]
struct Goals<'a> {
    judged: usize,
    missed: Vec<&'a str>,
}

impl<'a> Goals<'a> {
    fn judge(&mut self, row: &'a str, is_held: bool) -> bool {
        self.judged += 1;
        if !is_held {
            self.missed.push(row);
        }
        is_held
    }
}

impl fmt::Display for Goals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missed = if self.missed.is_empty() { "none".to_owned() } else { self.missed.join(", ") };
        write!(f, "{} of {} goals are met; missed: {missed}.", self.judged - self.missed.len(), self.judged)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    /// A row of which a run takes a millisecond less with Wireseal than with ring.
    fn row(peers: &'static [&'static str], goal: f64, limit: Option<Limit>) -> Row {
        let contenders = || {
            vec![
                Contender::new("wireseal", || sleep(Duration::ZERO)),
                Contender::new("ring", || sleep(Duration::from_millis(1))),
            ]
        };
        let (name, title) = ("row".to_owned(), "A row".to_owned());
        Row { name, title, peers, goal, of: 1, limit, contenders: Box::new(contenders) }
    }

    fn timed(row: Row) -> Table {
        table("rows", "Goals", &[row], Effort::For(Duration::from_millis(1)))
    }

    fn cell(table: &Table, column: &str) -> String {
        let at = table.columns.iter().position(|name| name == column).expect("a column");
        table.rows[0][at].to_string()
    }

    #[test]
    fn a_goal_is_judged_if_all_its_peers_are_there() {
        for (peers, goal, mark, words) in [
            (&["ring"][..], 0.9, "met", "1 of 1 goals are met; missed: none"),
            (&["ring"], 0.0, "MISSED", "0 of 1 goals are met; missed: row"),
            (&["ring", "nettle"], 0.0, "-", "0 of 0 goals are met; missed: none"),
            (&["ring", "nettle"], 0.9, "-", "1 could not be judged: nettle are not here"),
        ] {
            let table = timed(row(peers, goal, None));
            assert_eq!(cell(&table, "mark"), mark, "{peers:?}, {goal}");
            assert_eq!((cell(&table, "limit"), cell(&table, "near")), ("-".to_owned(), "-".to_owned()));
            assert!(table.reading.contains(words), "{}", table.reading);
        }
    }

    #[test]
    fn a_goal_below_the_limit_is_withdrawn() {
        // Limits of many milliseconds, above ring's time; of some hundredths of one, below it; and of next to nothing.
        for (share, goal, shown, mark, near) in [
            (1e6, 0.0, "0.00", "MISSED", "met"),
            (1e6, 0.9, "0.90", "met", "met"),
            (1e2, 0.0, "withdrawn: limit", "-", "met"),
            (1e-9, 1e-9, "0.00", "MISSED", "MISSED"),
        ] {
            let limit = Limit::poly1305(1024).with_share(share);
            let table = timed(row(&["ring"], goal, Some(limit)));
            assert!(cell(&table, "goal").starts_with(shown), "{table}");
            assert_eq!((cell(&table, "mark"), cell(&table, "near")), (mark.to_owned(), near.to_owned()));
            assert_eq!(cell(&table, "bound"), "port");
            assert_eq!(table.reading.contains("Withdrawn"), mark == "-", "{}", table.reading);
        }
    }
}
