//! The parts of a speaker, against themselves and against what BIRD has said.
#![allow(clippy::unwrap_used)]

mod captures;
mod session;
mod stack;
