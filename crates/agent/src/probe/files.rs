//! Files that other processes choose, opened as root: a name of theirs may lead to a device that acts when it is opened, or out of their
//! container. So each is looked at before it is opened, and only a regular one is read.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

/// The most that is read of a file.
const LONGEST: u64 = 64 << 20;
/// The most that is read of all files: a local user can have any number of them.
const MOST: u64 = 1 << 30;

/// A regular file that is not opened yet.
pub(super) struct Regular {
    place: OwnedFd,
    /// Its device and its inode number.
    pub(super) identity: (u64, u64),
}

impl Regular {
    fn new(place: OwnedFd) -> Option<Self> {
        let found = fstat(&place).ok()?;
        let is_regular = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        is_regular.then_some(Self { place, identity: (found.st_dev as _, found.st_ino as _) })
    }

    /// The file that a link of `/proc` stands for, such as `/proc/PID/exe`; `None` if there is none, or if it may not be read.
    pub(super) fn of_link(link: &Path) -> Option<Self> {
        Self::new(openat(CWD, link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?)
    }

    /// The file with this path under a root directory.
    pub(super) fn under(root: &Path, path: &Path) -> Option<Self> {
        Self::new(place_under(root, path).ok()?)
    }
}

/// What has this path under a root directory, also if links in the path lead out of it. It is not opened.
pub(super) fn place_under(root: &Path, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags | OFlags::DIRECTORY, Mode::empty())?;
    openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
}

/// The path of what a descriptor stands for, as long as it is open.
pub(super) fn by_descriptor(descriptor: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()).into()
}

/// Reads files, as many octets as it has left.
#[derive(Debug)]
pub(super) struct Reader {
    left: Cell<u64>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { left: Cell::new(MOST) }
    }
}

impl Reader {
    /// What is in a file, up to [`LONGEST`].
    pub(super) fn read(&self, file: &Regular) -> Option<Vec<u8>> {
        // NONBLOCK: who has a lease on the file does not make it wait either.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
        self.take(
            OpenOptions::new().read(true).custom_flags(flags as _).open(by_descriptor(&file.place)).ok()?,
        )
    }

    /// The list of a process's mappings, which the kernel makes: it is no file of anybody's choice.
    pub(super) fn mappings(&self, pid: u32) -> Option<Vec<u8>> {
        self.take(File::open(format!("/proc/{pid}/maps")).ok()?)
    }

    /// How many octets it has left.
    #[cfg(test)]
    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    fn take(&self, file: File) -> Option<Vec<u8>> {
        let mut octets = Vec::new();
        let most = LONGEST.min(self.left.get());
        file.take(most).read_to_end(&mut octets).ok()?;
        self.left.set(self.left.get() - octets.len() as u64);
        (most > 0).then_some(octets)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_under_the_root_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "inside").unwrap();
        fs::create_dir(path("root")).unwrap();
        fs::write(path("root/file"), "in the root").unwrap();
        symlink("/file", path("root/absolute")).unwrap();
        symlink("../../file", path("root/up")).unwrap();
        symlink("/proc/self/root/etc/passwd", path("root/magic")).unwrap();
        symlink("/proc/self/exe", path("root/program")).unwrap();
        let status = std::process::Command::new("mkfifo").arg(path("root/fifo")).status().unwrap();
        assert!(status.success());
        let reader = Reader::default();
        let read = |name: &str| reader.read(&Regular::under(&path("root"), Path::new(name))?);
        for name in ["file", "/file", "absolute", "up"] {
            assert_eq!(read(name).as_deref(), Some(&b"in the root"[..]), "{name}");
        }
        for name in ["fifo", "magic", "program", ".", "nothing"] {
            assert_eq!(read(name), None, "{name}");
        }
        assert!(Regular::of_link(Path::new("/proc/self/exe")).is_some());
        for other in ["/dev/null", "/proc/self/cwd", "/proc/self/ns/nothing"] {
            assert!(Regular::of_link(Path::new(other)).is_none(), "{other}");
        }
        // What is read of all files together has an end.
        let reader = Reader { left: Cell::new(13) };
        let file = Regular::of_link(&path("root/file")).unwrap();
        assert_eq!(reader.read(&file).map(|octets| octets.len()), Some(11));
        assert_eq!(reader.read(&file).map(|octets| octets.len()), Some(2));
        assert_eq!(reader.read(&file), None);
    }
}
