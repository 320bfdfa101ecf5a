//! `wireseal verify -i`: checks TCP segments as they are sent and received.

use std::cell::Cell;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::value_parser;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use wireseal_linux::PacketFilter;

use super::outcome::{Outcome, Result};
use super::say::say;
use super::signals::{Ending, Signals};
use crate::capture::{Packet, Reader, Statistics, Time, Writer};
use crate::keys::Keys;
use crate::live::{
    Counted, InterfaceError, Interfaces, Lines, Reason, Screen, Watch, open_as_caller, restore_terminal,
};
use crate::output;
use crate::report::{Format, Report, Subject};
use crate::terminal::Wrapped;
use crate::verify::report::Standing;
use crate::verify::{Verifier, VerifyEvent, VerifyOptions};

/// Where packets come from if not from a file, and for how long.
#[derive(Debug, clap::Args)]
pub(super) struct LiveArguments {
    /// Instead of a capture: live packets of this interface ("any": all); needs CAP_NET_RAW [repeatable]
    #[arg(short = 'i', long = "interface", value_name = "INTERFACE")]
    pub(super) interfaces: Vec<String>,
    /// Make the interface receive packets for other hosts too, as at a mirror port (with -i)
    #[arg(long)]
    promiscuous: bool,
    /// End after this many packets (with -i)
    #[arg(long, value_name = "PACKETS", value_parser = value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this many seconds (with -i)
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Also write the packets to this file, as pcapng (with -i)
    #[arg(long, value_name = "FILE")]
    pub(super) write: Option<PathBuf>,
}

impl LiveArguments {
    /// Refuses the options that only an interface can have.
    pub(super) fn check_without_interface(&self) -> std::result::Result<(), String> {
        let given = [
            ("--promiscuous", self.promiscuous),
            ("--count", self.count.is_some()),
            ("--seconds", self.seconds.is_some()),
            ("--write", self.write.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(format!("{option} needs an interface: -i")),
            None => Ok(()),
        }
    }
}

/// What is reported, and how.
pub(super) struct Wanted<'a> {
    pub(super) keys: &'a Keys,
    pub(super) options: VerifyOptions,
    pub(super) format: Format,
    /// Report every segment.
    pub(super) segments: bool,
    pub(super) html: Option<&'a Path>,
}

/// How often live connections are looked at, if that takes little of the time.
const LOOK: Duration = Duration::from_millis(250);
/// How many times as long as a look takes passes until the next.
const PAUSE: u32 = 20;
/// How long a capture from standard input is not shown in a table: it may be a short one that is there already.
const SOON: Duration = Duration::from_secs(1);
/// How many packets are read of it before keys and signals are.
const READ_AT_ONCE: u64 = 1024;
/// How often keys are read and signals noticed.
pub(super) const WAIT: Duration = Duration::from_millis(50);

