//! `wireseal verify`: verdicts, diagnoses, and where connections begin and end.

mod connections;
mod diagnosis;
mod isns;
mod no_panic;
mod not_open;
mod on_the_path;
mod program;
mod verdicts;
