//! A BGP speaker whose sessions Wireseal protects.
//!
//! ```text
//! main       the command line
//!   demo     the demonstration: routers in this process, under attack
//!   run      the neighbours of a configuration
//!     frames, kernel, quic   their connections: this process's own TCP, Linux's, quinn
//! ```
//!
//! BGP, the TCP stack and its links are in the library [`speaker`].
//!
//! | to see how | look at |
//! |---|---|
//! | TCP-AO runs under smoltcp | [`speaker::stack`] |
//! | keys change on live connections | [`speaker::protection`] |
//! | kernel sockets get their keys | `kernel` |
//! | quinn gets Wireseal's packet protection | [`tls::provider`] |

pub mod config;
mod connection;
pub mod demo;
mod frames;
#[cfg(target_os = "linux")]
mod kernel;
mod quic;
pub mod run;
pub mod tls;

/// The code in the workspace's README compiles.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
