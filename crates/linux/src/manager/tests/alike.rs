//! The key manager on a model of the kernel, and a connection in userspace: with the same chain and the same peer, both end up signing with the
//! same key.

use std::net::Ipv4Addr;

use fastrand::Rng;
use proptest::prelude::*;
use wireseal_tcp_ao::{
    ConnectionState, Endpoint, HeardKeys, Isn, MktSet, Segment as TcpSegment, SeqNum, Sne, SocketPair,
};

use super::*;

/// A userspace connection with room for all keys of these tests.
type Userspace = wireseal_tcp_ao::Connection<8>;

/// How many keys the chain has; each is sent with for 100 seconds, 20 of them together with the next one, and accepted for another 50.
const KEYS: u8 = 4;

/// A key of the peer that this end never has.
const UNKNOWN: u8 = 99;

fn own_chain() -> KeyChain {
    let of = |id: u8| {
        let (from, until) = (80 * i64::from(id) - 80, 80 * i64::from(id) + 20);
        let from = (id > 1).then_some(from);
        let until = (id < KEYS).then_some(until);
        let accept = lifetime(from, until.map(|until| until + 50));
        Key::new(id.into(), mkt(id, id, id.into())).with_lifetimes(lifetime(from, until), accept).unwrap()
    };
    chain(0, (1..=KEYS).map(of).collect::<Vec<_>>())
}

/// One end of a connection that signs with key 1.
fn imported(is_peer: bool, mkts: &MktSet<8>) -> Userspace {
    let ends = [1, 2].map(|last| Endpoint::new(Ipv4Addr::new(192, 0, 2, last), 179));
    let [local, remote] = if is_peer { [ends[1], ends[0]] } else { ends };
    let [local_isn, remote_isn] = if is_peer { [2, 1] } else { [1, 2] }.map(|isn| Isn(isn * 0x1000_0000));
    // This end has sent as much as the peer will acknowledge.
    let state = ConnectionState {
        pair: SocketPair { local, remote },
        local_isn,
        remote_isn,
        send_sne: Sne(0),
        send_sequence: SeqNum(local_isn.0 + 1),
        sent_end: SeqNum(local_isn.0 + 1_000_000),
        receive_sne: Sne(0),
        receive_sequence: SeqNum(remote_isn.0 + 1),
        acknowledged: SeqNum(local_isn.0 + 1),
        current_key: KeyId(1),
        rnext_key: KeyId(1),
        heard: HeardKeys::NONE,
        counters: Default::default(),
    };
    Userspace::import(&state, mkts).unwrap()
}

/// The peer has every key at any time, and follows no request: the test says which key it signs with and which it asks for.
struct Peer {
    connection: Userspace,
    sent: u32,
}

impl Peer {
    /// A segment that acknowledges something new.
    fn send(&mut self, signs: u8, asks: u8) -> Vec<u8> {
        self.connection.set_current_key(KeyId(signs)).unwrap();
        self.connection.set_rnext_key(KeyId(asks)).unwrap();
        self.sent += 1;
        let mut tcp = vec![0; 60];
        tcp[..4].copy_from_slice(&[0, 179, 0, 179]);
        tcp[4..8].copy_from_slice(&(0x2000_0001 + self.sent).to_be_bytes());
        tcp[8..12].copy_from_slice(&(0x1000_0001 + self.sent).to_be_bytes());
        let length = 20 + self.connection.append_ao(&mut tcp[20..], 0).unwrap();
        (tcp[12], tcp[13]) = ((length as u8 / 4) << 4, 0x10);
        tcp.truncate(length);
        self.connection.sign(&mut tcp).unwrap();
        tcp
    }
}

struct Both {
    chain: KeyChain,
    kernel: Kernel,
    userspace: Userspace,
    peer: Peer,
    /// The peer has asked again for a key that the kernel's end had left.
    has_insisted: bool,
}

impl Both {
    fn new() -> Self {
        let chain = own_chain();
        let all = (1..=KEYS).chain([UNKNOWN]).map(|id| mkt(id, id, id.into()));
        Self {
            kernel: Kernel::connected(&mkt(1, 1, 1)),
            userspace: imported(false, &chain.mkts(at(0))),
            peer: Peer { connection: imported(true, &MktSet::from_mkts(all).unwrap()), sent: 0 },
            has_insisted: false,
            chain,
        }
    }

