//! Packets through a shim, one at a time and many at once.

use core::ops::Range;
use core::time::Duration;

use wireseal_tcp_ao::shim::Refusal;

use crate::border::{items_mut, octets_mut, place, with};
use crate::shim::{Aligned, wireseal_shim};
use crate::status::{wireseal_status, wireseal_status as Status};

/// Takes an IP packet of `length` octets from the link. The packet for the stack is in the same buffer: `*new_length` octets from `packet +
/// *offset` on.
///
/// Packets of other protocols, and unsigned segments of connections without a peer, come back unchanged, the latter unless
/// WIRESEAL_UNMATCHED_DROP_ALL is configured.
///
/// Errors, after which you drop the packet: any of WIRESEAL_STATUS_MALFORMED to _ICMP, and _NO_KEY. The packet is unchanged, and only counters
/// of the shim have changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_inbound(
    shim: *mut wireseal_shim,
    now_ms: u64,
    packet: *mut u8,
    length: usize,
    offset: *mut usize,
    new_length: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let (packet, mut offset, mut new_length) =
                (octets_mut(packet, length)?, place(offset)?, place(new_length)?);
            let found = shim.inbound(Duration::from_millis(now_ms), packet)?;
            offset.write(found.start);
            new_length.write(found.len());
            Ok(())
        })
    }
}

/// Adjusts an ICMP error that this host made because its own packet does not fit the link: subtracts the room for the AO option from the MTU in
/// it, and adjusts its checksum. Then pass it to the stack, not to wireseal_shim_inbound(). Any other packet is unchanged.
///
/// Make sure that this host made it, by the device that it came from.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_own_icmp(
    shim: *mut wireseal_shim,
    packet: *mut u8,
    length: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            shim.own_icmp(octets_mut(packet, length)?);
            Ok(())
        })
    }
}

/// Takes an IP packet from the stack, which starts at `buffer + room` and ends within the `size` octets of `buffer`. The packet for the link is
/// `*new_length` octets from `buffer + *offset` on: it grows into the `room` octets before it, of which WIRESEAL_OPTION_ROOM are always enough.
///
/// Packets of other protocols and of connections without a peer come back unchanged, the latter unless WIRESEAL_UNMATCHED_DROP_ALL is
/// configured.
///
/// Errors, after which you send nothing, and the contents of `buffer` are undefined: WIRESEAL_STATUS_BAD_ARGUMENT if `room` is more than
/// `size`; any of WIRESEAL_STATUS_MALFORMED, _BAD_OPTIONS, _WRONG_STATE, _NO_CONNECTION to _TABLE_FULL, _NO_ROOM to _TOO_LONG_FOR_LINK, and
/// _NO_KEY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_outbound(
    shim: *mut wireseal_shim,
    now_ms: u64,
    buffer: *mut u8,
    size: usize,
    room: usize,
    offset: *mut usize,
    new_length: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let (buffer, mut offset, mut new_length) =
                (octets_mut(buffer, size)?, place(offset)?, place(new_length)?);
            if room > size {
                return Err(Status::BadArgument);
            }
            let found = shim.outbound(Duration::from_millis(now_ms), buffer, room)?;
            offset.write(found.start);
            new_length.write(found.len());
            Ok(())
        })
    }
}

/// One packet of a call of wireseal_shim_inbound_batch() or wireseal_shim_outbound_batch().
#[repr(C)]
pub struct wireseal_packet {
    /// The buffer. Those of one call must not overlap.
    pub buffer: *mut u8,
    /// Octets of the buffer. The packet ends within them.
    pub size: usize,
    /// Where the packet starts in the buffer, before the call and after it. Outbound, it grows into the octets before it.
    pub offset: usize,
    /// Octets of the packet after the call; 0 if it is to be dropped.
    pub length: usize,
    /// An enum wireseal_status after the call: WIRESEAL_STATUS_OK if the packet goes on.
    pub status: u32,
}

/// How many packets the shim computes MACs of at a time.
const BATCH: usize = 16;

