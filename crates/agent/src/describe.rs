//! What a configuration comes to, for people.

use std::fmt;

use wireseal_keys::{KeyChain, Timestamp};

use crate::Config;

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<_> = self.ports.iter().map(ToString::to_string).collect();
        writeln!(f, "ports: {}", ports.join(", "))?;
        let others = if self.refuse_others { "refused" } else { "accepted without TCP-AO" };
        writeln!(f, "peers not listed here: {others}")?;
        let now = Timestamp::now();
        for (peer, chain) in &self.peers {
            writeln!(f, "peer {peer}: key chain {}", chain.name())?;
            keys(f, chain, now)?;
        }
        Ok(())
    }
}

/// Each key of a chain on a line.
fn keys(f: &mut fmt::Formatter<'_>, chain: &KeyChain, now: Timestamp) -> fmt::Result {
    let active = chain.at(now);
    let preferred = active.preferred().map(|key| key.key_id());
    for key in chain.keys() {
        let (mkt, parameters) = (key.mkt(), key.mkt().parameters());
        let is_active = active.iter().any(|other| other.key_id() == key.key_id());
        let state = match (preferred == Some(key.key_id()), is_active) {
            (true, _) => "sent with now",
            (false, true) => "accepted now",
            (false, false) => "not valid now",
        };
        let (key_id, algorithm) = (key.key_id(), parameters.algorithm.name());
        let (send_id, recv_id) = (mkt.send_id(), mkt.recv_id());
        writeln!(f, "  key {key_id}: SendID {send_id}, RecvID {recv_id}, {algorithm}, {state}")?;
    }
    match (preferred, chain.next_change(now)) {
        (None, Some(moment)) => writeln!(f, "  no key is valid for sending until {moment} at the earliest"),
        (None, None) => writeln!(f, "  no key is valid for sending any more: no session can be opened"),
        (Some(_), Some(moment)) => writeln!(f, "  next change: {moment}"),
        (Some(_), None) => Ok(()),
    }
}
