//! Received packets on their way to being opened: their masks are made some at a time.

use crate::packet_key::BATCH;
use crate::protected::Protected;

/// Packets that wait for their masks, and those that have them.
pub(crate) struct Train<'a, I> {
    packets: I,
    held: [Option<Protected<'a>>; BATCH],
    next: usize,
}

impl<'a, I: Iterator<Item = Protected<'a>>> Train<'a, I> {
    pub(crate) fn new(packets: I) -> Self {
        Self { packets, held: [const { None }; BATCH], next: BATCH }
    }

    /// The next packet, after `unmask` was shown it with those behind it, if it had not been before.
    #[inline]
    pub(crate) fn next(
        &mut self,
        unmask: impl FnOnce(&mut [Option<Protected<'a>>]),
    ) -> Option<Protected<'a>> {
        if self.next == BATCH || self.held[self.next].is_none() {
            self.next = 0;
            for (place, packet) in self.held.iter_mut().zip(&mut self.packets) {
                *place = Some(packet);
            }
            unmask(&mut self.held);
        }
        let packet = self.held.get_mut(self.next)?.take()?;
        self.next += 1;
        Some(packet)
    }
}
