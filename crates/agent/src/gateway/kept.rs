//! The rules of a running gateway, which it installs again when another program has flushed them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::GatewayError;
use super::carry::Numbers;
use super::rules::Rules;
use crate::Config;

/// The rules, and what they are for.
pub(super) struct KeptRules {
    rules: Rules,
    numbers: Numbers,
    /// `None` once the gateway has ended.
    config: Mutex<Option<Config>>,
}

impl KeptRules {
    pub(super) fn install(config: Config, numbers: Numbers) -> Result<Self, GatewayError> {
        let rules = Rules::install(&config, numbers)?;
        Ok(Self { rules, numbers, config: Mutex::new(Some(config)) })
    }

    /// The name of the program that installs them.
    pub(super) const fn by(&self) -> &'static str {
        self.rules.by()
    }

    fn config(&self) -> MutexGuard<'_, Option<Config>> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the rules of another configuration in their place; on an error they stay.
    pub(super) fn change(&self, config: Config) -> Result<(), GatewayError> {
        let mut present = self.config();
        self.rules.replace(&config, self.numbers)?;
        *present = Some(config);
        Ok(())
    }

    /// Installs them again if they are gone.
    pub(super) fn check(&self) {
        let present = self.config();
        let Some(config) = present.as_ref() else { return };
        if self.rules.are_in_place(config, self.numbers) {
            return;
        }
        match self.rules.replace(config, self.numbers) {
            Ok(()) => {
                tracing::error!(
                    "another program had removed the rules: packets passed unsigned for up to a second"
                );
            }
            Err(error) => {
                tracing::error!(%error, "another program has removed the rules: packets pass unsigned");
            }
        }
    }

    /// From now on they are as they are, or gone.
    pub(super) fn end(&self, are_removed: bool) -> Result<(), GatewayError> {
        *self.config() = None;
        if are_removed { self.rules.remove() } else { Ok(()) }
    }
}
