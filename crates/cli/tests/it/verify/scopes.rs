//! Connections in virtual networks: the same addresses twice, and the two directions of one connection apart.

use std::time::Duration;

use pcap_file::pcap::{PcapPacket, PcapWriter};
use serde_json::json;
use wireseal::verify::report::{Standing, Verdict};
use wireseal_tcp_ao::{Endpoint, Segment};

use crate::support::files::Files;
use crate::support::generate::ip_packet;
use crate::support::program::wireseal;
use crate::support::session::{
    ACK, Found, IPV4_KEY, MSS, RST, Recorded, SYN, Session, keys, session, verify, without_ao,
};
use crate::support::wrap::{ether_type, ethernet, frame, join, udp, vlan_frame, vxlan};

const ETHERNET: u16 = 1;

fn found(packets: &[Recorded]) -> Found {
    Found::on(ETHERNET, packets, &keys(&[IPV4_KEY]))
}

/// Whether the opener, 192.0.2.1, sent a packet.
fn is_openers(packet: &[u8]) -> bool {
    packet[15] == 1
}

/// The packets of a session, those of the opener and of the listener each in a VLAN; 0 for no tag.
fn in_vlans(session: &[Recorded], [opener, listener]: [u16; 2]) -> Vec<Recorded> {
    let wrap = |(time, packet): &Recorded| match if is_openers(packet) { opener } else { listener } {
        0 => (*time, frame(packet)),
        vlan => (*time, vlan_frame(vlan, packet)),
    };
    session.iter().map(wrap).collect()
}

/// Two captures as one, packet by packet.
fn mixed(one: &[Recorded], other: &[Recorded]) -> Vec<Recorded> {
    one.iter().zip(other).flat_map(|(one, other)| [one.clone(), other.clone()]).collect()
}

fn other_session(isns: [u32; 2]) -> Session {
    let mut session = Session::usual(isns);
    session.shake_hands();
    session.talk();
    session
}

fn scopes(found: &Found) -> Vec<String> {
    found.connections.iter().map(|connection| connection.scope.to_string()).collect()
}

#[test]
fn a_device_between_two_networks_removes_the_option() {
    let remove = |(time, packet): &Recorded| {
        let segment = Segment::parse(packet).unwrap();
        let addresses = (segment.source_address(), segment.destination_address());
        (*time + 300_000, ip_packet(addresses, &without_ao(addresses, segment.tcp())))
    };
    for packets in [session().packets, repeated_syns()] {
        let removed: Vec<_> = packets.iter().map(remove).collect();
        let found = found(&mixed(&in_vlans(&packets, [10; 2]), &in_vlans(&removed, [20; 2])));
        let words = [
            "a device between 192.0.2.1:50000 and 192.0.2.2:179 removes TCP-AO",
            "packet 1 has it, and packet 2 is the same segment without it",
        ];
        let sentence = found.connections[1].diagnoses[0].sentence();
        assert!(words.iter().all(|word| sentence.contains(word)), "{sentence}");
        assert_eq!(found.connections[1].diagnoses[0].kind, "option-removed");
        assert!(found.diagnoses().iter().all(|it| it.advice.contains("from removing TCP option 29")));
    }
    // Other ISNs are another connection.
    let unsigned: Vec<_> = other_session([7000, 9000]).packets.iter().map(remove).collect();
    let found = found(&mixed(&in_vlans(&session().packets, [10; 2]), &in_vlans(&unsigned, [20; 2])));
    assert_eq!(found.kinds(), ["unsigned"]);
}

fn repeated_syns() -> Vec<Recorded> {
    let mut session = Session::usual([1000, 5000]);
    let syn = session.signed(0, SYN, &MSS, &[]);
    session.repeat(0, &syn, 3);
    session.packets
}

#[test]
fn the_same_addresses_in_two_networks_are_two_connections() {
    let (one, other) = (session().packets, other_session([0x5000_0000, 0x6000_0000]).packets);
    type Wrap = fn(&[u8], u16) -> Vec<u8>;
    let wraps: [(Wrap, &str); 3] = [
        (|packet, number| vlan_frame(number, packet), "VLAN"),
        (|packet, number| frame(&udp(0, 4789, &vxlan(number.into(), &frame(packet)))), "VNI"),
        (
            |packet, number| {
                let frame = ethernet(ether_type(packet), packet);
                ethernet(0x88e7, &join(&[&[0, 0], &number.to_be_bytes(), &frame]))
            },
            "I-SID",
        ),
    ];
    for (wrap, kind) in wraps {
        let within = |session: &[Recorded], number| {
            session.iter().map(|(time, packet)| (*time, wrap(packet, number))).collect::<Vec<_>>()
        };
        let found_apart = found(&mixed(&within(&one, 10), &within(&other, 20)));
        found_apart.assert_all_good(2);
        assert_eq!(scopes(&found_apart), [format!("{kind} 10"), format!("{kind} 20")]);
        // In one network they are one connection, which cannot have both ISNs.
        let found_together = found(&mixed(&within(&one, 10), &within(&other, 10)));
        assert!(found_together.count(Verdict::Good) < found_together.segments.len() as u64);
    }
}

