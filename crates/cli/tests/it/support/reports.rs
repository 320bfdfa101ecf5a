//! Connections to write reports about.

use wireseal::capture::{Incomplete, Skipped, SkippedCounts};
use wireseal::keys::{ConfiguredKey, Keys};
use wireseal::verify::VerifyOptions;
use wireseal::verify::report::{ConnectionReport, Totals};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::Key;
use wireseal_tcp_ao::{Endpoint, KeyId, MasterKey, Mkt, OptionCoverage};

use super::session::{ACK, Found, RST, SYN, Session, Signing};

/// The secret, which no report may contain.
pub const SECRET: &str = "a-secret-that-no-report-shows";

/// 2026-03-01T12:00:00Z.
const START: u64 = 1_772_366_400_000_000_000;

const KEYS: [(u8, TcpAoAlgorithm); 2] = [(100, TcpAoAlgorithm::Aes128Cmac), (101, TcpAoAlgorithm::HmacSha1)];

fn signing(key: usize) -> Signing {
    let (id, algorithm) = KEYS[key];
    Signing::new(algorithm, SECRET.as_bytes(), id)
}

/// The keys core/100 and core/101.
pub fn keys() -> Keys {
    let key = |(id, algorithm)| {
        let master_key = MasterKey::new(SECRET.as_bytes()).unwrap();
        let mkt = Mkt::with_short_master_key(KeyId(id), KeyId(id), algorithm, master_key).unwrap();
        let peer = (id == 100).then(|| "192.0.2.0/24".parse().unwrap());
        ConfiguredKey { name: format!("core/{id}"), key: Key::new(id.into(), mkt), accept_tolerance: 0, peer }
    };
    Keys { keys: KEYS.map(key).into() }
}

/// A session signed with this key, as the connection with this number.
fn session(number: u64, isns: [u32; 2], key: usize) -> Session {
    let mut session = Session::new(isns, [signing(key), signing(key)]);
    session.time = START + number * 1_000_000_000;
    session
}

/// What is found in a session if only this many octets of the last packet are recorded.
fn found(number: u64, session: &Session, recorded: usize) -> ConnectionReport {
    let options = VerifyOptions { keep_segments: true, ..VerifyOptions::default() };
    let last = session.packets.len() - 1;
    let octets = |index, length| if index == last { recorded.min(length) } else { length };
    let found = Found::cut(&session.packets, &keys(), options, octets);
    let [connection] = <[_; 1]>::try_from(found.connections).unwrap();
    ConnectionReport { number, ..connection }
}

/// A BGP session with a key rollover, all good.
pub fn rollover() -> ConnectionReport {
    let mut session = session(1, [0x1000_0000, 0x7000_0000], 0);
    session.shake_hands();
    for end in [0, 1] {
        session.send(end, ACK, &[1; 61]);
        session.send(1 - end, ACK, &[]);
    }
    for length in [1448, 1448, 1448, 812] {
        session.send(1, ACK, &vec![2; length]);
    }
    let retransmitted = session.signed(0, ACK, &[], &[3; 19]);
    session.send(0, ACK, &[3; 19]);
    session.record(0, &retransmitted);
    for round in 0..8 {
        session.wait(30);
        if round == 4 {
            session.signing = [signing(1), signing(1)];
        }
        session.send(round % 2, ACK, &[4; 19]);
        session.send(1 - round % 2, ACK, &[]);
    }
    session.wait(4);
    session.close();
    found(1, &session, usize::MAX)
}

/// A session that fails: its listener excludes the TCP options from the MAC.
pub fn options_excluded() -> ConnectionReport {
    let mut session = session(2, [5, 6], 0);
    session.ends[0] = Endpoint::new([192, 0, 2, 9], 41_022);
    session.signing[1].options = OptionCoverage::Excluded;
    session.send(0, SYN, &[]);
    for seconds in [0, 1, 3, 7] {
        session.wait(seconds);
        session.next[1] = 6;
        session.send(1, SYN | ACK, &[]);
    }
    session.send(0, RST, &[]);
    found(2, &session, usize::MAX)
}

/// One segment of every verdict, and a cause that is markup if not escaped.
pub fn every_verdict() -> ConnectionReport {
    let mut session = session(3, [u32::MAX - 100, 77], 1);
    session.ends =
        [(1, 50_001), (2, 179)].map(|(last, port)| Endpoint::new([0x2001, 0xdb8, 0, 0, 0, 0, 0, last], port));
    session.send(0, SYN, &[]);
    // The ISN of the listener is not known yet.
    let next = session.next;
    session.next[0] += 2000;
    session.send(0, ACK, &[0; 650]);
    session.next = next;
    session.signing[1].secret = b"another".to_vec();
    session.send(1, SYN | ACK, &[]);
    session.signing[0].key_id = 7;
    session.send(0, ACK, &[]);
    session.send_unsigned(1, ACK, &[], &[0; 300]);
    session.send_unsigned(0, ACK, &[29, 40, 101, 101], &[0; 19]);
    session.wait(60);
    session.send_unsigned(1, ACK, &[[29, 8, 101, 101, 1, 2, 3, 4]; 2].concat(), &[0; 19]);
    session.signing[1] = signing(1);
    session.send(1, RST, &[]);
    let mut report = found(3, &session, 70);
    report.diagnoses[0].cause = "<script>alert('core/\"101\"')</script> & <b>so on</b>".to_owned();
    report
}

/// The totals of these connections, some fragments, and a packet that is not TCP.
pub fn totals(connections: &[ConnectionReport]) -> Totals {
    let mut skipped = SkippedCounts::default();
    skipped.add(Skipped::EtherType(0x0806), 1);
    skipped.add(Skipped::Fragment { protocol: 6, why: Incomplete::Missing }, 2);
    let all = connections.len() as u64;
    let mut totals = Totals { connections: all, fragments: 2, other: 1, skipped, ..Totals::default() };
    for connection in connections {
        for (total, count) in totals.counts.iter_mut().zip(connection.counts()) {
            *total += count;
        }
    }
    totals.packets = totals.counts.iter().sum::<u64>() + 3;
    totals
}
