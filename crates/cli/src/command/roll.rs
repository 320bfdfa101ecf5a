//! `wireseal keys roll`: plans the next key of two ends, proves a plan, and shows how far it is.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ArgGroup;
use sha2::{Digest, Sha256};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Changed, Format, Gap, KeyFile, Plan, Side, Timestamp, Today, Wish, load_with_octets};
use zeroize::Zeroizing;

use super::key_arguments::{KeyArguments, warn_of};
use super::outcome::{Outcome, Result};
use super::private::{check_terminal, fresh_secret, write_new, write_text};
use super::procedure::{file_of, of_other_neighbors, procedure};
use super::roll_status;
use super::say::{say, warn};

/// Plan the next key of two ends: commands or files for each step, proved to lose no segment.
///
/// FILE FILE are today's files of the two ends, each as its own end has it. The plan has no secret; the commands and files have the new
/// one.
///
/// Exit codes: 0 planned and written, proved, or with --status done; 1 segments would be lost, or with --status not yet; 2 something cannot
/// be used.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("task").required(true).args(["at", "check", "status"])))]
pub(super) struct Arguments {
    /// Today's key files of the two ends
    #[arg(value_name = "FILE", num_args = 2, required_unless_present = "status", conflicts_with = "status")]
    ends: Vec<PathBuf>,
    /// Plan a key that both ends begin to sign with at this time, such as 2026-12-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Prove a plan again, for instance one that you have edited; with --out, write its commands and files anew, with a new secret
    #[arg(long, value_name = "PLAN")]
    check: Option<PathBuf>,
    /// Show which key each end signs with now, and when the old key may go
    #[arg(long, value_name = "PLAN")]
    status: Option<PathBuf>,
    /// The new key's algorithm; that of the old key by default
    #[arg(long)]
    algorithm: Option<TcpAoAlgorithm>,
    /// How long both keys may be used from the change on, such as 90m
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = seconds, conflicts_with_all = ["check", "status"])]
    overlap: u32,
    /// How much the clocks of the two ends may differ
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = seconds, conflicts_with_all = ["check", "status"])]
    skew: u32,
    /// The key chains of the session, if that is not clear: the name that both have, or A:B
    #[arg(long, value_name = "NAME")]
    chain: Option<String>,
    /// The names of the two ends, separated by a comma; those of the files by default
    #[arg(long = "name", value_name = "NAME", value_delimiter = ',')]
    names: Vec<String>,
    /// A folder for the plan, the procedure, and the commands and files; created if missing, and nothing in it is replaced
    #[arg(long, value_name = "DIR", conflicts_with = "status")]
    out: Option<PathBuf>,
    /// Write to standard output even if that is a terminal
    #[arg(long, conflicts_with = "status")]
    show_secrets: bool,
    /// The present time, if it is another
    #[arg(long, value_name = "TIME", conflicts_with = "check")]
    now: Option<Timestamp>,
    /// With --status: look at this capture instead of the running instances of run and gateway
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArguments,
    /// With --status: only the supervisor or gateway with this process number
    #[arg(long, value_name = "PID", conflicts_with = "capture")]
    pid: Option<u32>,
    /// With --status: wait until the old key may go, at most this many seconds if given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, conflicts_with = "capture")]
    wait: Option<Option<u64>>,
}

/// Reads a duration in seconds, such as `300`, `90s`, `5m`, `1h` or `2d`.
fn seconds(text: &str) -> std::result::Result<u32, String> {
    let (number, unit) = match text.strip_suffix(|c: char| "smhd".contains(c)) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let scale = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => 1,
    };
    let number = number.parse::<u32>().ok().filter(|_| !number.starts_with('+'));
    // Moments are whole seconds in 32 bits from one another; a year is more than any change of keys takes.
    let seconds =
        number.and_then(|number| number.checked_mul(scale)).filter(|seconds| *seconds <= 366 * 86_400);
    seconds.ok_or_else(|| "expected a number and s, m, h or d, such as 90m, of a year at most".to_owned())
}

/// A file of today.
struct Loaded {
    path: String,
    octets: Zeroizing<Vec<u8>>,
    sha256: String,
    file: KeyFile,
}

