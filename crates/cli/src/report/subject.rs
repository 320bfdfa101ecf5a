//! What a report is about.

use crate::keys::Keys;

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The capture, as the command line names it.
    pub capture: &'a str,
    /// The keys it was checked against; no report contains their secrets.
    pub keys: &'a Keys,
}
