//! The program, and directories to run it in.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use router_peer::tls::create_certificate;
use tempfile::TempDir;

/// The longest wait for a line of the log.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn router_peer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_router-peer"))
}

/// A directory with configurations, kept until its routers have stopped.
#[derive(Clone)]
pub struct Place(pub Arc<TempDir>);

impl Place {
    pub fn new() -> Self {
        Self(Arc::new(TempDir::new().unwrap()))
    }

    /// A copy of the shipped configurations, with certificates.
    pub fn shipped() -> Self {
        let place = Self::new();
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("configs")).unwrap() {
            let file = entry.unwrap().path();
            // Skips certificates and sockets of someone who has tried the README's commands.
            if file.is_file() {
                let name = file.file_name().unwrap().to_str().unwrap();
                place.write(name, &fs::read_to_string(&file).unwrap());
            }
        }
        for name in ["east", "west"] {
            create_certificate(&place.0.path().join("certificates"), name).unwrap();
        }
        place
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.path().join(file)).unwrap()
    }

    /// Writes a file for its owner only, or for everyone if its name starts with `open`.
    pub fn write(&self, file: &str, text: &str) {
        let (path, mode) = (self.0.path().join(file), if file.starts_with("open") { 0o640 } else { 0o600 });
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Replaces something in a file.
    pub fn edit(&self, file: &str, old: &str, new: &str) {
        let text = self.read(file);
        assert!(text.contains(old), "{file}: {old}");
        self.write(file, &text.replace(old, new));
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        router_peer().args(arguments).current_dir(self.0.path()).output().unwrap()
    }

    /// Starts a router.
    pub fn start(&self, config: &str, more: &[&str]) -> Router {
        let mut command = router_peer();
        command.args(["--config", config]).args(more).current_dir(self.0.path()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (lines, log) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).unwrap() > 0 && lines.send(std::mem::take(&mut line)).is_ok() {}
        });
        Router { child, log, said: String::new(), _place: self.clone() }
    }
}

/// The last line on stderr, and the exit code.
pub fn last_words(output: Output) -> (String, Option<i32>) {
    let said = String::from_utf8(output.stderr).unwrap();
    (said.lines().last().unwrap_or_default().to_owned(), output.status.code())
}

/// A running router. It is killed when dropped.
pub struct Router {
    child: Child,
    /// What it writes, line by line.
    log: Receiver<String>,
    /// The log so far.
    pub said: String,
    _place: Place,
}

impl Router {
    /// Reads the log until a line has all these words.
    pub fn wait_for(&mut self, words: &[&str]) {
        loop {
            let line = self.log.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("no {words:?}: {error}:\n{}", self.said));
            self.said += &line;
            if words.iter().all(|word| line.contains(word)) {
                return;
            }
        }
    }

    /// Shuts it down and returns the whole log.
    pub fn stop(mut self) -> String {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        self.said.extend(self.log.iter());
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.said);
        std::mem::take(&mut self.said)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // Fails after `stop`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
