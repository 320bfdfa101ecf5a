//! The program itself: its demonstration, its configurations, and routers that speak with each other.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod demo;
mod mistakes;
mod program;
mod sessions;
