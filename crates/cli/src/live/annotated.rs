//! Packets as pcapng with verdict and reason as a comment on each, as they come.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use crate::capture::{InterfaceDescription, Packet, Statistics, Time, Writer};
use crate::keys::Keys;
use crate::report::VerdictInWords;
use crate::text::Printable;
use crate::verify::report::{SegmentReport, Sender, Standing, Verdict};
use crate::verify::{Verifier, VerifyEvent};

/// How many octets of packets wait for their verdicts at most.
const WAITING: usize = 1 << 20;
/// How long the reason of a connection's failures is used before it is asked for again.
const SETTLED: Duration = Duration::from_millis(250);

/// Writes packets once they are judged.
#[derive(Debug)]
pub(crate) struct Annotated<'k, W> {
    writer: Writer<W>,
    keys: &'k Keys,
    octets: Vec<u8>,
    waiting: Vec<Waiting>,
    /// The time of the last packet.
    last: Option<Time>,
    /// Why segments of a connection fail or are not judged, and when that was asked.
    reasons: HashMap<(u64, bool), (Instant, String), RandomState>,
}

/// A packet whose octets end there.
#[derive(Debug)]
struct Waiting {
    number: u64,
    time: Option<Time>,
    link_type: u16,
    octets_until: usize,
    original_length: usize,
    /// The verdicts on its segments, seldom more than one, with the numbers of their connections.
    verdicts: Vec<(u64, SegmentReport)>,
}

impl<'k, W: Write> Annotated<'k, W> {
    /// Begins a file of one interface.
    pub(crate) fn begin(output: W, interface: &InterfaceDescription<'_>, keys: &'k Keys) -> io::Result<Self> {
        let mut writer = Writer::new(output, None)?;
        writer.interface(interface)?;
        writer.flush()?;
        Ok(Self {
            writer,
            keys,
            octets: Vec::new(),
            waiting: Vec::new(),
            last: None,
            reasons: HashMap::default(),
        })
    }

    /// Judges a packet, and writes those that wait if they are many.
    pub(crate) fn packet(&mut self, packet: &Packet<'_>, verifier: &mut Verifier<'_>) -> io::Result<()> {
        let Packet { number, time, link_type, original_length, .. } = *packet;
        self.last = time;
        self.octets.extend_from_slice(packet.octets);
        let octets_until = self.octets.len();
        let verdicts = Vec::new();
        self.waiting.push(Waiting { number, time, link_type, octets_until, original_length, verdicts });
        verifier.packet(packet, |found| self.event(found))?;
        if self.octets.len() >= WAITING { self.write(verifier) } else { Ok(()) }
    }

    fn event(&mut self, found: VerifyEvent<'_>) -> io::Result<()> {
        match found {
            VerifyEvent::Segment { connection, segment, .. } => {
                let first = self.waiting.first().map_or(0, |first| first.number);
                let place =
                    segment.place.packet.checked_sub(first).and_then(|place| usize::try_from(place).ok());
                if let Some(waiting) = place.and_then(|place| self.waiting.get_mut(place)) {
                    waiting.verdicts.push((connection, segment));
                }
            }
            VerifyEvent::Connection(connection) => {
                for is_opener in [true, false] {
                    self.reasons.remove(&(connection.number, is_opener));
                }
            }
        }
        Ok(())
    }

    /// Judges what waits and writes it.
    pub(crate) fn write(&mut self, verifier: &mut Verifier<'_>) -> io::Result<()> {
        verifier.judge_queued(|found| self.event(found))?;
        self.ask_for_reasons(verifier);
        let mut start = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            let octets = &self.octets[start..waiting.octets_until];
            start = waiting.octets_until;
            let Waiting { number, time, link_type, original_length, .. } = waiting;
            let packet = Packet { number, time, link_type, octets, original_length };
            let comments: Vec<_> = waiting.verdicts.iter().map(|found| self.comment(found)).collect();
            let comment = (!comments.is_empty()).then(|| comments.join("\n"));
            self.writer.packet(0, &packet, comment.as_deref())?;
        }
        self.octets.clear();
        self.writer.flush()
    }

    /// Ends the file with what the kernel counted. What waits was written.
    pub(crate) fn finish(mut self, statistics: Statistics) -> io::Result<()> {
        self.writer.statistics(0, self.last, statistics)?;
        self.writer.flush()
    }

    /// Asks why segments that wait were not good, unless that was asked a moment ago.
    fn ask_for_reasons(&mut self, verifier: &Verifier<'_>) {
        let verdicts = self.waiting.iter().flat_map(|waiting| &waiting.verdicts);
        let asked: HashSet<u64, RandomState> = verdicts
            .filter(|(connection, segment)| {
                let known = self.reasons.get(&(*connection, segment.sender == Sender::Opener));
                segment.verdict != Verdict::Good
                    && known.is_none_or(|(when, reason)| reason.is_empty() || when.elapsed() > SETTLED)
            })
            .map(|(connection, _)| *connection)
            .collect();
        if asked.is_empty() {
            return;
        }
        let now = Instant::now();
        for snapshot in verifier.snapshots().filter(|snapshot| asked.contains(&snapshot.number())) {
            let diagnoses = snapshot.diagnoses();
            for sender in Sender::BOTH {
                let mut own = diagnoses.iter().filter(|diagnosis| diagnosis.sender == sender);
                let failed = own.clone().find(|diagnosis| diagnosis.about == Standing::Failed);
                let reason = failed.or_else(|| own.next()).map(|diagnosis| diagnosis.sentence());
                let place = (snapshot.number(), sender == Sender::Opener);
                self.reasons.insert(place, (now, reason.unwrap_or_default()));
            }
        }
    }

    /// `wireseal: good (core/100, SNE 0)`, or what is wrong and why.
    fn comment(&self, (connection, segment): &(u64, SegmentReport)) -> String {
        let SegmentReport { verdict, key, sne, sender, .. } = segment;
        if *verdict == Verdict::Good {
            let key = key.and_then(|key| self.keys.keys.get(key));
            let name = key.map(|key| format!("{}, ", Printable(&key.name))).unwrap_or_default();
            return format!("wireseal: good ({name}SNE {})", sne.map_or(0, |sne| sne.0));
        }
        let begin = if verdict.is_failure() { "" } else { "not judged: " };
        let reason = match self.reasons.get(&(*connection, *sender == Sender::Opener)) {
            Some((_, reason)) if !reason.is_empty() => format!(": {}", Printable(reason)),
            _ => String::new(),
        };
        format!("wireseal: {begin}{}{reason}", VerdictInWords(*verdict))
    }
}
