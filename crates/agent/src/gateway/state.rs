//! The file of sessions. It contains no secrets, but only its owner may write it, because it sets the sequence numbers of sessions.

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use wireseal_keys::Timestamp;
use wireseal_tcp_ao::ConnectionState;

use crate::error::Error;

/// Octets of the longest file, with 1.6 million sessions.
const MOST: u64 = 256 << 20;

/// Where sessions are kept while no gateway runs.
pub(super) struct StateFile {
    path: PathBuf,
    /// The file that is written, and then renamed.
    new: PathBuf,
}

impl StateFile {
    /// Checks an existing file, and writes one beside it to see whether sessions can be written at the end.
    pub(super) fn new(path: &Path) -> Result<Self, Error> {
        let file = Self { path: path.to_owned(), new: beside(path, ".new") };
        let created = file.check().and_then(|()| file.attempt());
        created.map_err(|error| file.error(error))?;
        Ok(file)
    }

    fn error(&self, error: io::Error) -> Error {
        Error::file(&self.path)(error)
    }

    /// An error if the file exists and must not be used.
    fn check(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(metadata) => is_own(&metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn attempt(&self) -> io::Result<()> {
        let tried = beside(&self.path, ".try");
        let written = self.create().and_then(|mut file| {
            file.write_all(&[0; ConnectionState::OCTETS])?;
            file.sync_all()?;
            fs::rename(&self.new, &tried)
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&self.new);
            let advice = "sessions could not be written here when the gateway ends";
            return Err(io::Error::new(error.kind(), format!("{advice}: {error}")));
        }
        fs::remove_file(tried)?;
        self.sync_folder()
    }

    fn create(&self) -> io::Result<File> {
        // A crash may have left one, or another user may have made it.
        match fs::remove_file(&self.new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.new)
    }

    /// Makes renaming and removing survive a crash.
    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Reads the sessions, if there are any. Each may be restored only once, so [remove](Self::remove) the file before packets are carried.
    /// A damaged file is renamed, and the log says so.
    pub(super) fn read(&self) -> Result<Vec<ConnectionState>, Error> {
        self.read_or_set_aside().map_err(|error| self.error(error))
    }

    fn read_or_set_aside(&self) -> io::Result<Vec<ConnectionState>> {
        // The file may have been replaced since it was checked.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file =
            match OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&self.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                file => file?,
            };
        let metadata = file.metadata()?;
        is_own(&metadata)?;
        let sessions = if metadata.len() > MOST {
            Err(format!("it has more than {MOST} octets"))
        } else {
            let mut octets = Vec::new();
            file.take(MOST).read_to_end(&mut octets)?;
            parse(&octets)
        };
        sessions.or_else(|why| {
            let aside = beside(&self.path, &format!(".damaged-{}", Timestamp::now().unix_seconds()));
            fs::rename(&self.path, &aside)?;
            self.sync_folder()?;
            let lost = metadata.len().div_ceil(ConnectionState::OCTETS as u64);
            tracing::error!(
                path = %self.path.display(), aside = %aside.display(), lost, why,
                "the file of sessions is damaged or of another version, and was set aside: its sessions have to open again"
            );
            Ok(Vec::new())
        })
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> Result<(), Error> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| self.sync_folder()).map_err(|error| self.error(error)),
        }
    }

    /// Writes as many sessions as fit; the log says how many.
    pub(super) fn write(&self, sessions: Vec<ConnectionState>) {
        let path = self.path.display();
        let sessions = once(sessions);
        match self.write_most(&sessions) {
            (written, Ok(())) => tracing::info!(sessions = written, %path, "the sessions were written"),
            (written, Err(error)) => {
                let lost = sessions.len() - written;
                tracing::error!(sessions = written, lost, %path, %error, "not all sessions could be written: the others have to open again");
            }
        }
    }

    /// Writes sessions until the first error; returns how many were written, and that error.
    fn write_most(&self, sessions: &[ConnectionState]) -> (usize, io::Result<()>) {
        let mut file = match self.create() {
            Ok(file) => file,
            Err(error) => return (0, Err(error)),
        };
        let (mut written, mut why) = (0, Ok(()));
        for session in sessions {
            why = file.write_all(&session.to_octets());
            if why.is_err() {
                break;
            }
            written += 1;
        }
        if written == 0 && why.is_err() {
            let _ = fs::remove_file(&self.new);
            return (0, why);
        }
        // Cuts off a partly written session.
        let placed = file
            .set_len((written * ConnectionState::OCTETS) as u64)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&self.new, &self.path))
            .and_then(|()| self.sync_folder());
        match placed {
            Ok(()) => (written, why),
            Err(error) => {
                let _ = fs::remove_file(&self.new);
                (0, why.and(Err(error)))
            }
        }
    }
}

