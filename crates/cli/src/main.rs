//! The program `wireseal`.

use std::process::ExitCode;

use wireseal::command;

fn main() -> ExitCode {
    command::parse().map_or_else(|outcome| outcome, command::run).into()
}
