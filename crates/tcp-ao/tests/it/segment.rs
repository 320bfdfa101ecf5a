//! One segment: its options, what its MAC covers and what it does not, and that no alteration is accepted.

use hmac::{Hmac, KeyInit, Mac};
use proptest::collection::vec;
use proptest::prelude::*;
use sha1::Sha1;
use wireseal_tcp_ao::option::{MAX_OPTIONS_LENGTH, Options, kind};

use crate::support::*;

/// An AO option with a MAC of these octets.
fn ao(key_id: u8, rnext_key_id: u8, mac: &[u8]) -> Vec<u8> {
    [&[29, 4 + mac.len() as u8, key_id, rnext_key_id], mac].concat()
}

fn find(options: &[u8]) -> Result<Option<AoOption<'_>>, OptionError> {
    AoOption::find(options)
}

#[test]
fn ao_15_two_ao_options_are_rejected() {
    let options = [ao(1, 2, &[7; 12]), ao(1, 2, &[7; 12])].concat();
    assert_eq!(find(&options), Err(OptionError::TwoAoOptions));
}

#[test]
fn ao_15_ao_beside_tcp_md5_is_rejected_in_either_order() {
    let md5 = [&[19, 18][..], &[5; 16]].concat();
    assert_eq!(find(&[&md5[..], &ao(1, 2, &[7; 12])].concat()), Err(OptionError::AoWithMd5));
    assert_eq!(find(&[&ao(1, 2, &[7; 12])[..], &md5].concat()), Err(OptionError::AoWithMd5));
    assert_eq!(find(&md5), Ok(None));
}

#[test]
fn ao_15_a_length_under_four_is_rejected() {
    for length in 2..4 {
        assert_eq!(find(&[29, length, 9, 9, 1, 1]), Err(OptionError::AoTooShort), "length {length}");
    }
    for length in 0..2 {
        let error = OptionError::BadLength { kind: kind::AUTHENTICATION, offset: 0 };
        assert_eq!(find(&[29, length, 9, 9]), Err(error), "length {length}");
    }
    assert!(find(&[29, 4, 8, 9]).unwrap().unwrap().mac.is_empty());
}

#[test]
fn ao_15_an_option_cut_off_by_the_header_is_rejected() {
    let whole = [&[1, 1][..], &ao(1, 2, &[7; 12])].concat();
    for length in 3..whole.len() {
        let error = OptionError::BadLength { kind: kind::AUTHENTICATION, offset: 2 };
        assert_eq!(find(&whole[..length]), Err(error), "{length} octets left");
    }
    assert_eq!(find(&whole[..2]), Ok(None));
    // An AO option before a malformed option is not accepted either.
    let error = OptionError::BadLength { kind: kind::MAXIMUM_SEGMENT_SIZE, offset: 16 };
    assert_eq!(find(&[&ao(1, 2, &[7; 12])[..], &[2, 4, 5]].concat()), Err(error));
}

#[test]
fn ao_15_ao_after_end_of_list_is_not_seen() {
    assert_eq!(find(&[&[0][..], &ao(1, 2, &[7; 12])].concat()), Ok(None));
    let before = [&ao(1, 2, &[7; 12])[..], &[0], &ao(3, 4, &[8; 12])].concat();
    assert_eq!(find(&before).unwrap().unwrap().key_id, KeyId(1));
}

#[test]
fn ao_15_the_walk_ends_with_the_first_error() {
    let mut walk = Options::new(&[1, 2, 4, 5, 0xb4, 8, 0, 3, 3, 7]);
    assert_eq!(walk.next().unwrap().unwrap().data, &[5, 0xb4]);
    assert_eq!(walk.next(), Some(Err(OptionError::BadLength { kind: 8, offset: 5 })));
    assert_eq!(walk.next(), None);
}

