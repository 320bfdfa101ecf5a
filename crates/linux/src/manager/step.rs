//! Steps: looking at sockets, bringing their keys in line with the chains, and carrying out policies.

use std::os::fd::AsFd;
use std::sync::Arc;

use wireseal_keys::Timestamp;
use wireseal_tcp_ao::Counters;

use crate::manager::KeyManager;
use crate::manager::apply::{Calls, IDLE, Outcome, Scope, WAITING};
use crate::manager::look::{Attached, Look};
use crate::manager::peers::{Configured, PeerTable, longest, next_change};
use crate::manager::plan::{Memory, SocketKind};
use crate::manager::policy::Finding;
use crate::manager::report::{Seen, SocketReport, SocketState, StepReport, in_words};
use crate::manager::sockets::{Attachment, lock};
use crate::{Error, Generation, PeerName, TcpAoSocket};

/// What a step has found out about a socket before it reads the keys.
pub(super) struct Visit<'a> {
    pub(super) number: u64,
    /// The peers when the socket was locked.
    pub(super) peers: Arc<PeerTable<Configured>>,
    pub(super) generation: Generation,
    /// The peer that the socket had before.
    pub(super) peer: Option<PeerName>,
    pub(super) found: Result<Found, Error>,
    pub(super) counters: Option<Counters>,
    pub(super) memories: &'a mut PeerTable<Memory>,
    pub(super) seen: &'a mut Seen,
}

/// The kind of a socket, `None` for a connection that has ended, and its peer.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) look: Option<Look>,
    pub(super) peer: Option<PeerName>,
}

impl KeyManager {
    /// Takes a step: brings the keys of all attached sockets in line with their peers' chains at `now`, which may be earlier than in the
    /// last step.
    ///
    /// Deleting a key from a connection waits in the kernel for some milliseconds. Meanwhile, other sockets can be attached and detached,
    /// and peers changed.
    #[must_use = "the report says which connections to shut down and when to step next"]
    pub fn step(&self, now: Timestamp) -> StepReport {
        self.step_sockets(now, true)
    }

    /// Takes a [`step`](Self::step) of the sockets that need one now, if any does. A socket needs one when a chain changes or a peer was
    /// changed; a listener when it has refused segments with a wrong MAC; a connection every second while its peer has not switched keys;
    /// and all sockets every 30 seconds and when the clock was set back.
    ///
    /// Call it about every second: with nothing due it makes one system call for each listener and returns `None`.
    #[must_use = "the report says which connections to shut down"]
    pub fn step_due(&self, now: Timestamp) -> Option<StepReport> {
        if self.shared.state().pace.is_long_ago(now) {
            return Some(self.step(now));
        }
        self.look_at_listeners(now);
        let state = self.shared.state();
        let is_due = state.pace.next().is_some_and(|next| next <= now)
            || state.sockets.iter().any(|entry| state.is_due(entry, now));
        drop(state);
        is_due.then(|| self.step_sockets(now, false))
    }

    /// Takes a [`step`](Self::step) of one socket that was [let go](Attachment::let_go), with any descriptor of it, which the manager does
    /// not keep. Logs what it did (feature `tracing`).
    ///
    /// # Errors
    /// With nothing changed, [`Error::AnotherSocket`] if it is not the socket that was attached, for instance because the program has
    /// closed that one and opened another; [`Error::Io`] if the descriptor cannot be duplicated.
    pub fn step_with(
        &self,
        attachment: &Attachment,
        socket: &(impl AsFd + ?Sized),
        now: Timestamp,
    ) -> Result<SocketReport, Error> {
        let _turn = lock(&self.shared.turn);
        let attached = self.shared.state().socket(attachment.number).ok_or(Error::AnotherSocket)?;
        let mut attached = lock(&attached);
        if !attached.take_up(socket)? {
            return Err(Error::AnotherSocket);
        }
        let report = self.step_socket(attachment.number, &mut attached, now);
        attached.let_go();
        self.finish_step();
        let report = report.ok_or(Error::AnotherSocket)?;
        crate::log::socket(&report);
        Ok(report)
    }

