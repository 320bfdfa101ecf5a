//! A manager's list of sockets, how a socket stays on it, and when each needs a step.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;
use std::{fmt, io};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use wireseal_keys::{KeyChain, Timestamp};

use crate::manager::apply::IDLE;
use crate::manager::look::{Attached, Identity};
use crate::manager::peers::{Configured, PeerTable, check, overlapping};
use crate::manager::policy::{OnFailure, Policy, PolicyAction, Standing};
use crate::manager::report::SocketState;
use crate::{Error, Generation, PeerName, SeenKey};

/// Shared by all handles and attachments of a manager.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) clock: Mutex<Clock>,
    /// The timer of an event loop. While it is locked the state may be locked, but not the other way round.
    pub(super) timer: Mutex<Weak<Timer>>,
    /// Held for a whole step, so that no step undoes a later one. Lock it before any socket.
    pub(super) turn: Mutex<()>,
    /// Wakes threads that wait for progress: after a step, a change of the peers, and a detached socket.
    progressed: Condvar,
    /// Wakes tasks that do.
    #[cfg(feature = "tokio")]
    pub(super) progressed_task: tokio::sync::Notify,
    /// Wakes tasks that wait for connections to expire or to be detached.
    #[cfg(feature = "tokio")]
    pub(super) expired: tokio::sync::Notify,
    /// Wakes the task that takes steps.
    #[cfg(feature = "tokio")]
    pub(super) due: tokio::sync::Notify,
}

/// Changes of peers: each with its new chain, or without one if it is removed. Also what such changes replaced.
pub(super) type Changes = PeerTable<Option<Configured>>;

/// The lists of peers and sockets. Locked only briefly, never during a call that can wait in the kernel.
#[derive(Default)]
pub(super) struct State {
    /// Shared with the step that is in progress.
    pub(super) peers: Arc<PeerTable<Configured>>,
    /// The number of changes of the peers.
    pub(super) generation: Generation,
    /// What the newest change replaced.
    replaced: Changes,
    /// The changes that were undone.
    pub(super) undone: Vec<Generation>,
    policies: PeerTable<Policy>,
    /// The chains that peers may have to go back to: only those whose policy says so and that have not all moved.
    old: PeerTable<Arc<KeyChain>>,
    /// What policies have done about peers since the last change of each.
    pub(super) given_up: PeerTable<PolicyAction>,
    /// In the order of their numbers.
    pub(super) sockets: Vec<Entry>,
    pub(super) next_number: u64,
    pub(super) pace: Pace,
}

/// A socket on the list. While the socket is locked the state may be locked, but not the other way round.
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) identity: Identity,
    pub(super) socket: Arc<Mutex<Attached>>,
    /// When it needs the next step.
    pub(super) next: Option<Timestamp>,
    /// The findings of its last step; its peer is known from the start, and by which generation it last got its keys.
    pub(super) state: SocketState,
    pub(super) standing: Standing,
    /// The next step resets the connection, because of a policy of this peer.
    pub(super) reset: Option<(PeerName, PolicyAction)>,
    /// The manager has no descriptor of it.
    pub(super) is_let_go: bool,
}

/// When the last step of all sockets was, and when the peers' chains next need one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    last: Option<Timestamp>,
    next: Option<Timestamp>,
}

impl Pace {
    /// Records a step: of all sockets at this time, or of those that were due.
    pub(super) fn stepped(&mut self, all: Option<Timestamp>) {
        *self = Self { last: all.or(self.last), next: None };
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
        self.last.is_none_or(|last| now < last) || self.regular() <= now
    }

    /// When all sockets need a step, even if nothing changes.
    fn regular(&self) -> Timestamp {
        self.last.map_or(Timestamp::MIN, |last| last.later_by(IDLE))
    }
}

impl State {
    pub(super) fn position(&self, number: u64) -> Option<usize> {
        self.sockets.binary_search_by_key(&number, |entry| entry.number).ok()
    }

    pub(super) fn socket(&self, number: u64) -> Option<Arc<Mutex<Attached>>> {
        self.position(number).map(|index| Arc::clone(&self.sockets[index].socket))
    }

