//! A BGP speaker whose sessions Wireseal authenticates.
//!
//! | to | call |
//! |---|---|
//! | run a TCP stack over a link | [`stack::Stack::start`] |
//! | join two stacks in memory | [`transport::memory::wire`] |
//! | put TCP-AO between stack and link | [`protection::protect`] |
//! | open a QUIC connection to a peer | [`quic::Connector::connect`] |
//! | open a TCP connection that the kernel protects | [`kernel::connect`] |
//! | make a certificate for it | [`certificate::create`] |
//! | run a BGP session over a stream | [`bgp::session::Session::start`] |
//! | read routes | [`routes::text`], [`routes::mrt`], [`routes::generate`] |

pub mod bgp;
pub mod certificate;
pub mod config;
pub mod demo;
#[cfg(target_os = "linux")]
pub mod kernel;
pub mod link;
pub mod protection;
pub mod quic;
pub mod routes;
pub mod run;
pub mod stack;
pub mod sync;
pub mod transport;
