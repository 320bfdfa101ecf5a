//! Which secrets remain in a process's memory. A child process stops at stages, and its parent reads its memory.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::{env, thread};

/// Tells the child its role.
const ROLE: &str = "WIRESEAL_TEST_OF_MEMORY";
/// Precedes the name of a stage.
const STAGE: &str = "stage: ";

/// A page that was never written.
const ZEROS: [u8; 4096] = [0; 4096];

/// The role of the child; `None` in its parent.
pub(crate) fn role() -> Option<String> {
    env::var(ROLE).ok()
}

/// Stops the child until its parent has read its memory.
pub(crate) fn stage(name: &str) {
    let mut output = stdout();
    writeln!(output, "\n{STAGE}{name}").and_then(|()| output.flush()).unwrap();
    stdin().lock().read_line(&mut String::new()).unwrap();
}

/// Runs a test again in a process of its own, with a role, and calls `check` at every stage. Returns the number of stages.
pub(crate) fn observe(test: &str, role: &str, mut check: impl FnMut(&str, &Memory)) -> usize {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut stages = 0;
    for line in BufReader::new(output).lines() {
        if let Some(stage) = line.unwrap().strip_prefix(STAGE) {
            check(stage, &Memory::of(&child));
            stages += 1;
            input.write_all(b"\n").unwrap();
        }
    }
    assert!(child.wait().unwrap().success(), "{test} as {role}");
    stages
}

/// A process's writable memory: heap, stacks and statics.
pub(crate) struct Memory(Vec<Vec<u8>>);

impl Memory {
    fn of(child: &Child) -> Self {
        let file = |name| format!("/proc/{}/{name}", child.id());
        let memory = File::open(file("mem")).unwrap();
        let maps = fs::read_to_string(file("maps")).unwrap();
        let read = |map: &str| {
            let (range, rest) = map.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
            let mut octets = vec![0; (end - start) as usize];
            let is_writable = rest.starts_with("rw");
            (is_writable && memory.read_exact_at(&mut octets, start).is_ok()).then_some(octets)
        };
        // Most pages of a stack are never written.
        let written = |map: Vec<u8>| {
            let pages = map.chunks(ZEROS.len()).collect::<Vec<_>>();
            let runs = pages.split(|page| *page == ZEROS).map(<[&[u8]]>::concat);
            runs.filter(|run| !run.is_empty()).collect::<Vec<_>>()
        };
        Self(maps.lines().filter_map(read).flat_map(written).collect())
    }

    /// How often these octets occur.
    pub(crate) fn count(&self, octets: &[u8]) -> usize {
        let find = |map: &Vec<u8>| {
            let (mut from, mut count) = (0, 0);
            while let Some(place) = map[from..].iter().position(|octet| *octet == octets[0]) {
                count += usize::from(map[from + place..].starts_with(octets));
                from += place + 1;
            }
            count
        };
        self.0.iter().map(find).sum()
    }
}

/// Overwrites what moves have left on this thread's stack.
#[inline(never)]
pub(crate) fn clear_stack() {
    black_box([0_u8; 100_000]);
}

/// Acts deep in the stack of a separate thread, which ends and takes along what moved values left on that stack.
pub(crate) fn apart<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    #[inline(never)]
    fn far_down<T>(act: impl FnOnce() -> T) -> T {
        // The system does not get back the pages of the thread's last frames.
        black_box([0_u8; 100_000]);
        act()
    }
    thread::scope(|scope| scope.spawn(|| far_down(act)).join().unwrap())
}
