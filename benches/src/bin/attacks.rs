//! Measures hostile packets at a shim with a full table: their cost, relative to a good segment, and what they leave in the table.

use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use clap::Parser;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_benches::packets::{ACK, IPV4, RST, SYN, set_checksums};
use wireseal_benches::shim::{self, Host, NOW, SERVER, deliver, open, sign, to_server};
use wireseal_tcp_ao::checksum;

/// Those that Linux has: RFC 5926's, and hmac(sha256).
const ALGORITHMS: [TcpAoAlgorithm; 3] =
    [TcpAoAlgorithm::Aes128Cmac, TcpAoAlgorithm::HmacSha1, TcpAoAlgorithm::LinuxHmacSha256];

/// Where the options begin in a packet.
const OPTIONS: usize = IPV4 + 20;

/// The number of parts in which the packets of a kind are sent.
const PARTS: u32 = 100;

/// Attacks a shim whose table is full of open connections, each of another peer, and prints what that costs.
#[derive(Parser)]
struct Arguments {
    /// Connections and peers of each table.
    #[arg(long, num_args = 1.., default_values_t = [1_000, 100_000])]
    connections: Vec<u32>,
    /// Hostile packets of each kind.
    #[arg(long, default_value_t = 1_000_000)]
    packets: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { connections, packets } = Arguments::parse();
    println!(
        "A packet of each kind, in nanoseconds and as a multiple of a good segment; {packets} of each were timed."
    );
    ALGORITHMS.into_iter().try_for_each(|algorithm| print_table(algorithm, &connections, packets))
}

fn print_table(algorithm: TcpAoAlgorithm, connections: &[u32], packets: u32) -> Result<(), Box<dyn Error>> {
    println!("\n{algorithm}:\n");
    println!(
        "| packet | refused | {} |",
        connections
            .iter()
            .map(|count| format!("{count} connections | ratio | "))
            .collect::<String>()
            .trim_end_matches("| ")
    );
    println!("|---|---|{}", "---|---|".repeat(connections.len()));
    let mut tables = Vec::new();
    for connections in connections {
        tables.push(attack(algorithm, *connections, packets)?);
    }
    for place in 0..tables[0].rows.len() {
        let (name, refusal, _) = &tables[0].rows[place];
        let mut line = format!("| {name} | {refusal} |");
        for Attacked { good, rows, .. } in &tables {
            let taken = rows[place].2;
            write!(line, " {taken:.0} ns | {:.2} |", taken / good)?;
        }
        println!("{line}");
    }
    for Attacked { connections, keys_replaced, lost, kibibytes, .. } in &tables {
        println!(
            "\n{connections} connections: {lost} lost; new keys for one peer take {keys_replaced:.0} ns; memory of the process {} KiB \
             before, {} after",
            kibibytes.0, kibibytes.1
        );
    }
    if tables.iter().any(|table| table.lost > 0) { Err("sessions were lost".into()) } else { Ok(()) }
}

