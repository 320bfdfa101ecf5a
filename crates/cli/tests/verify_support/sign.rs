//! Segments signed anew, rightly or with a fault.

use std::net::IpAddr;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::option::{Options, TCP_HEADER_LENGTH, kind};
use wireseal_tcp_ao::{
    AoOption, Endpoint, Isn, KdfContext, MasterKey, OptionCoverage, Segment, Sne, TrafficKey, checksum,
    segment_mac,
};

use super::Recorded;
pub use super::packet::packet;

/// How an end signs.
#[derive(Clone)]
pub struct Signing {
    pub algorithm: TcpAoAlgorithm,
    pub secret: Vec<u8>,
    pub key_id: u8,
    pub rnext_key_id: u8,
    pub mac_length: usize,
    pub options: OptionCoverage,
    /// Added to the SNE.
    pub sne: u32,
    /// The ends as the signer sees them, sender first, where they are others than in the packet.
    pub ends: Option<[Endpoint; 2]>,
    /// What the signer has in the checksum field, given the segment with checksum and MAC zero.
    pub checksum: Option<fn(&Segment<'_>) -> u16>,
}

impl Signing {
    pub fn new(algorithm: TcpAoAlgorithm, secret: &[u8], key_id: u8) -> Self {
        Self {
            algorithm,
            secret: secret.to_vec(),
            key_id,
            rnext_key_id: key_id,
            mac_length: 12,
            options: OptionCoverage::Covered,
            sne: 0,
            ends: None,
            checksum: None,
        }
    }

    /// That of the session over IPv4.
    pub fn ipv4() -> Self {
        Self::new(TcpAoAlgorithm::Aes128Cmac, b"first-secret", 100)
    }

    /// That of the session over IPv6.
    pub fn ipv6() -> Self {
        let secret = b"kd2 long passphrase, more than one block of sha1 input, 80 bytes max";
        Self::new(TcpAoAlgorithm::HmacSha1, secret, 7)
    }

    /// The MAC of a segment with room for it, in a connection with these ISNs, the sender's first.
    pub fn mac(&self, addresses: (IpAddr, IpAddr), tcp: &[u8], isns: [Isn; 2], sne: Sne) -> Vec<u8> {
        let mut tcp = tcp.to_vec();
        let mut addresses = addresses;
        if let Some([source, destination]) = self.ends {
            tcp[..2].copy_from_slice(&source.port().to_be_bytes());
            tcp[2..4].copy_from_slice(&destination.port().to_be_bytes());
            addresses = (source.address(), destination.address());
        }
        let segment = Segment::from_tcp(addresses.0, addresses.1, &tcp).unwrap();
        let destination_isn =
            if segment.flags().syn() && !segment.flags().ack() { Isn::UNKNOWN } else { isns[1] };
        let context = KdfContext {
            source: segment.source(),
            destination: segment.destination(),
            source_isn: isns[0],
            destination_isn,
        };
        let master_key = MasterKey::new(&self.secret).unwrap();
        let key = TrafficKey::derive(self.algorithm, &master_key, &context);
        let sne = Sne(sne.0.wrapping_add(self.sne));
        let mac = match self.checksum {
            None => segment_mac(&key, sne, &segment, self.options).unwrap(),
            Some(checksum) => {
                let field = checksum(&segment);
                let mut input = sne.0.to_be_bytes().to_vec();
                match addresses {
                    (IpAddr::V4(source), IpAddr::V4(destination)) => {
                        input.extend(source.octets());
                        input.extend(destination.octets());
                        input.extend([0, 6]);
                        input.extend((tcp.len() as u16).to_be_bytes());
                    }
                    (IpAddr::V6(source), IpAddr::V6(destination)) => {
                        input.extend(source.octets());
                        input.extend(destination.octets());
                        input.extend((tcp.len() as u32).to_be_bytes());
                        input.extend([0, 0, 0, 6]);
                    }
                    _ => panic!("a segment of two families"),
                }
                let header_at = input.len();
                input.extend(segment.tcp());
                input[header_at + 16..header_at + 18].copy_from_slice(&field.to_be_bytes());
                key.mac_key().mac(&[&input])
            }
        };
        mac.truncated(self.mac_length).to_vec()
    }