#[test]
fn ao_15_the_walk_says_where_the_last_option_ended() {
    let mut options = Options::new(&[1, 2, 4, 5, 0x8c, 1, 0, 9, 9]);
    assert_eq!(options.position(), 0);
    assert_eq!(options.next().unwrap().unwrap().length(), 4);
    assert_eq!((options.next(), options.position()), (None, 5));
}

#[test]
fn ao_08_a_segment_without_an_ao_option_has_no_mac_input() {
    let error = |options: &[u8]| {
        let tcp = Parts::new(ipv4_pair(), ACK, 1, 2).options(options).unsigned();
        view(ipv4_pair(), &tcp).mac_input(Sne(0), OptionCoverage::Covered).map(drop).unwrap_err()
    };
    assert_eq!(error(&[]), VerifyError::Unsigned);
    assert_eq!(error(&[29, 3, 0, 0]), VerifyError::Options(OptionError::AoTooShort));
}

#[test]
fn a_checksum_of_zero_is_sent_as_all_ones() {
    let addresses = |pair: SocketPair| (pair.local.address(), pair.remote.address());
    for pair in [ipv4_pair(), ipv6_pair()] {
        let (source, destination) = addresses(pair);
        let mut tcp = Parts::new(pair, ACK, 1, 2).payload(&[0, 0]).unsigned();
        tcp[16..18].fill(0);
        let sum = checksum::tcp(source, destination, &tcp);
        assert_eq!(checksum::tcp_to_send(source, destination, &tcp), sum);
        // This payload makes up what is missing to a sum of zero.
        tcp[20..22].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(checksum::tcp(source, destination, &tcp), 0);
        assert_eq!(checksum::tcp_to_send(source, destination, &tcp), 0xffff);
    }
}

#[test]
fn ao_17_no_room_says_how_many_octets_were_free() {
    // MSS, window scale, SACK permitted and timestamps, as stacks send them: 20 octets with two NOPs.
    let mut space = [0xa5; MAX_OPTIONS_LENGTH];
    assert_eq!(append_ao(&mut space, 28, 12), Err(SignError::NoRoom { needed: 16, free: 12 }));
    assert_eq!(append_ao(&mut space, 24, 16), Err(SignError::NoRoom { needed: 20, free: 16 }));
    assert_eq!(append_ao(&mut space, 41, 4), Err(SignError::NoRoom { needed: 11, free: 0 }));
    assert_eq!(space, [0xa5; MAX_OPTIONS_LENGTH]);
    assert_eq!(append_ao(&mut space, 24, 12), Ok(40));
    assert_eq!(
        SignError::NoRoom { needed: 16, free: 12 }.to_string(),
        "AO option needs 16 octets of option space, 12 were free"
    );
}

#[test]
fn ao_17_a_short_header_leaves_less_room_than_forty_octets() {
    let mut space = [0xa5; 15];
    assert_eq!(append_ao(&mut space, 0, 12), Err(SignError::NoRoom { needed: 16, free: 15 }));
    // Twelve octets have room for the option, but not for its padding.
    assert_eq!(append_ao(&mut space[..14], 0, 9), Err(SignError::NoRoom { needed: 16, free: 14 }));
    assert_eq!(space, [0xa5; 15]);
}

#[test]
fn ao_17_octets_behind_the_padding_are_left_alone() {
    let mut space = [0xa5; MAX_OPTIONS_LENGTH];
    assert_eq!(append_ao(&mut space, 2, 12), Ok(20));
    assert_eq!(space[..2], [0xa5; 2]);
    assert_eq!(space[2..6], [29, 16, 0, 0]);
    assert_eq!(space[6..18], [0; 12]);
    assert_eq!(space[18..20], [kind::NO_OPERATION; 2]);
    assert_eq!(space[20..], [0xa5; 20]);
}

/// A run of well-formed options other than AO, MD5, NOP and End-of-List, with NOPs between them, and how many.
fn well_formed_options(max_length: usize) -> impl Strategy<Value = Vec<u8>> {
    let other = prop_oneof![2u8..19, 20u8..29, 30u8..=255];
    let option = (other, vec(any::<u8>(), 0..10), 0usize..3).prop_map(|(kind, data, nops)| {
        [&vec![kind::NO_OPERATION; nops][..], &[kind, data.len() as u8 + 2], &data].concat()
    });
    vec(option, 0..5)
        .prop_map(|options| options.concat())
        .prop_filter("too long", move |octets| octets.len() <= max_length)
}