    /// The numbers and sockets of these entries. The sockets may be detached and closed meanwhile.
    pub(super) fn listed(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<(u64, Weak<Mutex<Attached>>)> {
        let wanted = self.sockets.iter().filter(|entry| is_wanted(entry));
        wanted.map(|entry| (entry.number, Arc::downgrade(&entry.socket))).collect()
    }

    /// Whether a connection should be shut down, or is no longer attached.
    #[cfg(feature = "tokio")]
    pub(super) fn has_expired(&self, number: u64) -> bool {
        self.position(number).is_none_or(|index| self.sockets[index].state.expired)
    }

    /// Makes changes of the peers, which are the next generation.
    pub(super) fn change(&mut self, changes: Changes) -> Generation {
        let version = Generation(self.generation.0 + 1);
        self.generation = version;
        self.pace.no_later_than(Some(Timestamp::MIN));
        let peers = Arc::make_mut(&mut self.peers);
        self.replaced.clear();
        for (peer, change) in changes {
            // A peer that is removed or kept out does not get its keys back.
            let has_keys = change.as_ref().is_some_and(|configured| !configured.is_blocked);
            let replaced = match change {
                Some(configured) => peers.insert(peer, Configured { version, ..configured }),
                None => peers.remove(&peer),
            };
            self.given_up.remove(&peer);
            self.old.remove(&peer);
            let policy = self.policies.get(&peer).map(|policy| policy.on_failure);
            let may_go_back = has_keys && policy == Some(OnFailure::HoldOldKeys);
            if let Some(before) = replaced.as_ref().filter(|before| may_go_back && !before.is_blocked) {
                self.old.insert(peer, Arc::clone(&before.chain));
            }
            self.replaced.insert(peer, replaced);
        }
        version
    }

    /// Undoes the newest change by another, unless a policy has given a peer keys since that clash with those from before the change.
    pub(super) fn undo(&mut self) -> Result<Generation, Error> {
        for (peer, change) in &self.replaced {
            if let Some(Configured { chain, is_blocked: false, .. }) = change {
                self.check(&self.replaced, *peer, chain)?;
            }
        }
        self.undone.push(self.generation);
        let changes = std::mem::take(&mut self.replaced);
        let undone: Vec<PeerName> = changes.keys().copied().collect();
        let generation = self.change(changes);
        // No policy goes back to keys that were undone.
        self.old.retain(|peer, _| undone.binary_search(peer).is_err());
        Ok(generation)
    }

    /// Checks a new chain of a peer, as [`check`] does, against the other peers' as they will be after these changes.
    pub(super) fn check(
        &self,
        changes: &Changes,
        peer: PeerName,
        chain: &KeyChain,
    ) -> Result<PeerName, Error> {
        let changed = overlapping(changes, peer).filter_map(|(peer, change)| Some((peer, change.as_ref()?)));
        let stays = overlapping(&self.peers, peer).filter(|(other, _)| !changes.contains_key(other));
        let others = stays.chain(changed).filter(|(_, other)| !other.is_blocked);
        check(&others.map(|(other, configured)| (*other, configured.clone())).collect(), peer, chain)
    }

    /// Sets policies, and makes the connections due whose peer's policy is a new one.
    pub(super) fn set_policies(&mut self, mut policies: PeerTable<Policy>) {
        let default = Policy::default();
        policies.retain(|peer, policy| self.policies.get(peer).unwrap_or(&default) != policy);
        let is_new = |peer| policies.contains_key(&peer);
        for entry in self.sockets.iter_mut().filter(|entry| entry.state.peer.is_some_and(is_new)) {
            entry.next = Some(Timestamp::MIN);
        }
        for (peer, policy) in policies {
            if policy.on_failure != OnFailure::HoldOldKeys {
                self.old.remove(&peer);
            }
            if policy == default {
                self.policies.remove(&peer);
            } else {
                self.policies.insert(peer, policy);
            }
        }
    }

    pub(super) fn policy(&self, peer: PeerName) -> Option<&Policy> {
        self.policies.get(&peer)
    }

    /// Carries out the policy of a peer, once for each change of the peer and socket, because of a failure on the socket at `index`.
    pub(super) fn carry_out(
        &mut self,
        index: usize,
        peer: PeerName,
        is_connection: bool,
        now: Timestamp,
    ) -> Option<PolicyAction> {
        let policy = self.policies.get(&peer).filter(|policy| policy.on_failure != OnFailure::Retry)?.clone();
        let (entry, changed) = (&mut self.sockets[index], self.peers.get(&peer)?.version);
        let has_old_keys = self.given_up.get(&peer) == Some(&PolicyAction::HeldOldKeys);
        if policy.on_failure == OnFailure::ResetSession && !is_connection
            || policy.on_failure == OnFailure::HoldOldKeys && has_old_keys
            || !entry.standing.act(peer, changed)
        {
            return None;
        }
        let action = match policy.on_failure {
            OnFailure::Retry => return None,
            OnFailure::HoldOldKeys => self.hold_old_keys(peer, now),
            OnFailure::ResetSession => {
                entry.reset = Some((peer, PolicyAction::ResetSession));
                PolicyAction::ResetSession
            }
            OnFailure::ResetCohort => {
                self.reset_cohort(peer, policy.cohort.as_deref());
                PolicyAction::ResetCohort
            }
        };
        if action != PolicyAction::NoOldKeys {
            self.given_up.insert(peer, action);
        }
        Some(action)
    }

    /// Gives a peer its old chain again, and makes a step of all sockets with its keys due.
    fn hold_old_keys(&mut self, peer: PeerName, now: Timestamp) -> PolicyAction {
        let old = self.old.remove(&peer).filter(|chain| chain.at(now).preferred().is_some());
        // Another peer may have been given an id of an old key.
        let fits = |chain: &Arc<KeyChain>| self.check(&Changes::new(), peer, chain).is_ok();
        let Some(chain) = old.filter(fits) else { return PolicyAction::NoOldKeys };
        if let Some(configured) = Arc::make_mut(&mut self.peers).get_mut(&peer) {
            configured.chain = chain;
        }
        let concerned = |entry: &&mut Entry| entry.state.peer.is_none_or(|of| of == peer);
        for entry in self.sockets.iter_mut().filter(concerned) {
            (entry.next, entry.standing.is_unsettled) = (Some(Timestamp::MIN), true);
        }
        PolicyAction::HeldOldKeys
    }

    /// Has the next step reset the connections of all peers of a cohort, or of this peer alone.
    fn reset_cohort(&mut self, peer: PeerName, cohort: Option<&str>) {
        let policies = &self.policies;
        let is_of =
            |other: PeerName, cohort| policies.get(&other)?.cohort.as_deref().filter(|of| *of == cohort);
        let is_in =
            |other: PeerName| other == peer || cohort.is_some_and(|cohort| is_of(other, cohort).is_some());
        for entry in self.sockets.iter_mut().filter(|entry| entry.state.peer.is_some_and(is_in)) {
            (entry.next, entry.reset) = (Some(Timestamp::MIN), Some((peer, PolicyAction::ResetCohort)));
        }
    }

    /// Wipes the old chains of peers that have moved on all their sockets.
    pub(super) fn forget_old(&mut self) {
        if self.old.is_empty() {
            return;
        }
        let waits = |entry: &&Entry| {
            let Standing { is_unsettled, is_unmoved, has_ended, .. } = entry.standing;
            !has_ended && (is_unsettled || is_unmoved || !self.is_up_to_date(entry))
        };
        let waiting: HashSet<_> = self.sockets.iter().filter(waits).map(|entry| entry.state.peer).collect();
        // A listener, which has the keys of all peers, is without one.
        self.old.retain(|peer, _| waiting.contains(&None) || waiting.contains(&Some(*peer)));
    }

    /// The last change that matters to a socket: of its peer, or any if it has the keys of all peers.
    pub(super) fn last_change(&self, entry: &Entry) -> Generation {
        let configured = entry.state.peer.and_then(|peer| self.peers.get(&peer));
        configured.map_or(self.generation, |configured| configured.version)
    }

    /// Whether no peer whose keys it has was changed since its last step.
    pub(super) fn is_up_to_date(&self, entry: &Entry) -> bool {
        self.last_change(entry) <= entry.state.generation
    }

    /// Whether a socket needs a step: its time has come, or a peer whose keys it has was changed.
    pub(super) fn is_due(&self, entry: &Entry, now: Timestamp) -> bool {
        !self.is_up_to_date(entry) || entry.next.is_some_and(|next| next <= now)
    }

    /// When a step is due, as [`KeyManager::step_due`](crate::KeyManager::step_due) decides without looking at listeners. Sockets that were
    /// let go wait for [`KeyManager::step_with`](crate::KeyManager::step_with).
    pub(super) fn due(&self) -> Timestamp {
        let held = self.sockets.iter().filter(|entry| !entry.is_let_go);
        let changed = |entry: &Entry| if self.is_up_to_date(entry) { None } else { Some(Timestamp::MIN) };
        let of_sockets = held.filter_map(|entry| changed(entry).or(entry.next));
        of_sockets.chain(self.pace.next()).fold(self.pace.regular(), Timestamp::min)
    }

    /// When the next step is due if nothing changes.
    pub(super) fn next_step(&self) -> Option<Timestamp> {
        self.sockets.iter().map(|entry| entry.next).chain([self.pace.next()]).flatten().min()
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Wakes the thread or task that takes steps.
    pub(super) fn wake(&self) {
        if let Some(handle) = &lock(&self.clock).handle {
            handle.unpark();
        }
        #[cfg(feature = "tokio")]
        self.due.notify_one();
    }

    /// Sets the timer of an event loop, if there is one, to when a step is due.
    pub(super) fn set_timer(&self) {
        // Locked until it is set, so that what is read first is not set last.
        let timer = lock(&self.timer);
        if let Some(timer) = timer.upgrade() {
            timer.set(self.state().due());
        }
    }

    /// Wakes the thread or task that takes steps, and those that wait for progress, because peers were changed.
    pub(super) fn changed(&self) {
        self.wake();
        self.progressed();
    }

    /// Tells waiting tasks that a connection has expired or is detached.
    pub(super) fn notify(&self) {
        #[cfg(feature = "tokio")]
        self.expired.notify_waiters();
    }

    /// Wakes threads and tasks that wait for progress, and sets the timer to when the next step is due.
    pub(super) fn progressed(&self) {
        self.set_timer();
        self.progressed.notify_all();
        #[cfg(feature = "tokio")]
        self.progressed_task.notify_waiters();
    }

    /// Waits until there may be progress, for at most this long.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>, most: Duration) -> MutexGuard<'a, State> {
        self.progressed.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A timer of the kernel's (`timerfd`), also readable when the clock was set.
#[derive(Debug)]
pub(super) struct Timer(pub(super) OwnedFd);

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(timerfd_create(TimerfdClockId::Realtime, flags)?))
    }

