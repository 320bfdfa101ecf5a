//! Keys from key-chain files, routers' configurations and the command line.
//!
//! | you want to | call |
//! |---|---|
//! | read a file of any format | [`load`] |
//! | read a `--key` argument | [`from_argument`] |
//! | check a capture against what was read | [`KeyFile::keys`] |
//! | explain a file | [`check::check`] |
//! | write a file in another format | [`convert`](convert()) |
//! | tell the operator what others can see | [`KeyFile::warnings`] on standard error |

mod argument;
mod bird;
pub mod check;
mod collisions;
mod convert;
mod error;
mod file;
mod format;
mod ios_xr;
mod junos;
mod load;
mod obscured;
pub mod permissions;
mod secret;
mod source;
mod vendors;
mod words;

pub use argument::from_argument;
pub use convert::{Conversion, ConvertError, convert};
pub use error::{ArgumentError, KeysError, TextError, TextProblem};
pub use file::{Chain, ChainKey, KeyFile, Preference};
pub use format::Format;
pub use load::{load, read};
pub use secret::{Notation, Secret};
pub use vendors::Implementation;

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
