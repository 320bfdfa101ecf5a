//! The table in benches/README.md, from the newest results of each processor.

use std::fs;
use std::path::PathBuf;

use crate::machine::RESULTS;

/// The rows of that table: rows of the table of goals, and pairs of rows of the sweep by their algorithms.
const ROWS: [(&str, Source); 20] = [
    ("AES-128-GCM: seal a QUIC packet of 1200 octets, with its header mask", Source::Goal("seal-128-1200")),
    ("the same, 64 octets", Source::Goal("seal-128-64")),
    ("AES-128-GCM: open 1200 octets", Source::Goal("open-128-1200")),
    ("AES-256-GCM: seal 1200 octets", Source::Goal("seal-256-1200")),
    ("AES-GCM: the worst length up to 1500 octets", Source::Sweep("AES")),
    ("ChaCha20-Poly1305: seal 1200 octets", Source::Goal("seal-chacha20-1200")),
    ("ChaCha20-Poly1305: the worst length", Source::Sweep("CHACHA20")),
    ("AES-128-GCM: seal a message of 16 KiB, without a mask", Source::Goal("aead-seal-128-16384")),
    ("AES-256-GCM: open 16 KiB", Source::Goal("aead-open-256-16384")),
    ("AES-256-GCM: seal 1 MiB", Source::Goal("aead-seal-256-1048576")),
    ("ChaCha20-Poly1305: seal 64 KiB", Source::Goal("aead-seal-chacha20-65536")),
    ("AES-128-CMAC: sign a TCP segment of 148 octets", Source::Goal("sign-cmac")),
    ("each of 16 segments signed at once", Source::Goal("sign-16-cmac")),
    ("HMAC-SHA-1: sign such a segment", Source::Goal("sign-sha1")),
    ("each of 16 at once", Source::Goal("sign-16-sha1")),
    ("HMAC-SHA-1 of 1024 octets", Source::Goal("hmac-sha1-1024")),
    ("HMAC-SHA-256: sign such a segment", Source::Goal("sign-sha256")),
    ("each of 16 at once", Source::Goal("sign-16-sha256")),
    ("HMAC-SHA-256 of 1024 octets", Source::Goal("hmac-sha256-1024")),
    ("Poly1305 of 1024 octets", Source::Goal("poly1305-1024")),
];

enum Source {
    /// The ratio of the row with this name.
    Goal(&'static str),
    /// The worst ratio, on all paths, of the AEADs whose names contain this.
    Sweep(&'static str),
}

/// The cell for a missing measurement.
const NONE: &str = "-";

/// A saved file.
struct Results {
    /// The processor, its path and the date.
    heading: String,
    /// The cells of each row of all tables, each with its column's name.
    rows: Vec<Vec<(String, String)>>,
}

impl Results {
    /// `None` if the text was not saved by the scoreboard.
    fn parse(processor: &str, date: &str, text: &str) -> Option<Self> {
        let (_, path) = text.split_once("Path of AES-GCM: ")?;
        let (path, _) = path.split_once([';', '.'])?;
        let (mut rows, mut names): (Vec<_>, Option<Vec<String>>) = (Vec::new(), None);
        for line in text.lines() {
            let Some(line) = line.strip_prefix("| ") else {
                names = None;
                continue;
            };
            let cells: Vec<String> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
            match &names {
                None => names = Some(cells),
                Some(names) => rows.push(names.iter().cloned().zip(cells).collect()),
            }
        }
        Some(Self { heading: format!("{}, {path}, {date}", title(processor)), rows })
    }

    fn newest(processor: &str) -> Option<Self> {
        let folder = PathBuf::from(RESULTS).join(processor);
        let mut dates: Vec<String> = fs::read_dir(&folder)
            .ok()?
            .filter_map(|file| Some(file.ok()?.file_name().to_str()?.strip_suffix(".md")?.to_owned()))
            .filter(|name| name.len() == "2026-11-23".len())
            .collect();
        dates.sort();
        dates.iter().rev().find_map(|date| {
            Self::parse(processor, date, &fs::read_to_string(folder.join(format!("{date}.md"))).ok()?)
        })
    }

    /// Two decimals, or [`NONE`].
    fn value(&self, source: &Source) -> String {
        let cell = |row: &[(String, String)], wanted: &str| {
            let found = row.iter().find(|(name, _)| name == wanted);
            found.map(|(_, cell)| cell.clone()).unwrap_or_default()
        };
        let ratios = self.rows.iter().filter_map(|row| match source {
            Source::Goal(name) => (cell(row, "name") == *name).then(|| cell(row, "ratio"))?.parse().ok(),
            // Older results compare with ring only and name no best peer.
            Source::Sweep(aead) => (cell(row, "paths") == "all"
                && cell(row, "packets").contains(aead)
                && !cell(row, "best peer").is_empty())
            .then(|| cell(row, "worst ratio"))?
            .parse()
            .ok(),
        });
        let worst = ratios.fold(f64::NAN, f64::max);
        if worst.is_nan() { NONE.to_owned() } else { format!("{worst:.2}") }
    }
}

/// "Zen 4" for `zen-4`.
fn title(processor: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    processor.split('-').filter(|word| !word.is_empty()).map(capital).collect::<Vec<_>>().join(" ")
}

/// The table, as Markdown, without the rows that no processor has.
///
/// # Errors
/// If the folder of results cannot be read.
pub(crate) fn table() -> std::io::Result<String> {
    let mut processors = Vec::new();
    for folder in fs::read_dir(RESULTS)? {
        processors.extend(folder?.file_name().into_string());
    }
    processors.sort();
    let results: Vec<Results> =
        processors.iter().filter_map(|processor| Results::newest(processor)).collect();
    let line = |first: &str, cells: &[String]| format!("| {first} | {} |\n", cells.join(" | "));
    let headings: Vec<String> = results.iter().map(|results| results.heading.clone()).collect();
    let mut text = line("what", &headings);
    text += &format!("|---|{}\n", "---|".repeat(results.len()));
    for (what, source) in &ROWS {
        let values: Vec<String> = results.iter().map(|results| results.value(source)).collect();
        if values.iter().any(|value| value != NONE) {
            text += &line(what, &values);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = "# A processor\n\nPath of AES-GCM: VAES-512; of ChaCha20's masks: AVX-512.\n\n\
        | row | name | ratio |\n| --- | --- | --- |\n| a | sign-sha1 | 0.804 |\n\n\
        | paths | packets | worst ratio | best peer |\n| --- | --- | --- | --- |\n\
        | all | AES seal | 0.7 | ring |\n| all | AES open | 0.81 | ring |\n| AES-NI only | AES open | 0.9 | ring |\n";

    #[test]
    fn the_rows_of_the_readme_are_found_by_name() {
        let results = Results::parse("zen-4", "2026-11-23", SAVED).expect("a heading");
        assert_eq!(results.heading, "Zen 4, VAES-512, 2026-11-23");
        assert_eq!(results.value(&Source::Goal("sign-sha1")), "0.80");
        assert_eq!(results.value(&Source::Goal("sign-sha256")), "-");
        assert_eq!(results.value(&Source::Sweep("AES")), "0.81");
        let older = SAVED.replace("best peer", "median");
        let older = Results::parse("zen-4", "2026-11-23", &older).expect("a heading");
        assert_eq!(older.value(&Source::Sweep("AES")), "-");
        assert!(Results::parse("zen-4", "2026-11-23", "another text").is_none());
    }
}
