//! Runs of the program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// How a run ended and what it printed.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    /// Asserts that standard output has this text.
    #[track_caller]
    pub fn assert_says(&self, text: &str) {
        assert!(self.out.contains(text), "{}", self.out);
    }

    /// What was printed, read as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

impl From<Output> for Run {
    fn from(Output { status, stdout, stderr }: Output) -> Self {
        let [out, err] = [stdout, stderr].map(|octets| String::from_utf8(octets).unwrap());
        Self { code: status.code().unwrap(), out, err }
    }
}

/// The program, to be run in another way than [`wireseal`] does.
pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wireseal"))
}

/// The program, which SIGINT ends even if these tests ignore it, as a shell has what runs in its background do.
pub fn interruptible() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_wireseal")]);
    command
}

/// `PATH` with the program's folder in front, for shells that run `wireseal`.
pub fn path() -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_wireseal")).parent().unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

pub fn wireseal<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
    program().args(arguments).output().unwrap().into()
}

/// A run with this COLUMNS, whose standard output is a terminal without colours.
pub fn wireseal_on_terminal<S: AsRef<OsStr>>(columns: &str, arguments: impl IntoIterator<Item = S>) -> Run {
    on_terminal(program().args(arguments).env("COLUMNS", columns).env("NO_COLOR", "1"))
}

/// The two ends of a terminal, of which a program is given the second. Without rows and columns, nobody knows its size.
pub fn terminal(size: Option<(u16, u16)>) -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    unlockpt(&ours).unwrap();
    let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
    if let Some((ws_row, ws_col)) = size {
        tcsetwinsize(&theirs, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }
    (ours, theirs)
}

/// A run whose standard output is a terminal of unknown size.
pub fn on_terminal(command: &mut Command) -> Run {
    let (ours, theirs) = terminal(None);
    let child = command.stdout(theirs).stderr(Stdio::piped()).spawn().unwrap();
    // The command has the other descriptor of the terminal.
    command.stdout(Stdio::null());
    let mut stdout = Vec::new();
    // When nobody has the terminal open any more, reading fails with EIO.
    let _ = File::from(ours).read_to_end(&mut stdout);
    stdout.retain(|octet| *octet != b'\r');
    Output { stdout, ..child.wait_with_output().unwrap() }.into()
}

/// A run with this standard input.
pub fn wireseal_reading<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>, input: &[u8]) -> Run {
    let mut command = program();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().into()
}
