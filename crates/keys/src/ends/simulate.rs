//! Finds when one end signs segments that the other does not accept.
//!
//! An end signs with the key that its implementation chooses among those that are valid for sending by its clock, or with the one that its
//! peer requests (RNextKeyID, RFC 5925 §7.3). Wireseal's own ends sign with a key past its send lifetime only while the peer requests it or
//! has not signed with the next one. Here that is the same, because a peer requests the keys that it signs with. The other end accepts the
//! segment if it has a key with that RecvID that agrees in every field that changes the MAC, and its own clock is within that key's accept
//! lifetime, with tolerance.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::iter;

use wireseal_tcp_ao::{KeyId, OptionCoverage};

use super::Difference;
use crate::{Chain, ChainKey, Clock, Implementation, Lifetime, Preference, SendingRule, Timestamp};

/// One end of a session: its keys, and the implementation that uses them.
#[derive(Clone, Copy, Debug)]
pub struct ConfiguredEnd<'a> {
    /// Its keys, as this end has them: it sends their SendIDs.
    pub chain: &'a Chain,
    /// The implementation, which chooses among them.
    pub implementation: Implementation,
}

/// One of the two ends of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The first.
    One,
    /// The second.
    Other,
}

impl Side {
    /// Both, in order.
    pub const BOTH: [Self; 2] = [Self::One, Self::Other];

    /// The other end.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::One => Self::Other,
            Self::Other => Self::One,
        }
    }
}

/// A period in which the peer may refuse segments of one end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outage {
    /// Its first moment, by the clock of the end that signs.
    pub from: Timestamp,
    /// The first moment after it, or the end of the simulated period.
    pub until: Timestamp,
    /// The end that signs.
    pub signer: Side,
    /// The name of the key that it signs with, as [`Chain::name_of`] returns it; `None` if it has none.
    pub key: Option<String>,
    /// Why the other end does not accept it.
    pub reason: Reason,
}

/// Why the peer does not accept a segment. Keys are named as [`Chain::name_of`] names them; the peer's key is the one that the segment's
/// KeyID selects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The signing end has no key whose send lifetime contains its clock, so it sends nothing.
    NoKey,
    /// No key of the peer has this RecvID.
    UnknownId(KeyId),
    /// The peer's key differs; the signer's value is the first.
    Differs(Difference, String),
    /// The peer does not accept its key before this moment, by the clock that its lifetimes are read from.
    NotYet(Timestamp, Clock, String),
    /// The peer does not accept its key from this moment on, by the clock that its lifetimes are read from.
    NoLonger(Timestamp, Clock, String),
}

impl Reason {
    /// Its kind in reports, such as `not-yet`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NoKey => "no-key",
            Self::UnknownId(_) => "unknown-id",
            Self::Differs(difference, _) => difference.kind(),
            Self::NotYet(..) => "not-yet",
            Self::NoLonger(..) => "no-longer",
        }
    }
}

impl Outage {
    /// The outage as a sentence: `edge-a signs with core/101, which edge-b does not accept before 2026-07-01T01:00:00Z`. `names` are the
    /// names of the two ends.
    #[must_use]
    pub fn sentence(&self, names: [&str; 2]) -> String {
        let [signer, peer] = [self.signer, self.signer.peer()].map(|side| names[side as usize]);
        let own = self.key.as_deref().unwrap_or_default();
        let key = called(own);
        let what = match &self.reason {
            Reason::NoKey => return format!("{signer} has no key that is valid for sending"),
            Reason::UnknownId(id) => format!(", but {peer} has no key with RecvID {id}"),
            Reason::Differs(Difference::Algorithm([signed, expected]), name) => {
                format!(" and {signed}, but {} of {peer} has {expected}", called(name))
            }
            Reason::Differs(Difference::MacLength([signed, expected]), name) => {
                format!(" and MACs of {signed} octets, but {} of {peer} has {expected}", called(name))
            }
            Reason::Differs(Difference::Options([signed, _]), name) => match signed {
                OptionCoverage::Covered => {
                    format!(" and covers the TCP options, but {} of {peer} excludes them", called(name))
                }
                OptionCoverage::Excluded => {
                    format!(" and excludes the TCP options, but {} of {peer} covers them", called(name))
                }
            },
            Reason::Differs(Difference::Secret, name) => {
                format!(", but {} of {peer} has another secret", called(name))
            }
            Reason::NotYet(moment, clock, name) => {
                let key = same_or_named(own, name);
                format!(", which {peer} does not accept{key} before {}", clock.shown(*moment))
            }
            Reason::NoLonger(moment, clock, name) => {
                let key = same_or_named(own, name);
                format!(", which {peer} does not accept{key} from {} on", clock.shown(*moment))
            }
        };
        format!("{signer} signs with {key}{what}")
    }
}

