//! Reading and converting texts of keys: in every format that Wireseal has, or (without the feature `formats`) in TOML and JSON alone.

use std::path::Path;
use std::string::String;

use wireseal_keys::KeyChains;

use crate::heap::Message;
use crate::status::wireseal_status as Status;

/// Keys as text, secrets included, and what the format cannot express, a line for each.
pub(crate) struct Converted {
    pub(crate) text: zeroize::Zeroizing<String>,
    pub(crate) losses: String,
}

#[cfg(feature = "formats")]
mod every {
    use std::format;
    use std::vec::Vec;

    use wireseal_keys::{End, Format, convert, load_key_chains, read, read_key_chains};

    use super::*;

    pub(crate) fn chains_of_file(
        path: &str,
        of_peer: u8,
        message: &mut Message<'_>,
    ) -> Result<KeyChains, Status> {
        let (chains, file) = message.told(load_key_chains(Path::new(path), end_of(of_peer)))?;
        message.write(remarks(file.warnings, &chains));
        Ok(chains)
    }

    pub(crate) fn chains_of_text(
        name: &str,
        text: &str,
        format: Option<&str>,
        of_peer: u8,
        message: &mut Message<'_>,
    ) -> Result<KeyChains, Status> {
        let format = format.map(|format| format_named(format, message)).transpose()?;
        let read = read_key_chains(Path::new(name), text, format, end_of(of_peer));
        let (chains, file) = message.told(read)?;
        message.write(remarks(file.warnings, &chains));
        Ok(chains)
    }

    pub(crate) fn converted(
        name: &str,
        text: &str,
        from: Option<&str>,
        to: &str,
        message: &mut Message<'_>,
    ) -> Result<Converted, Status> {
        let from = from.map(|from| format_named(from, message)).transpose()?;
        let to = format_named(to, message)?;
        let file = message.told(read(Path::new(name), text, from))?;
        let conversion = message.told(convert(&file, to))?;
        Ok(Converted { text: conversion.text, losses: conversion.losses.join("\n") })
    }

    const fn end_of(of_peer: u8) -> End {
        if of_peer == 0 { End::ThisEnd } else { End::Peer }
    }

    fn format_named(name: &str, message: &mut Message<'_>) -> Result<Format, Status> {
        name.parse().map_err(|_| {
            let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
            message.write(format!("{name:?} is no format of keys; these are: {}", names.join(", ")));
            Status::BadArgument
        })
    }

    /// Warnings, and the chains that cannot be used, a line for each.
    fn remarks(warnings: Vec<String>, chains: &KeyChains) -> String {
        let unusable = chains.unusable().iter();
        let unusable = unusable.map(|(name, error)| format!("key chain {name:?} cannot be used: {error}"));
        warnings.into_iter().chain(unusable).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(not(feature = "formats"))]
mod two {
    use std::fs::File;
    use std::io::{self, Read};
    use std::vec::Vec;
    use std::{fmt, vec};

    use zeroize::Zeroizing;

    use super::*;

    pub(crate) fn chains_of_file(
        path: &str,
        of_peer: u8,
        message: &mut Message<'_>,
    ) -> Result<KeyChains, Status> {
        let octets = message.told(read(path).map_err(|error| InFile(path, error)))?;
        let text = message.told(str::from_utf8(&octets).map_err(|error| InFile(path, error)))?;
        chains_of_text(path, text, None, of_peer, message)
    }

    /// The octets of a file, in a buffer that does not grow: that would leave secrets behind.
    fn read(path: &str) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut octets = Zeroizing::new(vec![0; length]);
        file.read_exact(&mut octets)?;
        match file.read(&mut [0])? {
            0 => Ok(octets),
            _ => Err(io::Error::other("it is no regular file, or is being written")),
        }
    }

    /// What is wrong with a file.
    struct InFile<'a, E>(&'a str, E);

    impl<E: fmt::Display> fmt::Display for InFile<'_, E> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}: {}", self.0, self.1)
        }
    }

    impl<E> From<&InFile<'_, E>> for Status {
        fn from(_: &InFile<'_, E>) -> Self {
            Self::Keys
        }
    }

    pub(crate) fn chains_of_text(
        name: &str,
        text: &str,
        format: Option<&str>,
        of_peer: u8,
        message: &mut Message<'_>,
    ) -> Result<KeyChains, Status> {
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
        match (format, ending) {
            _ if of_peer != 0 => Err(left_out(message)),
            (Some("json"), _) | (None, Some("json")) => {
                message.told(KeyChains::from_json(text).map_err(|error| InFile(name, error)))
            }
            (Some("toml"), _) | (None, _) => {
                message.told(KeyChains::from_toml(text).map_err(|error| InFile(name, error)))
            }
            (Some(_), _) => Err(left_out(message)),
        }
    }

    pub(crate) fn converted(
        _: &str,
        _: &str,
        _: Option<&str>,
        _: &str,
        message: &mut Message<'_>,
    ) -> Result<Converted, Status> {
        Err(left_out(message))
    }

    fn left_out(message: &mut Message<'_>) -> Status {
        message.write("this libwireseal was built without the feature formats: it reads keys of this end, in TOML and JSON");
        Status::NotBuiltIn
    }
}

#[cfg(feature = "formats")]
pub(crate) use every::*;
#[cfg(not(feature = "formats"))]
pub(crate) use two::*;
