//! What the sentences are made of.

use wireseal_tcp_ao::Endpoint;

use crate::capture::Place;
use crate::standing::Standing;
use crate::text::counted;
use crate::verify::connection::TcpConnection;
use crate::verify::report::{Diagnosis, Sender};

/// A sender and its peer.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) own: Endpoint,
    pub(super) other: Endpoint,
}

impl Ends {
    pub(super) fn of(connection: &TcpConnection, sender: Sender) -> Self {
        Self { own: connection.ends[sender as usize], other: connection.ends[sender.other() as usize] }
    }
}

/// A kind of diagnosis, its cause and its advice.
pub(super) struct Explanation(pub(super) &'static str, pub(super) String, pub(super) String);

/// An explanation with a cause and an advice in whose text braces name variables. The advice may be a `String` instead.
macro_rules! explain {
    ($kind:expr, $cause:literal, $advice:literal) => {
        explain!($kind, $cause, format_args!($advice).to_string())
    };
    ($kind:expr, $cause:literal, $advice:expr) => {
        Explanation($kind, format_args!($cause).to_string(), $advice)
    };
}
pub(super) use explain;

impl Explanation {
    /// Why so many segments failed.
    pub(super) fn diagnosis(self, sender: Sender, first: Place, segments: u64) -> Diagnosis {
        let Self(kind, cause, advice) = self;
        Diagnosis { about: Standing::Failed, sender, first, segments, kind, cause, advice }
    }
}

/// A number of segments.
pub(super) fn segments(count: u64) -> String {
    counted(count, "segment")
}