    /// Makes it readable at this moment, or at once if that has passed.
    pub(super) fn set(&self, due: Timestamp) {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would stop it.
        let it_value = Timespec { tv_sec: due.unix_seconds().max(0), tv_nsec: 1 };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        // It fails for no timer and for a time below zero only.
        let _ = timerfd_settime(&self.0, flags, &Itimerspec { it_interval: none, it_value });
    }

    /// Makes it unreadable. It fails if it is, or the clock was set.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// The threads or tasks that take steps by the system clock. A token lives as long as its thread or task does, even if that panics or is
/// aborted.
#[derive(Default)]
pub(super) struct Clock {
    silent: Weak<()>,
    reporting: Weak<()>,
    /// The thread, to wake when peers change.
    pub(super) handle: Option<Thread>,
}

impl Clock {
    /// Lets a thread take steps that nobody wants reports of, unless steps are taken already.
    pub(super) fn claim_silently(&mut self) -> Option<Arc<()>> {
        if self.is_running() {
            return None;
        }
        let token = Arc::default();
        self.silent = Arc::downgrade(&token);
        Some(token)
    }

    /// Lets a thread or a task take steps and report them, in place of a silent thread.
    pub(super) fn claim_reporting(&mut self) -> Arc<()> {
        let token = self.reporting.upgrade().unwrap_or_default();
        self.reporting = Arc::downgrade(&token);
        token
    }

