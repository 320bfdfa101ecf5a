//! A BGP speaker whose sessions Wireseal authenticates.
//!
//! | to | call |
//! |---|---|
//! | run a TCP stack over a link | [`stack::Stack::start`] |
//! | join two stacks in memory | [`transport::memory::wire`] |
//! | put TCP-AO between stack and link | [`protection::protect`] |
//! | run a BGP session over a stream | [`bgp::session::Session::start`] |
//! | read routes | [`routes::text`], [`routes::mrt`], [`routes::generate`] |

pub mod bgp;
pub mod config;
pub mod demo;
pub mod link;
pub mod protection;
pub mod routes;
pub mod run;
pub mod stack;
pub mod sync;
pub mod transport;
