//! Tests of the program and its library.

mod book;
mod capture;
mod commands;
mod derive;
mod derive_quic;
mod explain;
mod extcap;
#[cfg(feature = "chromium")]
mod html_in_chromium;
mod keys;
mod live;
mod outputs;
mod pictures;
mod probe;
mod probe_sockets;
mod report;
mod report_many;
mod schemas;
mod support;
mod verify;
