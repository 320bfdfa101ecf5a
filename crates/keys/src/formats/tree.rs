//! A router's configuration as a tree of statements, in order and without copies: blocks in braces or modes by indentation, and one-line
//! commands.

use std::borrow::Cow;
use std::ops::Range;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::KeyId;
use zeroize::Zeroizing;

use crate::{Error, Position, Problem, Timestamp};

/// How a router's configuration is written.
pub(super) struct Dialect {
    pub(super) blocks: Blocks,
    /// How deep statements may be nested.
    pub(super) depth: usize,
    /// What an error calls an unfinished block that starts with this word.
    pub(super) block: fn(&Word<'_>) -> &'static str,
}

/// How statements contain others.
pub(super) enum Blocks {
    /// Between braces; each statement ends with `;`. Comments are from `#` to the end of the line, and in `/* */`.
    Braces {
        /// The characters that end a word besides white space.
        ends: &'static str,
        /// Whether a backslash in a string escapes the next character, and strings have several lines.
        escapes: bool,
        /// Whether the text may have commands: outside of all blocks each line is a statement, unless a line with `{` alone follows it.
        has_commands: bool,
        /// Whether a surplus `}` is an error.
        is_balanced: bool,
    },
    /// By indentation, each line a statement. Lines that start with `!` are comments.
    Indentation {
        /// Whether lines may have prompts before them.
        has_prompts: bool,
    },
    /// The same, also with `#` before comments; `#` in the first column ends every mode. If no command is indented, as in text that went
    /// through mail or a form, or of a session with prompts, statements contain others by their ranks.
    Ranks {
        /// The rank of a command, from 1; `None` for others, which belong to the line right above them and otherwise to nothing.
        rank: Rank,
        /// Whether words may be in double quotes.
        has_quotes: bool,
    },
    /// As Nokia writes them: each line a statement, and inside it those between braces or, without braces, those further to the right.
    /// Strings have quotes, and a backslash escapes the next character. Lines that start with `#` are comments.
    Lines {
        /// Whether there are braces.
        has_braces: bool,
    },
}

impl Blocks {
    /// Nokia's format: it has braces if any line that is not a comment ends with one.
    pub(super) fn of_lines(text: &str) -> Self {
        let mut statements = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        Self::Lines { has_braces: statements.any(|line| line.ends_with(['{', '}'])) }
    }
}

/// How deep a command is, from 1, if that is known.
type Rank = fn(&[Word<'_>]) -> Option<usize>;

/// A word, string or mark, with its position.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) kind: Kind<'a>,
    position: Position,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Plain(&'a str),
    /// The inside of quotes, with escapes.
    Quoted(&'a str),
    /// `{`
    Open,
    /// `}`
    Close,
    /// `;`
    End,
    /// The end of a line or of the text.
    Line,
}

impl<'a> Word<'a> {
    /// A word that begins here.
    pub(super) const fn plain(text: &'a str, position: Position) -> Self {
        Self { kind: Kind::Plain(text), position }
    }

    /// Where it begins.
    pub(super) const fn position(&self) -> Position {
        self.position
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
    pub(super) fn error(&self, field: &'static str, problem: Problem) -> Error {
        Error::from(problem).field(field).at(self.position)
    }

    /// An error in words.
    pub(super) fn refused(&self, field: &'static str, reason: impl Into<Cow<'static, str>>) -> Error {
        self.error(field, Problem::Text(reason.into()))
    }

    /// An error that says what was expected here instead.
    pub(super) fn expected(&self, field: &'static str, what: &str) -> Error {
        self.refused(field, format!("expected {what}"))
    }

    /// An error that says that this field is missing.
    pub(super) fn missing(&self, field: &'static str) -> Error {
        self.refused(field, "is missing")
    }

    /// Its value as a number from 0 to `max`, decimal or with `0x`.
    pub(super) fn number(&self, field: &'static str, max: u64) -> Result<u64, Error> {
        let number = match self.kind {
            Kind::Plain(text) => match text.strip_prefix("0x") {
                Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
                None if !text.starts_with('+') => text.parse().ok(),
                _ => None,
            },
            _ => None,
        };
        let number = number.filter(|number| *number <= max);
        number.ok_or_else(|| self.error(field, Problem::OutOfRange { min: 0, max }))
    }

    pub(super) fn key_id(&self, field: &'static str) -> Result<KeyId, Error> {
        self.number(field, u8::MAX.into()).map(|id| KeyId(id as u8))
    }

    pub(super) fn algorithm(&self, field: &'static str) -> Result<TcpAoAlgorithm, Error> {
        self.text().parse().map_err(|error| self.error(field, Problem::Algorithm(error)))
    }
}

/// Whether a command starts with these words.
pub(super) fn starts(command: &[Word<'_>], names: &[&str]) -> bool {
    command.len() >= names.len() && command.iter().zip(names).all(|(word, name)| word.is(name))
}

/// Where this word is in a path.
pub(super) fn place(path: &[Word<'_>], word: &str) -> Option<usize> {
    path.iter().position(|has| has.is(word))
}

/// A word, or a string without the backslashes of its escapes.
pub(super) fn unescaped(word: &Word<'_>) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(word.text().len()));
    let mut characters = word.text().chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' if matches!(word.kind, Kind::Quoted(_)) => text.extend(characters.next()),
            _ => text.push(c),
        }
    }
    text
}

/// A number without a sign.
pub(super) fn digits(text: &str) -> Option<u16> {
    text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The three numbers of a date, with this mark between them.
pub(super) fn date(text: &str, mark: char) -> Option<[u16; 3]> {
    text.split(mark).map(digits).collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// A moment from year, month and day, a time `HH:MM` or `HH:MM:SS`, and an offset such as `+00:00`.
pub(super) fn moment(date: [u16; 3], time: &str, offset: &str) -> Option<Timestamp> {
    let mut time = time.split(':').map(digits);
    let (hour, minute, second) = (time.next()??, time.next()??, time.next().unwrap_or(Some(0))?);
    let [year, month, day] = date;
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{offset}");
    text.parse().ok().filter(|_| time.next().is_none())
}

/// Sets a property that may be given once.
pub(super) fn once<T>(
    slot: &mut Option<T>,
    value: T,
    at: &Word<'_>,
    field: &'static str,
) -> Result<(), Error> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(at.refused(field, "is given twice")),
    }
}

/// The statements of a text. Those inside another statement follow it.
pub(super) struct Tree<'a> {
    words: Vec<Word<'a>>,
    nodes: Vec<Node<'a>>,
}

struct Node<'a> {
    /// Its own words.
    words: Range<usize>,
    /// The `{` of its block.
    block: Option<Word<'a>>,
    /// The mark that ends it.
    end: Word<'a>,
    /// The index of the first statement after it that is not inside it.
    after: usize,
}

/// A statement of a tree.
#[derive(Clone, Copy)]
pub(super) struct Statement<'t, 'a> {
    tree: &'t Tree<'a>,
    index: usize,
}

impl<'a> Tree<'a> {
    /// Reads a text.
    pub(super) fn read(text: &'a str, dialect: &Dialect) -> Result<Self, Error> {
        let at = Position { line: 1, column: 1 };
        let tokens = Tokens { text, dialect, offset: 0, at, sections: 0 };
        let tree = Self { words: Vec::new(), nodes: Vec::new() };
        match dialect.blocks {
            Blocks::Braces { has_commands, is_balanced, .. } => {
                tree.with_braces(tokens, has_commands, is_balanced)
            }
            Blocks::Indentation { .. } => tree.with_indentation(tokens, None),
            Blocks::Ranks { rank, .. } => {
                tree.with_indentation(tokens, Some(rank).filter(|_| is_flat(text, rank)))
            }
            Blocks::Lines { has_braces: true } => tree.with_braces(tokens, false, true),
            Blocks::Lines { has_braces: false } => tree.with_indentation(tokens, None),
        }
    }

    /// Adds a statement of the words from `begin` on.
    fn push(&mut self, begin: usize, block: Option<Word<'a>>, end: Word<'a>) {
        let after = self.nodes.len() + 1;
        self.nodes.push(Node { words: begin..self.words.len(), block, end, after });
    }

    fn with_braces(
        mut self,
        mut tokens: Tokens<'a, '_>,
        has_commands: bool,
        is_balanced: bool,
    ) -> Result<Self, Error> {
        let mut open: Vec<usize> = Vec::new();
        let mut begin = 0;
        while let Some(word) = tokens.next()? {
            match word.kind {
                // A string without an end would take the commands after it.
                Kind::Quoted(text) if has_commands && open.is_empty() && text.contains('\n') => {
                    return Err(word.refused("string", "has no end"));
                }
                Kind::Plain(_) | Kind::Quoted(_) => {
                    self.words.push(word);
                    continue;
                }
                Kind::Line => {
                    let has_block = || tokens.rest().lines().next().is_some_and(|line| line.trim() == "{");
                    if !has_commands || !open.is_empty() || begin == self.words.len() || has_block() {
                        continue;
                    }
                    self.push(begin, None, word);
                }
                Kind::Open if open.len() == tokens.dialect.depth => {
                    return Err(word.refused("block", "blocks are nested too deeply"));
                }
                Kind::Open => {
                    open.push(self.nodes.len());
                    self.push(begin, Some(word), word);
                }
                Kind::End | Kind::Close => {
                    if begin < self.words.len() {
                        self.push(begin, None, word);
                    }
                    let closed = open.pop_if(|_| word.kind == Kind::Close);
                    if let Some(block) = closed {
                        self.nodes[block].after = self.nodes.len();
                        self.nodes[block].end = word;
                    } else if word.kind == Kind::Close && is_balanced {
                        return Err(word.expected("block", "a statement"));
                    }
                }
            }
            begin = self.words.len();
        }
        if let Some(block) = open.last() {
            let first = self.words.get(self.nodes[*block].words.start);
            return Err(tokens.unclosed(first.map_or("block", tokens.dialect.block)));
        }
        if begin < self.words.len() {
            let end = tokens.word(0, Kind::Line);
            self.push(begin, None, end);
        }
        Ok(self)
    }

    fn with_indentation(mut self, mut tokens: Tokens<'a, '_>, rank: Option<Rank>) -> Result<Self, Error> {
        // For each mode, its indentation and its statement.
        let mut modes: Vec<(usize, usize)> = Vec::new();
        let mut begin = 0;
        let (mut sections, mut line) = (0, 0);
        loop {
            let word = tokens.next()?;
            let end = match word {
                Some(word) if word.kind != Kind::Line => {
                    self.words.push(word);
                    continue;
                }
                Some(end) => end,
                None => tokens.word(0, Kind::Line),
            };
            let Position { line: this, column } =
                self.words.get(begin).map_or(Position { line, column: 0 }, Word::position);
            let indentation = match rank.filter(|_| column > 0) {
                None => column,
                Some(rank) => {
                    let is_below = this == line + 1;
                    rank(&self.words[begin..]).unwrap_or(if is_below { usize::MAX } else { 1 })
                }
            };
            if indentation > 0 || word.is_none() {
                let is_over = rank.is_none() && sections != tokens.sections;
                while let Some((_, statement)) = modes.pop_if(|(outer, _)| is_over || *outer >= indentation) {
                    self.nodes[statement].after = self.nodes.len();
                }
                (sections, line) = (tokens.sections, this);
            }
            if let Some(first) = self.words.get(begin) {
                if modes.len() == tokens.dialect.depth {
                    return Err(first.refused("mode", "modes are nested too deeply"));
                }
                modes.push((indentation, self.nodes.len()));
                self.push(begin, None, end);
            }
            begin = self.words.len();
            if word.is_none() {
                let count = self.nodes.len();
                modes.iter().for_each(|(_, statement)| self.nodes[*statement].after = count);
                return Ok(self);
            }
        }
    }

    fn statements(&self, range: Range<usize>) -> impl Iterator<Item = Statement<'_, 'a>> {
        let Range { mut start, end } = range;
        std::iter::from_fn(move || {
            let index = start;
            start = self.nodes.get(index).filter(|_| index < end)?.after;
            Some(Statement { tree: self, index })
        })
    }

    /// All statements, however deep.
    pub(super) fn all(&self) -> impl Iterator<Item = Statement<'_, 'a>> {
        (0..self.nodes.len()).map(|index| Statement { tree: self, index })
    }

    /// The statements that are in no other statement.
    pub(super) fn top(&self) -> impl Iterator<Item = Statement<'_, 'a>> {
        self.statements(0..self.nodes.len())
    }

    /// Calls `give` for every statement, with the words that lead to it and its own, and how many lead to it.
    pub(super) fn each<E>(
        &self,
        mut give: impl FnMut(&[Word<'a>], usize, Statement<'_, 'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut path = Vec::new();
        // For each enclosing statement, the first one after it, and how many words led to it.
        let mut around: Vec<(usize, usize)> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            while let Some((_, length)) = around.pop_if(|(after, _)| *after <= index) {
                path.truncate(length);
            }
            let own = path.len();
            around.push((node.after, own));
            path.extend_from_slice(&self.words[node.words.clone()]);
            give(&path, own, Statement { tree: self, index })?;
        }
        Ok(())
    }
}

impl<'t, 'a> Statement<'t, 'a> {
    fn node(self) -> &'t Node<'a> {
        &self.tree.nodes[self.index]
    }

    /// Its own words.
    pub(super) fn words(self) -> &'t [Word<'a>] {
        &self.tree.words[self.node().words.clone()]
    }

    /// The word at this place or, if there is none, the mark there.
    pub(super) fn word(self, index: usize) -> Word<'a> {
        let node = self.node();
        self.words().get(index).copied().or(node.block).unwrap_or(node.end)
    }

    /// The `{` of its block, if it has one.
    pub(super) fn block(self) -> Option<Word<'a>> {
        self.node().block
    }

    /// The mark that ends it.
    pub(super) fn end(self) -> Word<'a> {
        self.node().end
    }

