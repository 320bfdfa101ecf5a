//! The attacker, who reads everything on the cable and injects frames all day.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use etherparse::TcpHeader;
use fastrand::Rng;

use crate::daemon::PORT;
use crate::frame::{MD5, Path, TCP_AO};
use crate::wire::{ATTACKERS_PORTS, Known, Wire};
use crate::world::{Side, World};

/// Between two attacks, in milliseconds.
const PAUSE: std::ops::Range<u64> = 4..25;
const EVIL: &[u8] = b"EVIL EVIL EVIL EVIL EVIL EVIL EVIL EVIL";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attack {
    /// Data with the right sequence number in the live session.
    Data,
    /// A reset at that number.
    Reset,
    /// A FIN at that number.
    Fin,
    /// A replay of a recorded frame.
    Replay,
    /// A connection in the peer's name, with a complete handshake.
    Call,
    /// An answer to a SYN, in the peer's name.
    Answer,
    /// Data in fragments.
    Fragments,
    /// ICMP errors that quote the session.
    Icmp,
}

impl Attack {
    pub const ALL: [Self; 8] = [
        Self::Data,
        Self::Reset,
        Self::Fin,
        Self::Replay,
        Self::Call,
        Self::Answer,
        Self::Fragments,
        Self::Icmp,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Reset => "reset",
            Self::Fin => "fin",
            Self::Replay => "replay",
            Self::Call => "call",
            Self::Answer => "answer",
            Self::Fragments => "fragments",
            Self::Icmp => "icmp",
        }
    }
}

pub struct Attacker {
    wire: Arc<Wire>,
    addresses: [std::net::IpAddr; 2],
    listener: Side,
    kinds: Vec<Attack>,
    rng: Rng,
}

impl Attacker {
    /// Starts the attacker, who stops with the wire.
    pub fn start(
        wire: &Arc<Wire>,
        world: &World,
        listener: Side,
        kinds: Vec<Attack>,
        rng: Rng,
    ) -> JoinHandle<()> {
        let addresses = Side::BOTH.map(|side| world.address(side));
        let mut attacker = Self { wire: Arc::clone(wire), addresses, listener, kinds, rng };
        thread::spawn(move || {
            while !attacker.wire.has_ended() {
                let kind = attacker.kinds[attacker.rng.usize(..attacker.kinds.len())];
                let victim = if attacker.rng.bool() { Side::A } else { Side::B };
                // A host that is not ready receives nothing.
                if let Ok(true) = attacker.attack(kind, victim) {
                    *attacker.wire.known().counts.entry(kind.name()).or_default() += 1;
                }
                thread::sleep(Duration::from_millis(attacker.rng.u64(PAUSE)));
            }
        })
    }

    /// Attacks; returns whether there was something to attack.
    fn attack(&mut self, kind: Attack, victim: Side) -> Result<bool> {
        let wire = Arc::clone(&self.wire);
        let known = wire.known();
        let Some(path) = self.path(&known, victim) else { return Ok(false) };
        let frames = match kind {
            Attack::Replay => {
                let recorded = &known.recorded[victim.other() as usize];
                let count = self.rng.usize(1..4).min(recorded.len());
                (0..count).map(|_| recorded[self.rng.usize(..recorded.len())].clone()).collect()
            }
            Attack::Call => return self.call(known, &path, victim),
            Attack::Answer => return self.answer(known, victim),
            _ => {
                let Some(mut header) = self.next(&known, victim) else { return Ok(false) };
                match kind {
                    Attack::Icmp => vec![self.icmp(&path, &known, victim)?],
                    Attack::Reset => {
                        (header.rst, header.psh, header.ack) = (true, false, self.rng.bool());
                        vec![path.segment(header, &[])?]
                    }
                    Attack::Fin => {
                        (header.fin, header.psh) = (true, false);
                        vec![path.segment(header, &[])?]
                    }
                    Attack::Fragments => {
                        header.rst = self.rng.bool();
                        let size = [8, 16, 24, 40][self.rng.usize(..4)];
                        let mut frames = path.fragments(header, EVIL, size, self.rng.u32(..))?;
                        if self.rng.bool() {
                            frames.reverse();
                        }
                        frames
                    }
                    _ => {
                        let back = self.rng.u32(0..2) * self.rng.u32(0..64);
                        header.sequence_number = header.sequence_number.wrapping_sub(back);
                        vec![path.segment(header, EVIL)?]
                    }
                }
            }
        };
        drop(known);
        for frame in &frames {
            self.wire.inject(victim, frame)?;
        }
        Ok(!frames.is_empty())
    }

