//! When to take the next step.

use wireseal_keys::Timestamp;

use crate::Error;
use crate::manager::apply::Outcome;

/// Seconds between steps when nothing is due, since the clock may be set.
const IDLE: u32 = 30;

/// Seconds between steps while a peer has not switched keys.
const WAITING: u32 = 1;

/// When the last step of all sockets was, and when the peers' chains next need one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    last: Option<Timestamp>,
    next: Option<Timestamp>,
}

impl Pace {
    /// When a socket needs its next step even if the chain does not change.
    pub(super) fn after_socket(outcome: &Outcome, is_peer_behind: bool, now: Timestamp) -> Option<Timestamp> {
        let is_busy = outcome.failed.iter().any(|(_, error)| matches!(error, Error::KeyInUse(_)));
        let soon = (is_peer_behind || is_busy).then(|| now.later_by(WAITING));
        let retry = (!outcome.failed.is_empty()).then(|| now.later_by(IDLE));
        [soon, retry, outcome.again].into_iter().flatten().min()
    }

    /// Notes a step of all sockets.
    pub(super) fn stepped(&mut self, now: Timestamp) {
        *self = Self { last: Some(now), next: None };
    }

    /// Notes a step of the sockets that were due.
    pub(super) fn stepped_due(&mut self) {
        self.next = None;
    }

    /// Makes the next step no later than `moment`.
    pub(super) fn no_later_than(&mut self, moment: Option<Timestamp>) {
        self.next = [self.next, moment].into_iter().flatten().min();
    }

    pub(super) const fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// Whether all sockets need a step: the last one is long ago, or the clock went back.
    pub(super) fn is_long_ago(&self, now: Timestamp) -> bool {
        self.last.is_none_or(|last| now < last || last.later_by(IDLE) <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyName;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_seconds(seconds)
    }

    #[test]
    fn all_sockets_are_stepped_after_a_while_and_when_the_clock_goes_back() {
        let mut pace = Pace::default();
        assert!(pace.is_long_ago(at(0)), "there was no step yet");
        pace.stepped(at(100));
        let due: Vec<i64> = (95..=131).filter(|now| pace.is_long_ago(at(*now))).collect();
        assert_eq!(due, [95, 96, 97, 98, 99, 130, 131]);
        for moment in [Some(105), None, Some(107)] {
            pace.no_later_than(moment.map(at));
        }
        assert_eq!(pace.next(), Some(at(105)));
        pace.stepped_due();
        assert!(pace.next().is_none() && !pace.is_long_ago(at(129)));
    }

    #[test]
    fn a_socket_that_is_not_done_is_stepped_soon() {
        let after = |failed, behind| {
            let outcome = Outcome { failed, again: Some(at(60)), ..Outcome::default() };
            Pace::after_socket(&outcome, behind, at(0))
        };
        let remote = "192.0.2.7".parse().expect("an address");
        let id = wireseal_tcp_ao::KeyId(1);
        let in_use = Error::KeyInUse(KeyName { remote, vrf: None, send_id: id, recv_id: id });
        assert_eq!(after(Vec::new(), false), Some(at(60)));
        assert_eq!(after(Vec::new(), true), Some(at(1)));
        assert_eq!(after(vec![(None, in_use)], false), Some(at(1)));
        assert_eq!(after(vec![(None, Error::NoMemory)], false), Some(at(30)));
    }
}
