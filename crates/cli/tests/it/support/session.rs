//! Recorded and constructed sessions, with segments signed correctly or with a fault, and what `verify` finds in them.

use std::convert::Infallible;
use std::net::IpAddr;
use std::path::PathBuf;

use pcap_file::pcap::PcapReader;
use wireseal::capture::{Packet, Time};
use wireseal::keys::{self, Keys};
use wireseal::report::{Format, Report, Subject};
use wireseal::verify::report::{ConnectionReport, Diagnosis, SegmentReport, Totals, Verdict};
use wireseal::verify::{Verifier, VerifyEvent, VerifyOptions};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::option::{Options, TCP_HEADER_LENGTH, kind};
use wireseal_tcp_ao::{
    AoOption, Endpoint, FieldName, Isn, KdfContext, KeyId, MasterKey, Mkt, OptionCoverage, Segment, Sne,
    TrafficKey, checksum,
};

use super::files::crates;
use super::generate::ip_packet;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// The option for an MSS of 1,460 octets, as in SYNs.
pub const MSS: [u8; 4] = [2, 4, 0x05, 0xb4];

/// Two ends; 0 opens, 1 listens.
pub struct Session {
    pub ends: [Endpoint; 2],
    pub isns: [Isn; 2],
    /// Each end's next sequence number, not wrapped.
    pub next: [u64; 2],
    pub signing: [Signing; 2],
    pub time: u64,
    pub packets: Vec<Recorded>,
}

impl Session {
    pub fn new(isns: [u32; 2], signing: [Signing; 2]) -> Self {
        Self {
            ends: [Endpoint::new([192, 0, 2, 1], 50_000), Endpoint::new([192, 0, 2, 2], 179)],
            isns: isns.map(Isn),
            next: isns.map(u64::from),
            signing,
            time: 1_780_000_000_000_000_000,
            packets: Vec::new(),
        }
    }

    /// A session whose ends both sign like the recorded one over IPv4.
    pub fn usual(isns: [u32; 2]) -> Self {
        Self::new(isns, [Signing::ipv4(), Signing::ipv4()])
    }

    /// Verifies with [`IPV4_KEY`], and asserts that every segment is good, in this many connections.
    #[track_caller]
    pub fn all_good(&self, connections: usize) -> Found {
        let found = verify(&self.packets, &[IPV4_KEY]);
        found.assert_all_good(connections);
        found
    }

    /// Verifies with [`IPV4_KEY`], and asserts that there is one kind of diagnosis, with all of these words.
    #[track_caller]
    pub fn assert_diagnosed(&self, kind: &str, words: &[&str]) -> Found {
        let found = verify(&self.packets, &[IPV4_KEY]);
        found.assert_diagnosed(kind, words);
        found
    }

    pub fn wait(&mut self, seconds: u64) {
        self.time += seconds * 1_000_000_000;
    }

    pub fn addresses(&self, sender: usize) -> (IpAddr, IpAddr) {
        (self.ends[sender].address(), self.ends[1 - sender].address())
    }

