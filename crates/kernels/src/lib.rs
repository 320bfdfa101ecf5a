//! Routines for packets that need the processor's own instructions.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod cpu;
