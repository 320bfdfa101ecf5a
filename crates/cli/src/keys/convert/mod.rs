//! Keys written in any of the formats.

mod bird;
mod chains;
mod ios_xr;
mod junos;

use std::collections::HashSet;
use std::{error, fmt};

use wireseal_tcp_ao::key_chain::KeyChainError;
use zeroize::Zeroizing;

use super::vendors::Implementation;
use super::{Chain, ChainKey, Format, KeyFile, Preference};

/// Keys as text, and what was lost on the way.
#[derive(Clone)]
pub struct Conversion {
    /// The text, with the secrets in it.
    pub text: Zeroizing<String>,
    /// What the format cannot say, a sentence each.
    pub losses: Vec<String>,
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion").field("losses", &self.losses).finish_non_exhaustive()
    }
}

/// Why keys cannot be written in a format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConvertError {
    /// TOML and JSON do not hold chains whose keys are in each other's way.
    KeyChain(KeyChainError),
    /// The format can say none of the keys.
    NothingLeft {
        /// The format.
        to: Format,
        /// Why not, a sentence for each key.
        losses: Vec<String>,
    },
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyChain(error) => write!(f, "cannot be converted: {error}"),
            Self::NothingLeft { to, losses } => {
                write!(f, "no key can be written as {to}: {}", losses.join("; "))
            }
        }
    }
}

impl error::Error for ConvertError {}

/// Writes the keys in a format; keys that it cannot say are left out and named, as is whatever else is lost.
///
/// # Errors
/// [`ConvertError`].
pub fn convert(file: &KeyFile, to: Format) -> Result<Conversion, ConvertError> {
    let mut losses = Vec::new();
    let implementation = match to {
        Format::Toml | Format::Json => None,
        Format::Bird | Format::Junos | Format::IosXr => Some(Implementation::reading(Some(to))),
    };
    let mut chains = chains_without_refused(file, implementation, &mut losses);
    if to == Format::IosXr {
        let mut taken = HashSet::new();
        let kept = |chain| ios_xr::that_can_be(chain, &mut taken, &mut losses);
        chains = chains.iter().filter_map(kept).collect();
    }
    if chains.is_empty() {
        return Err(ConvertError::NothingLeft { to, losses });
    }
    let text = match to {
        Format::Toml => chains::write(&chains, &mut losses).map_err(ConvertError::KeyChain)?.to_toml(),
        Format::Json => chains::write(&chains, &mut losses).map_err(ConvertError::KeyChain)?.to_json(),
        Format::Bird => written(&chains, |text| bird::write(text, &chains, &mut losses)),
        Format::Junos => written(&chains, |text| junos::write(text, &chains, &mut losses)),
        Format::IosXr => written(&chains, |text| ios_xr::write(text, &chains, &mut losses)),
    };
    let mut named = HashSet::new();
    losses.retain(|loss| named.insert(loss.clone()));
    Ok(Conversion { text, losses })
}

/// The chains less the keys that the implementation refuses, or that can be none at all.
fn chains_without_refused(
    file: &KeyFile,
    implementation: Option<Implementation>,
    losses: &mut Vec<String>,
) -> Vec<Chain> {
    let mut kept = Vec::new();
    for chain in &file.chains {
        let mut chain = chain.clone();
        let named: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
        let mut names = named.iter();
        chain.keys.retain(|key| {
            let name = names.next().map_or("", String::as_str);
            let reasons = match implementation {
                Some(implementation) => {
                    let refusals = implementation.refusals(key);
                    refusals.iter().map(|refusal| format!("{implementation} {refusal}")).collect()
                }
                None => impossible(key),
            };
            losses.extend(reasons.iter().map(|reason| format!("key {name} is left out: {reason}")));
            reasons.is_empty()
        });
        if !chain.keys.is_empty() {
            kept.push(chain);
        }
    }
    kept
}

/// Why a key can be no MKT.
fn impossible(key: &ChainKey) -> Vec<String> {
    match key.key() {
        Ok(_) => Vec::new(),
        Err((field, problem)) => vec![format!("{field}: {problem}")],
    }
}

/// A text that is written into a buffer which is large enough never to move and leave secrets behind.
fn written(chains: &[Chain], write: impl FnOnce(&mut String)) -> Zeroizing<String> {
    const KEY: usize = 1024;
    const PEER: usize = 256;
    let of_key = |key: &ChainKey| KEY + 8 * key.secret.expose().len();
    let of_chain = |chain: &Chain| {
        let words = 8 * (chain.name.len() + chain.description.as_ref().map_or(0, String::len)) + KEY;
        let keys: usize = chain.keys.iter().map(of_key).sum();
        // BIRD has the keys again for every peer.
        (words + keys) * chain.peers.len().max(1) + chain.peers.len() * (PEER + words)
    };
    let mut text = Zeroizing::new(String::with_capacity(KEY + chains.iter().map(of_chain).sum::<usize>()));
    let capacity = text.capacity();
    write(&mut text);
    debug_assert_eq!(text.capacity(), capacity, "the buffer has moved and left secrets behind");
    text
}

/// Names for chains, each only once and with nothing that `is_kept` is false for.
struct Names {
    used: HashSet<String>,
    is_kept: fn(char) -> bool,
}

impl Names {
    fn new(is_kept: fn(char) -> bool) -> Self {
        Self { used: HashSet::new(), is_kept }
    }

    fn name(&mut self, chain: &Chain, losses: &mut Vec<String>) -> String {
        let base = match chain.name.as_str() {
            "" => "keys".to_owned(),
            name => name.chars().map(|c| if (self.is_kept)(c) { c } else { '_' }).collect(),
        };
        let mut name = base.clone();
        let mut number = 1;
        while !self.used.insert(name.clone()) {
            number += 1;
            name = format!("{base}_{number}");
        }
        if name != chain.name && !chain.name.is_empty() {
            losses.push(format!("chain {:?} is called {name}", chain.name));
        }
        name
    }
}

/// Ids for the keys of a chain: their own, unless one is larger than `max`.
fn key_ids(chain: &Chain, max: u64, losses: &mut Vec<String>) -> Vec<u64> {
    let mut used: HashSet<u64> = HashSet::new();
    let own: Vec<_> = chain
        .keys
        .iter()
        .map(|key| (key.key_id <= max && used.insert(key.key_id)).then_some(key.key_id))
        .collect();
    let mut free = (0..=max).filter(|id| !used.contains(id));
    let ids = own.iter().zip(&chain.keys).map(|(own, key)| match own {
        Some(id) => *id,
        None => {
            let id = free.next().unwrap_or(max);
            losses.push(format!("key {} is number {id} of its chain", chain.name_of(key)));
            id
        }
    });
    ids.collect()
}

fn lose_preferences(chain: &Chain, losses: &mut Vec<String>) {
    for key in chain.keys.iter().filter(|key| key.preference != Preference::Ordinary) {
        losses.push(format!("key {}: only BIRD has preferred and deprecated", chain.name_of(key)));
    }
}
