//! Connection IDs.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

use crate::error::HeaderError;

/// A connection ID of 0 to 20 octets (RFC 9000 §5.1 and §17.2).
#[derive(Clone, Copy)]
pub struct ConnectionId {
    octets: [u8; Self::MAX_LENGTH],
    length: u8,
}

impl ConnectionId {
    /// The maximum length in octets, the same in all known versions (RFC 9000 §17.2).
    pub const MAX_LENGTH: usize = 20;

    /// A connection ID of these octets.
    ///
    /// # Errors
    ///
    /// [`HeaderError::ConnectionIdTooLong`] for more than 20 octets.
    pub fn new(octets: &[u8]) -> Result<Self, HeaderError> {
        let mut id = Self { octets: [0; Self::MAX_LENGTH], length: octets.len() as u8 };
        let too_long = HeaderError::ConnectionIdTooLong { expected: Self::MAX_LENGTH, got: octets.len() };
        id.octets.get_mut(..octets.len()).ok_or(too_long)?.copy_from_slice(octets);
        Ok(id)
    }

    /// The length as the one octet that a long header puts before a connection ID.
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

/// In hexadecimal, as QUIC logs write it.
impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}
