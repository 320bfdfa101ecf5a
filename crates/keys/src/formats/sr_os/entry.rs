//! An entry of a keychain: its commands, and what they say.

use wireseal_algorithms::TcpAoAlgorithm;

use super::super::file::{Clock, Remark, Secret};
use super::super::tree::{self, Word, once, unescaped};
use crate::{Error, Timestamp};

/// The algorithms for TCP-AO, those of RFC 5926. The others are for other protocols, or have a KDF that Nokia does not document.
const ALGORITHMS: [(&str, TcpAoAlgorithm); 2] =
    [("hmac-sha-1-96", TcpAoAlgorithm::HmacSha1), ("aes-128-cmac-96", TcpAoAlgorithm::Aes128Cmac)];
/// Algorithms of later releases, which are not known to derive keys as Wireseal does, and those for other protocols.
const OTHERS: [(&str, &str); 9] = [
    ("aes-128-cmac-128", WITHOUT_KDF),
    ("hmac-sha-256-96", WITHOUT_KDF),
    ("hmac-sha-256-128", WITHOUT_KDF),
    ("password", NOT_OF_AO),
    ("message-digest", NOT_OF_AO),
    ("hmac-md5", NOT_OF_AO),
    ("hmac-sha-1", NOT_OF_AO),
    ("hmac-sha-256", NOT_OF_AO),
    ("aes-128-gcm-16", NOT_OF_AO),
];
const WITHOUT_KDF: &str = "whose KDF Nokia does not document";
const NOT_OF_AO: &str = "which is not one of TCP-AO";
/// Octets of the MAC of both algorithms.
pub(super) const MAC_LENGTH: usize = 12;
/// The largest number of an entry, which is the id of its key.
pub(super) const MAX_ID: u8 = 63;
/// The default tolerance in seconds.
const TOLERANCE: u32 = 300;
/// The largest tolerance in seconds that is not infinite.
pub(super) const MAX_TOLERANCE: u32 = 4_294_967_294;
/// Keys that start before this have no start: SR OS is younger, and requires a start for every key.
pub(super) const NO_START_BEFORE: Timestamp = Timestamp::from_unix_seconds(946_771_200);
/// How secrets are encrypted: only the router, or another one, can decrypt them.
const ENCRYPTIONS: [&str; 3] = ["hash", "hash2", "custom"];

/// What the keys of an entry are used for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Both,
    Send,
    Receive,
}

/// An entry as it stands in the text. Its commands are read only once the keychain is known to be for TCP-AO.
pub(super) struct Draft<'a> {
    /// The word `entry`.
    pub(super) at: Word<'a>,
    pub(super) direction: Direction,
    pub(super) number: u8,
    pub(super) commands: Vec<Vec<Word<'a>>>,
}

/// An entry with a key for TCP-AO.
pub(super) struct Entry<'a> {
    pub(super) at: Word<'a>,
    pub(super) direction: Direction,
    pub(super) number: u8,
    pub(super) secret: Secret,
    /// The secret as it is written, which may be encrypted.
    pub(super) written: Word<'a>,
    pub(super) algorithm: TcpAoAlgorithm,
    pub(super) begin: Option<Timestamp>,
    pub(super) end: Option<Timestamp>,
    pub(super) clock: Clock,
    /// Half the tolerance in seconds: the entry is accepted this long before its begin and after its end.
    pub(super) tolerance: u32,
}

/// What an entry is.
pub(super) enum Reading<'a> {
    Key(Entry<'a>),
    /// Its key is left out, with a remark, but the router sends with it from this moment on.
    LeftOut(Option<Timestamp>),
    /// It is not in use, with a remark.
    Disabled,
}

/// A moment, `None` for one that is not a limit.
#[derive(Clone, Copy, Default)]
struct Moment(Option<Timestamp>, Clock);

impl<'a> Draft<'a> {
    /// Its name in sentences.
    pub(super) fn name(&self) -> String {
        name(self.direction, self.number)
    }

    /// Whether its algorithm is one for TCP-AO.
    pub(super) fn is_for_ao(&self) -> bool {
        let mut words = self.commands.iter().flatten();
        words.any(|word| ALGORITHMS.iter().any(|(name, _)| word.is(name)))
    }

