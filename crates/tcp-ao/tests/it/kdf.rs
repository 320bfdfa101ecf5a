//! Traffic keys, computed a second time with other people's HMAC and CMAC from what the RFCs say goes into them.

use std::collections::HashSet;

use crate::support::{SECRET, ipv4_pair, ipv6_pair, mkt_with_secret};
use aes::Aes128;
use cmac::Cmac;
use hmac::{Hmac, KeyInit, Mac};
use proptest::collection::vec;
use proptest::prelude::*;
use sha1::Sha1;
use sha2::Sha256;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Endpoint, Isn, KdfContext, MasterKey, MktError, SocketPair, TrafficKeyOctets};

fn mac<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// `i || "TCP-AO" || context || bits` (RFC 5926 §3.1.1).
fn kdf_input(context: &[u8], bits: u16) -> Vec<u8> {
    [&[1][..], b"TCP-AO", context, &bits.to_be_bytes()].concat()
}

fn derive(algorithm: TcpAoAlgorithm, secret: &[u8], context: &KdfContext) -> Vec<u8> {
    let key = TrafficKeyOctets::derive(&mkt_with_secret(1, 1, algorithm, secret), context);
    assert_eq!(key.expose_secret().len(), algorithm.traffic_key_length());
    key.expose_secret().to_vec()
}

/// 192.0.2.1 port 49152 to 192.0.2.2 port 179, and the octets RFC 5925 §5.2 makes of it.
fn ipv4_context() -> (KdfContext, Vec<u8>) {
    let context = KdfContext::send_other(ipv4_pair(), Isn(0x0102_0304), Isn(0xfffe_fdfc));
    let octets = [192, 0, 2, 1, 192, 0, 2, 2, 0xc0, 0, 0, 179, 1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0xfc];
    (context, octets.to_vec())
}

#[test]
fn ao_03_kdf_input_is_counter_label_context_and_length_in_bits() {
    let (context, octets) = ipv4_context();
    let input = kdf_input(&octets, 160);
    assert_eq!(input[..7], *b"\x01TCP-AO");
    assert_eq!(input[7], 192, "no NUL between label and context");
    assert_eq!(input[27..], [0, 160]);
    assert_eq!(derive(TcpAoAlgorithm::HmacSha1, SECRET, &context), mac::<Hmac<Sha1>>(SECRET, &input));
    let input = kdf_input(&octets, 128);
    let secret = &SECRET[..16];
    assert_eq!(derive(TcpAoAlgorithm::Aes128Cmac, secret, &context), mac::<Cmac<Aes128>>(secret, &input));
    let input = kdf_input(&octets, 256);
    assert_eq!(input[27..], [1, 0]);
    assert_eq!(
        derive(TcpAoAlgorithm::LinuxHmacSha256, SECRET, &context),
        mac::<Hmac<Sha256>>(SECRET, &input)
    );
}

#[test]
fn ao_04_context_is_in_the_direction_of_the_segment() {
    let (_, octets) = ipv4_context();
    let input = kdf_input(&octets, 160);
    let expected = mac::<Hmac<Sha1>>(SECRET, &input);
    let (local_isn, remote_isn) = (Isn(0x0102_0304), Isn(0xfffe_fdfc));
    let sent = KdfContext::send_other(ipv4_pair(), local_isn, remote_isn);
    let received_by_the_peer = KdfContext::receive_other(ipv4_pair().reversed(), remote_isn, local_isn);
    for context in [sent, received_by_the_peer] {
        assert_eq!(derive(TcpAoAlgorithm::HmacSha1, SECRET, &context), expected);
    }
}

