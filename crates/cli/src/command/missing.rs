//! Subcommands that this build does not have: how to get them.

use std::ffi::OsString;

use super::outcome::{Outcome, Result};
use super::say::say;

/// What such a subcommand was given, which does not matter.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _given: Vec<OsString>,
}

/// Says how to build a program with it.
pub(super) fn run(name: &str, feature: &str) -> Result {
    say(format_args!(
        "this build has no `{name}`: it needs the feature `{feature}`: cargo build --release -p wireseal --features {feature}"
    ));
    Ok(Outcome::Unusable)
}
