//! Files that are written beside a report.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Where a file is, whatever its path is written like.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Device and inode.
    Existing(u64, u64),
    /// Its folder without links, and its name.
    New(PathBuf),
}

impl Place {
    /// The place of a regular file, or of one that is not there yet; `-` is standard input. `None` for a device or a pipe, which nothing is
    /// lost of.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Some(Self::Existing(metadata.dev(), metadata.ino())),
            Ok(_) => None,
            Err(_) => {
                let folder = fs::canonicalize(folder_of(path)).ok()?;
                Some(Self::New(folder.join(path.file_name()?)))
            }
        }
    }
}

/// Checks that files to be written, each with the option that names it, are two files, and none of them the capture.
pub(crate) fn check(outputs: &[(&str, Option<&Path>)], capture: Option<&Path>) -> Result<(), String> {
    let input = capture.and_then(Place::of);
    let mut checked: Vec<(&str, Place)> = Vec::new();
    for (option, path) in outputs {
        let Some(path) = path else { continue };
        let Some(place) = Place::of(path) else { continue };
        if input.as_ref() == Some(&place) {
            return Err(format!("{option} {}: this is the capture; name another file", path.display()));
        }
        if let Some((other, _)) = checked.iter().find(|(_, known)| *known == place) {
            return Err(format!("{other} and {option} name the same file"));
        }
        checked.push((option, place));
    }
    Ok(())
}

/// Creates a file, or empties the one that is there, which keeps its owner and mode.
///
/// # Errors
/// Those of the system; and a symbolic link is refused, because somebody else may have made it, unless it is one of the system's own
/// such as /dev/stdout.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<File> {
    let is_of_system =
        ["/dev", "/dev/fd", "/proc/self/fd"].iter().any(|folder| folder_of(path) == Path::new(folder));
    let flags = if is_of_system { OFlags::empty() } else { OFlags::NOFOLLOW };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode).custom_flags(flags.bits() as _);
    options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => io::Error::other("a symbolic link, which is not followed: name the file itself"),
        _ => error,
    })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
