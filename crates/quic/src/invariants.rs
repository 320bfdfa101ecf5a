//! The header fields that all versions of QUIC share (RFC 8999), and Version Negotiation packets.

use core::fmt;

use crate::codec::{FIXED, write_parts};
use crate::error::SealError;
use crate::header::LONG_FORM;

/// The octets of a version.
const VERSION_LENGTH: usize = 4;

/// A long header of any version (RFC 8999 §5.1), for packets of unknown versions. Nothing in it is authentic.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnyLongHeader<'a> {
    /// The version; 0 in a Version Negotiation packet.
    pub version: u32,
    /// The destination connection ID, of 0 to 255 octets: future versions may have longer ones than
    /// [`ConnectionId::MAX_LENGTH`](crate::ConnectionId::MAX_LENGTH).
    pub destination: &'a [u8],
    /// The source connection ID, also of 0 to 255 octets.
    pub source: &'a [u8],
    /// The rest of the datagram; its meaning depends on the version.
    pub rest: &'a [u8],
}

impl<'a> AnyLongHeader<'a> {
    /// The header of a packet with these fields, for a client that keeps them and not the packet that it has sent.
    #[must_use]
    pub const fn new(version: u32, destination: &'a [u8], source: &'a [u8]) -> Self {
        Self { version, destination, source, rest: &[] }
    }

    /// Reads the header at the start of a datagram. `None` if it is truncated, or if it is a short header: its destination connection ID
    /// follows the first octet, and only its receiver knows the length.
    #[must_use]
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let (first, rest) = datagram.split_first()?;
        if first & LONG_FORM == 0 {
            return None;
        }
        let (version, rest) = rest.split_first_chunk()?;
        let (destination, rest) = connection_id(rest)?;
        let (source, rest) = connection_id(rest)?;
        Some(Self { version: u32::from_be_bytes(*version), destination, source, rest })
    }
}

fn connection_id(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = octets.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

impl fmt::Debug for AnyLongHeader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyLongHeader")
            .field("version", &format_args!("0x{:08x}", self.version))
            .field("destination", &self.destination)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// A Version Negotiation packet: the versions that a server supports, sent to a client that started with another (RFC 8999 §6, RFC 9000
/// §17.2.1). It is not protected: anyone on the path can forge one, so a client checks for a downgrade in the handshake (RFC 9368).
///
/// ```
/// use wireseal_quic::{AnyLongHeader, VersionNegotiation};
///
/// // A server gets a client's first packet, of a version that it does not know. It does not answer datagrams shorter than the 1,200
/// // octets that a first datagram must have (RFC 9000 §6.1), nor Version Negotiation packets.
/// let mut datagram = [0; 1200];
/// datagram[..17].copy_from_slice(&[0xc0, 0xba, 0xba, 0xba, 0xba, 8, 1, 2, 3, 4, 5, 6, 7, 8, 2, 9, 9]);
/// let asked = AnyLongHeader::read(&datagram).ok_or("not QUIC")?;
/// let mut answer = [0; 64];
/// let length = VersionNegotiation::write(0x2f, &asked, &[1, 0x6b33_43cf], &mut answer)?;
///
/// // The client learns that it answers its own packet, and which versions it can start again with.
/// let negotiation = VersionNegotiation::read(&answer[..length]).ok_or("not Version Negotiation")?;
/// assert!(negotiation.answers(&asked));
/// assert!(negotiation.answers(&AnyLongHeader::new(0xbaba_baba, &[1, 2, 3, 4, 5, 6, 7, 8], &[9, 9])));
/// assert!(negotiation.versions().eq([1, 0x6b33_43cf]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VersionNegotiation<'a> {
    destination: &'a [u8],
    source: &'a [u8],
    versions: &'a [u8],
}

impl<'a> VersionNegotiation<'a> {
    /// The most versions that [`write`](Self::write) takes.
    pub const MAX_VERSIONS: usize = 16;

    /// Writes the answer to a packet to the start of `out`, and returns its length in octets. `unused` is random: its low six bits become
    /// those of the first octet (RFC 9000 §17.2.1).
    ///
    /// # Errors
    ///
    /// [`SealError::BufferTooSmall`]; [`SealError::FieldTooLong`] for more than [`MAX_VERSIONS`](Self::MAX_VERSIONS);
    /// [`SealError::NoAnswer`] if `asked` is a Version Negotiation packet itself, or `versions` is empty. Nothing is written then.
    pub fn write(
        unused: u8,
        asked: &AnyLongHeader<'_>,
        versions: &[u32],
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        if asked.version == 0 || versions.is_empty() {
            return Err(SealError::NoAnswer);
        }
        let mut list = [0; VERSION_LENGTH * Self::MAX_VERSIONS];
        let length = VERSION_LENGTH * versions.len();
        let list = list.get_mut(..length).ok_or(SealError::FieldTooLong)?;
        for (octets, version) in list.chunks_exact_mut(VERSION_LENGTH).zip(versions) {
            octets.copy_from_slice(&version.to_be_bytes());
        }
        let first = LONG_FORM | FIXED | unused & (FIXED - 1);
        // No truncation: each length was read from one octet.
        let [to, from] = [asked.source, asked.destination].map(|id| [id.len() as u8]);
        write_parts(out, &[&[first], &[0; VERSION_LENGTH], &to, asked.source, &from, asked.destination, list])
    }

    /// Reads a datagram. `None` for any other packet, and for a packet without versions or with a truncated one.
    #[must_use]
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let AnyLongHeader { version, destination, source, rest } = AnyLongHeader::read(datagram)?;
        let is_list = !rest.is_empty() && rest.len().is_multiple_of(VERSION_LENGTH);
        (version == 0 && is_list).then_some(Self { destination, source, versions: rest })
    }

    /// The versions, in the server's order. Some may be reserved ones, which only exercise version negotiation (RFC 9000 §15).
    pub fn versions(&self) -> impl Iterator<Item = u32> + 'a {
        let (versions, _) = self.versions.as_chunks::<VERSION_LENGTH>();
        versions.iter().map(|version| u32::from_be_bytes(*version))
    }

    /// Whether a client whose first packet was `sent` may act on this packet: its connection IDs are those of `sent`, exchanged, and it
    /// does not offer the version of `sent` (RFC 9000 §6.2 and §17.2.1). A client that has already received another packet must ignore it.
    #[must_use]
    pub fn answers(&self, sent: &AnyLongHeader<'_>) -> bool {
        (self.destination, self.source) == (sent.source, sent.destination)
            && self.versions().all(|version| version != sent.version)
    }
}

impl fmt::Debug for VersionNegotiation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionNegotiation")
            .field("destination", &self.destination)
            .field("source", &self.source)
            .field("versions", &self.versions)
            .finish()
    }
}
