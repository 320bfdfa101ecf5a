//! Keys from key-chain files, router configurations and the command line.
//!
//! | to | call |
//! |---|---|
//! | read a file of any format | [`load`] |
//! | read a `--key` argument | [`from_argument`] |
//! | check a capture against what was read | [`KeyFile::keys`] |
//! | explain a file | [`check::check`] |
//! | write a file in another format | [`convert`](convert()) |

mod argument;
mod bird;
pub mod check;
mod collisions;
mod configured;
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
pub use configured::{ConfiguredKey, Keys};
pub use convert::{Conversion, ConvertError, convert};
pub use error::{ArgumentError, FileProblem, KeysError, TextError, TextProblem};
pub use file::{Chain, ChainKey, KeyFile, Preference};
pub use format::Format;
pub use load::{load, read, read_wiped};
pub use secret::{Notation, Secret};
pub use vendors::Implementation;
