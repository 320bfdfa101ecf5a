//! Opening a packet with a long header.

use std::ops::Range;

use wireseal_quic::{AuthenticationFailures, Keys, OpenError, Protected, ReceiveSpace};

use super::report::Reason;

/// A packet that was opened. The payload is in the buffer it was opened in.
pub(super) struct OpenedPacket {
    pub(super) number: u64,
    /// How many key updates precede its keys.
    pub(super) generation: u64,
    pub(super) payload: Range<usize>,
}

/// Opens a packet with a long header in `scratch`.
pub(super) fn open_long(
    keys: &Keys,
    numbers: &mut ReceiveSpace,
    packet: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<OpenedPacket, Reason> {
    scratch.clear();
    scratch.extend_from_slice(packet);
    let (packet, _) = Protected::split_first(scratch, 0).map_err(|_| Reason::Malformed)?;
    // The integrity limit concerns only ends of a connection, which have to give up at it.
    match keys.open(packet, numbers, &mut AuthenticationFailures::new()) {
        Ok(opened) => {
            let start = opened.header().len();
            let payload = start..start + opened.payload.len();
            Ok(OpenedPacket { number: opened.number, generation: 0, payload })
        }
        Err(OpenError::Undecryptable) => Err(Reason::TooShort),
        Err(OpenError::ReservedBits) => Err(Reason::ReservedBits),
        Err(OpenError::NoFrames) => Err(Reason::NoFrames),
        Err(
            OpenError::AuthenticationFailed
            | OpenError::Duplicate
            | OpenError::KeyUpdate
            | OpenError::IntegrityLimit,
        ) => Err(Reason::Forged),
    }
}
