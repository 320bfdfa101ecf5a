//! Which connections get and keep a place in a full table: the peers' shares, and how many slots are examined before a SYN is refused.

use proptest::prelude::*;

use crate::shim_support::*;
use crate::support::*;

const START: Duration = Duration::from_secs(1000);

/// From a port of the peer with this number to the server.
fn from(number: usize, port: u16) -> SocketPair {
    with_ports(pair(&format!("192.0.2.{}", 11 + number), "192.0.2.2"), port, 179)
}

/// From the server to the peer.
fn to(number: usize, port: u16) -> SocketPair {
    with_ports(from(number, 0).reversed(), port, 179)
}

fn server(peers: usize, places: usize, limits: TimeLimits) -> TestShim {
    let peers = (0..peers).map(|number| peer(from(number, 0).reversed(), mirrored(&[(1, 2)]))).collect();
    Shim::new(ShimConfig { limits, ..ShimConfig::new(1500) }, hash_key(), peers, slots(places)).unwrap()
}

/// A peer's SYN as it is on the link, perhaps recorded.
fn syn(number: usize, port: u16) -> Vec<u8> {
    let mut client = shim(from(number, port), mkts(&[(1, 2)]), 1);
    outbound(&mut client, START, &Packet::new(from(number, port), SYN, CLIENT_ISN, 0).build()).unwrap()
}

fn has(server: &TestShim, pair: SocketPair) -> bool {
    server.connection(&pair).is_some()
}

#[test]
fn replays_take_no_place_of_a_handshake_of_20_milliseconds() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let replays: Vec<_> = (1..50)
        .map(|port| {
            let pair = with_ports(ipv4_pair(), port, 179);
            signed_syn(pair, mkts(&[(1, 2)]), 7)
        })
        .collect();
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    let refused = replays.iter().filter(|replay| link.server_gets(replay).is_err()).count();
    assert_eq!(refused, 49 - 7);
    link.now += Duration::from_millis(20);
    link.connect(ipv4_pair());
    // What this end opens has its own share.
    link.server.forget(&ipv4_pair().reversed());
    let _ = replays.iter().map(|replay| link.server_gets(replay)).collect::<Vec<_>>();
    let opened = with_ports(ipv4_pair().reversed(), 5000, 179);
    link.server_sends(&Packet::new(opened, SYN, 1, 0)).unwrap();
    let _ = replays.iter().map(|replay| link.server_gets(replay)).collect::<Vec<_>>();
    assert!(has(&link.server, opened));
}

/// A server whose open connections leave one place, for SYNs of the peers 0 to 2.
fn one_place_left() -> TestShim {
    let mut server = server(4, 4, TimeLimits::DEFAULT);
    for port in 1..4 {
        let (active, passive) = (mkts(&[(1, 2)]), mirrored(&[(1, 2)]));
        let ends = Ends::<MKTS_PER_PEER>::connect(from(3, port), (1000, 5000), &active, &passive);
        server.adopt(START, ends.passive).unwrap();
    }
    server
}

#[test]
fn two_peers_recorded_syns_keep_a_third_from_its_place_for_seconds_only() {
    let mut server = one_place_left();
    let [first, second, genuine] = [0, 1, 2].map(|number| syn(number, 1));
    let mut admitted = Vec::new();
    for after in (0..70_000).map(Duration::from_millis) {
        for replay in [&first, &second] {
            let _ = inbound(&mut server, START + after, replay);
        }
        // The times at which a stack sends and repeats its SYN.
        if [1, 2, 4, 8, 16, 32, 64].contains(&after.as_secs()) && after.subsec_millis() == 500 {
            let is_repeated = has(&server, from(2, 1).reversed());
            assert_eq!(is_repeated, !admitted.is_empty() && after < seconds(17), "{after:?}");
            if inbound(&mut server, START + after, &genuine).is_ok() && !is_repeated {
                admitted.push(after.as_secs());
            }
        }
    }
    assert_eq!(admitted, [4, 32, 64]);
}

#[test]
fn a_peers_turn_lasts_two_seconds_and_comes_again_after_fifteen() {
    let mut server = one_place_left();
    let mut is_admitted =
        |after, number| inbound(&mut server, START + Duration::from_millis(after), &syn(number, 1)).is_ok();
    assert!(is_admitted(0, 0));
    assert!(!is_admitted(1_999, 1));
    assert!(is_admitted(2_000, 1));
    // It has just lost its place, so it waits like the others.
    assert!(!is_admitted(16_999, 0));
    assert!(is_admitted(17_000, 0));
    assert!(!is_admitted(18_999, 2));
    assert!(is_admitted(19_000, 2));
}

/// A stack that has a half-open connection acknowledges a SYN with another ISN.
#[test]
fn answers_to_replays_do_not_keep_a_handshake_in_its_place() {
    let mut server = one_place_left();
    let back = from(0, 1).reversed();
    inbound(&mut server, START, &syn(0, 1)).unwrap();
    outbound(&mut server, START, &Packet::new(back, SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).build()).unwrap();
    let answer = Packet::new(back, ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 1).build();
    outbound(&mut server, START + seconds(1), &answer).unwrap();
    inbound(&mut server, START + seconds(2), &syn(1, 1)).unwrap();
}

