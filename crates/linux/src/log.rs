//! What happens in the background, as `tracing` events (feature `tracing`); without the feature nothing is logged.

use std::net::SocketAddr;

use crate::Error;
use crate::manager::{SocketReport, StepReport};

/// How many keys of one socket, or peers, a step logs. The limit keeps forged segments from filling the log.
#[cfg(feature = "tracing")]
const MOST: usize = 10;

/// What earlier steps have logged already.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The peers without a key to send with.
    #[cfg(feature = "tracing")]
    expired: Vec<crate::names::PeerName>,
}

/// Logs that a connection was accepted and refused.
#[cfg(feature = "tracing")]
pub(crate) fn refused(remote: SocketAddr, error: &Error) {
    tracing::warn!(%remote, %error, "connection refused");
}

impl Log {
    /// Logs a step that was taken by the system clock.
    #[cfg(feature = "tracing")]
    pub(crate) fn step(&mut self, report: &StepReport) {
        report.sockets.iter().for_each(socket);
        let new: Vec<_> =
            report.expired.iter().filter(|peer| self.expired.binary_search(peer).is_err()).collect();
        for peer in new.iter().take(MOST) {
            tracing::warn!(%peer, "no key is valid for sending: no connection can be opened");
        }
        if let Some(more) = new.len().checked_sub(MOST + 1) {
            tracing::warn!("no key is valid for sending with {} more peers", more + 1);
        }
        self.expired.clone_from(&report.expired);
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) const fn step(&mut self, _: &StepReport) {}
}

/// Logs the step of one socket.
#[cfg(feature = "tracing")]
pub(crate) fn socket(socket: &SocketReport) {
    let of = socket.state.peer.map(tracing::field::display);
    for action in &socket.done {
        tracing::info!(peer = %action.key().peer(), "keys changed: {action}");
    }
    for (action, error) in &socket.failed {
        match action {
            Some(action) => {
                tracing::warn!(attachment = socket.attachment, %error, "cannot {action}, trying again");
            }
            None => {
                tracing::warn!(attachment = socket.attachment, peer = of, %error, "cannot read the keys of a socket, trying again");
            }
        }
    }
    for key in socket.taken_away() {
        let peer = key.peer();
        tracing::warn!(%peer, "the peer was still asking for the {key}: its keys or its clock are behind");
    }
    let bad = &socket.refused.bad;
    for (key, segments) in bad.iter().take(MOST) {
        let peer = key.peer();
        tracing::warn!(%peer, segments, "bad MAC under the {key}: its secret, algorithm or option coverage differs from the peer's, or segments are forged");
    }
    if let Some(more) = bad.len().checked_sub(MOST + 1) {
        tracing::warn!(attachment = socket.attachment, "bad MAC under {} more keys", more + 1);
    }
    for (segments, what) in [
        (socket.refused.key_not_found, "unknown KeyID: no key here has it"),
        (socket.refused.unsigned, "no TCP-AO option: segments are not signed"),
    ] {
        if segments > 0 {
            tracing::warn!(attachment = socket.attachment, peer = of, segments, "{what}");
        }
    }
    for (peer, action) in &socket.policy {
        let attachment = socket.attachment;
        tracing::warn!(attachment, %peer, "the peer does not follow the change of its keys: {action}");
    }
    for key in &socket.overdue {
        tracing::warn!(attachment = socket.attachment, "the {key} is no longer valid and cannot be deleted");
    }
    if socket.state.expired {
        tracing::warn!(peer = of, "no key is valid for sending: close the connection");
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn socket(_: &SocketReport) {}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn refused(_: SocketAddr, _: &Error) {}

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use std::io;
    use std::sync::Arc;

    use tracing_subscriber::fmt;

    use super::*;
    use crate::{Generation, PeerName};

    #[test]
    fn a_peer_without_a_key_is_logged_once_until_it_has_one_again() {
        let (lines, writer) = io::pipe().unwrap();
        let logged = fmt().with_writer(Arc::new(writer)).without_time().with_target(false).with_ansi(false);
        tracing::subscriber::with_default(logged.finish(), || {
            let mut log = Log::default();
            let mut step = |expired: &[&str]| {
                let expired = expired.iter().map(|address| PeerName::new(address.parse().unwrap()));
                log.step(&StepReport {
                    sockets: Vec::new(),
                    expired: expired.collect(),
                    next_step: None,
                    generation: Generation::default(),
                });
            };
            let (one, other) = ("192.0.2.1", "192.0.2.2");
            for expired in [&[one][..], &[one], &[one, other], &[], &[one]] {
                step(expired);
            }
            let many: Vec<String> = (0..20).map(|last| format!("198.51.100.{last}")).collect();
            step(&many.iter().map(String::as_str).collect::<Vec<_>>());
        });
        let lines = io::read_to_string(lines).unwrap();
        let lines: Vec<&str> = lines.lines().map(str::trim).collect();
        let said = "WARN no key is valid for sending: no connection can be opened peer=";
        for (line, peer) in lines.iter().zip(["192.0.2.1", "192.0.2.2", "192.0.2.1", "198.51.100.0"]) {
            assert_eq!(*line, format!("{said}{peer}"));
        }
        assert_eq!(*lines.last().unwrap(), "WARN no key is valid for sending with 10 more peers");
        assert_eq!(lines.len(), 3 + MOST + 1);
    }
}
