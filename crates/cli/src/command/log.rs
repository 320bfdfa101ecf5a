//! The log of `run` and `gateway`. A thread that logs may hold a lock that packets or the program's calls wait for, and the reader of the
//! log may stop reading (a full pipe, a stopped terminal, a stuck journal). So a separate thread writes the lines to standard error, and
//! lines without room are dropped and counted.

use std::cell::Cell;
use std::io::{self, ErrorKind, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, process, thread};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

/// How many octets of lines may wait.
const ROOM: usize = 1 << 20;
/// At the end of the process: how long to wait while nothing is read, and in all.
const STANDSTILL: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(10);
/// How long to wait before writing again to a non-blocking standard error that is full.
const AGAIN: Duration = Duration::from_millis(10);

/// The exit code of a Rust program that has panicked.
const PANICKED: i32 = 101;

static LOG: OnceLock<Log> = OnceLock::new();

thread_local! {
    /// In the writing thread: how many lines it could not write. `None` in all other threads.
    static FAILED: Cell<Option<u64>> = const { Cell::new(None) };
}

struct Log {
    is_json: bool,
    queue: Mutex<Queue>,
    pushed: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Whole lines.
    lines: Vec<u8>,
    /// How many later lines had no room. Once one is lost, all are until the thread takes the waiting lines.
    lost: u64,
    /// Whether the thread is writing lines that it has taken.
    is_writing: bool,
}

impl Queue {
    fn push(&mut self, line: &[u8]) {
        if self.lost > 0 || self.lines.len() + line.len() > ROOM {
            self.lost += 1;
        } else {
            self.lines.extend_from_slice(line);
        }
    }

    const fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.lost == 0 && !self.is_writing
    }
}

/// Logs to standard error from now on, as text or as a JSON object for each event. From now on, a panic of any thread ends the process,
/// which could not do its work without that thread.
pub(super) fn start(is_json: bool) -> io::Result<()> {
    let (pushed, written) = (Condvar::new(), Condvar::new());
    LOG.get_or_init(|| Log { is_json, queue: Mutex::default(), pushed, written });
    thread::Builder::new().name("log".to_owned()).spawn(write_lines)?;
    let log = tracing_subscriber::fmt().with_writer(|| Line).with_target(false).log_internal_errors(false);
    if is_json {
        log.json().flatten_event(true).init();
    } else {
        log.with_ansi(false).fmt_fields(TextFields).init();
    }
    panic::set_hook(Box::new(end_with));
    Ok(())
}

/// Puts the message that ends a command into the log, if there is one: as a line, or as an event of a log in JSON.
pub(super) fn take(message: &str) -> bool {
    let Some(log) = LOG.get() else { return false };
    if log.is_json {
        tracing::error!("{message}");
    } else {
        log.push(format!("wireseal: {message}\n").as_bytes());
    }
    true
}

/// Waits until all lines are written, or nobody reads them.
pub(super) fn flush() {
    let Some(log) = LOG.get() else { return };
    let started = Instant::now();
    let mut queue = log.queue();
    while !queue.is_empty() && started.elapsed() < LIMIT {
        let (changed, waited) =
            log.written.wait_timeout(queue, STANDSTILL).unwrap_or_else(PoisonError::into_inner);
        queue = changed;
        if waited.timed_out() {
            break;
        }
    }
}

/// Ends the process after a panic.
fn end_with(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or("no message").replace('\n', " ");
    let thread = thread::current();
    tracing::error!(thread = thread.name(), "wireseal has panicked{place} and ends: {message}");
    flush();
    process::exit(PANICKED);
}

impl Log {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        self.queue().push(line);
        self.pushed.notify_one();
    }
}

/// The thread that writes, until the process ends.
fn write_lines() {
    FAILED.set(Some(0));
    let Some(log) = LOG.get() else { return };
    let (mut lines, mut lost) = (Vec::new(), 0);
    loop {
        let mut queue = log.queue();
        while queue.lines.is_empty() && queue.lost == 0 {
            queue = log.pushed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        lines.clear();
        std::mem::swap(&mut lines, &mut queue.lines);
        lost += std::mem::take(&mut queue.lost);
        queue.is_writing = true;
        drop(queue);
        for line in lines.split_inclusive(|octet| *octet == b'\n') {
            write_line(line);
            log.written.notify_all();
        }
        lost += FAILED.replace(Some(0)).unwrap_or_default();
        if lost > 0 {
            // This thread writes its own line at once.
            tracing::warn!("{lost} lines of the log were lost: nobody was reading it");
            if FAILED.replace(Some(0)) == Some(0) {
                lost = 0;
            }
        }
        log.queue().is_writing = false;
        log.written.notify_all();
    }
}

/// Writes a line in one call if possible, so that another process with the same standard error does not write into it.
fn write_line(mut line: &[u8]) {
    while !line.is_empty() {
        match io::stderr().write(line) {
            Ok(written) if written > 0 => line = &line[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process with the same standard error has made it non-blocking.
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(AGAIN),
            _ => return FAILED.set(FAILED.get().map(|failed| failed + 1)),
        }
    }
}

/// Takes the line of an event, which arrives in one piece.
struct Line;

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match LOG.get() {
            Some(log) if FAILED.get().is_none() => log.push(line),
            _ => write_line(line),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The fields of an event as text: its message first, without the ends of a connection that the message names. In JSON both ends are
/// fields.
struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = TextVisitor { fields: DefaultVisitor::new(writer, true), message: String::new() };
        fields.record(&mut visitor);
        visitor.fields.finish()
    }
}

struct TextVisitor<'w> {
    fields: DefaultVisitor<'w>,
    message: String,
}

