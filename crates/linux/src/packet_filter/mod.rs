//! Which packets the kernel copies to a packet socket: a program in its classic BPF, which it runs on every packet.

use std::iter;
use std::net::IpAddr;

use cidr::IpCidr;
use socket2::SockFilter;

/// The TCP segments that are wanted.
///
/// What can only be decided by more than a look at a packet's first headers passes too: fragments, IPv6 with extension headers, and
/// whatever may carry another packet, such as MPLS, PPPoE, GRE, IP in IP, or UDP to a port of VXLAN, Geneve or GTP-U.
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
/// Ports of UDP with packets inside: GTP-U, VXLAN, Geneve, MPLS (RFC 7510), Linux's first port for VXLAN.
const TUNNELS: [u32; 5] = [2152, 4789, 6081, 6635, 8472];

// Instructions of linux/filter.h. X holds where a header begins; what is loaded is in A.
const LOAD_ABSOLUTE_16: u16 = 0x28;
const LOAD_ABSOLUTE_32: u16 = 0x20;
const LOAD_32: u16 = 0x40;
const LOAD_16: u16 = 0x48;
const LOAD_8: u16 = 0x50;
const LOAD_KEPT: u16 = 0x60;
const KEEP: u16 = 0x02;
const SET_X: u16 = 0x01;
const A_TO_X: u16 = 0x07;
const X_TO_A: u16 = 0x87;
const ADD: u16 = 0x04;
const ADD_X: u16 = 0x0c;
const AND: u16 = 0x54;
const SHIFT_LEFT: u16 = 0x64;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
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
        to.finish()
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

/// A place in the program that is jumped to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Label(usize);

/// Instructions, some of which are jumps to places that are not known yet. A conditional jump goes at most 255 instructions far, so each
/// goes around an unconditional one.
#[derive(Default)]
struct Assembler {
    instructions: Vec<Instruction>,
    /// Where labels are, once that is known.
    places: Vec<usize>,
}

enum Instruction {
    Plain {
        code: u16,
        operand: u32,
    },
    /// Goes on with the next instruction but one if the condition holds, or if it does not.
    Skip {
        code: u16,
        operand: u32,
        if_so: bool,
    },
    Jump(Label),
}

impl Assembler {
    fn label(&mut self) -> Label {
        self.places.push(0);
        Label(self.places.len() - 1)
    }

    fn place(&mut self, label: Label) {
        self.places[label.0] = self.instructions.len();
    }

    fn emit(&mut self, code: u16, operand: u32) {
        self.instructions.push(Instruction::Plain { code, operand });
    }

    fn jump(&mut self, target: Label) {
        self.instructions.push(Instruction::Jump(target));
    }

    /// Jumps if A is one of these.
    fn jump_if_in(&mut self, values: &[u32], target: Label) {
        for &operand in values {
            self.instructions.push(Instruction::Skip { code: JUMP_IF_EQUAL, operand, if_so: false });
            self.jump(target);
        }
    }

    /// Jumps unless A is this.
    fn jump_unless(&mut self, operand: u32, target: Label) {
        self.instructions.push(Instruction::Skip { code: JUMP_IF_EQUAL, operand, if_so: true });
        self.jump(target);
    }

    /// Jumps if the IPv4 header is of a fragment: it has an offset, or more follow.
    fn jump_if_fragment(&mut self, target: Label) {
        self.emit(LOAD_16, 6);
        let more_or_offset = 0x3fff;
        self.instructions.push(Instruction::Skip {
            code: JUMP_IF_ANY_BIT,
            operand: more_or_offset,
            if_so: false,
        });
        self.jump(target);
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

    fn finish(self) -> Vec<SockFilter> {
        let Self { instructions, places } = self;
        let encoded = iter::zip(1.., &instructions).map(|(next, instruction)| match *instruction {
            Instruction::Plain { code, operand } => SockFilter::new(code, 0, 0, operand),
            Instruction::Skip { code, operand, if_so } => {
                SockFilter::new(code, if_so.into(), (!if_so).into(), operand)
            }
            // All jumps go forward.
            Instruction::Jump(Label(label)) => SockFilter::new(JUMP, 0, 0, (places[label] - next) as u32),
        });
        encoded.collect()
    }
}

#[cfg(test)]
mod tests;
