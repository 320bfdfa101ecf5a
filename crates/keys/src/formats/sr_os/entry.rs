//! An entry of a keychain: its commands, and what they say.

use wireseal_algorithms::TcpAoAlgorithm;

use crate::formats::file::{Clock, Remark, Secret};
use crate::formats::tree::{self, Kind, Word, digits, once, unescaped};
use crate::{Error, Timestamp};

/// The algorithms for TCP-AO, those of RFC 5926. The others are for other protocols, or have a KDF that Nokia does not document.
const ALGORITHMS: [(&str, TcpAoAlgorithm); 2] =
    [("hmac-sha-1-96", TcpAoAlgorithm::HmacSha1), ("aes-128-cmac-96", TcpAoAlgorithm::Aes128Cmac)];
/// Algorithms of later releases whose KDF, for TCP-AO, is not documented.
const WITHOUT_KDF: [&str; 3] = ["aes-128-cmac-128", "hmac-sha-256-96", "hmac-sha-256-128"];
/// Algorithms for other protocols.
const FOR_OTHERS: [&str; 6] =
    ["password", "message-digest", "hmac-md5", "hmac-sha-1", "hmac-sha-256", "aes-128-gcm-16"];
/// Octets of the MAC of both algorithms.
pub(super) const MAC_LENGTH: usize = 12;
/// The largest number of an entry, which is the id of its key.
pub(super) const MAX_ID: u8 = 63;
/// The default tolerance in seconds.
const TOLERANCE: u64 = 300;
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
    /// Half the tolerance in seconds: by so much is it accepted before its begin and after its end.
    pub(super) tolerance: u32,
}

/// What an entry is.
pub(super) enum Reading<'a> {
    Key(Entry<'a>),
    /// Its key is left out, with a remark. In use for sending from this moment on.
    LeftOut(Option<Timestamp>),
    /// It is not in use, with a remark.
    Disabled,
}

