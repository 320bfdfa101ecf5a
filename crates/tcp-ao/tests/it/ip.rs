//! Finding the TCP segment in IP packets, behind any headers, and in the ICMP errors that quote it.

use std::net::Ipv6Addr;

use etherparse::{SlicedPacket, TransportSlice};
use proptest::collection::vec;
use proptest::prelude::*;
use wireseal_tcp_ao::ip::IpHeader;

use crate::support::*;

const SOURCE: [u8; 16] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

const FIRST_HOP: [u8; 16] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77];

const SECOND_HOP: [u8; 16] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x88];

const FINAL: [u8; 16] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

fn tcp() -> Vec<u8> {
    Parts::new(ipv6_pair(), ACK, 1, 2).options(&TIMESTAMPS).payload(b"keepalive").with_ao(12)
}

/// An extension header in units of eight octets: next header, length, data, padding (PadN or zeros).
fn extension(next_header: u8, data: &[u8]) -> Vec<u8> {
    let mut header = vec![next_header, 0];
    header.extend(data);
    header.resize(header.len().next_multiple_of(8), 0);
    header[1] = (header.len() / 8 - 1) as u8;
    header
}

/// A routing header of this type with these addresses.
fn routing(next_header: u8, kind: u8, segments_left: u8, addresses: &[[u8; 16]]) -> Vec<u8> {
    let last_entry = if kind == 4 { addresses.len() as u8 - 1 } else { 0 };
    extension(next_header, &[&[kind, segments_left, last_entry, 0, 0, 0][..], &addresses.concat()].concat())
}

fn fragment(next_header: u8, offset_and_more: u16) -> Vec<u8> {
    let [high, low] = offset_and_more.to_be_bytes();
    vec![next_header, 0, high, low, 0xde, 0xad, 0xbe, 0xef]
}

/// An authentication header (RFC 4302): its length counts words of four octets, less two.
fn authentication(next_header: u8, integrity_check: &[u8]) -> Vec<u8> {
    assert_eq!(integrity_check.len() % 4, 0);
    let fixed = [next_header, (integrity_check.len() / 4 + 1) as u8, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1];
    [&fixed[..], integrity_check].concat()
}

fn destination(packet: &[u8]) -> IpAddr {
    let segment = Segment::parse(packet).unwrap();
    assert_eq!(segment.tcp(), tcp());
    segment.destination_address()
}

fn behind(first: u8, extensions: &[u8]) -> Vec<u8> {
    ipv6_packet(SOURCE, FIRST_HOP, first, &[extensions, &tcp()].concat())
}

#[test]
fn ao_11_routing_headers_of_type_0_and_2_end_at_their_last_address() {
    let packet = behind(43, &routing(6, 0, 2, &[SECOND_HOP, FINAL]));
    assert_eq!(destination(&packet), IpAddr::from(FINAL));
    let packet = behind(43, &routing(6, 2, 1, &[FINAL]));
    assert_eq!(destination(&packet), IpAddr::from(FINAL));
}

#[test]
fn ao_11_a_segment_list_is_in_reverse_order() {
    let packet = behind(43, &routing(6, 4, 1, &[FINAL, SECOND_HOP]));
    assert_eq!(destination(&packet), IpAddr::from(FINAL));
    // Options follow the list, and the header's length includes them (RFC 8754 §2.1).
    let with_option = extension(6, &[&[4, 1, 0, 0, 0, 0][..], &FINAL, &[5, 6, 0, 0, 0, 0, 0, 0]].concat());
    assert_eq!(destination(&behind(43, &with_option)), IpAddr::from(FINAL));
}

#[test]
fn ao_11_a_routing_header_without_segments_left_changes_nothing() {
    for kind in [0, 2, 4, 253] {
        let packet = behind(43, &routing(6, kind, 0, &[FINAL]));
        assert_eq!(destination(&packet), IpAddr::from(FIRST_HOP), "type {kind}");
    }
}

#[test]
fn ao_11_a_destination_that_cannot_be_read_is_an_error() {
    let packet = behind(43, &routing(6, 3, 1, &[FINAL]));
    assert_eq!(Segment::parse(&packet).unwrap_err(), ParseError::RoutingHeader(3));
    for kind in [0, 2, 4] {
        let packet = behind(43, &extension(6, &[kind, 1, 0, 0, 0, 0]));
        assert_eq!(Segment::parse(&packet).unwrap_err(), ParseError::IpLength, "type {kind}");
    }
}

