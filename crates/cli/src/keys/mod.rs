//! Keys from key-chain files, routers' configurations and the command line.

use cidr::IpCidr;
use wireseal_tcp_ao::key_chain::Key;

/// A key as it was configured at one end of its connections.
#[derive(Clone, Debug)]
pub struct ConfiguredKey {
    /// What reports call it, such as `core/100`: the chain's name, if there is one, and the key's id in it.
    pub name: String,
    /// The MKT as the configured end has it (its SendID is what this end sends), with its lifetimes.
    pub key: Key,
    /// By how many seconds each end of the accept lifetime is moved out.
    pub accept_tolerance: u32,
    /// The addresses of the peers that the key is for; without it, the key is for all, and it is not known which end of a
    /// connection it was configured at.
    pub peer: Option<IpCidr>,
}

/// All keys that a capture is checked against, in the order in which they were given.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// The keys.
    pub keys: Vec<ConfiguredKey>,
}