proptest! {
    #[test]
    fn ao_15_what_was_emitted_is_found_again(
        before in well_formed_options(20),
        key_id: u8,
        rnext_key_id: u8,
        mac in vec(any::<u8>(), 4..=16),
    ) {
        let mut space = [0xa5; MAX_OPTIONS_LENGTH];
        space[..before.len()].copy_from_slice(&before);
        let length = append_ao(&mut space, before.len(), mac.len()).unwrap();
        prop_assert_eq!(length % 4, 0);
        prop_assert!(length - before.len() - 4 - mac.len() < 4);
        prop_assert_eq!(&space[..before.len()], &before[..]);
        prop_assert!(space[length..].iter().all(|octet| *octet == 0xa5));
        space[before.len() + 2..before.len() + 4].copy_from_slice(&[key_id, rnext_key_id]);
        space[before.len() + 4..before.len() + 4 + mac.len()].copy_from_slice(&mac);
        let expected =
            AoOption { offset: before.len(), key_id: KeyId(key_id), rnext_key_id: KeyId(rnext_key_id), mac: &mac };
        prop_assert_eq!(find(&space[..length]), Ok(Some(expected)));
        prop_assert_eq!(expected.length(), 4 + mac.len());
    }

    #[test]
    fn ao_15_octets_behind_the_header_have_no_influence(
        mut options in vec(any::<u8>(), 0..10),
        first_payload in vec(any::<u8>(), 0..60),
        second_payload in vec(any::<u8>(), 0..60),
    ) {
        options.resize(options.len().next_multiple_of(4), 29);
        let parts = Parts::new(ipv4_pair(), ACK, 1, 1).options(&options);
        let first = parts.clone().payload(&first_payload).unsigned();
        let second = parts.payload(&second_payload).unsigned();
        let (first, second) = (view(ipv4_pair(), &first), view(ipv4_pair(), &second));
        prop_assert_eq!(first.ao_option(), second.ao_option());
        prop_assert_eq!(first.options().collect::<Vec<_>>(), second.options().collect::<Vec<_>>());
    }

    #[test]
    fn ao_37_the_walker_survives_any_octets_and_stays_inside_them(octets in vec(any::<u8>(), 0..64)) {
        let mut end = 0;
        for option in Options::new(&octets) {
            let Ok(option) = option else { break };
            prop_assert!(option.offset >= end && option.kind > kind::NO_OPERATION);
            end = option.offset + option.length();
            prop_assert_eq!(&octets[option.offset + 2..end], option.data);
        }
        if let Ok(Some(ao)) = find(&octets) {
            prop_assert_eq!(octets[ao.offset], kind::AUTHENTICATION);
            prop_assert_eq!(&octets[ao.offset + 4..ao.offset + ao.length()], ao.mac);
        }
    }

    #[test]
    fn ao_37_appending_survives_any_sizes(room in 0usize..64, used: usize, small: u8, mac_length: usize) {
        for (used, mac_length) in [(used, mac_length), (usize::from(small), mac_length), (used, usize::from(small))] {
            let mut space = vec![0xa5; room];
            prop_assert!(append_ao(&mut space, used, mac_length).is_err() || used + mac_length < 40);
        }
    }
}

/// The MSS option with the padding that makes the header end on a word.
const MSS_AND_NOPS: [u8; 6] = [2, 4, 5, 0xb4, 1, 1];

fn octets(pair: SocketPair, algorithm: TcpAoAlgorithm) -> TrafficKeyOctets {
    let context = KdfContext::send_other(pair, Isn(0x1234_5678), Isn(0x9abc_def0));
    TrafficKeyOctets::derive(&mkt_with_secret(1, 1, algorithm, SECRET), &context)
}

