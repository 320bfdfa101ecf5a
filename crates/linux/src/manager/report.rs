//! What a step did.

use wireseal_keys::Timestamp;
use wireseal_tcp_ao::Counters;

use crate::manager::action::{Action, Origin, SocketKind};
use crate::manager::refusals::Refused;
use crate::{Error, KeyName, PeerName};

/// What [`KeyManager::step`](crate::KeyManager::step) did and found.
#[derive(Debug)]
pub struct StepReport {
    /// One for each socket stepped, in the order of attaching.
    pub sockets: Vec<SocketReport>,
    /// The peers for which no key is valid for sending now, in order. No connection with them can be opened.
    pub expired: Vec<PeerName>,
    /// When to take the next step, unless a clock is set. `None` if no chain changes any more.
    pub next_step: Option<Timestamp>,
}

/// What a step did with one socket.
#[derive(Debug)]
pub struct SocketReport {
    /// The number of its [`Attachment`](crate::Attachment).
    pub attachment: u64,
    /// What the socket is; `None` for a connection that has ended.
    pub kind: Option<SocketKind>,
    /// The peer of a connection, or of a socket that will connect; `None` for one that listens or will.
    pub peer: Option<PeerName>,
    /// For a connection: shut it down, because no key is valid for sending now, or because its peer was removed.
    pub expired: bool,
    /// Segments received, as [`Info::counters`](crate::Info::counters) counts them; `None` if the socket has no TCP-AO.
    pub counters: Option<Counters>,
    /// Segments refused since the last report on this socket.
    pub refused: Refused,
    /// The actions that succeeded, in order.
    pub done: Vec<Action>,
    /// The actions that failed, to be tried again in the next step; `None` means that the socket's keys could not be read. A
    /// failure does not hold up the other keys of the socket.
    pub failed: Vec<(Option<Action>, Error)>,
    /// The peer has not yet signed with the key that it was asked for. If it has the key, it does so with its next segment.
    pub is_peer_behind: bool,
    /// Keys that are no longer valid but cannot be deleted, and so stay in force. They are a connection's last, so shut it down; or, for a
    /// listener, no ids are free for a [placeholder](Action::AddPlaceholder); or Linux does not delete them, because they are for a VRF
    /// ([`Error::KeyStays`], in `failed`): shut the connection down, or close the listener and bind another.
    pub overdue: Vec<KeyName>,
}

impl SocketReport {
    /// The keys that were deleted at the end of their lifetime although the peer was still asking for them: its
    /// configuration or its clock is behind.
    pub fn taken_away(&self) -> impl Iterator<Item = KeyName> {
        self.done.iter().filter_map(|action| match action {
            Action::Delete { key, origin: Origin::Chain(_), is_current: true, .. } => Some(*key),
            _ => None,
        })
    }
}