    /// The statements in its block.
    pub(super) fn inside(self) -> impl Iterator<Item = Statement<'t, 'a>> {
        self.tree.statements(self.index + 1..self.node().after)
    }
}

/// The words and marks of a text, in order.
struct Tokens<'a, 'd> {
    text: &'a str,
    dialect: &'d Dialect,
    offset: usize,
    at: Position,
    /// How many lines began with `#` in the first column.
    sections: usize,
}

/// Whether no command of an inner mode is indented. Other lines, such as those of a banner, may be.
fn is_flat(text: &str, rank: Rank) -> bool {
    let mut lines = text.lines().filter(|line| line.starts_with([' ', '\t']));
    lines.all(|line| {
        let words = line.split_whitespace().map(|word| Word::plain(word, Position { line: 1, column: 1 }));
        rank(&words.collect::<Vec<_>>()).is_none_or(|rank| rank == 1)
    })
}

/// A text without the prompt at its start, such as `edge1(config-router-bgp)#`, `RP/0/RP0/CPU0:edge1#`, `[~edge1-bgp]` or `<edge1>`.
pub(super) fn without_prompt(text: &str) -> &str {
    let word = text.split(char::is_whitespace).next().unwrap_or_default();
    let end = match word.chars().next() {
        Some('[') => word.find(']'),
        Some('<') => word.find('>'),
        // A comment.
        Some('#') => None,
        _ => word.rfind('#'),
    };
    end.map_or(text, |end| text[end + 1..].trim_start_matches([' ', '\t']))
}

