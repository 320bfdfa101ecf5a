//! Shims: a server, and many clients in one host, with one MKT.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::Duration;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::shim::{HashKey, OPTION_ROOM, PeerSlot, Shim, ShimConfig, ShimSlot};
use wireseal_tcp_ao::{ConnectionIdentifier, MktSet, Peer};

use crate::contender::{Contender, assert_agree};
use crate::packets::{ACK, IPV4, SYN, ipv4, tcp};
use crate::tcp_ao::mkt;

/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The time of all packets.
pub const NOW: Duration = Duration::from_secs(1000);
/// The number of packets signed or verified at once.
pub const BATCH: usize = 64;
/// The length of a full packet without its AO option.
const LENGTH: usize = 1480;

/// A host's shim.
pub type Host = Shim<Vec<PeerSlot>, Vec<ShimSlot>>;

/// A packet, given by its client's number, the client's port, flags, and sequence and acknowledgment numbers.
pub type Fields = (u32, u16, u8, [u32; 2]);

/// The address of a client.
#[must_use]
pub fn client(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 + number)
}

/// The server, with a peer for each client, or all clients in one host, whose only peer is the server.
///
/// # Panics
/// If the shim refuses its peers.
#[must_use]
pub fn host(algorithm: TcpAoAlgorithm, connections: u32, is_client: bool) -> Host {
    let server = IpAddr::from(SERVER).into();
    let peer = |number: u32| {
        let connections = if is_client {
            ConnectionIdentifier::between("10.0.0.0/8".parse().expect("a prefix"), server)
        } else {
            ConnectionIdentifier::between(server, IpAddr::from(client(number)).into())
        };
        let mkts = MktSet::from_mkts([mkt(algorithm, 1)]).expect("one id");
        PeerSlot::from(Peer { connections, mkts })
    };
    let peers = (0..if is_client { 1 } else { connections }).map(peer).collect();
    let slots = ShimSlot::many(connections as usize);
    Shim::new(ShimConfig::new(1500), HashKey::random(), peers, slots).expect("peers that do not overlap")
}

/// A packet to the server.
#[must_use]
pub fn to_server((number, port, flags, numbers): Fields, payload: usize) -> Vec<u8> {
    ipv4(client(number), SERVER, &tcp([port, 179], numbers, flags, &[], payload))
}

/// The packet, signed; `None` if the shim refuses it.
pub fn sign(from: &mut Host, packet: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = with_room(packet);
    let signed = from.outbound(NOW, &mut buffer, OPTION_ROOM).ok()?;
    Some(buffer[signed].to_vec())
}

/// Signs a packet and verifies it at the other host. Returns whether both accept it.
pub fn deliver(from: &mut Host, to: &mut Host, packet: &[u8]) -> bool {
    sign(from, packet).is_some_and(|mut signed| to.inbound(NOW, &mut signed).is_ok())
}

/// Opens the connection of a client, from port 5000. Returns whether all packets are accepted.
pub fn open(clients: &mut Host, server: &mut Host, number: u32) -> bool {
    let syn_ack = ipv4(SERVER, client(number), &tcp([179, 5000], [1, 2], SYN | ACK, &[], 0));
    deliver(clients, server, &to_server((number, 5000, SYN, [1, 0]), 0))
        && deliver(server, clients, &syn_ack)
        && deliver(clients, server, &to_server((number, 5000, ACK, [2, 2]), 0))
}

fn with_room(packet: &[u8]) -> Vec<u8> {
    [&[0; OPTION_ROOM], packet].concat()
}

/// An operation on copies of these packets.
fn contender<P: Clone + 'static>(
    name: &'static str,
    packets: &[P],
    mut run: impl FnMut(&mut [P]) + 'static,
) -> Contender {
    let copies = std::rc::Rc::new(std::cell::RefCell::new(packets.to_vec()));
    let (packets, fresh) = (packets.to_vec(), copies.clone());
    let contender = Contender::new(name, move || run(black_box(&mut copies.borrow_mut())));
    contender.prepared(1, move || fresh.borrow_mut().clone_from_slice(&packets))
}

/// Signing and verifying [`BATCH`] full segments of one connection in a shim, one by one and in a batch.
///
/// # Panics
/// If batch and single calls differ.
#[must_use]
pub fn full_segments(algorithm: TcpAoAlgorithm) -> Vec<Contender> {
    let hosts = || {
        let mut hosts = [host(algorithm, 1, true), host(algorithm, 1, false)];
        let [clients, server] = &mut hosts;
        assert!(open(clients, server, 0), "good packets pass");
        hosts
    };
    let numbers = |i: usize| [2 + (i * (LENGTH - IPV4 - 20)) as u32, 2];
    let packet = |i| with_room(&to_server((0, 5000, ACK, numbers(i)), LENGTH - IPV4 - 20));
    let unsigned: Vec<(Vec<u8>, usize)> = (0..BATCH).map(|i| (packet(i), OPTION_ROOM)).collect();
    let [mut singly, _] = hosts();
    let (mut single, mut ranges) = (unsigned.clone(), Vec::<Range<usize>>::new());
    for (buffer, start) in &mut single {
        ranges.push(singly.outbound(NOW, buffer, *start).expect("signed"));
    }
    let ([mut together, _], mut batch) = (hosts(), unsigned.clone());
    together.outbound_batch(NOW, &mut batch, |i, range| assert_eq!(range, Ok(ranges[i].clone())));
    assert_agree(algorithm, [("single packets", &single), ("a batch", &batch)]);
    let signed: Vec<Vec<u8>> =
        batch.iter().zip(ranges).map(|((buffer, _), range)| buffer[range].to_vec()).collect();
    let [[_, mut one], [_, mut many]] = [hosts(), hosts()];
    vec![
        contender("sign, one by one", &unsigned, move |packets| {
            packets.iter_mut().for_each(|(packet, start)| drop(singly.outbound(NOW, packet, *start)));
        }),
        contender("sign, 64 at once", &unsigned, move |packets| {
            together.outbound_batch(NOW, packets, |_, range| assert!(range.is_ok()));
        }),
        contender("verify, one by one", &signed, move |packets| {
            packets.iter_mut().for_each(|packet| assert!(one.inbound(NOW, packet).is_ok()));
        }),
        contender("verify, 64 at once", &signed, move |packets| {
            many.inbound_batch(NOW, packets, |_, range| assert!(range.is_ok()));
        }),
    ]
}
