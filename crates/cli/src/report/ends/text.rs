//! The comparison for people.

use std::io::{self, Write};

use wireseal_keys::{Disagreement, MetBy, Weight};

use super::Ends;
use super::picture::Picture;
use crate::report::chain_key::{secret, span};
use crate::report::table::table;
use crate::terminal;
use crate::text::{Printable, coverage};

/// How many outages are printed.
const OUTAGES: usize = 20;
/// The columns of the picture in a file.
const COLUMNS: usize = 80;

impl Ends<'_> {
    /// Writes the answer, the keys side by side, the outages, the findings, and a picture.
    pub(crate) fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        writeln!(output, "{}", Printable(&self.sentence()))?;
        writeln!(output)?;
        for line in self.chains() {
            writeln!(output, "{}", Printable(&line))?;
        }
        let header = [
            "end",
            "key",
            "SendID",
            "RecvID",
            "algorithm",
            "MAC",
            "options",
            "secret",
            "differs",
            "send",
            "accept",
        ];
        let rows = self.pairs.iter().flat_map(|pair| {
            let differs = Self::differs(pair).join(", ");
            Self::keys_of(pair).map(move |(side, key)| {
                let chain = self.meeting.ends[side].chain;
                [
                    Printable(&self.names[side]).to_string(),
                    Printable(&chain.name_of(key)).to_string(),
                    key.send_id.to_string(),
                    key.recv_id.to_string(),
                    key.algorithm.to_string(),
                    key.mac_length.to_string(),
                    coverage(key.options).to_owned(),
                    secret(key),
                    differs.clone(),
                    span(&key.send, key.clock),
                    span(&chain.acceptance(key), key.clock),
                ]
            })
        });
        writeln!(output, "{}", table(header, rows, usize::MAX))?;
        for outage in self.outages.iter().take(OUTAGES) {
            let skew = if self.is_certain(outage) { "" } else { " (possibly)" };
            writeln!(
                output,
                "outage: {}{skew}: {}",
                Self::span([outage.from, outage.until]),
                Printable(&self.said(outage))
            )?;
        }
        if let Some(more @ 1..) = self.outages.len().checked_sub(OUTAGES) {
            writeln!(output, "and {more} more outages")?;
        }
        for weight in [Weight::Warning, Weight::Note] {
            for finding in self.findings.iter().filter(|finding| finding.weight == weight) {
                let subjects = Printable(&self.subjects(finding)).to_string();
                writeln!(output, "{}: {subjects}: {}", weight.name(), Printable(&finding.sentence))?;
            }
        }
        writeln!(output)?;
        let columns = terminal::width().unwrap_or(COLUMNS);
        write!(output, "{}", Picture::new(self).text(columns))
    }

    /// Which chains these are, and how they were found.
    pub(crate) fn chains(&self) -> Vec<String> {
        let of_end = |side: usize| {
            let chain = self.meeting.ends[side].chain;
            let name =
                if chain.name.is_empty() { String::new() } else { format!("chain {} of ", chain.name) };
            let format = self.files[side].format.map(|format| format!(" ({format})")).unwrap_or_default();
            format!("{}: {name}{}{format}", self.names[side], self.paths[side].display())
        };
        let why = match self.meeting.by {
            MetBy::Name | MetBy::Only => None,
            MetBy::Address => Some("These chains are those of each other's neighbors."),
            MetBy::Keys => Some("These are the chains whose keys match best; --chain A:B names others."),
        };
        [of_end(0), of_end(1)].into_iter().chain(why.map(str::to_owned)).collect()
    }

    /// What a finding is about: `edge-a core/1 (line 3), edge-b to-a/1 (line 9)`.
    pub(crate) fn subjects(&self, finding: &Disagreement) -> String {
        let of_end = |side: usize| {
            let (name, position) = finding.subjects[side].as_ref()?;
            let line = position.map(|at| format!(" (line {})", at.line)).unwrap_or_default();
            let name = if name.is_empty() { String::new() } else { format!(" {name}") };
            Some(format!("{}{name}{line}", self.names[side]))
        };
        (0..2).filter_map(of_end).collect::<Vec<_>>().join(", ")
    }
}
