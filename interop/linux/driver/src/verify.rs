//! Reads a recording with the keys in hand: which segments verify, under which key, and which do not.
//!
//! Nothing of a connection's state is asked of either end. ISNs come from the SYNs in the recording, sequence number
//! extensions from the sequence numbers, and each MAC is computed with `wireseal_tcp_ao::verify_segment`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;

use wireseal_tcp_ao::{
    AoOption, Endpoint, Isn, KdfContext, KeyId, Mkt, Segment, SeqNum, Sne, SneTracker, TrafficKey,
    verify_segment,
};

use crate::failure::{Failure, ensure};
use crate::recording::Recording;

/// The MKTs of one end, as that end has them. The other end's are these, mirrored.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The end that the MKTs' SendIDs are of.
    pub local: IpAddr,
    /// The MKTs. Two may share ids, when one has replaced the other.
    pub mkts: Vec<Mkt>,
}

/// What became of the segments in a recording.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Connections whose SYN was seen.
    pub connections: usize,
    /// Segments that verified, in all.
    pub verified: u64,
    /// Of these, by the KeyID they named.
    pub by_key: BTreeMap<u8, u64>,
    /// The highest sequence number extension that one verified with.
    pub highest_sne: u32,
    /// Resets that verified only as those of no established connection are signed, see [`Resets`].
    pub stateless_resets: u64,
    /// Segments without AO option.
    pub unsigned: u64,
    /// Signed segments that verify under none of the keys, each with what it is.
    pub failed: Vec<String>,
}

impl Verdicts {
    /// Fails unless there are segments, all signed, all verified.
    ///
    /// # Errors
    /// What was found instead.
    pub fn check_all_verified(&self) -> Result<(), Failure> {
        ensure(self.verified > 0 && self.unsigned == 0 && self.failed.is_empty(), || {
            let first =
                self.failed.first().map_or(String::new(), |first| format!(", the first failed: {first}"));
            format!("recording: {self}{first}")
        })
    }

    /// Adds another recording's.
    pub fn add(&mut self, other: Self) {
        self.connections += other.connections;
        self.verified += other.verified;
        for (key, segments) in other.by_key {
            *self.by_key.entry(key).or_default() += segments;
        }
        self.highest_sne = self.highest_sne.max(other.highest_sne);
        self.stateless_resets += other.stateless_resets;
        self.unsigned += other.unsigned;
        self.failed.extend(other.failed);
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} verified", self.verified)?;
        if self.stateless_resets > 0 {
            write!(f, " ({} stateless resets)", self.stateless_resets)?;
        }
        write!(f, ", {} failed, {} unsigned", self.failed.len(), self.unsigned)
    }
}

/// Reads a recording. Frames that the driver forged are left out; those that were lost are not.
#[must_use]
pub fn verify(recording: &Recording, keys: &[Keys]) -> Verdicts {
    let mut reader =
        Reader { keys, connections: Vec::new(), resets: Resets::default(), verdicts: Verdicts::default() };
    for frame in &recording.frames {
        if frame.from.is_some()
            && let Some(segment) = frame.segment()
        {
            reader.read(&segment);
        }
    }
    reader.verdicts.connections = reader.connections.len();
    reader.verdicts
}

struct Reader<'a> {
    keys: &'a [Keys],
    /// In the order of their SYNs: a socket pair may be used again.
    connections: Vec<Followed<'a>>,
    resets: Resets,
    verdicts: Verdicts,
}

/// A connection, from its first SYN on.
struct Followed<'a> {
    opener: Direction,
    answerer: Direction,
    traffic_keys: Vec<(Sender, &'a Mkt, TrafficKey)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    Opener,
    Answerer,
}

/// What one end sends.
struct Direction {
    source: Endpoint,
    /// Known once it has sent a SYN.
    isn: Option<Isn>,
    sne: Option<SneTracker>,
}

/// How resets are signed that belong to no established connection. Linux's `tcp_ao_prepare_reset` takes the segment it
/// answers to, and derives the traffic key that this segment would have been signed with.
#[derive(Default)]
struct Resets {
    /// The last segments, any of which a reset may answer.
    answerable: VecDeque<Answerable>,
}

/// How many segments back a reset may refer.
const ANSWERABLE: usize = 64;

struct Answerable {
    source: Endpoint,
    destination: Endpoint,
    sequence: SeqNum,
    acknowledgment: SeqNum,
}

