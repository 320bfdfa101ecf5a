//! RFC 9001, appendix A, octet for octet, in both directions.

mod support;

use support::appendix_a::AppendixA;
use support::{Side, for_each_backend};

fn rfc_9001() -> AppendixA {
    AppendixA::read(include_str!("data/vectors/rfc9001.json"))
}

#[test]
fn q_01_a_1_labels_give_the_secrets_and_keys() {
    rfc_9001().check_labels();
}

#[test]
fn q_01_a_1_keys_of_both_sides() {
    for_each_backend(|backend| rfc_9001().check_initial_keys(backend));
}

#[test]
fn q_01_a_2_client_initial() {
    for_each_backend(|backend| rfc_9001().check_initial_packet(backend, Side::Client));
}

#[test]
fn q_01_a_3_server_initial() {
    for_each_backend(|backend| rfc_9001().check_initial_packet(backend, Side::Server));
}

#[test]
fn q_01_a_4_retry() {
    rfc_9001().check_retry();
}

#[test]
fn q_01_a_5_short_header_packet() {
    for_each_backend(|backend| rfc_9001().check_short_header_packet(backend));
}

#[test]
fn q_01_a_5_nonce_sample_mask_and_ciphertext() {
    for_each_backend(|backend| rfc_9001().check_short_header_steps(backend));
}

#[test]
fn q_01_a_5_secret_of_the_next_key_phase() {
    for_each_backend(|backend| rfc_9001().check_key_update(backend));
}
