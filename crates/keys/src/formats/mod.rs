//! Files of keys in every supported format: reading, checking and converting them.

mod bird;
mod chains;
mod change;
mod check;
mod cisco;
mod convert;
mod eos;
mod file;
mod format;
mod frr;
mod gobgp;
mod ios_xe;
mod ios_xr;
mod junos;
mod load;
mod netconf;
mod obscured;
mod openconfig;
mod peers;
mod sr_linux;
mod sr_os;
mod table;
mod tree;
mod values;
mod vrp;
mod write;
mod yaml;

pub use change::{Changed, change};
pub use check::{Finding, Usable, check};
pub use convert::{Conversion, convert};
pub use file::{
    Chain, ChainKey, Clock, ConfiguredKey, End, Keys, Neighbor, Notation, Preference, Remark, Secret,
    Skipped, Weight,
};
pub use format::{Format, Implementation, KeyFile};
pub use load::{
    MAX_KEY_FILE, load, load_key_chains, load_with_octets, permission_warning, read, read_key_chains,
    read_wiped,
};
pub use obscured::hexadecimal;
pub use table::SendingRule;
