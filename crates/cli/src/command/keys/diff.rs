//! `wireseal keys diff`: whether the two ends of a session accept each other's keys.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use wireseal_keys::{Format, Timestamp, load, meet};

use crate::command::key_arguments::{UtcOffset, format, warn_of};
use crate::command::outcome::{Outcome, Result};
use crate::report::ends::{Answer, Ends};
use crate::report::html;
use crate::terminal::Wrapped;

/// Compare the keys of a session's two ends, whatever their vendors: does it come up, will it stay up, and if not, why?
///
/// Exit codes: 0 the session works all the time, 1 at some time it does not, 2 a file cannot be read, 3 not everything can be compared.
#[derive(Debug, clap::Args)]
pub(super) struct DiffArguments {
    /// The keys of one end: TOML, RFC 8177 JSON, or a router's configuration; - for standard input
    #[arg(value_name = "A")]
    one: PathBuf,
    /// The keys of the other end, as that has them
    #[arg(value_name = "B")]
    other: PathBuf,
    /// The format of both files, if their names and contents do not show it
    #[arg(long, value_parser = format())]
    format: Option<Format>,
    /// The format of the first file
    #[arg(long, value_name = "FORMAT", conflicts_with = "format", hide_possible_values = true, value_parser = format())]
    format_a: Option<Format>,
    /// The format of the second file
    #[arg(long, value_name = "FORMAT", conflicts_with = "format", hide_possible_values = true, value_parser = format())]
    format_b: Option<Format>,
    /// How far both routers' clocks are ahead of UTC, such as +02:00 or -05:00, for lifetimes in their local time
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    utc_offset: Option<UtcOffset>,
    /// The same for the first router
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true, conflicts_with = "utc_offset")]
    utc_offset_a: Option<UtcOffset>,
    /// The same for the second router
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true, conflicts_with = "utc_offset")]
    utc_offset_b: Option<UtcOffset>,
    /// The key chains of the session, if that is not clear: the name that both have, or A:B
    #[arg(long, value_name = "NAMES")]
    chain: Option<String>,
    /// The time from which to look, such as 2026-01-31T00:00:00Z, instead of now
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// The time until which to look; without it, there is no end
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// By how many minutes the clocks of the two ends may differ
    #[arg(long, value_name = "MINUTES", default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=MOST_SKEW))]
    skew: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page with a picture of all lifetimes, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The largest skew in minutes: a year.
const MOST_SKEW: i64 = 366 * 24 * 60;

pub(super) fn run(arguments: &DiffArguments) -> Result {
    let paths: [&Path; 2] = [&arguments.one, &arguments.other];
    if paths == [Path::new("-"); 2] {
        return Err("the two ends cannot both come from standard input".into());
    }
    let now = arguments.now.unwrap_or_else(Timestamp::now);
    let until = arguments.until.unwrap_or(Timestamp::MAX);
    if until <= now {
        return Err(format!("--until: {until} is not after {now}").into());
    }
    let mut one = load(paths[0], arguments.format.or(arguments.format_a))?;
    let mut other = load(paths[1], arguments.format.or(arguments.format_b))?;
    UtcOffset::apply(arguments.utc_offset.or(arguments.utc_offset_a), &mut one);
    UtcOffset::apply(arguments.utc_offset.or(arguments.utc_offset_b), &mut other);
    let files = [&one, &other];
    files.into_iter().for_each(warn_of);
    let meeting = meet(files, arguments.chain.as_deref())
        .map_err(|error| format!("{} and {}: {error}", paths[0].display(), paths[1].display()))?;
    let ends = Ends::new(paths, files, meeting, arguments.skew, [now, until]);
    // The page first, so that it is complete even if the output was closed.
    if let Some(path) = &arguments.html {
        html::ends::write(path, &ends)?;
    }
    let mut output = io::BufWriter::new(io::stdout().lock());
    if arguments.json {
        writeln!(output, "{:#}", ends.json())?;
        output.flush()?;
    } else {
        let mut wrapped = Wrapped::new(&mut output);
        ends.write_text(&mut wrapped)?;
        wrapped.flush()?;
    }
    Ok(match ends.answer() {
        Answer::Works => Outcome::Good,
        Answer::NotJudged => Outcome::NotJudged,
        Answer::Fails => Outcome::Failed,
    })
}
