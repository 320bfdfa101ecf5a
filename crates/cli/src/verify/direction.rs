//! What one end of a connection has sent.

use wireseal_tcp_ao::{Isn, KeyId, SeqNum, SneTracker, TrafficKey};

use super::key_table::Candidate;
use super::report::{DirectionReport, KeyUse, Verdict};
use super::sequence::Sent;
use crate::capture::Place;

/// The most runs of one KeyID kept per direction; the last one absorbs the rest.
const KEY_USES: usize = 1000;

/// The most traffic keys kept per direction: with many keys of one KeyID, most are derived in vain.
const TRAFFIC_KEYS: usize = 4;

/// One direction of a live connection.
#[derive(Default, Debug)]
pub(super) struct Direction {
    /// What is reported in the end.
    pub(super) report: DirectionReport,
    /// How far good segments have come.
    pub(super) sne: Option<SneTracker>,
    /// How many more segments to search for the SNE, after `--isn` gave the ISN but not the wraps since.
    pub(super) sne_searches: u8,
    /// Traffic keys for segments without SYN, most recently used first.
    pub(super) traffic_keys: Vec<(Candidate, TrafficKey)>,
    /// Which octets were sent.
    pub(super) sent: Sent,
    /// The sequence number after the FIN.
    pub(super) fin: Option<SeqNum>,
    /// Whether the other end has acknowledged the FIN.
    pub(super) fin_is_acknowledged: bool,
    /// The verdict on the last segment.
    pub(super) last_verdict: Option<Verdict>,
    /// What the diagnosis looks at when the connection is over.
    pub(super) seen: Seen,
}

/// What a direction showed apart from verdicts.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Seen {
    /// SYNs without ACK.
    pub(super) syns: u64,
    /// SYNs with ACK.
    pub(super) syn_acks: u64,
    /// How many of either were repetitions, each as long after the one before as stacks wait ([`REPEATED`](super::handshake::REPEATED)).
    pub(super) repeats: u64,
    /// How many repeated SYN-ACKs came after a segment that only an open connection has.
    pub(super) late_syn_acks: u64,
    /// The last SYN with or without ACK that was no copy of one before.
    pub(super) last_syn: Option<Place>,
    /// Whether it answered the SYN or SYN-ACK of the other end with a reset that the other end accepts.
    pub(super) answers_with_reset: bool,
    /// The highest acknowledgment number the other end has sent.
    pub(super) acknowledged: Option<SeqNum>,
    /// Segments with a TCP-AO option.
    pub(super) signed: u64,
    /// The KeyID of the last segment that had one.
    pub(super) key_id: Option<KeyId>,
    /// Segments with TCP-MD5 and without TCP-AO.
    pub(super) md5: u64,
    /// Resets without a TCP-AO option.
    pub(super) unsigned_resets: u64,
    /// The first segment of each verdict, at [`Verdict::index`].
    pub(super) first: [Option<Place>; Verdict::KINDS],
    /// The MSS option of the SYN.
    pub(super) mss: Option<u16>,
}

impl Direction {
    /// How many segments were good.
    pub(super) fn good(&self) -> u64 {
        self.report.counts[Verdict::Good.index()]
    }

    /// How many segments there were.
    pub(super) fn segments(&self) -> u64 {
        self.report.counts.iter().sum()
    }

    /// Accepts an ISN and drops what was based on another one.
    pub(super) fn set_isn(&mut self, isn: Isn) {
        if self.report.isn != Some(isn) {
            self.report.isn = Some(isn);
            self.sne = None;
        }
    }

    /// Keeps a traffic key for later segments: first if it has just verified one, otherwise only if there is room.
    pub(super) fn keep_traffic_key(&mut self, candidate: Candidate, key: TrafficKey, is_good: bool) {
        let keys = &mut self.traffic_keys;
        if is_good {
            keys.truncate(TRAFFIC_KEYS - 1);
            keys.insert(0, (candidate, key));
        } else if keys.len() < TRAFFIC_KEYS {
            keys.push((candidate, key));
        }
    }

    /// The tracker of good segments; at the ISN before there are any.
    #[inline]
    pub(super) fn tracker(&self) -> Option<SneTracker> {
        self.sne.or_else(|| self.report.isn.map(SneTracker::new))
    }

    /// Records a segment with this KeyID; `key` is the key that verified it. Returns whether it starts a new run.
    pub(super) fn use_key(
        &mut self,
        key_id: KeyId,
        key: Option<usize>,
        place: Place,
        outside_lifetime: bool,
    ) -> bool {
        let uses = &mut self.report.key_uses;
        let is_full = uses.len() >= KEY_USES;
        // A segment that does not verify shows only a KeyID. Anyone can send one, so it does not end the run of a key that
        // verifies.
        let is_same =
            |last: &KeyUse| last.key_id == key_id && (key.is_none() || last.key.is_none() || last.key == key);
        let verified = uses.iter().rposition(|key_use| key_use.key.is_some()).unwrap_or(0);
        let same = uses.get(verified..).unwrap_or_default().iter().position(is_same);
        let last = same.map(|index| verified + index).or(is_full.then(|| uses.len() - 1));
        if let Some(last) = last.and_then(|index| uses.get_mut(index)) {
            last.key = last.key.or(key);
            last.last = place;
            last.segments += 1;
            last.outside_lifetime += u64::from(outside_lifetime);
            return false;
        }
        uses.push(KeyUse {
            key_id,
            key,
            key_name: None,
            first: place,
            last: place,
            segments: 1,
            outside_lifetime: outside_lifetime.into(),
        });
        uses.len() > 1
    }
}
