//! The program: its demonstration, its errors, and routers that talk to each other.
#![cfg(target_os = "linux")]

mod demo;
mod mistakes;
mod program;
mod sessions;
