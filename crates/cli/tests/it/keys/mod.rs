//! `--key`, and `wireseal keys`.

mod argument;
mod command;
mod diff;
mod new;
mod roll;
