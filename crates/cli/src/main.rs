//! wireseal: checks TCP-AO captures against their keys.

use std::process::ExitCode;

use wireseal::command;

fn main() -> ExitCode {
    command::parse().map_or_else(|outcome| outcome, command::run).into()
}
