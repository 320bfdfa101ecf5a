//! `wireseal verify --annotate`: the capture again, with each verdict as a comment on its packet.
//!
//! Why segments failed is known when their connection is over, and the summary in the end. So the verdicts are kept in a temporary file
//! until the capture is read a second time.

use std::error::Error;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, SpooledTempFile};
use wireseal_tcp_ao::Sne;

use super::say::say;
use super::signals::Signals;
use crate::capture::{self, CaptureError, Copied, Reader};
use crate::keys::Keys;
use crate::report::comment;
use crate::text::{Printable, counted};
use crate::verify::report::{ConnectionReport, SegmentReport, Sender, Standing, Totals, Verdict, not_judged};

/// Octets of verdicts, and of reasons, kept in memory; more go to temporary files.
const IN_MEMORY: usize = 1 << 20;

/// A capture that is read twice, and the file that is written.
pub(super) struct Annotations<'k> {
    path: PathBuf,
    output: NamedTempFile,
    /// The capture, or what was read of standard input.
    input: File,
    /// How many octets of it are read.
    length: u64,
    entries: BufWriter<SpooledTempFile>,
    comments: Comments<'k>,
}

/// The verdict on one segment, as it is kept.
struct Entry {
    packet: u64,
    /// The place of the verdict in [`Comments::verdicts`].
    verdict: u16,
    /// Of a good segment, the index of the key, or [`NO_KEY`]; of any other, its sender.
    key_or_sender: u16,
    /// Of a good segment, its SNE; of any other, the number of its connection.
    sne_or_connection: u64,
}

const NO_KEY: u16 = u16::MAX;
/// Octets of an entry.
const ENTRY: usize = 20;

impl Entry {
    fn write(&self, output: &mut impl Write) -> io::Result<()> {
        output.write_all(&self.packet.to_le_bytes())?;
        output.write_all(&self.verdict.to_le_bytes())?;
        output.write_all(&self.key_or_sender.to_le_bytes())?;
        output.write_all(&self.sne_or_connection.to_le_bytes())
    }

    /// `None` at the end.
    fn read(input: &mut impl BufRead) -> io::Result<Option<Self>> {
        if input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut octets = [0; ENTRY];
        input.read_exact(&mut octets)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, rest @ ..] = octets;
        Ok(Some(Self {
            packet: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            verdict: u16::from_le_bytes([i, j]),
            key_or_sender: u16::from_le_bytes([k, l]),
            sne_or_connection: u64::from_le_bytes(rest),
        }))
    }
}

/// What makes a comment of an entry.
struct Comments<'k> {
    keys: &'k Keys,
    /// The different verdicts; malformed options differ by what is wrong.
    verdicts: Vec<Verdict>,
    /// Why segments failed or were not judged.
    reasons: SpooledTempFile,
    /// Where the reasons are for the segments of one end of a connection that failed or were not judged, see [`place_of`].
    of_connection: Spans,
    /// The same for what is said about the connection, by the number of the first packet concerned.
    of_packet: Spans,
    /// Key and SNE of the last good segment, and its comment: most have those of the one before.
    good: ((u16, u64), String),
}

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    start: u64,
    length: usize,
}

/// A span for each of many numbers, in a temporary file: there may be as many as connections in the capture.
struct Spans {
    file: SpooledTempFile,
    /// The part of the file that was read last, and where it begins: packets are asked for in order.
    read: Vec<u8>,
    start: u64,
}

/// Octets of a span in a file: its start and its length, or zeros for none.
const SPAN: usize = 16;
/// Octets that are read of spans at a time.
const READ: usize = 4096;

impl Spans {
    fn new() -> Self {
        Self { file: SpooledTempFile::new(IN_MEMORY), read: Vec::new(), start: 0 }
    }

    /// Sets the span of a number; it is not empty.
    fn set(&mut self, number: u64, span: Span) -> io::Result<()> {
        let mut octets = [0; SPAN];
        octets[..8].copy_from_slice(&span.start.to_le_bytes());
        octets[8..].copy_from_slice(&(span.length as u64).to_le_bytes());
        self.read.clear();
        // What is left out between takes no room in the file.
        self.file.seek(SeekFrom::Start(number * SPAN as u64))?;
        self.file.write_all(&octets)
    }

    /// The span of a number, if it was set.
    fn get(&mut self, number: u64) -> io::Result<Option<Span>> {
        let at = number * SPAN as u64;
        let start = at - at % READ as u64;
        if self.read.is_empty() || self.start != start {
            self.read.clear();
            self.start = start;
            self.file.seek(SeekFrom::Start(start))?;
            Read::by_ref(&mut self.file).take(READ as u64).read_to_end(&mut self.read)?;
            // What is behind the end was not set.
            self.read.resize(READ, 0);
        }
        let octets = self.read[(at - start) as usize..].first_chunk::<SPAN>().copied().unwrap_or_default();
        let [a, b, c, d, e, f, g, h, length @ ..] = octets;
        let span = Span {
            start: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            length: u64::from_le_bytes(length) as usize,
        };
        Ok(Some(span).filter(|span| span.length > 0))
    }
}