impl Visit for TextVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "local" | "remote" if self.message.contains(&format!("{value:?}")) => return,
            _ => {}
        }
        self.fields.record_debug(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.record_str(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.fields.record_error(field, value);
    }
}

#[cfg(test)]
mod tests {
    //! Each test starts the log in a process of its own: this program, with a variable set.

    use std::env;
    use std::io::{BufRead, BufReader, PipeReader, Read};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// The variable: what the process does.
    const DOES: &str = "WIRESEAL_TEST_LOG";
    /// Lines that do not fit into a pipe and the log together.
    const LINES: usize = 30_000;

    /// Is such a process if the variable is set, and no test.
    #[test]
    fn logging_process() {
        let Ok(does) = env::var(DOES) else { return };
        let (is_json, does) = does.split_once(' ').unwrap();
        start(is_json == "json").unwrap();
        match does {
            "floods" => {
                for number in 0..LINES {
                    tracing::info!(number, "{}", "-".repeat(80));
                }
                // It did not wait for the reader, who begins now.
                println!("logged");
                io::stdin().read_line(&mut String::new()).unwrap();
                tracing::info!("the last");
            }
            "panics" => {
                let thread = thread::Builder::new().name("packets".to_owned());
                // It holds a lock that others wait for.
                let lock = Mutex::new(());
                let _ = thread::scope(|scope| {
                    let panics = move || {
                        let _locked = lock.lock();
                        panic!("two\nlines");
                    };
                    thread.spawn_scoped(scope, panics).unwrap().join()
                });
                tracing::error!("it goes on without one of its threads");
            }
            "fails" => {
                tracing::info!(local = %"192.0.2.1:1", remote = %"192.0.2.2:179", send_id = 7, "192.0.2.1:1 <-> 192.0.2.2:179: established");
                tracing::info!(remote = %"192.0.2.2:179", "connecting");
                assert!(take("the last word"));
            }
            _ => panic!("{does}"),
        }
        flush();
        process::exit(0);
    }

    fn process_that(does: &str) -> (Child, PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "command::log::tests::logging_process", "--nocapture"]).env(DOES, does);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
        (started, reader)
    }

    fn lines_of(does: &str) -> (Option<i32>, Vec<String>) {
        let (mut child, mut reader) = process_that(does);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (child.wait().unwrap().code(), text.lines().map(ToOwned::to_owned).collect())
    }

    fn await_logged(child: &mut Child) {
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("logged") {
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "{line}");
        }
    }

    #[test]
    fn lines_that_nobody_reads_are_lost_and_counted_and_all_others_come_in_order() {
        let (mut child, mut reader) = process_that("text floods");
        await_logged(&mut child);
        // Once there is a reader, the process goes on.
        let mut text = vec![0; 1 << 20];
        reader.read_exact(&mut text).unwrap();
        drop(child.stdin.take());
        reader.read_to_end(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let text = String::from_utf8(text).unwrap();
        let (mut next, mut lost) = (0, 0);
        for line in text.lines() {
            if let Some((_, number)) = line.split_once(" number=") {
                assert_eq!(number.parse::<usize>().unwrap(), next, "{line}");
                next += 1;
            } else if let Some((before, _)) = line.split_once(" lines of the log were lost") {
                assert!(line.contains(" WARN "), "{line}");
                let number: usize = before.rsplit(' ').next().unwrap().parse().unwrap();
                (next, lost) = (next + number, lost + number);
            } else {
                assert!(line.ends_with("the last"), "{line}");
            }
        }
        assert_eq!(next, LINES);
        assert!(lost > LINES / 10, "{lost}");
        assert!(text.ends_with("the last\n"), "{}", text.lines().last().unwrap());
    }

    #[test]
    fn a_process_ends_although_nobody_reads() {
        let (mut child, reader) = process_that("text floods");
        await_logged(&mut child);
        drop(child.stdin.take());
        let started = Instant::now();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(started.elapsed() < STANDSTILL + Duration::from_secs(5), "{:?}", started.elapsed());
        drop(reader);
    }

    #[test]
    fn a_panic_of_a_thread_ends_the_process_with_one_line() {
        let (code, lines) = lines_of("text panics");
        assert_eq!((code, lines.len()), (Some(PANICKED), 1), "{lines:?}");
        for part in [" ERROR ", "wireseal has panicked at ", "log.rs:", "two lines", "thread=\"packets\""] {
            assert!(lines[0].contains(part), "{}", lines[0]);
        }
    }

    #[test]
    fn in_json_every_line_is_an_event_and_text_says_nothing_twice() {
        let (code, lines) = lines_of("json fails");
        assert_eq!((code, lines.len()), (Some(0), 3), "{lines:?}");
        let events: Vec<serde_json::Value> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            (&events[0]["local"], &events[0]["remote"]),
            (&"192.0.2.1:1".into(), &"192.0.2.2:179".into())
        );
        assert_eq!((&events[0]["send_id"], &events[0]["level"]), (&7.into(), &"INFO".into()));
        assert_eq!((&events[2]["message"], &events[2]["level"]), (&"the last word".into(), &"ERROR".into()));
        let (_, lines) = lines_of("text fails");
        assert!(
            lines[0].ends_with(" INFO 192.0.2.1:1 <-> 192.0.2.2:179: established send_id=7"),
            "{}",
            lines[0]
        );
        assert!(lines[1].ends_with(" INFO connecting remote=192.0.2.2:179"), "{}", lines[1]);
        assert_eq!(lines[2], "wireseal: the last word");
    }
}
