//! `wireseal verify`: verdicts, diagnoses, and where connections begin and end.

mod both_sides;
mod changed_keys;
mod connections;
mod diagnosis;
mod isns;
mod no_panic;
mod not_open;
mod on_the_path;
mod program;
mod scopes;
mod streams;
mod verdicts;
