use std::fs;
use std::net::Ipv4Addr;

use wireseal_tcp_ao::shim::Refusal;
use wireseal_tcp_ao::{Counters, HeardKeys, Isn, KeyId, SeqNum, Sne, VerifyError};

use super::*;
use crate::gateway::queues::tests::packet_of_a_program;
use crate::gateway::shard::Verdict;
use crate::source::{PeerArgument, Source};

const SECRET: &str = "secret = \"what both ends know\"";

fn chain(name: &str, key: &str) -> String {
    format!(
        "[[key-chain]]\nname = \"{name}\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"hmac(sha1)\"\n{key}\n"
    )
}

fn config(keys: &str, peers: &[&str], ports: &[u16]) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let keys_path = folder.path().join("keys.toml");
    fs::write(&keys_path, keys).unwrap();
    let peers = peers.iter().map(|peer| peer.parse::<PeerArgument>().unwrap()).collect();
    let config =
        Source { keys: Some(keys_path), peers, ports: ports.to_vec(), ..Source::default() }.read().unwrap();
    config.check_for_gateway().unwrap();
    config
}

fn name(text: &str) -> PeerName {
    text.parse().unwrap()
}

/// A segment between port 179 of 192.0.2.1 and another host's, checksums right.
fn segment(remote: Ipv4Addr, flags: u8, is_outbound: bool) -> Vec<u8> {
    let local = Ipv4Addr::new(192, 0, 2, 1);
    let (source, destination) = if is_outbound { (local, remote) } else { (remote, local) };
    let mut tcp = vec![0, 179, 0, 179, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    let sum = wireseal_tcp_ao::checksum::tcp_to_send(source.into(), destination.into(), &tcp);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend(source.octets());
    ip.extend(destination.octets());
    let sum = wireseal_tcp_ao::checksum::ipv4_header(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [ip, tcp].concat()
}

const RST: u8 = 4;
const SYN: u8 = 2;

fn inbound(shards: &Shards, remote: [u8; 4], flags: u8) -> Option<Refusal> {
    let mut packet = segment(remote.into(), flags, false);
    shards.shard(0).shim.inbound(shards.now(), &mut packet).err()
}

fn opens(shards: &Shards, remote: [u8; 4]) -> Option<Refusal> {
    let mut buffer = [&[0; 20], &segment(remote.into(), SYN, true)[..]].concat();
    shards.shard(0).shim.outbound(shards.now(), &mut buffer, 20).err()
}

#[test]
fn any_number_of_peers_can_be_added_and_what_is_no_peers_is_dropped() {
    let keys = chain("core", SECRET);
    let shards = Shards::new(&config(&keys, &["192.0.2.2"], &[]), 2, 8, false).unwrap();
    let unsigned = Some(Refusal::Verify(VerifyError::Unsigned));
    assert_eq!(inbound(&shards, [192, 0, 2, 2], RST), unsigned);
    for packet in [inbound(&shards, [10, 0, 9, 200], RST), opens(&shards, [10, 0, 9, 200])] {
        assert_eq!(packet, Some(Refusal::NoPeer));
    }
    let many: Vec<_> = (0..2500).map(|number| format!("10.0.{}.{}", number >> 8, number & 255)).collect();
    let many: Vec<_> = many.iter().map(String::as_str).chain(["192.0.2.2"]).collect();
    let changes = shards.apply(&config(&keys, &many, &[]));
    assert_eq!((changes.added.len(), changes.changed.len(), changes.gone.len()), (2500, 0, 0));
    for remote in [[10, 0, 0, 0], [10, 0, 9, 195], [192, 0, 2, 2]] {
        assert_eq!(inbound(&shards, remote, RST), unsigned, "{remote:?}");
        assert_eq!(opens(&shards, remote), None, "{remote:?}");
    }
    assert_eq!(shards.status().peers.len(), 2501);
    let refused = shards.shard(0).shim.refused(wireseal_tcp_ao::shim::Direction::Outbound).no_peer;
    assert_eq!(refused, 1);
}

#[test]
fn a_change_says_who_came_who_went_and_whose_keys_are_others() {
    let keys = |core: &str| chain("core", core) + &chain("edge", "secret = \"another secret, of the edge\"");
    let before = ["192.0.2.2=core", "192.0.2.3=edge", "198.51.100.1=core", "::ffff:203.0.113.9=edge"];
    let shards = Shards::new(&config(&keys(SECRET), &before, &[179, 646]), 2, 8, false).unwrap();
    for remote in [[192, 0, 2, 3], [198, 51, 100, 1], [203, 0, 113, 9]] {
        assert_eq!(opens(&shards, remote), None);
    }
    // The same peers again, one in another notation: nothing changes.
    let same = ["192.0.2.2=core", "192.0.2.3=edge", "198.51.100.1=core", "203.0.113.9=edge"];
    let changes = shards.apply(&config(&keys(SECRET), &same, &[179, 646]));
    assert!(changes.added.is_empty() && changes.changed.is_empty() && changes.gone.is_empty());
    assert!(changes.ports.is_empty());
    assert_eq!(shards.shard(0).shim.connections().count(), 3);

    for (core, is_other) in [
        ("secret = \"what both ends know, anew\"", true),
        (SECRET, true),
        ("key-id = 7\nsecret = \"what both ends know\"", true),
        ("secret = \"what both ends know\"\nsend = { until = 2099-01-01T00:00:00Z }", true),
        ("secret = \"what both ends know\"\nsend = { until = 2099-01-01T00:00:00Z }", false),
    ] {
        let changes = shards.apply(&config(&keys(core), &same, &[179, 646]));
        let mut changed = changes.changed;
        changed.sort();
        let expected = if is_other { vec![name("192.0.2.2"), name("198.51.100.1")] } else { vec![] };
        assert_eq!(changed, expected, "{core}");
    }

    let after = ["192.0.2.0/24=core", "203.0.113.9=edge", "192.0.2.2=edge"];
    let changes = shards.apply(&config(&keys(SECRET), &after, &[179]));
    assert_eq!((changes.added, changes.changed), (vec![name("192.0.2.0/24")], vec![name("192.0.2.2")]));
    let gone: Vec<_> = changes.gone.iter().map(|gone| (gone.name, gone.around, gone.sessions)).collect();
    assert_eq!(gone, [(name("192.0.2.3"), Some(name("192.0.2.0/24")), 1), (name("198.51.100.1"), None, 1)]);
    assert_eq!(changes.ports, [646]);
    // Their sessions are gone, and those of other peers are not.
    assert_eq!(shards.shard(0).shim.connections().count(), 1);
    let changes = shards.apply(&config(&keys(SECRET), &after, &[646]));
    assert_eq!((changes.ports, shards.shard(0).shim.connections().count()), (vec![179], 0));
}

#[test]
fn a_chain_is_looked_at_when_its_keys_change_and_when_the_clock_is_set_back() {
    let keys = chain("core", "secret = \"what both ends know\"\nsend = { until = 2099-01-01T00:00:00Z }");
    let shards = Shards::new(&config(&keys, &["192.0.2.2"], &[]), 1, 8, false).unwrap();
    let peers = lock(&shards.peers);
    let followed = &peers[&name("192.0.2.2")];
    let end: Timestamp = "2099-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(followed.next_change, Some(end));
    let after = |seconds| Timestamp::from_unix_seconds(followed.seen.unix_seconds() + seconds);
    let before_end = Timestamp::from_unix_seconds(end.unix_seconds() - 1);
    for (now, is_due) in
        [(after(0), false), (after(3600), false), (after(-1), true), (before_end, false), (end, true)]
    {
        assert_eq!(followed.is_due(now), is_due, "{now}");
    }
}

#[test]
fn a_session_of_a_gateway_before_waits_no_longer_than_it_may_be_silent() {
    let keys = chain("core", SECRET);
    let config = config(&keys, &["192.0.2.2"], &[]);
    let shards = Shards::new(&config, 1, 8, false).unwrap();
    let state = || ConnectionState {
        pair: SocketPair {
            local: "192.0.2.1:179".parse().unwrap(),
            remote: "192.0.2.2:179".parse().unwrap(),
        },
        local_isn: Isn(7),
        remote_isn: Isn(9),
        send_sne: Sne(0),
        send_sequence: SeqNum(8),
        sent_end: SeqNum(8),
        receive_sne: Sne(0),
        receive_sequence: SeqNum(10),
        acknowledged: SeqNum(8),
        current_key: KeyId(1),
        rnext_key: KeyId(1),
        heard: HeardKeys::NONE,
        counters: Counters::default(),
    };
    let idle = TimeLimits::DEFAULT.idle;
    shards.adopt(vec![state()]);
    shards.forget_waiting(idle - Duration::from_secs(1));
    assert_eq!(lock(&shards.waiting).len(), 1);
    assert_eq!(shards.stop().len(), 1, "a gateway that ends hands on what still waits");
    // From then on packets claim no sessions, because those are being written.
    shards.adopt(vec![state()]);
    shards.claim(&mut shards.shard(0), &segment([192, 0, 2, 2].into(), RST, false), false);
    assert_eq!(lock(&shards.waiting).len(), 1);
    let shards = Shards::new(&config, 1, 8, false).unwrap();
    shards.adopt(vec![state()]);
    // The session's own packet claims it; another's does not.
    for (remote, waits) in [([192, 0, 2, 3], 1), ([192, 0, 2, 2], 0)] {
        shards.claim(&mut shards.shard(0), &segment(remote.into(), RST, false), false);
        assert_eq!(lock(&shards.waiting).len(), waits);
    }
    assert_eq!(shards.status().peers[0].sessions.len(), 1);
    shards.adopt(vec![state()]);
    shards.forget_waiting(idle);
    assert!(lock(&shards.waiting).is_empty() && !shards.any_waits.load(Ordering::Relaxed));
}

#[test]
fn a_path_mtu_counts_for_as_long_as_the_kernel_keeps_it() {
    let keys = chain("core", SECRET);
    let config = config(&keys, &["192.0.2.2", "192.0.2.3"], &[]);
    let shards = Shards::new(&config, 1, 8, false).unwrap();
    let [to, another] = [[192, 0, 2, 2], [192, 0, 2, 3]].map(|remote| segment(remote.into(), SYN, true));
    let mut shard = shards.shard(0);
    let leaves_by_the_wire = |shard: &mut Shard, seconds, packet: &[u8]| {
        let verdicts = shard.outbound(Duration::from_secs(seconds), &mut [packet_of_a_program(packet)]);
        match verdicts[..] {
            [Verdict::Send(_)] => true,
            [Verdict::Accept(_)] => false,
            _ => panic!("{verdicts:?}"),
        }
    };
    assert!(!leaves_by_the_wire(&mut shard, 0, &to) && !leaves_by_the_wire(&mut shard, 0, &another));
    // "Fragmentation needed" from this host itself: 1300 octets.
    let mut error = [&to[..20], &[3, 4, 0, 0, 0, 0, 5, 20], &to[..28]].concat();
    (error[3], error[9]) = (error.len() as u8, 1);
    assert!(shard.admits_icmp(Duration::from_secs(10), &mut error, true));
    assert_eq!(error[26..28], 1280_u16.to_be_bytes(), "with room for the option");
    assert!(leaves_by_the_wire(&mut shard, 11, &to) && !leaves_by_the_wire(&mut shard, 11, &another));
    assert!(leaves_by_the_wire(&mut shard, 610, &to));
    assert!(!leaves_by_the_wire(&mut shard, 611, &to));
}