/// A path in the same folder.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// An error if this is no regular file, or others can write to it.
fn is_own(metadata: &Metadata) -> io::Result<()> {
    let (user, mode) = (geteuid().as_raw(), metadata.mode() & 0o7777);
    let why = if !metadata.is_file() {
        "it is no regular file".to_owned()
    } else if metadata.uid() != user {
        format!("it belongs to user {}, not to {user}, who runs this", metadata.uid())
    } else if mode & 0o022 != 0 {
        format!("others can write it (mode {mode:04o}), and so decide on sequence numbers: \"chmod 600\"")
    } else {
        return Ok(());
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

fn parse(octets: &[u8]) -> Result<Vec<ConnectionState>, String> {
    let sessions = octets.chunks(ConnectionState::OCTETS).map(ConnectionState::from_octets);
    sessions.collect::<Result<_, _>>().map(once).map_err(|error| error.to_string())
}

/// Keeps only the first of several sessions between the same ends.
fn once(mut sessions: Vec<ConnectionState>) -> Vec<ConnectionState> {
    let mut seen = HashSet::new();
    sessions.retain(|session| seen.insert(session.pair));
    sessions
}

/// For the fuzz targets: the sessions in a saved file.
///
/// # Errors
/// What is wrong with it.
#[cfg(fuzzing)]
pub fn saved_sessions(octets: &[u8]) -> Result<Vec<ConnectionState>, String> {
    parse(octets)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// An established session, in the present format.
    fn session(port: u16) -> ConnectionState {
        let mut octets = [0; ConnectionState::OCTETS];
        octets[0] = 2;
        octets[17..19].copy_from_slice(&port.to_be_bytes());
        ConnectionState::from_octets(&octets).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_written_is_read_each_session_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.a");
        let file = StateFile::new(&path).unwrap();
        assert_eq!(names(folder.path()), [""; 0], "what was tried is gone");
        assert_eq!(file.read().unwrap(), []);
        file.write(vec![session(1), session(2), session(1)]);
        assert_eq!(names(folder.path()), ["sessions.a"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(file.read().unwrap(), [session(1), session(2)]);
        // A file may still contain a session twice.
        let octets = fs::read(&path).unwrap();
        fs::write(&path, [&octets[..], &octets].concat()).unwrap();
        assert_eq!(file.read().unwrap(), [session(1), session(2)]);
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_file_that_is_damaged_or_of_another_version_is_set_aside() {
        let good = session(1).to_octets();
        let newer = [&[9], &good[1..]].concat();
        for damaged in [&good[..good.len() - 1], &newer, b"no state"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("sessions");
            fs::write(&path, damaged).unwrap();
            let file = StateFile::new(&path).unwrap();
            assert_eq!(file.read().unwrap(), []);
            let [aside] = &names(folder.path())[..] else { panic!("{:?}", names(folder.path())) };
            assert!(aside.starts_with("sessions.damaged-"), "{aside}");
            assert_eq!(fs::read(folder.path().join(aside)).unwrap(), damaged);
            file.remove().unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        File::create(&path).unwrap().set_len(MOST + 1).unwrap();
        assert_eq!(StateFile::new(&path).unwrap().read().unwrap(), []);
        assert!(names(folder.path())[0].starts_with("sessions.damaged-"));
    }

    #[test]
    fn what_others_can_write_and_what_cannot_be_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| StateFile::new(path).err().map(|error| error.to_string());
        let path = folder.path().join("sessions");
        fs::write(&path, session(1).to_octets()).unwrap();
        for mode in [0o620, 0o602] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(refused(&path).unwrap().contains("others can write it"), "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(refused(&path), None);
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        let special = folder.path().join("special");
        let _listener = UnixListener::bind(&special).unwrap();
        for other in [&link, &special, folder.path()] {
            assert!(refused(other).unwrap().contains("no regular file"), "{}", other.display());
        }
        let missing = refused(&folder.path().join("no/such/folder")).unwrap();
        assert!(missing.contains("could not be written here"), "{missing}");
        assert!(refused(Path::new("/proc/sessions")).is_some());
        assert_eq!(names(folder.path()), ["link", "sessions", "special"]);
    }
}
