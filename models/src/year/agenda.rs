//! What will happen in a year besides traffic: chosen from the seed beforehand, mostly near the moments at which keys begin and end.

use fastrand::Rng;

use super::chains::{Agreement, DAY, START, YEAR};
use super::tcp::Millis;

/// Something that happens to routers, to the network or by an operator.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A packet arrives at an end.
    Arrive {
        to: usize,
        packet: Vec<u8>,
        attack: Option<Attack>,
    },
    /// A session's ends send data.
    Write {
        session: usize,
        octets: u32,
    },
    /// No packet gets through, or none that the end on this side sends.
    Outage {
        session: usize,
        length: Millis,
        only: Option<usize>,
    },
    /// Packets are lost (in percent), come twice, late, or in another order.
    Noise {
        session: usize,
        length: Millis,
        loss: u8,
    },
    /// The router restarts.
    Reboot {
        end: usize,
        length: Millis,
    },
    /// The gateway restarts, or kernel connections are exported and imported.
    Restart {
        end: usize,
        has_state: bool,
    },
    /// The clock is set, so that it is ahead by so many milliseconds.
    SetClock {
        end: usize,
        error: i64,
    },
    /// The clock stops.
    Freeze {
        end: usize,
    },
    /// A session's file is reloaded, with this many keys.
    Reload {
        session: usize,
        side: usize,
        known: usize,
    },
    /// A damaged file is reloaded.
    ReloadDamaged {
        session: usize,
        side: usize,
    },
    /// A session's peer is removed from the configuration, and added again later.
    Remove {
        session: usize,
        side: usize,
        length: Millis,
    },
    Add {
        session: usize,
        side: usize,
    },
    /// An attacker sends packets.
    Attack {
        packets: u32,
    },
}

/// An attacker's packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attack {
    /// Made from a recorded one.
    Recorded,
    /// Made with an expired key, in a session. It is held back if the key has become valid again, because the receiver's clock was set back.
    Forged { session: usize, key: usize },
}

/// A year's events, each with its time.
pub(super) fn plan(
    random: &mut Rng,
    ends: usize,
    sessions: &[([usize; 2], Agreement, [usize; 2])],
) -> Vec<(Millis, Event)> {
    let mut events = Vec::new();
    let millis = |second: i64| (second.saturating_sub(START).clamp(0, YEAR) * 1_000) as Millis;
    let far = |random: &mut Rng| random.u64(0..(YEAR * 1_000) as u64);
    for (session, (_, agreement, known)) in sessions.iter().enumerate() {
        for (side, known) in known.iter().enumerate() {
            for key in *known..agreement.len() {
                let begin = agreement.begin(key);
                // Most operators are in time. Some are late, but both ends still have an older key; few are too late.
                let at = match random.u8(0..16) {
                    0..=1 => begin + random.i64(0..agreement.patience()),
                    2 => begin + random.i64(0..2 * DAY),
                    _ => begin - agreement.margin - random.i64(3_600..3 * DAY),
                };
                events.push((millis(at), Event::Reload { session, side, known: key + 1 }));
            }
        }
    }
    // How wrong a clock may be without losing a session: any two clocks differ by less than the margin.
    let margin = |end: usize| {
        let of_end = sessions.iter().filter(|(ends, ..)| ends.contains(&end));
        of_end.map(|(_, agreement, _)| agreement.margin).min().unwrap_or(30) * 500 - 8_000
    };
    for end in 0..ends {
        let mut at = 0;
        while at < (YEAR * 1_000) as u64 {
            let most = margin(end);
            events.push((at, Event::SetClock { end, error: random.i64(-most..=most) }));
            at += random.u64(1..4) * (DAY * 1_000) as u64;
        }
    }
    for _ in 0..random.u32(100..300) {
        let session = random.usize(0..sessions.len());
        let (ends, agreement, _) = &sessions[session];
        let (side, near) = (random.usize(0..2), agreement.patience() + agreement.margin);
        let end = ends[side];
        let at = match random.usize(0..agreement.len()) {
            0 => far(random),
            key => millis(agreement.begin(key) + random.i64(-near..near + 60)),
        };
        let most = margin(end);
        match random.u8(0..16) {
            0..=2 => events.push((
                at,
                Event::Outage {
                    session,
                    length: random.u64(1_000..50_000),
                    only: random.bool().then_some(side),
                },
            )),
            3 => {
                events.push((at, Event::Outage { session, length: random.u64(60_000..600_000), only: None }));
            }
            4..=6 => {
                let (length, loss) = (random.u64(5_000..40_000), random.u8(0..40));
                events.push((at, Event::Noise { session, length, loss }));
            }
            7 => events.push((at, Event::Reboot { end, length: random.u64(1_000..100_000) })),
            8 => events.push((at, Event::Restart { end, has_state: random.u8(0..4) != 0 })),
            9 => events.push((at, Event::SetClock { end, error: random.i64(-most..=most) })),
            10 => {
                // Far off, for a while.
                let error = random.i64(3_600..40 * DAY) * if random.bool() { 1_000 } else { -1_000 };
                let back = at + random.u64(60_000..12 * 3_600_000);
                events.push((at, Event::SetClock { end, error }));
                events.push((back, Event::SetClock { end, error: random.i64(-most..=most) }));
            }
            11 => {
                let length = if random.bool() { most.max(1) as u64 } else { 12 * 3_600_000 };
                events.push((at, Event::Freeze { end }));
                let thaw = at + random.u64(0..length);
                events.push((thaw, Event::SetClock { end, error: random.i64(-most..=most) }));
            }
            12 => events.push((at, Event::ReloadDamaged { session, side })),
            13 => events.push((at, Event::Reload { session, side, known: 0 })),
            14 => {
                let length = random.u64(1_000..3 * 3_600_000);
                events.push((at, Event::Remove { session, side, length }));
            }
            _ => {
                // One end is not heard while keys change, so that its peer has only retransmissions to send. Its clock may stop as
                // well, before the old key is over.
                let begin = millis(agreement.begin(random.usize(0..agreement.len())));
                let at = begin.saturating_sub(random.u64(1_000..10_000));
                let length = random.u64(45_000..50_000);
                events.push((at, Event::Outage { session, length, only: Some(side) }));
                let octets = random.u32(100..2_000);
                events.push((at + random.u64(0..500), Event::Write { session, octets }));
                if random.bool() {
                    let stop = begin + random.u64(13_000..20_000);
                    events.push((stop, Event::Freeze { end }));
                    let thaw = stop + random.u64(60_000..3 * 3_600_000);
                    events.push((thaw, Event::SetClock { end, error: random.i64(-most..=most) }));
                }
            }
        }
        let attack = at + random.u64(0..120_000);
        events.push((attack, Event::Attack { packets: random.u32(1..60) }));
    }
    events
}
