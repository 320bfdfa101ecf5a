//! The events of a day, drawn from its seed.

use std::fmt;

use fastrand::Rng;

use crate::instance::{Kind, Options};
use crate::world::Side;

#[derive(Clone, Debug)]
pub enum Event {
    /// An instance is ended by a signal, and started with other options, perhaps some time later.
    Restart { side: Side, options: Options, pause: u64 },
    /// An instance is killed, and started with other options.
    Kill { side: Side, options: Options, pause: u64 },
    /// A daemon is killed, and started again.
    Daemon(Side),
    /// The gateway's own command removes the rules, while it runs.
    RemoveRules(Side),
    /// Another program flushes the rules.
    Flush(Side),
    /// A ruleset that was saved under an older configuration replaces the present one.
    OldRules { side: Side, of_another_peer: bool },
    /// The operator inserts a rule before the gateway's, which accepts or only counts.
    RuleInFront { side: Side, accepts: bool },
    /// A second gateway is started, with the same queues or with others.
    SecondInstance { side: Side, has_other_queues: bool },
    /// The disk of the sessions is full when the gateway ends in order.
    FullDisk { side: Side, options: Options },
    /// The gateway has no descriptors left while something else happens.
    NoDescriptors { side: Side, meanwhile: Box<Event> },
    /// Nobody reads the log while something else happens.
    UnreadLog { side: Side, meanwhile: Box<Event> },
    /// The files are read again, unchanged.
    Hangup(Side),
    /// The files are read again, and are unusable.
    BadFile { side: Side, is_keys: bool },
    /// The files are read again with other keys, and the rules cannot be changed.
    RulesFail(Side),
    /// Peers that never connect are added or removed.
    OtherPeers { side: Side, count: usize },
    /// The peer is taken out of the configuration, and put back.
    PeerGone(Side),
    /// The keys roll over by their lifetimes.
    RollOver,
    /// The keys roll over by files that are read again.
    RollOverByFiles,
    /// A stateful firewall is put in place, and removed later.
    Firewall(Side),
    /// The clock is set by this many seconds; only in a virtual machine, which has nothing else to do.
    Clock(i64),
    /// Only asks whether all is well.
    Ask(Side),
    /// Nothing happens for some time.
    Nothing,
}

impl Event {
    /// A random event that can happen to such instances; in a virtual machine, also setting the clock.
    pub fn draw(rng: &mut Rng, kinds: [Kind; 2], is_in_guest: bool) -> Self {
        loop {
            let event = Self::any(rng);
            // The guest has no iptables programs.
            let is_elsewhere = match event {
                Self::Clock(_) => !is_in_guest,
                Self::RuleInFront { .. } | Self::Firewall(_) => is_in_guest,
                _ => false,
            };
            if event.fits(kinds) && !is_elsewhere {
                return event;
            }
        }
    }

    fn fits(&self, kinds: [Kind; 2]) -> bool {
        match self {
            Self::Flush(side)
            | Self::RemoveRules(side)
            | Self::RulesFail(side)
            | Self::Daemon(side)
            | Self::OldRules { side, .. }
            | Self::RuleInFront { side, .. }
            | Self::SecondInstance { side, .. }
            | Self::FullDisk { side, .. } => kinds[*side as usize] == Kind::Gateway,
            Self::NoDescriptors { meanwhile, .. } | Self::UnreadLog { meanwhile, .. } => {
                meanwhile.fits(kinds)
            }
            _ => true,
        }
    }

