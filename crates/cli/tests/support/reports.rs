//! Reports of connections as they could have been, made by hand.

#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use wireseal::capture::Time;
use wireseal::keys::{ConfiguredKey, Keys};
use wireseal::verify::report::{
    ConnectionReport, Diagnosis, DirectionReport, KeyUse, Place, SegmentReport, Sender, Totals, Verdict,
};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::key_chain::Key;
use wireseal_tcp_ao::{Endpoint, Flags, Isn, KeyId, MasterKey, Mkt, OptionError, Segment, SeqNum, Sne};

/// What no report may contain.
pub(crate) const SECRET: &str = "a-secret-that-nobody-may-see";

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// 2026-03-01T12:00:00Z.
const START: u64 = 1_772_366_400_000_000_000;

pub(crate) fn key(name: &str, id: u8, algorithm: TcpAoAlgorithm) -> ConfiguredKey {
    let master_key = MasterKey::new(SECRET.as_bytes()).unwrap();
    let mkt = Mkt::with_short_master_key(KeyId(id), KeyId(id), algorithm, master_key);
    ConfiguredKey {
        name: name.to_owned(),
        key: Key::new(u64::from(id), mkt),
        accept_tolerance: 0,
        peer: Some("192.0.2.0/24".parse().unwrap()),
    }
}

pub(crate) fn keys() -> Keys {
    Keys {
        keys: vec![
            key("core/100", 100, TcpAoAlgorithm::Aes128Cmac),
            key("core/101", 101, TcpAoAlgorithm::HmacSha1),
        ],
    }
}

/// The flags of a header with these bits.
pub(crate) fn flags(bits: u8) -> Flags {
    let mut tcp = [0; 20];
    tcp[12..14].copy_from_slice(&[0x50, bits]);
    let address = [192, 0, 2, 1].into();
    Segment::from_tcp(address, address, &tcp).unwrap().flags()
}

/// A connection that grows by a segment at a time.
pub(crate) struct Growing {
    report: ConnectionReport,
    next: [u32; 2],
    now: u64,
    packet: u64,
}

impl Growing {
    pub(crate) fn new(number: u64, ends: [Endpoint; 2], isns: [u32; 2]) -> Self {
        let place = Place { packet: 0, time: None };
        let direction = |isn| DirectionReport { isn: Some(Isn(isn)), ..DirectionReport::default() };
        let report = ConnectionReport {
            number,
            ends,
            first: place,
            last: place,
            directions: isns.map(direction),
            diagnoses: Vec::new(),
            segments: Vec::new(),
            segments_left_out: 0,
        };
        Self { report, next: isns, now: START + number * 1_000_000_000, packet: number * 1000 }
    }

    /// Lets so many microseconds pass.
    pub(crate) fn after(&mut self, microseconds: u64) -> &mut Self {
        self.now += microseconds * 1000;
        self
    }

    /// A segment of one end under the key of this place, or without an option.
    pub(crate) fn send(
        &mut self,
        sender: Sender,
        bits: u8,
        length: u32,
        key: Option<(usize, u8)>,
        verdict: Verdict,
    ) -> &mut Self {
        self.packet += 1;
        let place = Place { packet: self.packet, time: Some(Time::from_unix_nanoseconds(self.now)) };
        let flags = flags(bits);
        let (from, to) = (sender as usize, 1 - sender as usize);
        let sequence = self.next[from];
        self.next[from] = sequence.wrapping_add(length + u32::from(flags.syn()) + u32::from(flags.fin()));
        let sne = (verdict == Verdict::Good).then_some(Sne(0));
        if self.report.segments.is_empty() {
            self.report.first = place;
        }
        self.report.last = place;
        self.report.segments.push(SegmentReport {
            place,
            sender,
            flags,
            sequence: SeqNum(sequence),
            acknowledgment: SeqNum(if flags.ack() { self.next[to] } else { 0 }),
            sne,
            payload_length: length,
            key_ids: key.map(|(_, id)| [KeyId(id), KeyId(id)]),
            is_retransmission: false,
            verdict,
        });
        let direction = &mut self.report.directions[from];
        direction.counts[verdict.index()] += 1;
        direction.payload += u64::from(length);
        direction.sne = sne.or(direction.sne);
        if flags.rst() {
            if verdict == Verdict::Good { direction.signed_resets += 1 } else { direction.other_resets += 1 }
        }
        if let Some((key, id)) = key {
            let known = (verdict == Verdict::Good).then_some(key);
            match direction.key_uses.last_mut() {
                Some(key_use) if key_use.key_id == KeyId(id) => {
                    key_use.last = place;
                    key_use.segments += 1;
                }
                _ => direction.key_uses.push(KeyUse {
                    key_id: KeyId(id),
                    key: known,
                    first: place,
                    last: place,
                    segments: 1,
                    outside_lifetime: 0,
                }),
            }
        }
        self
    }

    /// The last segment, once more, later.
    pub(crate) fn again(&mut self, microseconds: u64) -> &mut Self {
        self.after(microseconds);
        self.packet += 1;
        let mut segment = *self.report.segments.last().unwrap();
        segment.place = Place { packet: self.packet, time: Some(Time::from_unix_nanoseconds(self.now)) };
        segment.is_retransmission = true;
        self.report.last = segment.place;
        let direction = &mut self.report.directions[segment.sender as usize];
        direction.counts[segment.verdict.index()] += 1;
        direction.retransmissions += 1;
        if let Some(key_use) = direction.key_uses.last_mut() {
            key_use.segments += 1;
            key_use.last = segment.place;
        }
        self.report.segments.push(segment);
        self
    }