impl Direction {
    const fn new(source: Endpoint, isn: Option<Isn>) -> Self {
        let sne = match isn {
            Some(isn) => Some(SneTracker::new(isn)),
            None => None,
        };
        Self { source, isn, sne }
    }
}

impl<'a> Reader<'a> {
    fn read(&mut self, segment: &Segment<'_>) {
        let ao = match segment.ao_option() {
            Err(error) => return self.verdicts.failed.push(format!("{}: {error}", described(segment))),
            Ok(ao) => ao,
        };
        self.note_isn(segment);
        self.resets.note(segment);
        let Some(ao) = ao else {
            self.verdicts.unsigned += 1;
            return;
        };
        let mkts = candidates(self.keys, segment, &ao);
        if let Some(sne) = self.find(segment, &ao, &mkts) {
            self.count(ao.key_id);
            self.verdicts.highest_sne = self.verdicts.highest_sne.max(sne);
        } else if segment.flags().rst() && self.resets.verify(&self.connections, segment, &ao, &mkts) {
            self.count(ao.key_id);
            self.verdicts.stateless_resets += 1;
        } else {
            self.verdicts.failed.push(described(segment));
        }
    }

    fn count(&mut self, key: KeyId) {
        self.verdicts.verified += 1;
        *self.verdicts.by_key.entry(key.0).or_default() += 1;
    }

    /// SYNs open connections and tell ISNs, whether they verify or not: a wrong one verifies nothing afterwards.
    fn note_isn(&mut self, segment: &Segment<'_>) {
        if !segment.flags().syn() {
            return;
        }
        let isn = Isn(segment.sequence().0);
        let known = self.connections.iter_mut().rev().find(|connection| connection.sender(segment).is_some());
        let answers = segment.flags().ack();
        match known {
            // A SYN-ACK, perhaps with a second thought; the same SYN again; or both ends open at once.
            Some(connection) if answers || connection.isn_from(segment).is_none_or(|known| known == isn) => {
                connection.set_isn(segment, isn);
            }
            _ if answers => {}
            _ => self.connections.push(Followed {
                opener: Direction::new(segment.source(), Some(isn)),
                answerer: Direction::new(segment.destination(), None),
                traffic_keys: Vec::new(),
            }),
        }
    }

    /// The SNE that the segment verifies with, in the newest connection where it does.
    fn find(&mut self, segment: &Segment<'_>, ao: &AoOption<'_>, mkts: &[&'a Mkt]) -> Option<u32> {
        self.connections.iter_mut().rev().find_map(|connection| connection.verify(segment, ao, mkts))
    }
}

impl<'a> Followed<'a> {
    fn sender(&self, segment: &Segment<'_>) -> Option<Sender> {
        let ends = (segment.source(), segment.destination());
        if ends == (self.opener.source, self.answerer.source) {
            Some(Sender::Opener)
        } else if ends == (self.answerer.source, self.opener.source) {
            Some(Sender::Answerer)
        } else {
            None
        }
    }

    fn direction(&mut self, segment: &Segment<'_>) -> Option<&mut Direction> {
        match self.sender(segment)? {
            Sender::Opener => Some(&mut self.opener),
            Sender::Answerer => Some(&mut self.answerer),
        }
    }

    fn isn_from(&self, segment: &Segment<'_>) -> Option<Isn> {
        match self.sender(segment)? {
            Sender::Opener => self.opener.isn,
            Sender::Answerer => self.answerer.isn,
        }
    }

    fn set_isn(&mut self, segment: &Segment<'_>, isn: Isn) {
        if let Some(direction) = self.direction(segment)
            && direction.isn != Some(isn)
        {
            *direction = Direction::new(direction.source, Some(isn));
            self.traffic_keys.clear();
        }
    }