#[test]
fn the_directions_of_a_connection_may_be_in_two_networks() {
    let one = session();
    for vlans in [[10, 20], [0, 20], [10, 0]] {
        let apart = found(&in_vlans(&one.packets, vlans));
        apart.assert_all_good(1);
        assert_eq!(apart.connections[0].has_opened, Some(true));
        assert_eq!(apart.connections[0].standing(), Standing::Good);
        // Beside another connection of the same addresses, in two others.
        let other = other_session([0x5000_0000, 0x6000_0000]).packets;
        let both = found(&mixed(&in_vlans(&one.packets, vlans), &in_vlans(&other, [30, 40])));
        both.assert_all_good(2);
    }
    // The answer is recorded first.
    let mut packets = in_vlans(&one.packets, [10, 20]);
    packets.swap(0, 1);
    found(&packets).assert_all_good(1);
    // The end closes it, and another connection follows in the same networks.
    let mut one = session();
    one.close();
    one.wait(1);
    one.again([77, 88]);
    one.shake_hands();
    found(&in_vlans(&one.packets, [10, 20])).assert_all_good(2);
}

/// The opener's SYN in one VLAN, and in another one the answer to a SYN that the capture does not have.
#[test]
fn an_answer_to_another_connection_is_not_joined() {
    let one = session().packets;
    let other = other_session([0x5000_0000, 0x6000_0000]).packets;
    for answer in [1, 4] {
        let packets = [in_vlans(&one[..1], [10, 20]), in_vlans(&other[answer..=answer], [10, 20])].concat();
        let found = found(&packets);
        assert_eq!(scopes(&found), ["VLAN 10", "VLAN 20"], "packet {answer}");
    }
    // The same with the right answer.
    let packets = [in_vlans(&one[..1], [10, 20]), in_vlans(&one[1..2], [10, 20])].concat();
    assert_eq!(scopes(&found(&packets)), ["VLAN 10"]);
}

#[test]
fn a_refusal_in_another_network_is_joined() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    let next = session.next;
    session.next[1] = 0;
    session.isns[1].0 = 0;
    let reset = session.signed(1, RST | ACK, &[], &[]);
    session.next = next;
    session.record(1, &reset);
    let refused = found(&in_vlans(&session.packets, [10, 20]));
    let alone = found(&in_vlans(&session.packets, [10, 10]));
    assert_eq!((refused.connections.len(), refused.kinds()), (1, alone.kinds()));
}

/// A capture that begins in the middle of a connection.
#[test]
fn directions_without_a_handshake_are_joined_by_their_numbers() {
    let mut one = session();
    one.talk();
    let middle = &one.packets[3..];
    let apart = found(&in_vlans(middle, [10, 20]));
    assert_eq!(apart.connections.len(), 1);
    let other = other_session([0x5000_0000, 0x6000_0000]).packets;
    let packets = mixed(&in_vlans(&one.packets[3..4], [10, 20]), &in_vlans(&other[4..5], [10, 20]));
    assert_eq!(scopes(&found(&packets)), ["VLAN 10", "VLAN 20"]);
}

#[test]
fn a_connection_that_goes_on_in_another_network_has_the_same_isns() {
    let mut one = session();
    one.talk();
    one.talk();
    let switched = |vlans: [[u16; 2]; 2], later: &[Recorded]| {
        let packets = [in_vlans(&one.packets[..6], vlans[0]), in_vlans(later, vlans[1])].concat();
        found(&packets)
    };
    for [before, after] in
        [[[10, 10], [20, 20]], [[10, 20], [30, 30]], [[0, 0], [10, 10]], [[10, 10], [0, 0]]]
    {
        let found = switched([before, after], &one.packets[6..]);
        found.assert_all_good(2);
        let isns = found.connections[1].directions.each_ref().map(|direction| direction.isn);
        assert_eq!(isns, one.isns.map(Some));
    }
    // The middle of another connection.
    let mut other = other_session([0x5000_0000, 0x6000_0000]);
    other.talk();
    let found = switched([[10, 10], [20, 20]], &other.packets[6..]);
    assert_eq!((found.count(Verdict::Good), found.count(Verdict::BadMac)), (6, 0));
    found.assert_diagnosed("isn-not-seen", &["the capture lacks the start of the connection"]);
}

