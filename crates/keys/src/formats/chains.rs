//! Wireseal's own formats: TOML, and the JSON of RFC 8177 and RFC 9648.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::MAX_MASTER_KEY_LENGTH;
use zeroize::Zeroizing;

use super::file::{Chain, ChainKey, Clock, Content, Notation, Preference, Remark, Secret, Skipped};
use super::table::{Change, Limits, Shows, Table, Written, begins};
use super::values::Value;
use super::write::{Names, lose_links, lose_ranks, lose_ranks_but_first};
use crate::json::Read;
use crate::place::{DEPTH, LISTS, Value as _};
use crate::{Error, Key, KeyChain, KeyChains};

const LINUX: Limits = Limits {
    name: "linux",
    about: "Linux sockets",
    title: "Linux",
    algorithm: TcpAoAlgorithm::linux_name,
    max_secret: Some(MAX_MASTER_KEY_LENGTH),
    options_setting: "options: covered",
    ..Limits::NONE
};

pub(super) const TOML: Table = Table {
    name: "toml",
    about: "Key chains in TOML",
    extension: Some(&["toml"]),
    shows: |text| Shows::if_(begins(text, &["[[key-chain]]", "[[key-chain.key]]"])),
    read: |text, may| {
        let chains = KeyChains::read_toml(text, may)?;
        Ok(read(&Read { chains, mismatched: Vec::new(), skipped: Vec::new() }, None))
    },
    fit: |chain, _, _| Some(chain),
    write: Some(|chains, losses| Ok(write(chains, losses, lose_ranks_but_first, |_| true)?.to_toml())),
    change: Some(Change {
        written: Written::Anew,
        apply: "cp {file} {target}\nsystemctl reload wireseal-gateway\n# wireseal run: systemctl reload wireseal-run@NAME, or \
                kill -HUP and the process number in wireseal status",
        show: "wireseal status",
    }),
    limits: LINUX,
};

pub(super) const JSON: Table = Table {
    name: "json",
    about: "Key chains in JSON (RFC 8177 with RFC 9648)",
    extension: Some(&["json"]),
    shows: |text| Shows::if_(text.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('"'))),
    read: |text, may| {
        let chains = KeyChains::read_json(text, may)?;
        // The places of keys are needed for those that are skipped.
        let root = (!chains.skipped.is_empty()).then(|| Value::from_json(text)).transpose()?;
        Ok(read(&chains, root.as_ref()))
    },
    write: Some(|chains, losses| Ok(write(chains, losses, lose_ranks, |_| true)?.to_json())),
    ..TOML
};

/// The chains, with a warning for each key that lets segments in without it. The text's values have the places of keys that were skipped.
pub(super) fn read(Read { chains, mismatched, skipped }: &Read, root: Option<&Value>) -> Content {
    let chain = |chain: &KeyChain| Chain {
        name: chain.name().to_owned(),
        description: chain.description().map(ToOwned::to_owned),
        accept_tolerance: chain.accept_tolerance(),
        keys: chain.keys().iter().map(ChainKey::from).collect(),
        ..Chain::default()
    };
    let chain = |of_file: &KeyChain| {
        let mut chain = chain(of_file);
        let preferred = chain.keys.iter_mut().find(|key| Some(key.key_id) == of_file.preferred());
        preferred.into_iter().for_each(|key| key.preference = Preference::Preferred);
        chain
    };
    let mut chains: Vec<_> = chains.chains().iter().map(chain).collect();
    for (chain, key_id) in mismatched {
        let remark = Remark::accepts_mismatch(None, "its peers", "accept-key-mismatch").of_key(*key_id);
        chains[*chain].remarks.push(remark);
    }
    let lists = root.and_then(|root| LISTS.into_iter().find_map(|name| root.find(name, DEPTH)));
    let position = |(chain, key): &(usize, usize)| {
        let keys = lists?.element(*chain)?.get("key")?;
        Some(keys.element(*key)?.position)
    };
    let what = "a key without ietf-tcp:authentication, so not for TCP";
    let skipped = skipped.iter().filter_map(position).map(|position| Skipped { position, what }).collect();
    Content { chains, skipped, ..Content::default() }
}

impl From<&Key> for ChainKey {
    fn from(key: &Key) -> Self {
        let parameters = key.mkt().parameters();
        let secret = Zeroizing::new(key.mkt().master_key().expose_secret().to_vec());
        // The original notation is no longer known; printable octets are taken for text.
        let notation = match secret.iter().all(|octet| matches!(octet, b' '..=b'~')) {
            true => Notation::Text,
            false => Notation::Hexadecimal,
        };
        Self {
            position: None,
            key_id: key.key_id(),
            send_id: parameters.send_id,
            recv_id: parameters.recv_id,
            algorithm: parameters.algorithm,
            mac_length: parameters.mac_length(),
            options: parameters.options,
            secret: Secret::new(secret, notation),
            send: *key.send_lifetime(),
            accept: *key.accept_lifetime(),
            clock: Clock::Utc,
            preference: Preference::Ordinary,
        }
    }
}

/// The chains as [`KeyChains`], with send lifetimes cut to the accept lifetimes. `lose_ranks` says which ranks of keys are lost. The names
/// have only characters for which `is_kept` is true.
pub(super) fn write(
    chains: &[Chain],
    losses: &mut Vec<String>,
    lose_ranks: fn(&Chain, &mut Vec<String>),
    is_kept: fn(char) -> bool,
) -> Result<KeyChains, Error> {
    let mut names = Names::new(is_kept);
    let mut written = Vec::new();
    for chain in chains {
        lose_ranks(chain, losses);
        lose_links(chain, losses);
        if !chain.neighbors.is_empty() {
            losses
                .push(format!("chain {:?}: its peers, which key chains of RFC 8177 do not have", chain.name));
        }
        for key in chain.keys.iter().filter(|key| !key.accept.covers(&key.send)) {
            losses.push(format!("key {}: its send lifetime outside the accept lifetime", chain.name_of(key)));
        }
        // Allocate for all keys: a list that grew would leave secrets behind.
        let mut keys = Vec::with_capacity(chain.keys.len());
        keys.extend(chain.keys.iter().filter_map(|key| key.key().ok()));
        written.push(chain.key_chain(names.name(chain, losses), keys)?);
    }
    KeyChains::new(written)
}
