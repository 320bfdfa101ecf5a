//! Packets that the kernel dropped in front of the program, and what is not said because of them.

use super::connection::TcpConnection;
use super::report::{Diagnosis, Standing};
use crate::capture::Place;
use crate::text::counted;

/// Packets that are missing among those that were read. Nobody knows of which connections they were.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Drops {
    pub(super) count: u64,
    /// The last packet that was read before it was known that one is missing, and all were there.
    none_before: u64,
    /// The last packet before the newest count, where none may be missing.
    checked: u64,
}

impl Drops {
    /// Notes that so many more are missing of those up to `now`.
    pub(super) fn note(&mut self, count: u64, now: Place) {
        if self.count == 0 && count > 0 {
            self.none_before = self.checked;
        }
        self.count += count;
        self.checked = now.packet;
    }

    /// Takes back what a gap explains too. What only the MAC of a segment shows stays.
    pub(super) fn soften(&self, diagnoses: &mut [Diagnosis], connection: &TcpConnection) {
        if self.count == 0 || connection.last.packet <= self.none_before {
            return;
        }
        let dropped = counted(self.count, "packet");
        for diagnosis in diagnoses {
            match (diagnosis.about, diagnosis.kind) {
                (Standing::NotOpen, _) => {
                    diagnosis.about = Standing::NotJudged;
                    diagnosis.cause += &format!(", or that was among the {dropped} that the kernel dropped");
                }
                (
                    Standing::Failed,
                    "unexplained"
                    | "secrets-differ"
                    | "secret-changed"
                    | "secret-of-one-direction"
                    | "altered",
                ) => {
                    diagnosis.advice += &format!(
                        " Or the kernel dropped the handshake of another connection between the same ports: it dropped {dropped}."
                    );
                }
                _ => {}
            }
        }
    }
}
