//! Signals that ask the program to end.

use std::ffi::c_int;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fs, thread};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Signals of which the first asks the program to end, and the next ends it at once.
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    /// The number of the last one.
    last: Arc<AtomicUsize>,
    /// Has an octet for each.
    came: UnixStream,
}

/// Whether the program is to end.
pub(super) struct Ending {
    stop: Arc<AtomicBool>,
    is_near: Arc<AtomicBool>,
}

impl Signals {
    /// From now on a signal is noted, and does nothing until [`watch`](Self::watch).
    pub(super) fn register() -> io::Result<Self> {
        let (came, notify) = UnixStream::pair()?;
        let (stop, last) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        for signal in heeded() {
            flag::register(signal, Arc::clone(&stop))?;
            flag::register_usize(signal, Arc::clone(&last), signal as usize)?;
            low_level::pipe::register(signal, notify.try_clone()?)?;
        }
        Ok(Self { stop, last, came })
    }

    /// Starts a thread that at the second signal does what must not be left undone, and ends the process; at the first one if the end
    /// `is_near` already, also one that has come.
    pub(super) fn watch(self, is_near: bool, before: impl Fn() + Send + 'static) -> io::Result<Ending> {
        let Self { stop, last, mut came } = self;
        let is_near = Arc::new(AtomicBool::new(is_near));
        let ending = Ending { stop, is_near: Arc::clone(&is_near) };
        let ended = move || {
            let mut octet = [0];
            while came.read_exact(&mut octet).is_ok() {
                if is_near.swap(true, Ordering::Relaxed) {
                    before();
                    low_level::exit(128 + last.load(Ordering::Relaxed) as c_int);
                }
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(ended)?;
        Ok(ending)
    }
}

impl Ending {
    /// Whether a signal came.
    pub(super) fn is_asked(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The program ends by itself: the next signal ends it at once. One that came before counts as the first.
    pub(super) fn is_near(&self) {
        if !self.is_asked() {
            self.is_near.store(true, Ordering::Relaxed);
        }
    }
}

/// A flag that the first signal sets that asks the program to end; a second one ends it at once.
pub(super) fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in heeded() {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// The signals, without those that whoever started the program lets it ignore, as nohup does.
fn heeded() -> impl Iterator<Item = c_int> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}
