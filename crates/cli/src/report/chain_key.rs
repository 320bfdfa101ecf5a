//! A key of a chain, as tables and JSON show it.

use serde_json::{Value, json};
use wireseal_keys::{Chain, ChainKey, Clock, Lifetime, Neighbor, Timestamp, Usable};

use super::json::LifetimeObject;
use crate::text::coverage;

/// A lifetime in a cell.
pub(crate) fn span(lifetime: &Lifetime, clock: Clock) -> String {
    let span = match (lifetime.from(), lifetime.until()) {
        (None, None) => "always".to_owned(),
        (Some(from), None) => format!("from {from}"),
        (None, Some(until)) => format!("until {until}"),
        (Some(from), Some(until)) => format!("{from} to {until}"),
    };
    match clock {
        Clock::Utc => span,
        Clock::Local => span.replace('Z', " local"),
    }
}

/// What can be said of a key's secret: its length, or how it is encrypted.
pub(crate) fn secret(key: &ChainKey) -> String {
    match key.secret.encryption() {
        Some(how) => how.to_owned(),
        None => format!("{} octets", key.secret.expose().len()),
    }
}

/// A key as an object.
pub(crate) fn key_object(chain: &Chain, key: &ChainKey, now: Timestamp) -> Value {
    let peer = |Neighbor { vrf, address, interface }: &Neighbor| json!({ "address": address.to_string(), "vrf": vrf, "interface": interface });
    json!({
        "name": chain.name_of(key),
        "chain": chain.name,
        "key_id": key.key_id,
        "line": key.position.map(|at| at.line),
        "send_id": key.send_id.0,
        "recv_id": key.recv_id.0,
        "algorithm": key.algorithm.name(),
        "mac_length": key.mac_length,
        "options": coverage(key.options),
        "secret_length": key.secret.encryption().is_none().then_some(key.secret.expose().len()),
        "send": LifetimeObject::from(&key.send),
        "accept": LifetimeObject::from(&chain.acceptance(key)),
        "peers": chain.neighbors.iter().map(peer).collect::<Vec<_>>(),
        "usable": Usable::of(chain, key, now).name(),
        "clock": match key.clock {
            Clock::Utc => "utc",
            Clock::Local => "local",
        },
    })
}