    pub(crate) fn diagnosis(&mut self, sender: Sender, kind: &'static str, sentence: &str) -> &mut Self {
        let failed = |segment: &&SegmentReport| segment.sender == sender && segment.verdict.is_failure();
        let failed: Vec<_> = self.report.segments.iter().filter(failed).collect();
        let (first, segments) = (failed[0].place, failed.len() as u64);
        let sentence = sentence.to_owned();
        self.report.diagnoses.push(Diagnosis { sender, first, segments, kind, sentence });
        self
    }

    pub(crate) fn report(&self) -> ConnectionReport {
        self.report.clone()
    }
}

use Sender::{Listener, Opener};

/// A BGP session with a key rollover, all good.
pub(crate) fn rollover() -> ConnectionReport {
    let ends = [Endpoint::new([192, 0, 2, 1], 50_000), Endpoint::new([192, 0, 2, 2], 179)];
    let mut growing = Growing::new(1, ends, [0x1000_0000, 0x7000_0000]);
    let (old, new) = (Some((0, 100)), Some((1, 101)));
    let good = Verdict::Good;
    growing.send(Opener, SYN, 0, old, good).after(310).send(Listener, SYN | ACK, 0, old, good);
    growing.after(120).send(Opener, ACK, 0, old, good);
    growing.after(900).send(Opener, ACK, 61, old, good).after(150).send(Listener, ACK, 0, old, good);
    growing.after(700).send(Listener, ACK, 61, old, good).after(90).send(Opener, ACK, 0, old, good);
    growing.after(400).send(Opener, ACK, 19, old, good).after(60).send(Listener, ACK, 19, old, good);
    for length in [1448, 1448, 1448, 812] {
        growing.after(35).send(Listener, ACK, length, old, good);
    }
    growing.after(180).send(Opener, ACK, 0, old, good).again(205_000);
    for round in 0..6 {
        let [from, to] = if round % 2 == 0 { [Opener, Listener] } else { [Listener, Opener] };
        let key = if round < 3 { old } else { new };
        growing.after(29_998_000).send(from, ACK, 19, key, good).after(240).send(to, ACK, 0, key, good);
    }
    growing.after(12_000_000).send(Listener, ACK, 230, new, good).after(200).send(Opener, ACK, 0, new, good);
    growing.after(4_000_000).send(Opener, ACK | FIN, 21, new, good);
    growing.after(300).send(Listener, ACK | FIN, 0, new, good).after(90).send(Opener, ACK, 0, new, good);
    growing.report()
}

/// A session whose listener leaves the options out of the MAC.
pub(crate) fn options_excluded() -> ConnectionReport {
    let ends = [Endpoint::new([192, 0, 2, 9], 41_022), Endpoint::new([192, 0, 2, 2], 179)];
    let mut growing = Growing::new(2, ends, [5, 6]);
    let key = Some((0, 100));
    growing.send(Opener, SYN, 0, key, Verdict::Good);
    growing.after(400).send(Listener, SYN | ACK, 0, key, Verdict::BadMac);
    growing.again(1_000_000).again(3_000_000).again(7_000_000);
    growing.after(900_000).send(Opener, RST, 0, key, Verdict::Good);
    growing.diagnosis(
        Listener,
        "options-coverage",
        "192.0.2.2:179 leaves the TCP options out of its MACs, and the key core/100 has them covered: configure both ends alike",
    );
    growing.report()
}

/// One segment of every verdict, and a text in the diagnosis that would be markup if it were not escaped.
pub(crate) fn every_verdict() -> ConnectionReport {
    let ends = [
        Endpoint::new([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 50_001),
        Endpoint::new([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2], 179),
    ];
    let mut growing = Growing::new(3, ends, [u32::MAX - 100, 77]);
    let key = Some((1, 101));
    growing.send(Opener, SYN, 0, key, Verdict::Good);
    growing.after(250).send(Listener, ACK | SYN, 0, key, Verdict::BadMac);
    growing.after(250).send(Opener, ACK, 0, Some((1, 7)), Verdict::UnknownKeyId);
    growing.after(900).send(Listener, ACK, 300, None, Verdict::NoOption);
    let error = OptionError::BadLength { kind: 29, offset: 12 };
    growing.after(250).send(Opener, ACK, 19, None, Verdict::MalformedOption(error));
    growing.after(250).send(Listener, ACK, 19, key, Verdict::TwoOptions);
    growing.after(60_000_000).send(Opener, ACK, 65_000, key, Verdict::IsnNotSeen);
    growing.after(250).send(Listener, RST, 0, key, Verdict::CutOff);
    growing.diagnosis(Opener, "other-key", "<script>alert('core/\"101\"')</script> & <b>so on</b>");
    growing.diagnosis(Listener, "unsigned-peer", "2001:db8::2 sends without TCP-AO");
    growing.report()
}

/// The totals of these connections.
pub(crate) fn totals(connections: &[ConnectionReport]) -> Totals {
    let mut totals = Totals { connections: connections.len() as u64, ..Totals::default() };
    for direction in connections.iter().flat_map(|connection| &connection.directions) {
        for (total, count) in totals.counts.iter_mut().zip(direction.counts) {
            *total += count;
        }
    }
    totals.packets = totals.counts.iter().sum::<u64>() + 3;
    totals.fragments = 2;
    totals.other = 1;
    totals
}
