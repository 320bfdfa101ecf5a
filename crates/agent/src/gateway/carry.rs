//! The threads that carry packets.

use std::ops::Range;

use wireseal_tcp_ao::shim::Direction;

use super::queues::{Packet, PacketQueues};
use super::shard::Verdict;
use super::shards::Shards;
use super::wire::Wire;

/// The index of the loopback device in every network namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;

/// The numbers of a gateway's packet queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbers {
    pub(super) first: u16,
    pub(super) threads: u16,
}

impl Numbers {
    /// From programs; a queue for each thread.
    pub(super) const fn outbound(self) -> Range<u16> {
        self.first..self.first + self.threads
    }

    /// To programs; a queue for each thread.
    pub(super) const fn inbound(self) -> Range<u16> {
        self.first + self.threads..self.errors()
    }

    /// ICMP errors.
    pub(super) const fn errors(self) -> u16 {
        self.first + 2 * self.threads
    }
}

/// Carries the packets of a thread's queues until the process ends.
pub(super) fn carry(mut queues: PacketQueues, thread: u16, mut wire: Wire, shards: &Shards) {
    let mut packets = Vec::new();
    loop {
        if let Err(error) = queues.receive(&mut packets) {
            tracing::error!(%error, "packets could not be received from the kernel");
        }
        // Between the two directions the order means nothing.
        let (mut outbound, mut inbound) = (Vec::new(), Vec::new());
        for packet in packets.drain(..) {
            match packet.direction() {
                // It was judged when it was sent.
                Some(Direction::Outbound) if wire.has_sent(packet.octets()) => {
                    log_lost(queues.accept(packet));
                }
                Some(Direction::Outbound) => outbound.push(packet),
                Some(Direction::Inbound) => inbound.push(packet),
                // No rule of ours queues it.
                None => log_lost(queues.drop(packet)),
            }
        }
        let mut shard = shards.shard(thread.into());
        outbound.iter().for_each(|packet| shards.claim(&mut shard, packet.octets(), true));
        inbound.iter().for_each(|packet| shards.claim(&mut shard, packet.octets(), false));
        let now = shards.now();
        let verdicts = [shard.outbound(now, &mut outbound), shard.inbound(now, &mut inbound)].concat();
        shard.log();
        drop(shard);
        for (packet, verdict) in outbound.into_iter().chain(inbound).zip(verdicts) {
            answer(&mut queues, packet, verdict, &mut wire);
        }
        log_lost(queues.flush());
    }
}

fn answer(queues: &mut PacketQueues, packet: Packet, verdict: Verdict, wire: &mut Wire) {
    let decided = match verdict {
        Verdict::Accept(place) => queues.accept_at(packet, place),
        Verdict::Send(place) => match wire.send(&packet, packet.octets_at(place.clone())) {
            // It does not fit the link: the kernel says so to the program's TCP.
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => queues.accept_at(packet, place),
            // It was sent, or there was no room, or a filter has dropped it: TCP sends it again.
            _ => queues.drop(packet),
        },
        Verdict::Drop => queues.drop(packet),
    };
    log_lost(decided);
}

/// The kernel has no memory, or has given a packet up; TCP sends it again.
fn log_lost(result: std::io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "packets could not be given back to the kernel");
    }
}

/// Carries ICMP errors. The one that they quote may be in any shard.
pub(super) fn carry_errors(mut queues: PacketQueues, shards: &Shards) {
    let mut packets = Vec::new();
    loop {
        if let Err(error) = queues.receive(&mut packets) {
            tracing::error!(%error, "packets could not be received from the kernel");
        }
        for mut packet in packets.drain(..) {
            if packet.direction() != Some(Direction::Inbound) {
                log_lost(queues.drop(packet));
                continue;
            }
            let is_own = packet.from_device == LOOPBACK;
            let (now, octets) = (shards.now(), packet.octets_mut());
            let is_admitted = shards.each().all(|mut shard| {
                let is_admitted = shard.admits_icmp(now, octets, is_own);
                shard.log();
                is_admitted
            });
            let place = packet.place();
            let decided = if is_admitted { queues.accept_at(packet, place) } else { queues.drop(packet) };
            log_lost(decided);
        }
        log_lost(queues.flush());
    }
}