#[test]
fn ao_11_the_mac_is_over_the_final_destination() {
    let packet = behind(43, &routing(6, 4, 1, &[FINAL, SECOND_HOP]));
    let segment = Segment::parse(&packet).unwrap();
    assert_eq!(segment.destination(), ipv6_pair().remote);
    assert_eq!(segment.source(), ipv6_pair().local);
    let context = KdfContext::syn(segment.source(), segment.destination(), Isn(1));
    let mkt = mkt(1, 1, TcpAoAlgorithm::HmacSha1);
    let key = TrafficKey::derive(&mkt, &context);
    let mac = |packet: &[u8]| {
        segment_mac(&key, Sne(0), OptionCoverage::Covered, &Segment::parse(packet).unwrap()).unwrap()
    };
    assert_eq!(mac(&packet), mac(&ipv6_packet(SOURCE, FINAL, 6, &tcp())));
    assert_ne!(mac(&packet), mac(&ipv6_packet(SOURCE, FIRST_HOP, 6, &tcp())));
}

#[test]
fn ao_11_an_atomic_fragment_is_whole_and_others_are_not() {
    assert_eq!(destination(&behind(44, &fragment(6, 0))), IpAddr::from(FIRST_HOP));
    // The two reserved bits beside the "more fragments" bit mean nothing (RFC 8200 §4.5).
    assert_eq!(destination(&behind(44, &fragment(6, 0b110))), IpAddr::from(FIRST_HOP));
    for offset_and_more in [1, 8, 9, 0xfff8, 0xffff] {
        let packet = behind(44, &fragment(6, offset_and_more));
        assert_eq!(Segment::parse(&packet).unwrap_err(), ParseError::Fragment);
    }
}

#[test]
fn ao_11_ipv4_fragments_options_and_padding() {
    let tcp = Parts::new(ipv4_pair(), ACK, 1, 2).payload(b"keepalive").with_ao(12);
    let whole = packet(ipv4_pair(), &tcp);
    for (field, is_fragment) in
        [(0x4000, false), (0x8000, false), (0x2000, true), (0x0001, true), (0x5fff, true)]
    {
        let mut packet = whole.clone();
        packet[6..8].copy_from_slice(&u16::to_be_bytes(field));
        assert_eq!(Segment::parse(&packet).is_err_and(|error| error == ParseError::Fragment), is_fragment);
    }
    let mut with_options = whole.clone();
    with_options.splice(20..20, [1, 1, 1, 0, 148, 4, 0, 0]);
    with_options[0] = 0x47;
    let length = with_options.len() as u16;
    with_options[2..4].copy_from_slice(&length.to_be_bytes());
    assert_eq!(Segment::parse(&with_options).unwrap().tcp(), tcp);
    // The smallest Ethernet frame has padding behind the packet.
    let padded = [&whole[..], &[0xa5; 46]].concat();
    assert_eq!(Segment::parse(&padded).unwrap().tcp(), tcp);
    let padded = [&ipv6_packet(SOURCE, FINAL, 6, &tcp)[..], &[0xa5; 46]].concat();
    assert_eq!(Segment::parse(&padded).unwrap().tcp(), tcp);
}

#[test]
fn ao_12_mapped_addresses_in_an_ipv6_header_are_ipv4_endpoints() {
    let mapped = |last: u8| {
        Ipv6Addr::from(u128::from_be_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last]))
    };
    let tcp = Parts::new(ipv4_pair(), ACK, 1, 2).with_ao(12);
    let packet = ipv6_packet(mapped(1).octets(), mapped(2).octets(), 6, &tcp);
    let segment = Segment::parse(&packet).unwrap();
    assert_eq!((segment.source(), segment.destination()), (ipv4_pair().local, ipv4_pair().remote));
    assert_eq!(segment.source_address(), IpAddr::from(mapped(1)));
    assert_eq!(Endpoint::new(mapped(1), 5), Endpoint::new([192, 0, 2, 1], 5));
}

