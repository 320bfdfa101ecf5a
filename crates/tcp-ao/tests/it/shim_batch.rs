//! A batch of packets does what the packets would do one by one: the same octets, refusals, events, counters and connections.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::shim_support::{
    CLIENT_ISN, Link, Log, OPTION_ROOM, Packet, Refusal, SERVER_ISN, TestShim, with_ports,
};
use crate::support::*;

/// More than a shim of the tests has room for, so that connections are evicted.
const PORTS: u16 = 11;

type Outcome = Result<Vec<u8>, Refusal>;

/// How packets go through a shim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Singly,
    Together,
}

fn outbound(how: How, shim: &mut TestShim<Log>, now: Duration, packets: &[Vec<u8>]) -> Vec<Outcome> {
    let with_room = |packet: &Vec<u8>| ([&[0xa5; OPTION_ROOM], &packet[..]].concat(), OPTION_ROOM);
    let mut buffers: Vec<_> = packets.iter().map(with_room).collect();
    let mut ranges = Vec::new();
    match how {
        How::Singly => {
            for (buffer, room) in &mut buffers {
                ranges.push(shim.outbound(now, buffer, *room));
            }
        }
        How::Together => shim.outbound_batch(now, &mut buffers, |number, range| {
            assert_eq!(number, ranges.len());
            ranges.push(range);
        }),
    }
    buffers.iter().zip(ranges).map(|((buffer, _), range)| Ok(buffer[range?].to_vec())).collect()
}

fn inbound(how: How, shim: &mut TestShim<Log>, now: Duration, packets: &[Vec<u8>]) -> Vec<Outcome> {
    let mut buffers = packets.to_vec();
    let mut ranges = Vec::new();
    match how {
        How::Singly => {
            for buffer in &mut buffers {
                ranges.push(shim.inbound(now, buffer));
            }
        }
        How::Together => shim.inbound_batch(now, &mut buffers, |number, range| {
            assert_eq!(number, ranges.len());
            ranges.push(range);
        }),
    }
    buffers.iter().zip(ranges).map(|(buffer, range)| Ok(buffer[range?].to_vec())).collect()
}

/// What an end sends, and what happens to it on the way.
#[derive(Clone, Copy, Debug)]
struct Action {
    port: u16,
    kind: Kind,
    length: u16,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The next segment of the handshake, or data.
    Next,
    Repeated,
    Fin,
    Reset,
    Syn,
    Garbage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    Twice,
    Lost,
    Altered,
}

fn action() -> impl Strategy<Value = Action> {
    let kind = prop_oneof![
        12 => Just(Kind::Next),
        2 => Just(Kind::Repeated),
        1 => Just(Kind::Fin),
        1 => Just(Kind::Reset),
        1 => Just(Kind::Syn),
        1 => Just(Kind::Garbage),
    ];
    let fate = prop_oneof![
        12 => Just(Fate::Arrives),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Altered),
    ];
    (0..PORTS, kind, 0_u16..1500, fate).prop_map(|(port, kind, length, fate)| Action {
        port,
        kind,
        length,
        fate,
    })
}

/// Two hosts; their stacks are reduced to numbers for each port.
struct World {
    how: How,
    link: Link<Log>,
    /// The next sequence numbers of the client and the server, by port; 0 before the SYN or SYN-ACK.
    next: [[u32; PORTS as usize]; 2],
}

impl World {
    fn new(how: How, pair: SocketPair) -> Self {
        let link = Link::with_ids(pair, &[(1, 2), (3, 4)]).observed::<Log>();
        Self { how, link, next: [[0; PORTS as usize]; 2] }
    }

    /// One end's packets of a round.
    fn packets(&mut self, end: usize, actions: &[Action]) -> Vec<Vec<u8>> {
        let isns = [CLIENT_ISN, SERVER_ISN];
        let packets = actions.iter().map(|action| {
            let port = usize::from(action.port);
            let pair = with_ports(self.link.pair, 49152 + action.port, 179);
            let pair = if end == 0 { pair } else { pair.reversed() };
            let isn = isns[end].wrapping_add(u32::from(action.port) << 12);
            let other = self.next[1 - end][port];
            let next = &mut self.next[end][port];
            if action.kind == Kind::Garbage {
                return vec![action.length as u8; usize::from(action.length)];
            }
            let is_syn = action.kind == Kind::Syn || *next == 0;
            let (flags, sequence) = match (action.kind, end) {
                (Kind::Reset, _) => (RST | ACK, *next),
                (_, 0) if is_syn => (SYN, isn),
                (_, _) if is_syn => (SYN | ACK, isn),
                (Kind::Fin, _) => (FIN | ACK, *next),
                _ => (ACK, *next),
            };
            let length = if is_syn { 0 } else { action.length };
            let packet = Packet::new(pair, flags, sequence, if flags == SYN { 0 } else { other })
                .options(if is_syn { &[2, 4, 5, 0xb4] } else { &TIMESTAMPS })
                .payload(&vec![action.port as u8; length.into()]);
            match action.kind {
                Kind::Repeated | Kind::Reset => {}
                _ if is_syn => *next = isn.wrapping_add(1),
                _ => *next = sequence.wrapping_add(length.into()),
            }
            packet.build()
        });
        packets.collect()
    }

