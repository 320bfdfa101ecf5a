//! Writing secrets: without buffers that keep them, and into files that only their owner can read.

use std::error::Error;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

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

/// Replaces the file at `path` with one of mode 0600, completely or not at all.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    // A device, a pipe or a link would be gone.
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(format!("{}: not a regular file, so it is not replaced", path.display()).into());
    }
    written(path, text).map_err(failed)?.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Makes a file of mode 0600 at `path`, completely or not at all, and never in place of another.
pub(super) fn write_new(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    written(path, text).map_err(failed)?.persist_noclobber(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// A temporary file with the text, in the folder of `path`.
fn written(path: &Path, text: &str) -> io::Result<tempfile::NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    write_text(&mut file, text)?;
    Ok(file)
}