/// The MAC input, built step by step as in RFC 5925 §5.1.
fn mac_input(sne: u32, pair: SocketPair, tcp: &[u8], options: OptionCoverage) -> Vec<u8> {
    use IpAddr::{V4, V6};
    let mut input = sne.to_be_bytes().to_vec();
    match (pair.local.address(), pair.remote.address()) {
        (V4(source), V4(destination)) => {
            input.extend(source.octets());
            input.extend(destination.octets());
            input.extend([0, 6]);
            input.extend((tcp.len() as u16).to_be_bytes());
        }
        (V6(source), V6(destination)) => {
            input.extend(source.octets());
            input.extend(destination.octets());
            input.extend((tcp.len() as u32).to_be_bytes());
            input.extend([0, 0, 0, 6]);
        }
        _ => panic!("a socket pair of two families"),
    }
    let header_length = usize::from(tcp[12] >> 4) * 4;
    let ao = view(pair, tcp).ao_option().unwrap().unwrap();
    let mut header = tcp[..header_length].to_vec();
    header[16..18].fill(0);
    header[20 + ao.offset + 4..20 + ao.offset + ao.length()].fill(0);
    match options {
        OptionCoverage::Covered => input.extend(&header),
        OptionCoverage::Excluded => {
            input.extend(&header[..20]);
            input.extend(&header[20 + ao.offset..20 + ao.offset + ao.length()]);
        }
    }
    input.extend(&tcp[header_length..]);
    input
}

fn assert_mac_is_over(sne: u32, pair: SocketPair, tcp: &[u8], options: OptionCoverage, input: &[u8]) {
    let octets = octets(pair, TcpAoAlgorithm::HmacSha1);
    let mut hmac = Hmac::<Sha1>::new_from_slice(octets.expose_secret()).unwrap();
    hmac.update(input);
    let segment = view(pair, tcp);
    let mac = segment_mac(&TrafficKey::new(&octets), Sne(sne), options, &segment).unwrap();
    assert_eq!(mac.as_bytes(), hmac.finalize().into_bytes().as_slice());
    let fields = segment.mac_input(Sne(sne), options).unwrap().fields();
    let concatenated: Vec<u8> = fields.flat_map(|field| field.as_ref().to_vec()).collect();
    assert_eq!(concatenated, input, "the public fields are the same input");
}

fn data<'a>(pair: SocketPair) -> Parts<'a> {
    Parts::new(pair, ACK, 0x0102_0304, 0x0506_0708).options(&TIMESTAMPS).payload(b"an update")
}

#[test]
fn ao_08_mac_is_over_sne_pseudo_header_zeroed_header_and_payload() {
    let mut tcp = data(ipv4_pair()).with_ao(12);
    tcp[38..48].fill(0x77);
    let input = mac_input(3, ipv4_pair(), &tcp, OptionCoverage::Covered);
    // SNE, then the pseudo-header with the length of the whole segment: 20 + 12 + 16 + 9.
    assert_eq!(input[..16], [0, 0, 0, 3, 192, 0, 2, 1, 192, 0, 2, 2, 0, 6, 0, 57]);
    assert_eq!(input[32..34], [0, 0]);
    assert_eq!(input[52..64], [0; 12]);
    assert_mac_is_over(3, ipv4_pair(), &tcp, OptionCoverage::Covered, &input);
}

#[test]
fn ao_08_every_size_of_header_and_payload_around_a_block_and_two() {
    let full = [[8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1], TIMESTAMPS].concat();
    let payload: Vec<u8> = (0..=255).chain(0..=64).collect();
    for pair in [ipv4_pair(), ipv6_pair()] {
        for coverage in [OptionCoverage::Covered, OptionCoverage::Excluded] {
            for options in [&[][..], &TIMESTAMPS, &full] {
                for length in 0..=payload.len() {
                    let parts = Parts::new(pair, ACK, 5, 6).options(options).payload(&payload[..length]);
                    let tcp = parts.with_ao(12);
                    assert_mac_is_over(1, pair, &tcp, coverage, &mac_input(1, pair, &tcp, coverage));
                }
            }
        }
    }
}

