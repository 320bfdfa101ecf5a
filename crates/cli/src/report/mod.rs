//! Reports of what was verified: text for people, JSON for programs, and an HTML page to attach to a ticket.
//!
//! Each connection is written as soon as it is over and then forgotten, so memory does not grow with their number.

pub(crate) mod chain_key;
pub(crate) mod comment;
pub(crate) mod ends;
mod groups;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod table;
mod text;
mod words;

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use wireseal_tcp_ao::Endpoint;

use self::words::Summary;
use crate::verify::report::{ConnectionReport, SegmentReport, Standing, Totals};

pub use words::Subject;
pub(crate) use words::{counts as counts_in_words, standing as standing_in_words};

/// How the report on standard output is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people.
    Text {
        /// Whether to use colours, see [`colours_wanted`].
        colours: bool,
        /// Whether every connection is shown as soon as it is over. Otherwise, more than a few are summed up in the end.
        all: bool,
    },
    /// For programs: one object, documented in `docs/verify-json.md`.
    Json {
        /// Whether it has an array `segments` of all segments.
        segments: bool,
    },
    /// For programs that read a capture as it arrives: the same elements, each an object on a line of its own.
    JsonLines {
        /// Whether there is a line for each segment.
        segments: bool,
    },
}

/// Whether standard output is a terminal with colours whose user has not set `NO_COLOR` (<https://no-color.org>).
#[must_use]
pub fn colours_wanted() -> bool {
    let [no_color, term] = ["NO_COLOR", "TERM"].map(env::var_os);
    colours(no_color.as_deref(), term.as_deref(), io::stdout().is_terminal())
}

fn colours(no_color: Option<&OsStr>, term: Option<&OsStr>, is_terminal: bool) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

/// The reports of one run: one on an output, and a page if wanted.
#[derive(Debug)]
pub struct Report<'a, W> {
    output: Output<'a, W>,
    /// And its path.
    page: Option<(html::Page<'a>, PathBuf)>,
    summary: Summary,
}

#[derive(Debug)]
enum Output<'a, W> {
    Text(text::Text<'a, W>),
    Json(json::Json<W>),
    JsonLines(json::JsonLines<W>),
}

impl<'a, W: Write> Report<'a, W> {
    /// Begins a report on `output`, which should be buffered.
    ///
    /// # Errors
    /// Those of writing to `output` and of creating a temporary file.
    pub fn new(output: W, format: Format, subject: Subject<'a>) -> io::Result<Self> {
        let output = match format {
            Format::Text { colours, all } => Output::Text(text::Text::new(output, colours, all, subject)),
            Format::Json { segments } => Output::Json(json::Json::begin(output, segments, subject)?),
            Format::JsonLines { segments } => {
                Output::JsonLines(json::JsonLines::begin(output, segments, subject)?)
            }
        };
        Ok(Self { output, page: None, summary: Summary::default() })
    }

    /// Adds a page in the file `path`. The file is created now, and complete when the report is finished.
    ///
    /// # Errors
    /// Those of creating the file and a temporary one.
    pub fn with_page(self, path: &Path, subject: Subject<'a>) -> io::Result<Self> {
        Ok(Self { page: Some((html::Page::create(path, subject)?, path.to_owned())), ..self })
    }

    /// Reports a segment of the connection with this number, between `ends` (opener and listener).
    ///
    /// Call it only if every segment is wanted: text has a line for each, and JSON ignores them unless begun with `segments`.
    ///
    /// # Errors
    /// Those of writing.
    pub fn segment(
        &mut self,
        connection: u64,
        ends: &[Endpoint; 2],
        segment: &SegmentReport,
    ) -> io::Result<()> {
        match &mut self.output {
            Output::Text(text) => text.segment(connection, ends, segment),
            Output::Json(json) => json.segment(connection, segment),
            Output::JsonLines(lines) => lines.segment(connection, segment),
        }
    }

    /// Reports a connection that is over.
    ///
    /// # Errors
    /// Those of writing.
    pub fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        self.summary.add(connection);
        match &mut self.output {
            Output::Text(text) => text.connection(connection)?,
            Output::Json(json) => json.connection(connection)?,
            Output::JsonLines(lines) => lines.connection(connection)?,
        }
        self.page.as_mut().map_or(Ok(()), |(page, _)| page.connection(connection))
    }

    /// Writes out what was reported so far, as far as it is not kept for the end. Call it before a pause.
    ///
    /// # Errors
    /// Those of writing.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Text(text) => text.flush(),
            Output::Json(json) => json.flush(),
            Output::JsonLines(lines) => lines.flush(),
        }
    }

    /// The verdict on the capture, once all connections are reported: that of the worst.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.summary.standing()
    }

    /// The verdict on the capture in a few lines, to put into a file of packets. It is the same in every format.
    #[must_use]
    pub fn in_short(&self, totals: &Totals) -> String {
        self.summary.in_short(totals)
    }

    /// Ends the report, writes the page and flushes both.
    ///
    /// # Errors
    /// Those of writing; if it is the page that cannot be written, the report is complete.
    pub fn finish(self, totals: &Totals) -> io::Result<()> {
        // The page first, so that it is complete even if the output was closed.
        let page = self.page.map_or(Ok(()), |(page, path)| {
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
            page.finish(totals, &self.summary).map_err(named)
        });
        let output = match self.output {
            Output::Text(text) => text.finish(totals, &self.summary),
            Output::Json(json) => json.finish(totals, &self.summary),
            Output::JsonLines(lines) => lines.finish(totals, &self.summary),
        };
        // That the page failed matters even to who has closed the output.
        page.and(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_users_want_them() {
        let (no_color, xterm, dumb) = (OsStr::new("1"), OsStr::new("xterm"), OsStr::new("dumb"));
        assert!(colours(None, Some(xterm), true) && colours(Some(OsStr::new("")), None, true));
        assert!(!colours(None, Some(xterm), false));
        assert!(!colours(Some(no_color), Some(xterm), true));
        assert!(!colours(None, Some(dumb), true));
    }
}
