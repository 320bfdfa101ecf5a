//! The table of live connections on a terminal.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row as TableRow, Table};
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::lines::between;
use super::watch::{Order, Reason, Row, rank};
use crate::report;
use crate::terminal::wrap;
use crate::text::{Printable, counted, grouped};
use crate::verify::report::{Standing, Verdict, failed, not_judged};

/// How many connections can be scrolled through, in the order of the table.
const ROWS: usize = 2_000;
/// How many reasons are kept.
const REASONS: usize = 100;
/// Columns of a terminal from which the table has the keys and what could not be judged.
const WIDE: u16 = 100;

/// The fewest characters of the title that are shown.
const TITLE: usize = 24;

/// The columns of the table.
struct Columns {
    columns: Vec<(&'static str, Constraint)>,
    is_wide: bool,
    /// How many characters there is room for in that of the connection.
    for_ends: usize,
}

impl Columns {
    fn new(width: u16, is_wide: bool) -> Self {
        let mut columns = vec![
            ("#", Constraint::Length(5)),
            ("verdict", Constraint::Length(10)),
            ("connection", Constraint::Fill(1)),
            ("good", Constraint::Length(9)),
            ("failed", Constraint::Length(7)),
        ];
        if is_wide {
            columns.push(("not judged", Constraint::Length(10)));
            columns.push(("key", Constraint::Length(16)));
        }
        columns.push(("last UTC", Constraint::Length(8)));
        let fixed: u16 = columns
            .iter()
            .map(|(_, width)| if let Constraint::Length(width) = width { *width } else { 0 })
            .sum();
        let for_ends = usize::from(width.saturating_sub(fixed + columns.len() as u16 - 1));
        Self { columns, is_wide, for_ends }
    }

    /// How many lines a row takes.
    fn lines(&self, row: &Row) -> usize {
        if between(&row.ends).chars().count() > self.for_ends { 2 } else { 1 }
    }
}

/// What was counted, for the line above the table.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counted {
    /// Packets that were looked at.
    pub(crate) packets: u64,
    /// Packets that the kernel dropped.
    pub(crate) dropped: u64,
}

/// What is shown.
#[derive(Debug)]
struct View {
    title: String,
    colours: bool,
    started: Instant,
    counted: Counted,
    rows: Vec<Row>,
    /// Live connections, and those of them that failed, did not open, or could not be judged.
    live: u64,
    bad: [u64; 3],
    reasons: VecDeque<Reason>,
    order: Order,
    /// How many rows are above the first that is shown, and how many lines of reasons.
    scrolled: usize,
    reasons_scrolled: usize,
    /// Keys scroll the reasons.
    is_at_reasons: bool,
}

/// The terminal, which is restored when this is dropped, and when the program panics.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    view: View,
}

