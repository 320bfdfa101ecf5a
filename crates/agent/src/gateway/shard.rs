//! One thread's shim. The kernel puts the packets between two addresses, in both directions, always into the same thread's queues, so
//! that no connection has packets in two shards.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use tracing::field::{DisplayValue, display};
use wireseal_tcp_ao::shim::{Event, EventKind, HashKey, Observer, PeerSlot, Shim, ShimConfig, ShimSlot};
use wireseal_tcp_ao::{ConnectionState, Endpoint, IcmpError, PeerError};

use super::queues::Packet;
use super::refusals::Refusals;
use super::wire::destination;

/// How long the kernel keeps a path MTU that it has noted (`net.ipv4.route.mtu_expires`), and a little more, because it notes it later.
const NOTED: Duration = Duration::from_secs(601);
/// How often connections are forgotten whose time is over.
const EXPIRY: Duration = Duration::from_secs(60);

/// What becomes of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It goes on, with what is at this place of its buffer.
    Accept(Range<usize>),
    /// What is at this place of its buffer is sent, past the path MTU that the kernel has noted.
    Send(Range<usize>),
    /// It goes nowhere.
    Drop,
}

/// A shim, and what has been noted beside it.
pub(super) struct Shard {
    pub(super) shim: Shim<Vec<PeerSlot>, Vec<ShimSlot>, Events>,
    /// To these the kernel has a path MTU from an ICMP error, lowered by the option, until then.
    narrow: HashMap<IpAddr, Duration>,
    /// Since they were logged last.
    pub(super) refusals: Refusals,
    /// Whether nothing is carried any more.
    pub(super) has_stopped: bool,
    /// For how many peers the shim has slots.
    room: usize,
    /// When connections were last forgotten whose time is over.
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

    /// Makes room for so many peers.
    pub(super) fn make_room(&mut self, peers: usize) -> Result<(), PeerError> {
        if peers > self.room {
            let room = peers.next_power_of_two();
            self.shim.move_peers((0..room).map(|_| PeerSlot::EMPTY).collect())?;
            self.room = room;
        }
        Ok(())
    }

    /// Forgets connections whose time is over, once a minute: it looks at the whole table.
    pub(super) fn expire(&mut self, now: Duration) {
        if now.saturating_sub(self.expired) >= EXPIRY {
            self.shim.expire(now);
            self.expired = now;
        }
    }

    /// What becomes of packets from programs.
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

    /// What becomes of packets for programs.
    pub(super) fn inbound(&mut self, now: Duration, packets: &mut [Packet]) -> Vec<Verdict> {
        if self.has_stopped {
            return vec![Verdict::Drop; packets.len()];
        }
        let starts: Vec<_> = packets.iter().map(Packet::start).collect();
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

    /// An ICMP error, from this host itself or from another. Returns whether it may pass, as far as this shard knows.
    pub(super) fn admits_icmp(&mut self, now: Duration, packet: &mut [u8], is_own: bool) -> bool {
        let before = packet.to_vec();
        if is_own {
            self.shim.own_icmp(packet);
        } else if self.has_stopped || self.shim.inbound(now, packet).is_err() {
            return false;
        }
        // The room for the option was taken off a path MTU, which the kernel now notes.
        if packet != before
            && let Some(error) = IcmpError::parse(packet)
        {
            self.narrow.insert(error.pair.remote.address(), now + NOTED);
        }
        true
    }

    /// Carries nothing from now on; returns the sessions that are open.
    pub(super) fn stop(&mut self) -> Vec<ConnectionState> {
        self.has_stopped = true;
        let pairs: Vec<_> = self.shim.connections_with_peers().map(|(_, session)| session.pair()).collect();
        pairs.iter().filter_map(|pair| self.shim.export(pair)).collect()
    }

    /// Logs sessions, and counts what was refused.
    pub(super) fn log(&mut self) {
        for event in std::mem::take(&mut self.shim.observer_mut().0) {
            let (local, remote) = ends(&event);
            match event.kind {
                EventKind::Opened => self.log_opened(&event),
                EventKind::Ended(_) | EventKind::KeySwitched { .. } => {
                    tracing::info!(local, remote, "{event}");
                }
                EventKind::PeerOnOldKey { .. } | EventKind::Passed { .. } => {
                    tracing::warn!(local, remote, "{event}");
                }
                EventKind::Refused { direction, refusal } => {
                    self.refusals.count(event.peer, direction, &refusal);
                }
                EventKind::HandshakeEnded(_) => tracing::debug!(local, remote, "{event}"),
            }
        }
    }

    fn log_opened(&self, event: &Event) {
        let connection = event.pair.and_then(|pair| self.shim.connection(&pair));
        let (local, remote) = ends(event);
        let Some(connection) = connection else { return tracing::info!(local, remote, "{event}") };
        let (key, recv_id) = (connection.current_key(), connection.rnext_key().recv_id.0);
        tracing::info!(
            local,
            remote,
            send_id = key.send_id.0,
            recv_id,
            algorithm = key.algorithm.name(),
            "{event}"
        );
    }
}

/// The two ends, as fields of the log.
fn ends(event: &Event) -> (Option<DisplayValue<Endpoint>>, Option<DisplayValue<Endpoint>>) {
    event.pair.map(|pair| (display(pair.local), display(pair.remote))).unzip()
}
