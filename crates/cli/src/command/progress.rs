//! A progress bar on a terminal.

use std::io::{self, BufWriter, IsTerminal, LineWriter, StdoutLock, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::capture::Progress;
use crate::terminal::Wrapped;

/// After how many packets the bar is redrawn.
pub(super) const PROGRESS_INTERVAL: u64 = 16_384;

/// A progress bar on standard error, if that is a terminal.
pub(super) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(super) fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = "{bar:40} {percent:>3} %  {bytes} of {total_bytes}, {eta} left";
        Self(ProgressStyle::with_template(style).ok().map(|style| bar.with_style(style)))
    }

    /// Shows how far the capture was read.
    pub(super) fn show(&self, progress: Progress) {
        let Some(bar) = &self.0 else { return };
        if let Some(total) = progress.total {
            bar.set_length(total);
        }
        bar.set_position(progress.read);
    }

    /// Removes the bar from the terminal.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }

    /// Standard output, for JSON or for lines that fit the terminal. If it is a terminal too, the bar makes way for each line of the
    /// report.
    pub(super) fn output(&self, is_json: bool) -> Box<dyn Write> {
        let output = io::stdout().lock();
        let output: Box<dyn Write> = match &self.0 {
            Some(bar) if output.is_terminal() => {
                Box::new(LineWriter::new(BesideBar { output, bar: bar.clone() }))
            }
            _ => Box::new(BufWriter::with_capacity(1 << 16, output)),
        };
        if is_json { output } else { Box::new(Wrapped::new(output)) }
    }
}

struct BesideBar {
    output: StdoutLock<'static>,
    bar: ProgressBar,
}

impl Write for BesideBar {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let Self { output, bar } = self;
        bar.suspend(|| output.write(octets))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