#[test]
fn ao_09_excluded_options_leave_header_and_ao_option_and_the_true_length() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let tcp = data(pair).with_ao(12);
        let input = mac_input(0, pair, &tcp, OptionCoverage::Excluded);
        let covered = mac_input(0, pair, &tcp, OptionCoverage::Covered);
        assert_eq!(covered.len() - input.len(), TIMESTAMPS.len());
        let pseudo_header_end = input.len() - 9 - 16 - 20;
        assert_eq!(input[..pseudo_header_end], covered[..pseudo_header_end]);
        assert_mac_is_over(0, pair, &tcp, OptionCoverage::Excluded, &input);
    }
}

#[test]
fn ao_09_other_options_may_change_on_the_way_only_if_excluded() {
    let pair = ipv4_pair();
    let key = TrafficKey::new(&octets(pair, TcpAoAlgorithm::HmacSha1));
    let addresses = (pair.local.address(), pair.remote.address());
    for options in [OptionCoverage::Covered, OptionCoverage::Excluded] {
        let parameters = *mkt(1, 1, TcpAoAlgorithm::HmacSha1).with_options(options).parameters();
        let mut tcp = data(pair).with_ao(12);
        sign_segment(&key, Sne(0), &parameters, KeyId(1), addresses, &mut tcp).unwrap();
        tcp[25] ^= 0xff;
        let verdict = verify_segment(&key, Sne(0), &parameters, &view(pair, &tcp));
        assert_eq!(verdict.is_ok(), options == OptionCoverage::Excluded);
    }
}

#[test]
fn ao_10_padding_is_covered_as_sent() {
    let pair = ipv4_pair();
    let mut seen = Vec::new();
    // The same option with six octets of padding, as NOPs and as End-of-List, before and after it.
    for padding in [[1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 1, 2, 3, 4, 5]] {
        let mut options = vec![1, 1];
        options.extend([29, 16, 1, 1]);
        options.extend([0; 12]);
        options.extend(padding);
        let tcp = Parts::new(pair, ACK, 1, 1).options(&options).unsigned();
        let input = mac_input(0, pair, &tcp, OptionCoverage::Covered);
        assert_eq!(input[input.len() - 6..], padding);
        assert_mac_is_over(0, pair, &tcp, OptionCoverage::Covered, &input);
        seen.push(input);
    }
    seen.dedup();
    assert_eq!(seen.len(), 4);
}

#[test]
fn ao_11_ipv6_pseudo_header_has_a_32_bit_length_and_next_header_6() {
    let pair = ipv6_pair();
    let tcp = data(pair).with_ao(16);
    let input = mac_input(0xffff_ffff, pair, &tcp, OptionCoverage::Covered);
    assert_eq!(input[36..44], [0, 0, 0, 61, 0, 0, 0, 6]);
    assert_mac_is_over(0xffff_ffff, pair, &tcp, OptionCoverage::Covered, &input);
    // A segment of more than 65,535 octets, as a jumbogram carries it.
    let large = Parts::new(pair, ACK, 1, 1).payload(&[0x5a; 70_000]).with_ao(12);
    let input = mac_input(0, pair, &large, OptionCoverage::Covered);
    assert_eq!(input[36..40], (70_000u32 + 36).to_be_bytes());
    assert_mac_is_over(0, pair, &large, OptionCoverage::Covered, &input);
}

