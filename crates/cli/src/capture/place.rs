//! A point in a capture.

use serde::Serialize;

use super::Time;

/// A point in a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Place {
    /// The packet's number in the file, from 1.
    pub packet: u64,
    /// Its time, if the file has times.
    pub time: Option<Time>,
}
