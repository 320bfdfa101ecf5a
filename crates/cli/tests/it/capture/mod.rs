//! Captures of every format, packed and damaged in every way, and what their packets carry.

mod content;
mod damage;
mod formats;
