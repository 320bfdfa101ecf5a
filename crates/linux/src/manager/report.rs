//! Reporting: what a step did, and which segments the kernel refused, which its counters show.

use std::collections::HashMap;

use wireseal_keys::Timestamp;
use wireseal_tcp_ao::Counters;

use crate::manager::apply::Outcome;
use crate::manager::plan::{Action, Origin, SocketKind};
use crate::manager::policy::PolicyAction;
use crate::{Error, Generation, KeyName, PeerName};

/// The result of [`KeyManager::step`](crate::KeyManager::step).
#[derive(Debug)]
pub struct StepReport {
    /// One report for each socket stepped, in the order of attaching.
    pub sockets: Vec<SocketReport>,
    /// The peers for which no key is valid for sending now, in order. No connection with them can be opened.
    pub expired: Vec<PeerName>,
    /// When to take the next step, unless a clock is set. `None` if no chain changes any more.
    pub next_step: Option<Timestamp>,
    /// The generation of the peers when the step began. Sockets may have the keys of a later one: see [`SocketState::generation`].
    pub generation: Generation,
}

/// The result of a step for one socket.
#[derive(Debug)]
pub struct SocketReport {
    /// The number of its [`Attachment`](crate::Attachment).
    pub attachment: u64,
    /// The kind of the socket; `None` for a connection that has ended.
    pub kind: Option<SocketKind>,
    /// The step's findings, which [`Attachment::state`](crate::Attachment::state) returns until the next step.
    pub state: SocketState,
    /// Segments refused since the last report on this socket.
    pub refused: Refused,
    /// The actions that succeeded, in order.
    pub done: Vec<Action>,
    /// The actions that failed, to be tried again in the next step; `None` means that the socket's keys could not be read. A
    /// failure does not hold up the other keys of the socket.
    pub failed: Vec<(Option<Action>, Error)>,
    /// Keys that are no longer valid but cannot be deleted, and so stay in force: the last key of a connection; on a listener, if no ids
    /// are free for a [placeholder](Action::AddPlaceholder); and keys for a VRF on Linux 6.18 ([`Error::KeyStays`], in `failed`). Shut the
    /// connection down, or close the listener and bind another.
    pub overdue: Vec<KeyName>,
    /// The key that this end signs with because the peer of a connection goes on asking for it, although its send lifetime is over: reported once
    /// for each key, after half of the time for which it is still accepted, or after five minutes if that is less. It serves until the end of
    /// its accept lifetime, and is [deleted](Self::taken_away) then. The peer's configuration is behind (GoBGP and BIRD may sign with the new
    /// key and ask for the old one).
    pub insists_on: Option<KeyName>,
    /// What [policies](crate::Policy) of peers did because of failures on this socket, or to this connection because of another of its
    /// cohort; then the peer is the other's.
    pub policy: Vec<(PeerName, PolicyAction)>,
}

impl SocketReport {
    /// Reports what a step found and did, and what the socket has refused since the last report.
    pub(super) fn new(
        attachment: u64,
        kind: Option<SocketKind>,
        state: SocketState,
        outcome: Outcome,
        seen: &mut Seen,
    ) -> Self {
        let Outcome { done, failed, overdue, insists_on, bad, .. } = outcome;
        let refused = seen.refused(state.counters, bad);
        Self { attachment, kind, state, refused, done, failed, overdue, insists_on, policy: Vec::new() }
    }

    /// The keys that were deleted at the end of their lifetime although the peer still asked for them: its configuration or its clock is
    /// behind.
    pub fn taken_away(&self) -> impl Iterator<Item = KeyName> {
        self.done.iter().filter_map(|action| match action {
            Action::Delete { key, origin: Origin::Chain(_), is_current: true, .. } => Some(*key),
            _ => None,
        })
    }
}

/// An action that failed, or reading the keys if it is `None`, and why.
pub(super) fn in_words((action, error): &(Option<Action>, Error)) -> String {
    match action {
        Some(action) => format!("cannot {action}: {error}"),
        None => format!("its keys cannot be read: {error}"),
    }
}