    /// The segment that an end would send next, without TCP-AO and checksum.
    pub fn header(&self, sender: usize, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(self.ends[sender].port().to_be_bytes());
        tcp.extend(self.ends[1 - sender].port().to_be_bytes());
        tcp.extend((self.next[sender] as u32).to_be_bytes());
        let acknowledgment = if flags & ACK == 0 { 0 } else { self.next[1 - sender] as u32 };
        tcp.extend(acknowledgment.to_be_bytes());
        tcp.extend([((20 + options.len()) as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.extend(payload);
        tcp
    }

    /// The same, signed.
    pub fn signed(&self, sender: usize, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let tcp = self.header(sender, flags, options, payload);
        let isns = [self.isns[sender], self.isns[1 - sender]];
        let sne = Sne((self.next[sender] >> 32) as u32);
        self.signing[sender].sign(self.addresses(sender), &tcp, isns, sne)
    }

    /// Records a segment.
    pub fn record(&mut self, sender: usize, tcp: &[u8]) {
        self.time += 1_000_000;
        self.packets.push((self.time, ip_packet(self.addresses(sender), tcp)));
    }

    /// Records a segment this many times, as a stack repeats an unanswered one: after 1, 2, 4 … seconds.
    pub fn repeat(&mut self, sender: usize, tcp: &[u8], count: u32) {
        for number in 0..count {
            if number > 0 {
                self.wait(1 << (number - 1));
            }
            self.record(sender, tcp);
        }
    }

    /// Advances the sequence number of an end by a segment.
    pub fn advance(&mut self, sender: usize, flags: u8, payload: usize) {
        self.next[sender] += payload as u64 + u64::from(flags & (SYN | FIN) != 0);
    }

    /// Sends a segment, signed.
    pub fn send(&mut self, sender: usize, flags: u8, payload: &[u8]) {
        let options: &[u8] = if flags & SYN == 0 { &[] } else { &MSS };
        let tcp = self.signed(sender, flags, options, payload);
        self.record(sender, &tcp);
        self.advance(sender, flags, payload.len());
    }

    /// Sends a segment, unsigned.
    pub fn send_unsigned(&mut self, sender: usize, flags: u8, options: &[u8], payload: &[u8]) {
        let mut tcp = self.header(sender, flags, options, payload);
        set_checksum(self.addresses(sender), &mut tcp);
        self.record(sender, &tcp);
        self.advance(sender, flags, payload.len());
    }

    pub fn shake_hands(&mut self) {
        self.send(0, SYN, &[]);
        self.send(1, SYN | ACK, &[]);
        self.send(0, ACK, &[]);
    }

    /// One segment each way, acknowledged.
    pub fn talk(&mut self) {
        self.send(0, ACK | PSH, b"the opener's words");
        self.send(1, ACK | PSH, b"the listener's words");
        self.send(0, ACK, &[]);
    }

    /// A new connection of the same ends, with other ISNs.
    pub fn again(&mut self, isns: [u32; 2]) {
        self.isns = isns.map(Isn);
        self.next = isns.map(u64::from);
    }

    pub fn close(&mut self) {
        self.send(0, FIN | ACK, &[]);
        self.send(1, FIN | ACK, &[]);
        self.send(0, ACK, &[]);
    }
}

/// A connection with a handshake and one segment of data each way.
pub fn session() -> Session {
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.talk();
    session
}

/// LINKTYPE_RAW: packets begin with their IP header.
const RAW: u16 = 101;

/// The recorded sessions, and their keys as `--key` takes them.
pub const IPV4_SESSION: &str = "bird-ipv4-cmac.pcap";
pub const IPV4_KEY: &str = "send=100,recv=100,alg=aes-128-cmac-96,secret=first-secret";
pub const IPV6_SESSION: &str = "bird-ipv6-sha1.pcap";
pub const IPV6_KEY: &str = "send=7,recv=7,alg=hmac-sha-1-96,secret-hex=6b6432206c6f6e6720706173737068726173652c206d6f7265\
                            207468616e206f6e6520626c6f636b206f66207368613120696e7075742c203830206279746573206d6178";

/// An IP packet and its time in nanoseconds.
pub type Recorded = (u64, Vec<u8>);

/// Where a recorded session is.
pub fn capture_path(name: &str) -> PathBuf {
    crates().join("tcp-ao/tests/data/captures").join(name)
}

/// The IP packets with TCP of a recorded session, a second apart.
pub fn recorded(name: &str) -> Vec<Recorded> {
    let mut reader = PcapReader::new(std::fs::File::open(capture_path(name)).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let packet = frame.unwrap().data[14..].to_vec();
        if Segment::parse(&packet).is_ok() {
            packets.push((1_780_000_000_000_000_000 + packets.len() as u64 * 1_000_000_000, packet));
        }
    }
    packets
}

/// An IP packet of a capture.
pub fn packet(number: u64, (time, octets): &Recorded) -> Packet<'_> {
    let time = Some(Time::from_unix_nanoseconds(*time));
    Packet { number, time, link_type: RAW, octets, original_length: octets.len() }
}

/// Everything found in a capture.
#[derive(Debug)]
pub struct Found {
    pub segments: Vec<SegmentReport>,
    pub connections: Vec<ConnectionReport>,
    pub totals: Totals,
}

impl Found {
    /// What is found when the capture has only `recorded` octets of the packet with this index and length.
    pub fn cut(
        packets: &[Recorded],
        keys: &Keys,
        options: VerifyOptions,
        recorded: impl Fn(usize, usize) -> usize,
    ) -> Self {
        let cut = packets.iter().enumerate().map(|(index, recorded_packet)| {
            let packet = packet(index as u64 + 1, recorded_packet);
            Packet { octets: &packet.octets[..recorded(index, packet.octets.len())], ..packet }
        });
        Self::of(cut, keys, options)
    }

    /// What is found in packets of another link type.
    pub fn on(link_type: u16, packets: &[Recorded], keys: &Keys) -> Self {
        let packets =
            (1..).zip(packets).map(|(number, packet_at)| Packet { link_type, ..packet(number, packet_at) });
        Self::of(packets, keys, VerifyOptions::default())
    }

    fn of<'p>(packets: impl Iterator<Item = Packet<'p>>, keys: &Keys, options: VerifyOptions) -> Self {
        let mut verifier = Verifier::new(keys, options);
        let (mut segments, mut connections) = (Vec::new(), Vec::new());
        let mut each = |event: VerifyEvent<'_>| {
            match event {
                VerifyEvent::Segment { segment, .. } => segments.push(segment),
                VerifyEvent::Connection(connection) => connections.push(*connection),
            }
            Ok::<_, Infallible>(())
        };
        for packet in packets {
            verifier.packet(&packet, &mut each).unwrap();
        }
        let totals = verifier.finish(None, each).unwrap();
        Self { segments, connections, totals }
    }

