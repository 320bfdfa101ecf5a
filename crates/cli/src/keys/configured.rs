//! The keys that a capture is checked against.

use cidr::IpCidr;
use wireseal_keys::Key;

/// A key as configured at one end of its connections.
#[derive(Clone, Debug)]
pub struct ConfiguredKey {
    /// Its name in reports, such as `core/100`: the chain's name, if there is one, and the key's id in it.
    pub name: String,
    /// The MKT as that end has it (it sends the SendID), with its lifetimes.
    pub key: Key,
    /// By how many seconds the accept lifetime is extended at each end.
    pub accept_tolerance: u32,
    /// The peers that the key is for; `None` for all, and then it is unknown which end of a connection has it.
    pub peer: Option<IpCidr>,
}

/// All keys that a capture is checked against, in the order given.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// The keys.
    pub keys: Vec<ConfiguredKey>,
}