    /// The segment with an AO option in place of any it has (where it was, if it has the right length), signed.
    pub fn sign(&self, addresses: (IpAddr, IpAddr), tcp: &[u8], isns: [Isn; 2], sne: Sne) -> Vec<u8> {
        let mut tcp = with_ao(tcp, self.key_id, self.rnext_key_id, self.mac_length);
        let mac = self.mac(addresses, &tcp, isns, sne);
        put_mac(&mut tcp, &mac);
        set_checksum(addresses, &mut tcp);
        tcp
    }
}

/// The segment with an AO option of these ids with a MAC of zeros and no checksum: where it has such an option, else behind
/// its other options.
pub fn with_ao(tcp: &[u8], key_id: u8, rnext_key_id: u8, mac_length: usize) -> Vec<u8> {
    let header = usize::from(tcp[12] >> 4) * 4;
    if let Ok(Some(ao)) = AoOption::find(&tcp[TCP_HEADER_LENGTH..header])
        && ao.mac.len() == mac_length
    {
        let place = TCP_HEADER_LENGTH + ao.offset + 2;
        let mut tcp = tcp.to_vec();
        tcp[place..place + 2].copy_from_slice(&[key_id, rnext_key_id]);
        tcp[place + 2..place + 2 + mac_length].fill(0);
        tcp[16..18].fill(0);
        return tcp;
    }
    let mut options = other_options(&tcp[TCP_HEADER_LENGTH..header]);
    options.extend([kind::AUTHENTICATION, AoOption::length_with(mac_length) as u8, key_id, rnext_key_id]);
    options.resize(options.len() + mac_length, 0);
    assemble(tcp, &options)
}

/// The segment without an AO option, unsigned.
pub fn without_ao(addresses: (IpAddr, IpAddr), tcp: &[u8]) -> Vec<u8> {
    let header = usize::from(tcp[12] >> 4) * 4;
    let mut tcp = assemble(tcp, &other_options(&tcp[TCP_HEADER_LENGTH..header]));
    set_checksum(addresses, &mut tcp);
    tcp
}

fn other_options(options: &[u8]) -> Vec<u8> {
    let mut others = Vec::new();
    for option in Options::new(options).map(Result::unwrap) {
        if option.kind != kind::AUTHENTICATION {
            others.extend([option.kind, option.length() as u8]);
            others.extend(option.data);
        }
    }
    others
}

/// The segment with these options in place of its own, and without checksum.
pub fn assemble(tcp: &[u8], options: &[u8]) -> Vec<u8> {
    let header = usize::from(tcp[12] >> 4) * 4;
    let mut assembled = tcp[..TCP_HEADER_LENGTH].to_vec();
    assembled.extend(options);
    assembled.resize(assembled.len().next_multiple_of(4), kind::NO_OPERATION);
    assert!(assembled.len() <= 60, "the options have no room");
    assembled[12] = ((assembled.len() / 4) as u8) << 4;
    assembled[16..18].fill(0);
    assembled.extend(&tcp[header..]);
    assembled
}

/// Puts a MAC into a segment's AO option.
pub fn put_mac(tcp: &mut [u8], mac: &[u8]) {
    let header = usize::from(tcp[12] >> 4) * 4;
    let ao = AoOption::find(&tcp[TCP_HEADER_LENGTH..header]).unwrap().unwrap();
    let place = TCP_HEADER_LENGTH + ao.offset + 4;
    tcp[place..place + mac.len()].copy_from_slice(mac);
}

pub fn set_checksum((source, destination): (IpAddr, IpAddr), tcp: &mut [u8]) {
    tcp[16..18].fill(0);
    let checksum = checksum::tcp_to_send(source, destination, tcp);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
}

/// A recorded session signed anew: the opener's segments the one way, the listener's the other.
pub fn signed_anew(packets: &[Recorded], opener: &Signing, listener: &Signing) -> Vec<Recorded> {
    let syn = Segment::parse(&packets[0].1).unwrap();
    let syn_ack = Segment::parse(&packets[1].1).unwrap();
    assert!(syn.flags().syn() && syn_ack.flags().syn() && syn_ack.flags().ack());
    let isns = [Isn(syn.sequence().0), Isn(syn_ack.sequence().0)];
    let anew = |(time, octets): &Recorded| {
        let segment = Segment::parse(octets).unwrap();
        let addresses = (segment.source_address(), segment.destination_address());
        let (signing, isns) =
            if segment.source() == syn.source() { (opener, isns) } else { (listener, [isns[1], isns[0]]) };
        let tcp = signing.sign(addresses, segment.tcp(), isns, Sne(0));
        (*time, packet(addresses, &tcp))
    };
    packets.iter().map(anew).collect()
}
