//! The cable between the hosts. Every frame passes through here, so the witness sees everything that the hosts send.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;
use tun_rs::SyncDevice;

use crate::daemon::PORT;
use crate::frame::{self, Content, Seen};
use crate::instance::Kind;
use crate::journal::Journal;
use crate::world::{Side, World};

/// How many frames of each side are kept for replay.
const KEPT: usize = 300;
/// Ports of the attacker's own connections, outside Linux's range for local ports.
pub const ATTACKERS_PORTS: std::ops::Range<u16> = 61_000..65_000;

pub struct Wire {
    ends: [SyncDevice; 2],
    journal: Arc<Journal>,
    addresses: [std::net::IpAddr; 2],
    kinds: [Kind; 2],
    known: Mutex<Known>,
    has_ended: AtomicBool,
}

/// What the frames so far have shown.
#[derive(Default)]
pub struct Known {
    /// By the side that sent it.
    pub hardware: [Option<[u8; 6]>; 2],
    /// The newest segment of the newest session.
    pub newest: [Option<Seen>; 2],
    pub recorded: [VecDeque<Vec<u8>>; 2],
    /// Segments that answer the attacker's own; they are not passed on.
    pub answers: [VecDeque<Seen>; 2],
    /// A SYN that waits for its answer.
    pub call: Option<(Side, Seen)>,
    pub counts: BTreeMap<&'static str, u64>,
    pub signed: u64,
    pub unsigned: u64,
}

impl Wire {
    /// Joins the ends, and carries frames until the process ends.
    pub fn join(ends: [SyncDevice; 2], world: &World, kinds: [Kind; 2], journal: &Arc<Journal>) -> Arc<Self> {
        let wire = Arc::new(Self {
            ends,
            journal: Arc::clone(journal),
            addresses: Side::BOTH.map(|side| world.address(side)),
            kinds,
            known: Mutex::default(),
            has_ended: AtomicBool::new(false),
        });
        for side in Side::BOTH {
            let wire = Arc::clone(&wire);
            thread::spawn(move || wire.carry(side));
        }
        wire
    }

    fn carry(&self, side: Side) {
        let mut buffer = vec![0; 65_536];
        while !self.has_ended() {
            let Ok(length) = self.ends[side as usize].recv(&mut buffer) else { continue };
            let frame = &buffer[..length];
            if self.passes(side, frame) {
                // The other end may be down or full; cables do lose frames.
                let _ = self.ends[side.other() as usize].send(frame);
            }
        }
    }

    /// Inspects a frame from a host; returns whether it goes on to the other.
    fn passes(&self, side: Side, octets: &[u8]) -> bool {
        let mut known = self.known();
        if let Some(source) = octets.get(6..12) {
            known.hardware[side as usize] = source.try_into().ok();
        }
        match frame::read(octets) {
            Content::Segment(seen) => self.judge(&mut known, side, *seen, octets),
            Content::Fragment(from, to, is_signed) => {
                if !is_signed && self.is_protected([from, to], side) && !self.journal.is_open(side) {
                    known.unsigned += 1;
                    drop(known);
                    self.journal.fault(&format!("{side} sent an unsigned segment in fragments"));
                }
                true
            }
            Content::Other => true,
        }
    }

    fn is_protected(&self, addresses: [std::net::IpAddr; 2], side: Side) -> bool {
        addresses == [self.addresses[side as usize], self.addresses[side.other() as usize]]
    }

    fn judge(&self, known: &mut Known, side: Side, seen: Seen, octets: &[u8]) -> bool {
        let ports = [seen.from.port(), seen.to.port()];
        if !self.is_protected([seen.from.ip(), seen.to.ip()], side) || !ports.contains(&PORT) {
            return true;
        }
        if seen.is_signed {
            known.signed += 1;
        } else {
            known.unsigned += 1;
            // Without a socket a kernel has no key: it answers segments for closed ports with an unsigned reset. In TIME-WAIT Linux
            // acknowledges unsigned segments unsigned. A peer that requires signatures ignores both.
            let h = &seen.header;
            let is_of_kernel =
                self.kinds[side as usize] == Kind::Run && (h.rst || !h.syn && !h.fin && seen.payload == 0);
            if !is_of_kernel && !self.journal.is_open(side) {
                let flags = [
                    (h.syn, "SYN "),
                    (h.ack, "ACK "),
                    (h.rst, "RST "),
                    (h.fin, "FIN "),
                    (seen.payload > 0, "data"),
                ];
                let flags: String = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).collect();
                self.journal.fault(&format!("{side} sent an unsigned segment: {}", flags.trim_end()));
            }
        }
        if ATTACKERS_PORTS.contains(&ports[1]) {
            keep(&mut known.answers[side as usize], seen, 20);
            return false;
        }
        keep(&mut known.recorded[side as usize], octets.to_vec(), KEPT);
        if seen.header.syn && !seen.header.ack {
            known.call = Some((side, seen.clone()));
        }
        if !seen.header.rst {
            known.newest[side as usize] = Some(seen);
        }
        true
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame of the attacker's to a host.
    pub fn inject(&self, to: Side, frame: &[u8]) -> Result<()> {
        self.ends[to as usize].send(frame)?;
        Ok(())
    }

    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

fn keep<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}
