//! Reading a file of keys, and finding out who else can read it.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;

use zeroize::Zeroizing;

use super::file::{Content, Skipped, Weight};
use super::{End, Format, KeyFile};
use crate::text::Collide;
use crate::{Error, KeyChains, Position};

/// The largest file of keys, in octets: larger than any router configuration.
pub const MAX_KEY_FILE: usize = 64 << 20;

/// Reads a file of keys, or standard input for `-`. Without `format`, the file's name and content decide.
///
/// # Errors
/// [`Error`], with the file and the place in it.
pub fn load(path: &Path, format: Option<Format>) -> Result<KeyFile, Error> {
    Ok(load_with_octets(path, format)?.0)
}

/// The same, with the octets of the file, which [`read`] has found to be UTF-8.
///
/// # Errors
/// Those of [`load`].
pub fn load_with_octets(path: &Path, format: Option<Format>) -> Result<(KeyFile, Zeroizing<Vec<u8>>), Error> {
    let in_file = |error: io::Error| Error::text(error.to_string()).in_file(path);
    let (octets, warning) = match path == Path::new("-") {
        true => (read_wiped(&mut io::stdin().lock(), 0, MAX_KEY_FILE).map_err(in_file)?, None),
        false => octets(path).map_err(in_file)?,
    };
    let mut file = read(path, text(path, &octets)?, format)?;
    file.warnings.extend(warning);
    Ok((file, octets))
}

/// Reads the key chains of a file of any format, for this end to sign and verify with, if `end` has the file. Also returns the file itself,
/// for the neighbors of its chains and for warnings. A file that is not recognized is read as TOML.
///
/// # Errors
/// [`Error`], with the file and the place in it. Chains of a router's configuration that cannot be used, because keys collide or only the
/// router can decrypt a secret, are in [`KeyChains::unusable`].
pub fn load_key_chains(path: &Path, end: End) -> Result<(KeyChains, KeyFile), Error> {
    let octets = octets(path).map_err(|error| Error::text(error.to_string()).in_file(path));
    let (octets, warning) = octets?;
    let (chains, mut file) = read_key_chains(path, text(path, &octets)?, None, end)?;
    file.warnings.extend(warning);
    Ok((chains, file))
}

/// The same for a text, which errors call `path`. Without `format`, the name and the content decide.
///
/// # Errors
/// Those of [`load_key_chains`].
pub fn read_key_chains(
    path: &Path,
    text: &str,
    format: Option<Format>,
    end: End,
) -> Result<(KeyChains, KeyFile), Error> {
    let known = |text: &str| Ok(format.or_else(|| Format::of(path, text)).unwrap_or(Format::Toml));
    let read = || {
        let file = read_as(known, text, format.is_some(), Collide::No)?;
        Ok((file.key_chains(end)?, file))
    };
    read().map_err(|error: Error| error.in_file(path))
}

/// The octets of a file, and a warning if others can read it.
fn octets(path: &Path) -> io::Result<(Zeroizing<Vec<u8>>, Option<String>)> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    let octets = read_wiped(&mut file, metadata.len(), MAX_KEY_FILE)?;
    Ok((octets, permission_warning(path, &metadata)))
}

fn text<'a>(path: &Path, octets: &'a [u8]) -> Result<&'a str, Error> {
    str::from_utf8(octets).map_err(|error| {
        // All before it is UTF-8.
        let before = String::from_utf8_lossy(&octets[..error.valid_up_to()]);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let position = Position { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 };
        Error::text("not UTF-8 text").at(Some(position)).in_file(path)
    })
}