pub(super) fn run(arguments: LiveArguments, wanted: Wanted<'_>) -> Result {
    let LiveArguments { interfaces, promiscuous, count, seconds, write } = arguments;
    let Wanted { keys, options, format, segments, html } = wanted;
    let signals = Signals::register()?;
    let filter = PacketFilter { peers: options.peers.clone(), ports: options.ports.clone() };
    let mut interfaces = Interfaces::open(&interfaces, &filter, promiscuous)?;
    let name = interfaces.name();
    let subject = Subject { capture: &name, keys };
    // The report is shown when the table makes way.
    let held = match format {
        Format::Text { .. } if is_capable_terminal() && !segments => Some(tempfile::tempfile()?),
        _ => None,
    };
    let output: Box<dyn Write> = match (&held, format) {
        (Some(held), _) => Box::new(BufWriter::new(Wrapped::new(held.try_clone()?))),
        (None, Format::Text { .. }) => Box::new(Wrapped::new(io::stdout())),
        (None, _) => Box::new(BufWriter::new(io::stdout())),
    };
    let mut report = Report::new(output, format, subject)?;
    let open = || -> std::result::Result<_, Box<dyn Error>> {
        if let Some(path) = html {
            report = report.with_page(path, subject)?;
        }
        let file = write.as_ref().map(|path| PacketFile::create(path, &interfaces));
        Ok((report, file.transpose()?))
    };
    let opened = open_as_caller(open).map_err(|error| format!("privileges cannot be dropped: {error}"))?;
    let (report, mut file) = opened?;
    // The thread has no privileges either.
    let ending = signals.watch(false, restore_terminal)?;

    let front = match format {
        Format::Text { colours, .. } => match &held {
            Some(_) => Front::screen(format!("wireseal verify -i {name}"), colours),
            None => Front::Lines(Lines::new(io::stdout())),
        },
        _ => Front::Silent,
    };
    if !matches!(front, Front::Screen(_)) {
        say(format_args!("listening on {name}; Ctrl-C ends"));
    }
    let mut verifier = Verifier::new(keys, options);
    let mut listener = Listener { report, front, held, watch: Watch::default(), segments };
    // So many seconds that no clock counts them are no limit.
    let until = seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let limits = Limits { ending: &ending, count, until };
    let cut = capture(&mut interfaces, &mut verifier, &mut listener, file.as_mut(), &limits)?;
    let statistics = interfaces.statistics().unwrap_or_default();
    verifier.note_dropped(dropped(&statistics).saturating_sub(verifier.dropped()));
    let (damage, written) = match cut {
        Some(Cut::File(error)) => (None, Err(format!("{error}; that ended it").into())),
        Some(Cut::Interface(error)) => (Some(error.to_string()), Ok(file)),
        None => (None, Ok(file)),
    };
    let written = written.and_then(|file| {
        file.map_or(Ok(()), |file| file.finish(&statistics)).map_err(Box::<dyn Error>::from)
    });
    // Whatever became of the file, there are verdicts.
    let outcome = listener.finish(verifier, damage, &ending);
    written.and(outcome)
}

/// Whether a capture from standard input can be shown in a table as it arrives: it comes from another program, and goes to a terminal.
pub(super) fn can_follow(capture: &Path, wanted: &Wanted<'_>) -> bool {
    let is_of_program =
        || fstat(io::stdin()).is_ok_and(|stat| !FileType::from_raw_mode(stat.st_mode).is_file());
    let is_text = matches!(wanted.format, Format::Text { .. }) && !wanted.segments;
    capture == Path::new("-") && is_text && is_capable_terminal() && is_of_program()
}

/// Checks a capture from standard input as it arrives, and shows it in a table unless it ends soon.
pub(super) fn follow(mut reader: Reader, wanted: Wanted<'_>) -> Result {
    let Wanted { keys, options, format, segments, html } = wanted;
    let ending = Signals::register()?.watch(false, restore_terminal)?;
    let name = "-";
    let subject = Subject { capture: name, keys };
    let held = tempfile::tempfile()?;
    let output: Box<dyn Write> = Box::new(BufWriter::new(Wrapped::new(held.try_clone()?)));
    let mut report = Report::new(output, format, subject)?;
    if let Some(path) = html {
        report = report.with_page(path, subject)?;
    }
    let mut verifier = Verifier::new(keys, options);
    let mut listener =
        Listener { report, front: Front::Silent, held: Some(held), watch: Watch::default(), segments };
    let (mut packets, started) = (0, Instant::now());
    let mut next_look = started + SOON;
    let damage = loop {
        // Reading would wait, and keys and signals with it.
        let has_input = reader.is_ahead() || wait_for_input()?;
        if has_input {
            match reader.next_packet() {
                None => break None,
                Some(Ok(packet)) => {
                    packets = packet.number;
                    verifier.packet(&packet, |found| listener.event(found))?;
                }
                Some(Err(error)) => break Some(error.to_string()),
            }
        }
        if !reader.is_ahead() {
            verifier.judge_queued(|found| listener.event(found))?;
        }
        if has_input && !packets.is_multiple_of(READ_AT_ONCE) {
            continue;
        }
        if listener.is_ended_by_user()? || ending.is_asked() {
            break None;
        }
        let now = Instant::now();
        if now >= next_look {
            if let (Front::Silent, Format::Text { colours, .. }) = (&listener.front, format) {
                listener.front =
                    Front::Screen(Box::new(Screen::open("wireseal verify -".to_owned(), colours)?));
            }
            listener.look(&verifier, Counted { packets, dropped: 0 })?;
            next_look = now + LOOK.max(now.elapsed() * PAUSE);
        }
    };
    listener.finish(verifier, damage, &ending)
}

