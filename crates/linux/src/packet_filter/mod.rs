//! Which packets the kernel copies to a packet socket: a program in its classic BPF, which it runs on every packet.

use std::net::IpAddr;

use cidr::IpCidr;
use socket2::SockFilter;

use crate::bpf::{
    A_TO_X, ADD, ADD_X, AND, Assembler, Instruction, JUMP_IF_ANY_BIT, JUMP_IF_EQUAL, KEEP, LOAD_8, LOAD_16,
    LOAD_32, LOAD_ABSOLUTE_16, LOAD_ABSOLUTE_32, LOAD_KEPT, Label, RETURN, SET_X, SHIFT_LEFT, X_TO_A,
};

/// The TCP segments that are wanted.
///
/// What can only be decided by more than a look at a packet's first headers passes too: fragments, IPv6 with extension headers, and
/// whatever may carry another packet, such as MPLS, PPPoE, GRE, IP in IP, or UDP to a port of VXLAN, Geneve, GTP-U
/// or L2TP.
#[derive(Clone, Default, Debug)]
pub struct PacketFilter {
    /// One of the addresses is in one of these networks; any address if there is none.
    pub peers: Vec<IpCidr>,
    /// One of the ports is one of these; any port if there is none.
    pub ports: Vec<u16>,
}

/// The most octets that are copied of a packet.
const WHOLE: u32 = 0x40000;
/// The most instructions that the kernel takes.
const MOST: usize = 4096;

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
/// IEEE 802.1Q, 802.1ad (QinQ), and the older value for QinQ.
const VLAN: [u32; 3] = [0x8100, 0x88a8, 0x9100];
/// EtherTypes that carry no IP packet: ARP, LACP, LLDP.
const WITHOUT_IP: [u32; 3] = [0x0806, 0x8809, 0x88cc];
const TCP: u32 = 6;
const UDP: u32 = 17;
/// IP protocols that carry no TCP: ICMP, IGMP, ESP, ICMPv6, OSPF, PIM, VRRP, SCTP.
const WITHOUT_TCP: [u32; 8] = [1, 2, 50, 58, 89, 103, 112, 132];
/// Ports of UDP with packets inside: L2TP, GTP-U, VXLAN, VXLAN-GPE, Geneve, MPLS (RFC 7510), Linux's own port for VXLAN.
const TUNNELS: [u32; 7] = [1701, 2152, 4789, 4790, 6081, 6635, 8472];

/// Loads the packet's EtherType from what the kernel knows of it (`SKF_AD_OFF` and `SKF_AD_PROTOCOL`).
const ETHER_TYPE: u32 = -0x1000_i32 as u32;

impl PacketFilter {
    /// The program for packets that begin with an Ethernet header, or with what follows it.
    pub(crate) fn program(&self, has_ethernet: bool) -> Vec<SockFilter> {
        let whole = self.assemble(has_ethernet);
        if whole.len() <= MOST {
            return whole;
        }
        // Too many peers to tell them apart here: whoever reads the packets does it.
        let by_port = Self { peers: Vec::new(), ports: self.ports.clone() }.assemble(has_ethernet);
        if by_port.len() <= MOST { by_port } else { Self::default().assemble(has_ethernet) }
    }

