//! Segments signed again, correctly or with a fault.

use std::net::IpAddr;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::option::{Options, TCP_HEADER_LENGTH, kind};
use wireseal_tcp_ao::{
    AoOption, Endpoint, FieldName, Isn, KdfContext, KeyId, MasterKey, Mkt, OptionCoverage, Segment, Sne,
    TrafficKey, checksum,
};

use super::found::Recorded;
use super::packet::packet;

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

    /// Like the recorded session over IPv4.
    pub fn ipv4() -> Self {
        Self::new(TcpAoAlgorithm::Aes128Cmac, b"first-secret", 100)
    }

    /// Like the recorded session over IPv6.
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
        // The ids do not matter to traffic keys.
        let mkt = Mkt::with_short_master_key(KeyId(0), KeyId(0), self.algorithm, master_key).unwrap();
        let key = TrafficKey::derive(&mkt, &context);
        let sne = Sne(sne.0.wrapping_add(self.sne));
        let input = segment.mac_input(sne, self.options).unwrap();
        let mac = match self.checksum {
            None => input.mac(&key),
            Some(checksum) => {
                let checksum = checksum(&segment).to_be_bytes();
                let octets = input.fields().flat_map(|field| match field.name {
                    FieldName::Checksum => checksum.to_vec(),
                    _ => field.as_ref().to_vec(),
                });
                key.mac_key().mac(&[&octets.collect::<Vec<_>>()])
            }
        };
        mac.truncated(self.mac_length).to_vec()
    }

    /// The segment with a new TCP-AO option, signed; in place of the old one if that has the right length.
    pub fn sign(&self, addresses: (IpAddr, IpAddr), tcp: &[u8], isns: [Isn; 2], sne: Sne) -> Vec<u8> {
        let mut tcp = with_ao(tcp, self.key_id, self.rnext_key_id, self.mac_length);
        let mac = self.mac(addresses, &tcp, isns, sne);
        put_mac(&mut tcp, &mac);
        set_checksum(addresses, &mut tcp);
        tcp
    }
}

/// The segment with a TCP-AO option of these ids, a MAC of zeros and no checksum: in place of such an option, or else after the
/// other options.
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

/// The segment without a TCP-AO option.
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

/// The segment with these options instead of its own, and without a checksum.
fn assemble(tcp: &[u8], options: &[u8]) -> Vec<u8> {
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

/// Puts a MAC into a segment's TCP-AO option.
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

/// A recorded session signed again, by opener and listener as given.
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