    fn any(rng: &mut Rng) -> Self {
        let side = side(rng);
        match rng.u8(..25) {
            0..3 => Self::Restart { side, options: options(rng), pause: pause(rng) },
            3 => Self::Kill { side, options: options(rng), pause: pause(rng) },
            4..6 => Self::Flush(side),
            6 => Self::OldRules { side, of_another_peer: rng.bool() },
            7 => Self::RuleInFront { side, accepts: rng.bool() },
            8..10 => Self::SecondInstance { side, has_other_queues: rng.bool() },
            10 => {
                Self::FullDisk { side, options: Options { keeps_state: true, opens: false, ..options(rng) } }
            }
            11 => {
                let meanwhile = [Self::Nothing, Self::Flush(side), Self::Hangup(side)];
                Self::NoDescriptors { side, meanwhile: Box::new(choose(rng, meanwhile)) }
            }
            12..14 => {
                let meanwhile = [
                    Self::Nothing,
                    Self::Nothing,
                    Self::Ask(side),
                    Self::Flush(side),
                    Self::Hangup(side),
                    Self::RollOver,
                    Self::Restart { side, options: options(rng), pause: pause(rng) },
                ];
                Self::UnreadLog { side, meanwhile: Box::new(choose(rng, meanwhile)) }
            }
            14 => Self::Hangup(side),
            15 => Self::BadFile { side, is_keys: rng.bool() },
            16 => Self::RulesFail(side),
            17 => Self::OtherPeers { side, count: rng.usize(1..60) },
            18 => Self::PeerGone(side),
            19 => Self::RollOver,
            20 => Self::RollOverByFiles,
            21 => Self::Daemon(side),
            22 => Self::RemoveRules(side),
            23 => Self::Clock(choose(rng, [-3600, -5, 5, 3600, 86_400])),
            _ => Self::Firewall(side),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart { side, options, pause } => {
                write!(f, "restart {side} after {pause} ms ({options})")
            }
            Self::Kill { side, options, pause } => {
                write!(f, "kill {side}, start after {pause} ms ({options})")
            }
            Self::Daemon(side) => write!(f, "daemon {side} restarted"),
            Self::RemoveRules(side) => write!(f, "--remove-rules {side}"),
            Self::Flush(side) => write!(f, "flush {side}"),
            Self::OldRules { side, of_another_peer: true } => write!(f, "old rules {side} of another peer"),
            Self::OldRules { side, .. } => write!(f, "old rules {side} of other queues"),
            Self::RuleInFront { side, accepts: true } => write!(f, "accepting rule in front {side}"),
            Self::RuleInFront { side, .. } => write!(f, "counting rule in front {side}"),
            Self::SecondInstance { side, has_other_queues: true } => {
                write!(f, "second instance {side}, other queues")
            }
            Self::SecondInstance { side, .. } => write!(f, "second instance {side}"),
            Self::FullDisk { side, options } => write!(f, "full disk {side} ({options})"),
            Self::NoDescriptors { side, meanwhile } => write!(f, "no descriptors {side} [{meanwhile}]"),
            Self::UnreadLog { side, meanwhile } => write!(f, "log not read {side} [{meanwhile}]"),
            Self::Hangup(side) => write!(f, "SIGHUP {side}"),
            Self::BadFile { side, is_keys: true } => write!(f, "bad keys {side}"),
            Self::BadFile { side, .. } => write!(f, "bad configuration {side}"),
            Self::RulesFail(side) => write!(f, "SIGHUP {side}, rules fail"),
            Self::OtherPeers { side, count } => write!(f, "{count} other peers {side}"),
            Self::PeerGone(side) => write!(f, "peer gone {side}"),
            Self::RollOver => f.write_str("rollover"),
            Self::RollOverByFiles => f.write_str("rollover by files"),
            Self::Firewall(side) => write!(f, "stateful firewall {side}"),
            Self::Clock(seconds) => write!(f, "clock set by {seconds} s"),
            Self::Ask(side) => write!(f, "ask {side}"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

pub fn side(rng: &mut Rng) -> Side {
    if rng.bool() { Side::A } else { Side::B }
}

pub fn options(rng: &mut Rng) -> Options {
    Options {
        threads: rng.u16(1..5),
        // Numbers that mean other directions to gateways with other threads, and numbers far away.
        queue: choose(rng, [17_900, 17_900, 17_902, 100]),
        keeps_state: rng.u8(..4) > 0,
        connections: choose(rng, [64, 4096]),
        opens: rng.u8(..12) == 0,
    }
}

/// Milliseconds.
fn pause(rng: &mut Rng) -> u64 {
    if rng.bool() { 0 } else { rng.u64(..1500) }
}

fn choose<T, const N: usize>(rng: &mut Rng, from: [T; N]) -> T {
    let index = rng.usize(..N);
    from.into_iter().nth(index).expect("there are so many")
}
