//! The words of a router configuration, in order and without copies.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Position, Timestamp};
use wireseal_tcp_ao::KeyId;

use super::{TextError, TextProblem};

/// Whose configuration it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// Comments from `#` and in `/* */`; strings end on their line and have no escapes.
    Bird,
    /// The same comments; a backslash in a string escapes the next character.
    Junos,
    /// Lines that begin with `!` are comments; there are no strings and no blocks.
    IosXr,
}

/// A word, string or mark, with its position.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) kind: Kind<'a>,
    line: usize,
    line_start: usize,
    offset: usize,
    text: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// A word.
    Plain(&'a str),
    /// The inside of quotes, with escapes.
    Quoted(&'a str),
    /// `{`
    Open,
    /// `}`
    Close,
    /// `;`
    End,
    /// The end of a line.
    Line,
}

impl<'a> Word<'a> {
    /// Where it begins.
    pub(super) fn position(&self) -> Position {
        Position { line: self.line, column: self.text[self.line_start..self.offset].chars().count() + 1 }
    }

    /// How many characters precede it on its line.
    pub(super) fn indentation(&self) -> usize {
        self.position().column - 1
    }

    /// The word, or the inside of its quotes; empty for a mark.
    pub(super) const fn text(&self) -> &'a str {
        match self.kind {
            Kind::Plain(text) | Kind::Quoted(text) => text,
            _ => "",
        }
    }

    /// Whether it is this plain word, in upper or lower case.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self.kind, Kind::Plain(text) if text.eq_ignore_ascii_case(word))
    }

    /// An error at this place.
    pub(super) fn error(&self, field: &'static str, problem: TextProblem) -> TextError {
        TextError { position: self.position(), field, problem }
    }

    /// Its value as a number from 0 to `max`, decimal or with `0x`.
    pub(super) fn number(&self, field: &'static str, max: u64) -> Result<u64, TextError> {
        let number = match self.kind {
            Kind::Plain(text) => match text.strip_prefix("0x") {
                Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
                None if !text.starts_with('+') => text.parse().ok(),
                _ => None,
            },
            _ => None,
        };
        number
            .filter(|number| *number <= max)
            .ok_or_else(|| self.error(field, TextProblem::OutOfRange { max }))
    }

    /// Its value as a KeyID.
    pub(super) fn key_id(&self, field: &'static str) -> Result<KeyId, TextError> {
        self.number(field, u8::MAX.into()).map(|id| KeyId(id as u8))
    }

    /// Its value as an algorithm.
    pub(super) fn algorithm(&self, field: &'static str) -> Result<TcpAoAlgorithm, TextError> {
        self.text().parse().map_err(|error| self.error(field, TextProblem::Algorithm(error)))
    }
}

/// A number without a sign.
pub(super) fn digits(text: &str) -> Option<u16> {
    text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A moment of year, month and day, a time `HH:MM` or `HH:MM:SS`, and an offset such as `+00:00`.
pub(super) fn moment(date: [u16; 3], time: &str, offset: &str) -> Option<Timestamp> {
    let mut time = time.split(':').map(digits);
    let (hour, minute, second) = (time.next()??, time.next()??, time.next().unwrap_or(Some(0))?);
    let [year, month, day] = date;
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{offset}");
    text.parse().ok().filter(|_| time.next().is_none())
}

/// The words of a text, in order.
pub(super) struct Words<'a> {
    text: &'a str,
    dialect: Dialect,
    offset: usize,
    line: usize,
    line_start: usize,
}

