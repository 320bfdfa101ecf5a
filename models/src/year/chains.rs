//! A session's keys for a year, the files that its two operators write, and when each key is valid, computed without the code under test.

use std::fmt::Write as _;
use std::sync::Arc;

use fastrand::Rng;
use wireseal_keys::{KeyChain, KeyChains, Timestamp};

/// The first second of the simulated year, 2026-01-01.
pub(super) const START: i64 = 1_767_225_600;
pub(super) const DAY: i64 = 86_400;
/// Seconds of a year.
pub(super) const YEAR: i64 = 365 * DAY;

/// Keys by number, a bit for each.
pub(super) type Keys = u64;

/// A file's times of a key, in seconds; the accept lifetime with the chain's tolerance.
#[derive(Clone, Copy, Debug)]
struct Times {
    send: (i64, i64),
    accept: (i64, i64),
}

/// The keys of a session, agreed on by both operators.
#[derive(Clone, Debug)]
pub(super) struct Agreement {
    /// When each key is first used; the first one always was.
    begins: Vec<i64>,
    /// The first key's SendID at the end that opens, and its RecvID there.
    ids: (u8, u8),
    algorithm: &'static str,
    /// For how many seconds the previous key may still sign.
    overlap: i64,
    /// By how many seconds accept lifetimes are longer at each end.
    pub(super) margin: i64,
    /// Whether the chain has a tolerance, or each key an accept lifetime.
    has_tolerance: bool,
    secret: u64,
}

impl Agreement {
    /// A new key every one to eight weeks.
    pub(super) fn new(random: &mut Rng) -> Self {
        let weeks = random.i64(1..=8);
        let mut begins = vec![i64::MIN];
        let mut next = START + random.i64(DAY..7 * weeks * DAY);
        while next < START + YEAR {
            begins.push(next);
            next += 7 * weeks * DAY + random.i64(-DAY..DAY);
        }
        let first = random.u8(..);
        // Some operators leave little time.
        let is_tight = random.u8(0..4) == 0;
        Self {
            begins,
            ids: (first, if random.bool() { first } else { random.u8(..) }),
            algorithm: random.choice(["AES-128-CMAC-96", "HMAC-SHA-1-96"]).expect("there are two"),
            overlap: if is_tight {
                10
            } else {
                random.choice([30, 60, 600, 6 * 3_600, DAY]).expect("there are some")
            },
            margin: if is_tight { 30 } else { random.choice([30, 60, 300, 3_600]).expect("there are some") },
            has_tolerance: random.bool(),
            secret: random.u64(..),
        }
    }

    /// How many keys there are; at most 64.
    pub(super) fn len(&self) -> usize {
        self.begins.len()
    }

    /// When a key is first used, in seconds.
    pub(super) fn begin(&self, key: usize) -> i64 {
        self.begins[key]
    }

    /// How many seconds late a file may bring a key without losing a session.
    pub(super) fn patience(&self) -> i64 {
        self.overlap + self.margin
    }

    /// The SendID and the RecvID of a key at an end.
    pub(super) fn ids(&self, key: usize, opens: bool) -> (u8, u8) {
        let (send, recv) = (self.ids.0.wrapping_add(key as u8), self.ids.1.wrapping_add(key as u8));
        if opens { (send, recv) } else { (recv, send) }
    }

    /// The key that has this SendID at an end.
    pub(super) fn number(&self, send_id: u8, opens: bool) -> Option<usize> {
        (0..self.len()).find(|key| self.ids(*key, opens).0 == send_id)
    }

    fn times(&self, key: usize, known: usize) -> Times {
        let from = self.begins[key];
        let until = match self.begins.get(key + 1) {
            // The operator ends a key when the next one begins.
            Some(next) if key + 1 < known => next + self.overlap,
            _ => i64::MAX,
        };
        let accept = (from.saturating_sub(self.margin), until.saturating_add(self.margin));
        Times { send: (from, until), accept }
    }

    /// The file of one end, with the first `known` keys.
    pub(super) fn text(&self, opens: bool, known: usize) -> String {
        let mut text = String::from("[[key-chain]]\nname = \"session\"\n");
        if self.has_tolerance {
            let _ = writeln!(text, "accept-tolerance = {}", self.margin);
        }
        for key in 0..known {
            let (Self { algorithm, secret, .. }, (send_id, recv_id)) = (self, self.ids(key, opens));
            let Times { send, accept } = self.times(key, known);
            let _ = write!(
                text,
                "[[key-chain.key]]\nkey-id = {key}\nsend-id = {send_id}\nrecv-id = {recv_id}\nalgorithm = \"{algorithm}\"\n\
                 secret = \"{secret:016x}, key {key:02} of the year\"\nsend = {{ {} }}\n",
                lifetime(send)
            );
            if !self.has_tolerance {
                let _ = writeln!(text, "accept = {{ {} }}", lifetime(accept));
            }
        }
        text
    }
}

fn lifetime((from, until): (i64, i64)) -> String {
    let time = |name, seconds| format!("{name} = {}", Timestamp::from_unix_seconds(seconds));
    let ends = [("from", from, i64::MIN), ("until", until, i64::MAX)];
    let ends = ends.into_iter().filter(|(_, seconds, open)| seconds != open);
    ends.map(|(name, seconds, _)| time(name, seconds)).collect::<Vec<_>>().join(", ")
}

/// What one end has read.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// The chain, as the code under test has read it.
    pub(super) chain: Arc<KeyChain>,
    times: Vec<Times>,
    /// How many of the session's keys are in it.
    pub(super) known: usize,
}

impl File {
    /// Reads a file with the first `known` keys.
    pub(super) fn read(agreement: &Agreement, opens: bool, known: usize) -> Result<Self, String> {
        let chains =
            KeyChains::from_toml(&agreement.text(opens, known)).map_err(|error| error.to_string())?;
        let chain = chains.get("session").ok_or("no chain")?.clone();
        let times = (0..known).map(|key| agreement.times(key, known)).collect();
        Ok(Self { chain: Arc::new(chain), times, known })
    }

    fn keys(&self, is: impl Fn(&Times) -> bool) -> Keys {
        self.times.iter().enumerate().fold(0, |keys, (key, times)| keys | Keys::from(is(times)) << key)
    }

    /// The keys that are accepted at this second.
    pub(super) fn valid(&self, second: i64) -> Keys {
        self.keys(|times| (times.accept.0..times.accept.1).contains(&second))
    }

    /// The keys whose accept lifetime is over.
    pub(super) fn over(&self, second: i64) -> Keys {
        self.keys(|times| times.accept.1 <= second)
    }

    /// The key to send with: of those valid for sending the one that began last.
    pub(super) fn preferred(&self, second: i64) -> Option<usize> {
        let sendable = self.keys(|times| (times.send.0..times.send.1).contains(&second));
        sendable.checked_ilog2().map(|key| key as usize)
    }
}