    pub(super) fn is_reporting(&self) -> bool {
        self.reporting.strong_count() > 0
    }

    /// Whether a thread or a task takes steps.
    pub(super) fn is_running(&self) -> bool {
        self.silent.strong_count() > 0 || self.is_reporting()
    }
}

/// Ignores poisoning: no panic leaves the state half-changed, and the keys themselves are on the sockets.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a socket attached to a [`KeyManager`](crate::KeyManager) until it is dropped; the socket then keeps the keys it has.
///
/// Drop it before the socket. The manager holds a duplicate of the descriptor, so closing the socket first does not end the
/// connection. Declare a local attachment after the socket, and a field before it. Dropping it does not wait for a step in progress, unless
/// it closes the last descriptor of a socket that lingers (`SO_LINGER`).
#[must_use = "dropping it leaves the socket's keys as they are"]
pub struct Attachment {
    pub(super) shared: Arc<Shared>,
    pub(super) number: u64,
}

impl Attachment {
    /// The socket's number in the manager's reports
    /// ([`SocketReport::attachment`](crate::SocketReport::attachment)). The manager never uses it for another socket.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The findings of the manager's last step about the socket.
    #[must_use]
    pub fn state(&self) -> SocketState {
        let state = self.shared.state();
        let entry = state.position(self.number).map(|index| &state.sockets[index]);
        entry.map(|entry| entry.state).unwrap_or_default()
    }

