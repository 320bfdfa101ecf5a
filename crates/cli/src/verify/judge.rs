//! The verdict on one segment.

use wireseal_tcp_ao::{
    AoOption, Isn, KdfContext, OptionError, Segment, SeqNum, Sne, SneTracker, TrafficKey, verify_segment,
};

use super::connection::TcpConnection;
use super::key_table::{Candidate, KeyTable};
use super::mac_batch::{Basis, BatchedMac};
use super::observed::ObservedSegment;
use super::report::{Sender, Verdict};

/// A verdict and what it is based on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    /// The SNE the MAC was checked with.
    pub(super) sne: Option<Sne>,
    /// The key that verified.
    pub(super) candidate: Option<Candidate>,
}

impl Judgement {
    const fn without_mac(verdict: Verdict) -> Self {
        Self { verdict, sne: None, candidate: None }
    }

    const fn of_mac(candidate: Option<Candidate>, sne: Sne) -> Self {
        let verdict = if candidate.is_some() { Verdict::Good } else { Verdict::BadMac };
        Self { verdict, sne: Some(sne), candidate }
    }
}

/// Judges a segment. In the connection only traffic keys change, and ISNs or an SNE that were guessed and proved right.
#[inline]
pub(super) fn judge(
    connection: &mut TcpConnection,
    table: &KeyTable<'_>,
    sender: Sender,
    observed: &ObservedSegment<'_>,
    batched: Option<BatchedMac<'_>>,
) -> Judgement {
    if observed.has_part_of_header {
        return Judgement::without_mac(Verdict::CutOff);
    }
    let ao = match &observed.ao {
        Ok(Some(ao)) => ao,
        Ok(None) => return Judgement::without_mac(Verdict::NoOption),
        Err(OptionError::TwoAoOptions) => return Judgement::without_mac(Verdict::TwoOptions),
        Err(error) => return Judgement::without_mac(Verdict::MalformedOption(*error)),
    };
    let mut judge = Judge { connection, table, sender, segment: observed.segment, ao, batched };
    if !judge.connection.candidates.iter().any(|candidate| judge.serves(*candidate)) {
        return Judgement::without_mac(Verdict::UnknownKeyId);
    }
    if observed.missing > 0 {
        return Judgement::without_mac(Verdict::CutOff);
    }
    judge.with_known_key()
}

/// A segment with a TCP-AO option, and the keys that may have signed it.
struct Judge<'j, 'k> {
    connection: &'j mut TcpConnection,
    table: &'j KeyTable<'k>,
    sender: Sender,
    segment: &'j Segment<'j>,
    ao: &'j AoOption<'j>,
    batched: Option<BatchedMac<'j>>,
}

impl Judge<'_, '_> {
    /// Whether the segment names this key.
    #[inline]
    fn serves(&self, candidate: Candidate) -> bool {
        candidate.serves(self.table, self.connection.configured_end, self.sender, self.ao.key_id)
    }

    /// The keys that the segment names.
    fn serving(&self) -> impl Iterator<Item = Candidate> {
        self.connection.candidates.iter().copied().filter(|candidate| self.serves(*candidate))
    }

    #[inline]
    fn verifies(&self, candidate: Candidate, key: &TrafficKey, sne: Sne) -> bool {
        verify_segment(key, sne, self.table.parameters(candidate), self.segment).is_ok()
    }

    /// The same with a MAC computed batched, if it is the one needed.
    #[inline]
    fn verifies_batched(&self, key: &TrafficKey, candidate: Candidate, isns: [Isn; 2], sne: Sne) -> bool {
        match self.batched.and_then(|batched| batched.of(&Basis { key: candidate.key, isns, sne })) {
            Some(mac) => mac.verify(self.ao.mac).is_ok(),
            None => self.verifies(candidate, key, sne),
        }
    }

