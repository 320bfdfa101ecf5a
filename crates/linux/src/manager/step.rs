//! Steps: bringing the keys of the attached sockets in line with the chains.

use std::sync::Arc;

use wireseal_keys::Timestamp;

use crate::manager::action::SocketKind;
use crate::manager::apply::{Outcome, Scope};
use crate::manager::attached::Attached;
use crate::manager::attachment::{Entry, SocketState, State, lock};
use crate::manager::key_manager::KeyManager;
use crate::manager::pace::Pace;
use crate::manager::peers::{Configured, PeerTable, longest, next_change};
use crate::manager::report::{SocketReport, StepReport};
use crate::{Error, PeerName};

impl KeyManager {
    /// Brings the keys of all attached sockets in line with their peers' chains at `now`, which may be earlier than in the last
    /// step.
    ///
    /// Deleting a key from a connection waits in the kernel for some milliseconds; other sockets can be attached and detached,
    /// and peers changed, meanwhile.
    #[must_use = "the report says which connections to shut down and when to step next"]
    pub fn step(&self, now: Timestamp) -> StepReport {
        self.step_those(now, |_, _| true, |pace| pace.stepped(now))
    }

    /// Takes a [`step`](Self::step) of the sockets that need one now, if any does: because a chain changes or a peer was changed,
    /// of a listener that has refused a wrongly signed segment, every second while the connection's peer has not switched keys, and of all
    /// sockets every 30 seconds and when the clock was set back.
    ///
    /// Call it every second, say: with nothing due it makes one system call for each listener and returns `None`.
    #[must_use = "the report says which connections to shut down"]
    pub fn step_due(&self, now: Timestamp) -> Option<StepReport> {
        let state = self.shared.state();
        if state.pace.is_long_ago(now) {
            drop(state);
            return Some(self.step(now));
        }
        drop(state);
        self.look_at_listeners(now);
        let state = self.shared.state();
        let is_due = state.pace.next().is_some_and(|next| next <= now)
            || state.sockets.iter().any(|entry| state.is_due(entry, now));
        drop(state);
        is_due.then(|| self.step_those(now, |state, entry| state.is_due(entry, now), Pace::stepped_due))
    }

    /// Makes the listeners due that have refused segments, so that a peer with a wrong secret is reported at once.
    fn look_at_listeners(&self, now: Timestamp) {
        let state = self.shared.state();
        let listeners = state.sockets.iter().filter(|entry| entry.peer.is_none());
        let listeners: Vec<_> =
            listeners.map(|entry| (entry.number, Arc::downgrade(&entry.socket))).collect();
        drop(state);
        for (number, socket) in listeners {
            let Some(socket) = socket.upgrade() else { continue };
            // Whoever has it locked steps it or attaches it now.
            let Ok(attached) = socket.try_lock() else { continue };
            if attached.is_let_go() {
                continue;
            }
            if attached.counters().is_some_and(|counters| attached.seen.has_grown(&counters)) {
                let mut state = self.shared.state();
                if let Some(index) = state.position(number) {
                    state.sockets[index].next = Some(now);
                }
            }
        }
    }

    fn step_those(
        &self,
        now: Timestamp,
        is_wanted: impl Fn(&State, &Entry) -> bool,
        note: impl FnOnce(&mut Pace),
    ) -> StepReport {
        let _turn = lock(&self.shared.turn);
        let mut state = self.shared.state();
        note(&mut state.pace);
        let wanted = state.sockets.iter().filter(|entry| is_wanted(&state, entry));
        let listed: Vec<_> = wanted.map(|entry| (entry.number, Arc::downgrade(&entry.socket))).collect();
        drop(state);
        let sockets = listed.into_iter().filter_map(|(number, socket)| {
            // A socket that is detached during the step can be closed before the step ends.
            self.step_socket(number, &mut lock(&*socket.upgrade()?), now)
        });
        let sockets = sockets.collect();
        let peers = Arc::clone(&self.shared.state().peers);
        let has_key = |configured: &Configured| configured.chain.at(now).preferred().is_some();
        let expired = peers.iter().filter(|(_, configured)| !has_key(configured));
        let expired = expired.map(|(peer, _)| *peer).collect();
        let next_change = next_change(&peers, None, now);
        let mut state = self.shared.state();
        state.pace.no_later_than(next_change);
        StepReport { sockets, expired, next_step: state.next_step() }
    }

    /// Steps one socket; `None` if it has been detached or let go.
    pub(super) fn step_socket(
        &self,
        attachment: u64,
        attached: &mut Attached,
        now: Timestamp,
    ) -> Option<SocketReport> {
        if attached.is_let_go() {
            return None;
        }
        // The chains as they are once the socket is locked, so that a peer set during the step is not undone.
        let state = self.shared.state();
        let entry = &state.sockets[state.position(attachment)?];
        let (peers, version, before) = (Arc::clone(&state.peers), state.version, entry.peer);
        drop(state);
        // Before the keys, so that what comes in between makes the counters grow once more.
        let counters = attached.counters();
        let settled = settle(attached, &peers, before, now).unwrap_or_else(|error| Settled {
            kind: None,
            peer: before,
            outcome: Outcome { failed: vec![(None, error)], ..Outcome::default() },
        });
        let Settled { kind, peer, outcome } = settled;
        let is_peer_behind = kind == Some(SocketKind::Connection)
            && !outcome.expired
            && peer.is_some_and(|peer| attached.is_peer_behind(peer));
        let again = Pace::after_socket(&outcome, is_peer_behind, now);
        let next = [again, next_change(&peers, peer, now)].into_iter().flatten().min();
        let Outcome { done, failed, expired, overdue, bad, .. } = outcome;
        let refused = attached.seen.refused(counters, bad);
        let mut state = self.shared.state();
        if let Some(index) = state.position(attachment) {
            let entry = &mut state.sockets[index];
            (entry.peer, entry.version, entry.next) = (peer, version, next);
            let has_expired = expired && !entry.state.expired;
            entry.state = SocketState { peer, expired, is_peer_behind, counters };
            drop(state);
            if has_expired {
                self.shared.notify();
            }
        }
        Some(SocketReport {
            attachment,
            kind,
            peer,
            expired,
            counters,
            refused,
            done,
            failed,
            is_peer_behind,
            overdue,
        })
    }
}

/// A socket after its step.
struct Settled {
    kind: Option<SocketKind>,
    peer: Option<PeerName>,
    outcome: Outcome,
}

/// Brings the keys of one socket in line with the chain of its peer, if it has one, or of all peers.
fn settle(
    attached: &mut Attached,
    peers: &PeerTable<Configured>,
    peer: Option<PeerName>,
    now: Timestamp,
) -> Result<Settled, Error> {
    let kind = attached.kind()?;
    let peer = match kind {
        Some(SocketKind::Listener) => None,
        Some(SocketKind::Connection) if peer.is_none() => match attached.peer() {
            Some(address) => longest(peers, address, || attached.vrf())?,
            None => None,
        },
        _ => peer,
    };
    let is_removed = peer.map_or(kind == Some(SocketKind::Connection), |peer| !peers.contains_key(&peer));
    let outcome = match kind {
        None => Outcome::default(),
        // Its keys stay, so that its owner can end the session in order.
        Some(_) if is_removed => Outcome { expired: true, ..Outcome::default() },
        Some(kind) => {
            let scope = Scope { peers, only: peer, families: attached.families()?, now, kind };
            let outcome = attached.apply(&scope);
            Outcome { expired: outcome.expired && peer.is_some(), ..outcome }
        }
    };
    Ok(Settled { kind, peer, outcome })
}
