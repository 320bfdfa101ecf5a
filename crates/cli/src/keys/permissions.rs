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
            let warning = warning(file.path(), &metadata(file.path()).unwrap());
            assert_eq!(warning.is_some(), said.is_some(), "{mode:o}");
            assert!(
                warning.is_none_or(|warning| said.is_some_and(|said| warning.contains(said))),
                "{mode:o}"
            );
        }
    }
}