    /// A frame from the peer to the victim.
    fn path(&self, known: &Known, victim: Side) -> Option<Path> {
        let ends = [victim.other(), victim];
        let [from, to] = ends.map(|side| known.hardware[side as usize]);
        Some(Path { hardware: [from?, to?], addresses: ends.map(|side| self.addresses[side as usize]) })
    }

    /// The header of the segment that the peer could send next, with useless options.
    fn next(&mut self, known: &Known, victim: Side) -> Option<TcpHeader> {
        let newest = known.newest[victim.other() as usize].as_ref()?;
        let acknowledged = known.newest[victim as usize].as_ref()?.next();
        let mut header = TcpHeader::new(newest.from.port(), newest.to.port(), newest.next(), 500);
        (header.ack, header.psh, header.acknowledgment_number) = (true, true, acknowledged);
        header.set_options_raw(&self.options()).ok()?;
        Some(header)
    }

    /// No option, TCP-AO with a guessed MAC, or MD5.
    fn options(&mut self) -> Vec<u8> {
        let octets = |rng: &mut Rng, count: usize| (0..count).map(|_| rng.u8(..)).collect::<Vec<_>>();
        match self.rng.u8(..6) {
            0 => {
                let id = self.rng.u8(1..4);
                [&[TCP_AO, 16, id, id][..], &octets(&mut self.rng, 12)].concat()
            }
            1 => [&[MD5, 18][..], &octets(&mut self.rng, 16), &[1, 1]].concat(),
            _ => Vec::new(),
        }
    }

    fn icmp(&mut self, path: &Path, known: &Known, victim: Side) -> Result<Vec<u8>> {
        // The headers and eight more octets of the victim's last packet.
        let quoted = known.recorded[victim as usize].back().map_or(&[][..], |frame| &frame[14..]);
        let quoted = &quoted[..quoted.len().min(64)];
        let (kind, mtu) = match self.addresses[0].is_ipv4() {
            true => ((3, self.rng.u8(..6)), [0, 600, 1000][self.rng.usize(..3)]),
            false => ((1, self.rng.u8(..5)), 0),
        };
        path.icmp_error(kind, mtu, quoted)
    }

    /// Continues a connection that the listener has answered, or begins another.
    fn call(
        &mut self,
        mut known: std::sync::MutexGuard<'_, Known>,
        path: &Path,
        victim: Side,
    ) -> Result<bool> {
        if victim != self.listener {
            return Ok(false);
        }
        let answer = known.answers[victim as usize].pop_front();
        drop(known);
        let (header, payload) = match answer {
            Some(answer) if answer.header.syn => {
                let number = answer.header.acknowledgment_number;
                let mut header = TcpHeader::new(answer.to.port(), PORT, number, 500);
                (header.ack, header.psh, header.acknowledgment_number) = (true, true, answer.next());
                (header, EVIL)
            }
            _ => {
                let port = self.rng.u16(ATTACKERS_PORTS);
                let mut header = TcpHeader::new(port, PORT, self.rng.u32(..), 500);
                header.syn = true;
                header.set_options_raw(&self.options())?;
                (header, &[][..])
            }
        };
        self.wire.inject(victim, &path.segment(header, payload)?)?;
        Ok(true)
    }

    /// Answers the waiting SYN.
    fn answer(&mut self, mut known: std::sync::MutexGuard<'_, Known>, victim: Side) -> Result<bool> {
        let Some((caller, call)) = known.call.take().filter(|(caller, _)| *caller == victim) else {
            return Ok(false);
        };
        let Some(path) = self.path(&known, caller) else { return Ok(false) };
        drop(known);
        let mut header = TcpHeader::new(PORT, call.from.port(), self.rng.u32(..), 500);
        (header.syn, header.ack, header.acknowledgment_number) = (true, true, call.next());
        header.set_options_raw(&self.options())?;
        self.wire.inject(caller, &path.segment(header, &[])?)?;
        Ok(true)
    }
}
