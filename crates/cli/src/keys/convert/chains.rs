//! TOML and JSON.

use wireseal_keys::{KeyChain, KeyChainError, KeyChains};

use super::names::{Names, lose_preferences};
use crate::keys::Chain;

/// The chains as [`KeyChains`] holds them.
pub(super) fn write(chains: &[Chain], losses: &mut Vec<String>) -> Result<KeyChains, KeyChainError> {
    let mut names = Names::new(|_| true);
    let mut written = Vec::new();
    for chain in chains {
        lose_preferences(chain, losses);
        if !chain.peers.is_empty() {
            losses.push(format!("chain {:?}: its peers, which TOML and JSON do not have", chain.name));
        }
        for key in chain.keys.iter().filter(|key| !key.accept.covers(&key.send)) {
            losses.push(format!("key {}: its send lifetime outside the accept lifetime", chain.name_of(key)));
        }
        // Room for all: a list that grew would leave secrets behind.
        let mut keys = Vec::with_capacity(chain.keys.len());
        keys.extend(chain.keys.iter().filter_map(|key| key.key().ok()));
        let of_chain = KeyChain::new(names.name(chain, losses), keys)?;
        let of_chain = of_chain.with_accept_tolerance(chain.accept_tolerance)?;
        written.push(match &chain.description {
            Some(description) => of_chain.with_description(description),
            None => of_chain,
        });
    }
    KeyChains::new(written)
}
