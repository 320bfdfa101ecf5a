//! How wide the terminal is, and lines that fit it.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use terminal_size::{Width, terminal_size_of};

/// The extra indentation of a wrapped line's rest.
const HANGING: usize = 4;

/// The width of the terminal on standard output: COLUMNS if it is set, else what the terminal says. `None` for files and pipes, whose
/// lines are never wrapped, so that grep and awk get whole ones even if a shell exports COLUMNS.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let named = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    named.filter(|columns| *columns > 0).or_else(|| width_of(io::stdout()))
}

/// The width of a terminal, if it tells.
pub(crate) fn width_of(output: impl AsFd) -> Option<usize> {
    let (Width(columns), _) = terminal_size_of(output)?;
    Some(columns.into()).filter(|columns| *columns > 0)
}

/// Wraps a line between words. A word that is wider stays whole.
pub(crate) fn wrap(line: &str, width: usize) -> String {
    let indent = line.len() - line.trim_start_matches(' ').len();
    if columns(line) <= width {
        return line.to_owned();
    }
    let mut wrapped = " ".repeat(indent);
    let mut used = indent;
    // Several spaces stay as they are within a line.
    let mut spaces = 0;
    for word in line[indent..].split(' ') {
        if word.is_empty() {
            spaces += 1;
            continue;
        }
        let needed = columns(word);
        if used + spaces + needed > width && used > indent + HANGING {
            wrapped.push('\n');
            (used, spaces) = (0, indent + HANGING);
        }
        wrapped.extend(std::iter::repeat_n(' ', spaces));
        wrapped += word;
        used += spaces + needed;
        spaces = 1;
    }
    wrapped
}

/// The columns of a text with colours.
fn columns(text: &str) -> usize {
    let mut parts = text.split("\x1b[");
    let before = parts.next().unwrap_or_default().chars().count();
    before
        + parts.map(|part| part.split_once('m').map_or(0, |(_, shown)| shown.chars().count())).sum::<usize>()
}

/// An output whose lines fit the terminal.
pub(crate) struct Wrapped<W> {
    output: W,
    width: Option<usize>,
    line: Vec<u8>,
}

impl<W: Write> Wrapped<W> {
    /// Wraps lines to [`width`].
    pub(crate) fn new(output: W) -> Self {
        Self { output, width: width(), line: Vec::new() }
    }

    /// The output itself, for lines that are not to be wrapped. [Flush](Write::flush) before.
    pub(crate) const fn get_mut(&mut self) -> &mut W {
        &mut self.output
    }
}

impl<W: Write> Write for Wrapped<W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let Some(width) = self.width else { return self.output.write(octets) };
        for part in octets.split_inclusive(|octet| *octet == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&self.line);
                self.output.write_all(wrap(line.trim_end_matches('\n'), width).as_bytes())?;
                self.output.write_all(b"\n")?;
                self.line.clear();
            }
        }
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.line)?;
        self.line.clear();
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words() {
        let line = "  why: 192.0.2.2:179 did not answer any of the SYNs";
        assert_eq!(wrap(line, 60), line);
        assert_eq!(wrap(line, 30), "  why: 192.0.2.2:179 did not\n      answer any of the SYNs");
        assert_eq!(wrap("a-word-that-is-wider than this", 10), "a-word-that-is-wider\n    than\n    this");
        assert_eq!(wrap("key           core: SendID 100", 22), "key           core:\n    SendID 100");
        assert_eq!(wrap("bad MAC:     0", 1), "bad MAC:\n    0");
        assert_eq!(wrap("one   of several  spaces", 12), "one   of\n    several\n    spaces");
        let coloured = "\x1b[31mFAILED\x1b[0m one two";
        assert_eq!(wrap(coloured, 14), coloured);
        assert_eq!(wrap(coloured, 13), "\x1b[31mFAILED\x1b[0m one\n    two");
    }

    #[test]
    fn lines_are_written_when_they_are_whole() {
        let mut output = Wrapped { output: Vec::new(), width: Some(12), line: Vec::new() };
        for part in ["one two ", "three four\nfive", " six"] {
            output.write_all(part.as_bytes()).unwrap();
        }
        assert_eq!(output.output, b"one two\n    three\n    four\n");
        output.flush().unwrap();
        assert!(output.output.ends_with(b"five six"));
    }
}