/// A moment, `None` for one that is not a limit.
#[derive(Clone, Copy)]
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
        let (mut secret, mut algorithm, mut tolerance) = (None, None, None);
        let (mut begin, mut end, mut is_disabled) = (None, None, false);
        for command in &self.commands {
            let mut rest = &command[..];
            while let Some((name, values)) = rest.split_first() {
                let value =
                    || values.first().ok_or_else(|| name.expected("entry", "a value after this word"));
                let used = if name.is("authentication-key") || name.is("key") {
                    let field = "authentication-key";
                    let word = values.first().filter(|word| !is_keyword(word));
                    let word = *word.ok_or_else(|| name.refused(field, "the secret is missing"))?;
                    let encryption = values.get(1);
                    let encryption =
                        encryption.and_then(|word| ENCRYPTIONS.into_iter().find(|how| word.is(how)));
                    once(&mut secret, (word, encryption), name, field)?;
                    1 + usize::from(encryption.is_some())
                } else if name.is("algorithm") {
                    once(&mut algorithm, *value()?, name, "algorithm")?;
                    1
                } else if name.is("begin-time") {
                    let (moment, used) = moment(name, values, "begin-time")?;
                    once(&mut begin, moment, name, "begin-time")?;
                    used
                } else if name.is("end-time") {
                    let (moment, used) = moment(name, values, "end-time")?;
                    once(&mut end, moment, name, "end-time")?;
                    used
                } else if name.is("tolerance") {
                    let value = value()?;
                    let half = match value.is("infinite") || value.is("forever") {
                        true => u32::MAX,
                        false => (value.number("tolerance", MAX_TOLERANCE.into())? / 2) as u32,
                    };
                    once(&mut tolerance, half, name, "tolerance")?;
                    1
                } else if name.is("admin-state") {
                    is_disabled = value()?.is("disable");
                    1
                } else if name.is("shutdown") {
                    is_disabled = true;
                    0
                } else if name.is("no") && values.first().is_some_and(is_keyword) {
                    is_disabled &= !value()?.is("shutdown");
                    1
                // It is for IS-IS alone.
                } else if name.is("option") {
                    1
                } else {
                    remarks.push(Remark::not_understood(name.position()));
                    break;
                };
                rest = values.get(used..).unwrap_or_default();
            }
        }
        let mut left_out = |kind, sentence: String| {
            remarks.push(Remark::warning(
                kind,
                Some(self.at.position()),
                format!("{} {sentence}", self.name()),
            ));
        };
        if is_disabled {
            left_out("not-in-use", "is disabled, so its key is left out".into());
            return Ok(Reading::Disabled);
        }
        let (Moment(begin, clock), has_begin) = match begin {
            Some(begin) => (begin, true),
            None => (Moment(None, Clock::Utc), false),
        };
        if self.number > MAX_ID {
            remarks.push(
                Remark::warning(
                    "insecure",
                    Some(self.at.position()),
                    format!(
                        "{} is the null key: while it is the newest, sessions have no TCP-AO",
                        self.name()
                    ),
                )
                .lost(),
            );
            return Ok(Reading::LeftOut(begin));
        }
        let algorithm = algorithm.ok_or_else(|| self.at.missing("algorithm"))?;
        let known = ALGORITHMS.into_iter().find(|(name, _)| algorithm.is(name));
        let Some((_, algorithm)) = known else {
            let of = |names: &[&'static str]| names.iter().copied().find(|name| algorithm.is(name));
            if let Some(name) = of(&WITHOUT_KDF) {
                left_out(
                    "left-out",
                    format!("has algorithm {name}, whose KDF Nokia does not document: its key is left out"),
                );
            } else if let Some(name) = of(&FOR_OTHERS) {
                left_out(
                    "left-out",
                    format!("has algorithm {name}, which is not one of TCP-AO: its key is left out"),
                );
            } else {
                return Err(algorithm.expected("algorithm", "hmac-sha-1-96 or aes-128-cmac-96"));
            }
            return Ok(Reading::LeftOut(begin));
        };
        let (written, encryption) = secret.ok_or_else(|| self.at.missing("authentication-key"))?;
        if !has_begin {
            let sentence = "has no begin-time, and is taken as always valid: give it one, because the router may not use it without";
            left_out("not-in-use", sentence.into());
        }
        let secret = match encryption {
            Some(how) => Secret::encrypted(how),
            None => Secret::text(&unescaped(&written)),
        };
        let (end, end_clock) = end.map_or((None, clock), |Moment(end, clock)| (end, clock));
        if begin.zip(end).is_some_and(|(begin, end)| end <= begin) {
            return Err(self.at.refused("end-time", "must be after begin-time"));
        }
        Ok(Reading::Key(Entry {
            at: self.at,
            direction: self.direction,
            number: self.number,
            secret,
            written,
            algorithm,
            begin,
            end,
            clock: if end_clock == Clock::Local { end_clock } else { clock },
            tolerance: tolerance.unwrap_or((TOLERANCE / 2) as u32),
        }))
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

/// Whether it is a word of the language, and therefore no secret: those are in quotes if they look like one.
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
    let first = values.first().ok_or_else(expected)?;
    let is_time = |word: &&Word<'_>| word.text().contains(':') || word.is("UTC");
    let count = match first.kind {
        Kind::Quoted(_) => 1,
        _ => 1 + values[1..].iter().take_while(is_time).count(),
    };
    let mut words = values[..count].iter().flat_map(|word| word.text().split_whitespace());
    let word = words.next().ok_or_else(expected)?;
    // When a key was made valid at once is not in the text, but it is over.
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
            let date: Option<Vec<_>> = word.split('/').map(digits).collect();
            let moment = date.and_then(|date| tree::moment(date.try_into().ok()?, time, "Z"));
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
            format!("{time}{}:{}", offset.get(..3)?, offset.get(3..)?).parse().ok()
        }
        _ => text.parse().ok(),
    }
}
