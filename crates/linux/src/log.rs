//! What happens in the background, as `tracing` events (feature `tracing`); without the feature nothing is logged.

use std::net::SocketAddr;

use crate::{ManagerError, StepReport};

/// A connection was accepted and refused.
#[cfg(feature = "tracing")]
pub(crate) fn refused(remote: SocketAddr, error: &ManagerError) {
    tracing::warn!(%remote, %error, "connection refused");
}

/// The background thread took a step.
#[cfg(feature = "tracing")]
pub(crate) fn step(report: &StepReport) {
    for socket in &report.sockets {
        for action in &socket.done {
            tracing::debug!(peer = %action.key().peer(), "keys changed: {action}");
        }
        for (action, error) in &socket.failed {
            match action {
                Some(action) => tracing::warn!(%error, "cannot {action}, trying again"),
                None => tracing::warn!(%error, "cannot read the keys of a socket, trying again"),
            }
        }
        for key in socket.taken_away() {
            let peer = key.peer();
            tracing::warn!(%peer, "the peer was still asking for the {key}: its keys or its clock are behind");
        }
        for (key, segments) in &socket.refused.bad {
            let peer = key.peer();
            tracing::warn!(%peer, segments, "wrong MAC under the {key}: its secret differs from the peer's, or segments are forged");
        }
        if socket.refused.key_not_found > 0 {
            tracing::warn!(segments = socket.refused.key_not_found, "segments have a KeyID that no key has");
        }
        if socket.refused.unsigned > 0 {
            tracing::warn!(segments = socket.refused.unsigned, "segments are not signed");
        }
        if socket.expired {
            let peer = socket.peer.map(tracing::field::display);
            tracing::warn!(peer, "no key is valid for sending: close the connection");
        }
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn refused(_: SocketAddr, _: &ManagerError) {}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn step(_: &StepReport) {}