impl wireseal_packet {
    /// The buffer of each packet.
    ///
    /// # Safety
    /// What C promises of the buffers.
    unsafe fn buffers<'a>(packets: &[Self]) -> Result<[&'a mut [u8]; BATCH], Status> {
        let mut buffers = [(); BATCH].map(|()| &mut [] as &mut [u8]);
        for (place, packet) in buffers.iter_mut().zip(packets) {
            // SAFETY: the caller's promise.
            *place = unsafe { octets_mut(packet.buffer, packet.size)? };
            if packet.offset > packet.size {
                return Err(Status::BadArgument);
            }
        }
        Ok(buffers)
    }

    /// Runs a call for many packets. If it fails as a whole, no packet keeps a status that would let it go on.
    ///
    /// # Safety
    /// What C promises of each pointer.
    unsafe fn many(
        shim: *mut wireseal_shim,
        packets: *mut Self,
        count: usize,
        call: impl FnOnce(&mut Aligned, &mut [Self]) -> Result<(), Status>,
    ) -> Status {
        // SAFETY: the caller's promise.
        let status = unsafe { with(shim, |shim| call(shim, items_mut(packets, count)?)) };
        if status != Status::Ok
            // SAFETY: as above; the call has returned.
            && let Ok(packets) = unsafe { items_mut(packets, count) }
        {
            for packet in packets {
                (packet.status, packet.length) = (status as u32, 0);
            }
        }
        status
    }

    /// Records the verdict. The place of the packet is counted from `start`.
    fn conclude(&mut self, verdict: Result<Range<usize>, Refusal>, start: usize) {
        (self.status, self.length) = match verdict {
            Ok(found) => {
                self.offset = start + found.start;
                (Status::Ok as u32, found.len())
            }
            Err(refusal) => (Status::from(refusal) as u32, 0),
        };
    }
}

/// Takes `count` packets from the link, each as wireseal_shim_inbound() does, and writes to each its result. MACs are computed 16 at a time.
/// Pass what has arrived; do not wait for more.
///
/// The call returns WIRESEAL_STATUS_OK even if packets were refused.
///
/// Errors, after which you drop all packets: each has the status of the call and the length 0. WIRESEAL_STATUS_NULL_POINTER, _TOO_LONG or
/// _BAD_ARGUMENT if a buffer is null or too long, or a packet starts after its end: no packet was processed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_inbound_batch(
    shim: *mut wireseal_shim,
    now_ms: u64,
    packets: *mut wireseal_packet,
    count: usize,
) -> wireseal_status {
    let now = Duration::from_millis(now_ms);
    // SAFETY: what C promises of each pointer.
    unsafe {
        wireseal_packet::many(shim, packets, count, |Aligned(shim), packets| {
            for packets in packets.chunks(BATCH) {
                wireseal_packet::buffers(packets)?;
            }
            for packets in packets.chunks_mut(BATCH) {
                let mut buffers = wireseal_packet::buffers(packets)?;
                for (buffer, packet) in buffers.iter_mut().zip(&*packets) {
                    *buffer = core::mem::take(buffer).get_mut(packet.offset..).unwrap_or_default();
                }
                let buffers = buffers.get_mut(..packets.len()).unwrap_or_default();
                shim.inbound_batch(now, buffers, |index, verdict| {
                    if let Some(packet) = packets.get_mut(index) {
                        packet.conclude(verdict, packet.offset);
                    }
                });
            }
            Ok(())
        })
    }
}

/// Takes `count` packets from the stack, each as wireseal_shim_outbound() does, and writes to each its result. Otherwise as
/// wireseal_shim_inbound_batch().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_outbound_batch(
    shim: *mut wireseal_shim,
    now_ms: u64,
    packets: *mut wireseal_packet,
    count: usize,
) -> wireseal_status {
    let now = Duration::from_millis(now_ms);
    // SAFETY: what C promises of each pointer.
    unsafe {
        wireseal_packet::many(shim, packets, count, |Aligned(shim), packets| {
            for packets in packets.chunks(BATCH) {
                wireseal_packet::buffers(packets)?;
            }
            for packets in packets.chunks_mut(BATCH) {
                let mut rooms = packets.iter().map(|packet| packet.offset);
                let mut buffers =
                    wireseal_packet::buffers(packets)?.map(|buffer| (buffer, rooms.next().unwrap_or(0)));
                let buffers = buffers.get_mut(..packets.len()).unwrap_or_default();
                shim.outbound_batch(now, buffers, |index, verdict| {
                    if let Some(packet) = packets.get_mut(index) {
                        packet.conclude(verdict, 0);
                    }
                });
            }
            Ok(())
        })
    }
}