    /// One end sends, the other receives; returns everything observable.
    fn carry(&mut self, end: usize, actions: &[Action]) -> (Vec<Outcome>, Vec<Outcome>) {
        let packets = self.packets(end, actions);
        let Self { how, link, .. } = self;
        let (from, to) = match end {
            0 => (&mut link.client, &mut link.server),
            _ => (&mut link.server, &mut link.client),
        };
        let sent = outbound(*how, from, link.now, &packets);
        let mut arriving = Vec::new();
        for (action, packet) in actions.iter().zip(&sent) {
            let Ok(packet) = packet else { continue };
            match action.fate {
                Fate::Arrives => arriving.push(packet.clone()),
                Fate::Twice => arriving.extend([packet.clone(), packet.clone()]),
                Fate::Lost => {}
                Fate::Altered => {
                    let mut packet = packet.clone();
                    *packet.last_mut().unwrap() ^= 0x55;
                    arriving.push(packet);
                }
            }
        }
        let received = inbound(*how, to, link.now, &arriving);
        link.now += Duration::from_secs(1);
        (sent, received)
    }

    fn seen(&mut self) -> String {
        let Link { client, server, .. } = &mut self.link;
        let seen = [client, server].map(|shim| {
            let events = shim.observer_mut().take();
            let connections: Vec<_> =
                shim.connections().map(|connection| format!("{connection:?}")).collect();
            format!("{events:?} {:?} {:?} {connections:?}", shim.counters(), shim.peer_counters(0))
        });
        seen.concat()
    }
}

proptest! {
    #[test]
    fn a_batch_is_its_packets_one_by_one(
        is_ipv6: bool,
        rounds in vec((vec(action(), 0..40), any::<u8>()), 1..30),
    ) {
        let pair = if is_ipv6 { ipv6_pair() } else { ipv4_pair() };
        let mut worlds = [How::Singly, How::Together].map(|how| World::new(how, pair));
        for (round, (actions, roll)) in rounds.iter().enumerate() {
            let [singly, together] = worlds.each_mut().map(|world| world.carry(round % 2, actions));
            prop_assert_eq!(singly, together);
            let [singly, together] = worlds.each_mut().map(World::seen);
            prop_assert_eq!(singly, together);
            // Sometimes keys are preferred or removed.
            let ids: &[(u8, u8)] = match roll % 8 {
                0 => &[(3, 4), (1, 2)],
                1 => &[(1, 2), (3, 4)],
                2 => &[(3, 4)],
                _ => continue,
            };
            for world in &mut worlds {
                world.link.client.set_mkts(0, mkts(ids)).unwrap();
                world.link.server.set_mkts(0, mirrored(ids)).unwrap();
            }
        }
    }
}

/// Without this test, the comparison might see nothing but refusals.
#[test]
fn established_connections_carry_data_in_batches() {
    let mut world = World::new(How::Together, ipv4_pair());
    let each = |length| -> Vec<Action> {
        let next = |port| Action { port, kind: Kind::Next, length, fate: Fate::Arrives };
        (0..8).map(next).collect()
    };
    for (round, actions) in [each(0), each(0), each(0), each(100), each(1000)].iter().enumerate() {
        let (sent, received) = world.carry(round % 2, actions);
        assert!(sent.iter().chain(&received).all(Result::is_ok), "{round}: {received:?}");
        assert_eq!(received.len(), 8);
    }
    assert_eq!(world.link.server.connections().filter(|connection| connection.is_established()).count(), 8);
}

#[test]
fn packets_without_a_segment_are_refused_in_a_batch_as_alone() {
    let mut link = Link::connected(ipv4_pair());
    let signed = link.client_sends(&link.client_data(b"data")).unwrap();
    // Long enough that the batch looks ahead.
    let udp = ipv4_packet([192, 0, 2, 1], [192, 0, 2, 2], 17, &[0; 3000]);
    let cut = ipv4_packet([192, 0, 2, 1], [192, 0, 2, 2], 6, &[0; 19]);
    let packets = [signed, vec![], udp.clone(), cut, udp.clone()];
    let mut single = Link::connected(ipv4_pair()).server.with_observer(Log::default());
    let mut server = link.server.with_observer(Log::default());
    let together = inbound(How::Together, &mut server, link.now, &packets);
    assert_eq!(together, inbound(How::Singly, &mut single, link.now, &packets));
    assert!(together[0].is_ok());
    assert_eq!(together[1], Err(Refusal::Malformed(ParseError::IpTooShort)));
    assert_eq!([&together[2], &together[4]], [&Ok(udp.clone()), &Ok(udp)]);
    assert_eq!(together[3], Err(Refusal::Malformed(ParseError::TcpTooShort)));
}

/// 2^31 octets apart: the second is behind what came before the batch, and ahead once the first has passed.
#[test]
fn a_batch_over_2_31_octets_uses_each_segments_own_sne() {
    let mut link = Link::connected(ipv4_pair());
    let numbers = [0x7fff_f000, 0xffff_e000_u32].map(|ahead| (CLIENT_ISN + 1).wrapping_add(ahead));
    // Long enough that the batch looks ahead.
    let packets = numbers.map(|number| {
        let packet = Packet::new(link.pair, ACK, number, SERVER_ISN.wrapping_add(1)).payload(&[1; 1000]);
        link.client_sends(&packet).unwrap()
    });
    let mut server = link.server.with_observer(Log::default());
    let verdicts = inbound(How::Together, &mut server, link.now, &packets);
    assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
    let connection = server.connection(&link.pair.reversed()).unwrap();
    assert_eq!(connection.highest_received(), (Sne(1), SeqNum(numbers[1])));
    assert_eq!(connection.counters().good, 4);
}
