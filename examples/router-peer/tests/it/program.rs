//! The program, run on configurations.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use router_peer::certificate;
use tempfile::TempDir;

pub fn router_peer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_router-peer"))
}

/// Runs the program in a directory to its end.
pub fn run(directory: &Path, arguments: &[&str]) -> Output {
    router_peer().args(arguments).current_dir(directory).output().unwrap()
}

/// Writes a file with these permissions.
pub fn write(directory: &Path, file: &str, text: &str, mode: u32) {
    fs::write(directory.join(file), text).unwrap();
    fs::set_permissions(directory.join(file), fs::Permissions::from_mode(mode)).unwrap();
}

/// Replaces something in a file.
pub fn edit(directory: &Path, file: &str, old: &str, new: &str) {
    let text = fs::read_to_string(directory.join(file)).unwrap();
    assert!(text.contains(old), "{file}: {old}");
    fs::write(directory.join(file), text.replace(old, new)).unwrap();
}

/// A copy of the shipped configurations, with certificates, whose key file only its owner can read, as a checkout's is not.
pub fn shipped() -> TempDir {
    let directory = TempDir::new().unwrap();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("configs")).unwrap() {
        let file = entry.unwrap().path();
        // Whoever has tried the README's commands has certificates and sockets there.
        if file.is_file() {
            let text = fs::read_to_string(&file).unwrap();
            write(directory.path(), file.file_name().unwrap().to_str().unwrap(), &text, 0o600);
        }
    }
    for name in ["east", "west"] {
        certificate::create(&directory.path().join("certificates"), name).unwrap();
    }
    directory
}

/// A running router and its log.
pub struct Router {
    child: Child,
    log: BufReader<ChildStderr>,
    /// What it has logged so far.
    pub said: String,
}

impl Router {
    pub fn start(directory: &Path, config: &str, more: &[&str]) -> Self {
        let mut command = router_peer();
        command.args(["--config", config]).args(more).current_dir(directory).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, said: String::new() }
    }

    /// Reads the log until each of these words has come so many times, from now on.
    pub fn wait_for(&mut self, words: &[&str], times: usize) {
        let mut left = times;
        while left > 0 {
            let start = self.said.len();
            assert_ne!(self.log.read_line(&mut self.said).unwrap(), 0, "stopped by itself:\n{}", self.said);
            left -= usize::from(words.iter().all(|word| self.said[start..].contains(word)));
        }
    }

    /// Has it stop in order and reads the rest of the log.
    pub fn stop(mut self) -> String {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        self.log.read_to_string(&mut self.said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.said);
        std::mem::take(&mut self.said)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // It runs no more, unless a test has failed or kills it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
