//! What one end of a connection has sent.

use wireseal_tcp_ao::{Isn, KeyId, SeqNum, SneTracker, TrafficKey};

use super::key_table::Candidate;
use super::report::{DirectionReport, KeyUse, Place, Verdict};
use super::sequence::Sent;

/// Uses of keys that are kept of a direction; with more, the last one takes the rest.
const KEY_USES: usize = 1000;

/// Traffic keys that are kept of a direction: with many keys of one id, most are derived to no purpose.
const TRAFFIC_KEYS: usize = 4;

/// One direction of a live connection.
#[derive(Default, Debug)]
pub(super) struct Direction {
    /// What is reported in the end.
    pub(super) report: DirectionReport,
    /// Which turn of the sequence numbers good segments have reached.
    pub(super) sne: Option<SneTracker>,
    /// How many more segments a search over the SNE is worth: where the ISN was given, the turns since are not known.
    pub(super) sne_searches: u8,
    /// The traffic keys of all but the SYN; the one that verified last comes first.
    pub(super) traffic_keys: Vec<(Candidate, TrafficKey)>,
    /// Which octets were sent.
    pub(super) sent: Sent,
    /// The number behind the FIN.
    pub(super) fin: Option<SeqNum>,
    /// Whether the other end has acknowledged it.
    pub(super) fin_is_acknowledged: bool,
    /// What was found of the last segment.
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
    /// The number behind everything that the other end has acknowledged.
    pub(super) acknowledged: Option<SeqNum>,
    /// Segments with an AO option.
    pub(super) signed: u64,
    /// The KeyID of the last segment that had one.
    pub(super) key_id: Option<KeyId>,
    /// Segments with TCP-MD5 and without TCP-AO.
    pub(super) md5: u64,
    /// Resets without an AO option.
    pub(super) unsigned_resets: u64,
    /// The first segment of each verdict, by [`Verdict::index`].
    pub(super) first: [Option<Place>; Verdict::KINDS],
    /// The MSS option of the SYN.
    pub(super) mss: Option<u16>,
}

impl Direction {
    /// How many segments were good.
    pub(super) fn good(&self) -> u64 {
        self.report.counts[Verdict::Good.index()]
    }

    /// Takes an ISN for true; what was made of another one is void.
    pub(super) fn set_isn(&mut self, isn: Isn) {
        if self.report.isn != Some(isn) {
            self.report.isn = Some(isn);
            self.sne = None;
        }
    }

    /// Keeps a traffic key for the next segments: before all others if it has verified one, else if there is room.
    pub(super) fn keep_traffic_key(&mut self, candidate: Candidate, key: TrafficKey, is_good: bool) {
        let keys = &mut self.traffic_keys;
        if is_good {
            keys.truncate(TRAFFIC_KEYS - 1);
            keys.insert(0, (candidate, key));
        } else if keys.len() < TRAFFIC_KEYS {
            keys.push((candidate, key));
        }
    }

    /// The tracker of good segments, at the ISN before there are any.
    #[inline]
    pub(super) fn tracker(&self) -> Option<SneTracker> {
        self.sne.or_else(|| self.report.isn.map(SneTracker::new))
    }

    /// Notes a segment that names a KeyID; `key` is the key that verified it. Gives whether the KeyID or the key is another
    /// than before.
    pub(super) fn use_key(
        &mut self,
        key_id: KeyId,
        key: Option<usize>,
        place: Place,
        outside_lifetime: bool,
    ) -> bool {
        let uses = &mut self.report.key_uses;
        let is_full = uses.len() >= KEY_USES;
        // A segment that does not verify shows the KeyID alone, not the key; and anyone can send it, so that it does not end
        // the use of a key that does.
        let is_same =
            |last: &KeyUse| last.key_id == key_id && (key.is_none() || last.key.is_none() || last.key == key);
        let verified = uses.iter().rposition(|key_use| key_use.key.is_some()).unwrap_or(0);
        let same = uses.get(verified..).unwrap_or_default().iter().position(is_same);
        let last = same.map(|place| verified + place).or(is_full.then(|| uses.len() - 1));
        if let Some(last) = last.and_then(|place| uses.get_mut(place)) {
            last.key = last.key.or(key);
            last.last = place;
            last.segments += 1;
            last.outside_lifetime += u64::from(outside_lifetime);
            return false;
        }
        let outside_lifetime = u64::from(outside_lifetime);
        uses.push(KeyUse { key_id, key, first: place, last: place, segments: 1, outside_lifetime });
        uses.len() > 1
    }
}