/// Waits a moment for standard input. Returns whether there is any, or its end.
fn wait_for_input() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    let limit = Timespec { tv_sec: 0, tv_nsec: WAIT.subsec_nanos().into() };
    match poll(&mut waiting, Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// When to end.
struct Limits<'a> {
    /// A signal came.
    ending: &'a Ending,
    /// So many packets were taken.
    count: Option<u64>,
    /// It is so late.
    until: Option<Instant>,
}

impl Limits<'_> {
    fn are_over(&self) -> bool {
        self.ending.is_asked() || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Why no more packets are taken at once.
enum Stop {
    /// There were enough.
    Enough,
    /// The file that packets are written to failed.
    File(io::Error),
    Failed(io::Error),
}

/// Why it ended before it was to.
enum Cut {
    Interface(InterfaceError),
    File(io::Error),
}

/// Takes packets until a limit is reached, or the user ends it. Returns why it ended before, if it did.
fn capture(
    interfaces: &mut Interfaces,
    verifier: &mut Verifier<'_>,
    listener: &mut Listener<'_>,
    mut file: Option<&mut PacketFile>,
    limits: &Limits<'_>,
) -> io::Result<Option<Cut>> {
    let packets = Cell::new(0);
    let mut next_look = Instant::now();
    let mut cut = None;
    loop {
        // What came before is taken still.
        let is_over = listener.is_ended_by_user()? || limits.are_over();
        let taken = interfaces.take(|interface, packet| {
            packets.set(packet.number);
            let write = file.as_mut().map_or(Ok(()), |file| file.packet(interface, packet));
            verifier.packet(packet, |found| listener.event(found)).map_err(Stop::Failed)?;
            write.map_err(Stop::File)?;
            if limits.count.is_some_and(|count| packet.number >= count) { Err(Stop::Enough) } else { Ok(()) }
        });
        let has_more = match taken {
            Ok(Ok(has_more)) => has_more,
            Ok(Err(Stop::Enough)) => break,
            Ok(Err(Stop::Failed(error))) => return Err(error),
            Ok(Err(Stop::File(error))) => {
                cut = Some(Cut::File(error));
                break;
            }
            Err(error) => {
                cut = Some(Cut::Interface(error));
                break;
            }
        };
        if !has_more {
            verifier.judge_queued(|found| listener.event(found))?;
            listener.flush()?;
        }
        if is_over {
            break;
        }
        let now = Instant::now();
        if now >= next_look {
            let dropped = dropped(&interfaces.statistics()?);
            verifier.note_dropped(dropped.saturating_sub(verifier.dropped()));
            listener.look(verifier, Counted { packets: packets.get(), dropped })?;
            next_look = now + LOOK.max(now.elapsed() * PAUSE);
        }
        if !has_more {
            interfaces.wait(WAIT)?;
        }
    }
    Ok(cut)
}

/// How many packets the kernel dropped at all interfaces.
pub(super) fn dropped(statistics: &[Statistics]) -> u64 {
    statistics.iter().map(|statistics| statistics.dropped).sum()
}

/// Where what is found goes.
struct Listener<'a> {
    report: Report<'a, Box<dyn Write>>,
    front: Front,
    /// The report, if it waits for the end.
    held: Option<File>,
    watch: Watch,
    segments: bool,
}

/// What is shown meanwhile.
enum Front {
    Screen(Box<Screen>),
    Lines(Lines<io::Stdout>),
    /// The report itself is written as it comes.
    Silent,
}

