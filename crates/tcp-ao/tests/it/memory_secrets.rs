//! The secrets of MKTs, connections and a shim's peers are gone from memory once they are not needed any more.

use std::hint::black_box;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::shim::PeerSlot;
use wireseal_tcp_ao::{
    Connection, Isn, KdfContext, KeyId, MasterKey, Mkt, MktSet, SocketPair, TrafficKeyOctets,
};
use zeroize::Zeroize;

use crate::memory::{Memory, apart, clear_stack, observe, role, stage};
use crate::shim_support::Link;
use crate::support::{Ends, Parts, SYN, ipv4_pair};

const ISNS: (u32, u32) = (1000, 5000);

/// One of three secrets, which no constant of the program has.
fn secret(which: u8) -> [u8; 40] {
    std::array::from_fn(|place| black_box((place as u8).wrapping_mul(37).wrapping_add(11 + which)) ^ 0x5c)
}

fn mkt(which: u8, ids: (u8, u8), algorithm: TcpAoAlgorithm) -> Mkt {
    let mut octets = secret(which);
    let master_key = MasterKey::new(&octets).unwrap();
    octets.zeroize();
    Mkt::new(KeyId(ids.0), KeyId(ids.1), algorithm, master_key).unwrap()
}

fn set<const N: usize>(which: u8, ids: (u8, u8), algorithm: TcpAoAlgorithm) -> MktSet<N> {
    MktSet::from_mkts([mkt(which, ids, algorithm)]).unwrap()
}

/// What stands for a key in memory, and how often it is there at most: also as a key that is ready, which AES's round keys begin with.
struct Wanted {
    master: [Vec<u8>; 3],
    traffic: [[Vec<u8>; 2]; 3],
}

impl Wanted {
    fn new(pair: SocketPair, (active, passive): (u32, u32), algorithm: TcpAoAlgorithm) -> Self {
        let contexts = [
            KdfContext::send_other(pair, Isn(active), Isn(passive)),
            KdfContext::receive_other(pair, Isn(active), Isn(passive)),
        ];
        let master = [0, 1, 2].map(|which| secret(which)[..24].to_vec());
        let traffic = [0, 1, 2].map(|which| {
            let mkt = mkt(which, (1, 2), algorithm);
            contexts.map(|context| TrafficKeyOctets::derive(&mkt, &context).expose_secret()[..16].to_vec())
        });
        Self { master, traffic }
    }

    /// Which master keys, and which traffic keys, are in memory.
    fn found(&self, memory: &Memory) -> ([usize; 3], [bool; 3]) {
        let master = self.master.each_ref().map(|octets| memory.count(octets));
        let traffic = self.traffic.each_ref().map(|keys| keys.iter().any(|octets| memory.count(octets) > 0));
        (master, traffic)
    }
}

const GONE: [bool; 3] = [false; 3];

#[test]
fn ao_36_no_secret_of_a_connection_stays_in_memory() {
    if let Some(algorithm) = role() {
        return live_a_connection(algorithm.parse().unwrap());
    }
    let name = "memory_secrets::ao_36_no_secret_of_a_connection_stays_in_memory";
    for algorithm in TcpAoAlgorithm::ALL {
        let wanted = Wanted::new(ipv4_pair(), ISNS, algorithm);
        let stages = observe(name, algorithm.name(), |stage, memory| {
            let expected = match stage {
                "a set" => ([1, 0, 0], GONE),
                "opening" => ([1, 0, 0], GONE),
                "opening, with another key" => ([1, 1, 0], GONE),
                "established" => ([0, 0, 0], [true, false, false]),
                "with another key" => ([0, 0, 0], [true, true, false]),
                "without the first" => ([0, 0, 0], [false, true, false]),
                "with a third alone" => ([0, 0, 0], [false, false, true]),
                _ => ([0, 0, 0], GONE),
            };
            assert_eq!(wanted.found(memory), expected, "{algorithm}: {stage}");
        });
        assert_eq!(stages, 11);
    }
}

