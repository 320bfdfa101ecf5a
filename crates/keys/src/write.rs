//! Shared by the writers of TOML and JSON: secrets as text, and a buffer that leaves none behind.

use alloc::string::String;

use base16ct::lower;
use zeroize::Zeroizing;

use crate::{KeyChain, KeyChains};
use wireseal_tcp_ao::{MasterKey, Mkt};

/// A secret to write as text: printable ASCII without white space at either end.
pub(super) fn printable(master_key: &MasterKey) -> Option<&str> {
    let text = str::from_utf8(master_key.expose_secret()).ok()?;
    (text.bytes().all(|octet| matches!(octet, b' '..=b'~')) && text.trim() == text).then_some(text)
}

/// The hexadecimal digits of a secret, with a separator between the octets.
pub(super) fn hexadecimal(master_key: &MasterKey, separator: &str) -> Zeroizing<String> {
    let octets = master_key.expose_secret();
    let mut text = Zeroizing::new(String::with_capacity(octets.len() * (2 + separator.len())));
    let mut digits = Zeroizing::new([0; 2]);
    for (index, octet) in octets.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { separator });
        text.push_str(lower::encode_str(&[*octet], &mut *digits).expect("an octet has two digits"));
    }
    text
}

/// Whether the secret is so short that it must be written with `allow-short-secret`.
pub(super) fn has_short_secret(mkt: &Mkt) -> bool {
    mkt.master_key().len() < mkt.parameters().algorithm.min_master_key_length()
}

/// The MAC length, unless it is the algorithm's default.
pub(super) fn own_mac_length(mkt: &Mkt) -> Option<usize> {
    let parameters = mkt.parameters();
    (parameters.mac_length() != parameters.algorithm.default_mac_length()).then_some(parameters.mac_length())
}

/// Writes chains into a buffer that is large enough from the start.
pub(super) fn written(chains: &KeyChains, write: impl FnOnce(&mut String)) -> Zeroizing<String> {
    // Upper bounds: octets of an escaped character, of a key, and of the rest of a chain.
    const ESCAPED: usize = 6;
    const KEY: usize = 3072;
    const CHAIN: usize = 512;
    let of_chain = |chain: &KeyChain| {
        let words = chain.name().len() + chain.description().map_or(0, str::len);
        words * ESCAPED + CHAIN + chain.keys().len() * KEY
    };
    filled(CHAIN + chains.chains().iter().map(of_chain).sum::<usize>(), write)
}

/// Writes into a buffer of `room` octets, which must suffice: a reallocation would leave secrets behind.
pub(super) fn filled(room: usize, write: impl FnOnce(&mut String)) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(room));
    let capacity = text.capacity();
    write(&mut text);
    debug_assert_eq!(text.capacity(), capacity, "the buffer has moved and left secrets behind");
    text
}
