//! What `verify` finds in packets.

use std::convert::Infallible;
use std::path::PathBuf;

use pcap_file::pcap::PcapReader;
use wireseal::capture::{Packet, Time};
use wireseal::keys::{self, Keys};
use wireseal::report::{Format, Report, Subject};
use wireseal::verify::report::{ConnectionReport, Diagnosis, SegmentReport, Totals, Verdict};
use wireseal::verify::{Verifier, VerifyEvent, VerifyOptions};
use wireseal_tcp_ao::Segment;

use super::files::crates;

/// LINKTYPE_RAW: packets begin with their IP header.
const RAW: u16 = 101;

/// The recorded sessions, and their keys as `--key` takes them.
pub const IPV4_SESSION: &str = "bird-ipv4-cmac.pcap";
pub const IPV4_KEY: &str = "send=100,recv=100,alg=aes-128-cmac-96,secret=first-secret";
pub const IPV6_SESSION: &str = "bird-ipv6-sha1.pcap";
pub const IPV6_KEY: &str = "send=7,recv=7,alg=hmac-sha-1-96,secret-hex=6b6432206c6f6e6720706173737068726173652c206d6f7265\
                            207468616e206f6e6520626c6f636b206f66207368613120696e7075742c203830206279746573206d6178";

/// An IP packet and its time in nanoseconds.
pub type Recorded = (u64, Vec<u8>);

/// Where a recorded session is.
pub fn capture_path(name: &str) -> PathBuf {
    crates().join("tcp-ao/tests/data/captures").join(name)
}

/// The IP packets with TCP of a recorded session, a second apart.
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

/// An IP packet of a capture.
pub fn packet(number: u64, (time, octets): &Recorded) -> Packet<'_> {
    let time = Some(Time::from_unix_nanoseconds(*time));
    Packet { number, time, link_type: RAW, octets, original_length: octets.len() }
}

/// Everything found in a capture.
#[derive(Debug)]
pub struct Found {
    pub segments: Vec<SegmentReport>,
    pub connections: Vec<ConnectionReport>,
    pub totals: Totals,
}

impl Found {
    /// What is found when the capture has only `recorded` octets of the packet with this index and length.
    pub fn cut(
        packets: &[Recorded],
        keys: &Keys,
        options: VerifyOptions,
        recorded: impl Fn(usize, usize) -> usize,
    ) -> Self {
        let mut verifier = Verifier::new(keys, options);
        let (mut segments, mut connections) = (Vec::new(), Vec::new());
        let mut each = |event: VerifyEvent<'_>| {
            match event {
                VerifyEvent::Segment { segment, .. } => segments.push(segment),
                VerifyEvent::Connection(connection) => connections.push(*connection),
            }
            Ok::<_, Infallible>(())
        };
        for (index, recorded_packet) in packets.iter().enumerate() {
            let packet = packet(index as u64 + 1, recorded_packet);
            let octets = &packet.octets[..recorded(index, packet.octets.len())];
            verifier.packet(&Packet { octets, ..packet }, &mut each).unwrap();
        }
        let totals = verifier.finish(None, each).unwrap();
        Self { segments, connections, totals }
    }

    pub fn verdicts(&self) -> Vec<Verdict> {
        self.segments.iter().map(|segment| segment.verdict).collect()
    }

    pub fn count(&self, verdict: Verdict) -> u64 {
        self.totals.counts[verdict.index()]
    }

    /// Asserts that every segment is good, in this many connections.
    #[track_caller]
    pub fn assert_all_good(&self, connections: usize) {
        assert!(!self.segments.is_empty());
        assert_eq!(self.count(Verdict::Good), self.segments.len() as u64, "{:?}", self.verdicts());
        assert_eq!(self.connections.len(), connections);
    }

    /// The last line of the report about these keys.
    pub fn last_line(&self, arguments: &[&str]) -> String {
        let keys = keys(arguments);
        let subject = Subject { capture: "session.pcap", keys: &keys };
        let mut output = Vec::new();
        let mut report = Report::new(&mut output, Format::Text { colours: false }, subject).unwrap();
        self.connections.iter().for_each(|connection| report.connection(connection).unwrap());
        report.finish(&self.totals).unwrap();
        String::from_utf8(output).unwrap().lines().last().unwrap().to_owned()
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

    /// Asserts that there is one kind of diagnosis, with all of these words.
    #[track_caller]
    pub fn assert_diagnosed(&self, kind: &str, words: &[&str]) {
        assert_eq!(self.kinds(), [kind], "{:#?}", self.diagnoses());
        for diagnosis in self.diagnoses() {
            for word in words {
                assert!(diagnosis.sentence().contains(word), "{word:?} is not in: {}", diagnosis.sentence());
            }
        }
    }
}

/// Takes what a verifier finds, and drops it.
pub fn ignore(_: VerifyEvent<'_>) -> Result<(), Infallible> {
    Ok(())
}

pub fn keys(arguments: &[&str]) -> Keys {
    let read = arguments.iter().flat_map(|text| keys::from_argument(text).unwrap().keys().unwrap().keys);
    Keys { keys: read.collect() }
}

pub fn verify_with(packets: &[Recorded], arguments: &[&str], options: VerifyOptions) -> Found {
    Found::cut(packets, &keys(arguments), options, |_, length| length)
}

/// Checks packets against keys.
pub fn verify(packets: &[Recorded], arguments: &[&str]) -> Found {
    verify_with(packets, arguments, VerifyOptions::default())
}

/// Options with this `--isn`.
pub fn with_isns(hint: &str) -> VerifyOptions {
    VerifyOptions { isns: vec![hint.parse().unwrap()], ..VerifyOptions::default() }
}
