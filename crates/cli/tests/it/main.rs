//! Tests of the program and its library.

mod capture;
mod commands;
mod derive;
mod derive_quic;
mod explain;
#[cfg(feature = "chromium")]
mod html_in_chromium;
mod keys;
mod live;
mod report;
mod report_many;
mod support;
mod verify;
