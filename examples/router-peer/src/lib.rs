//! A BGP speaker whose sessions Wireseal protects.
//!
//! ```text
//! main       the command line
//!   demo     the demonstration: routers in this process, attacked
//!   run      the neighbours of a configuration
//!     bgp    a session over any stream
//!     frames, kernel, quic   the streams: this process's own TCP (stack, link), Linux's, quinn
//! ```
//!
//! | to see how | look at |
//! |---|---|
//! | TCP-AO goes under smoltcp | [`stack`] |
//! | keys change on live connections | [`protection`] |
//! | the kernel's sockets get their keys | `kernel` |
//! | quinn gets Wireseal's packet protection | [`quic::provider`] |

pub mod certificate;
pub mod config;
mod connection;
pub mod demo;
mod frames;
#[cfg(target_os = "linux")]
mod kernel;
pub mod quic;
mod routes;
pub mod run;
