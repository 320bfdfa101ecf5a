//! What is required of a session: whether a loss is excused, by when it must be back, and when nothing happens in any session.

use wireseal_keys::Timestamp;

use super::end::Half;
use super::tcp::{HOLD, Millis, State};
use super::world::{END, Session, World};

/// The longest quiet stretch that is skipped; a gateway forgets connections after three hours.
const LONGEST_SKIP: Millis = 55 * 60_000;
/// After a disturbance a loss is excused until the hold timer has run out, with some time to send.
const AFTERMATH: Millis = HOLD + 40_000;
/// The longest disturbance that may not cost a session, and the shortest time between two of them.
const SHORT: Millis = 50_000;
const APART: Millis = 100_000;
/// A session has to be back within this time.
const BACK: Millis = 240_000;

impl World {
    pub(super) fn place(&self, session: usize, side: usize) -> (usize, usize) {
        let Session { ends, halves, .. } = &self.sessions[session];
        (ends[side], halves[side])
    }

    pub(super) fn of_end(&self, end: usize) -> Vec<usize> {
        self.ends[end].halves.iter().map(|half| half.session).collect()
    }

    /// The network fails; a short failure that comes alone costs no session.
    pub(super) fn disturb(&mut self, session: usize, until: Millis) {
        let Session { disturbed_until, .. } = &mut self.sessions[session];
        let is_alone = *disturbed_until + APART < self.now;
        *disturbed_until = until.max(*disturbed_until);
        if !is_alone || until > self.now + SHORT {
            self.excuse(session, until);
        }
    }

    pub(super) fn excuse(&mut self, session: usize, until: Millis) {
        let session = &mut self.sessions[session];
        session.excused_until = session.excused_until.max(until + AFTERMATH);
        session.disturbed_until = session.disturbed_until.max(until);
    }

    /// Finds out whether a session has to last, and whether it has to come back.
    pub(super) fn evaluate(&mut self, number: usize) {
        let (now, places) = (self.now, [self.place(number, 0), self.place(number, 1)]);
        let [one, other] = places.map(|(end, half)| &self.ends[end].halves[half]);
        let session = &mut self.sessions[number];
        let common = one.held & other.held;
        let has = |keys: u64, key: Option<usize>| key.is_some_and(|key| keys >> key & 1 == 1);
        let is_configured = one.is_configured && other.is_configured;
        let has_keys = one.preferred.is_some() && other.preferred.is_some();
        // An end that has to leave its key signs with the one that it prefers.
        // One that has gone back may not hear that it has to.
        let signs_well = |side: usize, end: &Half, peer: &Half| {
            has(common, session.current[side].map(usize::from))
                || has(peer.held, end.preferred) && !session.has_gone_back[side]
        };
        let is_healthy = is_configured && has_keys && signs_well(0, one, other) && signs_well(1, other, one);
        let is_openable = is_configured && has_keys && has(other.valid, one.preferred);
        if !is_healthy || !session.is_healthy {
            session.excused_until = session.excused_until.max(now + AFTERMATH);
        }
        session.is_healthy = is_healthy;
        session.openable_since = if is_openable { session.openable_since.or(Some(now)) } else { None };
        places.into_iter().for_each(|(end, half)| self.follow_key(end, half));
    }

    /// Takes note of the key that an end signs with, if its session is open, and of whether it has gone back to it.
    pub(super) fn follow_key(&mut self, end: usize, half: usize) {
        let Some(current) = self.ends[end].current_key(half) else { return };
        let Half { session, opens, .. } = self.ends[end].halves[half];
        let (session, side) = (&mut self.sessions[session], usize::from(!opens));
        if let Some(before) = session.current[side].replace(current)
            && before != current
        {
            session.has_gone_back[side] = current < before;
        }
    }

    /// The keys of a session's ends, in words.
    pub(super) fn keys_of(&self, number: usize) -> String {
        let describe = |side| {
            let (end, half) = self.place(number, side);
            let (end, current) = (&self.ends[end], self.ends[end].current_key(half));
            let Half { valid, held, preferred, file, .. } = &end.halves[half];
            format!(
                "end {} ({:?}) shows {}, knows {} keys, {valid:#b} valid, {held:#b} held, signs with {current:?}, prefers {preferred:?}",
                end.number,
                end.kind,
                Timestamp::from_unix_seconds(end.clock.second(self.now)),
                file.known,
            )
        };
        [0, 1].map(describe).join("; ")
    }

    pub(super) fn is_up(&self, session: &Session) -> bool {
        let [opener, listener] = [0, 1].map(|side| {
            let half = &self.ends[session.ends[side]].halves[session.halves[side]];
            half.open.iter().find(|open| open.tcp.state == State::Established).map(|open| open.tcp.pair)
        });
        opener.zip(listener).is_some_and(|(one, other)| one == other.reversed())
    }

    /// A session that can be open is open, or comes back in time.
    pub(super) fn check_sessions(&mut self) -> Result<(), String> {
        for number in 0..self.sessions.len() {
            let is_up = self.is_up(&self.sessions[number]);
            let session = &mut self.sessions[number];
            if is_up {
                session.disturbed_until = session.disturbed_until.max(self.now.saturating_sub(APART));
                continue;
            }
            let Some(since) = session.openable_since else { continue };
            if self.now > since.max(session.disturbed_until).max(session.excused_until) + BACK {
                return Err(format!(
                    "session {number} does not come back, although its ends have keys in common"
                ));
            }
        }
        Ok(())
    }

    /// Skips a quiet stretch: nothing is on its way, and all sessions that can be open are open and have nothing to send.
    pub(super) fn skip(&mut self) {
        if self.in_flight > 0 || self.now < self.busy_until {
            return;
        }
        let is_calm = |session: &Session| {
            let [one, other] = [0, 1].map(|side| &self.ends[session.ends[side]].halves[session.halves[side]]);
            let is_idle = |half: &Half| half.open.iter().all(|open| open.tcp.is_idle());
            session.openable_since.is_none() || self.is_up(session) && is_idle(one) && is_idle(other)
        };
        if !self.sessions.iter().all(is_calm) {
            return;
        }
        let agenda = self.agenda.first_key_value().map_or(END, |((at, _), _)| *at);
        let edges = self.ends.iter().map(|end| end.next_edge(self.now));
        let until = edges.fold(agenda, Millis::min).saturating_sub(3_000).min(self.now + LONGEST_SKIP);
        if until > self.now + 30_000 {
            let length = until - self.now;
            self.ends.iter_mut().for_each(|end| end.skip(length, until));
            self.now = until;
            self.busy_until = until + 2_000;
        }
    }
}
