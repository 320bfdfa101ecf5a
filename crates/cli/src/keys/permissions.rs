//! Who else can read or write a file of secrets.

use std::fs::Metadata;
use std::path::Path;

/// A warning if every user of the machine can read or write this file of secrets.
#[must_use]
pub fn warning(path: &Path, metadata: &Metadata) -> Option<String> {
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
