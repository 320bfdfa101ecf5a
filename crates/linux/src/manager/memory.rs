//! What the kernel does not report, remembered from one step to the next: which key the peer of a connection was asked to use, and which it
//! asks for.

use crate::KeyName;
use crate::manager::action::{Action, Found, SocketKind};

/// What is known beyond the kernel's reports about one peer's keys on a socket, kept from one step to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Memory {
    /// The key that the peer was asked to sign with and has not used since, and how many segments had been verified under it at that time.
    awaited: Option<(KeyName, u64)>,
    placeholder: Option<KeyName>,
    asks: Asks,
    /// The key that this end has last left for the preferred one. If it is the current key again, the peer has asked for it again.
    left: Option<KeyName>,
    /// The current key, if its send lifetime is over, with how many segments had been verified when that was first seen.
    over: Option<(KeyName, u64)>,
    /// The key that was reported because the peer insists on it.
    told: Option<KeyName>,
}

/// What is known of the key that the peer asks for.
///
/// The kernel does not say what a segment asked for, but it makes the key with the RNextKeyID of each good segment current, if the socket has
/// that key (`tcp_inbound_ao_hash` in net/ipv4/tcp_ao.c). So the current key is the one that the peer asks for, once a segment has come since
/// it was chosen otherwise: by this end, or in the handshake, where the kernel may choose any key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Asks {
    /// Nothing: the past of the connection is not known.
    #[default]
    Unknown,
    /// This end has made the key current since the keys were read.
    Chosen(KeyName),
    /// The key was current, and so many segments had been verified, when the keys were read.
    Since(KeyName, u64),
    /// The peer asks for the key.
    For(KeyName),
}

impl Asks {
    /// What the keys on a connection show.
    fn observe(self, found: &[Found]) -> Self {
        let Some(current) = current(found) else { return Self::Unknown };
        let verified = verified(found);
        match self {
            Self::Unknown => Self::Since(current, verified),
            Self::Chosen(key) if key == current => Self::Since(current, verified),
            Self::Since(key, before) if key == current && verified <= before => {
                // There are fewer if a key was deleted with its count.
                Self::Since(current, verified)
            }
            Self::Chosen(_) | Self::Since(..) | Self::For(_) => Self::For(current),
        }
    }
}

impl Memory {
    /// Whether the peer has not yet signed with the key that it was asked to sign with.
    pub(super) const fn is_peer_behind(&self) -> bool {
        self.awaited.is_some()
    }

    pub(super) fn is_placeholder(&self, name: KeyName) -> bool {
        self.placeholder == Some(name)
    }

    /// The key that the peer asks for, as far as that is known.
    pub(super) const fn asks_for(&self) -> Option<KeyName> {
        match self.asks {
            Asks::For(key) => Some(key),
            _ => None,
        }
    }

    /// Whether the peer has undone this end's choice: it asks again for this key, which this end had left.
    pub(super) fn insists_on(&self, key: KeyName) -> bool {
        self.left == Some(key)
    }

    /// Whether it was reported that the peer insists on this key.
    pub(super) fn is_told(&self, key: KeyName) -> bool {
        self.told == Some(key)
    }

    /// Whether the peer has asked for this key, whose send lifetime is over, since that was first seen.
    pub(super) fn has_asked_late(&self, key: KeyName, found: &[Found]) -> bool {
        let has_come = |(over, before): (KeyName, u64)| over == key && verified(found) > before;
        self.asks_for() == Some(key) && self.over.is_some_and(has_come)
    }

    /// Records what a plan says of the current key: whether its send lifetime is over, and whether it is reported that the peer insists on it.
    pub(super) fn planned(&mut self, over: Option<KeyName>, insists_on: Option<KeyName>, found: &[Found]) {
        let seen = self.over.filter(|(key, _)| over == Some(*key));
        self.over = seen.or(over.map(|key| (key, verified(found))));
        self.told = insists_on.or(self.told);
    }

    /// Records whether the peer has switched to the key that it was asked for, and which key it asks for.
    pub(super) fn observe(&mut self, kind: SocketKind, found: &[Found]) {
        if kind == SocketKind::Connection {
            self.asks = self.asks.observe(found);
        }
        let has_switched = |(name, before): (KeyName, u64)| {
            found.iter().any(|key| key.name == name && key.is_rnext && key.good > before)
        };
        if self.awaited.is_some_and(has_switched) {
            self.awaited = None;
        }
    }

    /// Records an action that succeeded, or a deletion that failed because the key is in use: the kernel has made its successor the current
    /// or rnext key anyway. `found` is from before the action.
    pub(super) fn note(&mut self, action: &Action, is_done: bool, kind: SocketKind, found: &[Found]) {
        let good = |name| found.iter().find(|key| key.name == name).map_or(0, |key| key.good);
        let without = |key| self.placeholder.filter(|placeholder| *placeholder != key);
        let (asked_for, placeholder, chosen) = match *action {
            Action::Add { key, set_current, set_rnext, .. } => {
                (set_rnext.then_some((key, 0)), without(key), set_current.then_some(key))
            }
            Action::AddPlaceholder { key } => (None, Some(key), None),
            Action::SetCurrent(key) => (None, self.placeholder, Some(key)),
            Action::SetRnext(key) => (Some((key, good(key))), self.placeholder, None),
            Action::Delete { key, successor, is_current, is_rnext, .. } => {
                let asked_for = successor.filter(|_| is_rnext).map(|key| (key, good(key)));
                (asked_for, without(key), successor.filter(|_| is_current))
            }
        };
        if is_done {
            self.placeholder = placeholder;
        }
        if let Some(key) = chosen {
            self.asks = Asks::Chosen(key);
        }
        match action {
            Action::SetCurrent(_) if kind == SocketKind::Connection => self.left = current(found),
            // Another key may come under its ids.
            Action::Delete { key, .. } => {
                self.left = self.left.filter(|left| left != key);
                self.told = self.told.filter(|told| told != key);
            }
            _ => {}
        }
        if kind == SocketKind::Connection {
            self.awaited = asked_for.or(self.awaited);
        }
    }
}

/// The key that this end signs with.
fn current(found: &[Found]) -> Option<KeyName> {
    found.iter().find(|key| key.is_current).map(|key| key.name)
}

/// How many segments were verified.
fn verified(found: &[Found]) -> u64 {
    found.iter().map(|key| key.good).sum()
}
