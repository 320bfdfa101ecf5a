//! `wireseal verify`: verdicts, diagnoses, and where connections begin and end.

mod captures;
mod connections;
mod diagnosis;
mod different_secrets;
mod disorder;
mod evident;
#[cfg(target_os = "linux")]
mod memory;
mod no_panic;
mod not_open;
mod verdicts;