/// The connection stores such addresses as IPv4.
#[test]
fn ao_12_a_connection_takes_segments_between_mapped_addresses() {
    let mut ends = Ends::<1>::with_ids(&[(1, 2)]);
    let segment = ends.active_data(b"in an IPv6 header");
    let mapped = |endpoint: Endpoint| match endpoint.address() {
        IpAddr::V4(address) => IpAddr::from(address.to_ipv6_mapped()),
        IpAddr::V6(_) => unreachable!(),
    };
    let SocketPair { local, remote } = ipv4_pair();
    let other = mapped(Endpoint::new([192, 0, 2, 9], 0));
    let refused = Segment::from_tcp(other, mapped(remote), &segment).unwrap();
    assert_eq!(ends.passive.verify(&refused).unwrap_err(), VerifyError::OtherConnection);
    let segment = Segment::from_tcp(mapped(local), mapped(remote), &segment).unwrap();
    ends.passive.verify(&segment).unwrap();
}

/// The MAC is over the connection's own addresses, so the segment's have to be compared.
#[test]
fn ao_12_a_connection_takes_no_segment_between_other_addresses() {
    for (pair, other) in
        [(ipv4_pair(), "192.0.2.9"), (ipv6_pair(), "2001:db8::9"), (ipv6_pair(), "192.0.2.1")]
    {
        let mut ends = Ends::<1>::connect(pair, (1, 2), &mkts(&[(1, 2)]), &mirrored(&[(1, 2)]));
        let signed = ends.active_data(b"data");
        let [local, remote] = [pair.local.address(), pair.remote.address()];
        let other = other.parse().unwrap();
        for (source, destination) in [(other, remote), (local, other), (other, other), (remote, local)] {
            let segment = Segment::from_tcp(source, destination, &signed).unwrap();
            let verdict = ends.passive.verify(&segment).map(|_| ());
            assert_eq!(verdict, Err(VerifyError::OtherConnection), "{source} to {destination}");
        }
        receive(&mut ends.passive, &signed).unwrap();
    }
}

/// A Destination Options header with a mobile node's home address (RFC 6275 §6.3), PadN before it or padding of one octet each.
fn home_address(next_header: u8, padding: &[u8], home: [u8; 16]) -> Vec<u8> {
    extension(next_header, &[padding, &[201, 16], &home].concat())
}

#[test]
fn ao_11_a_home_address_takes_the_place_of_the_source() {
    for padding in [&[1, 2, 0, 0][..], &[0, 0, 0, 0], &[0, 1, 1, 0], &[4, 2, 201, 16], &[]] {
        let packet = behind(60, &home_address(6, padding, SECOND_HOP));
        let header = IpHeader::parse(&packet).unwrap();
        assert_eq!((header.source, header.header_source), (SECOND_HOP.into(), SOURCE.into()), "{padding:?}");
        assert_eq!(Segment::parse(&packet).unwrap().source_address(), IpAddr::from(SECOND_HOP));
    }
    // Not after a truncated option, and not in a header of another kind.
    let without_length = extension(6, &[1, 2, 0, 0, 0, 201]);
    for extensions in [
        (60, home_address(6, &[4, 40], SECOND_HOP)),
        (60, without_length),
        (0, home_address(6, &[], SECOND_HOP)),
    ] {
        let header = IpHeader::parse(&behind(extensions.0, &extensions.1)).unwrap();
        assert_eq!((header.source, header.header_source), (SOURCE.into(), SOURCE.into()));
    }
    let twice = [home_address(60, &[], SECOND_HOP), home_address(6, &[], SOURCE)].concat();
    let in_one = extension(6, &[&[201, 16][..], &SECOND_HOP, &[201, 16], &SECOND_HOP].concat());
    let short = extension(6, &[&[201, 4][..], &SECOND_HOP].concat());
    let error = |extensions: &[u8]| IpHeader::parse(&behind(60, extensions)).unwrap_err();
    assert_eq!(error(&twice), ParseError::HomeAddresses);
    assert_eq!(error(&in_one), ParseError::HomeAddresses);
    assert_eq!(error(&short), ParseError::IpLength);
}

