//! The published vectors, run on this machine.

mod mac;
mod quic;
mod tcp_ao;

use serde::Deserialize;
use wireseal_kernels::cpu::Path;
use wireseal_mac::MacAlgorithm;
use wireseal_quic::Backend;

use crate::hex;

/// The vectors of one source, run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Where they come from, such as `RFC 4493`.
    pub source: &'static str,
    /// What they are of.
    pub subject: String,
    /// How many vectors there are.
    pub vectors: usize,
    /// Those that came out otherwise, by what their source calls them; none has octets of a key.
    pub failures: Vec<String>,
}

impl Group {
    const fn new(source: &'static str, subject: String) -> Self {
        Self { source, subject, vectors: 0, failures: Vec::new() }
    }

    fn count(&mut self, passed: bool, name: impl FnOnce() -> String) {
        self.vectors += 1;
        if !passed {
            self.failures.push(name());
        }
    }

    /// Whether all came out as published.
    #[must_use]
    pub const fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Runs all vectors.
#[must_use]
pub fn run() -> Vec<Group> {
    let mut groups = vec![
        mac::run("RFC 4493", MacAlgorithm::Aes128Cmac, include_str!("../../data/rfc4493.json")),
        mac::run("RFC 2202", MacAlgorithm::HmacSha1, include_str!("../../data/rfc2202.json")),
        mac::run("RFC 4231", MacAlgorithm::HmacSha256, include_str!("../../data/rfc4231.json")),
        mac::run_poly1305("RFC 8439", include_str!("../../data/rfc8439.json")),
        tcp_ao::run("RFC 9235", include_str!("../../data/rfc9235.json")),
        tcp_ao::run("draft-ietf-tcpm-tcp-ao-algs-07", include_str!("../../data/draft-tcp-ao-algs.json")),
    ];
    for backend in Backend::ALL {
        groups.push(quic::run("RFC 9001", *backend, include_str!("../../data/rfc9001.json")));
        groups.push(quic::run("RFC 9369", *backend, include_str!("../../data/rfc9369.json")));
    }
    groups
}

/// The paths of the kernels, and whether this processor has them.
pub fn paths() -> impl Iterator<Item = (&'static str, bool)> {
    Path::ALL.into_iter().map(|path| (path.name(), path.is_available()))
}

/// What serves each QUIC suite on the active backend: the processor's instructions, or a library.
pub fn quic_served_by() -> impl Iterator<Item = (&'static str, &'static str)> {
    quic::served_by()
}

/// Octets that a file of vectors spells in hexadecimal digits.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Octets(Vec<u8>);

impl TryFrom<String> for Octets {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        hex::decode(&text).map(Self).ok_or("not hexadecimal digits in pairs")
    }
}

/// A file of vectors; it is part of the program, and that it can be read is tested.
fn read<'a, T: Deserialize<'a>>(text: &'a str) -> T {
    serde_json::from_str(text).expect("the program's own vectors are well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every digit of these fields changed in every vector makes every vector fail.
    fn altered(text: &str, fields: &[&str]) -> String {
        let alter = |line: &str| {
            let Some((name, value)) = line.split_once(": \"") else { return line.to_owned() };
            if !fields.contains(&name.trim().trim_matches('"')) {
                return line.to_owned();
            }
            let (first, rest) = value.split_at(1);
            let other = if first == "0" { "1" } else { "0" };
            format!("{name}: \"{other}{rest}")
        };
        text.lines().map(alter).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_mac_that_comes_out_otherwise_is_a_failure() {
        let text = altered(include_str!("../../data/rfc4493.json"), &["mac"]);
        let group = mac::run("RFC 4493", MacAlgorithm::Aes128Cmac, &text);
        assert!(!group.passed());
        assert_eq!(group.failures, ["test case 1", "test case 2", "test case 3", "test case 4"]);
        let text = altered(include_str!("../../data/rfc8439.json"), &["mac"]);
        let group = mac::run_poly1305("RFC 8439", &text);
        assert_eq!((group.vectors, group.failures.len()), (12, 12));
    }

    #[test]
    fn a_traffic_key_or_a_segment_that_comes_out_otherwise_is_a_failure() {
        let text = include_str!("../../data/rfc9235.json");
        let group = tcp_ao::run("RFC 9235", &altered(text, &["traffic_key"]));
        assert_eq!((group.vectors, group.failures.len()), (32, 32));
        assert_eq!(group.failures[0], "section 4.1.1 under HMAC-SHA-1-96");
        let group = tcp_ao::run("RFC 9235", &altered(text, &["master_key"]));
        assert_eq!(group.failures.len(), 32);
    }

    #[test]
    fn a_packet_that_comes_out_otherwise_is_a_failure() {
        let text = include_str!("../../data/rfc9001.json");
        for backend in Backend::ALL {
            assert_eq!(quic::run("RFC 9001", *backend, &altered(text, &["packet"])).failures.len(), 4);
            let group = quic::run("RFC 9001", *backend, &altered(text, &["ku"]));
            assert_eq!(group.failures, ["A.5, secret of the next key phase"]);
        }
    }
}