impl<'a> Tokens<'a, '_> {
    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    /// A word that ends `length` octets from here.
    fn word(&mut self, length: usize, kind: Kind<'a>) -> Word<'a> {
        let position = self.at;
        self.pass(length);
        Word { kind, position }
    }

    /// Advances by `length` octets, counting lines and columns.
    fn pass(&mut self, length: usize) {
        for c in self.rest()[..length].chars() {
            if c == '\n' {
                self.at = Position { line: self.at.line + 1, column: 1 };
            } else {
                self.at.column += 1;
            }
        }
        self.offset += length;
    }

    fn unclosed(&mut self, field: &'static str) -> Error {
        self.word(0, Kind::Line).refused(field, "has no end")
    }

    /// The next word or mark; `None` at the end of the text.
    fn next(&mut self) -> Result<Option<Word<'a>>, Error> {
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else { return Ok(None) };
            let line = || rest.find('\n').unwrap_or(rest.len());
            if first == '\n' {
                let has_braces = matches!(self.dialect.blocks, Blocks::Lines { has_braces: true });
                return Ok(Some(self.word(1, if has_braces { Kind::End } else { Kind::Line })));
            }
            if first.is_whitespace() {
                self.pass(first.len_utf8());
                continue;
            }
            if let Blocks::Lines { has_braces } = self.dialect.blocks {
                let word = match first {
                    '#' if self.is_first_on_line() => {
                        self.pass(line());
                        continue;
                    }
                    '"' => self.quoted(true)?,
                    '{' if has_braces => self.word(1, Kind::Open),
                    '}' if has_braces => self.word(1, Kind::Close),
                    _ => {
                        let ends = |c: char| c.is_whitespace() || c == '"';
                        let length = rest.find(ends).unwrap_or(rest.len());
                        self.word(length, Kind::Plain(&rest[..length]))
                    }
                };
                return Ok(Some(word));
            }
            let Blocks::Braces { ends, escapes, .. } = self.dialect.blocks else {
                let (has_prompts, has_hashes, has_quotes) = match self.dialect.blocks {
                    Blocks::Ranks { has_quotes, .. } => (true, true, has_quotes),
                    Blocks::Indentation { has_prompts } => (has_prompts, false, false),
                    _ => (false, false, false),
                };
                let is_first = self.is_first_on_line();
                let prompt = rest.len() - without_prompt(rest).len();
                if has_prompts && is_first && prompt > 0 {
                    self.pass(prompt);
                    continue;
                }
                if (first == '!' || first == '#' && has_hashes) && is_first {
                    self.sections += usize::from(first == '#' && self.at.column == 1);
                    self.pass(line());
                    continue;
                }
                let inside = rest[..line()].strip_prefix('"').filter(|_| has_quotes);
                if let Some(length) = inside.and_then(|inside| inside.find('"')) {
                    return Ok(Some(self.word(length + 2, Kind::Quoted(&rest[1..=length]))));
                }
                let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
                return Ok(Some(self.word(length, Kind::Plain(&rest[..length]))));
            };
            let word = match first {
                '#' => {
                    self.pass(line());
                    continue;
                }
                '/' if rest.starts_with("/*") => {
                    let length = rest[2..].find("*/").ok_or_else(|| self.unclosed("comment"))?;
                    self.pass(length + 4);
                    continue;
                }
                '{' => self.word(1, Kind::Open),
                '}' => self.word(1, Kind::Close),
                ';' => self.word(1, Kind::End),
                '"' => self.quoted(escapes)?,
                _ => {
                    let first = first.len_utf8();
                    let ends = |c: char| c.is_whitespace() || ends.contains(c);
                    let length = rest.find(ends).unwrap_or(rest.len()).max(first);
                    let length = rest[..length].find("/*").map_or(length, |comment| comment.max(first));
                    self.word(length, Kind::Plain(&rest[..length]))
                }
            };
            return Ok(Some(word));
        }
    }

    fn is_first_on_line(&self) -> bool {
        let mut before = self.text[..self.offset].chars().rev().take_while(|c| *c != '\n');
        before.all(char::is_whitespace)
    }

    /// The string that begins here.
    fn quoted(&mut self, escapes: bool) -> Result<Word<'a>, Error> {
        let inside = &self.rest()[1..];
        let mut escaped = false;
        for (index, c) in inside.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' if escapes => escaped = true,
                '\n' if !escapes => break,
                '"' => return Ok(self.word(index + 2, Kind::Quoted(&inside[..index]))),
                _ => {}
            }
        }
        Err(self.unclosed("string"))
    }
}