    /// Reads its commands. What is to be said is added to the remarks.
    pub(super) fn read(&self, remarks: &mut Vec<Remark>) -> Result<Reading<'a>, Error> {
        let mut properties = Properties::default();
        for command in &self.commands {
            let mut rest = &command[..];
            while let Some((name, values)) = rest.split_first() {
                let Some(taken) = properties.take(name, values)? else {
                    remarks.push(Remark::not_understood(name.position()));
                    break;
                };
                rest = values.get(taken..).unwrap_or_default();
            }
        }
        let remark = |kind, sentence| {
            let sentence = format!("{} {sentence}", self.name());
            Remark::warning(kind, Some(self.at.position()), sentence)
        };
        let Moment(begin, _) = properties.begin.unwrap_or_default();
        if properties.is_disabled {
            remarks.push(remark("not-in-use", "is disabled, so its key is left out"));
            return Ok(Reading::Disabled);
        }
        if self.number > MAX_ID {
            let sentence = "is the null key: while it is the newest, sessions have no TCP-AO";
            remarks.push(remark("accepts-mismatch", sentence).lost());
            return Ok(Reading::LeftOut(begin));
        }
        let name = properties.algorithm.ok_or_else(|| self.at.missing("algorithm"))?;
        let Some((_, algorithm)) = ALGORITHMS.into_iter().find(|(known, _)| name.is(known)) else {
            let (other, why) = OTHERS
                .into_iter()
                .find(|(other, _)| name.is(other))
                .ok_or_else(|| name.expected("algorithm", "hmac-sha-1-96 or aes-128-cmac-96"))?;
            let why = format_args!("its algorithm is {other}, {why}");
            remarks.push(Remark::left_out(self.at.position(), why).about(self.name()));
            return Ok(Reading::LeftOut(begin));
        };
        if properties.begin.is_none() {
            let sentence = "has no begin-time, and is taken as always valid: give it one, because the router may not use it without";
            remarks.push(remark("assumed", sentence));
        }
        properties.key(self, algorithm).map(Reading::Key)
    }
}

/// What the commands of an entry say.
#[derive(Default)]
struct Properties<'a> {
    /// How the secret is written, and how it is encrypted.
    secret: Option<(Word<'a>, Option<&'static str>)>,
    algorithm: Option<Word<'a>>,
    begin: Option<Moment>,
    end: Option<Moment>,
    /// Half the tolerance.
    tolerance: Option<u32>,
    is_disabled: bool,
}

impl<'a> Properties<'a> {
    /// Takes a property and returns how many of these values it has; `None` for one that is not understood.
    fn take(&mut self, name: &Word<'a>, values: &[Word<'a>]) -> Result<Option<usize>, Error> {
        let value = || values.first().ok_or_else(|| name.expected("entry", "a value after this word"));
        if name.is("authentication-key") || name.is("key") {
            let field = "authentication-key";
            let word = values.first().filter(|word| !is_keyword(word));
            let word = *word.ok_or_else(|| name.refused(field, "the secret is missing"))?;
            let after = values.get(1).and_then(|word| ENCRYPTIONS.into_iter().find(|how| word.is(how)));
            once(&mut self.secret, (word, after.or_else(|| encryption_inside(word.text()))), name, field)?;
            return Ok(Some(1 + usize::from(after.is_some())));
        }
        if name.is("begin-time") {
            let (moment, taken) = moment(name, values, "begin-time")?;
            once(&mut self.begin, moment, name, "begin-time")?;
            return Ok(Some(taken));
        }
        if name.is("end-time") {
            let (moment, taken) = moment(name, values, "end-time")?;
            once(&mut self.end, moment, name, "end-time")?;
            return Ok(Some(taken));
        }
        if name.is("algorithm") {
            once(&mut self.algorithm, *value()?, name, "algorithm")?;
        } else if name.is("tolerance") {
            let value = value()?;
            let half = match value.is("infinite") || value.is("forever") {
                true => u32::MAX,
                false => (value.number("tolerance", MAX_TOLERANCE.into())? / 2) as u32,
            };
            once(&mut self.tolerance, half, name, "tolerance")?;
        } else if name.is("admin-state") {
            self.is_disabled = value()?.is("disable");
        } else if name.is("shutdown") {
            self.is_disabled = true;
            return Ok(Some(0));
        } else if name.is("no") && values.first().is_some_and(is_keyword) {
            self.is_disabled &= !values[0].is("shutdown");
        // This is for IS-IS alone.
        } else if !name.is("option") {
            return Ok(None);
        }
        Ok(Some(1))
    }

    fn key(&self, draft: &Draft<'a>, algorithm: TcpAoAlgorithm) -> Result<Entry<'a>, Error> {
        let (written, how) = self.secret.ok_or_else(|| draft.at.missing("authentication-key"))?;
        let [begin, end] = [self.begin, self.end].map(Option::unwrap_or_default);
        if begin.0.zip(end.0).is_some_and(|(begin, end)| end <= begin) {
            return Err(draft.at.refused("end-time", "must be after begin-time"));
        }
        Ok(Entry {
            at: draft.at,
            direction: draft.direction,
            number: draft.number,
            secret: match how {
                Some(how) => Secret::encrypted(how),
                None => Secret::text(&unescaped(&written)),
            },
            written,
            algorithm,
            begin: begin.0,
            end: end.0,
            clock: if end.1 == Clock::Local { end.1 } else { begin.1 },
            tolerance: self.tolerance.unwrap_or(TOLERANCE / 2),
        })
    }
}

