//! What is found of one segment.

use wireseal_tcp_ao::{
    AoOption, Isn, KdfContext, OptionError, Segment, SeqNum, Sne, SneTracker, TrafficKey, verify_segment,
};

use super::connection::{Connection, Observed};
use super::key_table::{Candidate, KeyTable};
use super::report::{Sender, Verdict};

/// The SNEs that are tried where the ISNs are given but not how often the numbers have wrapped since.
const SNES: u32 = 65_536;

/// A verdict, and what it rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    /// The SNE under which the MAC was checked.
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

impl Connection {
    /// Judges a segment. Of the connection nothing changes but traffic keys and what was guessed and has proved right.
    #[inline]
    pub(super) fn judge(&mut self, table: &KeyTable<'_>, observed: &Observed<'_>) -> Judgement {
        if observed.has_part_of_header {
            return Judgement::without_mac(Verdict::CutOff);
        }
        let ao = match &observed.ao {
            Ok(Some(ao)) => ao,
            Ok(None) => return Judgement::without_mac(Verdict::NoOption),
            Err(OptionError::TwoAoOptions) => return Judgement::without_mac(Verdict::TwoOptions),
            Err(error) => return Judgement::without_mac(Verdict::MalformedOption(*error)),
        };
        let sender = observed.sender;
        let configured_end = self.configured_end;
        let serves = |candidate: &Candidate| candidate.serves(table, configured_end, sender, ao.key_id);
        if !self.candidates.iter().any(serves) {
            return Judgement::without_mac(Verdict::UnknownKeyId);
        }
        if observed.missing > 0 {
            return Judgement::without_mac(Verdict::CutOff);
        }
        let segment = &observed.segment;
        if !segment.flags().syn() && self.isn(sender).is_some() && self.isn(sender.other()).is_some() {
            return self.judge_established(table, sender, segment, ao);
        }
        self.judge_handshake(table, sender, segment, ao)
    }

    /// Both ISNs are known: the usual case.
    #[inline]
    fn judge_established(
        &mut self,
        table: &KeyTable<'_>,
        sender: Sender,
        segment: &Segment<'_>,
        ao: &AoOption<'_>,
    ) -> Judgement {
        let configured_end = self.configured_end;
        let direction = &mut self.directions[sender as usize];
        let Some(tracker) = direction.tracker() else { return Judgement::without_mac(Verdict::IsnNotSeen) };
        let sne = tracker.sne_of(segment.sequence());
        let keys = &mut direction.traffic_keys;
        let good = keys.iter().position(|(candidate, key)| {
            candidate.serves(table, configured_end, sender, ao.key_id)
                && verify_segment(key, sne, segment, table.parameters(*candidate)).is_ok()
        });
        if let Some(place) = good {
            if place > 0 {
                keys.swap(0, place);
            }
            return Judgement::of_mac(Some(keys[0].0), sne);
        }
        self.judge_with_other_keys(table, sender, segment, ao, sne)
    }

    /// No traffic key verifies that was in use before.
    #[inline(never)]
    fn judge_with_other_keys(
        &mut self,
        table: &KeyTable<'_>,
        sender: Sender,
        segment: &Segment<'_>,
        ao: &AoOption<'_>,
        sne: Sne,
    ) -> Judgement {
        let Some(context) = self.context(sender, segment) else {
            return Judgement::without_mac(Verdict::IsnNotSeen);
        };
        let configured_end = self.configured_end;
        let direction = &mut self.directions[sender as usize];
        let serving = || {
            let candidates = self.candidates.iter().copied();
            candidates.filter(|candidate| candidate.serves(table, configured_end, sender, ao.key_id))
        };
        for candidate in serving() {
            if direction.traffic_keys.iter().any(|(known, _)| known.key == candidate.key) {
                continue;
            }
            let key = table.derive(candidate, &context);
            let is_good = verify_segment(&key, sne, segment, table.parameters(candidate)).is_ok();
            direction.keep_traffic_key(candidate, key, is_good);
            if is_good {
                return Judgement::of_mac(Some(candidate), sne);
            }
        }
        if direction.sne_searches > 0 {
            direction.sne_searches -= 1;
            for candidate in serving() {
                let key = table.derive(candidate, &context);
                let parameters = table.parameters(candidate);
                let is_good = |sne: &u32| verify_segment(&key, Sne(*sne), segment, parameters).is_ok();
                if let Some(sne) = (0..SNES).find(is_good) {
                    direction.sne = Some(SneTracker::resume(Sne(sne), segment.sequence()));
                    return Judgement::of_mac(Some(candidate), Sne(sne));
                }
            }
        }
        Judgement::of_mac(None, sne)
    }