impl Listener<'_> {
    fn event(&mut self, found: VerifyEvent<'_>) -> io::Result<()> {
        match found {
            VerifyEvent::Segment { connection, ends, segment } => {
                if let Front::Lines(lines) = &mut self.front {
                    lines.segment(connection, ends, &segment)?;
                }
                if self.segments { self.report.segment(connection, ends, &segment) } else { Ok(()) }
            }
            VerifyEvent::Connection(connection) => {
                for reason in self.watch.end(&connection) {
                    self.front.reason(&reason)?;
                }
                if let Front::Lines(lines) = &mut self.front {
                    lines.connection(&connection)?;
                }
                self.report.connection(&connection)
            }
        }
    }

    /// Tells what is new about live connections.
    fn look(&mut self, verifier: &Verifier<'_>, counted: Counted) -> io::Result<()> {
        let Self { front, watch, .. } = self;
        let reasons = match front {
            Front::Screen(screen) => {
                screen.clear_rows();
                watch.look(verifier, |row| screen.row(row))
            }
            Front::Lines(_) => watch.look(verifier, |_| {}),
            Front::Silent => return Ok(()),
        };
        for reason in reasons {
            front.reason(&reason)?;
        }
        match front {
            Front::Screen(screen) => screen.draw(counted),
            Front::Lines(lines) => lines.dropped(counted.dropped),
            Front::Silent => Ok(()),
        }
    }

    fn is_ended_by_user(&mut self) -> io::Result<bool> {
        match &mut self.front {
            Front::Screen(screen) => screen.keys(),
            _ => Ok(false),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // One that waits is shown at the end.
        if self.held.is_some() { Ok(()) } else { self.report.flush() }
    }

    /// Ends the report, and shows it in place of the table.
    fn finish(mut self, verifier: Verifier<'_>, damage: Option<String>, ending: &Ending) -> Result {
        // The terminal is restored before what waits is judged, which may take long, so that Ctrl-C is a signal again.
        if let Front::Screen(_) = self.front {
            self.front = Front::Silent;
        }
        ending.is_near();
        let totals = verifier.finish(damage, |found| self.event(found))?;
        let Self { report, held, .. } = self;
        let standing = report.standing();
        let finished = report.finish(&totals);
        if let Some(mut held) = held {
            held.seek(SeekFrom::Start(0))?;
            io::copy(&mut held, &mut io::stdout().lock())?;
        }
        finished?;
        Ok(match standing {
            Standing::Good if totals.is_incomplete() => Outcome::NotJudged,
            standing => standing.into(),
        })
    }
}

impl Front {
    /// The table, or lines if the process has no terminal of its own to read keys from.
    fn screen(title: String, colours: bool) -> Self {
        match Screen::open(title, colours) {
            Ok(screen) => Self::Screen(Box::new(screen)),
            Err(_) => Self::Lines(Lines::new(io::stdout())),
        }
    }

    fn reason(&mut self, reason: &Reason) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.reason(reason),
            Self::Lines(lines) => lines.reason(reason)?,
            Self::Silent => {}
        }
        Ok(())
    }
}

/// The file that packets are written to.
struct PacketFile {
    writer: Writer<BufWriter<File>>,
    name: String,
    last: Option<Time>,
}

impl PacketFile {
    /// Creates the file, for its owner alone. One that exists is emptied and keeps owner and mode.
    fn create(path: &Path, interfaces: &Interfaces) -> std::result::Result<Self, Box<dyn Error>> {
        let name = path.display().to_string();
        let named = |error: io::Error| format!("{name}: {error}");
        let file = output::create(path, 0o600).map_err(named)?;
        let mut writer = Writer::new(BufWriter::with_capacity(1 << 18, file), None).map_err(named)?;
        for description in interfaces.descriptions() {
            writer.interface(&description).map_err(named)?;
        }
        Ok(Self { writer, name, last: None })
    }

    fn packet(&mut self, interface: u32, packet: &Packet<'_>) -> io::Result<()> {
        self.last = packet.time;
        self.writer.packet(interface, packet, None).map_err(|error| self.named(error))
    }

    /// Writes what the kernel counted, and everything that waits.
    fn finish(mut self, statistics: &[Statistics]) -> io::Result<()> {
        let mut write = || {
            for (interface, statistics) in (0..).zip(statistics) {
                self.writer.statistics(interface, self.last, *statistics)?;
            }
            self.writer.flush()
        };
        write().map_err(|error| self.named(error))
    }

    fn named(&self, error: io::Error) -> io::Error {
        io::Error::other(format!("{}: {error}", self.name))
    }
}

/// Whether standard output is a terminal on which a table can be kept up to date.
fn is_capable_terminal() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
