//! One thread's shim. The kernel puts all packets between two addresses, in both directions, into the same thread's queues, so that no
//! connection has packets in two shards.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use tracing::field::display;
use wireseal_tcp_ao::shim::{
    Direction, Event, EventKind, HashKey, Observer, PeerSlot, Refusal, Shim, ShimConfig, ShimSlot,
};
use wireseal_tcp_ao::{ConnectionState, IcmpError, PeerError, VerifyError};

use super::queues::{Packet, destination};

/// How long the kernel keeps a path MTU (`net.ipv4.route.mtu_expires`), plus a second, because the kernel notes it after the shard.
const NOTED: Duration = Duration::from_secs(601);
/// How often expired connections are forgotten.
const EXPIRY: Duration = Duration::from_secs(60);

/// Lines about refused packets in a second.
const MOST: usize = 10;

/// What becomes of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Pass on the octets at this place of its buffer.
    Accept(Range<usize>),
    /// Send the octets at this place of its buffer by the raw socket, because of a path MTU that the kernel has noted.
    Send(Range<usize>),
    /// Drop it.
    Drop,
}

/// A shim, and what the gateway keeps with it.
pub(super) struct Shard {
    pub(super) shim: Shim<Vec<PeerSlot>, Vec<ShimSlot>, Events>,
    /// Destinations for which the kernel has noted a path MTU that was lowered by the option, and until when.
    narrow: HashMap<IpAddr, Duration>,
    /// Refused packets since they were last logged.
    pub(super) refusals: Refusals,
    /// Whether it has stopped carrying packets.
    pub(super) has_stopped: bool,
    /// How many peers the shim has slots for.
    room: usize,
    /// When expired connections were last forgotten.
    expired: Duration,
}

/// The events of the packets that are being judged.
#[derive(Default)]
pub(super) struct Events(Vec<Event>);

impl Observer for Events {
    fn observe(&mut self, event: &Event) {
        self.0.push(*event);
    }
}

impl Shard {
    /// A shard without peers.
    pub(super) fn new(config: ShimConfig, connections: usize) -> Result<Self, PeerError> {
        let shim = Shim::new(config, HashKey::random(), Vec::new(), ShimSlot::many::<Vec<_>>(connections))?;
        Ok(Self {
            shim: shim.with_observer(Events::default()),
            narrow: HashMap::new(),
            refusals: Refusals::default(),
            has_stopped: false,
            room: 0,
            expired: Duration::ZERO,
        })
    }

    /// Makes room for this many peers.
    pub(super) fn make_room(&mut self, peers: usize) -> Result<(), PeerError> {
        if peers > self.room {
            let room = peers.next_power_of_two();
            self.shim.move_peers((0..room).map(|_| PeerSlot::EMPTY).collect())?;
            self.room = room;
        }
        Ok(())
    }

    /// Forgets expired connections, only once a minute, because it scans the whole table.
    pub(super) fn expire(&mut self, now: Duration) {
        if now.saturating_sub(self.expired) >= EXPIRY {
            self.shim.expire(now);
            self.expired = now;
        }
    }

    /// Signs packets from programs.
    pub(super) fn outbound(&mut self, now: Duration, packets: &mut [Packet]) -> Vec<Verdict> {
        if self.has_stopped {
            return vec![Verdict::Drop; packets.len()];
        }
        self.narrow.retain(|_, until| now < *until);
        let mut buffers: Vec<_> = packets.iter_mut().map(Packet::buffer_with_room).collect();
        let mut signed = Vec::with_capacity(buffers.len());
        self.shim.outbound_batch(now, &mut buffers, |_, result| signed.push(result));
        let verdicts = buffers.iter().zip(signed).map(|((buffer, _), signed)| {
            let Ok(place) = signed else { return Verdict::Drop };
            let is_narrow = |to: IpAddr| self.narrow.contains_key(&to);
            match !self.narrow.is_empty() && destination(&buffer[place.clone()]).is_some_and(is_narrow) {
                true => Verdict::Send(place),
                false => Verdict::Accept(place),
            }
        });
        verdicts.collect()
    }

    /// Verifies packets for programs.
    pub(super) fn inbound(&mut self, now: Duration, packets: &mut [Packet]) -> Vec<Verdict> {
        if self.has_stopped {
            return vec![Verdict::Drop; packets.len()];
        }
        let starts: Vec<_> = packets.iter().map(|packet| packet.place().start).collect();
        let mut octets: Vec<_> = packets.iter_mut().map(Packet::octets_mut).collect();
        let mut verdicts = Vec::with_capacity(octets.len());
        self.shim.inbound_batch(now, &mut octets, |number, result| {
            verdicts.push(match result {
                Ok(range) => Verdict::Accept(starts[number] + range.start..starts[number] + range.end),
                Err(_) => Verdict::Drop,
            });
        });
        verdicts
    }

    /// Whether an ICMP error, from this host itself or another, may pass as far as this shard knows. Lowers the MTU in it by the option's
    /// length.
    pub(super) fn admits_icmp(&mut self, now: Duration, packet: &mut [u8], is_own: bool) -> bool {
        let before = packet.to_vec();
        if is_own {
            self.shim.own_icmp(packet);
        } else if self.has_stopped || self.shim.inbound(now, packet).is_err() {
            return false;
        }
        // The MTU in it was lowered, and the kernel will note it.
        if packet != before
            && let Some(error) = IcmpError::parse(packet)
        {
            self.narrow.insert(error.pair.remote.address(), now + NOTED);
        }
        true
    }