#[test]
fn secrets_of_two_networks_are_not_compared() {
    let [mut one, mut other] = [Session::usual([1000, 5000]), Session::usual([77, 88])];
    one.signing[0].secret = b"another secret".to_vec();
    other.ends = [one.ends[1], one.ends[0]].map(|end| Endpoint::new(end.address(), end.port() ^ 1));
    for session in [&mut one, &mut other] {
        let syn = session.signed(0, SYN, &[], &[]);
        session.repeat(0, &syn, 3);
    }
    let within = |other_vlan| {
        let vlans = |packets: &[Recorded], vlan| {
            packets.iter().map(|(time, packet)| (*time, vlan_frame(vlan, packet))).collect::<Vec<_>>()
        };
        found(&mixed(&vlans(&one.packets, 10), &vlans(&other.packets, other_vlan)))
    };
    assert!(within(10).kinds().contains(&"secrets-differ"), "{:#?}", within(10).diagnoses());
    let apart = within(20);
    assert!(!apart.kinds().contains(&"secrets-differ"), "{:#?}", apart.diagnoses());
    assert!(apart.diagnoses().iter().all(|diagnosis| !diagnosis.cause.contains("different secrets")));
}

/// A router with one interface: each packet comes in one VLAN and leaves in the other, and the capture may lack some.
#[test]
fn a_segment_recorded_in_two_networks_is_no_failure() {
    let mut session = session();
    session.talk();
    session.close();
    let routed = |(time, packet): &Recorded| {
        let vlans = if is_openers(packet) { [10, 20] } else { [20, 10] };
        vlans.map(|vlan| (*time, vlan_frame(vlan, packet)))
    };
    let packets: Vec<_> = session.packets.iter().flat_map(routed).collect();
    found(&packets).assert_all_good(2);
    for lost in 0..packets.len() {
        let mut packets = packets.clone();
        packets.remove(lost);
        let found = found(&packets);
        let failed = found.segments.iter().filter(|segment| segment.verdict.is_failure()).count();
        assert_eq!(failed, 0, "without packet {lost}: {:?}", found.verdicts());
        assert!(!found.connections.iter().any(|connection| connection.standing() == Standing::Failed));
    }
    // As on both sides of a bridge.
    let twice: Vec<_> = session.packets.iter().flat_map(|packet| [packet.clone(), packet.clone()]).collect();
    let bridged = verify(&twice, &[IPV4_KEY]);
    bridged.assert_all_good(1);
    assert!(bridged.segments.iter().any(|segment| segment.is_retransmission));
}

#[test]
fn reports_name_the_network_and_what_was_skipped() {
    let files = Files::new();
    let arp = (0, ethernet(0x0806, &[0; 28]));
    let tunnel =
        |packet: &Recorded| (packet.0, vlan_frame(3, &udp(0, 4789, &vxlan(5000, &frame(&packet.1)))));
    let packets: Vec<_> =
        [arp.clone(), arp].into_iter().chain(session().packets.iter().map(tunnel)).collect();
    let mut capture = PcapWriter::new(Vec::new()).unwrap();
    for (time, octets) in &packets {
        let packet = PcapPacket::new(Duration::from_nanos(*time), octets.len() as u32, octets);
        capture.write_packet(&packet).unwrap();
    }
    let path = files.file("tunnel.pcap", capture.into_writer());
    let arguments = ["verify", path.to_str().unwrap(), "--key", IPV4_KEY];
    let text = wireseal(arguments);
    text.assert_says("192.0.2.1:50000 -> 192.0.2.2:179 (VLAN 3, VNI 5000)  good");
    text.assert_says("\nskipped: 2 packets of ARP (EtherType 0x0806)\n");
    assert_eq!(text.code, 0);
    let json = wireseal(arguments.iter().chain(&["--json"])).json();
    assert_eq!(json["connections"][0]["scope"], json!([{"vlan": 3}, {"vni": 5000}]));
    let skipped = json!([{"what": "EtherType", "number": 0x0806, "name": "ARP", "packets": 2}]);
    assert_eq!(json["totals"]["skipped"], skipped);
}
