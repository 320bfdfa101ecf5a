//! `wireseal man`: manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;

use super::outcome::{Outcome, Result};

/// Print the manual page, or write those of all subcommands
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A folder for wireseal.1 and a page for each subcommand; created if missing
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(super) fn run(Arguments { output }: Arguments, program: Command) -> Result {
    let mut program = program.disable_help_subcommand(true);
    // This tells each subcommand that it is one of wireseal's.
    program.build();
    match output {
        Some(folder) => {
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            for (name, page) in pages(&program, "wireseal")? {
                let path = folder.join(format!("{name}.1"));
                fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        None => {
            let mut page = Vec::new();
            Man::new(program).render(&mut page)?;
            let mut output = io::stdout().lock();
            output.write_all(&page)?;
            output.flush()?;
        }
    }
    Ok(Outcome::Good)
}

/// The page of a command and those of its subcommands, with their names.
fn pages(command: &Command, name: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut page = Vec::new();
    Man::new(command.clone().display_name(name.to_owned())).title(name).render(&mut page)?;
    let mut all = vec![(name.to_owned(), page)];
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        all.extend(pages(subcommand, &format!("{name}-{}", subcommand.get_name()))?);
    }
    Ok(all)
}
