//! Connections as they are now, before they are over.

use wireseal_tcp_ao::Endpoint;

use super::connection::Phase;
use super::direction::{Direction, KeyRun};
use super::live::{LiveConnection, Shared};
use super::report::{Counts, Diagnosis};
use super::verifier::Verifier;
use crate::capture::Place;

/// A live connection, as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'v> {
    live: &'v LiveConnection,
    shared: &'v Shared<'v>,
    now: Place,
}

impl<'v> Snapshot<'v> {
    /// Its number, from 1 in the order of first segments.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.live.connection.number
    }

    /// Opener and listener.
    #[must_use]
    pub fn ends(&self) -> &'v [Endpoint; 2] {
        &self.live.connection.ends
    }

    /// Its last segment so far.
    #[must_use]
    pub fn last(&self) -> Place {
        self.live.connection.last
    }

    /// Whether only SYNs and resets of it were seen.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        self.live.connection.phase == Phase::Opening
    }

    /// Whether it has closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.live.connection.phase == Phase::Closed
    }

    /// Segments of both directions by verdict.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let [forth, back] = self.counts_by_sender();
        std::array::from_fn(|index| forth[index] + back[index])
    }

    /// Segments of each direction by verdict.
    #[must_use]
    pub fn counts_by_sender(&self) -> [Counts; 2] {
        self.live.connection.directions.each_ref().map(Direction::counts)
    }

    /// The names of the keys in use, one for each direction; `None` where no segment has verified.
    #[must_use]
    pub fn key_names(&self) -> [Option<&'v str>; 2] {
        self.live.connection.directions.each_ref().map(|direction| {
            let key = direction.key_runs.iter().rev().find_map(KeyRun::key)?;
            Some(self.shared.table.name(key))
        })
    }

    /// Why segments have failed so far, and what else is wrong: what its report would say if the capture ended now.
    #[must_use]
    pub fn diagnoses(&self) -> Vec<Diagnosis> {
        self.live.diagnoses(self.shared, self.now)
    }
}

impl Verifier<'_> {
    /// The live connections, in no order. Segments that wait to be judged are not part of them yet.
    pub fn snapshots(&self) -> impl Iterator<Item = Snapshot<'_>> {
        self.connections.iter().map(|live| Snapshot { live, shared: &self.shared, now: self.intake.now })
    }
}
