//! A session in every encapsulation, whole and cut off.

use wireseal::capture::{Content, Packet, Skipped, Unreadable};
use wireseal_tcp_ao::ip::IpHeader;

use crate::support::encapsulations::{BOTTOM, ETHERNET, ROWS, Row};
use crate::support::session::{
    Found, IPV4_KEY, IPV4_SESSION, IPV6_KEY, IPV6_SESSION, Recorded, keys, recorded,
};
use crate::support::wrap::{ethernet, frame, gre, ipv4, join, label, udp, vxlan};

/// The packets of a session, wrapped.
fn wrapped(row: &Row, session: &[Recorded]) -> Vec<Recorded> {
    let source = |packet: &[u8]| IpHeader::parse(packet).unwrap().source;
    let opener = source(&session[0].1);
    let wrap = |(time, packet): &Recorded| (*time, (row.wrap)(packet, u8::from(source(packet) != opener)));
    session.iter().map(wrap).collect()
}

fn content(link_type: u16, octets: &[u8], original_length: usize) -> Content<'_> {
    Content::of(&Packet { number: 1, time: None, link_type, octets, original_length })
}

fn whole(octets: &[u8]) -> Content<'_> {
    content(ETHERNET, octets, octets.len())
}

#[test]
fn a_session_is_judged_in_every_encapsulation() {
    for row in ROWS {
        for (session, key) in [(IPV4_SESSION, IPV4_KEY), (IPV6_SESSION, IPV6_KEY)] {
            let session = recorded(session);
            let found = Found::on(row.link_type, &wrapped(row, &session), &keys(&[key]));
            assert_eq!(found.segments.len(), session.len(), "{}: {:?}", row.name, found.totals);
            found.assert_all_good(1);
            assert_eq!(found.connections[0].scope.to_string(), row.scope, "{}", row.name);
        }
    }
}

/// The part that is missing is known, and nothing is taken for a segment that is not one.
#[test]
fn packets_cut_off_anywhere() {
    for row in ROWS {
        for session in [IPV4_SESSION, IPV6_SESSION] {
            let (_, packet) = recorded(session).swap_remove(4);
            let frame = (row.wrap)(&packet, 0);
            let Content::Tcp(all) = content(row.link_type, &frame, frame.len()) else {
                panic!("{}", row.name)
            };
            let behind =
                frame.len() - (all.octets.as_ptr() as usize - frame.as_ptr() as usize) - all.octets.len();
            for recorded in 0..frame.len() - behind {
                match content(row.link_type, &frame[..recorded], frame.len()) {
                    Content::Tcp(segment) => {
                        let expected = &all.octets[..segment.octets.len()];
                        assert_eq!(segment.octets, expected, "{} at {recorded}", row.name);
                        assert_eq!(segment.octets.len() + segment.missing, all.octets.len(), "{}", row.name);
                        assert!(segment.missing > 0);
                    }
                    Content::Unreadable(Unreadable::CutOff { missing }) => {
                        assert_eq!(missing.min(frame.len()), frame.len() - recorded, "{}", row.name);
                    }
                    // Nothing says that the frame would go on behind the datagram or session.
                    Content::Other(Skipped::IpProtocol(17 | 115)) => {}
                    Content::Other(Skipped::GtpMessage(255)) => {}
                    other => panic!("{} at {recorded}: {other:?}", row.name),
                }
            }
        }
    }
}

/// What no longer fits is read without a panic, and never beyond the packet.
#[test]
fn packets_with_wrong_octets() {
    for row in ROWS {
        let (_, packet) = recorded(IPV4_SESSION).swap_remove(4);
        let frame = (row.wrap)(&packet, 0);
        for place in 0..frame.len() {
            for octet in [0x00, 0x01, 0x45, 0x7f, 0xff] {
                let mut wrong = frame.clone();
                wrong[place] = octet;
                for recorded in [frame.len(), place + 1] {
                    if let Content::Tcp(segment) = content(row.link_type, &wrong[..recorded], recorded)
                        && segment.missing == 0
                    {
                        assert!(segment.octets.len() <= packet.len(), "{} at {place}", row.name);
                    }
                }
            }
        }
    }
}

