//! What the tests of `verify` share: recorded sessions signed anew with a fault, sessions made up, and their verdicts.

#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

pub mod generate;
pub mod packet;
pub mod session;
pub mod sign;

use std::path::PathBuf;

use pcap_file::pcap::PcapReader;
use wireseal::capture::{Packet, Time};
use wireseal::keys::{self, Keys};
use wireseal::verify::report::{ConnectionReport, Diagnosis, SegmentReport, Totals, Verdict};
use wireseal::verify::{Options, Verifier};
use wireseal_tcp_ao::Segment;

/// LINKTYPE_RAW: packets begin with their IP header.
pub const RAW: u16 = 101;

/// The keys of the two recorded sessions, as `--key` takes them.
pub const IPV4_KEY: &str = "send=100,recv=100,alg=aes-128-cmac-96,secret=first-secret";
pub const IPV6_KEY: &str = "send=7,recv=7,alg=hmac-sha-1-96,secret-hex=6b6432206c6f6e6720706173737068726173652c206d6f7265\
                            207468616e206f6e6520626c6f636b206f66207368613120696e7075742c203830206279746573206d6178";

/// An IP packet and when it was recorded, in nanoseconds.
pub type Recorded = (u64, Vec<u8>);

/// Where a recorded session is.
pub fn capture_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tcp-ao/tests/data/captures").join(name)
}

/// The IP packets of a recorded session that carry TCP, a second apart.
pub fn recorded(name: &str) -> Vec<Recorded> {
    let mut reader = PcapReader::new(std::fs::File::open(capture_path(name)).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let packet = frame.unwrap().data[14..].to_vec();
        if Segment::parse(&packet).is_ok() {
            packets.push((1_780_000_000_000_000_000 + packets.len() as u64 * 1_000_000_000, packet));
        }
    }
    packets
}

/// Everything that is found in a capture.
#[derive(Debug)]
pub struct Found {
    pub segments: Vec<SegmentReport>,
    pub connections: Vec<ConnectionReport>,
    pub totals: Totals,
}

impl Found {
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.segments.iter().map(|segment| segment.verdict).collect()
    }

    pub fn count(&self, verdict: Verdict) -> u64 {
        self.totals.counts[verdict.index()]
    }

    pub fn all_good(&self) -> bool {
        !self.segments.is_empty() && self.count(Verdict::Good) == self.segments.len() as u64
    }

    pub fn diagnoses(&self) -> Vec<&Diagnosis> {
        self.connections.iter().flat_map(|connection| &connection.diagnoses).collect()
    }

    /// The kinds of all diagnoses, without repetition.
    pub fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self.diagnoses().iter().map(|diagnosis| diagnosis.kind).collect();
        kinds.dedup();
        kinds
    }

    /// Asserts that there is one kind of diagnosis, in words that contain all of these.
    #[track_caller]
    pub fn assert_diagnosed(&self, kind: &str, words: &[&str]) {
        assert_eq!(self.kinds(), [kind], "{:#?}", self.diagnoses());
        for diagnosis in self.diagnoses() {
            for word in words {
                assert!(diagnosis.sentence.contains(word), "{word:?} is not in: {}", diagnosis.sentence);
            }
        }
    }
}

pub fn keys(arguments: &[&str]) -> Keys {
    let read = arguments.iter().flat_map(|text| keys::from_argument(text).unwrap().keys().unwrap().keys);
    Keys { keys: read.collect() }
}

/// Checks packets against keys.
pub fn verify_with(packets: &[Recorded], arguments: &[&str], options: Options) -> Found {
    let keys = keys(arguments);
    let mut verifier = Verifier::new(&keys, options);
    let mut segments = Vec::new();
    let mut connections = Vec::new();
    for (number, (time, octets)) in (1..).zip(packets) {
        let time = Some(Time::from_unix_nanoseconds(*time));
        let packet = Packet { number, time, link_type: RAW, octets, original_length: octets.len() };
        segments.extend(verifier.packet(&packet).map(|judged| judged.segment));
        connections.extend(std::iter::from_fn(|| verifier.next_finished()));
    }
    let (rest, totals) = verifier.finish(None);
    connections.extend(rest);
    Found { segments, connections, totals }
}

pub fn verify(packets: &[Recorded], arguments: &[&str]) -> Found {
    verify_with(packets, arguments, Options::default())
}
