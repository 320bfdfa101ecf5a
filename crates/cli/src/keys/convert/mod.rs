//! Keys written in any format.

mod bird;
mod chains;
mod ios_xr;
mod junos;
mod names;

use std::collections::HashSet;
use std::fmt;

use wireseal_keys::KeyChainError;
use zeroize::Zeroizing;

use super::vendors::Implementation;
use super::{Chain, ChainKey, Format, KeyFile};

/// Keys as text, and what was lost.
#[derive(Clone)]
pub struct Conversion {
    /// The text, secrets included.
    pub text: Zeroizing<String>,
    /// What the format cannot express, one sentence each.
    pub losses: Vec<String>,
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion").field("losses", &self.losses).finish_non_exhaustive()
    }
}

/// Why keys cannot be written in a format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConvertError {
    /// TOML and JSON cannot hold chains whose keys collide.
    #[error("cannot be converted: {0}")]
    KeyChain(KeyChainError),
    /// The format cannot express any of the keys.
    #[error("no key can be written as {to}: {}", .losses.join("; "))]
    NothingLeft {
        /// The format.
        to: Format,
        /// Why not, one sentence for each key.
        losses: Vec<String>,
    },
}

/// Writes the keys in a format. Keys that it cannot express are left out; they are named in the losses, like everything else lost.
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

/// The chains without keys that the implementation refuses or that cannot be MKTs.
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

/// Why a key cannot be an MKT.
fn impossible(key: &ChainKey) -> Vec<String> {
    match key.key() {
        Ok(_) => Vec::new(),
        Err((field, problem)) => vec![format!("{field}: {problem}")],
    }
}

/// Writes a text into a buffer that is large enough never to move and leave secrets behind.
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
