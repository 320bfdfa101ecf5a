//! What went over the wire.

use std::sync::Arc;

use wireseal_tcp_ao::{Segment, SeqNum};

use super::Failure;
use crate::sync::Locked;
use crate::transport::memory::{Direction, Verdict, Wire};

/// Every packet on a wire since the recording began.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording(Arc<Locked<Vec<Packet>>>);

type Packet = (Direction, Vec<u8>);

impl Recording {
    /// Records all that goes over `wire` from now on, in place of any tap on it.
    pub(super) fn start(wire: &Wire) -> Self {
        let recording = Self::default();
        recording.resume(wire);
        recording
    }

    /// Goes on recording after another tap.
    pub(super) fn resume(&self, wire: &Wire) {
        let packets = Arc::clone(&self.0);
        wire.tap(move |direction, packet| {
            packets.lock().push((direction, packet.clone()));
            Verdict::Pass
        });
    }

    /// Calls `f` with every segment that went one way.
    pub(super) fn each(
        &self,
        direction: Direction,
        mut f: impl FnMut(Segment<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let packets = self.0.lock();
        packets
            .iter()
            .filter(|(went, _)| *went == direction)
            .try_for_each(|(_, packet)| f(Segment::parse(packet)?))
    }

    /// The last packet that went one way and whose segment is `wanted`.
    pub(super) fn last(
        &self,
        direction: Direction,
        wanted: impl Fn(&Segment<'_>) -> bool,
    ) -> Option<Vec<u8>> {
        let packets = self.0.lock();
        let mut backwards = packets.iter().rev().filter(|(went, _)| *went == direction);
        backwards
            .find(|(_, packet)| Segment::parse(packet).is_ok_and(|segment| wanted(&segment)))
            .map(|(_, packet)| packet.clone())
    }
}

/// The sequence number after a segment.
pub(super) fn end_of(segment: &Segment<'_>) -> SeqNum {
    let flags = segment.flags();
    let length = segment.payload().len() + usize::from(flags.syn()) + usize::from(flags.fin());
    SeqNum(segment.sequence().0.wrapping_add(length as u32))
}
