//! The scoreboard: Wireseal's goals, measured against other libraries on the same machine in the same run.
//!
//! All outputs are compared before anything is timed. Contenders run short rounds in turn, and the best round of each counts.

mod cycles;
mod limit;
mod machine;
mod manager;
mod quinn;
mod readme;
mod rows;
mod sweep;
mod table;
mod timing;
mod transfer;
mod verify;

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use wireseal_mac::MacKey;
use wireseal_quic::{Keys, OneRtt};
use wireseal_tcp_ao::Connection;
use wireseal_tcp_ao::shim::ShimSlot;

use machine::Machine;
use rows::Row;
use table::{Cell, Table};
use timing::Effort;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
/// Makes a table.
type Make = fn(Effort) -> Result<Table>;

/// Every table in print order, and whether it is printed by default.
const TABLES: [(&str, bool, Make); 8] = [
    ("rows", true, |effort| Ok(rows::table("rows", "Goals", &rows::goals(), effort))),
    ("aead", true, |effort| Ok(rows::table("aead", "AEADs of any length", &rows::aeads(), effort))),
    ("sweep", true, |effort| Ok(sweep::table(effort)?)),
    ("cycles", true, |effort| Ok(cycles::table(effort))),
    ("verify", true, verify::table),
    ("manager", true, manager::table),
    ("quinn", false, quinn::table),
    ("sizes", true, |_| Ok(sizes())),
];

/// The memory sizes of keys and connections.
fn sizes() -> Table {
    let sizes = [
        ("MAC key of any algorithm", size_of::<MacKey>()),
        ("connection with room for two MKTs", size_of::<Connection<2>>()),
        ("connection with room for four MKTs", size_of::<Connection<4>>()),
        ("place in a shim's table", size_of::<ShimSlot>()),
        ("QUIC keys of one level and direction", size_of::<Keys>()),
        ("QUIC 1-RTT keys of both directions, current and next", size_of::<OneRtt>()),
    ];
    let mut table = Table::new("sizes", "Sizes in octets, with nothing on the heap", ["what", "octets"]);
    table.rows = sizes.map(|(what, size)| vec![Cell::text(what), Cell::Count(size as u64)]).into();
    table
}

/// The rows that can be run alone.
fn all_rows() -> impl Iterator<Item = Row> {
    rows::goals().into_iter().chain(rows::aeads())
}

fn row_names() -> PossibleValuesParser {
    all_rows().map(|row| row.name).collect::<Vec<_>>().into()
}

fn table_names() -> PossibleValuesParser {
    TABLES.iter().map(|(name, ..)| *name).collect::<Vec<_>>().into()
}

/// Time Wireseal against other libraries, after checking that their outputs match
#[derive(Parser)]
struct Arguments {
    /// Only these rows of the tables `rows` and `aead`
    #[arg(long, num_args = 1.., value_name = "NAME", value_parser = row_names())]
    row: Vec<String>,
    /// Only these tables
    #[arg(long, num_args = 1.., value_name = "NAME", value_parser = table_names())]
    table: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Save the tables under benches/results/, by processor and date
    #[arg(long, conflicts_with = "quick")]
    save: bool,
    /// Print the table of benches/README.md from the newest results of each processor, and measure nothing
    #[arg(long, exclusive = true)]
    readme: bool,
    /// Compare outputs and run everything once, without timing
    #[arg(long)]
    quick: bool,
    /// Milliseconds for each contender of each row
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    milliseconds: u64,
    /// What `sweep` runs in a process of its own
    #[arg(long, hide = true)]
    sweep_as: Option<sweep::As>,
}

impl Arguments {
    fn effort(&self) -> Effort {
        if self.quick { Effort::Once } else { Effort::For(Duration::from_millis(self.milliseconds)) }
    }

    fn wants(&self, name: &str, is_usual: bool) -> bool {
        if self.table.is_empty() {
            is_usual && self.row.is_empty()
        } else {
            self.table.iter().any(|word| word == name)
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if arguments.readme {
        print!("{}", readme::table()?);
        return Ok(());
    }
    let (machine, effort) = (Machine::look(), arguments.effort());
    let mut tables = Vec::new();
    let mut add = |mut table: Table| {
        if arguments.quick {
            table.reading = "Outputs match. Everything ran once, which says nothing about speed.".to_owned();
        }
        if !arguments.json {
            println!("{table}");
        }
        tables.push(table);
    };
    if !arguments.json {
        println!("{}", machine.heading());
    }
    if !arguments.row.is_empty() {
        let rows: Vec<Row> = all_rows().filter(|row| arguments.row.contains(&row.name)).collect();
        add(rows::table("rows", "Goals", &rows, effort));
    }
    for (name, is_usual, make) in TABLES {
        if arguments.wants(name, is_usual) {
            add(make(effort)?);
        }
    }
    if arguments.json {
        let tables: Vec<_> = tables.iter().map(Table::json).collect();
        println!("{:#}", json!({ "machine": machine.json(), "tables": tables }));
    }
    if arguments.save {
        let path = machine.results();
        let mut text = machine.heading();
        for table in &tables {
            write!(text, "\n{table}")?;
        }
        fs::create_dir_all(path.parent().ok_or("the results have no folder")?)?;
        fs::write(&path, text)?;
        eprintln!("saved in {}", path.display());
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if cfg!(debug_assertions) && !arguments.quick && !arguments.readme {
        eprintln!("scoreboard: built without --release, so only --quick makes sense");
        return ExitCode::from(2);
    }
    if let Some(as_if) = arguments.sweep_as {
        sweep::child(as_if, arguments.effort());
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scoreboard: {error}");
            ExitCode::FAILURE
        }
    }
}
