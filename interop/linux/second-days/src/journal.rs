//! What happened in a day: a log, the faults, and what the operator has excused beforehand.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::world::Side;

/// How long a session may be silent.
pub const HOLD: Duration = Duration::from_secs(7);
/// How long a frame may take to reach the witness, or a daemon's output this program, on a busy machine.
const GRACE: Duration = Duration::from_millis(700);
/// How long after an excused loss the other end may still notice it.
const AFTERWARDS: Duration = Duration::from_secs(8);

/// A day's own log. All threads write to it.
pub struct Journal {
    started: Instant,
    told: Mutex<Told>,
}

struct Told {
    file: File,
    /// Also to the terminal.
    is_loud: bool,
    /// Faults: when each was first seen, what it was, and how often.
    faults: Vec<(Duration, String, u32)>,
    /// By side: until when its packets may pass unjudged.
    open: [Open; 2],
    losses_excused_until: Option<Instant>,
    excused_losses: u32,
    broken_off: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    No,
    Until(Instant),
    Yes,
}

impl Journal {
    pub fn create(folder: &Path, is_loud: bool) -> Result<Self> {
        let file = File::create(folder.join("day.log"))?;
        let told = Told {
            file,
            is_loud,
            faults: Vec::new(),
            open: [Open::No; 2],
            losses_excused_until: None,
            excused_losses: 0,
            broken_off: 0,
        };
        Ok(Self { started: Instant::now(), told: Mutex::new(told) })
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, text: &str) {
        let mut told = self.told();
        let line = format!("{:8.3} {text}\n", self.started.elapsed().as_secs_f64());
        // A full disk may lose lines, but no verdict.
        let _ = told.file.write_all(line.as_bytes());
        if told.is_loud {
            eprint!("{line}");
        }
    }

    /// Notes a fault. A repeated one is only counted.
    pub fn fault(&self, text: &str) {
        let (mut told, at) = (self.told(), self.started.elapsed());
        if let Some(known) = told.faults.iter_mut().find(|fault| fault.1 == text) {
            known.2 += 1;
            return;
        }
        told.faults.push((at, text.to_owned(), 1));
        drop(told);
        self.note(&format!("FAULT: {text}"));
    }

    pub fn faults(&self) -> Vec<String> {
        let line = |(at, text, times): &(Duration, String, u32)| {
            let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
            format!("at {:.3} s: {text}{times}", at.as_secs_f64())
        };
        self.told().faults.iter().map(line).collect()
    }

    /// From now on packets of this side may pass unsigned, and so may the attacker's.
    pub fn open(&self, side: Side, why: &str) {
        self.note(&format!("{side}: may pass packets unjudged from now on: {why}"));
        self.told().open[side as usize] = Open::Yes;
        self.excuse_losses();
    }

    /// From now on they may not.
    pub fn close(&self, side: Side) {
        if self.told().open[side as usize] != Open::Yes {
            return;
        }
        self.note(&format!("{side}: passes nothing unjudged from now on"));
        self.told().open[side as usize] = Open::Until(Instant::now() + GRACE);
        self.excuse_losses();
    }

    /// Whether packets of this side may pass unjudged.
    pub fn is_open(&self, side: Side) -> bool {
        match self.told().open[side as usize] {
            Open::No => false,
            Open::Yes => true,
            Open::Until(end) => Instant::now() < end,
        }
    }

    /// What happens now may lose an open session.
    pub fn excuse_losses(&self) {
        self.told().losses_excused_until = Some(Instant::now() + HOLD + AFTERWARDS);
    }

    pub fn are_losses_excused(&self) -> bool {
        let told = self.told();
        told.open.contains(&Open::Yes) || told.losses_excused_until.is_some_and(|end| Instant::now() < end)
    }

    /// A daemon has lost its session.
    pub fn lost(&self, side: Side, why: &str) {
        if !why.contains("closed") {
            self.told().broken_off += 1;
        }
        if self.are_losses_excused() {
            self.note(&format!("{side}: session lost ({why}), as was to be expected"));
            self.told().excused_losses += 1;
        } else {
            self.fault(&format!("{side} lost its session: {why}"));
        }
    }

    /// Sessions that an end has lost and the other end has not closed.
    pub fn broken_off(&self) -> usize {
        self.told().broken_off
    }

    pub fn excused_losses(&self) -> u32 {
        self.told().excused_losses
    }
}
