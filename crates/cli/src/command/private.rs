//! New secrets, and writing them: without buffers that keep them, and into files that only their owner can read.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;

use tempfile::NamedTempFile;
use wireseal_keys::{Notation, Secret};
use zeroize::Zeroizing;

/// The characters of a new secret: every implementation accepts them, and each that is drawn evenly has 5.95 bits.
const CHARACTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A random secret of this many letters and digits. The first is a letter.
pub(super) fn fresh_secret(length: usize) -> Result<Secret, getrandom::Error> {
    const LETTERS: usize = 52;
    // As long as it will be: a list that grew would leave secrets behind.
    let mut octets = Zeroizing::new(Vec::with_capacity(length));
    let mut random = Zeroizing::new([0; 64]);
    while octets.len() < length {
        getrandom::fill(&mut *random)?;
        for octet in random.iter() {
            let index = usize::from(*octet & 63);
            let choices = if octets.is_empty() { LETTERS } else { CHARACTERS.len() };
            if index < choices && octets.len() < length {
                octets.push(CHARACTERS[index]);
            }
        }
    }
    Ok(Secret::new(octets, Notation::Text))
}

/// Refuses a terminal as standard output, unless that is wanted. `option` is what names a place for files instead.
pub(super) fn check_terminal(show_secrets: bool, option: &str) -> Result<(), String> {
    if show_secrets || !io::stdout().is_terminal() {
        return Ok(());
    }
    Err(format!("this would show the secrets on the terminal: give {option}, or --show-secrets"))
}

/// Writes the text without buffers, which would keep the secrets.
pub(super) fn write_text(output: &mut impl Write, text: &str) -> io::Result<()> {
    output.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        output.write_all(b"\n")?;
    }
    output.flush()
}

/// Replaces the file at `path` with one of mode 0600, completely or not at all, even if the power fails.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    // A device, a pipe or a link would be gone.
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(format!("{}: not a regular file, so it is not replaced", path.display()).into());
    }
    let (folder, file) = written(path, text).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    sync(&folder, path)
}

/// Makes a file of mode 0600 at `path`, completely or not at all, even if the power fails, and never in place of another.
pub(super) fn write_new(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::AlreadyExists => format!("{}: exists already, and nothing is replaced", path.display()),
        _ => format!("{}: {error}", path.display()),
    };
    let (folder, file) = written(path, text).map_err(failed)?;
    file.persist_noclobber(path).map_err(|error| failed(error.error))?;
    sync(&folder, path)
}

/// The folder of `path`, and a temporary file in it with the text, which is on the disk.
fn written(path: &Path, text: &str) -> io::Result<(File, NamedTempFile)> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(directory)?;
    // Without the name of the temporary file, which nobody knows.
    let of_system = |error: io::Error| {
        let text = error.to_string();
        io::Error::new(error.kind(), text.split(" at path ").next().unwrap_or_default())
    };
    let mut file = NamedTempFile::new_in(directory).map_err(of_system)?;
    write_text(&mut file, text)?;
    file.as_file().sync_all()?;
    Ok((folder, file))
}

/// Puts the new name of a file onto the disk.
fn sync(folder: &File, path: &Path) -> Result<(), Box<dyn Error>> {
    folder.sync_all().map_err(|error| {
        format!("{}: written, but would be lost if the power failed: {error}", path.display()).into()
    })
}
