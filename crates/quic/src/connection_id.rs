//! Connection IDs.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

/// A connection ID of 0 to 20 octets (RFC 9000, section 5.1 and 17.2).
#[derive(Clone, Copy)]
pub struct ConnectionId {
    octets: [u8; Self::MAX_LENGTH],
    length: u8,
}

impl ConnectionId {
    /// The most octets that a connection ID has in any known version (RFC 9000, section 17.2).
    pub const MAX_LENGTH: usize = 20;

    /// A connection ID of these octets.
    ///
    /// # Errors
    ///
    /// [`ConnectionIdTooLong`] for more than 20 octets.
    pub fn new(octets: &[u8]) -> Result<Self, ConnectionIdTooLong> {
        let mut id = Self { octets: [0; Self::MAX_LENGTH], length: 0 };
        let too_long = ConnectionIdTooLong { length: octets.len() };
        id.octets.get_mut(..octets.len()).ok_or(too_long)?.copy_from_slice(octets);
        id.length = u8::try_from(octets.len()).map_err(|_| too_long)?;
        Ok(id)
    }

    /// The number of octets as the one octet that a long header puts before them.
    pub(crate) const fn length_octet(&self) -> u8 {
        self.length
    }
}

impl Deref for ConnectionId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

impl PartialEq for ConnectionId {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ConnectionId {}

impl Hash for ConnectionId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({self})")
    }
}

/// In hexadecimal, as logs of QUIC have it.
impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// A connection ID of more than 20 octets; whoever gave it is to blame, the peer where it came in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionIdTooLong {
    /// The octets that were given.
    pub length: usize,
}

impl fmt::Display for ConnectionIdTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max = ConnectionId::MAX_LENGTH;
        write!(f, "a connection ID has at most {max} octets, this one {}", self.length)
    }
}

impl core::error::Error for ConnectionIdTooLong {}