#[test]
fn a_connection_that_is_adopted_takes_the_place_of_any_handshake() {
    let back = ipv4_pair().reversed();
    let mut server = shim(back, mirrored(&[(1, 2)]), 1);
    let opened = with_ports(back, 5000, 179);
    outbound(&mut server, START, &Packet::new(opened, SYN, 1, 0).build()).unwrap();
    let other = with_ports(back, 5001, 179);
    let refused = outbound(&mut server, START, &Packet::new(other, SYN, 1, 0).build());
    assert_eq!(refused, Err(Refusal::TableFull));
    server.adopt(START, Ends::with_ids(&[(1, 2)]).passive).unwrap();
    assert_eq!(server.connections().map(Connection::pair).collect::<Vec<_>>(), [back]);
}

/// Connections at the head of the queue that made progress, and behind them one that has been silent for hours.
fn silent_behind(others: u16) -> Link {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let count = usize::from(others) + 1;
    (link.client, link.server) =
        (shim(ipv4_pair(), mkts(&[(1, 2)]), count), shim(ipv4_pair().reversed(), mirrored(&[(1, 2)]), count));
    for port in 0..=others {
        link.connect(with_ports(ipv4_pair(), 1000 + port, 179));
    }
    link.now += seconds(3600);
    for port in 0..others {
        let back = with_ports(ipv4_pair(), 1000 + port, 179).reversed();
        link.server_sends(&Packet::new(back, ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 1)).unwrap();
    }
    link.now += seconds(2 * 3600);
    link
}

#[test]
fn eight_connections_are_looked_at_for_one_that_has_expired() {
    let recorded = {
        let mut earlier = shim(ipv4_pair(), mkts(&[(1, 2)]), 1);
        let new = Packet::new(with_ports(ipv4_pair(), 5000, 179), SYN, CLIENT_ISN, 0);
        outbound(&mut earlier, START, &new.build()).unwrap()
    };
    let mut link = silent_behind(7);
    assert!(link.server_gets(&recorded).is_ok(), "the eighth has expired");
    // A SYN never walks the whole table. The next one finds those further back.
    let mut link = silent_behind(8);
    assert_eq!(link.server_gets(&recorded), Err(Refusal::TableFull));
    assert!(link.server_gets(&recorded).is_ok());
}

const PEERS: usize = 3;

const PORTS: u16 = 6;