/// The number in [`Comments::of_connection`] for one end of a connection.
const fn place_of(connection: u64, sender: u16, is_failure: bool) -> u64 {
    connection * 4 + sender as u64 * 2 + is_failure as u64
}

/// Standard input, or a pipe, with a copy of what is read.
struct Tee<R> {
    input: R,
    copy: File,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.copy.write_all(&buffer[..read])?;
        Ok(read)
    }
}

impl<'k> Annotations<'k> {
    /// Opens the capture, and a temporary file beside `path`, which the result replaces when it is complete.
    pub(super) fn open(
        capture: &Path,
        path: &Path,
        keys: &'k Keys,
    ) -> Result<(Result<Reader, CaptureError>, Self), Box<dyn Error>> {
        let opened = |source| CaptureError::Open { path: capture.into(), source };
        let is_standard_input = capture == Path::new("-");
        let file = if is_standard_input { None } else { Some(File::open(capture).map_err(opened)?) };
        let metadata = file.as_ref().map(File::metadata).transpose().map_err(opened)?;
        let regular = metadata.filter(Metadata::is_file);
        check(path)?;
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As private as the capture.
        let mode = regular.as_ref().map_or(0o600, |metadata| metadata.mode() & 0o666);
        let signals = Signals::register()?;
        let output = tempfile::Builder::new()
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(directory)
            .map_err(failed)?;
        // A signal ends the process without dropping the file.
        let unfinished = output.path().to_owned();
        let remove = move || {
            // It may have been renamed in this moment.
            let _ = fs::remove_file(&unfinished);
        };
        signals.watch(true, remove)?;
        let (reader, input, length) = match (file, &regular) {
            // A file that grows in the meantime is read as far as now.
            (Some(file), Some(metadata)) => {
                let length = metadata.len();
                (Reader::new(file.try_clone()?.take(length), Some(length)), file, length)
            }
            (file, _) => {
                let spool = tempfile::tempfile()?;
                let copy = spool.try_clone()?;
                let reader = match file {
                    Some(input) => Reader::new(Tee { input, copy }, None),
                    None => Reader::new(Tee { input: io::stdin(), copy }, None),
                };
                (reader, spool, u64::MAX)
            }
        };
        let comments = Comments {
            keys,
            verdicts: vec![Verdict::Good],
            reasons: SpooledTempFile::new(IN_MEMORY),
            of_connection: Spans::new(),
            of_packet: Spans::new(),
            good: ((NO_KEY, 0), comment::good(keys, None, None)),
        };
        let entries = BufWriter::new(SpooledTempFile::new(IN_MEMORY));
        Ok((reader, Self { path: path.into(), output, input, length, entries, comments }))
    }

    /// Keeps the verdict on a segment of the connection with this number.
    pub(super) fn segment(&mut self, connection: u64, segment: &SegmentReport) -> io::Result<()> {
        let verdicts = &mut self.comments.verdicts;
        let verdict = verdicts.iter().position(|known| *known == segment.verdict).unwrap_or_else(|| {
            verdicts.push(segment.verdict);
            verdicts.len() - 1
        });
        let (key_or_sender, sne_or_connection) = match segment.verdict {
            Verdict::Good => {
                let key = segment.key.and_then(|key| key.try_into().ok());
                (key.unwrap_or(NO_KEY), segment.sne.map_or(0, |sne| sne.0.into()))
            }
            _ => (segment.sender as u16, connection),
        };
        let entry =
            Entry { packet: segment.place.packet, verdict: verdict as u16, key_or_sender, sne_or_connection };
        entry.write(&mut self.entries)
    }

    /// Keeps why segments of a connection failed or were not judged.
    pub(super) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        self.comments.connection(connection)
    }

    /// Reads the capture again and writes the file, with `summary` as the comment of its first section. `end` is where the capture is
    /// damaged, if it is.
    pub(super) fn write(
        self,
        summary: &str,
        totals: &Totals,
        end: Option<u64>,
    ) -> Result<(), Box<dyn Error>> {
        let Self { path, output, mut input, length, entries, mut comments } = self;
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let mut entries = entries.into_inner().map_err(|error| failed(error.into()))?;
        entries.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut entries = BufReader::new(entries);
        let mut next = Entry::read(&mut entries).map_err(failed)?;
        input.seek(SeekFrom::Start(0))?;
        let mut output = BufWriter::with_capacity(OUTPUT, output);
        let copied = capture::annotate(input.take(length), &mut output, summary, end, |packet, text| {
            while let Some(entry) = next.take_if(|entry| entry.packet <= packet) {
                if entry.packet == packet {
                    comments.write(&entry, text)?;
                }
                next = Entry::read(&mut entries)?;
            }
            Ok(())
        });
        let Copied { packets, without_room, .. } = copied.map_err(failed)?;
        if packets != totals.packets {
            return Err(format!("{}: the capture changed while it was read", path.display()).into());
        }
        let output = output.into_inner().map_err(|error| failed(error.into()))?;
        output.persist(&path).map_err(|error| failed(error.error))?;
        if end.is_some() {
            let packets = counted(packets, "packet");
            say(format_args!("{} ends where the capture is damaged, after {packets}", path.display()));
        }
        if without_room > 0 {
            let packets = counted(without_room, "packet");
            let path = path.display();
            say(format_args!(
                "{path}: {packets} without a comment: a Simple Packet Block has no room for one"
            ));
        }
        Ok(())
    }
}

