//! Published test vectors, run on this machine.

mod mac;
mod quic;
mod tcp_ao;
mod vectors;

use wireseal_kernels::cpu;
use wireseal_mac::MacAlgorithm;
use wireseal_quic::Backend;

pub use quic::served_by as quic_served_by;
pub use vectors::Group;

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

/// The CPU paths of the kernels, and whether this processor has them.
pub fn cpu_paths() -> impl Iterator<Item = (&'static str, bool)> {
    cpu::InstructionSet::ALL.into_iter().map(|path| (path.name(), path.is_available()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with the first digit of these fields changed in every vector.
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
    fn another_mac_is_a_failure() {
        let text = altered(include_str!("../../data/rfc4493.json"), &["mac"]);
        let group = mac::run("RFC 4493", MacAlgorithm::Aes128Cmac, &text);
        assert!(!group.passed());
        assert_eq!(group.failures, ["test case 1", "test case 2", "test case 3", "test case 4"]);
        let text = altered(include_str!("../../data/rfc8439.json"), &["mac"]);
        let group = mac::run_poly1305("RFC 8439", &text);
        assert_eq!((group.vectors, group.failures.len()), (12, 12));
    }

    #[test]
    fn another_traffic_key_or_segment_is_a_failure() {
        let text = include_str!("../../data/rfc9235.json");
        let group = tcp_ao::run("RFC 9235", &altered(text, &["traffic_key"]));
        assert_eq!((group.vectors, group.failures.len()), (32, 32));
        assert_eq!(group.failures[0], "section 4.1.1 under HMAC-SHA-1-96");
        let group = tcp_ao::run("RFC 9235", &altered(text, &["master_key"]));
        assert_eq!(group.failures.len(), 32);
    }

    #[test]
    fn another_packet_is_a_failure() {
        let text = include_str!("../../data/rfc9001.json");
        for backend in Backend::ALL {
            assert_eq!(quic::run("RFC 9001", *backend, &altered(text, &["packet"])).failures.len(), 4);
            let group = quic::run("RFC 9001", *backend, &altered(text, &["ku"]));
            assert_eq!(group.failures, ["A.5, secret of the next key phase"]);
        }
    }
}