#[derive(Clone, Debug)]
enum Step {
    Opened { here: bool, number: usize, port: u16 },
    Forget { here: bool, number: usize, port: u16 },
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let which = || (any::<bool>(), 0..PEERS, 0..PORTS);
    prop_oneof![
        8 => which().prop_map(|(here, number, port)| Step::Opened { here, number, port }),
        2 => which().prop_map(|(here, number, port)| Step::Forget { here, number, port }),
        2 => (0u64..8).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// A handshake of the model: its share, its port, and when it was added.
type Known = ((bool, usize), u16, Duration);

/// Shares, recounted at each step.
#[derive(Default)]
struct Model {
    /// The oldest first.
    known: Vec<Known>,
    /// When the size of a share changed last.
    changed: std::collections::HashMap<(bool, usize), usize>,
    /// When a share next has its turn.
    next_turn: std::collections::HashMap<(bool, usize), Duration>,
    step: usize,
}

impl Model {
    fn count(&self, share: (bool, usize)) -> usize {
        self.known.iter().filter(|known| known.0 == share).count()
    }

    fn change(&mut self, share: (bool, usize)) {
        self.step += 1;
        self.changed.insert(share, self.step);
    }

    fn remove(&mut self, (share, port): ((bool, usize), u16)) {
        let before = self.known.len();
        self.known.retain(|known| (known.0, known.1) != (share, port));
        if self.known.len() < before {
            self.change(share);
        }
    }

    /// Which handshake is evicted for another of this share.
    fn in_the_way(&self, share: (bool, usize), now: Duration) -> Option<Known> {
        let has_lasted = |known: &&Known, limit| now - known.2 >= seconds(limit);
        let own = self.count(share);
        let has_turn = own == 0 && self.next_turn.get(&share).is_none_or(|next| *next <= now);
        let unanswered =
            [(false, if has_turn { 2 } else { 15 }), (true, 15)].into_iter().find_map(|(here, limit)| {
                let oldest = self.known.iter().find(|known| known.0.0 == here);
                oldest.filter(|known| has_lasted(known, limit) && self.count(known.0) > own)
            });
        let largest =
            self.changed.keys().max_by_key(|share| (self.count(**share), !share.0, self.changed[*share]));
        let of = |share: (bool, usize)| self.known.iter().find(move |known| known.0 == share);
        let of_largest = largest.filter(|share| self.count(**share) >= own + 2).and_then(|share| of(*share));
        unanswered.or(of_largest).or_else(|| of(share).filter(|known| has_lasted(known, 15))).copied()
    }
}

proptest! {
    #[test]
    fn shares_are_as_a_plain_count_has_them(places in 1usize..12, steps in proptest::collection::vec(step(), 0..150)) {
        let mut server = server(PEERS, places, TimeLimits { half_open: seconds(1_000_000), ..TimeLimits::DEFAULT });
        let mut model = Model::default();
        let mut now = START;
        // No more peers than places; otherwise several would have one share.
        let peers = PEERS.min(places);
        let pair = |here: bool, number, port| if here { to(number, 7000 + port) } else { from(number, port).reversed() };
        for step in steps {
            match step {
                Step::Opened { here, number, port } => {
                    let number = number % peers;
                    let share = (here, number);
                    let admitted = match here {
                        true => outbound(&mut server, now, &Packet::new(pair(true, number, port), SYN, 1, 0).build()),
                        false => inbound(&mut server, now, &syn(number, port)),
                    };
                    let is_known = model.known.iter().any(|known| (known.0, known.1) == (share, port));
                    if !is_known
                        && model.known.len() == places
                        && let Some(evicted) = model.in_the_way(share, now)
                    {
                        model.remove((evicted.0, evicted.1));
                        model.next_turn.insert(evicted.0, now + seconds(15));
                    }
                    let is_room = is_known || model.known.len() < places;
                    if !is_known && is_room {
                        model.known.push((share, port, now));
                        model.change(share);
                    }
                    prop_assert_eq!(admitted.is_ok(), is_room, "{:?}", admitted);
                }
                Step::Forget { here, number, port } => {
                    let number = number % peers;
                    model.remove(((here, number), port));
                    server.forget(&pair(here, number, port));
                }
                Step::Wait { seconds } => now += Duration::from_secs(seconds),
            }
            prop_assert_eq!(server.connections().count(), model.known.len());
            for ((here, number), port, _) in &model.known {
                prop_assert!(has(&server, pair(*here, *number, *port)));
            }
        }
    }
}

/// Any operations in any order: no connection is lost or doubled, and nothing loops or panics.
#[test]
fn the_links_survive_anything() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    for round in 0..60 {
        let slots = 1 + round % 9;
        let mut server = shim(ipv4_pair().reversed(), mirrored(&[(1, 2)]), slots);
        let mut client = shim(ipv4_pair(), mkts(&[(1, 2)]), 64);
        let mut now = seconds(1000);
        let mut recorded: Vec<Vec<u8>> = Vec::new();
        for _ in 0..1500 {
            let there = with_ports(ipv4_pair(), 1 + random(12) as u16, 179);
            let back = there.reversed();
            let (isn, mine) = (100 + random(3) as u32 * 1000, 0x9000_0000);
            let flags = [SYN, SYN | ACK, ACK, FIN | ACK, RST | ACK, RST][random(6) as usize];
            match random(12) {
                0..=3 => {
                    let sequence = if flags == SYN { isn } else { isn + 1 };
                    let sent = Packet::new(there, flags, sequence, mine + 1 + random(3) as u32);
                    if let Ok(sent) = outbound(&mut client, now, &sent.build()) {
                        recorded.push(sent.clone());
                        let _ = inbound(&mut server, now, &sent);
                    }
                }
                4..=6 => {
                    let sequence = if flags == SYN || flags == SYN | ACK { mine } else { mine + 1 };
                    let sent = Packet::new(back, flags, sequence, isn + 1);
                    if let Ok(sent) = outbound(&mut server, now, &sent.build()) {
                        let _ = inbound(&mut client, now, &sent);
                    }
                }
                7 | 8 if !recorded.is_empty() => {
                    let which = random(recorded.len() as u64) as usize;
                    let _ = inbound(&mut server, now, &recorded[which].clone());
                }
                9 => now += seconds([1, 16, 76, 241, 11_000][random(5) as usize]),
                10 => match random(4) {
                    0 => server.forget(&back),
                    1 => client.forget(&there),
                    2 => server.expire(now),
                    _ => {
                        if let Some(state) = server.export(&back) {
                            // The second time it replaces the first.
                            for _ in 0..2 {
                                let again = Connection::import(&state, &mirrored(&[(1, 2)])).unwrap();
                                server.adopt(now, again).unwrap();
                            }
                        }
                    }
                },
                _ => server.set_mkts(0, mirrored(&[(1, 2)])).unwrap(),
            }
            let pairs: Vec<_> = server.connections().map(Connection::pair).collect();
            assert!(pairs.len() <= slots);
            for (index, pair) in pairs.iter().enumerate() {
                assert_eq!(server.connection(pair).unwrap().pair(), *pair);
                assert!(!pairs[..index].contains(pair));
            }
        }
        server.expire(now + seconds(100_000));
        assert_eq!(server.connections().count(), 0);
        for port in 0..slots as u16 {
            let syn = Packet::new(with_ports(ipv4_pair(), 1000 + port, 179).reversed(), SYN, 1, 0);
            outbound(&mut server, now, &syn.build()).unwrap();
        }
        assert_eq!(server.connections().count(), slots);
    }
}