    /// Stops carrying packets; returns the open sessions.
    pub(super) fn stop(&mut self) -> Vec<ConnectionState> {
        self.has_stopped = true;
        let pairs: Vec<_> = self.shim.connections_with_peers().map(|(_, session)| session.pair()).collect();
        pairs.iter().filter_map(|pair| self.shim.export(pair)).collect()
    }

    /// Logs what happened to sessions, and counts what was refused.
    pub(super) fn log(&mut self) {
        for event in std::mem::take(&mut self.shim.observer_mut().0) {
            let (local, remote) = event.pair.map(|pair| (display(pair.local), display(pair.remote))).unzip();
            match event.kind {
                EventKind::Opened => {
                    let connection = event.pair.and_then(|pair| self.shim.connection(&pair));
                    let Some(connection) = connection else {
                        tracing::info!(local, remote, "{event}");
                        continue;
                    };
                    let (key, recv_id) = (connection.current_key(), connection.rnext_key().recv_id.0);
                    let (send_id, algorithm) = (key.send_id.0, key.algorithm.name());
                    tracing::info!(local, remote, send_id, recv_id, algorithm, "{event}");
                }
                EventKind::Ended(_) | EventKind::KeySwitched { .. } => {
                    tracing::info!(local, remote, "{event}");
                }
                EventKind::PeerOnOldKey { .. } | EventKind::PeerInsists { .. } | EventKind::Passed { .. } => {
                    tracing::warn!(local, remote, "{event}");
                }
                EventKind::Refused { direction, refusal } => {
                    self.refusals.count(event.peer, direction, &refusal);
                }
                EventKind::HandshakeEnded(_) => tracing::debug!(local, remote, "{event}"),
            }
        }
    }
}

/// How many packets were refused, by the index of their peer and by the reason. Anybody can cause any number of them, so they are logged
/// once a second.
#[derive(Default)]
pub(super) struct Refusals(BTreeMap<(Option<usize>, &'static str), u64>);

impl Refusals {
    pub(super) fn count(&mut self, peer: Option<usize>, direction: Direction, refusal: &Refusal) {
        *self.0.entry((peer, words(direction, refusal))).or_default() += 1;
    }

    /// Adds those of a shard and clears them there.
    pub(super) fn take(&mut self, other: &mut Self) {
        for (key, segments) in std::mem::take(&mut other.0) {
            *self.0.entry(key).or_default() += segments;
        }
    }

    /// Logs them; `name` says which peer has an index.
    pub(super) fn log<N: Display>(&self, name: impl Fn(usize) -> Option<N>) {
        // The most frequent first, one line for each reason, so that many packets of one kind do not hide the others.
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(_, segments)| Reverse(**segments));
        for ((peer, reason), segments) in all.into_iter().take(MOST) {
            let peer = peer.and_then(&name).map(tracing::field::display);
            tracing::warn!(peer, segments, "{reason}");
        }
        if let Some(more) = self.0.len().checked_sub(MOST + 1) {
            tracing::warn!("packets were refused for {} more reasons", more + 1);
        }
    }
}

/// The reason, in the words of `wireseal verify` where it has them.
const fn words(direction: Direction, refusal: &Refusal) -> &'static str {
    match (direction, refusal) {
        (_, Refusal::Verify(VerifyError::BadMac { .. })) => {
            "bad MAC: secret, algorithm or option coverage differs from the peer's, or segments are forged"
        }
        (_, Refusal::Verify(VerifyError::MacLength { .. })) => "bad MAC: its length is not the key's",
        (_, Refusal::Verify(VerifyError::UnknownKeyId(_))) => "unknown KeyID: no key here has it",
        (_, Refusal::Verify(VerifyError::Unsigned)) => "no TCP-AO option: segments are not signed",
        (_, Refusal::Verify(VerifyError::Options(_))) => "malformed option",
        (_, Refusal::Verify(_)) => "segments that do not fit the state of their session",
        (Direction::Inbound, Refusal::NoConnection) => {
            "segments of a session whose handshake the gateway has not seen: the peer has to open it again"
        }
        (Direction::Outbound, Refusal::NoConnection) => {
            "segments of a session whose handshake the gateway has not seen: the program has to open it again"
        }
        (_, Refusal::ConnectionExists) => {
            "SYN for a session that is open: a replay, or the peer has restarted"
        }
        (_, Refusal::NoPeer) => "no peer has this address: the rules and the configuration differ",
        (_, Refusal::NoKey) => "no key is valid now",
        (_, Refusal::TableFull) => "there is no room for another connection (--connections)",
        (_, Refusal::Malformed(_)) => "malformed packets, or fragments",
        (_, Refusal::Checksum) => "wrong checksum",
        (_, Refusal::SourceRouted) => "routing header or Home Address option: TCP would see other addresses",
        (_, Refusal::Icmp) => "ICMP errors about a session, which anybody can forge (--accept-icmp)",
        (_, Refusal::Sign(_)) => "segments of the program that fit no session",
        (_, Refusal::NoRoom { .. }) => "the program's TCP options leave no room for TCP-AO",
        (_, Refusal::AlreadySigned) => {
            "the program signs its segments itself: remove its own TCP-AO or TCP-MD5"
        }
        (_, Refusal::TooLong { .. }) => "the signed packet is too long",
        _ => "refused for another reason",
    }
}