    /// Makes listeners due that have refused segments, so that a peer with a wrong secret is reported at once.
    fn look_at_listeners(&self, now: Timestamp) {
        let listeners = self.shared.state().listed(|entry| entry.state.peer.is_none());
        for (number, socket) in listeners {
            let Some(socket) = socket.upgrade() else { continue };
            // A locked socket is being stepped or attached right now.
            let Ok(attached) = socket.try_lock() else { continue };
            if !attached.is_let_go()
                && attached.counters().is_some_and(|counters| attached.seen.has_grown(&counters))
            {
                let mut state = self.shared.state();
                if let Some(index) = state.position(number) {
                    state.sockets[index].next = Some(now);
                }
            }
        }
    }

    /// Steps all sockets, or those that are due.
    fn step_sockets(&self, now: Timestamp, all: bool) -> StepReport {
        let _turn = lock(&self.shared.turn);
        let mut state = self.shared.state();
        state.pace.stepped(all.then_some(now));
        let generation = state.generation;
        let listed = state.listed(|entry| all || state.is_due(entry, now));
        drop(state);
        let sockets = listed
            .into_iter()
            .filter_map(|(number, socket)| self.step_socket(number, &mut lock(&*socket.upgrade()?), now));
        let sockets = sockets.collect();
        let peers = Arc::clone(&self.shared.state().peers);
        let has_key = |configured: &Configured| configured.chain.at(now).preferred().is_some();
        let expired = peers.iter().filter(|(_, configured)| !has_key(configured));
        let expired = expired.map(|(peer, _)| *peer).collect();
        let next_change = next_change(&peers, None, now);
        drop(peers);
        let mut state = self.shared.state();
        state.pace.no_later_than(next_change);
        let next_step = state.next_step().map(|next| next.max(now));
        drop(state);
        self.finish_step();
        StepReport { sockets, expired, next_step, generation }
    }

    /// Ends a step, also of one socket.
    pub(super) fn finish_step(&self) {
        self.shared.state().forget_old();
        self.shared.progressed();
    }

    /// Steps one socket; `None` if it has been detached or let go.
    fn step_socket(&self, number: u64, attached: &mut Attached, now: Timestamp) -> Option<SocketReport> {
        if attached.is_let_go() {
            return None;
        }
        // Read the chains once the socket is locked, so that a peer set during the step is not undone.
        let state = self.shared.state();
        let peer = state.sockets[state.position(number)?].state.peer;
        let (peers, generation) = (Arc::clone(&state.peers), state.generation);
        drop(state);
        // Read the counters before the keys: segments that arrive in between make the counters grow once more.
        let counters = attached.counters();
        let found = find(attached, &peers, peer);
        let Attached { descriptor, memories, seen, .. } = attached;
        let visit = Visit { number, peers, generation, peer, found, counters, memories, seen };
        self.visit(visit, &mut TcpAoSocket::new(descriptor), now)
    }

