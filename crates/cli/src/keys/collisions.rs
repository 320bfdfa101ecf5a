//! Key chains whose keys collide: [`KeyChains`] refuses them as a whole, so each key is read by itself.

use serde_json::Value;
use toml::Table;
use wireseal_keys::{KeyChain, KeyChains};
use zeroize::{Zeroize, Zeroizing};

use super::Chain;

/// Every key of a TOML text as a chain of its own; `None` if more is wrong than shared ids.
pub(super) fn toml_keys(text: &str) -> Option<Vec<KeyChains>> {
    let mut document: Table = text.parse().ok()?;
    let mut chains = Vec::new();
    for chain in document.get("key-chain")?.as_array()? {
        let mut alone = chain.as_table()?.clone();
        for key in chain.get("key")?.as_array()? {
            alone.insert("key".to_owned(), vec![key.clone()].into());
            let document = Table::from_iter([("key-chain".to_owned(), vec![alone.clone()].into())]);
            let text = Zeroizing::new(document.to_string());
            wipe_table(document);
            chains.push(KeyChains::from_toml(&text));
        }
        wipe_table(alone);
    }
    wipe_table(std::mem::take(&mut document));
    chains.into_iter().collect::<Result<_, _>>().ok()
}

/// The same for a JSON text.
pub(super) fn json_keys(text: &str) -> Option<Vec<KeyChains>> {
    const CONTAINER: &str = "ietf-key-chain:key-chains";
    let mut document: Value = serde_json::from_str(text).ok()?;
    let mut chains = Vec::new();
    for chain in document.get_mut(CONTAINER)?.get_mut("key-chain")?.as_array_mut()? {
        // Out of the chain, so that the others are not copied for each.
        let mut keys = chain.get_mut("key")?.take();
        for key in keys.as_array()? {
            chain["key"] = Value::Array(vec![key.clone()]);
            let mut document = serde_json::json!({ CONTAINER: { "key-chain": [chain] } });
            let text = Zeroizing::new(document.to_string());
            wipe_json(&mut document);
            wipe_json(&mut chain["key"]);
            chains.push(KeyChains::from_json(&text));
        }
        wipe_json(&mut keys);
    }
    wipe_json(&mut document);
    chains.into_iter().collect::<Result<_, _>>().ok()
}

/// Joins chains of one key each by their names.
pub(super) fn join<'a>(keys: impl Iterator<Item = &'a KeyChain>) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    for key in keys {
        let key = Chain::from(key);
        match chains.last_mut().filter(|chain| chain.name == key.name) {
            Some(chain) => chain.keys.extend(key.keys),
            None => chains.push(key),
        }
    }
    chains
}

fn wipe_table(table: Table) {
    table.into_iter().for_each(|(_, value)| wipe_toml(value));
}

fn wipe_toml(value: toml::Value) {
    match value {
        toml::Value::String(mut text) => text.zeroize(),
        toml::Value::Array(values) => values.into_iter().for_each(wipe_toml),
        toml::Value::Table(table) => wipe_table(table),
        _ => {}
    }
}

fn wipe_json(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(values) => values.iter_mut().for_each(wipe_json),
        Value::Object(members) => members.values_mut().for_each(wipe_json),
        _ => {}
    }
}
