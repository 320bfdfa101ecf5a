//! The tasks of a router, and the word that it is to stop.

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

use super::keep::{Source, keep_session};
use crate::config::Neighbour;

/// Everything that runs until the router is to stop.
pub(super) struct Tasks {
    running: JoinSet<()>,
    stopping: watch::Sender<bool>,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self { running: JoinSet::new(), stopping: watch::Sender::new(false) }
    }

    /// Runs a task, which is dropped when the router is to stop.
    pub(super) fn spawn(&mut self, span: Span, task: impl Future<Output = ()> + Send + 'static) {
        let mut stopped = self.stopping.subscribe();
        let task = async move {
            tokio::select! {
                () = task => {}
                () = told_to_stop(&mut stopped) => {}
            }
        };
        self.running.spawn(task.instrument(span));
    }

    /// Keeps a session with a neighbour, which ends in order when the router is to stop.
    pub(super) fn keep_session(&mut self, span: Span, neighbour: Neighbour, source: Source) {
        let stopped = self.stopping.subscribe();
        self.running.spawn(keep_session(source, neighbour, stopped).instrument(span));
    }

    /// Tells all tasks to stop and waits until they have.
    pub(super) async fn stop(&mut self) {
        self.stopping.send_replace(true);
        while self.running.join_next().await.is_some() {}
    }
}

/// Waits until the router is to stop.
pub(super) async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to say it.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
