//! Secrets that can be guessed, and secrets that are probably not what was meant. No sentence contains any part of a secret.

use wireseal_tcp_ao::MAX_MASTER_KEY_LENGTH;

use super::finding::Findings;
use crate::keys::{Chain, ChainKey, Notation};
use crate::text::counted;

/// A secret that people type and that is shorter than this can be brute-forced.
const FEWEST_OCTETS: usize = 12;
/// A random secret of sixteen octets has at least this many different ones in all but a few of a billion cases.
const FEWEST_DIFFERENT: usize = 6;
/// This many hexadecimal digits are hardly a word.
const HEXADECIMAL_DIGITS: usize = 16;

pub(super) fn check(findings: &mut Findings, chain: &Chain, key: &ChainKey, before: &[ChainKey]) {
    let secret = key.secret.expose();
    let mut warn = |kind, sentence: String| findings.warn(kind, chain, Some(key), sentence);

    let length = secret.len();
    if length == 0 {
        return warn("weak-secret", "the secret is empty".to_owned());
    }
    let mut seen = [false; 256];
    secret.iter().for_each(|octet| seen[usize::from(*octet)] = true);
    let different = seen.iter().filter(|seen| **seen).count();
    if length < FEWEST_OCTETS {
        let sentence = format!(
            "the secret has {}: anyone who records a session can brute-force it offline; 16 random octets have the 128 bits \
             that the algorithms are made for",
            counted(length as u64, "octet")
        );
        warn("weak-secret", sentence);
    } else if different < FEWEST_DIFFERENT {
        let sentence =
            format!("the secret has {length} octets but only {different} different ones: use random octets");
        warn("weak-secret", sentence);
    }
    if length < key.algorithm.min_master_key_length() {
        let least = key.algorithm.min_master_key_length();
        let sentence =
            format!("the secret has {length} octets, but {} requires at least {least}", key.algorithm);
        warn("weak-secret", sentence);
    }
    if length > MAX_MASTER_KEY_LENGTH {
        let sentence = format!(
            "the secret has {length} octets, but Linux and this program accept at most {MAX_MASTER_KEY_LENGTH}"
        );
        warn("long-secret", sentence);
    }
    if let Some(other) = before.iter().find(|other| other.secret.expose() == secret) {
        let sentence = format!(
            "the secret is also that of {}, so rolling over from one to the other gains nothing",
            chain.name_of(other)
        );
        warn("same-secret", sentence);
    }

    let is_text = key.secret.notation() != Notation::Hexadecimal;
    for (kind, is_odd, sentence) in [
        ("line-end", ends_line(secret), "the secret ends with a line end, which is part of it"),
        (
            "white-space",
            !ends_line(secret) && secret != secret.trim_ascii(),
            "the secret begins or ends with a blank, which is part of it",
        ),
        ("quotes", is_quoted(secret), "the secret has quotes around it, which are part of it"),
        (
            "not-ascii",
            is_text && !secret.is_ascii(),
            "the secret has characters outside ASCII, whose octets depend on the encoding: the peer may have others",
        ),
        (
            "control-characters",
            is_text && secret.trim_ascii().iter().any(u8::is_ascii_control),
            "the secret has control characters",
        ),
        (
            "hex-as-text",
            is_text && is_hexadecimal(secret),
            "the secret is hexadecimal digits, taken as text: if the peer has the octets instead, write it as hexadecimal",
        ),
        (
            "scrambled",
            [b"$9$", b"$8$"].iter().any(|start| secret.starts_with(*start)),
            "the secret looks like one that Junos scrambled, but is taken literally",
        ),
    ] {
        if is_odd {
            warn(kind, sentence.to_owned());
        }
    }
}

fn ends_line(secret: &[u8]) -> bool {
    matches!(secret.last(), Some(b'\n' | b'\r'))
}

fn is_quoted(secret: &[u8]) -> bool {
    match secret {
        [first @ (b'"' | b'\'' | b'`'), .., last] => first == last,
        _ => false,
    }
}

fn is_hexadecimal(secret: &[u8]) -> bool {
    let (digits, is_marked) = match secret {
        [b'0', b'x' | b'X', digits @ ..] => (digits, true),
        _ => (secret, false),
    };
    let count = digits.iter().filter(|octet| octet.is_ascii_hexdigit()).count();
    let is_hexadecimal = digits.iter().all(|octet| octet.is_ascii_hexdigit() || *octet == b':');
    is_hexadecimal && count.is_multiple_of(2) && count >= if is_marked { 2 } else { HEXADECIMAL_DIGITS }
}