    /// The keys on the socket now, without their secrets, which are wiped at once: for a task that shows sessions and does not have their
    /// sockets. It reads them through the manager's own descriptor, and waits for a step of the socket that is in progress.
    ///
    /// # Errors
    /// [`Error::LetGo`] after [`let_go`](Self::let_go), and those of [`TcpAoSocket::seen_keys`](crate::TcpAoSocket::seen_keys).
    pub fn keys(&self) -> Result<Vec<SeenKey>, Error> {
        let socket = self.shared.state().socket(self.number).ok_or(Error::LetGo)?;
        let attached = lock(&socket);
        if attached.is_let_go() { Err(Error::LetGo) } else { attached.socket().seen_keys() }
    }

    /// Closes the manager's descriptor of the socket, and keeps what the manager knows of it. [Steps](crate::KeyManager::step) then skip
    /// the socket; call [`KeyManager::step_with`](crate::KeyManager::step_with) every second instead.
    ///
    /// This is for a supervisor of another program's sockets: closing the last descriptor closes a connection, so the supervisor must hold
    /// none. It waits for a step of the socket that is in progress.
    pub fn let_go(&self) {
        let mut state = self.shared.state();
        let Some(index) = state.position(self.number) else { return };
        state.sockets[index].is_let_go = true;
        let socket = Arc::clone(&state.sockets[index].socket);
        drop(state);
        lock(&socket).let_go();
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attachment").field(&self.number).finish()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let entry = state.position(self.number).map(|index| state.sockets.remove(index));
        // Unlock first, because closing a socket can take time. A step in progress keeps it open until the step's end.
        drop(state);
        drop(entry);
        self.shared.notify();
        self.shared.progressed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::manager::apply::Outcome;
    use crate::manager::tests::name;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_seconds(seconds)
    }

    #[test]
    fn all_sockets_are_stepped_after_a_while_and_when_the_clock_goes_back() {
        let mut pace = Pace::default();
        assert!(pace.is_long_ago(at(0)), "there was no step yet");
        pace.stepped(Some(at(100)));
        let due: Vec<i64> = (95..=131).filter(|now| pace.is_long_ago(at(*now))).collect();
        assert_eq!(due, [95, 96, 97, 98, 99, 130, 131]);
        for moment in [Some(105), None, Some(107)] {
            pace.no_later_than(moment.map(at));
        }
        assert_eq!(pace.next(), Some(at(105)));
        pace.stepped(None);
        assert!(pace.next().is_none() && !pace.is_long_ago(at(129)));
    }

    #[test]
    fn a_socket_that_is_not_done_is_stepped_soon() {
        let after = |failed, behind| {
            let outcome = Outcome { failed, again: Some(at(60)), ..Outcome::default() };
            outcome.next(behind, at(0))
        };
        assert_eq!(after(Vec::new(), false), Some(at(60)));
        assert_eq!(after(Vec::new(), true), Some(at(1)));
        assert_eq!(after(vec![(None, Error::KeyInUse(name(1, 1)))], false), Some(at(1)));
        assert_eq!(after(vec![(None, Error::NoMemory)], false), Some(at(30)));
    }
}