/// The last step's findings about an attached socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketState {
    /// The peer of a connection, or of a socket that will connect; `None` for a socket that listens or will.
    pub peer: Option<PeerName>,
    /// The generation of the manager's peers by which the step set the keys.
    pub generation: Generation,
    /// For a connection: shut it down, because no key is valid for sending now, or because its peer was removed.
    pub expired: bool,
    /// The peer has not yet signed with the key that it was asked for. If it has the key, it does so with its next segment.
    pub is_peer_behind: bool,
    /// The key that the peer's segments ask for (RNextKeyID), as far as it is known: the kernel signs with it, so it is the current key once a
    /// segment has come since this end last chose one itself. `None` before that, and for a socket that is no connection. The kernel does not
    /// tell of a request for a key that the socket lacks; the last request for a key that it has stands then.
    pub asks_for: Option<KeyName>,
    /// Segments received, as [`Info::counters`](crate::Info::counters) counts them; `None` before the first step, and if the socket has
    /// no TCP-AO.
    pub counters: Option<Counters>,
}

/// Segments that a socket refused since its last report, by Linux's reasons. A listener counts those that no connection took, such as a
/// peer's SYNs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Wrong MAC, by the key that the segments named: the ends' secrets or algorithms differ, or segments are forged. A listener's key
    /// shows which peer it is for.
    pub bad: Vec<(KeyName, u64)>,
    /// Signed with a KeyID that no key has.
    pub key_not_found: u64,
    /// Unsigned.
    pub unsigned: u64,
}

/// A socket's counters when they were last read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    counters: Counters,
    bad: HashMap<KeyName, u64>,
}

impl Seen {
    /// Whether segments with a wrong MAC have arrived since, as from a peer with another secret. Unsigned segments and unknown KeyIDs do
    /// not count, because anybody can send them and each would make a step due.
    pub(super) fn has_grown(&self, counters: &Counters) -> bool {
        counters.bad != self.counters.bad
    }

    /// The segments refused since, from the counters and the failed keys as read; `None` if they could not be read. A key that was deleted
    /// and added again counts from 0.
    pub(super) fn refused(
        &mut self,
        counters: Option<Counters>,
        bad: Option<Vec<(KeyName, u64)>>,
    ) -> Refused {
        let counters = counters.unwrap_or(self.counters);
        let before = std::mem::replace(&mut self.counters, counters);
        let bad = bad.unwrap_or_else(|| self.bad.iter().map(|(key, count)| (*key, *count)).collect());
        let bad_before = std::mem::take(&mut self.bad);
        self.bad = bad.iter().copied().collect();
        let grown = |(name, count): (KeyName, u64)| {
            let before = bad_before.get(&name).copied().filter(|before| *before <= count);
            Some((name, count - before.unwrap_or(0))).filter(|(_, grown)| *grown > 0)
        };
        Refused {
            bad: bad.into_iter().filter_map(grown).collect(),
            key_not_found: counters.key_not_found.saturating_sub(before.key_not_found),
            unsigned: counters.required.saturating_sub(before.required),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::tests::name;

    #[test]
    fn only_what_came_since_is_refused() {
        let mut seen = Seen::default();
        let counters = Counters { good: 9, bad: 5, key_not_found: 2, required: 1, dropped_icmp: 7 };
        assert!(seen.has_grown(&counters));
        let bad = || Some(vec![(name(1, 1), 3), (name(2, 2), 2)]);
        let first = seen.refused(Some(counters), bad());
        let expected = Refused { bad: vec![(name(1, 1), 3), (name(2, 2), 2)], key_not_found: 2, unsigned: 1 };
        assert_eq!(first, expected);
        assert!(!seen.has_grown(&Counters { good: 99, dropped_icmp: 99, ..counters }));
        assert_eq!(seen.refused(Some(counters), bad()), Refused::default());

        // Neither could be read.
        assert_eq!(seen.refused(None, None), Refused::default());
        assert_eq!(seen.refused(Some(counters), bad()), Refused::default());

        // Key 1 was replaced under the same ids, and counts from 0 again; key 2 is gone.
        let later = Counters { bad: 6, ..counters };
        assert!(seen.has_grown(&later));
        let again = seen.refused(Some(later), Some(vec![(name(1, 1), 1)]));
        assert_eq!(again, Refused { bad: vec![(name(1, 1), 1)], ..Refused::default() });
    }
}
