//! What configurations of IOS XR, IOS XE and NX-OS have in common: secrets, lifetimes and dates.

use std::fmt::Write;

use wireseal_tcp_ao::OptionCoverage;

use super::file::{Chain, ChainKey, Notation, Secret};
use super::obscured::{cisco_seven, to_cisco_seven};
use super::tree::{self, Word, digits};
use crate::{Error, Lifetime, Timestamp};

/// The earliest moment that Cisco's systems can express; a key that starts then has no start.
pub(super) const FIRST_MOMENT: Timestamp = Timestamp::from_unix_seconds(725_846_400);
/// The last year that Cisco's systems can express.
const LAST_YEAR: u16 = 2035;
/// Why a key is left out that says something else about TCP options than the first one.
pub(super) const ALL_OR_NONE: &str = "covers TCP options for all keys of a neighbor or for none";
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// `[clear|0] TEXT`, `password|7 TYPE-7`, or `password6|6 TYPE-6`, which only the router can decrypt.
pub(super) fn key_string(at: &Word<'_>, values: &[Word<'_>]) -> Result<Secret, Error> {
    let field = "key-string";
    let is = |word: &Word<'_>, names: [&str; 2]| names.iter().any(|name| word.is(name));
    let [plain, seven, six] = [["clear", "0"], ["password", "7"], ["password6", "6"]];
    match values {
        // Published configurations often have the keyword, and no secret.
        [] => Err(at.missing(field)),
        [kind] if is(kind, plain) || is(kind, seven) || is(kind, six) => {
            Err(kind.refused(field, "the secret is missing"))
        }
        [text] => Ok(Secret::text(text.text())),
        [kind, text] if is(kind, plain) => Ok(Secret::text(text.text())),
        // NX-OS prints it in quotes.
        [kind, text] if is(kind, seven) => match cisco_seven(text.text().trim_matches('"')) {
            Some(octets) => Ok(Secret::new(octets, Notation::CiscoSeven)),
            None => Err(text.expected(field, "a type 7 password")),
        },
        [kind, _] if is(kind, six) => Ok(Secret::encrypted("type 6")),
        _ => Err(at.expected(field, "clear, password or password6, and one word")),
    }
}

/// `TIME DATE`, followed by nothing, `infinite`, `duration SECONDS` or `TIME DATE`, in UTC.
pub(super) fn lifetime(at: &Word<'_>, values: &[Word<'_>], field: &'static str) -> Result<Lifetime, Error> {
    let expected = "HH:MM:SS DAY MONTH YEAR and then infinite, duration SECONDS or HH:MM:SS DAY MONTH YEAR";
    let expected = || at.expected(field, expected);
    let (start, end) = values.split_first_chunk().ok_or_else(expected)?;
    let start = moment(start).ok_or_else(expected)?;
    let until = match end {
        [] => None,
        [end] if end.is("infinite") => None,
        [duration, seconds] if duration.is("duration") => {
            Some(start.later_by(seconds.number(field, u32::MAX.into())? as u32))
        }
        end => Some(end.try_into().ok().and_then(moment).ok_or_else(expected)?),
    };
    Lifetime::new(Some(start).filter(|start| *start != FIRST_MOMENT), until)
        .map_err(|_| at.refused(field, "must end after it begins"))
}

/// A time, and a date of three words: the name of the month, a year of four digits and the day in any order.
fn moment([time, date @ ..]: &[Word<'_>; 4]) -> Option<Timestamp> {
    let (mut year, mut month, mut day) = (None, None, None);
    for word in date {
        let text = word.text().to_ascii_lowercase();
        let known = MONTHS.iter().position(|month| text.len() >= 3 && month.starts_with(&text));
        match known {
            Some(index) => month = Some(index as u16 + 1),
            None if text.len() == 4 => year = digits(&text),
            None => day = digits(&text),
        }
    }
    tree::moment([year?, month?, day?], time.text(), "Z")
}

/// Whether the first key covers TCP options, which a neighbor does for all of its keys or for none.
pub(super) fn coverage(chain: &Chain) -> OptionCoverage {
    chain.keys.first().map_or(OptionCoverage::Covered, |key| key.options)
}

/// Leaves out keys with other `options`, for which `why_not` gives the reason, and keys that expired before 1993.
pub(super) fn keep_writable(
    chain: &mut Chain,
    title: &str,
    options: OptionCoverage,
    why_not: &str,
    losses: &mut Vec<String>,
) {
    let names: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
    let mut names = names.iter();
    chain.keys.retain(|key| {
        let name = names.next().map_or("", String::as_str);
        let reason = match () {
            () if [key.send, key.accept].iter().any(|lifetime| lifetime.is_over(FIRST_MOMENT)) => {
                format!("it expired before 1993, where lifetimes of {title} begin")
            }
            () if key.options != options => format!("{title} {why_not}"),
            () => return true,
        };
        losses.push(format!("key {name} is left out: {reason}"));
        false
    });
}

/// Records as a loss that a key has times before or after those of Cisco's systems.
pub(super) fn lose_times(chain: &Chain, key: &ChainKey, title: &str, losses: &mut Vec<String>) {
    let year =
        |moment: Timestamp| moment.to_string().get(..4).and_then(|year| year.parse().ok()).unwrap_or(0);
    let is_outside = |moment: Timestamp| moment <= FIRST_MOMENT || year(moment) > LAST_YEAR;
    let moments = [key.send.from(), key.send.until(), key.accept.from(), key.accept.until()];
    if moments.into_iter().flatten().any(is_outside) {
        losses.push(format!(
            "key {}: {title} has no times before 1993-01-01T00:00:01Z or after {LAST_YEAR}",
            chain.name_of(key)
        ));
    }
}

/// Writes a secret after the word for plain text, or else after the word for type 7.
pub(super) fn write_secret(text: &mut String, secret: &Secret, [plain, seven]: [&str; 2]) {
    let octets = secret.expose();
    // On the command line a question mark shows help.
    if octets.iter().all(|octet| octet.is_ascii_graphic() && *octet != b'?') {
        let _ = write!(text, "{plain} ");
        text.extend(octets.iter().map(|octet| char::from(*octet)));
    } else {
        let _ = write!(text, "{seven} {}", to_cisco_seven(octets).as_str());
    }
    text.push('\n');
}

/// `00:00:00 january 31 2026`
pub(super) fn write_moment(text: &mut String, moment: Timestamp) {
    text.push_str(&parts(moment).join(" "));
}

/// The time, the name of the month, the day of two digits, and the year.
pub(super) fn parts(moment: Timestamp) -> [String; 4] {
    // 2026-01-31T00:00:00Z
    let written = moment.to_string();
    let mut parts = written.split(['-', 'T', 'Z']);
    let [year, month, day, time] = std::array::from_fn(|_| parts.next().unwrap_or_default().to_owned());
    let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    [time, month.copied().unwrap_or_default().to_owned(), day, year]
}
