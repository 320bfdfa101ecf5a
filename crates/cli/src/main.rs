//! wireseal: TCP-AO and QUIC captures checked against their keys.

use std::process::ExitCode;

use clap::Parser;
use wireseal::command::{self, Arguments};

fn main() -> ExitCode {
    command::run(Arguments::parse()).into()
}