    /// An ISN is not known, or the segment has its own.
    #[inline(never)]
    fn judge_handshake(
        &mut self,
        table: &KeyTable<'_>,
        sender: Sender,
        segment: &Segment<'_>,
        ao: &AoOption<'_>,
    ) -> Judgement {
        if let Some(context) = self.context(sender, segment) {
            return Judgement::of_mac(self.first_good(table, sender, &context, Sne(0), segment, ao), Sne(0));
        }
        // Right behind the handshake, an end's numbers follow the ISNs. Whether that is so only a good MAC can tell.
        if self.guesses > 0 && segment.flags().ack() {
            self.guesses -= 1;
            let before = |number: SeqNum| Isn(number.0.wrapping_sub(1));
            let own = self.isn(sender).unwrap_or(before(segment.sequence()));
            let other = self.isn(sender.other()).unwrap_or(before(segment.acknowledgment()));
            let context = self.context_of(sender, own, other);
            let sne = match segment.flags().syn() {
                true => Sne(0),
                false => SneTracker::new(own).sne_of(segment.sequence()),
            };
            let good = self.first_good(table, sender, &context, sne, segment, ao);
            if good.is_some() {
                self.directions[sender as usize].set_isn(own);
                self.directions[sender.other() as usize].set_isn(other);
                return Judgement::of_mac(good, sne);
            }
        }
        Judgement::without_mac(Verdict::IsnNotSeen)
    }

    /// The first key that serves the segment and verifies it.
    fn first_good(
        &self,
        table: &KeyTable<'_>,
        sender: Sender,
        context: &KdfContext,
        sne: Sne,
        segment: &Segment<'_>,
        ao: &AoOption<'_>,
    ) -> Option<Candidate> {
        let is_good = |candidate: &Candidate| {
            let key: TrafficKey = table.derive(*candidate, context);
            verify_segment(&key, sne, segment, table.parameters(*candidate)).is_ok()
        };
        let mut candidates = self.candidates.iter().copied();
        candidates.find(|candidate| {
            candidate.serves(table, self.configured_end, sender, ao.key_id) && is_good(candidate)
        })
    }

    /// What a segment's traffic key is derived for, if that is known.
    pub(super) fn context(&self, sender: Sender, segment: &Segment<'_>) -> Option<KdfContext> {
        let flags = segment.flags();
        let own = Isn(segment.sequence().0);
        match (flags.syn(), flags.ack()) {
            (true, false) => Some(self.context_of(sender, own, Isn::UNKNOWN)),
            (true, true) => {
                let other = Isn(segment.acknowledgment().0.wrapping_sub(1));
                Some(self.context_of(sender, own, other))
            }
            _ => {
                let other = self.isn(sender.other())?;
                // A listener's reset in answer to a SYN stands on no ISN and carries its own (RFC 9293 §3.10.7.2).
                let own = self.isn(sender).or(flags.rst().then_some(own))?;
                Some(self.context_of(sender, own, other))
            }
        }
    }

    fn context_of(&self, sender: Sender, source_isn: Isn, destination_isn: Isn) -> KdfContext {
        let (source, destination) = (self.ends[sender as usize], self.ends[sender.other() as usize]);
        KdfContext { source, destination, source_isn, destination_isn }
    }
}