    fn assemble(&self, has_ethernet: bool) -> Vec<SockFilter> {
        let mut to = Assembler::default();
        let [accept, refuse, ip] = [(); 3].map(|()| to.label());
        let [ipv4, ipv6, ports, tunnels] = [(); 4].map(|()| to.label());
        if has_ethernet {
            to.emit(LOAD_ABSOLUTE_16, 12);
            to.emit(SET_X, 14);
        } else {
            to.emit(LOAD_ABSOLUTE_32, ETHER_TYPE);
            to.emit(SET_X, 0);
        }
        // The kernel takes one VLAN tag off, and keeps others.
        for _ in 0..2 {
            let tagged = to.label();
            to.jump_if_in(&VLAN, tagged);
            to.jump(ip);
            to.place(tagged);
            to.emit(LOAD_16, 2);
            to.emit(KEEP, 0);
            to.advance(4);
            to.emit(LOAD_KEPT, 0);
        }
        to.place(ip);
        to.jump_if_in(&[IPV4], ipv4);
        to.jump_if_in(&[IPV6], ipv6);
        to.jump_if_in(&WITHOUT_IP, refuse);
        to.jump(accept);

        to.place(ipv4);
        let [tcp, udp, wanted] = [(); 3].map(|()| to.label());
        to.emit(LOAD_8, 9);
        to.by_protocol(tcp, udp, accept, refuse);
        to.place(tcp);
        to.jump_if_fragment(accept);
        self.match_peers(&mut to, IpCidr::is_ipv4, &[12, 16], wanted, refuse);
        to.place(wanted);
        to.skip_ipv4_header();
        to.jump(ports);
        to.place(udp);
        to.jump_if_fragment(accept);
        to.skip_ipv4_header();
        to.jump(tunnels);

        to.place(ipv6);
        let [tcp, udp, wanted] = [(); 3].map(|()| to.label());
        to.emit(LOAD_8, 6);
        to.by_protocol(tcp, udp, accept, refuse);
        to.place(tcp);
        self.match_peers(&mut to, IpCidr::is_ipv6, &[8, 24], wanted, refuse);
        to.place(wanted);
        to.advance(40);
        to.jump(ports);
        to.place(udp);
        to.advance(40);
        to.jump(tunnels);

        to.place(ports);
        if !self.ports.is_empty() {
            let wanted: Vec<u32> = self.ports.iter().copied().map(u32::from).collect();
            for place in [0, 2] {
                to.emit(LOAD_16, place);
                to.jump_if_in(&wanted, accept);
            }
            to.jump(refuse);
        }
        to.jump(accept);
        to.place(tunnels);
        to.emit(LOAD_16, 2);
        to.jump_if_in(&TUNNELS, accept);
        to.place(refuse);
        to.emit(RETURN, 0);
        to.place(accept);
        to.emit(RETURN, WHOLE);
        let encode = |Instruction { code, if_true, if_false, operand }: Instruction| {
            SockFilter::new(code, if_true, if_false, operand)
        };
        to.finish().into_iter().map(encode).collect()
    }

    /// Continues at `wanted` if an address of the IP header, at one of these places, is of a peer or there are none, else at `refuse`.
    fn match_peers(
        &self,
        to: &mut Assembler,
        is_of_version: fn(&IpCidr) -> bool,
        places: &[u32; 2],
        wanted: Label,
        refuse: Label,
    ) {
        if self.peers.is_empty() {
            return;
        }
        for peer in self.peers.iter().filter(|peer| is_of_version(peer)) {
            for place in places {
                let other = to.label();
                for (index, (word, mask)) in words(peer).enumerate() {
                    to.emit(LOAD_32, place + 4 * index as u32);
                    to.emit(AND, mask);
                    to.jump_unless(word, other);
                }
                to.jump(wanted);
                to.place(other);
            }
        }
        to.jump(refuse);
    }
}

/// The words of a network's address with their masks, as far as the prefix goes.
fn words(network: &IpCidr) -> impl Iterator<Item = (u32, u32)> {
    let address = match network.first_address() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let length = u32::from(network.network_length());
    (0..length.div_ceil(32)).map(move |index| {
        let mask = u32::MAX << 32_u32.saturating_sub(length - 32 * index);
        let word = address.chunks_exact(4).nth(index as usize).and_then(<[u8]>::first_chunk);
        (word.map_or(0, |word| u32::from_be_bytes(*word)), mask)
    })
}

/// What programs for packets repeat.
impl Assembler {
    /// Jumps if A is one of these.
    fn jump_if_in(&mut self, values: &[u32], target: Label) {
        values.iter().for_each(|&value| self.jump_if(JUMP_IF_EQUAL, value, target));
    }

    /// Jumps if the IPv4 header is of a fragment: it has an offset, or more follow.
    fn jump_if_fragment(&mut self, target: Label) {
        let more_or_offset = 0x3fff;
        self.emit(LOAD_16, 6);
        self.jump_if(JUMP_IF_ANY_BIT, more_or_offset, target);
    }

    /// Jumps by the IP protocol in A.
    fn by_protocol(&mut self, tcp: Label, udp: Label, accept: Label, refuse: Label) {
        self.jump_if_in(&[TCP], tcp);
        self.jump_if_in(&[UDP], udp);
        self.jump_if_in(&WITHOUT_TCP, refuse);
        self.jump(accept);
    }

    /// Moves X by so many octets.
    fn advance(&mut self, octets: u32) {
        self.emit(X_TO_A, 0);
        self.emit(ADD, octets);
        self.emit(A_TO_X, 0);
    }

    /// Moves X behind the IPv4 header, whose length is in words.
    fn skip_ipv4_header(&mut self) {
        self.emit(LOAD_8, 0);
        self.emit(AND, 0x0f);
        self.emit(SHIFT_LEFT, 2);
        self.emit(ADD_X, 0);
        self.emit(A_TO_X, 0);
    }
}

#[cfg(test)]
mod tests;
