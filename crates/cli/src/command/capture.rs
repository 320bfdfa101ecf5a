//! Reading a capture from start to end.

use std::error::Error;
use std::path::Path;

use super::progress::{Bar, PROGRESS_INTERVAL};
use crate::capture::{CaptureError, Packet, Reader};

/// A capture that is being read, with a progress bar on a terminal.
pub(super) struct CaptureRun {
    reader: Reader,
    pub(super) bar: Bar,
}

impl CaptureRun {
    /// Opens a capture.
    ///
    /// # Errors
    /// Those of [`Reader::open`], with the name of the file.
    pub(super) fn open(capture: &Path) -> Result<Self, Box<dyn Error>> {
        let reader = Reader::open(capture).map_err(|error| match error {
            CaptureError::Open { .. } => error.to_string(),
            error => format!("{}: {error}", capture.display()),
        })?;
        Ok(Self { reader, bar: Bar::new() })
    }

    /// Calls `each` for every packet, and with `None` when the next one may take a while to arrive. Returns where and how the file
    /// is damaged, if it is.
    ///
    /// # Errors
    /// Those of reading and of `each`.
    pub(super) fn packets<E: Into<Box<dyn Error>>>(
        mut self,
        mut each: impl FnMut(Option<&Packet<'_>>) -> Result<(), E>,
    ) -> Result<Option<String>, Box<dyn Error>> {
        let damage = loop {
            match self.reader.next_packet() {
                None => break None,
                Some(Ok(packet)) => {
                    let number = packet.number;
                    each(Some(&packet)).map_err(Into::into)?;
                    if !self.reader.is_ahead() {
                        each(None).map_err(Into::into)?;
                    }
                    if number.is_multiple_of(PROGRESS_INTERVAL) {
                        self.bar.show(self.reader.progress());
                    }
                }
                Some(Err(error @ CaptureError::Damaged { .. })) => break Some(error.to_string()),
                Some(Err(error)) => return Err(error.into()),
            }
        };
        self.bar.clear();
        Ok(damage)
    }
}
