//! Every encapsulation that is looked into, as a function that wraps an IP packet.

use super::wrap::{
    ether_type, ethernet, frame, gre, ipv4, ipv6, join, label, ppp, tag, udp, vlan_frame, vxlan,
};

/// LINKTYPE_ETHERNET.
pub const ETHERNET: u16 = 1;

/// An encapsulation.
pub struct Row {
    pub name: &'static str,
    pub link_type: u16,
    /// Wraps an IP packet; the second argument is 0 for packets of the opener and 1 for those of the listener.
    pub wrap: fn(&[u8], u8) -> Vec<u8>,
    /// The scope that is reported.
    pub scope: &'static str,
}

const fn row(name: &'static str, link_type: u16, scope: &'static str, wrap: fn(&[u8], u8) -> Vec<u8>) -> Row {
    Row { name, link_type, wrap, scope }
}

/// A label at the bottom of its stack.
pub const BOTTOM: [u8; 4] = [0x00, 0x06, 0x31, 0x40];

/// A frame to this address.
fn frame_to(destination: [u8; 6], packet: &[u8]) -> Vec<u8> {
    let mut frame = frame(packet);
    frame[..6].copy_from_slice(&destination);
    frame
}

fn junos(flags: u8, extensions: &[u8], content: &[u8]) -> Vec<u8> {
    let length = (extensions.len() as u16).to_be_bytes();
    let length = if flags & 0x80 == 0 { &[][..] } else { &length };
    join(&[b"MGC", &[flags], length, extensions, content])
}

fn nflog(number: fn(u16) -> [u8; 2], packet: &[u8]) -> Vec<u8> {
    let attribute = |kind, value: &[u8]| {
        let mut octets = join(&[&number(4 + value.len() as u16), &number(kind), value]);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    };
    join(&[&[2, 0, 0, 5], &attribute(1, &[8, 0, 1, 0]), &attribute(10, b"prefix\0"), &attribute(9, packet)])
}

fn erspan_iii(flags: u16, content: &[u8]) -> Vec<u8> {
    join(&[&[0x20, 4, 0, 5], &[0; 6], &flags.to_be_bytes(), content])
}