impl Screen {
    /// Shows the table in place of what the terminal shows, under a title.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(crate) fn open(title: String, colours: bool) -> io::Result<Self> {
        *IS_SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let terminal = ratatui::try_init().inspect_err(|_| restore_terminal())?;
        Ok(Self { terminal, view: View::new(title, colours) })
    }

    /// Begins to show other rows.
    pub(crate) fn clear_rows(&mut self) {
        self.view.clear_rows();
    }

    pub(crate) fn row(&mut self, row: Row) {
        self.view.row(row);
    }

    /// Shows a reason, in place of what was shown of it before.
    pub(crate) fn reason(&mut self, reason: &Reason) {
        self.view.reason(reason);
    }

    /// Draws what was found.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(crate) fn draw(&mut self, counted: Counted) -> io::Result<()> {
        let Self { terminal, view } = self;
        view.counted = counted;
        view.order.sort(&mut view.rows);
        terminal.draw(|frame| view.draw(frame))?;
        Ok(())
    }

    /// Whether the terminal was closed. It would be asked for keys without end.
    fn is_gone(&self) -> bool {
        let output = io::stdout();
        let mut output = [PollFd::new(&output, PollFlags::OUT)];
        let is_ready = rustix::event::poll(&mut output, Some(&Timespec::default()));
        is_ready.is_ok() && output[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Does what the keys say that were pressed. Returns whether to end.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(crate) fn keys(&mut self) -> io::Result<bool> {
        if self.is_gone() {
            return Ok(true);
        }
        let mut has_changed = false;
        while event::poll(Duration::ZERO)? {
            has_changed = true;
            let Event::Key(key) = event::read()? else { continue };
            let is_control_c =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if key.kind == KeyEventKind::Press && (is_control_c || self.view.press(key.code)) {
                return Ok(true);
            }
        }
        if has_changed {
            self.draw(self.view.counted)?;
        }
        Ok(false)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Whether a screen is shown.
static IS_SHOWN: Mutex<bool> = Mutex::new(false);

/// Restores the terminal if a [`Screen`] is shown, which is not to be used any more.
pub(crate) fn restore_terminal() {
    // Locked until it is done: the process may end right after.
    let mut is_shown = IS_SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut *is_shown) {
        ratatui::restore();
    }
}

impl View {
    fn new(title: String, colours: bool) -> Self {
        Self {
            title,
            colours,
            started: Instant::now(),
            counted: Counted::default(),
            rows: Vec::new(),
            live: 0,
            bad: [0; 3],
            reasons: VecDeque::new(),
            order: Order::default(),
            scrolled: 0,
            reasons_scrolled: 0,
            is_at_reasons: false,
        }
    }

    fn clear_rows(&mut self) {
        self.rows.clear();
        (self.live, self.bad) = (0, [0; 3]);
    }

    fn row(&mut self, row: Row) {
        self.live += 1;
        if let Some(count) = self.bad.get_mut(usize::from(rank(row.standing))) {
            *count += 1;
        }
        self.rows.push(row);
        if self.rows.len() >= 2 * ROWS {
            self.order.sort(&mut self.rows);
            self.rows.truncate(ROWS);
        }
    }

    fn reason(&mut self, reason: &Reason) {
        let of = |reason: &Reason| (reason.number, reason.diagnosis.kind, reason.diagnosis.sender);
        match self.reasons.iter_mut().find(|known| of(known) == of(reason)) {
            Some(known) => known.diagnosis = reason.diagnosis.clone(),
            None if reason.is_new => {
                // Why connections failed before why others did not open, and the newest first.
                let goes_before = |known: &Reason| rank(known.diagnosis.about) < rank(reason.diagnosis.about);
                let place = self.reasons.partition_point(goes_before);
                self.reasons.insert(place, reason.clone());
            }
            None => {}
        }
        self.reasons.truncate(REASONS);
    }

    /// Does what a key says. Returns whether to end.
    fn press(&mut self, key: KeyCode) -> bool {
        const PAGE: usize = 10;
        let scrolled = if self.is_at_reasons { &mut self.reasons_scrolled } else { &mut self.scrolled };
        match key {
            KeyCode::Char('q') => return true,
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.scrolled = 0;
            }
            KeyCode::Tab => self.is_at_reasons = !self.is_at_reasons,
            KeyCode::Up | KeyCode::Char('k') => *scrolled = scrolled.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *scrolled += 1,
            KeyCode::PageUp => *scrolled = scrolled.saturating_sub(PAGE),
            KeyCode::PageDown => *scrolled += PAGE,
            KeyCode::Home => *scrolled = 0,
            KeyCode::End => *scrolled = usize::MAX,
            _ => {}
        }
        false
    }

    fn style(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn style_of(&self, standing: Standing) -> Style {
        match standing {
            Standing::Good => self.style(Color::Green),
            Standing::Failed | Standing::NotOpen => self.style(Color::Red).add_modifier(Modifier::BOLD),
            Standing::NotJudged | Standing::Empty => self.style(Color::Yellow),
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let reasons = self.reasons(area.width);
        // Two thirds are for the table, as far as it has rows for them.
        let columns = self.columns(area.width, usize::from(area.height));
        let table_height = 1 + self.rows.iter().map(|row| columns.lines(row)).sum::<usize>();
        let free = usize::from(area.height.saturating_sub(2)).saturating_sub(table_height);
        let most = usize::from(area.height / 3).max(free);
        let reasons_height = if reasons.is_empty() { 0 } else { most.min(reasons.len() + 1) };
        self.reasons_scrolled =
            self.reasons_scrolled.min((reasons.len() + 1).saturating_sub(reasons_height.max(1)));
        let reasons: Vec<_> = reasons.into_iter().skip(self.reasons_scrolled).take(reasons_height).collect();
        let [head, table, below, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(reasons_height as u16),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(self.head(head.width), head);
        self.draw_table(frame, table);
        let title = Block::new().borders(Borders::TOP).title("why");
        frame.render_widget(Paragraph::new(reasons).block(title), below);
        let [here, there] = if self.is_at_reasons { ["why", "table"] } else { ["table", "why"] };
        let foot_text = format!("q end  ↑↓ PgUp PgDn {here}  Tab {there}  s sort: {}", self.order.name());
        frame.render_widget(Paragraph::new(foot_text), foot);
    }

    /// What is counted, in one line, of which the end may not fit.
    fn head(&self, width: u16) -> Paragraph<'_> {
        let [failed, not_open, not_judged] = self.bad;
        let seconds = self.started.elapsed().as_secs();
        let mut title = Printable(&self.title).to_string();
        // Many interfaces leave room for what is counted.
        let most = usize::from(width / 3).max(TITLE);
        if title.chars().count() > most {
            title = title.chars().take(most - 1).chain(['…']).collect();
        }
        let mut parts = vec![Span::raw(title)];
        let named = [
            (failed, "failed", Standing::Failed),
            (not_open, "not open", Standing::NotOpen),
            (self.counted.dropped, "dropped", Standing::NotJudged),
            (not_judged, "not judged", Standing::NotJudged),
        ];
        for (count, name, standing) in named.into_iter().filter(|(count, ..)| *count > 0) {
            parts.push(Span::styled(format!("{} {name}", grouped(count)), self.style_of(standing)));
        }
        parts.extend([
            Span::raw(counted(self.live, "connection")),
            Span::raw(counted(self.counted.packets, "packet")),
            Span::raw(format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)),
        ]);
        let mut line = Vec::new();
        for part in parts {
            line.extend([part, Span::raw("  ")]);
        }
        Paragraph::new(Line::from(line))
    }

    /// The columns in this width for so many rows: with those of a wide table if no row takes more lines for that.
    fn columns(&self, width: u16, shown: usize) -> Columns {
        let [narrow, wide] = [false, true].map(|is_wide| Columns::new(width, is_wide));
        let mut rows = self.rows.iter().skip(self.scrolled).take(shown);
        let is_wide = width >= WIDE && rows.all(|row| wide.lines(row) == narrow.lines(row));
        if is_wide { wide } else { narrow }
    }

    fn draw_table(&mut self, frame: &mut Frame<'_>, area: Rect) {
        // What does not fit is not scrolled away from.
        let shown = usize::from(area.height.saturating_sub(1));
        self.scrolled = self.scrolled.min(self.rows.len().saturating_sub(shown.max(1)));
        let table_columns = self.columns(area.width, shown);
        let Columns { columns, is_wide, .. } = &table_columns;
        let rows = self.rows.iter().skip(self.scrolled).take(shown).map(|row| {
            let number = |number| Cell::from(Text::from(grouped(number)).right_aligned());
            let height = table_columns.lines(row);
            let ends = between(&row.ends);
            let ends = if height > 1 { ends.replace(" -> ", "\n-> ") } else { ends };
            let words = report::standing_in_words(row.standing);
            let verdict = if row.is_closed && row.standing == Standing::Good { "closed" } else { words };
            let mut cells = vec![
                number(row.number),
                Cell::from(verdict).style(self.style_of(row.standing)),
                Cell::from(ends),
                number(row.counts[Verdict::Good.index()]),
                number(failed(&row.counts)),
            ];
            if *is_wide {
                cells.push(number(not_judged(&row.counts)));
                cells.push(Cell::from(Printable(&row.keys.join(", ")).to_string()));
            }
            let last = row.last.time.map(|time| time.to_string()).unwrap_or_default();
            cells.push(Cell::from(clock(&last).to_owned()));
            TableRow::new(cells).height(height as u16)
        });
        let header = columns.iter().map(|(name, _)| {
            let is_number = matches!(*name, "#" | "good" | "failed" | "not judged");
            let text = Text::from(*name);
            Cell::from(if is_number { text.right_aligned() } else { text })
        });
        let header = TableRow::new(header).style(Style::new().add_modifier(Modifier::BOLD));
        let table = Table::new(rows, columns.iter().map(|(_, width)| *width)).header(header);
        frame.render_widget(table, area);
    }

    /// Why connections failed or did not open.
    fn reasons(&self, width: u16) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for Reason { time, number, ends, diagnosis, .. } in &self.reasons {
            let time = time.map(|time| time.to_string()).unwrap_or_default();
            let what = report::standing_in_words(diagnosis.about);
            let sentence = diagnosis.sentence();
            let begin = format!("{} ", clock(&time));
            let text =
                Printable(&format!("{begin}{what} #{number} {}: {sentence}", between(ends))).to_string();
            let wrapped = wrap(&text, usize::from(width));
            let mut rest = wrapped.lines();
            let first = rest
                .next()
                .and_then(|line| line.strip_prefix(&begin)?.strip_prefix(what))
                .unwrap_or_default();
            lines.push(Line::from(vec![
                Span::raw(begin),
                Span::styled(what, self.style_of(diagnosis.about)),
                Span::raw(first.to_owned()),
            ]));
            lines.extend(rest.map(|line| Line::from(line.to_owned())));
        }
        lines
    }
}

/// The hours, minutes and seconds of a time in RFC 3339.
fn clock(time: &str) -> &str {
    time.get(11..19).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use wireseal_tcp_ao::Endpoint;

    use super::*;
    use crate::capture::{Place, Time};
    use crate::verify::report::{Diagnosis, Sender};

    const PLACE: Place =
        Place { packet: 9, time: Some(Time::from_unix_nanoseconds(1_780_000_000_000_000_000)) };

    fn row(number: u64, ends: [Endpoint; 2], standing: Standing) -> Row {
        let mut counts = [0; Verdict::KINDS];
        counts[if standing == Standing::Failed { Verdict::BadMac } else { Verdict::Good }.index()] =
            1200 + number;
        let last = Place { packet: number, ..PLACE };
        Row { number, ends, keys: vec!["core/100".to_owned()], counts, standing, is_closed: false, last }
    }

    fn view() -> View {
        let mut view = View::new("wireseal verify -i eth0".to_owned(), false);
        let ends = |host| [Endpoint::new([192, 0, 2, host], 50_000), Endpoint::new([198, 51, 100, 1], 179)];
        let long = [1, 2]
            .map(|host| Endpoint::new([0x2001, 0xdb8, 0x1111, 0x2222, 0x3333, 0x4444, 0x5555, host], 50_000));
        view.row(row(1, ends(1), Standing::Good));
        view.row(row(2, ends(2), Standing::Failed));
        view.row(row(3, long, Standing::Good));
        let diagnosis = Diagnosis {
            about: Standing::Failed,
            sender: Sender::Opener,
            first: PLACE,
            segments: 3,
            kind: "mac-length",
            cause: "192.0.2.2:50000 sends MACs of 16 octets".to_owned(),
            advice: "Set the same length at both ends\u{7}, which is 12 octets in most implementations."
                .to_owned(),
        };
        let reason = Reason { is_new: true, time: PLACE.time, number: 2, ends: ends(2), diagnosis };
        view.reason(&reason);
        view.reason(&reason);
        let cause = "198.51.100.1:179 did not answer".to_owned();
        let unopened =
            Diagnosis { about: Standing::NotOpen, kind: "syn-unanswered", cause, ..reason.diagnosis.clone() };
        view.reason(&Reason { diagnosis: unopened, ..reason });
        view
    }

    /// The lines that a terminal of this size shows.
    fn shown(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        view.order.sort(&mut view.rows);
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    #[test]
    fn the_table_fits_80_columns_with_what_failed_first_and_why() {
        let lines = shown(&mut view(), 80, 16);
        let expected = [
            "wireseal verify -i eth0  1 failed  3 connections  0 packets  00:00:00",
            "    # verdict    connection                                good  failed last UTC",
            "    2 FAILED     192.0.2.2:50000 -> 198.51.100.1:179          0   1,202 20:26:40",
        ];
        assert_eq!(lines[..3], expected);
        assert!(lines[3].starts_with("    3 good       [2001:db8:1111:2222:"), "{lines:#?}");
        assert!(lines[5].starts_with("    1 good       192.0.2.1:50000 -> "), "{lines:#?}");
        let why = lines.iter().position(|line| line.starts_with("why")).unwrap();
        assert!(
            lines[why + 1]
                .starts_with("20:26:40 FAILED #2 192.0.2.2:50000 -> 198.51.100.1:179: 192.0.2.2:50000")
        );
        assert!(lines[why + 2..].join(" ").contains("at both ends\u{fffd}, which"), "{lines:#?}");
        // Once, though it was told twice.
        assert_eq!(lines.iter().filter(|line| line.contains("FAILED #2")).count(), 1);
        assert_eq!(lines[15], "q end  ↑↓ PgUp PgDn table  Tab why  s sort: failed first");
    }

    #[test]
    fn at_120_columns_it_has_the_keys_too() {
        let lines = shown(&mut view(), 120, 16);
        assert!(lines[1].contains("not judged key              last UTC"), "{lines:#?}");
        assert!(lines[2].contains(" core/100 "), "{lines:#?}");
        assert!(
            lines[4].starts_with("                 -> [2001:db8:1111:2222:3333:4444:5555:2]:50000"),
            "{lines:#?}"
        );
    }

    #[test]
    fn keys_are_left_out_if_connections_would_take_two_lines_for_them() {
        let lines = shown(&mut view(), 100, 16);
        assert!(!lines[1].contains("key"), "{lines:#?}");
        assert!(lines[2].contains("192.0.2.2:50000 -> 198.51.100.1:179"), "{lines:#?}");
    }

    #[test]
    fn what_was_dropped_and_failed_is_shown_at_80_columns() {
        let mut view = view();
        view.title = format!("wireseal verify -i {}", ["eth0"; 20].join(", "));
        view.live = 1_234_567;
        view.bad = [12_345, 23_456, 3];
        view.counted = Counted { packets: 123_456_789, dropped: 45_678 };
        let lines = shown(&mut view, 80, 16);
        let expected = "wireseal verify -i eth0, …  12,345 failed  23,456 not open  45,678 dropped  ";
        assert!(lines[0].starts_with(expected), "{lines:#?}");
    }

    #[test]
    fn the_reason_of_a_failure_is_seen_however_many_did_not_open() {
        let mut view = view();
        let template = view.reasons.back().unwrap().clone();
        for number in 10..40 {
            let mut reason = template.clone();
            reason.number = number;
            view.reason(&reason);
        }
        let lines = shown(&mut view, 80, 24);
        let why = lines.iter().position(|line| line.starts_with("why")).unwrap();
        assert!(lines[why + 1].contains(" FAILED #2 "), "{lines:#?}");
        // Three connections take four lines, and their heading one; the rest is for reasons.
        assert_eq!(why, 6, "{lines:#?}");
        assert!(!lines.iter().any(|line| line.is_empty()), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains(" NOT OPEN #2 ")), "{lines:#?}");
        view.press(KeyCode::Tab);
        view.press(KeyCode::End);
        let lines = shown(&mut view, 80, 24);
        assert!(lines.iter().any(|line| line.contains(" NOT OPEN #2 ")), "{lines:#?}");
        assert!(lines[2].starts_with("    2 FAILED "), "{lines:#?}");
    }

    #[test]
    fn keys_scroll_and_sort_and_end() {
        let mut view = view();
        let first = |view: &mut View| shown(view, 80, 16)[2].split_whitespace().next().map(str::to_owned);
        assert_eq!(first(&mut view).as_deref(), Some("2"));
        view.press(KeyCode::Char('s'));
        assert_eq!(first(&mut view).as_deref(), Some("3"));
        view.press(KeyCode::Char('s'));
        assert_eq!(first(&mut view).as_deref(), Some("1"));
        // Four lines: one for the heading, three for rows; nothing is scrolled away for nothing.
        view.press(KeyCode::Down);
        assert_eq!(first(&mut view).as_deref(), Some("1"));
        let second = |view: &mut View| shown(view, 80, 6)[2].split_whitespace().next().map(str::to_owned);
        view.press(KeyCode::End);
        assert_eq!(second(&mut view).as_deref(), Some("3"));
        view.press(KeyCode::Home);
        assert_eq!(second(&mut view).as_deref(), Some("1"));
        assert!(view.press(KeyCode::Char('q')) && !view.press(KeyCode::Char('x')));
        // Any size of terminal.
        for (width, height) in [(1, 1), (3, 2), (20, 3), (300, 100)] {
            shown(&mut view, width, height);
        }
    }
}