#[test]
fn ao_37_what_is_no_tcp_segment_says_why() {
    let error = |packet: &[u8]| Segment::parse(packet).unwrap_err();
    let tcp = tcp();
    assert_eq!(error(&[]), ParseError::IpTooShort);
    assert_eq!(error(&[0x50; 60]), ParseError::IpVersion(5));
    assert_eq!(error(&ipv4_packet([1; 4], [2; 4], 17, &tcp)), ParseError::NotTcp { protocol: 17 });
    assert_eq!(error(&ipv4_packet([1; 4], [2; 4], 6, &tcp[..19])), ParseError::TcpTooShort);
    let mut packet = ipv4_packet([1; 4], [2; 4], 6, &tcp);
    packet[0] = 0x44;
    assert_eq!(error(&packet), ParseError::IpLength);
    let cut_off = ipv6_packet(SOURCE, FINAL, 6, &tcp);
    for length in 40..cut_off.len() {
        assert_eq!(error(&cut_off[..length]), ParseError::IpLength);
    }
    for length in 0..40 {
        assert_eq!(error(&ipv6_packet(SOURCE, FINAL, 6, &tcp)[..length]), ParseError::IpTooShort);
    }
    // Each extension header, cut off after every octet.
    for (kind, extension) in [
        (0, extension(6, &[1, 4, 0, 0, 0, 0])),
        (43, routing(6, 4, 0, &[FINAL])),
        (44, fragment(6, 0)),
        (51, authentication(6, &[0xaa; 12])),
        (60, home_address(6, &[], SECOND_HOP)),
        (135, extension(6, &[0; 6])),
    ] {
        assert!(Segment::parse(&behind(kind, &extension)).is_ok(), "header {kind}");
        for length in 0..extension.len() {
            let cut = ipv6_packet(SOURCE, FINAL, kind, &extension[..length]);
            assert_eq!(error(&cut), ParseError::IpTooShort, "header {kind}, {length} octets");
        }
    }
    // The length of a segment in IPv4's pseudo-header has 16 bits; receive offload can join more.
    let long = [&tcp[..], &vec![0; 65_536 - tcp.len()]].concat();
    let from = |source: IpAddr, octets: &[u8]| Segment::from_tcp(source, source, octets).map(|_| ());
    let [ipv4, ipv6] = [ipv4_pair(), ipv6_pair()].map(|pair| pair.local.address());
    assert_eq!(from(ipv4, &long), Err(ParseError::TcpTooLong));
    assert_eq!(from("::ffff:192.0.2.1".parse().unwrap(), &long), Err(ParseError::TcpTooLong));
    assert_eq!((from(ipv4, &long[..65_535]), from(ipv6, &long)), (Ok(()), Ok(())));
}

/// Chains of extension headers in an order that every parser accepts, and the protocol number of the first.
fn extensions() -> impl Strategy<Value = (u8, Vec<u8>)> {
    // Without the home address option, which etherparse does not read.
    let octet = || any::<u8>().prop_filter("a home address", |octet| *octet != 201);
    let data = || prop::option::of(vec(octet(), 0..24));
    let segment_list = prop::option::of(prop::sample::select(vec![0u8, 2, 4]));
    let integrity_check = prop::option::of(prop::sample::select(vec![0usize, 12, 16]));
    (data(), data(), segment_list, any::<bool>(), integrity_check, data()).prop_map(
        |(hop_by_hop, options, routing_kind, is_fragment, integrity_check, last_options)| {
            // From the last to the first, since each names its successor.
            let mut next = 6;
            let mut chain = Vec::new();
            let mut put = |kind: u8, header: &dyn Fn(u8) -> Vec<u8>| {
                chain = [header(next), std::mem::take(&mut chain)].concat();
                next = kind;
            };
            last_options.inspect(|data| put(60, &|next| extension(next, data)));
            integrity_check.inspect(|length| put(51, &|next| authentication(next, &vec![0xaa; *length])));
            if is_fragment {
                put(44, &|next| fragment(next, 0));
            }
            routing_kind.inspect(|kind| put(43, &|next| routing(next, *kind, 0, &[FINAL])));
            options.inspect(|data| put(60, &|next| extension(next, data)));
            hop_by_hop.inspect(|data| put(0, &|next| extension(next, data)));
            (next, chain)
        },
    )
}

