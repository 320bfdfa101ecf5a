//! What happens when a peer does not follow a change of its keys: a policy for each peer, and how a socket stands to its keys.

use std::fmt;
use std::sync::Arc;

use wireseal_keys::Timestamp;

use crate::manager::peers::PeerTable;
use crate::{Generation, PeerName};

/// What a [`KeyManager`](crate::KeyManager) does when a peer's keys cannot be put on a socket, or the peer does not move to them. By default
/// it goes on trying.
///
/// Keys cannot be put on a socket if an action that adds or chooses one fails, for instance for lack of memory
/// ([`Error::NoMemory`](crate::Error::NoMemory)) or because another program's key has an id of it ([`Error::IdInUse`](crate::Error::IdInUse)),
/// or if the keys of a connection cannot be read. A key that cannot be deleted is no such failure: steps try again, and reports call it
/// [overdue](crate::SocketReport::overdue).
///
/// A policy acts at most once for each change of its peer's keys on each socket, and the
/// [report](crate::SocketReport::policy) says what it did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields, rename_all = "kebab-case"))]
pub struct Policy {
    /// What to do.
    pub on_failure: OnFailure,
    /// Within how many seconds, at least 1, a peer has to move, from the moment when its connection has the keys: to sign with the preferred
    /// key, and to ask for it. Only its segments show that, so make it longer than the interval of its keepalives. `None` waits
    /// forever: then only an action that fails counts as failure.
    pub patience: Option<u32>,
    /// The name that peers of a cohort share, for [`OnFailure::ResetCohort`].
    pub cohort: Option<String>,
}

/// What to do when a peer does not follow a change of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum OnFailure {
    /// Try again in each step.
    #[default]
    Retry,
    /// Give the peer the keys from before the change again, on all its sockets, until its keys are changed anew. This needs a policy that
    /// was set before the change. The old keys are kept until all its connections have moved.
    HoldOldKeys,
    /// [Reset](crate::TcpAoSocket::reset) this connection, signed, whatever other descriptors of it there are; other connections with the
    /// peer stay. Its owner learns of it at once, because reading and writing fail. If the failure is on a socket that is not connected, go
    /// on trying.
    ResetSession,
    /// Reset all connections of all peers with the same [`cohort`](Policy::cohort), or of this peer if it has none.
    ResetCohort,
}

/// What a policy did about a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyAction {
    /// It gave the peer the keys from before the change again, by the next step, which is due at once.
    HeldOldKeys,
    /// It should have held the old keys, but there are none: the peer is new or had moved, the policy came after the change, no old key is
    /// valid for sending now, or another peer has an id of one. The new keys stay, and steps go on trying.
    NoOldKeys,
    /// It reset the connection.
    ResetSession,
    /// It reset the cohort's connections, by the next step, which is due at once. The report of each of these connections says so, too.
    ResetCohort,
}

impl fmt::Display for PolicyAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeldOldKeys => "it gets its old keys again",
            Self::NoOldKeys => "there are no old keys to go back to, trying again",
            Self::ResetSession => "the connection was reset",
            Self::ResetCohort => "the connections of its cohort are reset",
        })
    }
}

/// What a step has found out about a socket and its keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Finding {
    /// The connection has ended.
    pub(super) has_ended: bool,
    /// An action failed, or was left to the next step.
    pub(super) is_unsettled: bool,
    /// The connection does not use the preferred key in both directions.
    pub(super) is_unmoved: bool,
    /// This end has itself chosen the key that it signs with.
    pub(super) has_chosen: bool,
    /// Its SYN is not answered.
    pub(super) is_connecting: bool,
    /// The step changed keys.
    pub(super) has_changed: bool,
    /// It is known which key the peer asks for.
    pub(super) is_asked: bool,
}

/// How a socket stands to the keys that it should have, by its last step.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The connection has ended.
    pub(super) has_ended: bool,
    /// An action failed, or was left to the next step.
    pub(super) is_unsettled: bool,
    /// The first action that failed in its last step, and why.
    pub(super) error: Option<Arc<str>>,
    /// The peer of the connection does not sign with the preferred key, or does not ask for it as far as is known.
    pub(super) is_unmoved: bool,
    /// This end has chosen its key itself, and what the peer asks for is not known since.
    has_chosen: bool,
    /// The keys were changed when its SYN was sent and not answered: the connection may begin with those from before.
    pub(super) is_between: bool,
    /// Since when its peer has not moved although it has the keys, after which change of the peer.
    waiting: Option<(Generation, Timestamp)>,
    /// After which change of a peer its policy has acted here.
    acted: PeerTable<Generation>,
}

impl Standing {
    /// How a socket stands that has no keys yet.
    pub(super) fn unsettled() -> Self {
        Self { is_unsettled: true, ..Self::default() }
    }

    /// Records what a step has found out; `changed` is the last change of the peer.
    pub(super) fn record(&mut self, found: Finding, changed: Generation, now: Timestamp) {
        (self.has_ended, self.is_unsettled) = (found.has_ended, found.is_unsettled);
        self.has_chosen = !found.is_asked && (found.has_chosen || self.has_chosen);
        self.is_between = found.is_connecting && (found.has_changed || self.is_between);
        self.is_unmoved = found.is_unmoved || self.has_chosen || self.is_between;
        // Nobody may be there to answer: the peer's time begins with the connection.
        let waits = self.is_unmoved && !self.is_between && !self.is_unsettled && !self.has_ended;
        let before = self.waiting.filter(|(change, since)| *change == changed && *since <= now);
        self.waiting = waits.then(|| before.unwrap_or((changed, now)));
    }

    /// Whether the peer has had this many seconds to move.
    pub(super) fn is_out_of(&self, patience: u32, now: Timestamp) -> bool {
        self.waiting.is_some_and(|(_, since)| since.later_by(patience.max(1)) <= now)
    }

    /// When to check next whether the peer has moved: soon at first, and when its policy's patience ends.
    pub(super) fn next_look(&self, patience: Option<u32>, now: Timestamp, idle: u32) -> Option<Timestamp> {
        let (_, since) = self.waiting?;
        let waited = u32::try_from(now.unix_seconds() - since.unix_seconds()).unwrap_or(idle);
        let look = now.later_by((waited / 2).clamp(1, idle));
        let end = patience.map(|patience| since.later_by(patience.max(1))).filter(|end| now < *end);
        [Some(look), end].into_iter().flatten().min()
    }

    /// Whether the policy of a peer may act here about this change: it acts once for each.
    pub(super) fn act(&mut self, peer: PeerName, changed: Generation) -> bool {
        self.acted.insert(peer, changed) != Some(changed)
    }
}
