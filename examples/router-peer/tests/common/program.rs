//! The program itself, run on a configuration.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use router_peer::certificate;
use tempfile::TempDir;

/// A copy of the shipped configurations, with certificates, whose key file only its owner can read, as a checkout's is not.
pub fn shipped() -> TempDir {
    let directory = TempDir::new().unwrap();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("configs")).unwrap() {
        let file = entry.unwrap().path();
        // Who has tried the README's commands has certificates and sockets there.
        if !file.is_file() {
            continue;
        }
        fs::copy(&file, directory.path().join(file.file_name().unwrap())).unwrap();
    }
    let keys = directory.path().join("keys.toml");
    let secrets = fs::read_to_string(&keys).unwrap();
    write_keys(directory.path(), &secrets);
    for name in ["east", "west"] {
        certificate::create(&directory.path().join("certificates"), name).unwrap();
    }
    directory
}

/// Has the program check a configuration.
pub fn check_file(directory: &Path, file: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_router-peer"))
        .args(["--config", file, "--check"])
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Has the program check this text, as `peer.toml`.
pub fn check(directory: &Path, config: &str) -> Output {
    fs::write(directory.join("peer.toml"), config).unwrap();
    check_file(directory, "peer.toml")
}

/// Checks that a configuration is refused with exactly this line.
pub fn refused(directory: &Path, config: &str, line: &str) {
    let output = check(directory, config);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, format!("router-peer: {line}\n"));
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(output.stdout.is_empty(), "{line}");
}

/// Writes a key file that only its owner can read.
pub fn write_keys(directory: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;

    let keys = directory.join("keys.toml");
    fs::write(&keys, text).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
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
        let mut child = Command::new(env!("CARGO_BIN_EXE_router-peer"))
            .args(["--config", config])
            .args(more)
            .current_dir(directory)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, said: String::new() }
    }

    /// Reads the log up to a line for which `wanted` holds.
    pub fn wait_for(&mut self, mut wanted: impl FnMut(&str) -> bool) {
        loop {
            let start = self.said.len();
            assert_ne!(self.log.read_line(&mut self.said).unwrap(), 0, "stopped by itself:\n{}", self.said);
            if wanted(&self.said[start..]) {
                return;
            }
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
        // Only a failed test leaves it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
