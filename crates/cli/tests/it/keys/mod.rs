//! Keys of every format, and `wireseal keys`.

mod argument;
mod command;
mod convert;
mod errors;
mod formats;
mod growth;