pub const ROWS: &[Row] = &[
    row("Ethernet", ETHERNET, "", |p, _| frame(p)),
    row("802.1Q", ETHERNET, "VLAN 10", |p, _| vlan_frame(10, p)),
    row("priority tag", ETHERNET, "", |p, _| vlan_frame(0, p)),
    row("QinQ", ETHERNET, "VLAN 5, VLAN 10", |p, _| {
        ethernet(0x88a8, &tag(5, 0x8100, &tag(10, ether_type(p), p)))
    }),
    row("four tags, the innermost count", ETHERNET, "VLAN 2, VLAN 3, VLAN 4095", |p, _| {
        let inner = tag(3, 0x8100, &tag(4095, ether_type(p), p));
        ethernet(0x9100, &tag(1, 0x9200, &tag(2, 0x9300, &inner)))
    }),
    row("PBB", ETHERNET, "VLAN 7, I-SID 70000, VLAN 10", |p, _| {
        let inner = join(&[&[0], &70_000_u32.to_be_bytes()[1..], &vlan_frame(10, p)]);
        ethernet(0x88a8, &tag(7, 0x88e7, &inner))
    }),
    row("LLC/SNAP", ETHERNET, "", |p, _| {
        ethernet(8 + p.len() as u16, &join(&[&[0xaa, 0xaa, 3, 0, 0, 0], &ether_type(p).to_be_bytes(), p]))
    }),
    row("LLC/SNAP in a VLAN", ETHERNET, "VLAN 9", |p, _| {
        let content = join(&[&[0xaa, 0xaa, 3, 0, 0, 0], &ether_type(p).to_be_bytes(), p]);
        ethernet(0x8100, &tag(9, content.len() as u16, &content))
    }),
    row("LLC with IP", ETHERNET, "", |p, _| ethernet(3 + p.len() as u16, &join(&[&[6, 6, 3], p]))),
    row("LLC in a jumbo frame", ETHERNET, "", |p, _| {
        ethernet(0x8870, &join(&[&[0xaa, 0xaa, 3, 0, 0, 0], &ether_type(p).to_be_bytes(), p]))
    }),
    row("security group tag", ETHERNET, "VLAN 10", |p, _| {
        let inner = join(&[&[1, 1, 0, 1, 0, 77], &ether_type(p).to_be_bytes(), p]);
        ethernet(0x8100, &tag(10, 0x8909, &inner))
    }),
    row("VN-Tag", ETHERNET, "VLAN 10", |p, _| {
        ethernet(0x8926, &join(&[&[0, 1, 0, 2, 0x81, 0], &tag(10, ether_type(p), p)]))
    }),
    row("E-Tag", ETHERNET, "", |p, _| {
        ethernet(0x893f, &join(&[&[0, 1, 0, 2, 0, 0], &ether_type(p).to_be_bytes(), p]))
    }),
    row("MACsec without encryption", ETHERNET, "", |p, _| {
        let head = [0x20, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 1];
        ethernet(0x88e5, &join(&[&head, &ether_type(p).to_be_bytes(), p, &[0xee; 16]]))
    }),
    row("MPLS", ETHERNET, "", |p, _| ethernet(0x8847, &join(&[&label(16_001, true), p]))),
    row("MPLS, three labels, multicast", ETHERNET, "", |p, _| {
        ethernet(0x8848, &join(&[&label(16_001, false), &label(7, false), &label(99, true), p]))
    }),
    row("MPLS in a VLAN", ETHERNET, "VLAN 10", |p, _| {
        ethernet(0x8100, &tag(10, 0x8847, &join(&[&label(16_001, true), p])))
    }),
    row("pseudowire with control word", ETHERNET, "VLAN 3", |p, _| {
        ethernet(0x8847, &join(&[&BOTTOM, &[0, 0, 0, 5], &vlan_frame(3, p)]))
    }),
    row("pseudowire with control word, address like one", ETHERNET, "", |p, _| {
        ethernet(0x8847, &join(&[&BOTTOM, &[0; 4], &frame_to([0, 0, 0x5e, 0, 1, 2], p)]))
    }),
    row("pseudowire without control word", ETHERNET, "", |p, _| {
        ethernet(0x8847, &join(&[&BOTTOM, &frame_to([0xac, 0, 0, 0, 0, 1], p)]))
    }),
    row("pseudowire, address like a control word", ETHERNET, "", |p, _| {
        ethernet(0x8847, &join(&[&BOTTOM, &frame_to([0, 0, 0x5e, 0, 1, 2], p)]))
    }),
    row("pseudowire, address like a control message", ETHERNET, "", |p, _| {
        ethernet(0x8847, &join(&[&BOTTOM, &frame_to([0x10, 0, 0x5e, 0, 1, 2], p)]))
    }),
    row("pseudowire, address like IPv4", ETHERNET, "", |p, _| {
        ethernet(0x8847, &join(&[&BOTTOM, &frame_to([0x45, 0, 0, 0x54, 1, 2], p)]))
    }),
    row("pseudowire, address like IPv6", ETHERNET, "", |p, _| {
        ethernet(0x8847, &join(&[&BOTTOM, &frame_to([0x60, 0, 0, 0, 0, 2], p)]))
    }),
    row("IP pseudowire with control word", ETHERNET, "", |p, _| {
        ethernet(0x8847, &join(&[&BOTTOM, &[0; 4], p]))
    }),
    row("PPPoE", ETHERNET, "", |p, _| {
        let content = ppp(p);
        let length = (content.len() as u16).to_be_bytes();
        ethernet(0x8864, &join(&[&[0x11, 0, 0, 5], &length, &content]))
    }),
    row("PPPoE, protocol of one octet", ETHERNET, "", |p, _| {
        let content = &ppp(p)[1..];
        let length = (content.len() as u16).to_be_bytes();
        ethernet(0x8864, &join(&[&[0x11, 0, 0, 5], &length, content]))
    }),
    row("PPPoE with MPLS", ETHERNET, "", |p, _| {
        ethernet(0x8864, &join(&[&[0x11, 0, 0, 5, 0, 0, 0x02, 0x81], &BOTTOM, p]))
    }),
    row("GRE", ETHERNET, "", |p, from| frame(&ipv4(from, 47, &gre(0, ether_type(p), &[], p)))),
    row("GRE in IPv6", ETHERNET, "", |p, from| frame(&ipv6(from, 47, &gre(0, ether_type(p), &[], p)))),
    row("GRE with every field", ETHERNET, "", |p, from| {
        let routes = [0, 2, 0, 4, 10, 0, 0, 9, 0, 0, 0, 0];
        let fields = join(&[&[1, 2, 0, 0], &[0, 0, 0, from], &[0, 0, 0, 9], &routes]);
        frame(&ipv4(from, 47, &gre(0xf000, ether_type(p), &fields, p)))
    }),
    row("GRE with a security group tag", ETHERNET, "", |p, from| {
        let fields = join(&[&ether_type(p).to_be_bytes(), &[1, 1, 0, 1, 0, 77]]);
        frame(&ipv4(from, 47, &gre(0, 0x8909, &fields, p)))
    }),
    row("GRE with Ethernet", ETHERNET, "VLAN 10", |p, from| {
        frame(&ipv4(from, 47, &gre(0x2000, 0x6558, &[0, 0, 1, 0], &vlan_frame(10, p))))
    }),
    row("GRE with MPLS", ETHERNET, "", |p, from| frame(&ipv4(from, 47, &gre(0, 0x8847, &BOTTOM, p)))),
    row("PPTP", ETHERNET, "", |p, from| {
        let content = join(&[&[0xff, 3], &ppp(p)]);
        let call = [(content.len() as u16).to_be_bytes(), [0, from]].concat();
        frame(&ipv4(from, 47, &gre(0x3001, 0x880b, &join(&[&call, &[0, 0, 0, 1]]), &content)))
    }),
    row("PPTP with acknowledgment", ETHERNET, "", |p, from| {
        frame(&ipv4(from, 47, &gre(0x3081, 0x880b, &[0; 12], &ppp(p))))
    }),
    row("ERSPAN I", ETHERNET, "", |p, from| frame(&ipv4(from, 47, &gre(0, 0x88be, &[], &frame(p))))),
    row("ERSPAN II", ETHERNET, "VLAN 10", |p, _| {
        let fields = [0, 0, 0, 9, 0x10, 4, 0x18, 5, 0, 0, 0, 6];
        frame(&ipv4(0, 47, &gre(0x1000, 0x88be, &fields, &vlan_frame(10, p))))
    }),
    row("ERSPAN II, tag taken off", ETHERNET, "VLAN 4", |p, _| {
        let fields = [0, 0, 0, 9, 0x10, 4, 0x10, 5, 0, 0, 0, 6];
        frame(&ipv4(0, 47, &gre(0x1000, 0x88be, &fields, &frame(p))))
    }),
    row("ERSPAN III", ETHERNET, "", |p, _| {
        frame(&ipv4(0, 47, &gre(0x1000, 0x22eb, &[0, 0, 0, 9], &erspan_iii(0x8000, &frame(p)))))
    }),
    row("ERSPAN III, subheader", ETHERNET, "", |p, _| {
        let content = erspan_iii(0x8001, &join(&[&[3, 0, 0, 5, 0, 0, 0, 1], &frame(p)]));
        frame(&ipv4(0, 47, &gre(0x1000, 0x22eb, &[0, 0, 0, 9], &content)))
    }),
    row("ERSPAN III, IP", ETHERNET, "", |p, _| {
        frame(&ipv4(0, 47, &gre(0x1000, 0x22eb, &[0, 0, 0, 9], &erspan_iii(0x0800, p))))
    }),
    row("IP in IP", ETHERNET, "", |p, from| frame(&ipv4(from, if p[0] >> 4 == 4 { 4 } else { 41 }, p))),
    row("IP in IPv6", ETHERNET, "", |p, from| frame(&ipv6(from, if p[0] >> 4 == 4 { 4 } else { 41 }, p))),
    row("EtherIP", ETHERNET, "", |p, from| frame(&ipv4(from, 97, &join(&[&[0x30, 0], &frame(p)])))),
    row("L2TPv3 without cookie", ETHERNET, "", |p, from| {
        frame(&ipv4(from, 115, &join(&[&[0, 0, 0, 5], &frame(p)])))
    }),
    row("L2TPv3, cookie and sublayer", ETHERNET, "VLAN 10", |p, from| {
        frame(&ipv4(from, 115, &join(&[&[0, 0, 0, 5], &[0x5a; 8], &[0x40, 0, 0, 1], &vlan_frame(10, p)])))
    }),
    row("L2TPv3 in UDP", ETHERNET, "", |p, from| {
        frame(&udp(from, 1701, &join(&[&[0, 3, 0, 0, 0, 0, 0, 5], &[0x5a; 4], &frame(p)])))
    }),
    row("L2TPv2", ETHERNET, "", |p, from| {
        frame(&udp(from, 1701, &join(&[&[0, 2, 0, 7, 0, 8, 0xff, 3], &ppp(p)])))
    }),
    row("L2TPv2 with every field", ETHERNET, "", |p, from| {
        let head = [0x4a, 2, 0, 0, 0, 7, 0, 8, 0, 1, 0, 2, 0, 2, 0xee, 0xee];
        frame(&udp(from, 1701, &join(&[&head, &ppp(p)])))
    }),
    row("MPLS in IP", ETHERNET, "", |p, from| frame(&ipv4(from, 137, &join(&[&BOTTOM, p])))),
    row("Ethernet in IPv6", ETHERNET, "", |p, from| frame(&ipv6(from, 143, &frame(p)))),
    row("authentication header", ETHERNET, "", |p, from| {
        let head = [if p[0] >> 4 == 4 { 4 } else { 41 }, 4];
        frame(&ipv4(from, 51, &join(&[&head, &[0; 22], p])))
    }),
    row("VXLAN", ETHERNET, "VNI 5000", |p, from| frame(&udp(from, 4789, &vxlan(5000, &frame(p))))),
    row("VXLAN with reserved bits", ETHERNET, "VNI 5", |p, from| {
        let mut header = vxlan(5, &frame(p));
        (header[0], header[7]) = (0x28, 1);
        frame(&udp(from, 4789, &header))
    }),
    row("VXLAN with a next protocol", ETHERNET, "VNI 5", |p, from| {
        let mut header = vxlan(5, &frame(p));
        (header[0], header[3]) = (0x0c, 3);
        frame(&udp(from, 4789, &header))
    }),
    row("VXLAN on Linux's port", ETHERNET, "VLAN 3, VNI 5000, VLAN 10", |p, from| {
        vlan_frame(3, &udp(from, 8472, &vxlan(5000, &vlan_frame(10, p))))
    }),
    row("VXLAN-GPE", ETHERNET, "VNI 5", |p, from| {
        frame(&udp(from, 4790, &join(&[&[0x0c, 0, 0, if p[0] >> 4 == 4 { 1 } else { 2 }, 0, 0, 5, 0], p])))
    }),
    row("VXLAN-GPE with NSH", ETHERNET, "VNI 5", |p, from| {
        let nsh = [0x0f, 0xc6, 1, 3, 0, 0, 1, 255];
        let content = join(&[&[0x0c, 0, 0, 4, 0, 0, 5, 0], &nsh, &[0; 16], &frame(p)]);
        frame(&udp(from, 4790, &content))
    }),
    row("Geneve", ETHERNET, "VNI 16777215", |p, from| {
        let head = [2, 0, 0x65, 0x58, 0xff, 0xff, 0xff, 0];
        frame(&udp(from, 6081, &join(&[&head, &[0; 8], &frame(p)])))
    }),
    row("Geneve with IP", ETHERNET, "VNI 1", |p, from| {
        let [high, low] = ether_type(p).to_be_bytes();
        frame(&udp(from, 6081, &join(&[&[0, 0, high, low, 0, 0, 1, 0], p])))
    }),
    row("GTP-U", ETHERNET, "", |p, from| {
        frame(&udp(from, 2152, &join(&[&[0x30, 255, 0, 0, 0, 0, 0, from], p])))
    }),
    row("GTP-U with extensions", ETHERNET, "", |p, from| {
        let head = [0x36, 255, 0, 0, 0, 0, 0, from, 0, 1, 0, 0x85];
        frame(&udp(from, 2152, &join(&[&head, &[1, 0, 9, 0x20], &[2, 0, 0, 0, 0, 0, 0, 0], p])))
    }),
    row("GTP-U with Ethernet", ETHERNET, "", |p, from| {
        frame(&udp(from, 2152, &join(&[&[0x30, 255, 0, 0, 0, 0, 0, from], &frame(p)])))
    }),
    row("everything at once", ETHERNET, "VLAN 3, VNI 77, VLAN 10", |p, from| {
        let inner = vxlan(77, &vlan_frame(10, &ipv4(from, if p[0] >> 4 == 4 { 4 } else { 41 }, p)));
        let datagram = udp(from, 4789, &inner);
        let tunnel = ipv6(from, 47, &gre(0x2000, 0x0800, &[0, 0, 0, from], &datagram));
        ethernet(0x8100, &tag(3, 0x8847, &join(&[&label(16, false), &BOTTOM, &tunnel])))
    }),
    row("PPP", 9, "", |p, _| ppp(p)),
    row("PPP with address and control", 9, "", |p, _| join(&[&[0xff, 3], &ppp(p)])),
    row("PPP in HDLC", 50, "", |p, _| join(&[&[0xff, 3], &ppp(p)])),
    row("PPP or Cisco HDLC", 50, "", |p, _| join(&[&[0x0f, 0], &ether_type(p).to_be_bytes(), p])),
    row("PPP over Ethernet", 51, "", |p, _| join(&[&[0x11, 0, 0, 5, 0, 0], &ppp(p)])),
    row("pppd", 166, "", |p, from| join(&[&[from, 3], &ppp(p)])),
    row("PPP with direction", 204, "", |p, from| join(&[&[from, 0xff, 3], &ppp(p)])),
    row("LLC over ATM", 100, "", |p, _| join(&[&[0xaa, 0xaa, 3, 0, 0, 0], &ether_type(p).to_be_bytes(), p])),
    row("Cisco HDLC", 104, "", |p, _| join(&[&[0x0f, 0], &ether_type(p).to_be_bytes(), p])),
    row("Cisco HDLC with MPLS", 104, "", |p, _| join(&[&[0x0f, 0, 0x88, 0x47], &BOTTOM, p])),
    row("Cisco HDLC with direction", 205, "", |p, from| {
        join(&[&[from, 0x0f, 0], &ether_type(p).to_be_bytes(), p])
    }),
    row("frame relay", 107, "", |p, _| {
        join(&[&[0x18, 0x41, 3, if p[0] >> 4 == 4 { 0xcc } else { 0x8e }], p])
    }),
    row("frame relay, Cisco", 107, "", |p, _| join(&[&[0x18, 0x41], &ether_type(p).to_be_bytes(), p])),
    row("frame relay, address of four octets, SNAP", 107, "", |p, _| {
        let head = [0x18, 0x40, 0, 1, 3, 0, 0x80, 0, 0, 0];
        join(&[&head, &ether_type(p).to_be_bytes(), p])
    }),
    row("frame relay, bridged, with direction", 206, "VLAN 10", |p, from| {
        join(&[&[from, 0x18, 0x41, 3, 0, 0x80, 0, 0x80, 0xc2, 0, 7], &vlan_frame(10, p)])
    }),
    row("Linux cooked, with LLC", 113, "", |p, _| {
        let head = [0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 0, 4];
        join(&[&head, &[0xaa, 0xaa, 3, 0, 0, 0], &ether_type(p).to_be_bytes(), p])
    }),
    row("Linux cooked 2, with MPLS", 276, "", |p, _| join(&[&[0x88, 0x47], &[0; 18], &BOTTOM, p])),
    row("MPLS alone", 219, "", |p, _| join(&[&BOTTOM, p])),
    row("IPNET", 226, "", |p, _| join(&[&[0; 24], p])),
    row("nflog, little-endian", 239, "", |p, _| nflog(u16::to_le_bytes, p)),
    row("nflog, big-endian", 239, "", |p, _| nflog(u16::to_be_bytes, p)),
    row("Junos Ethernet", 178, "VLAN 10", |p, _| junos(1, &[], &vlan_frame(10, p))),
    row("Junos Ethernet, extensions", 178, "", |p, _| junos(0x80, &[1, 1, 5, 2, 1, 2], &frame(p))),
    row("Junos Ethernet, flag without effect", 178, "", |p, _| junos(0x82, &[1, 1, 5, 2, 1, 2], &frame(p))),
    row("Junos without link layer", 178, "", |p, _| {
        junos(0x83, &[1, 1, 5], &join(&[&[if p[0] >> 4 == 4 { 2 } else { 6 }, 0, 0, 0], p]))
    }),
    row("Junos without link layer, MPLS", 178, "", |p, _| junos(2, &[], &join(&[&[5, 0, 0, 0], &BOTTOM, p]))),
    row("Junos PPPoE", 167, "", |p, _| {
        junos(0, &[], &ethernet(0x8864, &join(&[&[0x11, 0, 0, 5, 0, 0], &ppp(p)])))
    }),
    row("Junos PPP", 179, "", |p, _| junos(0, &[], &ppp(p))),
    row("Junos frame relay", 180, "", |p, _| {
        junos(0, &[], &join(&[&[0x18, 0x41], &ether_type(p).to_be_bytes(), p]))
    }),
    row("Junos Cisco HDLC", 181, "", |p, _| {
        junos(0, &[], &join(&[&[0x0f, 0], &ether_type(p).to_be_bytes(), p]))
    }),
];
