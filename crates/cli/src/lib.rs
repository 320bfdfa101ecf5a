//! What the program `wireseal` is made of; see the README for what it does.
//!
//! | part | what is in it |
//! |---|---|
//! | [`capture`] | capture files as packets, and packets as segments and datagrams |
//! | [`keys`] | keys from key-chain files, routers' configurations and the command line |
//! | [`verify`] | every segment's verdict, and the diagnosis of what failed |
//! | [`quic`] | every QUIC packet of a capture, opened |
//! | [`report`] | what was verified, as text, JSON and a page |
//! | [`mod@derive`] | traffic keys and MACs, step by step |
//! | [`selftest`], [`mod@bench`] | the published vectors on this machine, and how fast it is |
//! | [`command`] | the subcommands, which print |
pub mod bench;
pub mod capture;
pub mod command;
pub mod derive;
pub mod hex;
pub mod keys;
pub mod quic;
pub mod report;
pub mod selftest;
pub mod verify;