impl<'a> Words<'a> {
    pub(super) const fn new(text: &'a str, dialect: Dialect) -> Self {
        Self { text, dialect, offset: 0, line: 1, line_start: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    /// A word that ends `length` octets from here.
    fn word(&mut self, length: usize, kind: Kind<'a>) -> Word<'a> {
        let Self { text, line, line_start, offset, .. } = *self;
        self.pass(length);
        Word { kind, line, line_start, offset, text }
    }

    /// Moves on by `length` octets, counting lines.
    fn pass(&mut self, length: usize) {
        for (index, _) in self.text[self.offset..self.offset + length].match_indices('\n') {
            self.line += 1;
            self.line_start = self.offset + index + 1;
        }
        self.offset += length;
    }

    fn unclosed(&mut self, field: &'static str) -> TextError {
        let error = self.word(0, Kind::Line).error(field, TextProblem::Unclosed);
        self.offset = self.text.len();
        error
    }

    /// The next word that is not the end of a line; `None` at the end of the text.
    pub(super) fn next_word(&mut self) -> Result<Option<Word<'a>>, TextError> {
        loop {
            match self.next()? {
                Some(Word { kind: Kind::Line, .. }) => {}
                other => return Ok(other),
            }
        }
    }

    /// The next word; `None` at the end of the text.
    pub(super) fn next(&mut self) -> Result<Option<Word<'a>>, TextError> {
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else { return Ok(None) };
            let braces = self.dialect != Dialect::IosXr;
            match first {
                '\n' => return Ok(Some(self.word(1, Kind::Line))),
                _ if first.is_whitespace() => self.pass(first.len_utf8()),
                '#' if braces => self.pass(rest.find('\n').unwrap_or(rest.len())),
                '!' if !braces && self.is_first_on_line() => self.pass(rest.find('\n').unwrap_or(rest.len())),
                '/' if braces && rest.starts_with("/*") => match rest[2..].find("*/") {
                    Some(length) => self.pass(length + 4),
                    None => return Err(self.unclosed("comment")),
                },
                '{' if braces => return Ok(Some(self.word(1, Kind::Open))),
                '}' if braces => return Ok(Some(self.word(1, Kind::Close))),
                ';' if braces => return Ok(Some(self.word(1, Kind::End))),
                '"' if braces => return self.quoted().map(Some),
                _ => {
                    let length = self.plain_length();
                    return Ok(Some(self.word(length, Kind::Plain(&rest[..length]))));
                }
            }
        }
    }

    fn is_first_on_line(&self) -> bool {
        self.text[self.line_start..self.offset].chars().all(char::is_whitespace)
    }

    /// The length of the plain word here, at least one octet.
    fn plain_length(&self) -> usize {
        let rest = self.rest();
        let ends = |c: char| {
            c.is_whitespace()
                || match self.dialect {
                    Dialect::Bird => "{};\"#=,()[]".contains(c),
                    Dialect::Junos => "{};\"#".contains(c),
                    Dialect::IosXr => false,
                }
        };
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = rest.find(ends).unwrap_or(rest.len()).max(first);
        let comment = if self.dialect == Dialect::IosXr { None } else { rest[..length].find("/*") };
        comment.map_or(length, |at| at.max(first))
    }

    /// The string that begins here.
    fn quoted(&mut self) -> Result<Word<'a>, TextError> {
        let inside = &self.rest()[1..];
        let mut escaped = false;
        for (index, c) in inside.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' if self.dialect == Dialect::Junos => escaped = true,
                '\n' if self.dialect == Dialect::Bird => break,
                '"' => return Ok(self.word(index + 2, Kind::Quoted(&inside[..index]))),
                _ => {}
            }
        }
        Err(self.unclosed("string"))
    }

    /// Skips the block whose `{` has just been read.
    pub(super) fn skip_block(&mut self) -> Result<(), TextError> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()?.map(|word| word.kind) {
                Some(Kind::Open) => depth += 1,
                Some(Kind::Close) => depth -= 1,
                Some(_) => {}
                None => return Err(self.unclosed("block")),
            }
        }
        Ok(())
    }

    /// The next word; there must be one.
    pub(super) fn expect(&mut self, field: &'static str) -> Result<Word<'a>, TextError> {
        match self.next_word()? {
            Some(word) => Ok(word),
            None => Err(self.unclosed(field)),
        }
    }
}

/// Takes a property that may be given once.
pub(super) fn once<T>(
    slot: &mut Option<T>,
    value: T,
    at: &Word<'_>,
    field: &'static str,
) -> Result<(), TextError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(at.error(field, TextProblem::Twice)),
    }
}
