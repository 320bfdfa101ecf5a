//! `wireseal keys`: makes, checks, compares and converts key files, and plans new keys.

mod diff;
mod new;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use wireseal_keys::{
    Chain, ChainKey, Finding, Format, Implementation, KeyFile, Problem, Timestamp, Usable, Weight, check,
    convert, load,
};

use self::diff::DiffArguments;
use self::new::NewArguments;
use super::key_arguments::{UtcOffset, format, warn_of, written_format};
use super::outcome::{Outcome, Result};
use super::private::{check_terminal, write_private, write_text};
use super::roll;
use super::say::say;
use crate::report::chain_key::{key_object, secret, span};
use crate::report::table::table;
use crate::terminal::Wrapped;
use crate::text::{Printable, coverage};

/// Make a key, check key files, compare the two ends of a session, convert a file to another format, or plan the next key.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    New(NewArguments),
    Check(CheckArguments),
    Diff(DiffArguments),
    Convert(ConvertArguments),
    Roll(Box<roll::Arguments>),
}

/// Show the keys in files, and warn about what will not work or is not safe.
///
/// Exit codes: 0 no warnings, 1 warnings, 2 a file cannot be read; the others are reported all the same.
#[derive(Debug, clap::Args)]
struct CheckArguments {
    /// Key files: TOML, RFC 8177 JSON, or a router's configuration; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the files, if their names and contents do not show it
    #[arg(long, value_parser = format())]
    format: Option<Format>,
    /// The implementation that must accept the keys; by default the one whose format the file has [repeatable]
    #[arg(long = "for", value_name = "IMPLEMENTATION", value_parser = implementation())]
    implementations: Vec<Implementation>,
    /// Check lifetimes at this time instead of now, such as 2026-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// How far the router's clock is ahead of UTC, such as +02:00 or -05:00, for lifetimes in its local time
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    utc_offset: Option<UtcOffset>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Write keys in another format, and report what it cannot express.
///
/// They remain the keys of the same end, unless --other-end is given.
#[derive(Debug, clap::Args)]
struct ConvertArguments {
    /// The key file; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The format to write
    #[arg(long, value_parser = written_format())]
    to: Format,
    /// The format of the file, if its name and content do not show it
    #[arg(long, value_parser = format())]
    format: Option<Format>,
    /// How far the router's clock is ahead of UTC, such as +02:00 or -05:00, for lifetimes in its local time
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    utc_offset: Option<UtcOffset>,
    /// Write the keys for the other end of the sessions: SendID and RecvID swapped, and no neighbors
    #[arg(long)]
    other_end: bool,
    /// The file to write, readable only by its owner; standard output by default or for -
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write to standard output even if that is a terminal
    #[arg(long)]
    show_secrets: bool,
}

fn implementation() -> impl TypedValueParser<Value = Implementation> {
    let values = Implementation::all().map(|known| PossibleValue::new(known.name()).help(known.about()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Implementation>())
}

pub(super) fn run(Arguments { order }: Arguments) -> Result {
    match order {
        Order::New(arguments) => new::run(&arguments),
        Order::Check(arguments) => run_check(&arguments),
        Order::Diff(arguments) => diff::run(&arguments),
        Order::Convert(arguments) => run_convert(&arguments),
        Order::Roll(arguments) => roll::run(*arguments),
    }
}

fn run_check(arguments: &CheckArguments) -> Result {
    let now = arguments.now.unwrap_or_else(Timestamp::now);
    let (mut reports, mut errors) = (Vec::new(), Vec::new());
    for path in &arguments.files {
        let mut file = match load(path, arguments.format) {
            Ok(file) => file,
            // The other files are reported all the same.
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        UtcOffset::apply(arguments.utc_offset, &mut file);
        warn_of(&file);
        let own = [Implementation::reading(file.format)];
        let implementations: &[_] =
            if arguments.implementations.is_empty() { &own } else { &arguments.implementations };
        let findings = check(&file, now, implementations);
        reports.push((path, file, findings));
    }
    let last = errors.pop();
    errors.iter().for_each(say);
    if let (true, Some(error)) = (reports.is_empty(), &last) {
        return Err(error.clone().into());
    }
    let mut output = io::BufWriter::new(io::stdout().lock());
    if arguments.json {
        let files = reports.iter().map(|(path, file, findings)| json_report(path, file, findings, now));
        let report = json!({ "schema": 1, "now": now.to_string(), "files": files.collect::<Vec<_>>() });
        writeln!(output, "{report:#}")?;
    } else {
        for (path, file, findings) in &reports {
            write_report(&mut Wrapped::new(&mut output), path, file, findings, now)?;
        }
    }
    output.flush()?;
    if let Some(error) = last {
        return Err(error.into());
    }
    let warns = |(_, file, findings): &(_, KeyFile, Vec<Finding>)| {
        !file.warnings.is_empty() || findings.iter().any(|finding| finding.weight == Weight::Warning)
    };
    Ok(if reports.iter().any(warns) { Outcome::Failed } else { Outcome::Good })
}

fn write_report(
    output: &mut impl Write,
    path: &Path,
    file: &KeyFile,
    findings: &[Finding],
    now: Timestamp,
) -> io::Result<()> {
    let format = file.format.map(|format| format.to_string()).unwrap_or_default();
    writeln!(output, "{} ({format})", Printable(&path.display().to_string()))?;
    let rows = keys(file).map(|(chain, key)| {
        [
            Printable(&chain.name_of(key)).to_string(),
            key.send_id.to_string(),
            key.recv_id.to_string(),
            key.algorithm.to_string(),
            key.mac_length.to_string(),
            coverage(key.options).to_owned(),
            secret(key),
            span(&key.send, key.clock),
            span(&chain.acceptance(key), key.clock),
            if chain.neighbors.is_empty() { "any".to_owned() } else { peers(chain) },
            Usable::of(chain, key, now).name().to_owned(),
        ]
    });
    let header = [
        "key",
        "SendID",
        "RecvID",
        "algorithm",
        "MAC",
        "options",
        "secret",
        "send",
        "accept",
        "peers",
        "usable",
    ];
    writeln!(output, "{}", table(header, rows, usize::MAX))?;
    for finding in findings.iter().filter(|finding| finding.weight == Weight::Warning) {
        writeln!(output, "warning: {}: {}", subject(finding), Printable(&finding.sentence))?;
    }
    let mut notes: Vec<(&str, Vec<String>)> = Vec::new();
    let mut place: HashMap<&str, usize> = HashMap::new();
    for note in findings.iter().filter(|finding| finding.weight == Weight::Note) {
        let index = *place.entry(&note.sentence).or_insert(notes.len());
        if index == notes.len() {
            notes.push((&note.sentence, Vec::new()));
        }
        notes[index].1.push(subject(note));
    }
    for (sentence, subjects) in notes {
        writeln!(output, "note: {sentence}: {}", some(subjects.into_iter()))?;
    }
    writeln!(output)
}

/// The key or the chain that a finding is about, and its line.
fn subject(finding: &Finding) -> String {
    let name = if finding.subject.is_empty() { "the keys" } else { finding.subject.as_str() };
    match finding.position {
        Some(at) => format!("{} (line {})", Printable(name), at.line),
        None => Printable(name).to_string(),
    }
}

/// All keys of a file with their chains.
fn keys(file: &KeyFile) -> impl Iterator<Item = (&Chain, &ChainKey)> {
    file.chains.iter().flat_map(|chain| chain.keys.iter().map(move |key| (chain, key)))
}

/// The most peers of a chain, and the most keys of one note, that a line names; `--json` has them all.
const NAMED: usize = 8;

/// These names, or some of them and how many more there are.
fn some(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = if names.len() > NAMED { names.len() - NAMED + 1 } else { 0 };
    let shown = names.len() - more;
    let text = names.take(shown).collect::<Vec<_>>().join(", ");
    if more == 0 { text } else { format!("{text} and {more} more") }
}

fn peers(chain: &Chain) -> String {
    some(chain.neighbors.iter().map(|neighbor| Printable(&neighbor.to_string()).to_string()))
}

fn json_report(path: &Path, file: &KeyFile, findings: &[Finding], now: Timestamp) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "weight": finding.weight.name(),
            "kind": finding.kind,
            "subject": finding.subject,
            "line": finding.position.map(|at| at.line),
            "sentence": finding.sentence,
        })
    };
    json!({
        "file": path.display().to_string(),
        "format": file.format.map(|format| format.to_string()),
        "keys": keys(file).map(|(chain, key)| key_object(chain, key, now)).collect::<Vec<_>>(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "readable_by_others": !file.warnings.is_empty(),
    })
}

fn run_convert(arguments: &ConvertArguments) -> Result {
    let mut file = load(&arguments.file, arguments.format)?;
    UtcOffset::apply(arguments.utc_offset, &mut file);
    if arguments.other_end {
        file.swap_ends();
    }
    warn_of(&file);
    let output = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    if output.is_none() {
        check_terminal(arguments.show_secrets, "--output FILE")?;
    }
    let conversion = convert(&file, arguments.to).map_err(|error| {
        let collide =
            if let Problem::NothingLeft { .. } = error.problem() { "" } else { "cannot be converted: " };
        format!("{}: {collide}{error}", arguments.file.display())
    })?;
    match output {
        Some(path) => write_private(path, &conversion.text)?,
        None => write_text(&mut io::stdout().lock(), &conversion.text)?,
    }
    for loss in &conversion.losses {
        say(format_args!("not carried over: {loss}"));
    }
    Ok(Outcome::Good)
}