    fn step(&mut self, now: i64) {
        let outcome = self.kernel.apply(&self.chain, now);
        assert!(outcome.failed.is_empty() && outcome.overdue.is_empty(), "{:?}", outcome.failed);
        self.userspace.replace_keys(&self.chain.mkts(at(now))).unwrap();
    }

    /// Gives both the same segment; returns whether it verifies.
    ///
    /// The kernel does not show requests for keys that it lacks. So its end cannot tell a peer that insists on an old key from one that has
    /// insisted on it and now asks for a key that this end lacks, and from then on such requests are not compared.
    fn receive(&mut self, signs: u8, asks: u8) -> bool {
        self.has_insisted |= self.kernel.memory.insists_on(self.kernel.current.unwrap());
        let is_held = self.kernel.keys.iter().any(|key| key.name.send_id == KeyId(asks));
        let asks = if is_held || !self.has_insisted { asks } else { self.of_kernel().0 };
        let tcp = self.peer.send(signs, asks);
        let [source, destination] = [2, 1].map(|last| Ipv4Addr::new(192, 0, 2, last).into());
        let segment = TcpSegment::from_tcp(source, destination, &tcp).unwrap();
        let is_good = self.userspace.verify(&segment).is_ok();
        let key = InstalledKey::of(name(signs, signs), &mkt(signs, signs, signs.into()));
        let received = self.kernel.receive(&Segment { key, rnext_key_id: KeyId(asks) });
        assert_eq!(received.is_ok(), is_good);
        is_good
    }

    /// The SendIDs of the current and the rnext key, and of all keys.
    fn of_kernel(&self) -> (u8, u8, Vec<u8>) {
        let id = |key: Option<KeyName>| key.unwrap().send_id.0;
        let mut ids: Vec<u8> = self.kernel.keys.iter().map(|key| key.name.send_id.0).collect();
        ids.sort_unstable();
        (id(self.kernel.current), id(self.kernel.rnext), ids)
    }

    fn of_userspace(&self) -> (u8, u8, Vec<u8>) {
        let connection = &self.userspace;
        let mut ids: Vec<u8> = connection.keys().map(|key| key.send_id.0).collect();
        ids.sort_unstable();
        (connection.current_key().send_id.0, connection.rnext_key().send_id.0, ids)
    }
}

/// Random segments and steps, each followed by what the peer keeps to for a while. Returns how often the ends were compared while they signed
/// with another key than they asked for.
fn run(seed: u64) -> usize {
    let (mut random, mut both, mut apart) = (Rng::with_seed(seed), Both::new(), 0);
    let mut now = 0;
    while now < 80 * i64::from(KEYS) + 150 {
        now += random.i64(1..30);
        let ids = [1, 2, 3, KEYS, UNKNOWN];
        // Both are stepped when the chain changes: the kernel's end acts on what segments show in steps alone, userspace at once.
        both.step(now);
        let near = (now / 80 + 1).clamp(1, i64::from(KEYS)) as u8;
        for _ in 0..random.usize(0..4) {
            both.receive(random.u8(1..=KEYS), random.choice(ids).unwrap());
            if random.bool() {
                both.step(now);
            }
        }
        // Mostly keys that this end has.
        let signs = near.saturating_sub(random.u8(0..2)).max(1);
        let asks = if random.u8(0..4) == 0 { UNKNOWN } else { near.saturating_sub(random.u8(0..2)).max(1) };
        both.step(now);
        for _ in 0..2 {
            both.receive(signs, asks);
            both.step(now);
        }
        if both.receive(signs, asks) {
            assert_eq!(both.of_kernel(), both.of_userspace(), "at {now}: signs {signs}, asks {asks}");
            apart += usize::from(both.of_kernel().0 != both.of_kernel().1);
        }
    }
    apart
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_kernels_manager_and_userspace_decide_alike(seed: u64) {
        run(seed);
    }
}

#[test]
fn the_comparison_sees_ends_that_wait_for_their_peer() {
    assert!((0..50).map(run).sum::<usize>() > 50);
}