impl Entry<'_> {
    /// Its name in sentences.
    pub(super) fn name(&self) -> String {
        name(self.direction, self.number)
    }
}

/// SR OS's name of an algorithm for TCP-AO.
pub(super) fn algorithm_name(algorithm: TcpAoAlgorithm) -> Option<&'static str> {
    ALGORITHMS.into_iter().find(|(_, has)| *has == algorithm).map(|(name, _)| name)
}

fn name(direction: Direction, number: u8) -> String {
    let direction = match direction {
        Direction::Both => "",
        Direction::Send => "send ",
        Direction::Receive => "receive ",
    };
    format!("{direction}entry {number}")
}

/// How a secret is encrypted that says so itself: MD-CLI prints `"SECRET hash2"`, with the word in the quotes.
pub(super) fn encryption_inside(secret: &str) -> Option<&'static str> {
    let (before, last) = secret.rsplit_once(' ')?;
    ENCRYPTIONS.into_iter().find(|how| *how == last && !before.is_empty())
}

/// Whether it is a keyword, and so not a secret: a secret that looks like one is in quotes.
fn is_keyword(word: &Word<'_>) -> bool {
    const WORDS: [&str; 8] = [
        "algorithm",
        "begin-time",
        "end-time",
        "tolerance",
        "option",
        "admin-state",
        "shutdown",
        "description",
    ];
    ENCRYPTIONS.iter().chain(&WORDS).any(|keyword| word.is(keyword))
}

/// The moment at the beginning of these words, and how many of them it takes: `2026-01-31T00:00:00.0Z`, with any offset, or in classic CLI
/// `2026/01/31 [00:00[:00]] [UTC]`, `now` or `forever`, also in quotes.
fn moment(at: &Word<'_>, values: &[Word<'_>], field: &'static str) -> Result<(Moment, usize), Error> {
    let expected =
        || at.expected(field, "a time such as 2026-01-31T00:00:00Z, 2026/01/31 00:00:00 UTC, now or forever");
    let is_time = |word: &&Word<'_>| word.text().contains(':') || word.is("UTC");
    let (_, more) = values.split_first().ok_or_else(expected)?;
    let count = 1 + more.iter().take_while(is_time).count();
    let mut words = values[..count].iter().flat_map(|word| word.text().split_whitespace());
    let word = words.next().ok_or_else(expected)?;
    // `now` was the moment of the command. The text does not have it, but it has passed.
    if word == "forever" || word == "now" && field == "begin-time" {
        return Ok((Moment(None, Clock::Utc), count));
    }
    let read = match word.split_once('T') {
        Some(_) => rfc_3339(word).map(|moment| (moment, Clock::Utc)),
        None => {
            let time = words.next();
            let (time, utc) = match time {
                Some("UTC") => ("00:00", time),
                Some(time) => (time, words.next()),
                None => ("00:00", None),
            };
            let moment = tree::date(word, '/').and_then(|date| tree::moment(date, time, "Z"));
            let clock = match utc {
                Some("UTC") => Some(Clock::Utc),
                Some(_) => None,
                None => Some(Clock::Local),
            };
            moment.zip(clock)
        }
    };
    let (moment, clock) = read.filter(|_| words.next().is_none()).ok_or_else(expected)?;
    let limit = Some(moment).filter(|moment| field != "begin-time" || *moment >= NO_START_BEFORE);
    Ok((Moment(limit, clock), count))
}

/// A moment of RFC 3339; the colon in its offset may be missing.
fn rfc_3339(text: &str) -> Option<Timestamp> {
    let offset =
        text.len().checked_sub(5).filter(|at| text.is_char_boundary(*at)).map(|at| text.split_at(at));
    match offset {
        Some((time, offset)) if offset.starts_with(['+', '-']) && !offset.contains(':') => {
            let (hours, minutes) = offset.split_at_checked(3)?;
            format!("{time}{hours}:{minutes}").parse().ok()
        }
        _ => text.parse().ok(),
    }
}