/// The peer's name for a key, if it differs.
fn same_or_named(key: &str, of_peer: &str) -> String {
    if key == of_peer { String::new() } else { format!(" (as {})", called(of_peer)) }
}

/// The name of a key in a sentence: in a chain without a name, it is only a number.
fn called(name: &str) -> Cow<'_, str> {
    if name.parse::<u64>().is_ok() { format!("key {name}").into() } else { name.into() }
}

/// Every period between `from` and `until` in which the other end does not accept a segment that one end may sign, in order of start; empty
/// if the session works throughout.
///
/// The signing end's clock is taken to be right, and its peer's to be up to `skew_seconds` ahead or behind. Lifetimes in [local
/// time](Clock::Local) are taken to be up to [`Clock::UNCERTAINTY`] off, by the same amount for all keys of an end. If two of the peer's
/// keys have the RecvID of a segment, both must accept it. A secret that only the router can decrypt is assumed to be right:
/// [`Difference::can_compare_secrets`] is false for such keys.
///
/// ```
/// use std::path::Path;
///
/// use wireseal_keys::{Format, Timestamp, meet, outages, read};
///
/// let key = "secret = 'for both ends'\nalgorithm = 'AES-128-CMAC-96'\n";
/// let one = format!("[[key-chain]]\nname = 'core'\n[[key-chain.key]]\nsend-id = 1\nrecv-id = 2\n{key}");
/// let other = format!("[[key-chain]]\nname = 'edge'\n[[key-chain.key]]\nsend-id = 2\nrecv-id = 3\n{key}");
/// let one = read(Path::new("one.toml"), &one, Some(Format::Toml))?;
/// let other = read(Path::new("other.toml"), &other, Some(Format::Toml))?;
///
/// let [core, edge] = meet([&one, &other], None)?.ends;
/// let found = outages(core, edge, 300, Timestamp::now(), Timestamp::MAX);
/// let said: Vec<_> = found.iter().map(|outage| outage.sentence(["A", "B"])).collect();
/// assert_eq!(said, ["A signs with core/1, but B has no key with RecvID 1"]);
/// # Ok::<(), wireseal_keys::Error>(())
/// ```
#[must_use]
pub fn outages(
    one: ConfiguredEnd<'_>,
    other: ConfiguredEnd<'_>,
    skew_seconds: u32,
    from: Timestamp,
    until: Timestamp,
) -> Vec<Outage> {
    let ends = [Rules::of(one), Rules::of(other)];
    let mut outages = Vec::new();
    for side in Side::BOTH {
        let (signer, receiver) = (&ends[side as usize], &ends[side.peer() as usize]);
        let seen = receiver.events.iter();
        let seen = seen.flat_map(|event| [event.earlier_by(skew_seconds), event.later_by(skew_seconds)]);
        let events =
            signer.events.iter().copied().chain(seen).filter(|event| from < *event && *event < until);
        let mut starts: Vec<_> = iter::once(from).filter(|from| *from < until).chain(events).collect();
        starts.sort_unstable();
        starts.dedup();
        // Nothing changes between one start and the next.
        let ends = starts.iter().copied().skip(1).chain(iter::once(until));
        let mut open: Vec<Outage> = Vec::new();
        for (from, until) in starts.iter().copied().zip(ends) {
            let failures = failures(signer, receiver, from, skew_seconds);
            let (mut going_on, mut over) = (Vec::new(), Vec::new());
            for outage in open {
                let goes_on =
                    failures.iter().any(|(key, reason)| outage.key == *key && outage.reason == *reason);
                if goes_on { going_on.push(Outage { until, ..outage }) } else { over.push(outage) }
            }
            outages.append(&mut over);
            for (key, reason) in failures {
                if !going_on.iter().any(|outage| outage.key == key && outage.reason == reason) {
                    going_on.push(Outage { from, until, signer: side, key, reason });
                }
            }
            open = going_on;
        }
        outages.append(&mut open);
    }
    outages.sort_by_key(|outage| (outage.from, outage.signer));
    outages
}

