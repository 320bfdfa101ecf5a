//! The program's file.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;

use super::RunError;

/// Set-user-ID and set-group-ID.
const PRIVILEGED: u32 = 0o6000;

/// The path of a program, looked up in `PATH` as a shell does, unless it is one that gets privileges by being started.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, RunError> {
    let found = if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        Some(PathBuf::from(program)).filter(|path| path.exists())
    } else {
        let folders = env::var_os("PATH").unwrap_or_default();
        let mut candidates = env::split_paths(&folders).map(|folder| folder.join(program));
        candidates.find(|path| is_executable(path))
    };
    let path = found.ok_or_else(|| RunError::NoProgram(program.into()))?;
    let gets_capabilities = getxattr(&path, "security.capability", &mut [0; 64][..]).is_ok();
    let mode = fs::metadata(&path).map_or(0, |metadata| metadata.mode());
    if gets_capabilities || mode & PRIVILEGED != 0 {
        return Err(RunError::Privileged(path));
    }
    Ok(path)
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