proptest! {
    #[test]
    fn ao_11_extension_headers_are_passed_as_etherparse_passes_them((first, chain) in extensions()) {
        let packet = ipv6_packet(SOURCE, FINAL, first, &[&chain[..], &tcp()].concat());
        let segment = Segment::parse(&packet).unwrap();
        let sliced = SlicedPacket::from_ip(&packet).unwrap();
        let Some(TransportSlice::Tcp(theirs)) = sliced.transport else { panic!("etherparse finds no TCP") };
        prop_assert_eq!(segment.tcp(), theirs.slice());
        prop_assert_eq!(segment.header(), theirs.header_slice());
        prop_assert_eq!(segment.payload(), theirs.payload());
        prop_assert_eq!(segment.tcp(), tcp());
        prop_assert_eq!(segment.sequence().0, theirs.sequence_number());
    }

    #[test]
    fn ao_37_any_packet_is_parsed_or_refused(
        version in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x60, 0x00]),
        mut octets in vec(any::<u8>(), 1..200),
    ) {
        octets[0] = version;
        // Half of them have lengths that fit, so that the parser gets past them.
        if octets.len() % 2 == 0 && octets.len() > 60 {
            let length = octets.len() as u16;
            octets[2..4].copy_from_slice(&length.to_be_bytes());
            octets[4..6].copy_from_slice(&(length - 40).to_be_bytes());
            octets[6] = [0, 43, 44, 51, 60, 135, 6][usize::from(octets[7] % 7)];
            octets[40] = [0, 43, 44, 51, 60, 135, 6][usize::from(octets[8] % 7)];
        }
        if let Ok(segment) = Segment::parse(&octets) {
            prop_assert!(segment.header().len() >= 20);
            let _ = (segment.ao_option(), segment.options().count());
        }
        let _ = IcmpError::parse(&octets);
    }

    #[test]
    fn ao_11_checksums_agree_with_etherparse(payload in vec(any::<u8>(), 0..300), source: u128, destination: u128) {
        let tcp = Parts::new(ipv6_pair(), ACK, 5, 6).payload(&payload).with_ao(12);
        let zeroed = [&tcp[..16], &[0, 0], &tcp[18..]].concat();
        let slice = etherparse::TcpSlice::from_slice(&zeroed).unwrap();
        let (source, destination) = (source.to_be_bytes(), destination.to_be_bytes());
        let theirs = slice.calc_checksum_ipv6(source, destination).unwrap();
        prop_assert_eq!(checksum::tcp(source.into(), destination.into(), &zeroed), theirs);
        let (source, destination) = (*source.first_chunk::<4>().unwrap(), *destination.first_chunk::<4>().unwrap());
        let theirs = slice.calc_checksum_ipv4(source, destination).unwrap();
        prop_assert_eq!(checksum::tcp(source.into(), destination.into(), &zeroed), theirs);
        let packet = ipv4_packet(source, destination, 6, &tcp);
        let header = etherparse::Ipv4HeaderSlice::from_slice(&packet).unwrap();
        prop_assert_eq!(header.to_header().calc_header_checksum(), header.header_checksum());
        prop_assert_eq!(checksum::ipv4_header(&packet[..20]), 0);
    }
}

const ROUTER: [u8; 4] = [198, 51, 100, 1];

/// An ICMP error from a router on the path that quotes the first `quoted` octets of a segment from `pair`'s local end.
fn error(pair: SocketPair, kind: u8, code: u8, quoted: usize) -> Vec<u8> {
    let tcp = Parts::new(pair, ACK, 7, 8).payload(&[0x42; 100]).with_ao(12);
    let original = packet(pair, &tcp);
    let mut icmp = vec![kind, code, 0, 0, 0, 0, 0, 0];
    icmp.extend(&original[..quoted]);
    match pair.local.address() {
        IpAddr::V4(address) => ipv4_packet(ROUTER, address.octets(), 1, &icmp),
        IpAddr::V6(address) => ipv6_packet([0xfe; 16], address.octets(), 58, &icmp),
    }
}

#[test]
fn ao_34_hard_errors_are_those_of_rfc_5925() {
    for code in 0..16 {
        let icmp = IcmpError::parse(&error(ipv4_pair(), 3, code, 28)).unwrap();
        assert_eq!(icmp.is_hard(), (2..=4).contains(&code), "type 3 code {code}");
        assert_eq!((icmp.kind, icmp.code, icmp.pair), (3, code, ipv4_pair()));
        let icmp = IcmpError::parse(&error(ipv6_pair(), 1, code, 60)).unwrap();
        assert_eq!(icmp.is_hard(), code == 1 || code == 4, "ICMPv6 type 1 code {code}");
        assert_eq!((icmp.kind, icmp.code, icmp.pair), (1, code, ipv6_pair()));
    }
    for (pair, kind) in
        [(ipv4_pair(), 4), (ipv4_pair(), 11), (ipv4_pair(), 12), (ipv6_pair(), 2), (ipv6_pair(), 3)]
    {
        assert!(!IcmpError::parse(&error(pair, kind, 4, 60)).unwrap().is_hard(), "type {kind}");
    }
}