#[test]
fn ao_12_mapped_addresses_are_signed_as_ipv4() {
    let mapped = pair("::ffff:192.0.2.1", "::ffff:192.0.2.2");
    assert_eq!(mapped, ipv4_pair());
    let tcp = data(ipv4_pair()).with_ao(12);
    let raw = ["::ffff:192.0.2.1", "::ffff:192.0.2.2"].map(|address| address.parse().unwrap());
    let segment = Segment::from_tcp(raw[0], raw[1], &tcp).unwrap();
    assert!(segment.source_address().is_ipv6());
    assert_eq!((segment.source(), segment.destination()), (mapped.local, mapped.remote));
    let key = TrafficKey::new(&octets(ipv4_pair(), TcpAoAlgorithm::HmacSha1));
    let as_ipv4 = segment_mac(&key, Sne(0), OptionCoverage::Covered, &view(ipv4_pair(), &tcp));
    assert_eq!(segment_mac(&key, Sne(0), OptionCoverage::Covered, &segment), as_ipv4);
    assert_mac_is_over(
        0,
        mapped,
        &tcp,
        OptionCoverage::Covered,
        &mac_input(0, ipv4_pair(), &tcp, OptionCoverage::Covered),
    );
}

#[test]
fn ao_16_mac_lengths_of_4_to_16_octets_and_no_others() {
    for algorithm in TcpAoAlgorithm::ALL {
        for length in (0..4).chain(17..=40).chain([usize::MAX]) {
            assert_eq!(
                mkt(1, 1, algorithm).with_mac_length(length).unwrap_err(),
                MktError::MacLength { length }
            );
        }
        for length in 4..=16 {
            let parameters = *mkt(1, 1, algorithm).with_mac_length(length).unwrap().parameters();
            let mut signed = Signed::new(ipv4_pair(), &parameters, &TIMESTAMPS, b"x");
            assert_eq!(signed.verify(), Ok(()));
            let last = 20 + TIMESTAMPS.len() + 4 + length - 1;
            signed.tcp[last] ^= 1;
            assert_eq!(signed.verify(), Err(VerifyError::BadMac { key_id: KeyId(1) }));
        }
    }
}

#[test]
fn ao_16_another_mac_length_than_configured_is_rejected_whatever_the_mac() {
    for (configured, sent) in
        [(12, 11), (12, 13), (12, 16), (16, 12), (4, 5), (12, 17), (12, 20), (12, 36), (12, 0)]
    {
        let parameters =
            *mkt(1, 1, TcpAoAlgorithm::HmacSha1).with_mac_length(configured).unwrap().parameters();
        let mut tcp = Parts::new(ipv4_pair(), ACK, 1, 1).with_ao(sent);
        let key = TrafficKey::new(&octets(ipv4_pair(), TcpAoAlgorithm::HmacSha1));
        // The right MAC, in the length that was sent.
        let mac = segment_mac(&key, Sne(0), OptionCoverage::Covered, &view(ipv4_pair(), &tcp)).unwrap();
        let mac = mac.truncated(sent).to_vec();
        tcp[24..24 + mac.len()].copy_from_slice(&mac);
        let verdict = verify_segment(&key, Sne(0), &parameters, &view(ipv4_pair(), &tcp));
        assert_eq!(verdict, Err(VerifyError::MacLength { expected: configured, got: sent }));
    }
}

#[test]
fn ao_17_signing_without_the_right_room_changes_nothing() {
    let pair = ipv4_pair();
    let addresses = (pair.local.address(), pair.remote.address());
    let key = TrafficKey::new(&octets(pair, TcpAoAlgorithm::HmacSha1));
    let parameters = *mkt(7, 8, TcpAoAlgorithm::HmacSha1).parameters();
    let sign = |tcp: &mut Vec<u8>| {
        let before = tcp.clone();
        let error = sign_segment(&key, Sne(0), &parameters, KeyId(9), addresses, tcp).unwrap_err();
        assert_eq!(*tcp, before);
        error
    };
    assert_eq!(sign(&mut data(pair).unsigned()), SignError::NoOption);
    assert_eq!(sign(&mut data(pair).with_ao(16)), SignError::MacLength { expected: 12, got: 16 });
    let two = [&[29, 16, 0, 0][..], &[0; 12], &[29, 4, 0, 0]].concat();
    let error = OptionError::TwoAoOptions;
    assert_eq!(sign(&mut Parts::new(pair, SYN, 1, 0).options(&two).unsigned()), SignError::Options(error));
    assert_eq!(sign(&mut vec![0; 19]), SignError::Parse(ParseError::TcpTooShort));
    assert_eq!(sign(&mut vec![0; 20]), SignError::Parse(ParseError::DataOffset));
}