#[test]
fn ao_04_ipv6_addresses_stand_whole_in_the_context() {
    let context = KdfContext::send_other(ipv6_pair(), Isn(1), Isn(2));
    let mut octets = vec![0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    octets.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    octets.extend([0xc0, 0, 0, 179, 0, 0, 0, 1, 0, 0, 0, 2]);
    let expected = mac::<Hmac<Sha1>>(SECRET, &kdf_input(&octets, 160));
    assert_eq!(derive(TcpAoAlgorithm::HmacSha1, SECRET, &context), expected);
}

#[test]
fn ao_05_cmac_master_keys_not_of_16_octets_are_compressed_first() {
    let (context, octets) = ipv4_context();
    let input = kdf_input(&octets, 128);
    let long: Vec<u8> = (1..=80).collect();
    for length in [1, 15, 17, 80] {
        let compressed = mac::<Cmac<Aes128>>(&[0; 16], &long[..length]);
        let expected = mac::<Cmac<Aes128>>(&compressed, &input);
        assert_eq!(
            derive(TcpAoAlgorithm::Aes128Cmac, &long[..length], &context),
            expected,
            "{length} octets"
        );
    }
    let expected = mac::<Cmac<Aes128>>(&long[..16], &input);
    assert_eq!(derive(TcpAoAlgorithm::Aes128Cmac, &long[..16], &context), expected);
}

#[test]
fn ao_05_master_keys_of_no_octets_and_of_81_are_refused() {
    assert_eq!(MasterKey::new(&[]).unwrap_err(), MktError::MasterKeyEmpty);
    assert_eq!(MasterKey::new(&[1; 81]).unwrap_err(), MktError::MasterKeyTooLong { length: 81 });
    assert_eq!(MasterKey::new(&[1; 80]).unwrap().len(), 80);
}

#[test]
fn ao_06_a_syn_has_destination_isn_zero() {
    let pair = ipv4_pair();
    let context = KdfContext::syn(pair.local, pair.remote, Isn(0x0102_0304));
    assert_eq!(context.destination_isn, Isn(0));
    let octets = [192, 0, 2, 1, 192, 0, 2, 2, 0xc0, 0, 0, 179, 1, 2, 3, 4, 0, 0, 0, 0];
    let expected = mac::<Hmac<Sha1>>(SECRET, &kdf_input(&octets, 160));
    assert_eq!(derive(TcpAoAlgorithm::HmacSha1, SECRET, &context), expected);
}

#[test]
fn ao_13_linux_hmac_sha_256_and_hmac_sha256_128_are_two_algorithms() {
    let (linux, draft) = (TcpAoAlgorithm::LinuxHmacSha256, TcpAoAlgorithm::HmacSha256_128);
    assert_ne!(linux.name(), draft.name());
    assert_eq!((linux.default_mac_length(), draft.default_mac_length()), (12, 16));
    assert!(linux.linux_name().is_some() && draft.linux_name().is_none());
    let (context, octets) = ipv4_context();
    // RFC 5869 with a salt of zeros and the context as info, for the draft; the RFC 5926 form for Linux.
    let extracted = mac::<Hmac<Sha256>>(&[0; 32], SECRET);
    let expanded = mac::<Hmac<Sha256>>(&extracted, &[&octets[..], &[1]].concat());
    assert_eq!(derive(draft, SECRET, &context), expanded);
    assert_ne!(derive(linux, SECRET, &context), expanded);
}

/// Any endpoint of the family.
fn endpoint(ipv6: bool) -> impl Strategy<Value = Endpoint> {
    (any::<u128>(), any::<u16>()).prop_map(move |(address, port)| {
        if ipv6 {
            Endpoint::new(std::net::Ipv6Addr::from(address), port)
        } else {
            Endpoint::new(std::net::Ipv4Addr::from(address as u32), port)
        }
    })
}

fn pairs() -> impl Strategy<Value = SocketPair> {
    any::<bool>()
        .prop_flat_map(|ipv6| (endpoint(ipv6), endpoint(ipv6)))
        .prop_map(|(local, remote)| SocketPair { local, remote })
}

proptest! {
    #[test]
    fn ao_07_what_one_end_sends_with_is_what_the_other_receives_with(
        pair in pairs(),
        isns: (u32, u32),
        secret in vec(any::<u8>(), 1..=80),
    ) {
        let (ours, theirs) = (Isn(isns.0), Isn(isns.1));
        for algorithm in TcpAoAlgorithm::ALL {
            let derive = |context: KdfContext| derive(algorithm, &secret, &context);
            let peer = pair.reversed();
            // Send_SYN here is Receive_SYN there, and so on for all four (RFC 5925 §5.2).
            let keys = [
                [KdfContext::syn(pair.local, pair.remote, ours), KdfContext::syn(peer.remote, peer.local, ours)],
                [KdfContext::syn(pair.remote, pair.local, theirs), KdfContext::syn(peer.local, peer.remote, theirs)],
                [KdfContext::send_other(pair, ours, theirs), KdfContext::receive_other(peer, theirs, ours)],
                [KdfContext::receive_other(pair, ours, theirs), KdfContext::send_other(peer, theirs, ours)],
            ];
            let keys = keys.map(|contexts| contexts.map(derive));
            for [here, there] in &keys {
                prop_assert_eq!(here, there);
            }
            if pair.local != pair.remote && ours != Isn(0) && theirs != Isn(0) && ours != theirs {
                let distinct: HashSet<_> = keys.iter().flatten().collect();
                prop_assert_eq!(distinct.len(), 4);
            }
        }
    }
}
