//! A batch does what its segments would do one by one: the same verdicts, octets, counters and states.

use crate::support::*;
use proptest::prelude::*;

/// How many connections there are; the last one is in its handshake.
const CONNECTIONS: usize = 4;

fn set(algorithm: TcpAoAlgorithm, ids: &[(u8, u8)]) -> MktSet<3> {
    MktSet::from_mkts(ids.iter().map(|(send, recv)| mkt(*send, *recv, algorithm))).unwrap()
}

/// The same connections every time: every kind of MAC, over IPv4 and IPv6, shortly before their numbers wrap.
struct World {
    ours: Vec<Connection<3>>,
    theirs: Vec<Connection<3>>,
    /// The peers' next sequence numbers.
    next: [u32; CONNECTIONS],
}

impl World {
    fn new() -> Self {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let algorithms =
            [TcpAoAlgorithm::Aes128Cmac, TcpAoAlgorithm::HmacSha1, TcpAoAlgorithm::LinuxHmacSha256];
        let isns = [(5, 0xffff_ff00), (0xffff_fe00, 0x7fff_ff80), (77, 0x1000_0000)];
        for (algorithm, isns) in algorithms.into_iter().zip(isns) {
            let pair = if algorithm == TcpAoAlgorithm::HmacSha1 { ipv6_pair() } else { ipv4_pair() };
            let ends = Ends::connect(
                pair,
                isns,
                &set(algorithm, &[(1, 101), (2, 102)]),
                &set(algorithm, &[(101, 1), (102, 2)]),
            );
            ours.push(ends.active);
            theirs.push(ends.passive);
        }
        let mkts = set(TcpAoAlgorithm::Aes128Cmac, &[(1, 1)]);
        let mut opening = Connection::active(ipv4_pair(), Isn(9), &mkts).unwrap();
        let syn = Parts::new(ipv4_pair(), SYN, 9, 0).signed(&mut opening);
        theirs.push(Connection::passive(&mkts.verify_syn(view(ipv4_pair(), &syn)).unwrap()));
        ours.push(opening);
        Self { ours, theirs, next: [0xffff_ff01, 0x7fff_ff81, 0x1000_0001, 0x2000_0000] }
    }