/// A signed segment, and what is needed to verify it.
struct Signed {
    pair: SocketPair,
    key: TrafficKey,
    parameters: MktParameters,
    tcp: Vec<u8>,
}

impl Signed {
    fn new(pair: SocketPair, parameters: &MktParameters, options: &[u8], payload: &[u8]) -> Self {
        let key = TrafficKey::new(&octets(pair, parameters.algorithm));
        let parts = Parts::new(pair, ACK, 0x0102_0304, 0x0506_0708).options(options).payload(payload);
        let mut tcp = parts.with_ao(parameters.mac_length());
        let addresses = (pair.local.address(), pair.remote.address());
        sign_segment(&key, Sne(2), parameters, KeyId(44), addresses, &mut tcp).unwrap();
        Self { pair, key, parameters: *parameters, tcp }
    }

    /// Returns `Unsigned` if the octets are no segment any more: such a segment is dropped before its MAC is checked.
    fn verify(&self) -> Result<(), VerifyError> {
        let addresses = (self.pair.local.address(), self.pair.remote.address());
        let Ok(segment) = Segment::from_tcp(addresses.0, addresses.1, &self.tcp) else {
            return Err(VerifyError::Unsigned);
        };
        verify_segment(&self.key, Sne(2), &self.parameters, &segment)
    }

    fn flip(&mut self, bit: usize) {
        self.tcp[bit / 8] ^= 0x80 >> (bit % 8);
    }
}

#[test]
fn ao_18_no_single_bit_can_be_flipped_but_in_the_checksum() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        for algorithm in TcpAoAlgorithm::ALL {
            let parameters = *mkt(1, 1, algorithm).parameters();
            let mut signed = Signed::new(pair, &parameters, &MSS_AND_NOPS[..4], b"route refresh");
            for bit in 0..signed.tcp.len() * 8 {
                signed.flip(bit);
                let is_checksum = (16..18).contains(&(bit / 8));
                assert_eq!(signed.verify().is_ok(), is_checksum, "{algorithm}, bit {bit}");
                signed.flip(bit);
            }
            assert_eq!(signed.verify(), Ok(()));
        }
    }
}

#[test]
fn ao_18_excluded_options_only_leave_other_options_and_checksum_free() {
    let parameters = *mkt(1, 1, TcpAoAlgorithm::HmacSha1).with_options(OptionCoverage::Excluded).parameters();
    // The data of the timestamp option. Kinds and lengths are not free, because they locate the AO option.
    let free = 24..32;
    let mut signed = Signed::new(ipv4_pair(), &parameters, &TIMESTAMPS, b"route refresh");
    for bit in (0..signed.tcp.len() * 8).filter(|bit| !(20..24).contains(&(bit / 8))) {
        signed.flip(bit);
        let octet = bit / 8;
        let is_free = (16..18).contains(&octet) || free.contains(&octet);
        assert_eq!(signed.verify().is_ok(), is_free, "bit {bit}");
        signed.flip(bit);
    }
}

#[test]
fn ao_18_a_segment_of_another_turn_does_not_verify() {
    let signed = Signed::new(ipv4_pair(), mkt(1, 1, TcpAoAlgorithm::HmacSha1).parameters(), &[], b"");
    let segment = view(signed.pair, &signed.tcp);
    for sne in [0, 1, 3, 0xffff_ffff] {
        let verdict = verify_segment(&signed.key, Sne(sne), &signed.parameters, &segment);
        assert_eq!(verdict, Err(VerifyError::BadMac { key_id: KeyId(1) }));
    }
}