    pub fn verdicts(&self) -> Vec<Verdict> {
        self.segments.iter().map(|segment| segment.verdict).collect()
    }

    pub fn count(&self, verdict: Verdict) -> u64 {
        self.totals.counts[verdict.index()]
    }

    /// Asserts that every segment is good, in this many connections.
    #[track_caller]
    pub fn assert_all_good(&self, connections: usize) {
        assert!(!self.segments.is_empty());
        assert_eq!(self.count(Verdict::Good), self.segments.len() as u64, "{:?}", self.verdicts());
        assert_eq!(self.connections.len(), connections);
    }

    /// The last line of the report about these keys.
    pub fn last_line(&self, arguments: &[&str]) -> String {
        let keys = keys(arguments);
        let subject = Subject { capture: "session.pcap", keys: &keys };
        let mut output = Vec::new();
        let mut report =
            Report::new(&mut output, Format::Text { colours: false, all: false }, subject).unwrap();
        self.connections.iter().for_each(|connection| report.connection(connection).unwrap());
        report.finish(&self.totals).unwrap();
        String::from_utf8(output).unwrap().lines().last().unwrap().to_owned()
    }

    pub fn diagnoses(&self) -> Vec<&Diagnosis> {
        self.connections.iter().flat_map(|connection| &connection.diagnoses).collect()
    }

    /// The kinds of all diagnoses, without repetition.
    pub fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self.diagnoses().iter().map(|diagnosis| diagnosis.kind).collect();
        kinds.dedup();
        kinds
    }

    /// Asserts that there is one kind of diagnosis, with all of these words.
    #[track_caller]
    pub fn assert_diagnosed(&self, kind: &str, words: &[&str]) {
        assert_eq!(self.kinds(), [kind], "{:#?}", self.diagnoses());
        for diagnosis in self.diagnoses() {
            for word in words {
                assert!(diagnosis.sentence().contains(word), "{word:?} is not in: {}", diagnosis.sentence());
            }
        }
    }
}

/// Ignores what a verifier finds.
pub fn ignore(_: VerifyEvent<'_>) -> Result<(), Infallible> {
    Ok(())
}

pub fn keys(arguments: &[&str]) -> Keys {
    let read = arguments.iter().flat_map(|text| keys::from_argument(text).unwrap().keys().unwrap().keys);
    Keys { keys: read.collect() }
}

pub fn verify_with(packets: &[Recorded], arguments: &[&str], options: VerifyOptions) -> Found {
    Found::cut(packets, &keys(arguments), options, |_, length| length)
}

/// Checks packets against keys.
pub fn verify(packets: &[Recorded], arguments: &[&str]) -> Found {
    verify_with(packets, arguments, VerifyOptions::default())
}

/// Options with this `--isn`.
pub fn with_isns(hint: &str) -> VerifyOptions {
    VerifyOptions { isns: vec![hint.parse().unwrap()], ..VerifyOptions::default() }
}

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
    /// The ends as the signer sees them, sender first, if they differ from the packet's.
    pub ends: Option<[Endpoint; 2]>,
    /// The signer's checksum field, given the segment with checksum and MAC zero.
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
        let key = self.key([segment.source(), segment.destination()], [isns[0], destination_isn]);
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

    /// The traffic key in this direction, with the sender's end and ISN first; a SYN has no second ISN.
    pub fn key(
        &self,
        [source, destination]: [Endpoint; 2],
        [source_isn, destination_isn]: [Isn; 2],
    ) -> TrafficKey {
        let master_key = MasterKey::new(&self.secret).unwrap();
        // The ids do not matter to traffic keys.
        let mkt = Mkt::with_short_master_key(KeyId(0), KeyId(0), self.algorithm, master_key).unwrap();
        TrafficKey::derive(&mkt, &KdfContext { source, destination, source_isn, destination_isn })
    }

    /// The segment with a new TCP-AO option, signed; the option replaces an old one of the right length.
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
        (*time, ip_packet(addresses, &tcp))
    };
    packets.iter().map(anew).collect()
}