#[test]
fn encapsulations_end_somewhere() {
    let (_, mut packet) = recorded(IPV4_SESSION).swap_remove(4);
    for _ in 0..10 {
        packet = ipv4(0, 4, &packet);
    }
    assert!(matches!(whole(&frame(&packet)), Content::Tcp(_)));
    for _ in 0..10 {
        packet = ipv4(0, 4, &packet);
    }
    assert_eq!(whole(&frame(&packet)), Content::Unreadable(Unreadable::TooDeep));
    // Tags and labels without end.
    let labels = label(16, false).repeat(16_000);
    assert_eq!(whole(&ethernet(0x8847, &labels)), Content::Unreadable(Unreadable::TooShort));
    let tags = [0, 5, 0x81, 0].repeat(16_000);
    assert_eq!(whole(&ethernet(0x8100, &tags)), Content::Unreadable(Unreadable::TooDeep));
}

#[test]
fn datagrams_that_are_no_tunnel_are_udp() {
    let (_, packet) = recorded(IPV4_SESSION).swap_remove(4);
    let dns = join(&[&[0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0], &packet]);
    for port in [53, 1701, 2152, 4789, 4790, 6081, 8472] {
        for content in [&dns[..], &[0xff; 40], &[0; 8], &[]] {
            let found = whole(&frame(&udp(0, port, content))) == Content::Other(Skipped::IpProtocol(17));
            assert!(found, "port {port}");
        }
    }
    // A tunnel's header on another port.
    let other = udp(0, 4788, &vxlan(5, &frame(&packet)));
    assert_eq!(whole(&frame(&other)), Content::Other(Skipped::IpProtocol(17)));
}

#[test]
fn what_cannot_be_looked_into_is_named() {
    let (_, packet) = recorded(IPV4_SESSION).swap_remove(4);
    let mirrored = |version: u8| {
        let fields = [0, 0, 0, 9, version << 4, 4, 0x18, 5, 0, 0, 0, 6, 0, 0, 0, 0];
        frame(&ipv4(0, 47, &gre(0x1000, 0x88be, &fields, &frame(&packet))))
    };
    let encrypted = ethernet(0x88e5, &join(&[&[0x0c, 0, 0, 0, 0, 1], &[0xee; 80]]));
    let control = ethernet(0x8847, &join(&[&BOTTOM, &[0x10, 0, 0, 7], &[0xee; 40]]));
    let unknown_wire = ethernet(0x8847, &join(&[&BOTTOM, &[0; 4], &[0xee; 40]]));
    let gtp_echo = frame(&udp(0, 2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0]));
    let compressed = ethernet(0x8864, &[0x11, 0, 0, 5, 0, 9, 0x00, 0x2d, 1, 2, 3, 4, 5, 6, 7]);
    let esp = frame(&ipv4(0, 50, &[0xee; 60]));
    let pvst = ethernet(40, &join(&[&[0xaa, 0xaa, 3, 0, 0, 0x0c, 1, 0x0b], &[0; 32]]));
    for (octets, words) in [
        (mirrored(3), "ERSPAN version 3"),
        (encrypted, "MACsec (EtherType 0x88e5)"),
        (control, "pseudowire control"),
        (unknown_wire, "pseudowire of unknown content"),
        (gtp_echo, "echo request (GTP-U message 1)"),
        (compressed, "Van Jacobson's compressed TCP (PPP protocol 0x002d)"),
        (esp, "ESP (IP protocol 50)"),
        (pvst, "PVST+ (SNAP protocol 0x010b)"),
    ] {
        let skipped = match whole(&octets) {
            Content::Other(skipped) => skipped,
            Content::Unreadable(why) => Skipped::Unreadable(why),
            other => panic!("{words}: {other:?}"),
        };
        assert_eq!(skipped.to_string(), words);
    }
}

/// A switch may mirror only the start of each frame, and says so in the header.
#[test]
fn frames_that_a_mirror_truncated_are_cut_off() {
    let (_, packet) = recorded(IPV4_SESSION).swap_remove(4);
    let mirrored = |truncated: u8| {
        let fields = [0, 0, 0, 9, 0x10, 4, 0x18 | truncated, 5, 0, 0, 0, 6];
        frame(&ipv4(0, 47, &gre(0x1000, 0x88be, &fields, &frame(&packet[..packet.len() - 10]))))
    };
    let octets = mirrored(0x04);
    let Content::Tcp(segment) = whole(&octets) else { panic!("{:?}", whole(&octets)) };
    assert_eq!(segment.missing, 10);
    // Without that, the length in its IP header is wrong.
    assert!(matches!(whole(&mirrored(0)), Content::Unreadable(Unreadable::Ip(_))));
}
