//! The rules of a running gateway, which it installs again when another program has changed them.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wireseal_keys::Timestamp;

use super::GatewayError;
use super::carry::Numbers;
use super::rules::{Generation, Image, Rules, tracks_connections};
use crate::Config;
use crate::status::RulesStatus;

/// How often rules are looked at if nothing else tells that they have changed, and how often it is tried to install them.
const SECOND: Duration = Duration::from_secs(1);

/// The rules, and what they are for.
pub(super) struct KeptRules {
    numbers: Numbers,
    generation: Generation,
    /// `None` before they are installed, and once the gateway has ended.
    kept: Mutex<Option<Kept>>,
    status: Mutex<RulesStatus>,
}

struct Kept {
    rules: Rules,
    config: Config,
    /// As they were when they had been installed.
    image: Image,
    looked: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeptRules {
    pub(super) fn new(numbers: Numbers) -> io::Result<Self> {
        let status = RulesStatus {
            by: String::new(),
            since: Timestamp::now(),
            problem: Some("they are not installed yet".to_owned()),
        };
        Ok(Self {
            numbers,
            generation: Generation::open()?,
            kept: Mutex::default(),
            status: Mutex::new(status),
        })
    }

    /// Installs them; returns the name of the program that did.
    pub(super) fn install(&self, config: Config) -> Result<&'static str, GatewayError> {
        let (rules, image) = Rules::install(&config, self.numbers, &self.generation)?;
        *lock(&self.kept) = Some(Kept { rules, config, image, looked: Instant::now() });
        rules.by().clone_into(&mut lock(&self.status).by);
        self.note(None);
        Ok(rules.by())
    }

    /// Whether they are in place.
    pub(super) fn status(&self) -> RulesStatus {
        lock(&self.status).clone()
    }

    /// Puts the rules of another configuration in their place; on an error they stay.
    pub(super) fn change(&self, config: Config) -> Result<(), GatewayError> {
        let mut kept = lock(&self.kept);
        let Some(kept) = kept.as_mut() else { return Ok(()) };
        kept.image = kept.rules.replace(&config, self.numbers, &self.generation, kept.image.is_tracked)?;
        kept.config = config;
        Ok(())
    }

    /// Installs them again if they are not as they were. To be called often: it costs next to nothing while no program changes rules.
    pub(super) fn check(&self) {
        let mut kept = lock(&self.kept);
        let Some(kept) = kept.as_mut() else { return };
        let was_in_place = lock(&self.status).problem.is_none();
        if was_in_place && !kept.image.is_tracked && tracks_connections() {
            match kept.rules.replace(&kept.config, self.numbers, &self.generation, true) {
                Ok(image) => {
                    kept.image = image;
                    tracing::info!(
                        "this host tracks connections: from now on the peers' packets are judged before that"
                    );
                }
                Err(error) => {
                    let problem = format!(
                        "forged packets can mislead connection tracking, since they are judged behind it: {error}"
                    );
                    if self.note(Some(problem.clone())) {
                        tracing::error!("{problem}");
                    }
                }
            }
        }
        let generation = kept.rules.have_generation().then(|| self.generation.now()).flatten();
        let is_unchanged = generation.is_some() && generation == kept.image.generation;
        let is_told = kept.rules.have_generation() && generation.is_some() && was_in_place;
        if was_in_place && is_unchanged || !is_told && kept.looked.elapsed() < SECOND {
            return;
        }
        kept.looked = Instant::now();
        let found = kept.rules.image(&self.generation);
        let problem = match &found {
            Ok(found) => kept.image.difference(found),
            Err(error) => Some(error.to_string()),
        };
        let Some(problem) = problem else {
            // Others have changed theirs.
            kept.image.generation = found.ok().and_then(|found| found.generation);
            self.note(None);
            return;
        };
        if was_in_place {
            // Before anything that may take time.
            self.note(Some(format!("packets may pass unsigned: {problem}")));
            tracing::error!(
                "the rules had been changed: packets may pass unsigned until they are installed again: {problem}"
            );
        }
        match kept.rules.replace(&kept.config, self.numbers, &self.generation, kept.image.is_tracked) {
            Ok(image) => {
                kept.image = image;
                self.note(None);
                tracing::warn!("the rules are installed again");
            }
            Err(error) => {
                let problem = format!("packets may pass unsigned: {problem}; {error}");
                if self.note(Some(problem.clone())) {
                    tracing::error!("the rules are not in place: {problem}");
                }
            }
        }
    }

    /// Notes what is wrong with them; whether that is new.
    fn note(&self, problem: Option<String>) -> bool {
        let mut status = lock(&self.status);
        if status.problem.is_some() != problem.is_some() {
            status.since = Timestamp::now();
        }
        let is_new = status.problem != problem;
        status.problem = problem;
        is_new
    }

    /// From now on they are as they are, or gone.
    pub(super) fn end(&self, are_removed: bool) -> Result<(), GatewayError> {
        match lock(&self.kept).take() {
            Some(kept) if are_removed => kept.rules.remove().map(drop),
            _ => Ok(()),
        }
    }
}
