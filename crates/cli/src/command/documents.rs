//! `wireseal completions` and `wireseal man`: completions for shells, and manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use super::outcome::{Outcome, Result};

/// Print completions for a shell
///
/// For bash: wireseal completions bash > ~/.local/share/bash-completion/completions/wireseal
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

pub(super) fn completions(CompletionsArguments { shell }: CompletionsArguments, program: Command) -> Result {
    let mut program = without_hidden(&program);
    // Into memory first, because the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "wireseal", &mut script);
    let mut output = io::stdout().lock();
    output.write_all(&script)?;
    output.flush()?;
    Ok(Outcome::Good)
}

/// A command without its hidden options, which the generators would offer, too.
fn without_hidden(command: &Command) -> Command {
    let mut shown = Command::new(command.get_name().to_owned());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    shown
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(without_hidden))
}

/// Print the manual page, or write those of all subcommands
#[derive(Debug, clap::Args)]
pub(super) struct ManArguments {
    /// A folder for wireseal.1 and a page for each subcommand; created if missing
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(super) fn man(ManArguments { output }: ManArguments, program: Command) -> Result {
    let mut program = program.disable_help_subcommand(true);
    // This tells each subcommand that it belongs to wireseal.
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
