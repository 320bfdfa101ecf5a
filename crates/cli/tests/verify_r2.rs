//! Probe.
#![allow(clippy::unwrap_used)]
mod verify_support;
use verify_support::session::*;
use verify_support::sign::*;
use verify_support::*;
use wireseal::verify::report::Verdict;
use wireseal::verify::{Options, Verifier};
use wireseal::capture::{Packet, Time};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Endpoint, Isn};

fn show(name: &str, found: &Found) {
    println!("== {name}: {} connections {:?}", found.connections.len(), found.verdicts());
    for d in found.diagnoses() { println!("   {} {:?} {}: {}", d.kind, d.sender, d.segments, d.sentence); }
}
fn again(session: &mut Session, isns: [u32; 2]) {
    session.isns = isns.map(Isn);
    session.next = isns.map(u64::from);
}
fn of(packets: &[Recorded], sender: u8) -> Vec<Recorded> {
    packets.iter().filter(|(_, octets)| octets[15] == sender).cloned().collect()
}

#[test]
fn probe() {
    // one direction, ports used again
    let mut s = session();
    s.close();
    again(&mut s, [7000, 9000]);
    s.shake_hands();
    s.talk();
    show("opener only reuse", &verify(&of(&s.packets, 1), &[IPV4_KEY]));
    show("listener only reuse", &verify(&of(&s.packets, 2), &[IPV4_KEY]));
    // forged SYN
    let mut s = Session::usual([1000, 5000]);
    s.send(0, SYN, &[]);
    let next = s.next;
    s.next[0] = 77;
    s.send_unsigned(0, SYN, &MSS, &[]);
    s.next = next;
    s.send(1, SYN | ACK, &[]);
    s.send(0, ACK, &[]);
    s.talk();
    show("forged SYN before SYN-ACK", &verify(&s.packets, &[IPV4_KEY]));
    // unsigned SYNs
    let mut s = Session::usual([1000, 5000]);
    for _ in 0..3 { s.next[0] = 1000; s.send_unsigned(0, SYN, &MSS, &[]); s.wait(2); }
    show("unsigned SYNs dropped", &verify(&s.packets, &[IPV4_KEY]));
    // restarted peer
    let mut s = session();
    s.packets.clear();
    for _ in 0..2 { s.send(0, ACK | PSH, b"keepalive"); s.send_unsigned(1, RST, &[], &[]); }
    show("restarted listener", &verify(&s.packets, &[IPV4_KEY]));
    // rollover wrong at one end
    let second = "send=101,recv=101,alg=hmac-sha-1-96,secret=second-secret";
    let mut s = session();
    s.signing[0] = Signing::new(TcpAoAlgorithm::HmacSha1, b"second-secret\n", 101);
    for _ in 0..3 {
        let n = s.next;
        s.send(0, ACK | PSH, b"words"); s.next = n;
        s.wait(1);
    }
    show("rollover wrong", &verify(&s.packets, &[IPV4_KEY, second]));
    s.signing[0] = Signing::new(TcpAoAlgorithm::HmacSha1, b"second-secret", 101);
    s.send(0, ACK | PSH, b"words");
    s.send(1, ACK | PSH, b"words");
    show("rollover mended, retransmission acked", &verify(&s.packets, &[IPV4_KEY, second]));
    // isn ffffffff
    let mut s = Session::usual([u32::MAX, u32::MAX]);
    s.shake_hands(); s.talk();
    show("isn max opener only", &verify(&of(&s.packets, 1), &[IPV4_KEY]));
    show("isn max from third", &verify(&s.packets[2..], &[IPV4_KEY]));
    show("isn max", &verify(&s.packets, &[IPV4_KEY]));
    // keepalive, zero-window probe before anything
    let mut s = Session::usual([u32::MAX, u32::MAX - 1]);
    s.shake_hands();
    for e in [0, 1] { s.next[e] -= 1; s.send(e, ACK, &[]); s.next[e] += 1; s.send(1 - e, ACK, &[]); }
    s.next[0] -= 1; s.send(0, ACK, &[0]);
    s.talk();
    show("keepalives", &verify(&s.packets, &[IPV4_KEY]));
    // forged with other key id
    let mut s = session();
    for id in [9, 100, 10] {
        let n = s.next;
        let keep = s.signing[0].clone();
        s.signing[0].key_id = id; s.signing[0].secret = b"forger".to_vec();
        s.send(0, ACK, b"x");
        s.signing[0] = keep; s.next = n; s.send(0, ACK, b"x");
    }
    let f = verify(&s.packets, &[IPV4_KEY]);
    show("forged ids", &f);
    println!("   {:?}", f.connections[0].directions[0].key_uses);
    // hints for a connection with its handshake
    let hint = "192.0.2.1:50000-192.0.2.2:179=1,2".parse().unwrap();
    let o = Options { isns: vec![hint], ..Options::default() };
    let mut s = session();
    let first = s.packets[0].clone(); s.packets.insert(1, first);
    show("hint and handshake", &verify_with(&s.packets, &[IPV4_KEY], o.clone()));
    show("wrong hint", &verify_with(&s.packets[4..], &[IPV4_KEY], o));
    // mac lengths of the two ends
    let mut s = Session::usual([1000, 5000]);
    s.signing[1].mac_length = 16;
    s.shake_hands(); s.talk();
    show("listener 16", &verify(&s.packets, &[IPV4_KEY]));
    let mut s = Session::usual([1000, 5000]);
    s.signing[1].mac_length = 4; s.signing[0].mac_length = 4;
    s.signing[0].secret = b"other".to_vec();
    s.shake_hands(); s.talk();
    show("mac 4 and another secret", &verify(&s.packets, &[IPV4_KEY]));
    // listener's id differs
    let mut s = Session::usual([1000, 5000]);
    s.signing[1].key_id = 102;
    s.shake_hands();
    show("listener's id", &verify(&s.packets[..2], &[IPV4_KEY]));
    // key for another peer prefix at both ends
    let mut s = Session::usual([1000, 5000]);
    s.signing[1].options = wireseal_tcp_ao::OptionCoverage::Excluded;
    s.send(0, SYN, &[]); s.send(1, SYN|ACK, &[]);
    let sa = s.packets.last().unwrap().clone();
    s.packets.push(sa);
    show("listener excludes", &verify(&s.packets, &[IPV4_KEY]));
    // fin of both in one direction etc
    let _ = (Endpoint::new([1,1,1,1],1), Verdict::Good);
}

