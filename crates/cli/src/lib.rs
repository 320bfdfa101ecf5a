//! What the program `wireseal` is made of; see the README for what it does.
//!
//! | part | what is in it |
//! |---|---|
//! | [`capture`] | capture files as packets, and packets as segments and datagrams |
//! | [`keys`] | keys from key-chain files, routers' configurations and the command line |
//! | [`verify`] | every segment's verdict, and the diagnosis of what failed |
//! | [`quic`] | every QUIC packet of a capture, opened |
//! | [`command`] | the subcommands, which print |
pub mod capture;
pub mod command;
pub mod keys;
pub mod quic;
pub mod verify;
