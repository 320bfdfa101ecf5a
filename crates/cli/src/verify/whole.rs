//! A whole capture, on two threads: one reads it, the other judges.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::{mem, panic, thread};

use super::intake::{Intake, Queue};
use super::verifier::{Verifier, VerifyEvent};
use crate::capture::{CaptureError, Progress, Reader};

/// How many segments are handed over at once, at most.
const HANDED_OVER: usize = 1024;
/// How many times that the reading thread may be ahead.
const AHEAD: usize = 3;

/// Segments in order, and how far the capture was read for them.
struct Batch {
    queue: Queue,
    progress: Progress,
    /// Whether the next packet may take a while to arrive.
    is_pause: bool,
}

/// Where batches go to be judged, and where their memory comes back from.
struct Outlet {
    batches: SyncSender<Batch>,
    emptied: Receiver<Queue>,
}

impl Outlet {
    /// Hands the waiting segments over. False if nobody wants them any more.
    fn hand_over(&self, intake: &mut Intake, progress: Progress, is_pause: bool) -> bool {
        let queue = mem::replace(&mut intake.queue, self.emptied.try_recv().unwrap_or_default());
        self.batches.send(Batch { queue, progress, is_pause }).is_ok()
    }
}

/// Reads a capture to its end, or up to an error, or until nobody wants it any more.
fn read(mut reader: Reader, mut intake: Intake, outlet: &Outlet) -> (Intake, Option<CaptureError>) {
    let error = loop {
        match reader.next_packet() {
            None => break None,
            Some(Ok(packet)) => intake.packet(&packet),
            Some(Err(error)) => break Some(error),
        }
        let is_pause = !reader.is_ahead();
        if (is_pause || intake.queue.is_full(HANDED_OVER))
            && !outlet.hand_over(&mut intake, reader.progress(), is_pause)
        {
            break None;
        }
    };
    (intake, error)
}

impl Verifier<'_> {
    /// Verifies a whole capture, or as much as can be read, and returns why reading ended early. Calls `each` with every event, in order,
    /// and `between` now and then, with how far the capture was read and whether the next packet may take a while to arrive.
    ///
    /// If the machine has a second processor, the capture is read and decoded on a thread of its own. That thread outlives an error of
    /// `each` or `between` while it waits for input.
    ///
    /// # Errors
    /// Those of `each` and `between`; drop the verifier then.
    pub fn capture<E>(
        &mut self,
        mut reader: Reader,
        mut each: impl FnMut(VerifyEvent<'_>) -> Result<(), E>,
        mut between: impl FnMut(Progress, bool) -> Result<(), E>,
    ) -> Result<Option<CaptureError>, E> {
        if thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
            return self.capture_with_thread(reader, each, between);
        }
        loop {
            match reader.next_packet() {
                None => return Ok(None),
                Some(Ok(packet)) => {
                    let is_round = packet.number.is_multiple_of(HANDED_OVER as u64);
                    self.packet(&packet, &mut each)?;
                    let is_pause = !reader.is_ahead();
                    if is_pause {
                        self.judge_queued(&mut each)?;
                    }
                    if is_pause || is_round {
                        between(reader.progress(), is_pause)?;
                    }
                }
                Some(Err(error)) => return Ok(Some(error)),
            }
        }
    }

    fn capture_with_thread<E>(
        &mut self,
        reader: Reader,
        mut each: impl FnMut(VerifyEvent<'_>) -> Result<(), E>,
        mut between: impl FnMut(Progress, bool) -> Result<(), E>,
    ) -> Result<Option<CaptureError>, E> {
        let (batches, filled) = mpsc::sync_channel(AHEAD);
        let (emptied, empty) = mpsc::channel();
        let outlet = Outlet { batches, emptied: empty };
        let intake = self.intake.take();
        let thread = thread::spawn(move || read(reader, intake, &outlet));
        for Batch { mut queue, progress, is_pause } in filled {
            self.judge_all(&queue, &mut each)?;
            between(progress, is_pause)?;
            queue.clear();
            // Not wanted any more at the end.
            let _ = emptied.send(queue);
        }
        let (intake, error) = thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        self.intake = intake;
        Ok(error)
    }
}
