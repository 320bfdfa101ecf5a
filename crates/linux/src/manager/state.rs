//! What is known of the keys on a socket.

use wireseal_tcp_ao::Mkt;

use crate::manager::action::{Action, Origin, SocketKind};
use crate::{InstalledKey, KeyName};

/// A key as the kernel reports it, with its secret.
pub(super) trait Reported {
    fn name(&self) -> KeyName;
    /// Whether it is this MKT, secret included.
    fn is(&self, mkt: &Mkt) -> bool;
    fn is_current(&self) -> bool;
    fn is_rnext(&self) -> bool;
    /// Segments verified under it.
    fn good(&self) -> u64;
    /// Segments that failed under it.
    fn bad(&self) -> u64;
}

impl Reported for InstalledKey {
    fn name(&self) -> KeyName {
        self.name
    }

    fn is(&self, mkt: &Mkt) -> bool {
        self.is(mkt)
    }

    fn is_current(&self) -> bool {
        self.is_current
    }

    fn is_rnext(&self) -> bool {
        self.is_rnext
    }

    fn good(&self) -> u64 {
        self.good
    }

    fn bad(&self) -> u64 {
        self.bad
    }
}

/// A key on a socket as the kernel reports it, without its secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) name: KeyName,
    pub(super) origin: Origin,
    /// Whether this end signs with it.
    pub(super) is_current: bool,
    /// Whether this end asks the peer to sign with it.
    pub(super) is_rnext: bool,
    /// Segments verified under it.
    pub(super) good: u64,
}

/// What the kernel does not report of one peer's keys on a socket, kept from one step to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Memory {
    /// The key that the peer was asked to sign with and has not used since, and how many segments had been verified under it
    /// when it was asked.
    awaited: Option<(KeyName, u64)>,
    placeholder: Option<KeyName>,
}

impl Memory {
    /// Whether the peer has not yet signed with the key that it was asked to sign with.
    pub(super) const fn is_peer_behind(&self) -> bool {
        self.awaited.is_some()
    }

    pub(super) fn is_placeholder(&self, name: KeyName) -> bool {
        self.placeholder == Some(name)
    }

    /// Notes whether the peer has switched to the key that it was asked for.
    pub(super) fn observe(&mut self, found: &[Found]) {
        let has_switched = |(name, before): (KeyName, u64)| {
            found.iter().any(|key| key.name == name && key.is_rnext && key.good > before)
        };
        if self.awaited.is_some_and(has_switched) {
            self.awaited = None;
        }
    }

    /// Notes a deletion that failed because the key is in use; the kernel has made its successor the rnext key all the same.
    /// `found` is from before the action, here and below.
    pub(super) fn note_in_use(&mut self, action: &Action, kind: SocketKind, found: &[Found]) {
        if let Action::Delete { successor: Some(successor), is_rnext: true, .. } = *action
            && kind == SocketKind::Connection
        {
            self.awaited = Some((successor, good_of(found, successor)));
        }
    }

    /// Notes an action that succeeded.
    pub(super) fn note(&mut self, action: &Action, kind: SocketKind, found: &[Found]) {
        let asked_for = match *action {
            Action::Add { key, set_rnext, .. } => {
                self.placeholder = self.placeholder.filter(|placeholder| *placeholder != key);
                set_rnext.then_some((key, 0))
            }
            Action::SetRnext(key) => Some((key, good_of(found, key))),
            Action::Delete { key, successor, is_rnext, .. } => {
                self.placeholder = self.placeholder.filter(|placeholder| *placeholder != key);
                successor.filter(|_| is_rnext).map(|successor| (successor, good_of(found, successor)))
            }
            Action::AddPlaceholder { key } => {
                self.placeholder = Some(key);
                None
            }
            Action::SetCurrent(_) => None,
        };
        if kind == SocketKind::Connection {
            self.awaited = asked_for.or(self.awaited);
        }
    }
}

/// Segments verified under a key; 0 if it has been added since.
fn good_of(found: &[Found], name: KeyName) -> u64 {
    found.iter().find(|key| key.name == name).map_or(0, |key| key.good)
}
