//! Which octets one direction of a connection has sent.

use wireseal_tcp_ao::SeqNum;

/// How many gaps are remembered; the oldest is forgotten first.
const GAPS: usize = 4;

/// What one direction has sent so far in the capture.
#[derive(Default, Debug)]
pub(super) struct Sent {
    /// The sequence number after everything sent.
    pub(super) next: Option<SeqNum>,
    /// Where the capture skipped numbers; segments that fill them are late, not sent again.
    gaps: Option<Box<Gaps>>,
}

type Gaps = [Option<(SeqNum, SeqNum)>; GAPS];

impl Sent {
    /// Whether a segment with the numbers from `start` up to `end` was sent before.
    pub(super) fn has(&self, start: SeqNum, end: SeqNum) -> bool {
        start != end
            && self.next.is_some_and(|next| start.before(next))
            && !self.gaps.as_deref().is_some_and(|gaps| {
                gaps.iter().flatten().any(|(from, until)| !start.before(*from) && start.before(*until))
            })
    }

    pub(super) fn note(&mut self, start: SeqNum, end: SeqNum) {
        if start == end {
            return;
        }
        let Some(next) = self.next else {
            self.next = Some(end);
            return;
        };
        if start.before(next) {
            self.fill(start, end);
        } else if next.before(start) {
            self.remember((next, start));
        }
        if next.before(end) {
            self.next = Some(end);
        }
    }

    #[cold]
    fn fill(&mut self, start: SeqNum, end: SeqNum) {
        for place in 0..GAPS {
            let Some(gap) = self.gaps.as_deref_mut().map(|gaps| &mut gaps[place]) else { return };
            let Some((from, until)) = *gap else { continue };
            if !start.before(until) || !from.before(end) {
                continue;
            }
            *gap = None;
            if from.before(start) {
                self.remember((from, start));
            }
            if end.before(until) {
                self.remember((end, until));
            }
        }
    }

    #[cold]
    fn remember(&mut self, gap: (SeqNum, SeqNum)) {
        let gaps = self.gaps.get_or_insert_default();
        match gaps.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(gap),
            None => {
                gaps.rotate_left(1);
                gaps[GAPS - 1] = Some(gap);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retransmissions<const N: usize>(sent: [(u32, u32); N]) -> [bool; N] {
        let mut tracker = Sent::default();
        sent.map(|(start, end)| {
            let (start, end) = (SeqNum(start), SeqNum(end));
            let has = tracker.has(start, end);
            tracker.note(start, end);
            has
        })
    }

    #[test]
    fn what_was_sent_before_is_a_retransmission() {
        assert_eq!(
            retransmissions([(1, 11), (11, 21), (1, 11), (21, 21), (11, 31)]),
            [false, false, true, false, true]
        );
    }

    #[test]
    fn what_fills_a_gap_is_new() {
        let sent = [(1, 11), (31, 41), (11, 21), (11, 21), (21, 31), (21, 31), (31, 41)];
        assert_eq!(retransmissions(sent), [false, false, false, true, false, true, true]);
    }

    #[test]
    fn numbers_wrap() {
        let near = u32::MAX - 4;
        assert_eq!(retransmissions([(near, 5), (5, 10), (near, 5)]), [false, false, true]);
    }

    #[test]
    fn what_is_as_far_ahead_as_behind_opens_no_gap() {
        let far = 11 + (1 << 31);
        assert_eq!(
            retransmissions([(1, 11), (far, far + 10), (11, 12), (12, 22), (12, 22)]),
            [false, false, false, false, true]
        );
    }

    #[test]
    fn of_many_gaps_the_oldest_are_forgotten() {
        let mut tracker = Sent::default();
        for number in 0..10 {
            tracker.note(SeqNum(number * 10), SeqNum(number * 10 + 5));
        }
        assert!(tracker.has(SeqNum(5), SeqNum(10)));
        assert!(!tracker.has(SeqNum(85), SeqNum(90)));
    }
}