    fn verify(&mut self, segment: &Segment<'_>, ao: &AoOption<'_>, mkts: &[&'a Mkt]) -> Option<u32> {
        let sender = self.sender(segment)?;
        if segment.flags().syn() && !segment.flags().ack() {
            let context = KdfContext::syn(segment.source(), segment.destination(), Isn(segment.sequence().0));
            let sne = Sne(0);
            let verifies = |mkt: &&Mkt| {
                let key = TrafficKey::derive(mkt.parameters().algorithm, mkt.master_key(), &context);
                verify_segment(&key, sne, segment, mkt.parameters()).is_ok()
            };
            return mkts.iter().any(verifies).then_some(sne.0);
        }
        let tracker = self.direction(segment)?.sne?;
        let sne = tracker.sne_of(segment.sequence());
        for mkt in mkts {
            let key = self.traffic_key(sender, mkt)?;
            if verify_segment(key, sne, segment, mkt.parameters()).is_ok() {
                self.direction(segment)?.sne.as_mut()?.advance(segment.sequence());
                return Some(sne.0);
            }
        }
        None
    }

    /// The key of what one end sends, derived once.
    fn traffic_key(&mut self, sender: Sender, mkt: &'a Mkt) -> Option<&TrafficKey> {
        let found = self
            .traffic_keys
            .iter()
            .position(|(of, made_of, _)| *of == sender && std::ptr::eq(*made_of, mkt));
        let place = match found {
            Some(place) => place,
            None => {
                let (from, to) = match sender {
                    Sender::Opener => (&self.opener, &self.answerer),
                    Sender::Answerer => (&self.answerer, &self.opener),
                };
                let context = KdfContext {
                    source: from.source,
                    destination: to.source,
                    source_isn: from.isn?,
                    destination_isn: to.isn?,
                };
                let key = TrafficKey::derive(mkt.parameters().algorithm, mkt.master_key(), &context);
                self.traffic_keys.push((sender, mkt, key));
                self.traffic_keys.len() - 1
            }
        };
        Some(&self.traffic_keys[place].2)
    }
}

impl Resets {
    fn note(&mut self, segment: &Segment<'_>) {
        self.answerable.truncate(ANSWERABLE - 1);
        self.answerable.push_front(Answerable {
            source: segment.source(),
            destination: segment.destination(),
            sequence: segment.sequence(),
            acknowledgment: segment.acknowledgment(),
        });
    }

    /// The answered segment came from the reset's destination. A half-open connection knows both ISNs; a listener takes the
    /// answered segment's sequence number for the peer's and knows none of its own. A closed port of Wireseal's has the
    /// reset's own sequence number for an ISN, as Linux expects it in answer to a SYN.
    fn verify(&self, known: &[Followed<'_>], reset: &Segment<'_>, ao: &AoOption<'_>, mkts: &[&Mkt]) -> bool {
        let (answered, answering) = (reset.destination(), reset.source());
        let opened_there = known.iter().rev().filter(|connection| {
            (connection.opener.source, connection.answerer.source) == (answered, answering)
        });
        let of_answered = |source_isn, destination_isn| KdfContext {
            source: answered,
            destination: answering,
            source_isn,
            destination_isn,
        };
        let half_open = opened_there
            .clone()
            .filter_map(|connection| Some(of_answered(connection.opener.isn?, connection.answerer.isn?)));
        let listener = self.answerable.iter().filter_map(|segment| {
            let ends = (segment.source, segment.destination);
            // A reset without ACK stands where the answered segment's acknowledgment was.
            let answers = reset.flags().ack() || segment.acknowledgment == reset.sequence();
            (ends == (answered, answering) && answers)
                .then(|| of_answered(Isn(segment.sequence.0), Isn::UNKNOWN))
        });
        let closed_port =
            opened_there.filter(|connection| connection.answerer.isn.is_none()).filter_map(|connection| {
                Some(KdfContext {
                    source: answering,
                    destination: answered,
                    source_isn: Isn(reset.sequence().0),
                    destination_isn: connection.opener.isn?,
                })
            });
        half_open.chain(listener).chain(closed_port).any(|context| {
            mkts.iter().any(|mkt| {
                let key = TrafficKey::derive(mkt.parameters().algorithm, mkt.master_key(), &context);
                verify_segment(&key, Sne(0), reset, mkt.parameters()).is_ok()
            })
        })
    }
}

/// The MKTs that the segment's KeyID may mean.
fn candidates<'a>(keys: &'a [Keys], segment: &Segment<'_>, ao: &AoOption<'_>) -> Vec<&'a Mkt> {
    let mut candidates = Vec::new();
    for Keys { local, mkts } in keys {
        if segment.source().address() == *local {
            candidates.extend(mkts.iter().filter(|mkt| mkt.send_id() == ao.key_id));
        } else if segment.destination().address() == *local {
            candidates.extend(mkts.iter().filter(|mkt| mkt.recv_id() == ao.key_id));
        }
    }
    candidates
}

fn described(segment: &Segment<'_>) -> String {
    format!(
        "{} > {} {:?} sequence {} acknowledgment {} with {} octets",
        segment.source(),
        segment.destination(),
        segment.flags(),
        segment.sequence().0,
        segment.acknowledgment().0,
        segment.payload().len()
    )
}
