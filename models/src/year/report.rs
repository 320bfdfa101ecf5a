//! Faults that can be injected around the real code, the summary of a year, and a failure: an invariant that did not hold.

use std::fmt;

use super::tcp::Millis;

/// Where an end has TCP-AO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// In the kernel, whose keys the key manager of `wireseal-linux` adds and deletes.
    Kernel,
    /// In a gateway below a stack that has none: `wireseal_tcp_ao::shim`.
    Gateway,
}

/// A fault that the real code once had or could have, injected around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
#[value(rename_all = "verbatim")]
pub enum Fault {
    /// RNextKeyID is heard only from segments that are not older than the newest by sequence number, so not from retransmissions.
    DeafToRetransmissions,
    /// A key is deleted at the end of its send lifetime, although the peer may hold no other.
    DeletesKeyInUse,
    /// A retransmission from before 2^32 is signed with the SNE of the newest segment.
    RetransmitsWithNewestSne,
    /// When the clock was set back, keys that are valid later are deleted from live connections.
    ClockSetBackDeletesKeys,
    /// A verified SYN, which may be a replay, ends the connection that is open.
    SynReplacesConnection,
    /// Without a key to sign with, segments pass unsigned.
    PassesUnsigned,
    /// Keys stay after their accept lifetime.
    ExpiredKeysStay,
}

/// What has happened in a year.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Routers, and sessions between them.
    pub ends: usize,
    /// Sessions between the routers.
    pub sessions: usize,
    /// Keys of all sessions.
    pub keys: usize,
    /// Segments that were sent.
    pub sent: u64,
    /// Segments that were accepted.
    pub accepted: u64,
    /// Packets that an attacker has sent, and how many of them were accepted: replays within their own connection.
    pub attacks: u64,
    /// Replays that were accepted, within the connection to which they belong.
    pub replays: u64,
    /// Events at routers and in the network.
    pub events: u64,
    /// Sessions that were opened.
    pub opened: u64,
    /// Times at which an end lost a session, each for a reason that excuses it.
    pub lost: u64,
}

impl Summary {
    /// Adds another year's numbers.
    pub fn add(&mut self, other: &Self) {
        let Self { ends, sessions, keys, sent, accepted, attacks, replays, events, opened, lost } = *other;
        self.ends += ends;
        self.sessions += sessions;
        self.keys += keys;
        self.sent += sent;
        self.accepted += accepted;
        self.attacks += attacks;
        self.replays += replays;
        self.events += events;
        self.opened += opened;
        self.lost += lost;
    }
}

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the year.
    pub seed: u64,
    /// Milliseconds since the start of the year.
    pub at: u64,
    /// What is wrong.
    pub what: String,
    /// The last events, the newest at the end.
    pub recent: Vec<String>,
}

/// A moment of the year: day, time and milliseconds.
pub(super) struct Moment(pub(super) Millis);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1_000, self.0 % 1_000);
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
        write!(f, "day {days:3} {hours:02}:{minutes:02}:{:02}.{millis:03}", seconds % 60)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.recent {
            writeln!(f, "  {event}")?;
        }
        write!(f, "seed {}, {}: {}", self.seed, Moment(self.at), self.what)
    }
}