    /// The usual case: both ISNs are known, and so is the traffic key.
    #[inline]
    fn with_known_key(&mut self) -> Judgement {
        let [own, other] = [self.sender, self.sender.other()].map(|end| self.connection.isn(end));
        let tracker = self.connection.direction(self.sender).tracker();
        let (false, Some(tracker), Some(own), Some(other)) =
            (self.segment.flags().syn(), tracker, own, other)
        else {
            return self.in_handshake();
        };
        let sne = tracker.sne_of(self.segment.sequence());
        let keys = &self.connection.direction(self.sender).traffic_keys;
        let good = keys.iter().position(|(candidate, key)| {
            self.serves(*candidate) && self.verifies_batched(key, *candidate, [own, other], sne)
        });
        let Some(index) = good else { return self.with_other_keys(sne) };
        let keys = &mut self.connection.direction_mut(self.sender).traffic_keys;
        if index > 0 {
            keys.swap(0, index);
        }
        Judgement::of_mac(Some(keys[0].0), sne)
    }

    /// No traffic key in use so far verifies the segment.
    #[inline(never)]
    fn with_other_keys(&mut self, sne: Sne) -> Judgement {
        let Some(context) = self.connection.context(self.sender, self.segment) else {
            return Judgement::without_mac(Verdict::IsnNotSeen);
        };
        let serving: Vec<_> = self.serving().collect();
        for &candidate in &serving {
            let known = &self.connection.direction(self.sender).traffic_keys;
            if known.iter().any(|(known, _)| known.key == candidate.key) {
                continue;
            }
            let key = self.table.derive(candidate, &context);
            let is_good = self.verifies(candidate, &key, sne);
            self.connection.direction_mut(self.sender).keep_traffic_key(candidate, key, is_good);
            if is_good {
                return Judgement::of_mac(Some(candidate), sne);
            }
        }
        if self.connection.direction(self.sender).sne_searches > 0 {
            self.connection.direction_mut(self.sender).sne_searches -= 1;
            for candidate in serving {
                let key = self.table.derive(candidate, &context);
                if let Some(sne) = (0..self.table.options.limits.snes)
                    .map(Sne)
                    .find(|sne| self.verifies(candidate, &key, *sne))
                {
                    let tracker = SneTracker::resume(sne, self.segment.sequence());
                    self.connection.direction_mut(self.sender).sne = Some(tracker);
                    return Judgement::of_mac(Some(candidate), sne);
                }
            }
        }
        Judgement::of_mac(None, sne)
    }

    /// An ISN is unknown, or the segment carries its own.
    #[inline(never)]
    fn in_handshake(&mut self) -> Judgement {
        let flags = self.segment.flags();
        if let Some(context) = self.connection.context(self.sender, self.segment) {
            return Judgement::of_mac(self.first_good(&context, Sne(0)), Sne(0));
        }
        // Right after the handshake the numbers follow the ISNs. Only a good MAC proves that guess.
        if self.connection.guesses > 0 && flags.ack() {
            self.connection.guesses -= 1;
            let before = |number: SeqNum| Isn(number.0.wrapping_sub(1));
            let (sender, receiver) = (self.sender, self.sender.other());
            let own = self.connection.isn(sender).unwrap_or(before(self.segment.sequence()));
            let other = self.connection.isn(receiver).unwrap_or(before(self.segment.acknowledgment()));
            let context = self.connection.context_of(sender, own, other);
            let sne = SneTracker::new(own).sne_of(self.segment.sequence());
            let good = self.first_good(&context, sne);
            if good.is_some() {
                self.connection.direction_mut(sender).set_isn(own);
                self.connection.direction_mut(receiver).set_isn(other);
                return Judgement::of_mac(good, sne);
            }
        }
        Judgement::without_mac(Verdict::IsnNotSeen)
    }

    /// The first key that the segment names and that verifies it.
    fn first_good(&self, context: &KdfContext, sne: Sne) -> Option<Candidate> {
        self.serving()
            .find(|candidate| self.verifies(*candidate, &self.table.derive(*candidate, context), sne))
    }
}