impl Loaded {
    fn read(path: &Path) -> std::result::Result<Self, Box<dyn Error>> {
        if path == Path::new("-") {
            return Err("the procedure names the files, so neither can be standard input".into());
        }
        let (file, octets) = load_with_octets(path, None)?;
        warn_of(&file);
        let sha256 = base16ct::lower::encode_string(&Sha256::digest(&*octets));
        Ok(Self { path: path.display().to_string(), octets, sha256, file })
    }

    fn text(&self) -> &str {
        let text = str::from_utf8(&self.octets).unwrap_or_default();
        text.strip_prefix('\u{feff}').unwrap_or(text)
    }

    fn format(&self) -> Format {
        self.file.format.unwrap_or(Format::Toml)
    }
}

pub(super) fn run(arguments: Arguments) -> Result {
    // clap does not require an option that conflicts with one that is given.
    let of_status = [
        arguments.capture.is_some(),
        arguments.pid.is_some(),
        arguments.wait.is_some(),
        arguments.keys.are_given(),
    ];
    if arguments.status.is_none() && of_status.contains(&true) {
        return Err("--capture, --keys, --key, --pid and --wait go with --status".into());
    }
    let of_at = [arguments.algorithm.is_some(), arguments.chain.is_some(), !arguments.names.is_empty()];
    if arguments.at.is_none() && of_at.contains(&true) {
        return Err("--algorithm, --chain and --name go with --at: a plan has them already".into());
    }
    if let Some(plan) = &arguments.status {
        let plan = read_plan(plan)?;
        return match &arguments.capture {
            Some(capture) => roll_status::of_capture(&plan, capture, &arguments.keys, arguments.now),
            None => roll_status::of_instances(&plan, arguments.pid, arguments.now, arguments.wait),
        };
    }
    let [one, other] = &arguments.ends[..] else { return Err("give the files of both ends".into()) };
    let loaded = [Loaded::read(one)?, Loaded::read(other)?];
    for end in &loaded {
        if let Some(why) = end.format().cannot_change() {
            say(format_args!("{}: refused: {why}", end.path));
            return Ok(Outcome::Failed);
        }
    }
    let plan = match &arguments.check {
        Some(path) => {
            let plan = read_plan(path)?;
            check_digests(&plan, &loaded)?;
            plan
        }
        None => new_plan(&arguments, &loaded)?,
    };
    let gaps = plan.gaps([&loaded[0].file, &loaded[1].file])?;
    if !gaps.is_empty() {
        for Gap { from, until, sentence } in &gaps {
            say(format_args!("refused: segments are lost between {from} and {until}: {sentence}"));
        }
        return Ok(Outcome::Failed);
    }
    if arguments.check.is_some() && arguments.out.is_none() {
        let names = plan.ends.each_ref().map(|end| end.name.as_str());
        writeln!(
            io::stdout(),
            "no segment is lost: {} and {} can take the steps in any order within their times",
            names[0],
            names[1]
        )?;
        return Ok(Outcome::Good);
    }
    of_other_neighbors(&plan).iter().for_each(warn);
    write_all(&arguments, &plan, &loaded)?;
    Ok(Outcome::Good)
}

/// Reads a plan. Errors name the place in it.
fn read_plan(path: &Path) -> std::result::Result<Plan, Box<dyn Error>> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let plan: Plan = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    if plan.schema != 1 {
        return Err(failed(&"schema: only 1 is known").into());
    }
    let [one, other] = plan.ends.each_ref().map(|end| end.name.as_str());
    if one == other || [one, other].iter().any(|name| name.is_empty() || !name.chars().all(is_in_name)) {
        let why = "name: the two ends need different names of letters, digits, -, _ and ., as in the names of their files";
        return Err(failed(&why).into());
    }
    Ok(plan)
}

/// Whether the name of an end may have this character, because it becomes a part of the names of files.
fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// Checks that the files are those that the plan was made from.
fn check_digests(plan: &Plan, loaded: &[Loaded; 2]) -> std::result::Result<(), String> {
    for (end, loaded) in plan.ends.iter().zip(loaded) {
        if end.sha256 != loaded.sha256 {
            return Err(format!(
                "{}: is not the file that the plan was made from, as its SHA-256 digest shows: give {} as it was then, or plan anew",
                loaded.path, end.file
            ));
        }
    }
    Ok(())
}

