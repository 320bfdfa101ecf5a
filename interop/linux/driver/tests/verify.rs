//! The judge, judged: what is signed verifies, and whatever is amiss shows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_interop_linux::recording::{Frame, Recording};
use wireseal_interop_linux::verify::{Keys, Verdicts, verify};
use wireseal_interop_linux::wire::Port;
use wireseal_tcp_ao::{
    Connection, Endpoint, Isn, KdfContext, KeyId, MasterKey, Mkt, MktSet, Segment, Sne, SocketPair,
    TrafficKey, append_ao, sign_segment,
};

const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const MAC_LENGTH: usize = 12;
const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// The end at [`LOCAL`] sends with 1 and 2, and receives with 101 and 102.
fn mkts(secret: &[u8]) -> Vec<Mkt> {
    let mkt = |id| {
        let key = MasterKey::new(secret).unwrap();
        Mkt::new(KeyId(id), KeyId(100 + id), TcpAoAlgorithm::HmacSha1, key).unwrap()
    };
    vec![mkt(1), mkt(2)]
}

fn mirrored() -> Vec<Mkt> {
    let mirror =
        |mkt: Mkt| Mkt::new(mkt.recv_id(), mkt.send_id(), TcpAoAlgorithm::HmacSha1, mkt.master_key().clone());
    mkts(b"secret").into_iter().map(|mkt| mirror(mkt).unwrap()).collect()
}

fn pair() -> SocketPair {
    SocketPair { local: Endpoint::new(LOCAL, 50_000), remote: Endpoint::new(REMOTE, 179) }
}