/// Timing is not reliable in a test. Instead: the verdict does not depend on where the first difference is, `verify_segment` branches on
/// the MAC only for that verdict, and the comparison (`crates/mac/src/output.rs`, `compare`) is `subtle`'s, which reads every octet.
#[test]
fn ao_19_every_octet_of_the_mac_is_compared_with_one_verdict() {
    for algorithm in TcpAoAlgorithm::ALL {
        let parameters = *mkt(1, 1, algorithm).with_mac_length(16).unwrap().parameters();
        let mut signed = Signed::new(ipv4_pair(), &parameters, &[], b"payload");
        for octet in 24..40 {
            for difference in [0x01, 0x80, 0xff] {
                signed.tcp[octet] ^= difference;
                assert_eq!(signed.verify(), Err(VerifyError::BadMac { key_id: KeyId(1) }));
                signed.tcp[octet] ^= difference;
            }
        }
        signed.tcp[24..40].iter_mut().for_each(|octet| *octet ^= 0xff);
        assert_eq!(signed.verify(), Err(VerifyError::BadMac { key_id: KeyId(1) }));
    }
}

fn algorithms() -> impl Strategy<Value = TcpAoAlgorithm> {
    prop::sample::select(TcpAoAlgorithm::ALL.to_vec())
}

proptest! {
    #[test]
    fn ao_08_what_was_signed_verifies_and_no_altered_octet_does(
        algorithm in algorithms(),
        mac_length in 4usize..=16,
        excluded: bool,
        ipv6: bool,
        options in prop::sample::select(vec![&[][..], &TIMESTAMPS, &MSS_AND_NOPS[..4], &MSS_AND_NOPS[..5]]),
        payload in vec(any::<u8>(), 0..2000),
        place: prop::sample::Index,
        difference in 1u8..,
    ) {
        let coverage = if excluded { OptionCoverage::Excluded } else { OptionCoverage::Covered };
        let mkt = mkt(1, 1, algorithm).with_mac_length(mac_length).unwrap().with_options(coverage);
        let pair = if ipv6 { ipv6_pair() } else { ipv4_pair() };
        let mut signed = Signed::new(pair, mkt.parameters(), options, &payload);
        prop_assert_eq!(signed.verify(), Ok(()));
        let header_length = view(pair, &signed.tcp).header().len();
        let at = place.index(signed.tcp.len());
        signed.tcp[at] ^= difference;
        let is_checksum = (16..18).contains(&at);
        // Options and padding other than the AO option, where the MAC excludes them.
        let ao_starts = 20 + options.len();
        let is_ao = (ao_starts..ao_starts + 4 + mac_length).contains(&at);
        let is_other = excluded && (20..header_length).contains(&at) && !is_ao;
        if is_checksum {
            prop_assert_eq!(signed.verify(), Ok(()));
        } else if !is_other {
            prop_assert!(signed.verify().is_err());
        }
    }

    #[test]
    fn ao_37_no_octets_panic(
        source: u32,
        destination: u32,
        mut octets in vec(any::<u8>(), 0..120),
        data_offset in 4u8..16,
    ) {
        let addresses = (std::net::Ipv4Addr::from(source).into(), std::net::Ipv4Addr::from(destination).into());
        if let Some(octet) = octets.get_mut(12) {
            *octet = data_offset << 4;
        }
        let key = TrafficKey::new(&self::octets(ipv4_pair(), TcpAoAlgorithm::Aes128Cmac));
        let parameters = *mkt(1, 1, TcpAoAlgorithm::Aes128Cmac).parameters();
        if let Ok(segment) = Segment::from_tcp(addresses.0, addresses.1, &octets) {
            prop_assert_eq!(segment.header().len() + segment.payload().len(), octets.len());
            prop_assert!(verify_segment(&key, Sne(0), &parameters, &segment).is_err());
        }
        let before = octets.clone();
        if sign_segment(&key, Sne(0), &parameters, KeyId(1), addresses, &mut octets).is_err() {
            prop_assert_eq!(octets, before);
        }
    }
}