    /// What the peer of a connection sends for this action.
    fn arriving(&mut self, index: usize, action: Action) -> Vec<u8> {
        let peer = &mut self.theirs[index];
        let next = &mut self.next[index];
        // In the handshake the SYN-ACK must be signed before anything else.
        let is_syn_ack = peer.local_isn().is_none();
        let flags = if is_syn_ack { SYN | ACK } else { ACK };
        let length = if is_syn_ack { 0 } else { usize::from(action.length) };
        let parts = Parts::new(peer.pair(), flags, *next, 6);
        let payload = vec![action.length as u8; length];
        let mut tcp = parts.payload(&payload).signed(peer);
        match action.kind {
            Kind::Good => *next = next.wrapping_add(length as u32 + u32::from(is_syn_ack)),
            Kind::Roll => {
                let recv_id = peer.keys().map(|key| key.recv_id).find(|id| *id != peer.rnext_key().recv_id);
                peer.set_rnext_key(recv_id.unwrap_or(peer.rnext_key().recv_id)).unwrap();
            }
            Kind::Altered => *tcp.last_mut().unwrap() ^= 1,
            Kind::OtherKey => tcp[22] = 77,
            Kind::Unsigned => tcp = Parts::new(peer.pair(), ACK, *next, 6).unsigned(),
            Kind::Syn => tcp[13] = SYN,
            // A segment of another connection, or of none.
            Kind::Stray => {}
        }
        tcp
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Good,
    Roll,
    Altered,
    OtherKey,
    Unsigned,
    Syn,
    Stray,
}

#[derive(Clone, Copy, Debug)]
struct Action {
    connection: usize,
    kind: Kind,
    length: u16,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let kind = prop_oneof![
        8 => Just(Kind::Good),
        2 => Just(Kind::Roll),
        1 => Just(Kind::Altered),
        1 => Just(Kind::OtherKey),
        1 => Just(Kind::Unsigned),
        1 => Just(Kind::Syn),
        1 => Just(Kind::Stray),
    ];
    let action = (0..CONNECTIONS, kind, 1_u16..300).prop_map(|(connection, kind, length)| Action {
        connection,
        kind,
        length,
    });
    prop::collection::vec(action, 0..50)
}

/// Everything observable about connections.
fn seen(connections: &[Connection<3>]) -> String {
    let seen = connections.iter().map(|connection| {
        format!("{connection:?} {:?} {:?}", connection.current_key(), connection.rnext_key())
    });
    seen.collect::<Vec<_>>().join("\n")
}

proptest! {
    #[test]
    fn verifying(actions in actions()) {
        let (mut batch, mut single) = (World::new(), World::new());
        let sent: Vec<_> = actions
            .iter()
            .map(|action| {
                let octets = batch.arriving(action.connection, *action);
                prop_assert_eq!(&octets, &single.arriving(action.connection, *action));
                let to = match action.kind {
                    Kind::Stray => (action.connection + usize::from(action.length)) % (CONNECTIONS + 2),
                    _ => action.connection,
                };
                Ok((action.connection, to, octets))
            })
            .collect::<Result<_, TestCaseError>>()?;
        let segments: Vec<_> = sent
            .iter()
            .map(|(from, to, octets)| (*to, view(batch.theirs[*from].pair(), octets)))
            .collect();
        let mut verdicts = Vec::new();
        verify_batch(&mut batch.ours, &segments, |index, verdict| {
            assert_eq!(index, verdicts.len());
            verdicts.push(format!("{verdict:?}"));
        });
        let expected: Vec<_> = segments
            .iter()
            .map(|(to, segment)| match single.ours.get_mut(*to) {
                Some(connection) => format!("{:?}", connection.verify(segment)),
                None => format!("{:?}", Err::<(), _>(VerifyError::OtherConnection)),
            })
            .collect();
        prop_assert_eq!(verdicts, expected);
        prop_assert_eq!(seen(&batch.ours), seen(&single.ours));
    }

    #[test]
    fn signing(actions in actions()) {
        let (mut batch, mut single) = (World::new(), World::new());
        let mut sequences = [6, 0xffff_fe01, 78, 9];
        let mut sent: Vec<_> = actions
            .iter()
            .map(|Action { connection, kind, length }| {
                let index = *connection;
                let mac_length = if matches!(kind, Kind::OtherKey) { 8 } else { 12 };
                let flags = if matches!(kind, Kind::Syn) { SYN } else { ACK };
                let payload = vec![*length as u8; usize::from(*length)];
                let parts = Parts::new(batch.ours[index].pair(), flags, sequences[index], 5).payload(&payload);
                sequences[index] = sequences[index].wrapping_add(u32::from(*length));
                let mut tcp = parts.with_ao(mac_length);
                if matches!(kind, Kind::Unsigned) {
                    tcp.truncate(usize::from(*length % 30));
                }
                if matches!(kind, Kind::Altered) {
                    tcp[1] ^= 1;
                }
                let to = if matches!(kind, Kind::Stray) { CONNECTIONS } else { index };
                (to, tcp)
            })
            .collect();
        let mut one_by_one = sent.clone();
        let mut segments: Vec<_> = sent.iter_mut().map(|(to, tcp)| (*to, &mut tcp[..])).collect();
        let mut outcomes = Vec::new();
        sign_batch(&mut batch.ours, &mut segments, |index, outcome| {
            assert_eq!(index, outcomes.len());
            outcomes.push(outcome);
        });
        let expected: Vec<_> = one_by_one
            .iter_mut()
            .map(|(to, tcp)| match single.ours.get_mut(*to) {
                Some(connection) => connection.sign(tcp),
                None => Err(SignError::OtherConnection),
            })
            .collect();
        prop_assert_eq!(outcomes, expected);
        prop_assert_eq!(sent, one_by_one);
        prop_assert_eq!(seen(&batch.ours), seen(&single.ours));
    }
}

#[test]
fn a_sequence_number_that_changes_its_turn_in_mid_batch_changes_it_for_the_batch() {
    let world = || {
        Ends::<3>::connect(
            ipv4_pair(),
            (0xc000_0000, 5),
            &set(TcpAoAlgorithm::HmacSha1, &[(1, 1)]),
            &set(TcpAoAlgorithm::HmacSha1, &[(1, 1)]),
        )
    };
    let (mut batch, mut single) = (world(), world());
    // 2^31 octets away: behind what was sent before, and ahead once the first of them has passed. Four are enough to go side by side.
    let sequences = [0xc000_0064, 0x4000_0032, 0x4000_0032, 0x4000_0032];
    let mut sent = sequences.map(|sequence| Parts::new(ipv4_pair(), ACK, sequence, 6).with_ao(12));
    let mut one_by_one = sent.clone();
    let mut segments: Vec<_> = sent.iter_mut().map(|tcp| (0, &mut tcp[..])).collect();
    sign_batch(&mut [&mut batch.active], &mut segments, |_, outcome| outcome.unwrap());
    for tcp in &mut one_by_one {
        single.active.sign(tcp).unwrap();
    }
    assert_eq!(sent, one_by_one);
    let mut alone = Parts::new(ipv4_pair(), ACK, sequences[1], 6).with_ao(12);
    world().active.sign(&mut alone).unwrap();
    assert_ne!(sent[1], alone, "the first has no influence on the second, and this test shows nothing");
}

/// With more connections than the nearest cache holds, what the next ones need is fetched ahead.
#[test]
fn a_batch_over_many_connections_signs_and_verifies_as_one_by_one() {
    let ends = || {
        let ids = |ids: &[(u8, u8)]| set(TcpAoAlgorithm::Aes128Cmac, ids);
        Ends::connect(ipv4_pair(), (5, 6), &ids(&[(1, 101)]), &ids(&[(101, 1)]))
    };
    let (mut active, mut passive): (Vec<_>, Vec<_>) =
        (0..70).map(|_| ends()).map(|ends| (ends.active, ends.passive)).unzip();
    let unsigned = Parts::new(ipv4_pair(), ACK, 6, 7).payload(b"data").with_ao(12);
    let mut expected = unsigned.clone();
    ends().active.sign(&mut expected).unwrap();
    let mut sent = vec![unsigned; active.len()];
    let mut segments: Vec<_> = sent.iter_mut().map(|tcp| &mut tcp[..]).enumerate().collect();
    let mut signed = Vec::new();
    sign_batch(&mut active, &mut segments, |number, outcome| signed.push((number, outcome)));
    assert_eq!(signed, (0..70).map(|number| (number, Ok(()))).collect::<Vec<_>>());
    assert!(sent.iter().all(|tcp| *tcp == expected));
    let received: Vec<_> = sent.iter().map(|tcp| view(ipv4_pair(), tcp)).enumerate().collect();
    let mut verified = 0;
    verify_batch(&mut passive, &received, |number, verdict| {
        assert_eq!((number, verdict.unwrap().key_id()), (verified, KeyId(1)));
        verified += 1;
    });
    assert_eq!(verified, 70);
}

/// 2^31 octets apart: the second is behind what came before the batch, and ahead once the first has passed.
#[test]
fn a_batch_over_2_31_octets_uses_each_segments_own_sne() {
    let mkts = set(TcpAoAlgorithm::HmacSha1, &[(1, 1)]);
    let mut ends = Ends::<3>::connect(ipv4_pair(), (0xc000_0000, 5), &mkts, &mkts);
    let numbers = [0x7fff_ff00, 0xffff_fe80_u32].map(|ahead| ends.active_next.wrapping_add(ahead));
    // Four are enough to go side by side.
    let segments =
        [numbers[0], numbers[1], numbers[1], numbers[1]].map(|number| sent(&mut ends.active, ACK, number, 6));
    let views: Vec<_> = segments.iter().map(|tcp| (0, view(ipv4_pair(), tcp))).collect();
    verify_batch(&mut [&mut ends.passive], &views, |_, verdict| assert!(verdict.is_ok()));
    assert_eq!(ends.passive.highest_received(), (Sne(1), SeqNum(numbers[1])));
}
