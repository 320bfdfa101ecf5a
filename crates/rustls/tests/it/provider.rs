//! What `provider` changes and what it leaves alone.

use std::ptr;
use std::sync::{Arc, Barrier};
use std::thread;

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedCipherSuite, Tls13CipherSuite};
use wireseal_rustls::{AeadAlgorithm, provider, quic_algorithm};

use crate::support::{
    COMMON, ccm, has_wireseal, map_suites, only, ring, tls13, tls13_suites, wireseal, without_quic,
};

/// The names of all suites, in order.
fn names(provider: &CryptoProvider) -> Vec<CipherSuite> {
    provider.cipher_suites.iter().map(SupportedCipherSuite::suite).collect()
}

fn tls12_addresses(provider: &CryptoProvider) -> Vec<usize> {
    let tls12 = |suite: &SupportedCipherSuite| match suite {
        SupportedCipherSuite::Tls12(suite) => Some(ptr::from_ref(*suite).addr()),
        _ => None,
    };
    provider.cipher_suites.iter().filter_map(tls12).collect()
}

fn claims_fips(provider: &CryptoProvider) -> bool {
    let suite = |suite: &Tls13CipherSuite| suite.fips() || suite.quic.is_some_and(|quic| quic.fips());
    provider.fips() || tls13_suites(provider).into_iter().any(suite)
}

fn addresses(provider: &CryptoProvider) -> Vec<*const Tls13CipherSuite> {
    tls13_suites(provider).into_iter().map(ptr::from_ref).collect()
}

#[test]
fn only_the_field_quic_changes() {
    let (before, after) = (ring(), provider(ring()));
    assert_eq!(names(&after), names(&before));
    assert_eq!(after.kx_groups.len(), before.kx_groups.len());
    assert_eq!(tls12_addresses(&after), tls12_addresses(&before));
    assert!(!tls12_addresses(&after).is_empty(), "TLS 1.2 suites have to be there to be left alone");
    for (before, after) in tls13_suites(&before).into_iter().zip(tls13_suites(&after)) {
        assert!(has_wireseal(after) && !has_wireseal(before));
        assert!(ptr::addr_eq(before.common.hash_provider, after.common.hash_provider));
        assert!(ptr::addr_eq(before.hkdf_provider, after.hkdf_provider));
        assert!(ptr::addr_eq(before.aead_alg, after.aead_alg));
        assert_eq!(before.common.confidentiality_limit, after.common.confidentiality_limit);
    }
}

#[test]
fn a_provider_without_quic_gets_it() {
    let stripped = without_quic(ring());
    assert!(COMMON.iter().all(|suite| tls13(&stripped, *suite).quic.is_none()));
    let given = provider(stripped);
    assert!(COMMON.iter().all(|suite| has_wireseal(tls13(&given, *suite))));
}

#[test]
fn suites_that_quic_has_no_header_protection_for_stay_as_they_are() {
    let ccm_8 = map_suites(ring(), |mut suite| {
        suite.common.suite = CipherSuite::TLS13_AES_128_CCM_8_SHA256;
        Tls13CipherSuite { quic: None, ..suite }
    });
    let before = addresses(&ccm_8);
    assert_eq!(addresses(&provider(ccm_8)), before);
}

#[test]
fn a_suite_with_the_algorithm_of_another_is_not_on_wireseal() {
    let mixed = map_suites(ring(), |suite| Tls13CipherSuite {
        quic: Some(quic_algorithm(AeadAlgorithm::Aes128Ccm)),
        ..suite
    });
    assert!(COMMON.iter().all(|suite| !has_wireseal(tls13(&mixed, *suite))));
    let given = provider(mixed);
    assert!(COMMON.iter().all(|suite| has_wireseal(tls13(&given, *suite))));
}

#[test]
fn a_thousand_calls_leak_no_more_than_one() {
    let stripped = without_quic(ring());
    let once = || {
        let given = provider(stripped.clone());
        let mut addresses = addresses(&given);
        addresses.push(ccm(&given).expect("ring has SHA-256"));
        addresses
    };
    let first = once();
    let measured = allocation_counter::measure(|| {
        for _ in 0..1000 {
            assert_eq!(once(), first);
        }
    });
    assert_eq!((measured.bytes_current, measured.count_current), (0, 0));
}

#[test]
fn threads_that_come_first_together_get_the_same_suites() {
    let (stripped, together) = (without_quic(ring()), Arc::new(Barrier::new(8)));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (stripped, together) = (stripped.clone(), Arc::clone(&together));
            thread::spawn(move || {
                together.wait();
                addresses(&provider(stripped)).into_iter().map(<*const _>::addr).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut seen: Vec<_> =
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect();
    seen.dedup();
    assert_eq!(seen.len(), 1);
}

#[test]
fn a_provider_on_wireseal_comes_out_the_same() {
    let given = provider(ring());
    assert_eq!(addresses(&provider(given.clone())), addresses(&given));
}

#[test]
fn providers_that_differ_keep_their_own_suites() {
    let (one, other) = (provider(without_quic(ring())), provider(without_quic(ring())));
    assert_eq!(names(&one), names(&other));
    assert!(addresses(&one).iter().all(|suite| !addresses(&other).contains(suite)));
}

#[test]
fn nothing_claims_fips() {
    assert!(!claims_fips(&wireseal()));
}

#[test]
fn ccm_needs_sha_256() {
    assert!(ccm(&only(ring(), CipherSuite::TLS13_AES_256_GCM_SHA384)).is_none());
}