/// A TCP segment with room for the signature.
fn segment(pair: &SocketPair, sequence: u32, acknowledgment: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut tcp = Vec::new();
    tcp.extend(pair.local.port().to_be_bytes());
    tcp.extend(pair.remote.port().to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledgment.to_be_bytes());
    tcp.extend([0, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.resize(60, 0);
    let options = append_ao(&mut tcp[20..], 0, MAC_LENGTH).unwrap();
    tcp.truncate(20 + options);
    tcp[12] = u8::try_from(tcp.len() / 4).unwrap() << 4;
    tcp.extend(payload);
    tcp
}

fn frame(pair: &SocketPair, tcp: &[u8]) -> Frame {
    let mut octets = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    let length = u16::try_from(20 + tcp.len()).unwrap().to_be_bytes();
    octets.extend([0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 6, 0, 0]);
    for end in [pair.local, pair.remote] {
        let IpAddr::V4(address) = end.address() else { panic!("the addresses are IPv4's") };
        octets.extend(address.octets());
    }
    octets.extend(tcp);
    Frame { at: Duration::ZERO, from: Some(Port::Userspace), is_lost: false, octets }
}

/// Two ends whose handshake is on record.
struct Ends {
    opener: Connection,
    answerer: Connection,
    recording: Recording,
}

impl Ends {
    fn open(opener_isn: u32, answerer_isn: u32) -> Self {
        let (near, far) =
            (MktSet::from_mkts(mkts(b"secret")).unwrap(), MktSet::from_mkts(mirrored()).unwrap());
        let mut opener = Connection::active(pair(), Isn(opener_isn), &near).unwrap();
        let mut syn = segment(&pair(), opener_isn, 0, SYN, &[]);
        opener.sign(&mut syn).unwrap();
        let view = Segment::from_tcp(LOCAL.into(), REMOTE.into(), &syn).unwrap();
        let answerer = Connection::passive(&far.verify_syn(view).unwrap());
        let mut ends = Self { opener, answerer, recording: Recording::default() };
        ends.recording.frames.push(frame(&pair(), &syn));
        ends.answer(answerer_isn, opener_isn.wrapping_add(1), SYN | ACK, &[]);
        ends.send(opener_isn.wrapping_add(1), answerer_isn.wrapping_add(1), ACK, &[]);
        ends
    }

    fn send(&mut self, sequence: u32, acknowledgment: u32, flags: u8, payload: &[u8]) {
        let mut tcp = segment(&pair(), sequence, acknowledgment, flags, payload);
        self.opener.sign(&mut tcp).unwrap();
        let view = Segment::from_tcp(LOCAL.into(), REMOTE.into(), &tcp).unwrap();
        self.answerer.verify(&view).unwrap();
        self.recording.frames.push(frame(&pair(), &tcp));
    }

    fn answer(&mut self, sequence: u32, acknowledgment: u32, flags: u8, payload: &[u8]) {
        let mut tcp = segment(&pair().reversed(), sequence, acknowledgment, flags, payload);
        self.answerer.sign(&mut tcp).unwrap();
        let view = Segment::from_tcp(REMOTE.into(), LOCAL.into(), &tcp).unwrap();
        self.opener.verify(&view).unwrap();
        self.recording.frames.push(frame(&pair().reversed(), &tcp));
    }
}

fn judged(recording: &Recording) -> Verdicts {
    judged_with(recording, b"secret")
}

fn judged_with(recording: &Recording, secret: &[u8]) -> Verdicts {
    verify(recording, &[Keys { local: LOCAL.into(), mkts: mkts(secret) }])
}

#[test]
fn a_connection_verifies_over_a_key_change_and_a_retransmission() {
    let mut ends = Ends::open(1000, 2000);
    ends.send(1001, 2001, ACK, b"first");
    ends.answerer.set_rnext_key(KeyId(2)).unwrap();
    ends.answer(2001, 1006, ACK, &[]);
    ends.send(1006, 2001, ACK, b"second");
    let again = ends.recording.frames[3].clone();
    ends.recording.frames.push(again);
    let verdicts = judged(&ends.recording);
    verdicts.check_all_verified().unwrap();
    assert_eq!((verdicts.connections, verdicts.verified), (1, 7));
    assert_eq!(verdicts.by_key.get(&2), Some(&1), "{verdicts:?}");
}

#[test]
fn another_secret_verifies_nothing() {
    let ends = Ends::open(1000, 2000);
    let verdicts = judged_with(&ends.recording, b"Secret");
    assert_eq!((verdicts.verified, verdicts.failed.len()), (0, 3));
    assert!(verdicts.check_all_verified().is_err());
}

#[test]
fn an_empty_recording_is_no_success() {
    assert!(judged(&Recording::default()).check_all_verified().is_err());
}

#[test]
fn each_altered_octet_of_a_segment_shows() {
    let mut ends = Ends::open(1000, 2000);
    ends.send(1001, 2001, ACK, b"x");
    let last = ends.recording.frames.len() - 1;
    let tcp_from = 14 + 20;
    for octet in tcp_from..ends.recording.frames[last].octets.len() {
        // The checksum is not covered.
        if (tcp_from + 16..tcp_from + 18).contains(&octet) {
            continue;
        }
        let mut recording = ends.recording.clone();
        recording.frames[last].octets[octet] ^= 1;
        assert!(judged(&recording).verified < 4, "octet {octet}");
    }
}

#[test]
fn an_unsigned_segment_shows() {
    let mut ends = Ends::open(1000, 2000);
    let mut tcp = segment(&pair(), 1001, 2001, ACK, b"");
    tcp.truncate(20);
    tcp[12] = 0x50;
    ends.recording.frames.push(frame(&pair(), &tcp));
    let verdicts = judged(&ends.recording);
    assert_eq!((verdicts.verified, verdicts.unsigned), (3, 1));
    assert!(verdicts.check_all_verified().is_err());
}

#[test]
fn forged_frames_are_left_out() {
    let mut ends = Ends::open(1000, 2000);
    let mut forged = ends.recording.frames[2].clone();
    forged.from = None;
    forged.octets[14 + 20 + 4] ^= 1;
    ends.recording.frames.push(forged);
    judged(&ends.recording).check_all_verified().unwrap();
}

#[test]
fn sequence_numbers_wrap() {
    let mut ends = Ends::open(u32::MAX - 2, 2000);
    ends.send(u32::MAX - 1, 2001, ACK, b"over the end");
    ends.send(10, 2001, ACK, b"behind it");
    let verdicts = judged(&ends.recording);
    verdicts.check_all_verified().unwrap();
    assert_eq!(verdicts.highest_sne, 1);
}

#[test]
fn a_socket_pair_is_used_twice() {
    let first = Ends::open(1000, 2000);
    let mut second = Ends::open(70_000, 80_000);
    second.send(70_001, 80_001, ACK, b"new");
    let late = first.recording.frames[2].clone();
    let mut recording = first.recording;
    recording.append(second.recording);
    recording.frames.push(late);
    let verdicts = judged(&recording);
    verdicts.check_all_verified().unwrap();
    assert_eq!((verdicts.connections, verdicts.verified), (2, 8));
}

/// Linux signs a listener's reset with the key that the answered segment would have, were it a SYN.
#[test]
fn a_stateless_reset_is_told_apart() {
    let mut ends = Ends::open(1000, 2000);
    let mkt = &mirrored()[0];
    let mut stray = segment(&pair(), 5000, 6000, ACK, &[]);
    let context = KdfContext::syn(pair().local, pair().remote, Isn(5000));
    let key = TrafficKey::derive(TcpAoAlgorithm::HmacSha1, mkt.master_key(), &context);
    let back = pair().reversed();
    let mut reset = segment(&back, 6000, 0, RST, &[]);
    let addresses = (back.local.address(), back.remote.address());
    sign_segment(&key, Sne(0), addresses, &mut reset, mkt.parameters(), KeyId(1)).unwrap();
    ends.opener.sign(&mut stray).unwrap();
    ends.recording.frames.push(frame(&pair(), &stray));
    ends.recording.frames.push(frame(&back, &reset));
    let verdicts = judged(&ends.recording);
    assert_eq!(verdicts.stateless_resets, 1, "{verdicts:?}");
    assert!(verdicts.failed.is_empty(), "{verdicts:?}");
}
