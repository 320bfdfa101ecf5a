//! Refused packets, counted by peer and reason, and logged once a second: anybody can cause any number of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Display;

use wireseal_tcp_ao::VerifyError;
use wireseal_tcp_ao::shim::{Direction, Refusal};

/// Lines in a second.
const MOST: usize = 10;

/// How many packets, by the index of their peer and by the reason.
#[derive(Default)]
pub(super) struct Refusals(BTreeMap<(Option<usize>, &'static str), u64>);

impl Refusals {
    pub(super) fn count(&mut self, peer: Option<usize>, direction: Direction, refusal: &Refusal) {
        *self.0.entry((peer, words(direction, refusal))).or_default() += 1;
    }

    /// Takes those of another shard.
    pub(super) fn take(&mut self, other: &mut Self) {
        for (key, segments) in std::mem::take(&mut other.0) {
            *self.0.entry(key).or_default() += segments;
        }
    }

    /// Logs them; `name` says which peer has an index.
    pub(super) fn log<N: Display>(&self, name: impl Fn(usize) -> Option<N>) {
        // Whoever causes many of one kind does not hide others: those that are most come first.
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(_, segments)| Reverse(**segments));
        for ((peer, reason), segments) in all.into_iter().take(MOST) {
            let peer = peer.and_then(&name).map(tracing::field::display);
            tracing::warn!(peer, segments, "{reason}");
        }
        if let Some(more) = self.0.len().checked_sub(MOST + 1) {
            tracing::warn!("packets were refused for {} more reasons", more + 1);
        }
    }
}

/// The reason, in the words of `wireseal verify` where that has any.
const fn words(direction: Direction, refusal: &Refusal) -> &'static str {
    match (direction, refusal) {
        (_, Refusal::Verify(VerifyError::BadMac { .. })) => {
            "bad MAC: secret, algorithm or option coverage differs from the peer's, or segments are forged"
        }
        (_, Refusal::Verify(VerifyError::MacLength { .. })) => "bad MAC: its length is not the key's",
        (_, Refusal::Verify(VerifyError::UnknownKeyId(_))) => "unknown KeyID: no key here has it",
        (_, Refusal::Verify(VerifyError::Unsigned)) => "no TCP-AO option: segments are not signed",
        (_, Refusal::Verify(VerifyError::Options(_))) => "malformed option",
        (_, Refusal::Verify(_)) => "segments that do not fit the state of their session",
        (Direction::Inbound, Refusal::NoConnection) => {
            "segments of a session whose handshake the gateway has not seen: the peer has to open it again"
        }
        (Direction::Outbound, Refusal::NoConnection) => {
            "segments of a session whose handshake the gateway has not seen: the program has to open it again"
        }
        (_, Refusal::ConnectionExists) => {
            "SYN for a session that is open: a replay, or the peer has restarted"
        }
        (_, Refusal::NoPeer) => "no peer has this address: the rules and the configuration differ",
        (_, Refusal::NoKey) => "no key is valid now",
        (_, Refusal::TableFull) => "there is no room for another connection (--connections)",
        (_, Refusal::Malformed(_)) => "malformed packets, or fragments",
        (_, Refusal::Checksum) => "wrong checksum",
        (_, Refusal::SourceRouted) => "routing header or Home Address option: TCP would see other addresses",
        (_, Refusal::Icmp) => "ICMP errors about a session, which anybody can forge (--accept-icmp)",
        (_, Refusal::Sign(_)) => "segments of the program that fit no session",
        (_, Refusal::NoRoom { .. }) => "the program's TCP options leave no room for TCP-AO",
        (_, Refusal::AlreadySigned) => {
            "the program signs its segments itself: remove its own TCP-AO or TCP-MD5"
        }
        (_, Refusal::TooLong { .. }) => "the signed packet is too long",
        _ => "refused for another reason",
    }
}