    /// Sets the keys of a socket, records how it stands to them, and carries out policies; `None` if it has been detached.
    pub(super) fn visit(
        &self,
        visit: Visit<'_>,
        calls: &mut impl Calls,
        now: Timestamp,
    ) -> Option<SocketReport> {
        let Visit { number, peers, generation, peer, found, counters, memories, seen } = visit;
        let mut state = self.shared.state();
        let index = state.position(number)?;
        let due_reset = state.sockets[index].reset.take();
        drop(state);
        let mut is_connecting = false;
        let (kind, peer, outcome) = match found {
            Ok(Found { look, peer }) => {
                let kind = look.map(|look| look.kind);
                is_connecting = look.is_some_and(|look| look.is_connecting);
                let is_reset = due_reset.is_some() && kind == Some(SocketKind::Connection);
                let look = look.filter(|_| !is_reset);
                (kind, peer, bring_in_line(look, peer, &peers, memories, calls, now))
            }
            Err(error) => {
                let failing = peer.into_iter().collect();
                (None, peer, Outcome { failed: vec![(None, error)], failing, ..Outcome::default() })
            }
        };
        let is_connection = kind == Some(SocketKind::Connection);
        let has_changed = !outcome.done.is_empty();
        let is_peer_behind = is_connection
            && !outcome.expired
            && peer.is_some_and(|peer| memories.get(&peer).is_some_and(Memory::is_peer_behind));
        let asks_for = peer.filter(|peer| is_connection && peers.contains_key(peer));
        let asks_for = asks_for.and_then(|peer| memories.get(&peer)?.asks_for());
        let finding = Finding {
            has_ended: kind.is_none() && outcome.failed.is_empty(),
            is_unsettled: !outcome.failed.is_empty(),
            is_unmoved: outcome.is_unmoved,
            has_chosen: is_connection && outcome.has_chosen(),
            is_asked: asks_for.is_some(),
            is_connecting,
            has_changed,
        };
        let again = outcome.next(is_peer_behind, now);
        let next = [again, next_change(&peers, peer, now)].into_iter().flatten().min();
        let mut failing = outcome.failing.clone();
        let expired = outcome.expired;
        let found = SocketState { peer, generation, expired, is_peer_behind, asks_for, counters };
        let mut report = SocketReport::new(number, kind, found, outcome, seen);
        let error = report.failed.first().map(|failed| in_words(failed).into());

        let mut state = self.shared.state();
        let Some(index) = state.position(number) else { return Some(report) };
        let version = |peers: &PeerTable<Configured>, peer: &PeerName| Some(peers.get(peer)?.version);
        let changed = peer.and_then(|peer| version(&peers, &peer)).unwrap_or(generation);
        let patience = peer.and_then(|peer| state.policy(peer)?.patience);
        let entry = &mut state.sockets[index];
        let has_expired = expired && !entry.state.expired;
        (entry.state, entry.next) = (found, next);
        let standing = &mut entry.standing;
        standing.record(finding, changed, now);
        standing.error = error;
        if patience.is_some_and(|patience| standing.is_out_of(patience, now)) {
            failing.extend(peer);
        }
        let look = standing.next_look(patience, now, IDLE);
        let look = look.or(standing.is_between.then(|| now.later_by(WAITING)));
        entry.next = [entry.next, look].into_iter().flatten().min();
        failing.sort_unstable();
        failing.dedup();
        // Not about keys that have been changed again in the meantime.
        failing.retain(|peer| version(&peers, peer) == version(&state.peers, peer));
        // A policy may change the table, which would be copied if it were still shared.
        drop(peers);
        report.policy.extend(due_reset.filter(|_| is_connection));
        for peer in failing {
            report
                .policy
                .extend(state.carry_out(index, peer, is_connection, now).map(|action| (peer, action)));
        }
        let entry = &mut state.sockets[index];
        let reset = is_connection && (entry.reset.take().is_some() || due_reset.is_some());
        entry.standing.has_ended |= reset;
        drop(state);
        if reset {
            calls.reset();
        }
        if !report.policy.is_empty() {
            self.shared.wake();
        }
        if has_expired {
            self.shared.notify();
        }
        Some(report)
    }
}

/// Reads the kind of a socket, and finds out its peer: the one that it had, unless it has connected since.
pub(super) fn find(
    attached: &mut Attached,
    peers: &PeerTable<Configured>,
    peer: Option<PeerName>,
) -> Result<Found, Error> {
    let look = attached.look(|| peers.keys().any(|peer| peer.interface.is_some()))?;
    let peer = match look {
        Some(Look { kind: SocketKind::Listener, .. }) => None,
        Some(Look { kind: SocketKind::Connection, remote: Some(address), scope, .. }) if peer.is_none() => {
            longest(peers, address, || attached.place(scope))?
        }
        _ => peer,
    };
    Ok(Found { look, peer })
}

/// Brings the keys of a socket in line with the chain of its peer, if it has one, or of all peers.
pub(super) fn bring_in_line(
    look: Option<Look>,
    peer: Option<PeerName>,
    peers: &PeerTable<Configured>,
    memories: &mut PeerTable<Memory>,
    calls: &mut impl Calls,
    now: Timestamp,
) -> Outcome {
    let Some(Look { kind, families, device, .. }) = look else { return Outcome::default() };
    let is_removed = peer.map_or(kind == SocketKind::Connection, |peer| !peers.contains_key(&peer));
    if is_removed {
        // Keep its keys, so that its owner can end the session in order.
        return Outcome { expired: true, ..Outcome::default() };
    }
    let outcome = Scope { peers, only: peer, families, device, now, kind }.apply(memories, calls);
    Outcome { expired: outcome.expired && peer.is_some(), ..outcome }
}
