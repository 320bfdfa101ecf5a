//! Applying a plan to a socket while the peer changes which keys are in use.

use wireseal_tcp_ao::key_chain::Timestamp;

use crate::manager::action::Action;
use crate::manager::state::{Found, Memory};
use crate::manager::target::Target;
use crate::{Error, KeyName};

/// The result of applying plans to a socket.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The actions that succeeded, in order.
    pub(super) done: Vec<Action>,
    /// The actions that failed; `None` is for reading the socket's keys.
    pub(super) failed: Vec<(Option<Action>, Error)>,
    /// As in [`Plan`](super::plan::Plan).
    pub(super) expired: bool,
    /// As in [`Plan`](super::plan::Plan).
    pub(super) overdue: Vec<KeyName>,
    /// As in [`Plan`](super::plan::Plan).
    pub(super) again: Option<Timestamp>,
}

impl Target<'_> {
    /// Reads the keys of a socket, plans, and applies the plan's actions one by one.
    ///
    /// If an action fails, the keys are read again and a new plan is made without the key in question, so that one impossible
    /// key does not hold up the others. The next step tries it again, for instance to delete a key that the peer asked for
    /// between reading and deleting.
    pub(super) fn apply(
        &self,
        memory: &mut Memory,
        mut read: impl FnMut(&Memory) -> Result<Vec<Found>, Error>,
        mut apply: impl FnMut(&Action) -> Result<(), Error>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let mut set_aside = Vec::new();
        loop {
            let found = match read(memory) {
                Ok(found) => found,
                Err(error) => {
                    outcome.failed.push((None, error));
                    return outcome;
                }
            };
            memory.observe(&found);
            let plan = self.plan(&found, memory, &set_aside);
            let refused = plan.actions.iter().find_map(|action| match apply(action) {
                Ok(()) => {
                    memory.note(action, self.kind, &found);
                    outcome.done.push(*action);
                    None
                }
                Err(error) => {
                    if matches!(error, Error::KeyInUse(_)) {
                        memory.note_in_use(action, self.kind, &found);
                    }
                    Some((*action, error))
                }
            });
            outcome.expired = plan.expired;
            outcome.overdue = plan.overdue;
            outcome.again = plan.again;
            let Some((action, error)) = refused else { return outcome };
            let key = action.key();
            let is_about_one_key = matches!(action, Action::Add { .. } | Action::Delete { .. });
            let goes_on = is_about_one_key && !set_aside.contains(&key);
            set_aside.push(key);
            outcome.failed.push((Some(action), error));
            if !goes_on {
                return outcome;
            }
        }
    }
}