/// What an end's clock may show: UTC, and its local time.
#[derive(Clone, Copy)]
struct Reading {
    utc: Timestamp,
    local: Timestamp,
}

impl Reading {
    fn is_in(self, lifetime: &Lifetime, clock: Clock) -> bool {
        lifetime.contains(match clock {
            Clock::Utc => self.utc,
            Clock::Local => self.local,
        })
    }
}

/// An end, and the moments at which the keys that it signs with or accepts may change.
struct Rules<'a> {
    end: ConfiguredEnd<'a>,
    acceptances: Vec<Lifetime>,
    /// The starts and ends of lifetimes in local time.
    local: Vec<Timestamp>,
    /// All moments at which the keys that the end may use change, in UTC.
    events: Vec<Timestamp>,
}

impl<'a> Rules<'a> {
    fn of(end: ConfiguredEnd<'a>) -> Self {
        let acceptances: Vec<_> = end.chain.keys.iter().map(|key| end.chain.acceptance(key)).collect();
        let (mut local, mut events) = (Vec::new(), Vec::new());
        for (key, acceptance) in end.chain.keys.iter().zip(&acceptances) {
            let moments = [key.send.from(), key.send.until(), acceptance.from(), acceptance.until()];
            match key.clock {
                Clock::Utc => events.extend(moments.into_iter().flatten()),
                Clock::Local => local.extend(moments.into_iter().flatten()),
            }
        }
        for moment in &local {
            events.extend([moment.earlier_by(Clock::UNCERTAINTY), moment.later_by(Clock::UNCERTAINTY)]);
        }
        for moments in [&mut local, &mut events] {
            moments.sort_unstable();
            moments.dedup();
        }
        Self { end, acceptances, local, events }
    }

    /// One reading for each state that this end can be in when the other end's clock shows `at`.
    fn readings(&self, at: Timestamp, skew_seconds: u32) -> Vec<Reading> {
        let mut readings = Vec::new();
        for utc in within(&self.events, at, skew_seconds) {
            if self.local.is_empty() {
                readings.push(Reading { utc, local: utc });
            } else {
                let locals = within(&self.local, utc, Clock::UNCERTAINTY);
                readings.extend(locals.map(|local| Reading { utc, local }));
            }
        }
        readings
    }

    /// The keys that its implementation may choose for sending, which are also those that it requests with RNextKeyID.
    fn choices(&self, reading: Reading) -> Vec<usize> {
        let keys = &self.end.chain.keys;
        let valid = || (0..keys.len()).filter(|key| reading.is_in(&keys[*key].send, keys[*key].clock));
        let preferred = keys.iter().position(|key| key.preference == Preference::Preferred);
        let preferred = preferred.filter(|preferred| valid().any(|key| key == *preferred));
        match self.end.implementation.sending() {
            SendingRule::Unspecified => valid().collect(),
            SendingRule::LatestStart if preferred.is_some() => preferred.into_iter().collect(),
            SendingRule::Rank => valid().min_by_key(|key| keys[*key].preference).into_iter().collect(),
            SendingRule::LongestLifetime => {
                let length = |key: &usize| {
                    let (from, until) = (keys[*key].send.from()?, keys[*key].send.until()?);
                    Some(until.unix_seconds() - from.unix_seconds())
                };
                // One without a start or an end is the longest.
                valid().min_by_key(|key| length(key).map(Reverse)).into_iter().collect()
            }
            SendingRule::LatestStart => {
                let latest = |clock: Option<Clock>| {
                    let started =
                        move |key: &usize| keys[*key].send.from().map(|_| keys[*key].clock) == clock;
                    valid().filter(started).min_by_key(|key| Reverse(keys[*key].send.from()))
                };
                // Which of a universal and a local time is later is not known.
                let known: Vec<_> =
                    [Clock::Utc, Clock::Local].into_iter().filter_map(|clock| latest(Some(clock))).collect();
                if known.is_empty() { latest(None).into_iter().collect() } else { known }
            }
        }
    }

