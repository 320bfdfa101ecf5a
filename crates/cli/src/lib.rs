//! The parts of the program `wireseal`; the README shows what it does.
//!
//! | part | what is in it |
//! |---|---|
//! | [`capture`] | capture files as packets, and packets as segments |
//! | [`live`] | packets of an interface as they come, and what is told of connections meanwhile |
//! | [`keys`] | keys from the command line; `wireseal-keys` reads files |
//! | [`verify`] | a verdict on every segment, and a diagnosis of what failed |
//! | [`report`] | the result of `verify` as text, JSON and an HTML page |
//! | [`mod@derive`] | traffic keys and MACs, and the protection of a QUIC packet, step by step |
//! | [`explain`] | what lines of logs mean |
//! | [`probe`] | what this host has, and what to do |
//! | [`selftest`] | published test vectors on this machine |
//! | [`command`] | the subcommands, which print |
//!
//! Files of keys are read into buffers that are wiped, and so are secrets. Not wiped: what
//! [`wireseal_tcp_ao`](wireseal_tcp_ao#what-is-wiped) names, and what comes from the command line, which other processes can read anyway.

pub mod capture;
pub mod command;
pub mod derive;
pub mod explain;
pub mod hex;
pub mod keys;
pub mod live;
mod output;
pub mod probe;
pub mod report;
pub mod selftest;
mod terminal;
mod text;
pub mod verify;
