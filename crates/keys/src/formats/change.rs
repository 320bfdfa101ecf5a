//! Changing one chain of a file: the new file, or the commands for a router.

use std::fmt;
use std::path::Path;

use zeroize::Zeroizing;

use super::table::Written;
use super::{Chain, ChainKey, Format, KeyFile, Notation, Secret, convert, read};
use crate::Error;

/// A change of one chain of a file.
#[derive(Clone)]
pub struct Changed {
    /// The text, secrets included.
    pub text: Zeroizing<String>,
    /// Whether the text is a whole file that replaces today's. Otherwise it is commands.
    pub is_file: bool,
    /// What of today's file is missing from a whole file, one sentence each.
    pub losses: Vec<String>,
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = (self.is_file, &self.losses);
        f.debug_struct("Changed").field("is_file", &rest.0).field("losses", rest.1).finish_non_exhaustive()
    }
}

impl Format {
    /// Why keys in this format cannot be changed without losing segments, or why the commands for that are not known; `None` if they can be
    /// changed.
    #[must_use]
    pub fn cannot_change(self) -> Option<String> {
        let limits = &self.table().limits;
        match limits.not_hitless {
            Some(why) => Some(format!("{} {why}", limits.title)),
            None if self.table().change.is_none() => Some(format!(
                "{self} is written as a whole file only: commands that change a chain in use are not certain"
            )),
            None => None,
        }
    }

    /// The commands that apply a file of changes: `{file}` stands for that file, and `{target}` for today's file. Empty if [it cannot be
    /// changed](Self::cannot_change).
    #[must_use]
    pub fn apply_commands(self) -> &'static str {
        self.table().change.as_ref().map_or("", |change| change.apply)
    }

    /// Whether a change is a list of commands for a router rather than a whole file.
    #[must_use]
    pub fn is_changed_by_commands(self) -> bool {
        self.table().change.as_ref().is_some_and(|change| matches!(change.written, Written::Commands(_)))
    }

    /// The commands that show which keys are in use, in which `{chain}` stands for the chain's name. Empty if
    /// [it cannot be changed](Self::cannot_change).
    #[must_use]
    pub fn show_commands(self) -> &'static str {
        self.table().change.as_ref().map_or("", |change| change.show)
    }

    /// Whether a key has one lifetime for sending and accepting.
    pub(crate) const fn has_one_lifetime(self) -> bool {
        self.table().limits.has_one_lifetime
    }

    /// Whether a key may have one start for sending and accepting.
    pub(crate) const fn has_one_start(self) -> bool {
        let limits = &self.table().limits;
        limits.has_one_lifetime || limits.has_one_start
    }

    /// The largest SendID and RecvID, and whether a key has one id for both.
    pub(crate) const fn ids(self) -> (u8, bool) {
        (self.table().limits.max_id, self.table().limits.has_one_id)
    }

    /// The largest number of a key.
    pub(crate) const fn max_key_id(self) -> u64 {
        self.table().limits.max_key_id
    }

    /// The chain with the lifetimes, tolerance and ranks that it has after it is written in this format and read back.
    ///
    /// # Errors
    /// [`Error`] if the format cannot express all of its keys.
    pub(crate) fn as_written(self, chain: &Chain) -> Result<Chain, Error> {
        // Neither secrets that only the router can decrypt nor short ones keep a key from being written. SR OS has no two keys with one.
        let blank =
            |number| Secret::new(Zeroizing::new(format!("{number:0>32}").into_bytes()), Notation::Text);
        let keys = chain.keys.iter().enumerate();
        let keys = keys.map(|(number, key)| ChainKey { secret: blank(number), ..key.clone() });
        let blank = Chain { keys: keys.collect(), ..chain.clone() };
        let conversion = convert(&KeyFile { chains: vec![blank], ..KeyFile::default() }, self)?;
        let mut file = read(Path::new(""), &conversion.text, Some(self))?;
        let read = (!file.chains.is_empty()).then(|| file.chains.swap_remove(0));
        let read = read.filter(|read| read.keys.len() == chain.keys.len()).ok_or_else(|| {
            let why = conversion.losses.into_iter().find(|loss| loss.contains("left out"));
            Error::text(why.unwrap_or_else(|| format!("{self} cannot express the chain")))
        })?;
        let keys = chain.keys.iter().zip(read.keys).map(|(key, read)| ChainKey {
            send: read.send,
            accept: read.accept,
            preference: read.preference,
            ..key.clone()
        });
        Ok(Chain { accept_tolerance: read.accept_tolerance, keys: keys.collect(), ..chain.clone() })
    }
}

/// Changes a chain of a file to `after`. The result is commands for a router that has the chain `before`, or a whole file made from today's
/// `text`, in which the chain has this index.
///
/// # Errors
/// [`Error`] if the [format cannot be changed](Format::cannot_change), or if its text cannot be edited.
pub fn change(
    file: &KeyFile,
    text: &str,
    index: usize,
    before: &Chain,
    after: &Chain,
) -> Result<Changed, Error> {
    let format = file.format.unwrap_or(Format::Toml);
    if let Some(why) = format.cannot_change() {
        return Err(Error::text(why));
    }
    let today = &file.chains[index];
    match format.table().change.as_ref().map(|change| change.written) {
        Some(Written::Commands(commands)) => {
            Ok(Changed { text: commands(text, before, after)?, is_file: false, losses: Vec::new() })
        }
        Some(Written::Edited(edit)) => {
            let is_shared = |key: &ChainKey| {
                let others = file.chains.iter().enumerate().filter(|(other, _)| *other != index);
                others.flat_map(|(_, chain)| &chain.keys).any(|other| other.position == key.position)
            };
            if let Some(shared) = today.keys.iter().find(|key| is_shared(key)) {
                let why =
                    "other sessions have this key too, from the same template: give this one keys of its own";
                return Err(today.locate(Error::text(why), shared));
            }
            Ok(Changed { text: edit(text, today, after)?, is_file: true, losses: Vec::new() })
        }
        Some(Written::Anew) | None => {
            let mut new = file.clone();
            new.chains[index] = after.clone();
            let conversion = convert(&new, format)?;
            Ok(Changed { text: conversion.text, is_file: true, losses: conversion.losses })
        }
    }
}