/// Octets of the file that is written at a time.
const OUTPUT: usize = 1 << 18;

/// Refuses a path that is not for a new or a regular file.
fn check(path: &Path) -> Result<(), String> {
    let Ok(existing) = fs::symlink_metadata(path) else { return Ok(()) };
    if !existing.is_file() {
        return Err(format!("{}: not a regular file, so it is not replaced", path.display()));
    }
    Ok(())
}

impl Comments<'_> {
    /// Keeps why segments of a connection failed or were not judged.
    fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        for sender in Sender::BOTH {
            let (end, counts) =
                (connection.ends[sender as usize], &connection.directions[sender as usize].counts);
            let reason = |about| comment::reason(end, sender, counts, about, &connection.diagnoses);
            for (about, is_failure) in [(Standing::Failed, true), (Standing::NotJudged, false)] {
                if let Some(reason) = reason(about) {
                    let span = self.keep(&reason)?;
                    self.of_connection.set(place_of(connection.number, sender as u16, is_failure), span)?;
                }
            }
            let of_connection = [
                (Standing::NotOpen, true, "the connection did not open"),
                (Standing::NotJudged, not_judged(counts) == 0, "the connection could not be judged"),
            ];
            for (about, is_said, words) in of_connection {
                let diagnoses = connection.diagnoses.iter();
                for diagnosis in
                    diagnoses.filter(|found| is_said && (found.about, found.sender) == (about, sender))
                {
                    let sentence = diagnosis.sentence();
                    let span = self.keep(&format!("{words}: {}", Printable(&sentence)))?;
                    self.of_packet.set(diagnosis.first.packet, span)?;
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, reason: &str) -> io::Result<Span> {
        let start = self.reasons.seek(SeekFrom::End(0))?;
        self.reasons.write_all(reason.as_bytes())?;
        Ok(Span { start, length: reason.len() })
    }

    /// Adds the comment of an entry to a text.
    fn write(&mut self, entry: &Entry, text: &mut String) -> io::Result<()> {
        let Entry { packet, verdict, key_or_sender, sne_or_connection } = *entry;
        let verdict = self.verdicts[usize::from(verdict)];
        // Two segments in one packet.
        if !text.is_empty() {
            text.push('\n');
        }
        let reason = if verdict == Verdict::Good {
            if self.good.0 != (key_or_sender, sne_or_connection) {
                let key = (key_or_sender != NO_KEY).then_some(key_or_sender.into());
                let comment = comment::good(self.keys, key, Some(Sne(sne_or_connection as u32)));
                self.good = ((key_or_sender, sne_or_connection), comment);
            }
            *text += &self.good.1;
            None
        } else {
            *text += &comment::not_good(verdict);
            self.of_connection.get(place_of(sne_or_connection, key_or_sender, verdict.is_failure()))?
        };
        let of_packet = self.of_packet.get(packet)?;
        for (before, span) in [(": ", reason), ("; ", of_packet)] {
            let Some(Span { start, length }) = span else { continue };
            let mut reason = vec![0; length];
            self.reasons.seek(SeekFrom::Start(start))?;
            self.reasons.read_exact(&mut reason)?;
            if text.ends_with('.') {
                // After a sentence another one begins.
                reason[..1].make_ascii_uppercase();
                text.push(' ');
            } else {
                *text += before;
            }
            *text += &String::from_utf8_lossy(&reason);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_found_in_memory_and_in_a_file() {
        let span = |number: u64| Span { start: number * 7, length: number as usize + 1 };
        // As connections end: in no order, and some without a reason.
        let numbers =
            |most: u64| (0..most).map(move |number| number * 7919 % most).filter(|number| number % 3 > 0);
        let mut spans = Spans::new();
        for most in [500, 200_000] {
            for number in numbers(most) {
                spans.set(number, span(number)).unwrap();
            }
            assert_eq!(spans.file.is_rolled(), most as usize * SPAN > IN_MEMORY);
            for number in (0..most + 1000).chain(numbers(most).take(1000)) {
                let expected = (number < most && number % 3 > 0).then(|| span(number));
                assert_eq!(spans.get(number).unwrap(), expected, "{number} of {most}");
            }
        }
    }
}