/// Reads to the end, at most `limit` octets, without leaving copies behind when the buffer grows. `expected` is the probable number of
/// octets.
///
/// # Errors
/// Those of reading, and [`io::ErrorKind::FileTooLarge`].
pub fn read_wiped(from: &mut impl Read, expected: u64, limit: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    // One octet more, so that the buffer need not grow at the end of the file.
    let mut octets = Zeroizing::new(vec![0; usize::try_from(expected).unwrap_or(0).min(MAX_KEY_FILE) + 1]);
    let mut length = 0;
    loop {
        if length > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too large for a file of keys"));
        }
        if length == octets.len() {
            let mut larger = Zeroizing::new(vec![0; (2 * length).max(8192)]);
            larger[..length].copy_from_slice(&octets);
            octets = larger;
        }
        match from.read(&mut octets[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    octets.truncate(length);
    Ok(octets)
}

/// Reads keys from a text, which errors call `path`. Without `format`, the name and the content decide.
///
/// # Errors
/// [`Error`], with the place in the text.
pub fn read(path: &Path, text: &str, format: Option<Format>) -> Result<KeyFile, Error> {
    let read = || {
        let known = |text: &str| format.or_else(|| Format::of(path, text)).ok_or_else(|| unknown(text));
        let file = read_as(known, text, format.is_some(), Collide::Yes)?;
        match file.format {
            Some(known) if file.chains.iter().all(|chain| chain.keys.is_empty()) => Err(no_key(known, &file)),
            _ => Ok(file),
        }
    };
    read().map_err(|error| error.in_file(path))
}

/// For a text that shows no format: what each of them makes of it.
fn unknown(text: &str) -> Error {
    let mut tried: Vec<(String, Vec<&str>)> = Vec::new();
    for format in Format::ALL {
        let failed = match (format.table().read)(text, Collide::Yes) {
            Ok(content) if content.chains.iter().any(|chain| !chain.keys.is_empty()) => "has keys".to_owned(),
            Ok(_) => "no key for TCP-AO".to_owned(),
            Err(error) => error.to_string(),
        };
        match tried.iter_mut().find(|(known, _)| *known == failed) {
            Some((_, formats)) => formats.push(format.name()),
            None => tried.push((failed, vec![format.name()])),
        }
    }
    let tried: Vec<_> =
        tried.into_iter().map(|(failed, formats)| format!("{}: {failed}", formats.join(", "))).collect();
    Error::text(format!(
        "unknown format of keys: name it with --format (--keys-format for files given with --keys); tried as {}",
        tried.join("; as ")
    ))
}

/// The error for a text without keys: why there is none, if the reader knows.
fn no_key(format: Format, KeyFile { chains, remarks, skipped, .. }: &KeyFile) -> Error {
    let of_chains =
        chains.iter().flat_map(|chain| chain.remarks.iter().map(move |remark| (Some(chain), remark)));
    let all = of_chains.chain(remarks.iter().map(|remark| (None, remark)));
    // A keychain may have a reason for each direction.
    let warnings: Vec<_> = all.filter(|(_, remark)| remark.weight == Weight::Warning).take(2).collect();
    let Some((chain, remark)) = warnings.first() else {
        let error = Error::text(format!("has no key for TCP-AO (read as {format})"));
        return match skipped.first() {
            Some(Skipped { position, what }) => {
                Error::text(format!("has no key for TCP-AO (read as {format}); left out: {what}"))
                    .at(*position)
            }
            None => error,
        };
    };
    let sentences: Vec<_> = warnings.iter().map(|(_, remark)| remark.sentence.as_ref()).collect();
    // Another format may understand the line.
    let read_as =
        if remark.kind == "not-understood" { format!(" (read as {format})") } else { String::new() };
    let error = Error::text(sentences.join("; ") + &read_as).at(remark.position);
    let error = remark.key_id.into_iter().fold(error, Error::in_key);
    chain.iter().fold(error, |error, chain| error.in_chain(&chain.name))
}

/// Reads a text, without its byte order mark, in the format that `format` finds for it. The format is certain, or only suggested by the
/// file's name.
fn read_as(
    format: impl Fn(&str) -> Result<Format, Error>,
    text: &str,
    is_certain: bool,
    may: Collide,
) -> Result<KeyFile, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let format = format(text)?;
    let content = (format.table().read)(text, may).map_err(|error| match Format::of(Path::new(""), text) {
        Some(shown) if shown != format && !is_certain => Error::text(format!(
            "its name says {format}, but its text looks like {}: give it another name",
            shown.about()
        )),
        _ => error,
    });
    let Content { chains, skipped, remarks } = content?;
    let addresses = own_addresses(text);
    Ok(KeyFile { format: Some(format), chains, skipped, remarks, addresses, warnings: Vec::new() })
}

/// The addresses in a router's text that are its own: those after the word `address`, `local-address` or `local`, whatever the vendor. That a
/// line means something else does no harm, because they only tell which of several chains two ends share.
fn own_addresses(text: &str) -> BTreeSet<IpAddr> {
    let mut addresses = BTreeSet::new();
    for line in text.lines() {
        let words = line.split(|c: char| c.is_whitespace() || "=\"{};".contains(c));
        let mut words = words.filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            if !["address", "local-address", "local"].contains(&word) {
                continue;
            }
            let address = words.next().unwrap_or_default();
            let address = address.split_once('/').map_or(address, |(address, _)| address);
            addresses.extend(address.parse::<IpAddr>());
        }
    }
    addresses
}

/// A warning if every user of the machine can read or write this file of secrets.
#[must_use]
pub fn permission_warning(path: &Path, metadata: &Metadata) -> Option<String> {
    let mode = mode(metadata)?;
    let (can, change) = match mode & 0o006 {
        0o004 => ("read", "o-r"),
        0o002 => ("write", "o-w"),
        0o006 => ("read and write", "o-rw"),
        _ => return None,
    };
    metadata.is_file().then(|| {
        format!(
            "{}: every user of this machine can {can} it (mode {:04o}); \"chmod {change}\" prevents that",
            path.display(),
            mode & 0o7777
        )
    })
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> Option<u32> {
    Some(std::os::unix::fs::MetadataExt::mode(metadata))
}

#[cfg(not(unix))]
fn mode(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_can_do_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, said) in [
            (0o644, Some("can read it (mode 0644); \"chmod o-r\"")),
            (0o602, Some("can write it (mode 0602); \"chmod o-w\"")),
            (0o666, Some("can read and write it (mode 0666); \"chmod o-rw\"")),
            (0o660, None),
        ] {
            set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            let warning = permission_warning(file.path(), &metadata(file.path()).unwrap());
            assert_eq!(warning.is_some(), said.is_some(), "{mode:o}");
            assert!(
                warning.is_none_or(|warning| said.is_some_and(|said| warning.contains(said))),
                "{mode:o}"
            );
        }
    }
}