#[test]
fn flood() {
    let keys = keys(&[IPV4_KEY]);
    let mut verifier = Verifier::new(&keys, Options::default());
    let mut most = 0;
    for number in 1..100_000u64 {
        let mut s = Session::usual([1000, 5000]);
        s.ends[0] = Endpoint::new([10, 1, (number >> 8) as u8, number as u8], 1000 + (number >> 16) as u16);
        s.time += number * 1000;
        s.send_unsigned(0, ACK, &[], b"x");
        let (time, octets) = &s.packets[0];
        let packet = Packet { number, time: Some(Time::from_unix_nanoseconds(*time)), link_type: RAW, octets, original_length: octets.len() };
        verifier.packet(&packet);
        while verifier.next_finished().is_some() {}
        most = most.max(verifier.live());
    }
    println!("most {most}");
}

#[test]
fn train() {
    let mut s = session();
    s.send(0, ACK, b"x");
    let mac = s.packets.last().unwrap().1[20+20+4..20+20+16].to_vec();
    for _ in 0..20_000 {
        let mut tcp = with_ao(&s.header(0, ACK, &[], b"x"), 100, 100, 12);
        put_mac(&mut tcp, &mac);
        let a = s.addresses(0);
        set_checksum(a, &mut tcp);
        s.record(0, &tcp);
        s.advance(0, ACK, 1);
    }
    let t = std::time::Instant::now();
    let f = verify(&s.packets, &[IPV4_KEY]);
    println!("train {:?}", t.elapsed());
    for d in f.diagnoses() { println!("   {} {:?} {}: {}", d.kind, d.sender, d.segments, d.sentence); }
}
