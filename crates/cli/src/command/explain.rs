//! `wireseal explain`: what lines of logs mean.

use std::io::{self, BufRead, BufWriter, IsTerminal, Read, Write};

use serde::Serialize;

use super::outcome::{Outcome, Result};
use super::say::say;
use crate::explain::{Catalogue, Fields, Seen, Summary};
use crate::terminal::Wrapped;
use crate::text::counted;

/// Say what a log line of a router, a kernel or a daemon means, its likely causes, and which command decides between them
///
/// Without TEXT, or with -, lines are read from standard input, and each different message in them is explained once:
///
/// journalctl -k | wireseal explain
///
/// Exit codes: 0 at least one line is known, or is a counter that is 0, 2 the input cannot be read, 3 no line is known.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The line; its words may be several arguments
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result {
    let mut summary = Summary::default();
    match arguments.text.as_slice() {
        [] if io::stdin().is_terminal() => {
            return Err(
                "give a line of a log, or lines on standard input: journalctl -k | wireseal explain".into()
            );
        }
        [] => read(io::stdin().lock(), &mut summary)?,
        [only] if only == "-" => read(io::stdin().lock(), &mut summary)?,
        words => read(words.join(" ").as_bytes(), &mut summary)?,
    }
    let mut output = BufWriter::new(io::stdout().lock());
    if arguments.json {
        serde_json::to_writer_pretty(&mut output, &Object::new(&summary)).map_err(io::Error::from)?;
        writeln!(output)?;
        output.flush()?;
    } else {
        let mut wrapped = Wrapped::new(output);
        write_text(&mut wrapped, &summary)?;
        wrapped.flush()?;
    }
    if summary.seen.is_empty() && summary.zeros == 0 {
        say(match (summary.lines, summary.ambiguous) {
            (0, _) => "there is no line to explain".to_owned(),
            (_, Some((name, messages))) => {
                format!("{name} stands for {messages} messages: give the whole line")
            }
            (1, _) => format!("unknown line. {KNOWN}"),
            (lines, _) => format!("none of {lines} lines is known. {KNOWN}"),
        });
        return Ok(Outcome::NotJudged);
    }
    Ok(Outcome::Good)
}

const KNOWN: &str = "Known messages, and how to add one: docs/explain.md";

/// The octets of a line that are looked at.
const LONGEST_LINE: u64 = 64 * 1024;

fn read(mut input: impl BufRead, summary: &mut Summary<'static>) -> io::Result<()> {
    let catalogue = Catalogue::get();
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
        }
        summary.line(catalogue, String::from_utf8_lossy(&line).trim_end());
    }
}

fn write_text(output: &mut impl Write, summary: &Summary<'_>) -> io::Result<()> {
    for (place, seen) in summary.seen.iter().enumerate() {
        if place > 0 {
            writeln!(output)?;
        }
        let message = seen.found.message;
        writeln!(output, "{} ({})", seen.found.text, message.system)?;
        if summary.lines > 1 {
            write!(output, "  {}, the first is line {}", counted(seen.lines, "line"), seen.first_line)?;
            if seen.peers.len() > 1 {
                let more = if seen.has_more_peers { " and others" } else { "" };
                write!(output, "; peers {}{more}", seen.peers.join(", "))?;
            }
            writeln!(output)?;
        }
        writeln!(output, "meaning: {}", message.meaning)?;
        writeln!(output, "likely causes:")?;
        for (number, cause) in message.causes.iter().enumerate() {
            writeln!(output, "  {}. {cause}", number + 1)?;
        }
        writeln!(output, "to decide:")?;
        for command in &message.decide {
            writeln!(output, "  {}", seen.found.fields.fill(command))?;
        }
        writeln!(output, "source: {}", message.source)?;
    }
    if summary.lines > 1 && summary.known > 0 {
        writeln!(output)?;
        writeln!(output, "{} of {} known", summary.known, counted(summary.lines, "line"))?;
    }
    match (summary.zeros, summary.known) {
        (0, _) => {}
        (1, 0) => writeln!(output, "this counter is 0")?,
        (1, _) => writeln!(output, "1 other TCP-AO or TCP-MD5 counter is 0")?,
        (zeros, 0) => writeln!(output, "all {zeros} TCP-AO and TCP-MD5 counters are 0")?,
        (zeros, _) => writeln!(output, "{zeros} other TCP-AO and TCP-MD5 counters are 0")?,
    }
    Ok(())
}

/// What `--json` prints.
#[derive(Serialize)]
struct Object<'a> {
    schema: u32,
    lines: u64,
    known: u64,
    zero_counters: u64,
    messages: Vec<MessageObject<'a>>,
}

#[derive(Serialize)]
struct MessageObject<'a> {
    id: &'a str,
    system: &'a str,
    text: &'a str,
    fields: &'a Fields,
    lines: u64,
    first_line: u64,
    peers: &'a [String],
    more_peers: bool,
    meaning: &'a str,
    causes: &'a [String],
    commands: Vec<String>,
    source: &'a str,
}

impl<'a> Object<'a> {
    fn new(summary: &'a Summary<'_>) -> Self {
        let messages = summary.seen.iter().map(|seen| {
            let Seen { found, first_line, lines, peers, has_more_peers } = seen;
            let message = found.message;
            MessageObject {
                id: &message.id,
                system: &message.system,
                text: &found.text,
                fields: &found.fields,
                lines: *lines,
                first_line: *first_line,
                peers,
                more_peers: *has_more_peers,
                meaning: &message.meaning,
                causes: &message.causes,
                commands: message.decide.iter().map(|command| found.fields.fill(command)).collect(),
                source: &message.source,
            }
        });
        Self {
            schema: 1,
            lines: summary.lines,
            known: summary.known,
            zero_counters: summary.zeros,
            messages: messages.collect(),
        }
    }
}
