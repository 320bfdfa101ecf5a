//! Captures of every format, compressed and damaged in every way, and what their packets carry.

mod annotate;
mod content;
mod damage;
mod encapsulations;
mod formats;
mod fragments;
mod write;
