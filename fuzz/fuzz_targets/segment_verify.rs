//! Parsing, compared with etherparse and a slow reader; and verifying: signed segments verify, altered ones do not.
//!
//! Input: an octet that chooses algorithm and coverage, an IP packet and, after it as link-layer padding, three octets for every
//! alteration: the place and the difference.
#![no_main]

use etherparse::{SlicedPacket, TransportSlice};
use libfuzzer_sys::fuzz_target;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_fuzz::{hosts, slow};
use wireseal_tcp_ao::ip::IpHeader;
use wireseal_tcp_ao::{
    Endpoint, Isn, KdfContext, KeyId, OptionCoverage, ParseError, Segment, Sne, TrafficKey, sign_segment,
    verify_segment,
};

fuzz_target!(|input: &[u8]| {
    let [choice, packet @ ..] = input else { return };
    compare(packet);
    let Ok(segment) = Segment::parse(packet) else { return };
    let Ok(Some(ao)) = segment.ao_option() else { return };
    // A fuzzer that runs for days could guess a MAC below eight octets; one above 16 is never configured.
    if !(8..=16).contains(&ao.mac.len()) {
        return;
    }
    let coverage = if choice & 0x80 == 0 { OptionCoverage::Covered } else { OptionCoverage::Excluded };
    let algorithm = TcpAoAlgorithm::ALL[usize::from(choice & 0x7f) % TcpAoAlgorithm::ALL.len()];
    let mkt = hosts::mkt(hosts::secret(input), 1, 2, algorithm).with_options(coverage);
    let mkt = mkt.with_mac_length(ao.mac.len()).expect("a length in range");
    let parameters = mkt.parameters();
    // The corpus is signed with other keys, and these keys cannot be guessed.
    let key = |port| {
        let (source, destination) = (Endpoint::new([192, 0, 2, 1], port), Endpoint::new([192, 0, 2, 2], 179));
        let context = KdfContext {
            source,
            destination,
            source_isn: Isn(0x0102_0304),
            destination_isn: Isn(0x0506_0708),
        };
        TrafficKey::derive(&mkt, &context)
    };
    let sne = Sne(u32::from(*choice));
    let verify = |key: &TrafficKey, sne, segment: &Segment<'_>| verify_segment(key, sne, parameters, segment);
    assert!(verify(&key(1), sne, &segment).is_err(), "a MAC that was never computed");

    let addresses = (segment.source_address(), segment.destination_address());
    let mut signed = segment.tcp().to_vec();
    sign_segment(&key(1), sne, parameters, KeyId(9), addresses, &mut signed)
        .expect("an AO option of this size");
    let view = Segment::from_tcp(addresses.0, addresses.1, &signed).expect("as before");
    verify(&key(1), sne, &view).expect("what was signed verifies");
    assert!(verify(&key(2), sne, &view).is_err(), "under another key");
    assert!(verify(&key(1), Sne(sne.0 ^ 1), &view).is_err(), "under another SNE");
    if addresses.0.to_canonical() != addresses.1.to_canonical() {
        let reversed = Segment::from_tcp(addresses.1, addresses.0, &signed).expect("as before");
        assert!(verify(&key(1), sne, &reversed).is_err(), "in the other direction");
    }

    let ip = IpHeader::parse(packet).expect("as before");
    let mut altered = signed.clone();
    for alteration in packet[ip.total_length..].as_chunks::<3>().0 {
        let at = usize::from(u16::from_be_bytes([alteration[0], alteration[1]])) % altered.len();
        altered[at] ^= alteration[2];
    }
    if let Ok(view) = Segment::from_tcp(addresses.0, addresses.1, &altered) {
        let is_same = covered(&altered, coverage) == covered(&signed, coverage);
        assert_eq!(verify(&key(1), sne, &view).is_ok(), is_same, "{signed:02x?} {altered:02x?}");
    }
});

/// The octets that the MAC covers (RFC 5925 §5.1), and the MAC itself.
fn covered(tcp: &[u8], coverage: OptionCoverage) -> Option<Vec<Vec<u8>>> {
    let (header, payload) = tcp.split_at(usize::from(tcp[12] >> 4) * 4);
    let options = &header[20..];
    let (offset, data) = slow::ao(options).ok()??;
    let fixed = [&header[..16], &header[18..20]].concat();
    let options = match coverage {
        OptionCoverage::Covered => options.to_vec(),
        OptionCoverage::Excluded => options[offset..offset + 2 + data.len()].to_vec(),
    };
    Some(vec![fixed, options, payload.to_vec()])
}

/// The parser agrees with the two other readers on every packet.
fn compare(packet: &[u8]) {
    let parsed = Segment::parse(packet);
    let slow = slow::tcp_packet(packet).filter(|found| !found.is_fragment && found.tcp.len() >= 20);
    let slow = slow.filter(|found| (20..=found.tcp.len()).contains(&(usize::from(found.tcp[12] >> 4) * 4)));
    match (&parsed, slow) {
        (Ok(segment), Some(found)) => {
            assert_eq!(segment.tcp(), found.tcp);
            if !found.is_routed_on {
                assert_eq!((segment.source_address(), segment.destination_address()), found.addresses);
            }
        }
        (Err(_), None) => {}
        // Refused: a routing header that hides the final destination, or home addresses that contradict each other.
        (Err(_), Some(found)) => assert!(found.is_routed_on),
        (Ok(segment), None) => panic!("{segment:?} is no whole segment"),
    }
    // etherparse accepts an authentication header in IPv4, and reads an IPv6 length of zero as a jumbogram.
    let Ok(sliced) = SlicedPacket::from_ip(packet) else { return };
    let Some(payload) = sliced.ip_payload() else { return };
    let is_plain = match packet[0] >> 4 {
        4 => packet[9] == 6,
        _ => packet[4..6] != [0, 0],
    };
    if is_plain
        && !payload.fragmented
        && let Some(TransportSlice::Tcp(tcp)) = &sliced.transport
    {
        match parsed {
            Ok(segment) => {
                assert_eq!(segment.header(), tcp.header_slice());
                assert_eq!(segment.payload(), tcp.payload());
                assert_eq!(segment.source().port(), tcp.source_port());
                assert_eq!(segment.destination().port(), tcp.destination_port());
                assert_eq!(segment.sequence().0, tcp.sequence_number());
                assert_eq!(segment.acknowledgment().0, tcp.acknowledgment_number());
                let flags = segment.flags();
                assert_eq!((flags.syn(), flags.ack()), (tcp.syn(), tcp.ack()));
                assert_eq!((flags.fin(), flags.rst()), (tcp.fin(), tcp.rst()));
            }
            Err(error) => {
                let is_of_ip = matches!(
                    error,
                    ParseError::IpVersion(_)
                        | ParseError::IpTooShort
                        | ParseError::IpLength
                        | ParseError::RoutingHeader(_)
                        | ParseError::HomeAddresses
                );
                assert!(is_of_ip, "{error}");
            }
        }
    }
}
