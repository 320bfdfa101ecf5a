//! The report as one page that needs no network and no other file, and can be read without its script.
//!
//! Everything from the capture and the keys goes through maud, which escapes it.

mod connection;
mod summary;
mod timeline;

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tempfile::SpooledTempFile;

use super::subject::Subject;
use super::summary::Summary;
use crate::standing::Standing;
use crate::verify::report::{ConnectionReport, Totals};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");
/// What the browser enforces: the page loads nothing and runs only the script with this SHA-256.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
                      script-src 'sha256-9mOedgiN+oNM4MYGWV0NTaURJjh5tmPTX+pKMo6DJuI='";

/// How many octets of connections wait in memory for the summary above them before they go to a temporary file.
const WAITING_IN_MEMORY: usize = 1 << 20;
/// How many connections that failed or did not open are shown, and how many others, so that a browser can handle the page.
const FAILED_SHOWN: u64 = 500;
const OTHERS_SHOWN: u64 = 100;
/// How many segments are drawn on the page, and how many of one connection.
const MARKS_OF_PAGE: usize = 40_000;
const MARKS_OF_CONNECTION: usize = 2_000;

#[derive(Debug)]
pub(super) struct Page<'a> {
    file: BufWriter<File>,
    waiting: SpooledTempFile,
    subject: Subject<'a>,
    failed: Shown,
    others: Shown,
    marks_left: usize,
}

/// How many connections of one sort are on the page, and how many are not.
#[derive(Clone, Copy, Default, Debug)]
struct Shown {
    on_page: u64,
    left_out: u64,
}

impl Shown {
    /// Counts one, and returns whether to show it.
    const fn count(&mut self, most: u64) -> bool {
        let shown = self.on_page < most;
        *(if shown { &mut self.on_page } else { &mut self.left_out }) += 1;
        shown
    }
}

impl<'a> Page<'a> {
    pub(super) fn create(path: &Path, subject: Subject<'a>) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        Ok(Self {
            file: BufWriter::new(File::create(path).map_err(named)?),
            waiting: SpooledTempFile::new(WAITING_IN_MEMORY),
            subject,
            failed: Shown::default(),
            others: Shown::default(),
            marks_left: MARKS_OF_PAGE,
        })
    }

    pub(super) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let is_shown = match connection.standing() {
            Standing::Failed | Standing::NotOpen => self.failed.count(FAILED_SHOWN),
            _ => self.others.count(OTHERS_SHOWN),
        };
        if !is_shown {
            return Ok(());
        }
        let marks = connection.segments.len().min(MARKS_OF_CONNECTION).min(self.marks_left);
        self.marks_left -= marks;
        let markup = connection::article(connection, &connection.segments[..marks]);
        self.waiting.write_all(markup.0.as_bytes())
    }

    pub(super) fn finish(mut self, totals: &Totals, summary: &Summary) -> io::Result<()> {
        let head = html! {
            (DOCTYPE)
            // Elements that are not closed here are closed below.
            (PreEscaped("<html lang=\"en\">"))
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (self.subject.capture) " – wireseal verify" }
                style { (PreEscaped(STYLE)) }
            }
            (PreEscaped("<body>"))
            (timeline::symbols())
            (summary::header(self.subject, totals, summary))
            (PreEscaped("<main>"))
            (summary::section(self.subject, totals, summary))
            (summary::connections_heading(summary))
        };
        self.file.write_all(head.0.as_bytes())?;
        self.waiting.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.waiting, &mut self.file)?;
        self.file.write_all(self.foot().0.as_bytes())?;
        self.file.flush()
    }

    fn foot(&self) -> Markup {
        let (failed, others) = (self.failed.left_out, self.others.left_out);
        html! {
            @if failed + others > 0 {
                p.note {
                    "Counted above but not on this page: " (failed) " more connections with failed segments or not open, and "
                    (others) " others."
                }
            }
            (PreEscaped("</main>"))
            footer {
                "Written by wireseal " (env!("CARGO_PKG_VERSION")) ". This page contains no secrets and loads nothing."
            }
            div #tip role="tooltip" hidden {}
            script { (PreEscaped(SCRIPT)) }
            (PreEscaped("</body></html>\n"))
        }
    }
}
