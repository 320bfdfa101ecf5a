//! What happens in the background, as `tracing` events (feature `tracing`); without the feature nothing is logged.

use std::net::SocketAddr;

use crate::{ManagerError, StepReport};

/// Keys of one socket that a step logs, so that forged segments do not fill the log.
#[cfg(feature = "tracing")]
const MOST_KEYS: usize = 10;

/// A connection was accepted and refused.
#[cfg(feature = "tracing")]
pub(crate) fn refused(remote: SocketAddr, error: &ManagerError) {
    tracing::warn!(%remote, %error, "connection refused");
}

/// The background thread took a step.
#[cfg(feature = "tracing")]
pub(crate) fn step(report: &StepReport) {
    for socket in &report.sockets {
        let of = socket.peer.map(tracing::field::display);
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
        for (key, segments) in bad.iter().take(MOST_KEYS) {
            let peer = key.peer();
            tracing::warn!(%peer, segments, "wrong MAC under the {key}: its secret differs from the peer's, or segments are forged");
        }
        if let Some(more) = bad.len().checked_sub(MOST_KEYS + 1) {
            tracing::warn!(attachment = socket.attachment, "wrong MAC under {} more keys", more + 1);
        }
        for (segments, what) in [
            (socket.refused.key_not_found, "segments have a KeyID that no key has"),
            (socket.refused.unsigned, "segments are not signed"),
        ] {
            if segments > 0 {
                tracing::warn!(attachment = socket.attachment, peer = of, segments, "{what}");
            }
        }
        for key in &socket.overdue {
            tracing::warn!(
                attachment = socket.attachment,
                "the {key} is no longer valid and cannot be deleted"
            );
        }
        if socket.expired {
            tracing::warn!(peer = of, "no key is valid for sending: close the connection");
        }
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn refused(_: SocketAddr, _: &ManagerError) {}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn step(_: &StepReport) {}
