//! Carrying a plan out on a socket whose keys the peer changes at the same time.

use wireseal_tcp_ao::key_chain::Timestamp;

use crate::manager::situation::{Action, Found, Memory, Situation};
use crate::{Error, KeyName};

/// What carrying out came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was done, in this order.
    pub done: Vec<Action>,
    /// What could not be done, and why; without an action, the socket's keys could not be read.
    pub failed: Vec<(Option<Action>, Error)>,
    /// As in [`Plan::expired`](crate::plan::Plan::expired).
    pub expired: bool,
    /// As in [`Plan::overdue`](crate::plan::Plan::overdue).
    pub overdue: Vec<KeyName>,
    /// As in [`Plan::again`](crate::plan::Plan::again).
    pub again: Option<Timestamp>,
}

impl Situation<'_> {
    /// Reads the keys of a socket, plans, and applies the plan's actions one by one.
    ///
    /// After an action that fails the keys are read again and the plan is made anew without the key in question, so that one
    /// impossible key holds up no other. What failed is for the next step to try again: so does a key that could not be
    /// deleted because the peer asked for it between reading and deleting.
    pub fn carry_out(
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
