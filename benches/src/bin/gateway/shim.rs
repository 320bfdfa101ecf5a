//! What a full segment costs in the shim alone, one by one and in batches.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::shim::{HashKey, OPTION_ROOM, PeerSlot, Shim, ShimConfig, ShimSlot};
use wireseal_tcp_ao::{ConnectionIdentifier, KeyId, MasterKey, Mkt, MktSet, Peer, checksum};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
const NOW: Duration = Duration::from_secs(1000);
/// Packets that arrive together.
const PACKETS: usize = 64;
/// The kernel takes packets of this length from a TCP that leaves room for the option.
const LENGTH: usize = 1480;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

type Host = Shim<Vec<PeerSlot>, Vec<ShimSlot>>;

/// Nanoseconds for each packet.
pub struct Costs {
    pub sign: [f64; 2],
    pub verify: [f64; 2],
}

/// One by one, and in batches.
pub fn measure(algorithm: TcpAoAlgorithm) -> Result<Costs> {
    let mut hosts = [host(algorithm, 1)?, host(algorithm, 0)?];
    for (from, flags, sequence, acknowledgment) in [(0, SYN, 1, 0), (1, SYN | ACK, 1, 2), (0, ACK, 2, 2)] {
        let mut buffer = packet(from, flags, sequence, acknowledgment, 40);
        let range = hosts[from].outbound(NOW, &mut buffer, OPTION_ROOM)?;
        hosts[1 - from].inbound(NOW, &mut buffer[range])?;
    }
    let [client, server] = &mut hosts;
    let fresh = |number: usize| packet(0, ACK, 2 + (number * (LENGTH - 40)) as u32, 2, LENGTH);
    let unsigned: Vec<Vec<u8>> = (0..PACKETS).map(fresh).collect();
    let mut signed = unsigned.clone();
    let mut ranges = Vec::new();
    for buffer in &mut signed {
        ranges.push(client.outbound(NOW, buffer, OPTION_ROOM)?);
    }
    let mut batch: Vec<_> = unsigned.iter().map(|buffer| (buffer.clone(), OPTION_ROOM)).collect();
    client.outbound_batch(NOW, &mut batch, |number, range| assert_eq!(range, Ok(ranges[number].clone())));
    assert!(batch.iter().zip(&signed).all(|((batch, _), single)| batch == single), "the octets are the same");
    let signed: Vec<Vec<u8>> =
        signed.iter().zip(ranges).map(|(buffer, range)| buffer[range].to_vec()).collect();
    Ok(Costs {
        sign: [
            best(&unsigned, |buffers| {
                buffers.iter_mut().for_each(|buffer| drop(client.outbound(NOW, buffer, OPTION_ROOM)));
            }),
            best(&unsigned, |buffers| {
                let mut batch: Vec<_> =
                    buffers.iter_mut().map(|buffer| (&mut buffer[..], OPTION_ROOM)).collect();
                client.outbound_batch(NOW, &mut batch, |_, range| assert!(range.is_ok()));
            }),
        ],
        verify: [
            best(&signed, |buffers| {
                buffers.iter_mut().for_each(|buffer| assert!(server.inbound(NOW, buffer).is_ok()));
            }),
            best(&signed, |buffers| {
                server.inbound_batch(NOW, buffers, |_, range| assert!(range.is_ok()));
            }),
        ],
    })
}

/// Nanoseconds for each packet, the best of many rounds; copying them is not part of that.
fn best(packets: &[Vec<u8>], mut carry: impl FnMut(&mut [Vec<u8>])) -> f64 {
    let rounds = (0..1000).map(|_| {
        let mut buffers = packets.to_vec();
        let started = Instant::now();
        carry(&mut buffers);
        started.elapsed().as_nanos() as f64 / PACKETS as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn host(algorithm: TcpAoAlgorithm, peer: usize) -> Result<Host> {
    let [local, remote] = [1 - peer, peer].map(|end| IpAddr::from(ADDRESSES[end]).into());
    let connections = ConnectionIdentifier::between(local, remote);
    let mkt = Mkt::new(KeyId(1), KeyId(1), algorithm, MasterKey::new(b"what both ends know, 32 octets..")?)?;
    let peer = Peer { connections, mkts: MktSet::from_mkts([mkt])? };
    Ok(Shim::new(ShimConfig::new(1500), HashKey::random(), vec![peer.into()], ShimSlot::many::<Vec<_>>(4))?)
}

/// A packet of this length, with room for the option in front.
fn packet(from: usize, flags: u8, sequence: u32, acknowledgment: u32, length: usize) -> Vec<u8> {
    let mut buffer = vec![0; OPTION_ROOM + length];
    let ip = &mut buffer[OPTION_ROOM..];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    (ip[8], ip[9]) = (64, 6);
    ip[12..16].copy_from_slice(&ADDRESSES[from].octets());
    ip[16..20].copy_from_slice(&ADDRESSES[1 - from].octets());
    let (source, destination): (u16, u16) = if from == 0 { (50_000, 179) } else { (179, 50_000) };
    ip[20..22].copy_from_slice(&source.to_be_bytes());
    ip[22..24].copy_from_slice(&destination.to_be_bytes());
    ip[24..28].copy_from_slice(&sequence.to_be_bytes());
    ip[28..32].copy_from_slice(&acknowledgment.to_be_bytes());
    (ip[32], ip[33], ip[34]) = (0x50, flags, 0xff);
    let sum = checksum::ipv4_header(&ip[..20]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let sum = checksum::tcp_to_send(ADDRESSES[from].into(), ADDRESSES[1 - from].into(), &ip[20..]);
    ip[36..38].copy_from_slice(&sum.to_be_bytes());
    buffer
}