    fn name(&self, key: &ChainKey) -> String {
        self.end.chain.name_of(key)
    }
}

/// The moment `distance` seconds before `at`, then each of `moments` from there to `distance` seconds after `at`.
fn within(moments: &[Timestamp], at: Timestamp, distance: u32) -> impl Iterator<Item = Timestamp> {
    let (first, last) = (at.earlier_by(distance), at.later_by(distance));
    let [from, until] = [first, last].map(|end| moments.partition_point(|moment| *moment <= end));
    iter::once(first).chain(moments[from..until].iter().copied())
}

/// Why segments that are signed at this moment may be refused, with the names of the keys.
fn failures(
    signer: &Rules<'_>,
    receiver: &Rules<'_>,
    at: Timestamp,
    skew_seconds: u32,
) -> Vec<(Option<String>, Reason)> {
    let mut found = Vec::new();
    let mut add = |failure| {
        if !found.contains(&failure) {
            found.push(failure);
        }
    };
    let keys = &signer.end.chain.keys;
    let of_receiver = receiver.readings(at, skew_seconds);
    for reading in signer.readings(at, 0) {
        let chosen = signer.choices(reading);
        if chosen.is_empty() {
            add((None, Reason::NoKey));
            continue;
        }
        for theirs in &of_receiver {
            let requests = receiver.choices(*theirs);
            let is_requested = |index: usize| {
                let key = &keys[index];
                let is_there = reading.is_in(&key.send, key.clock)
                    || reading.is_in(&signer.acceptances[index], key.clock);
                is_there
                    && requests.iter().any(|theirs| receiver.end.chain.keys[*theirs].recv_id == key.send_id)
            };
            for index in (0..keys.len()).filter(|index| chosen.contains(index) || is_requested(*index)) {
                if let Some(reason) = refusal(&keys[index], receiver, *theirs) {
                    add((Some(signer.name(&keys[index])), reason));
                }
            }
        }
    }
    found
}

/// Why the receiver does not accept a segment signed with this key; `None` if it does.
fn refusal(signed: &ChainKey, receiver: &Rules<'_>, reading: Reading) -> Option<Reason> {
    let keys = receiver.end.chain.keys.iter().zip(&receiver.acceptances);
    let with_id: Vec<_> = keys.filter(|(key, _)| key.recv_id == signed.send_id).collect();
    let differs = |key: &ChainKey| {
        let difference = Difference::between(signed, key).into_iter().next()?;
        Some(Reason::Differs(difference, receiver.name(key)))
    };
    let mut accepted =
        with_id.iter().filter(|(key, acceptance)| reading.is_in(acceptance, key.clock)).peekable();
    if accepted.peek().is_some() {
        return accepted.find_map(|(key, _)| differs(key));
    }
    // The key that would be right at another time, or else the first.
    let right = with_id.iter().find(|(key, _)| differs(key).is_none());
    let Some((key, acceptance)) = right.or(with_id.first()) else {
        return Some(Reason::UnknownId(signed.send_id));
    };
    Some(differs(key).unwrap_or_else(|| {
        let now = match key.clock {
            Clock::Utc => reading.utc,
            Clock::Local => reading.local,
        };
        let name = receiver.name(key);
        match acceptance.until().filter(|_| acceptance.is_over(now)) {
            Some(until) => Reason::NoLonger(until, key.clock, name),
            // It has a start, or it would be accepted.
            None => Reason::NotYet(acceptance.from().unwrap_or(now), key.clock, name),
        }
    }))
}