struct Attacked {
    connections: u32,
    good: f64,
    /// A kind of packet, the shim's reaction, and the nanoseconds for one; good segments first.
    rows: Vec<(&'static str, String, f64)>,
    /// Nanoseconds to replace the keys of one peer and its connections.
    keys_replaced: f64,
    lost: u32,
    /// Memory before and after.
    kibibytes: (u64, u64),
}

/// Opens the connections, sends every kind of packet, and counts the connections that still carry data.
fn attack(algorithm: TcpAoAlgorithm, connections: u32, packets: u32) -> Result<Attacked, Box<dyn Error>> {
    let host = |connections, is_client| shim::host(algorithm, connections, is_client);
    let (mut clients, mut server) = (host(connections, true), host(connections, false));
    if !(0..connections).all(|number| open(&mut clients, &mut server, number)) {
        return Err("a connection does not open".into());
    }
    // Spread over the table, as the connections of real packets are.
    let spread = |place: u32| place.wrapping_mul(2_654_435_761) % connections;
    let numbers: Vec<u32> = (0..1024.min(connections)).map(spread).collect();
    let segment = |number: &u32| to_server((*number, 5000, ACK, [2, 2]), 0);
    let good: Option<Vec<Vec<u8>>> =
        numbers.iter().map(|number| sign(&mut clients, &segment(number))).collect();
    let good = good.ok_or("a good segment is not signed")?;
    let from =
        |port: u16, flags| numbers.iter().map(move |number| to_server((*number, port, flags, [7, 0]), 0));
    // SYNs of the same hosts from another port, recorded earlier.
    let mut earlier = host(connections, true);
    let replayed: Option<Vec<Vec<u8>>> = from(6000, SYN).map(|syn| sign(&mut earlier, &syn)).collect();
    let replayed = replayed.ok_or("a good SYN is not signed")?;
    let altered = |packets: &[Vec<u8>], alter: fn(&mut Vec<u8>)| -> Vec<Vec<u8>> {
        let packets = packets.iter().cloned().map(|mut packet| {
            alter(&mut packet);
            set_checksums(&mut packet);
            packet
        });
        packets.collect()
    };
    let last: fn(&mut Vec<u8>) = |packet| *packet.last_mut().expect("a packet is not empty") ^= 1;
    let kinds: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("good segment", good.clone()),
        ("replayed segment, of the connection's first", good.clone()),
        ("forged MAC", altered(&good, last)),
        (
            "MAC of 11 octets",
            altered(&good, |packet| {
                (packet[OPTIONS + 1], packet[OPTIONS + 15]) = (15, 1);
            }),
        ),
        ("unknown KeyID", altered(&good, |packet| packet[OPTIONS + 2] = 99)),
        ("unsigned reset", from(5000, RST).collect()),
        ("unsigned SYN", from(5000, SYN).collect()),
        ("unsigned segment from another port", from(6000, ACK).collect()),
        ("forged SYN from another port", altered(&replayed, last)),
        ("replayed SYN from another port", replayed),
        ("hard ICMP error", good.iter().map(|packet| icmp_error(packet)).collect()),
        ("segment of a stranger", altered(&good, |packet| packet[12..14].copy_from_slice(&[172, 16]))),
    ];
    let before = resident_kibibytes()?;
    let mut rows = Vec::new();
    for (name, kind) in &kinds {
        let outcome = match server.inbound(NOW, &mut kind[0].clone()) {
            Ok(_) => "passes".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        rows.push((*name, outcome, f64::INFINITY));
    }
    // Interleave the kinds and keep each one's best part, so that other load affects all alike. An untimed run first refills the caches.
    for _ in 0..PARTS {
        for ((_, kind), (.., best)) in kinds.iter().zip(&mut rows) {
            time(&mut server, kind, kind.len() as u32);
            *best = time(&mut server, kind, (packets / PARTS).max(1)).min(*best);
        }
    }
    let after = resident_kibibytes()?;
    let same_keys = server.peer(0).ok_or("there is a first peer")?.mkts.clone();
    let started = Instant::now();
    for number in &numbers {
        server.set_mkts(*number as usize, same_keys.clone())?;
    }
    let keys_replaced = started.elapsed().as_nanos() as f64 / numbers.len() as f64;
    let is_lost = |number: &u32| !deliver(&mut clients, &mut server, &segment(number));
    let lost = (0..connections).filter(is_lost).count() as u32;
    Ok(Attacked { connections, good: rows[0].2, rows, keys_replaced, lost, kibibytes: (before, after) })
}

/// Nanoseconds for one packet, copying included.
fn time(server: &mut Host, kind: &[Vec<u8>], packets: u32) -> f64 {
    let mut buffer = Vec::with_capacity(2048);
    let started = Instant::now();
    for packet in kind.iter().cycle().take(packets as usize) {
        buffer.clear();
        buffer.extend_from_slice(packet);
        let _ = black_box(server.inbound(NOW, &mut buffer));
    }
    started.elapsed().as_nanos() as f64 / f64::from(packets)
}

/// A "port unreachable" error for a packet that the server sent to this packet's sender.
fn icmp_error(packet: &[u8]) -> Vec<u8> {
    let mut quoted = packet[..28].to_vec();
    quoted[12..20].rotate_left(4);
    quoted[20..24].rotate_left(2);
    let mut error = vec![0x45, 0, 0, 56, 0, 1, 0, 0, 64, 1, 0, 0, 203, 0, 113, 1];
    error.extend(SERVER.octets());
    let header = checksum::ipv4_header(&error);
    error[10..12].copy_from_slice(&header.to_be_bytes());
    let mut message = [&[3, 3, 0, 0, 0, 0, 0, 0], &quoted[..]].concat();
    // The checksum covers only the message, and is computed as for an IPv4 header (RFC 792).
    let sum = checksum::ipv4_header(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    error.extend(message);
    error
}

fn resident_kibibytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    Ok(resident.ok_or("no VmRSS in /proc/self/status")?.parse()?)
}