fn new_plan(arguments: &Arguments, loaded: &[Loaded; 2]) -> std::result::Result<Plan, Box<dyn Error>> {
    let at = arguments.at.ok_or("give --at TIME")?;
    let mut names = match &arguments.names[..] {
        [] => [String::new(), String::new()],
        [one, other] => [one.clone(), other.clone()],
        _ => return Err("--name: give the names of both ends".into()),
    };
    for (name, path) in names.iter_mut().zip(&arguments.ends) {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let given = if name.is_empty() { &stem } else { &*name };
        *name = given.chars().map(|c| if is_in_name(c) { c } else { '_' }).collect();
    }
    if names[0] == names[1] {
        names = [format!("{}-a", names[0]), format!("{}-b", names[1])];
    }
    let today = |end: usize| Today {
        name: &names[end],
        path: &loaded[end].path,
        sha256: &loaded[end].sha256,
        file: &loaded[end].file,
    };
    let wish = Wish {
        now: arguments.now.unwrap_or_else(Timestamp::now),
        at,
        overlap_seconds: arguments.overlap,
        skew_seconds: arguments.skew,
        algorithm: arguments.algorithm,
    };
    Ok(Plan::new([today(0), today(1)], arguments.chain.as_deref(), wish)?)
}

/// Writes the plan, the procedure and every step's change, with a new secret.
fn write_all(
    arguments: &Arguments,
    plan: &Plan,
    loaded: &[Loaded; 2],
) -> std::result::Result<(), Box<dyn Error>> {
    if arguments.out.is_none() {
        check_terminal(arguments.show_secrets, "--out DIR")?;
    }
    let (length, least) = (plan.secret_length()?, plan.algorithm.0.min_master_key_length().max(16));
    if length < least {
        return Err(
            format!("one end accepts secrets of {length} octets at most, and {least} are needed").into()
        );
    }
    let secret = fresh_secret(length)?;
    let changes = |side: Side| {
        let loaded = &loaded[side as usize];
        let changes = plan.changes(side, &loaded.file, loaded.text(), &secret);
        changes.map_err(|error| format!("{}: {error}", loaded.path))
    };
    let changes = [changes(Side::One)?, changes(Side::Other)?];
    let folder = arguments.out.as_deref();
    let mut files: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    let mut texts: Vec<(String, &str)> = Vec::new();
    for (index, end) in plan.ends.iter().enumerate() {
        for (step, Changed { text, is_file, losses }) in end.steps.iter().zip(&changes[index]) {
            let name = file_of(end, step, *is_file);
            files[index].push(name.clone());
            texts.push((name, text));
            for loss in losses {
                say(format_args!("{}: not carried over: {loss}", end.name));
            }
        }
    }
    texts.sort_by(|one, other| one.0.cmp(&other.0));
    let json = format!("{}\n", serde_json::to_string_pretty(plan)?);
    let formats = [loaded[0].format(), loaded[1].format()];
    let procedure = procedure(plan, formats, &files, "plan.json");
    let own = [("plan.json".to_owned(), json.as_str()), ("procedure.txt".to_owned(), procedure.as_str())];
    let Some(folder) = folder else {
        let mut out = io::stdout().lock();
        for (name, text) in own.iter().chain(&texts) {
            writeln!(out, "==> {name} <==")?;
            write_text(&mut out, text)?;
            writeln!(out)?;
        }
        return Ok(());
    };
    make_folder(folder)?;
    let all = || own.iter().chain(&texts).map(|(name, text)| (folder.join(name), text));
    if let Some((there, _)) = all().find(|(path, _)| path.symlink_metadata().is_ok()) {
        return Err(format!("{}: exists already, and nothing is replaced", there.display()).into());
    }
    for (path, text) in all() {
        write_new(&path, text)?;
    }
    writeln!(io::stdout(), "no segment is lost; follow {}", folder.join("procedure.txt").display())?;
    Ok(())
}

/// Makes a folder that only its owner can read, if it is missing.
fn make_folder(path: &Path) -> std::result::Result<(), String> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| format!("{}: {error}", path.display()))
}
