//! What happens in the background, as `tracing` events (feature `tracing`); without the feature nothing is logged.

use std::net::SocketAddr;

use crate::{ManagerError, SocketReport, StepReport};

/// Keys of one socket, or peers, that a step logs, so that forged segments do not fill the log.
#[cfg(feature = "tracing")]
const MOST: usize = 10;

/// What was logged of earlier steps.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The peers without a key to send with.
    #[cfg(feature = "tracing")]
    expired: Vec<crate::PeerName>,
}

/// A connection was accepted and refused.
#[cfg(feature = "tracing")]
pub(crate) fn refused(remote: SocketAddr, error: &ManagerError) {
    tracing::warn!(%remote, %error, "connection refused");
}

impl Log {
    /// A step was taken by the system clock.
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

/// A step of one socket was taken.
#[cfg(feature = "tracing")]
pub(crate) fn socket(socket: &SocketReport) {
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
    for key in &socket.overdue {
        tracing::warn!(attachment = socket.attachment, "the {key} is no longer valid and cannot be deleted");
    }
    if socket.expired {
        tracing::warn!(peer = of, "no key is valid for sending: close the connection");
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn socket(_: &SocketReport) {}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn refused(_: SocketAddr, _: &ManagerError) {}

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use std::fmt::{Debug, Write};
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Keeps the fields of each event, in its order, as text.
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, "{field}={value:?} ").unwrap();
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(String::new());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0.trim_end().to_owned());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_peer_without_a_key_is_logged_once_until_it_has_one_again() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(Lines(Arc::clone(&lines)), || {
            let mut log = Log::default();
            for expired in
                [&["192.0.2.1"][..], &["192.0.2.1"], &["192.0.2.1", "192.0.2.2"], &[], &["192.0.2.1"]]
            {
                let expired = expired.iter().map(|address| crate::PeerName::new(address.parse().unwrap()));
                log.step(&StepReport { sockets: Vec::new(), expired: expired.collect(), next_step: None });
            }
            let expired =
                (0..20).map(|last| crate::PeerName::new(std::net::Ipv4Addr::new(198, 51, 100, last).into()));
            log.step(&StepReport { sockets: Vec::new(), expired: expired.collect(), next_step: None });
        });
        let lines = lines.lock().unwrap();
        let said = "message=no key is valid for sending: no connection can be opened peer=";
        for (line, peer) in lines.iter().zip(["192.0.2.1", "192.0.2.2", "192.0.2.1", "198.51.100.0"]) {
            assert_eq!(*line, format!("{said}{peer}"));
        }
        assert_eq!(lines.last().unwrap(), "message=no key is valid for sending with 10 more peers");
        assert_eq!(lines.len(), 3 + MOST + 1);
    }
}
