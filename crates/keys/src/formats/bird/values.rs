//! BIRD's values: defined names, keys and secrets.

use std::collections::HashMap;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::OptionCoverage;
use zeroize::Zeroizing;

use super::super::file::{ChainKey, Clock, Notation, Preference, Remark, Secret};
use super::super::obscured::hexadecimal;
use super::super::tree::{Kind, Statement, Word};
use crate::{Error, Lifetime, Problem};

/// The MAC length that Linux uses if asked for 0, as BIRD does.
pub(super) const MAC_LENGTH: usize = 12;

/// The values of `define`, by name.
#[derive(Default)]
pub(super) struct Defined<'a>(HashMap<&'a str, Word<'a>>);

impl<'a> Defined<'a> {
    /// `define NAME = VALUE;`, if the value is one word.
    pub(super) fn take(&mut self, statement: Statement<'_, 'a>) {
        let [_, name, value @ ..] = statement.words() else { return };
        let is_sign = value.first().is_some_and(|first| first.is("="));
        if let ([value], None) = (&value[usize::from(is_sign)..], statement.block()) {
            self.0.insert(unquoted(name.text()), self.value(value));
        }
    }

    /// The word that a name stands for, or the word itself.
    pub(super) fn value(&self, word: &Word<'a>) -> Word<'a> {
        let name = match word.kind {
            Kind::Plain(name) => unquoted(name),
            _ => return *word,
        };
        self.0.get(name).copied().unwrap_or(*word)
    }

    /// A text in quotes, or the name of one, if it can be shown.
    pub(super) fn text(&self, word: &Word<'a>) -> Option<String> {
        match self.value(word).kind {
            Kind::Quoted(text) if !text.contains(char::is_control) => Some(text.to_owned()),
            _ => None,
        }
    }

    /// Adds the keys of a `keys` block.
    pub(super) fn keys(
        &self,
        keys: Statement<'_, 'a>,
        read: &mut Vec<ChainKey>,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), Error> {
        let block = |statement: Statement<'_, 'a>, field| match statement.word(1).kind {
            Kind::Open => Ok(()),
            _ => Err(statement.word(1).expected(field, "{")),
        };
        block(keys, "keys")?;
        for statement in keys.inside() {
            let first = statement.word(0);
            if first.is("include") {
                remarks.push(not_followed(&first));
                continue;
            }
            if !first.is("key") {
                return Err(first.expected("keys", "key { ... };"));
            }
            block(statement, "key")?;
            match self.key(statement) {
                Ok(key) => read.push(key),
                Err(error) if error.is_of_other_algorithm() => {
                    let at = error.position().unwrap_or(first.position());
                    remarks.push(Remark { key_id: error.0.key_id, ..Remark::left_out(at, error.problem()) });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A key. As in BIRD, the last of several values counts.
    fn key(&self, key: Statement<'_, 'a>) -> Result<ChainKey, Error> {
        let (mut send_id, mut recv_id, mut secret, mut algorithm) = (None, None, None, None);
        let mut preference = Preference::Ordinary;
        for statement in key.inside() {
            let (word, value) = (statement.word(0), statement.word(1));
            let id = |word: Word<'a>, field| self.value(&word).key_id(field);
            let own_id = |field| match value.is("id") {
                true => id(statement.word(2), field),
                false => Err(value.expected(field, "id")),
            };
            let mut length = 2;
            if word.is("id") {
                let id = id(value, "id")?;
                (send_id, recv_id) = (Some(id), Some(id));
            } else if word.is("send") {
                (send_id, length) = (Some(own_id("send id")?), 3);
            } else if word.is("recv") {
                (recv_id, length) = (Some(own_id("recv id")?), 3);
            } else if word.is("secret") {
                secret = Some(self.secret(&value)?);
            } else if word.is("algorithm") {
                algorithm = match read_algorithm(statement) {
                    Err(error) if !error.is_of_other_algorithm() => return Err(error),
                    read => Some(read),
                };
                continue;
            } else if word.is("preferred") && preference != Preference::Deprecated {
                (preference, length) = (Preference::Preferred, 1);
            } else if word.is("deprecated") && preference != Preference::Preferred {
                (preference, length) = (Preference::Deprecated, 1);
            } else if word.is("preferred") || word.is("deprecated") {
                return Err(word.refused("key", "a key cannot be both preferred and deprecated"));
            } else {
                let known = "id, send id, recv id, secret, algorithm, preferred or deprecated";
                return Err(word.expected("key", known));
            }
            ended(statement, "key", length)?;
        }
        let at = key.word(0);
        let send_id = send_id.ok_or_else(|| at.missing("send id"))?;
        Ok(ChainKey {
            position: Some(at.position()),
            key_id: send_id.0.into(),
            send_id,
            recv_id: recv_id.ok_or_else(|| at.missing("recv id"))?,
            algorithm: algorithm
                .unwrap_or(Ok(TcpAoAlgorithm::HmacSha1))
                .map_err(|error| error.in_key(send_id.0.into()))?,
            mac_length: MAC_LENGTH,
            options: OptionCoverage::Covered,
            secret: secret.ok_or_else(|| at.missing("secret"))?,
            send: Lifetime::ALWAYS,
            accept: Lifetime::ALWAYS,
            clock: Clock::Utc,
            preference,
        })
    }

    /// A text, octets in hexadecimal, or the name of a text.
    fn secret(&self, word: &Word<'a>) -> Result<Secret, Error> {
        match self.value(word).kind {
            Kind::Quoted(text) => Ok(Secret::text(text)),
            Kind::Plain(text) => bytestring(text)
                .map(|octets| Secret::new(octets, Notation::Hexadecimal))
                .ok_or_else(|| {
                    let expected = "a text in quotes, hex: with pairs of digits, 10 or more pairs of digits, or a name \
                                    from a define above";
                    word.expected("secret", expected)
                }),
            _ => Err(word.missing("secret")),
        }
    }
}

/// Checks that a statement has at most `length` words and ends with `;`.
pub(super) fn ended(statement: Statement<'_, '_>, field: &'static str, length: usize) -> Result<(), Error> {
    let next = statement.word(length.min(statement.words().len()));
    if next.kind == Kind::End { Ok(()) } else { Err(next.expected(field, ";")) }
}

/// The words of an algorithm.
fn read_algorithm(statement: Statement<'_, '_>) -> Result<TcpAoAlgorithm, Error> {
    let first = statement.word(1);
    let mut name = first.text().to_owned();
    for word in statement.words().iter().skip(2) {
        match word.kind {
            // Anything longer than a name may be a secret after a missing ";".
            Kind::Plain(text) if name.len() < 32 => {
                name.push(' ');
                name.push_str(text);
            }
            _ => return Err(word.expected("algorithm", ";")),
        }
    }
    ended(statement, "algorithm", usize::MAX)?;
    let name = if name.contains(' ') { name } else { String::new() };
    name.parse().map_err(|error| first.error("algorithm", Problem::Algorithm(error)))
}

/// Octets as BIRD 3.3.0 and 2.19.0 write them: after `hex:`, or 10 or more pairs of digits without it (before, 16 or more).
fn bytestring(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    match text.strip_prefix("hex:") {
        Some(digits) => hexadecimal(digits),
        None => hexadecimal(text).filter(|octets| octets.len() >= 10),
    }
}

/// A symbol without apostrophes around it.
pub(super) fn unquoted(symbol: &str) -> &str {
    symbol.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\'')).unwrap_or(symbol)
}

/// The interface after `%`.
pub(super) fn scope(words: &[Word<'_>]) -> Option<String> {
    let at = words.iter().position(|word| word.is("%"))?;
    words.get(at + 1).map(|name| unquoted(name.text()).to_owned())
}

/// A remark about `include`.
pub(super) fn not_followed(at: &Word<'_>) -> Remark {
    let sentence = "the file that is included here is not read, and may have keys";
    Remark::warning("not-followed", Some(at.position()), sentence)
}
