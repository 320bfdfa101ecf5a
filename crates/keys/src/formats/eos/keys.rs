//! The secrets of an EOS profile: each is a key with one id, a secret and two lifetimes.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, OptionCoverage};

use super::super::file::{ChainKey, Clock, Preference, Remark, Secret};
use super::super::tree::{self, Word, digits};
use crate::{Error, Lifetime, Timestamp};

/// Octets of the MAC of both algorithms.
pub(super) const MAC_LENGTH: usize = 12;
/// A start that means none, because EOS has no lifetime with an end alone.
pub(super) const FIRST_MOMENT: Timestamp = Timestamp::from_unix_seconds(0);

/// The key in `ID [0|7|8a] SECRET LIFETIMES`, with any algorithm; `None` if its id cannot be one of TCP-AO.
pub(super) fn key(
    at: &Word<'_>,
    values: &[Word<'_>],
    remarks: &mut Vec<Remark>,
) -> Result<Option<ChainKey>, Error> {
    let Some((id, values)) = values.split_first() else { return Err(at.missing("secret")) };
    let Some(id) = digits(id.text()).and_then(|id| u8::try_from(id).ok()) else {
        let why = "its id is not a number from 0 to 255, and TCP-AO has no other ids";
        remarks.push(Remark::left_out(at.position(), why).about("the secret"));
        return Ok(None);
    };
    let (secret, mut rest) = secret(at, values)?;
    let (mut send, mut accept, mut clock) = (None, None, Clock::Utc);
    if let [both, after @ ..] = rest
        && both.is("infinite")
    {
        (send, accept) = (Some(Lifetime::ALWAYS), Some(Lifetime::ALWAYS));
        rest = after;
    }
    loop {
        rest = match rest {
            [word, after @ ..] if word.is("transmit-lifetime") && send.is_none() => {
                let (lifetime, after) = lifetime(word, after, "transmit-lifetime")?;
                send = Some(lifetime);
                after
            }
            [word, after @ ..] if word.is("receive-lifetime") && accept.is_none() => {
                let (lifetime, after) = lifetime(word, after, "receive-lifetime")?;
                accept = Some(lifetime);
                after
            }
            [word, after @ ..] if word.is("local-time") => {
                clock = Clock::Local;
                after
            }
            [word, ..] => {
                remarks.push(Remark::not_understood(word.position()).of_key(id.into()));
                break;
            }
            [] => break,
        }
    }
    Ok(Some(ChainKey {
        position: Some(at.position()),
        key_id: id.into(),
        send_id: KeyId(id),
        recv_id: KeyId(id),
        algorithm: TcpAoAlgorithm::HmacSha1,
        mac_length: MAC_LENGTH,
        options: OptionCoverage::Covered,
        secret,
        send: send.ok_or_else(|| at.missing("transmit-lifetime"))?,
        accept: accept.ok_or_else(|| at.missing("receive-lifetime"))?,
        clock,
        preference: Preference::Ordinary,
    }))
}

/// `[0] TEXT`, or `7 ...` or `8a ...`, which only EOS can decrypt; and what follows.
fn secret<'w, 'a>(at: &Word<'_>, values: &'w [Word<'a>]) -> Result<(Secret, &'w [Word<'a>]), Error> {
    let is = |word: &Word<'_>, names: &[&str]| names.iter().any(|name| word.is(name));
    let is_kind = |word: &Word<'_>| is(word, &["0", "7", "8a"]);
    let is_life = |word: &Word<'_>| is(word, &["infinite", "receive-lifetime", "transmit-lifetime"]);
    match values {
        [kind, text, rest @ ..] if is_kind(kind) && !is_life(text) => {
            let secret = match kind.text() {
                "0" => Secret::text(text.text()),
                // DES with a key that Arista has not published.
                "7" => Secret::encrypted("type 7 of EOS"),
                _ => Secret::encrypted("type 8a"),
            };
            Ok((secret, rest))
        }
        // Published configurations often have the type or the lifetimes, and no secret.
        [text, rest @ ..] if !is_kind(text) && !is_life(text) => Ok((Secret::text(text.text()), rest)),
        _ => Err(at.refused("secret", "the secret is missing")),
    }
}

/// `infinite`, or a start and an end; and what follows.
fn lifetime<'w, 'a>(
    at: &Word<'_>,
    values: &'w [Word<'a>],
    field: &'static str,
) -> Result<(Lifetime, &'w [Word<'a>]), Error> {
    let expected = "infinite, or YYYY-MM-DD HH:MM:SS and then infinite or YYYY-MM-DD HH:MM:SS";
    let expected = || at.expected(field, expected);
    let (from, until, rest) = match values {
        [word, rest @ ..] if word.is("infinite") => return Ok((Lifetime::ALWAYS, rest)),
        [date, time, word, rest @ ..] if word.is("infinite") => (moment(date, time), None, rest),
        [date, time, end_date, end_time, rest @ ..] => {
            let end = moment(end_date, end_time).ok_or_else(expected)?;
            (moment(date, time), Some(end), rest)
        }
        _ => return Err(expected()),
    };
    let from = from.ok_or_else(expected)?;
    let lifetime = Lifetime::new(Some(from).filter(|from| *from > FIRST_MOMENT), until);
    Ok((lifetime.map_err(|_| at.refused(field, "must end after it begins"))?, rest))
}

/// A date `YYYY-MM-DD` or `MM/DD/YYYY`, and a time.
fn moment(date: &Word<'_>, time: &Word<'_>) -> Option<Timestamp> {
    let american = || tree::date(date.text(), '/').map(|[month, day, year]| [year, month, day]);
    tree::moment(tree::date(date.text(), '-').or_else(american)?, time.text(), "Z")
}