#[test]
fn ao_34_what_quotes_no_segment_is_no_error_about_one() {
    // Echo requests, and a quote that ends before both ports.
    assert_eq!(IcmpError::parse(&error(ipv4_pair(), 8, 0, 28)), None);
    assert_eq!(IcmpError::parse(&error(ipv6_pair(), 128, 0, 60)), None);
    assert_eq!(IcmpError::parse(&error(ipv4_pair(), 3, 3, 23)), None);
    assert_eq!(IcmpError::parse(&error(ipv6_pair(), 1, 4, 43)), None);
    assert!(IcmpError::parse(&error(ipv4_pair(), 3, 3, 24)).is_some());
    // Messages that end in their own header.
    for length in 0..8 {
        let icmp = &[3, 3, 0, 0, 0, 0, 0, 0][..length];
        assert_eq!(IcmpError::parse(&ipv4_packet(ROUTER, [192, 0, 2, 1], 1, icmp)), None, "{length} octets");
        let icmp = &[1, 4, 0, 0, 0, 0, 0, 0][..length];
        assert_eq!(IcmpError::parse(&ipv6_packet(FINAL, SOURCE, 58, icmp)), None, "{length} octets");
    }
    // An IP header whose length says that the ports are behind the end of the quote.
    let mut long_header = error(ipv4_pair(), 3, 3, 40);
    long_header[28] = 0x4f;
    assert_eq!(IcmpError::parse(&long_header), None);
    let udp = ipv4_packet([192, 0, 2, 1], [192, 0, 2, 2], 17, &[0; 8]);
    let icmp = ipv4_packet(ROUTER, [192, 0, 2, 1], 1, &[&[3, 3, 0, 0, 0, 0, 0, 0][..], &udp].concat());
    assert_eq!(IcmpError::parse(&icmp), None);
    // A later fragment has payload in the place of the ports.
    let mut fragment = error(ipv4_pair(), 3, 4, 28);
    fragment[28 + 6..28 + 8].copy_from_slice(&[0, 100]);
    assert_eq!(IcmpError::parse(&fragment), None);
    // The first fragment has ports.
    fragment[28 + 6..28 + 8].copy_from_slice(&[0x20, 0]);
    assert!(IcmpError::parse(&fragment).is_some());
}

#[test]
fn ao_34_synchronised_connections_ignore_hard_errors_and_count_them() {
    let mut ends = Ends::<1>::with_ids(&[(1, 2)]);
    let hard = IcmpError::parse(&error(ipv4_pair(), 3, 3, 28)).unwrap();
    let soft = IcmpError::parse(&error(ipv4_pair(), 3, 1, 28)).unwrap();
    assert!(ends.active.ignores_icmp(&hard) && ends.active.ignores_icmp(&hard));
    assert!(!ends.active.ignores_icmp(&soft));
    assert_eq!(ends.active.counters().dropped_icmp, 2);
}

#[test]
fn ao_34_a_connection_not_yet_synchronised_hears_them() {
    let hard = IcmpError::parse(&error(ipv4_pair(), 3, 3, 28)).unwrap();
    let mut active = Connection::active(ipv4_pair(), Isn(1), &mkts::<1>(&[(1, 2)])).unwrap();
    assert!(!active.ignores_icmp(&hard));
    assert_eq!(active.counters().dropped_icmp, 0);
    let syn = Parts::new(ipv4_pair(), SYN, 1, 0).signed(&mut active);
    let listener = mirrored::<1>(&[(1, 2)]);
    let mut passive = Connection::passive(&listener.verify_syn(view(ipv4_pair(), &syn)).unwrap());
    let hard = IcmpError::parse(&error(ipv4_pair().reversed(), 3, 3, 28)).unwrap();
    assert!(!passive.ignores_icmp(&hard), "SYN-RECEIVED is no synchronised state (RFC 9293 §3.4.1)");
}
