//! What can be known of a session from outside.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;

use netgauze_bgp_pkt::notification::BgpNotificationMessage;

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum State {
    /// OPEN sent, the peer's OPEN awaited.
    #[default]
    OpenSent,
    /// The peer's OPEN accepted, its KEEPALIVE awaited.
    OpenConfirm,
    /// Routes are exchanged.
    Established,
    /// Over, for the reason in [`Status::closed`].
    Closed,
}

/// Why a session is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Closed {
    /// This side sent a NOTIFICATION.
    NotificationSent(BgpNotificationMessage),
    /// The peer sent a NOTIFICATION.
    NotificationReceived(BgpNotificationMessage),
    /// The stream ended or failed.
    StreamLost(io::ErrorKind),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotificationSent(notification) => write!(f, "sent {notification:?}"),
            Self::NotificationReceived(notification) => write!(f, "received {notification:?}"),
            Self::StreamLost(kind) => write!(f, "the connection is lost: {kind}"),
        }
    }
}

/// What is known of a session.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Where it stands.
    pub state: State,
    /// The hold time agreed on, in seconds, from OpenConfirm on.
    pub hold_time: Option<u16>,
    /// The peer's BGP Identifier, from OpenConfirm on.
    pub peer_id: Option<Ipv4Addr>,
    /// IPv4 prefixes that the peer reaches.
    pub ipv4_routes: usize,
    /// IPv6 prefixes that the peer reaches.
    pub ipv6_routes: usize,
    /// UPDATE messages received.
    pub updates: u64,
    /// KEEPALIVE messages received.
    pub keepalives: u64,
    /// Whether the peer's initial table is complete, for IPv4 and for IPv6.
    pub end_of_rib: [bool; 2],
    /// Why the session is over, once it is.
    pub closed: Option<Closed>,
}