fn live_a_connection(algorithm: TcpAoAlgorithm) {
    let ours = || set::<3>(0, (1, 2), algorithm);
    let boxed = |which, ids| apart(move || Box::new(mkt(which, ids, algorithm)));
    stage("start");
    let one = apart(|| Box::new(ours()));
    stage("a set");
    drop(one);
    stage("without it");

    // A connection that moves takes along, in its padding, what was on the stack: not the set, which was made on another.
    let again = apart(|| Box::new(ours()));
    let open = || Box::new(Connection::active(ipv4_pair(), Isn(ISNS.0), &again).unwrap());
    let mut opening = apart(open);
    drop(again);
    apart(|| Parts::new(ipv4_pair(), SYN, ISNS.0, 0).signed(&mut opening));
    stage("opening");
    let another = boxed(1, (3, 4));
    opening.add_key(&another).unwrap();
    drop(another);
    stage("opening, with another key");
    opening.remove_key(KeyId(1), Some(KeyId(3))).unwrap();
    opening.replace_keys(&apart(|| Box::new(set(2, (5, 6), algorithm)))).unwrap();
    drop(opening);
    stage("opened no longer");

    let theirs = || set(0, (2, 1), algorithm);
    let mut active = apart(|| {
        let ends = Ends::connect(ipv4_pair(), ISNS, &ours(), &theirs());
        Box::new(ends.active)
    });
    stage("established");
    let another = boxed(1, (3, 4));
    active.add_key(&another).unwrap();
    assert!(active.has_key(&another));
    drop(another);
    stage("with another key");
    // A traffic key is moved when it has been derived, and when it becomes ready.
    clear_stack();
    apart(|| active.remove_key(KeyId(1), Some(KeyId(3))).unwrap());
    stage("without the first");
    apart(|| active.replace_keys(&set(2, (5, 6), algorithm)).unwrap());
    stage("with a third alone");
    drop(active);
    stage("closed");
}

#[test]
fn ao_36_no_secret_of_a_shims_peer_stays_in_memory() {
    if role().is_some() {
        return live_a_peer();
    }
    let name = "memory_secrets::ao_36_no_secret_of_a_shims_peer_stays_in_memory";
    let isns = (crate::shim_support::CLIENT_ISN, crate::shim_support::SERVER_ISN);
    let wanted = Wanted::new(ipv4_pair(), isns, TcpAoAlgorithm::HmacSha1);
    let stages = observe(name, "shim", |stage, memory| {
        let expected = match stage {
            // Of a client and of a server.
            "peers" => ([2, 0, 0], GONE),
            "established" => ([2, 0, 0], [true, false, false]),
            "with other keys" | "in other slots" => ([0, 2, 0], [false, true, false]),
            "forgotten" => ([0, 2, 0], GONE),
            _ => ([0, 0, 0], GONE),
        };
        assert_eq!(wanted.found(memory), expected, "{stage}");
    });
    assert_eq!(stages, 7);
}

fn live_a_peer() {
    let algorithm = TcpAoAlgorithm::HmacSha1;
    stage("start");
    let mut link = apart(|| {
        Box::new(Link::with_mkts(ipv4_pair(), set(0, (1, 2), algorithm), set(0, (2, 1), algorithm)))
    });
    stage("peers");
    apart(|| link.connect(ipv4_pair()));
    stage("established");
    apart(|| {
        link.client.set_mkts(0, set(1, (1, 2), algorithm)).unwrap();
        link.server.set_mkts(0, set(1, (2, 1), algorithm)).unwrap();
    });
    stage("with other keys");
    apart(|| {
        for shim in [&mut link.client, &mut link.server] {
            shim.move_peers((0..20).map(|_| PeerSlot::EMPTY).collect()).unwrap();
        }
    });
    stage("in other slots");
    link.client.forget(&ipv4_pair());
    link.server.forget(&ipv4_pair().reversed());
    stage("forgotten");
    apart(|| {
        drop(link.client.remove_peer(0).unwrap());
        drop(link.server.remove_peer(0).unwrap());
    });
    stage("peers removed");
}
