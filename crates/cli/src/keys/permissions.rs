//! Who else can read a file of secrets.

use std::fs::Metadata;
use std::path::Path;

/// A warning if every user of the machine can read this file of secrets.
#[must_use]
pub fn warning(path: &Path, metadata: &Metadata) -> Option<String> {
    let mode = mode(metadata)?;
    (metadata.is_file() && mode & 0o004 != 0).then(|| {
        format!(
            "{}: every user of this machine can read it (mode {:04o}); \"chmod o-r\" prevents that",
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
