//! The one walker over TCP options, and the codec of the AO option (RFC 5925 §2.2).

use core::fmt;
use core::ops::Range;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::Mac;

use crate::error::{OptionError, SignError};
use crate::types::KeyId;

/// Octets of a TCP header before its options.
pub const TCP_HEADER_LENGTH: usize = 20;
/// Octets of option space in a TCP header: 60 less the fixed 20 (RFC 9293 §3.1).
pub const MAX_OPTIONS_LENGTH: usize = 40;
/// Octets of an AO option before its MAC: kind, length, KeyID, RNextKeyID (RFC 5925 §2.2).
pub const AO_HEADER_LENGTH: usize = 4;
/// Octets of the longest AO option that Wireseal sends: its header and a MAC of 16 octets.
pub(crate) const MAX_AO_LENGTH: usize = AO_HEADER_LENGTH + TcpAoAlgorithm::MAX_MAC_LENGTH;

/// The option kinds that Wireseal knows (IANA TCP parameters).
pub mod kind {
    /// End of option list: what follows is padding.
    pub const END_OF_LIST: u8 = 0;
    /// No operation: one octet of padding.
    pub const NO_OPERATION: u8 = 1;
    /// Maximum segment size, four octets (RFC 9293 §3.7.1).
    pub const MAXIMUM_SEGMENT_SIZE: u8 = 2;
    /// Selective acknowledgment blocks (RFC 2018 §3).
    pub const SELECTIVE_ACKNOWLEDGMENT: u8 = 5;
    /// The TCP-MD5 signature (RFC 2385).
    pub const MD5_SIGNATURE: u8 = 19;
    /// TCP-AO (RFC 5925 §2.2).
    pub const AUTHENTICATION: u8 = 29;
    /// Multipath TCP (RFC 8684 §3).
    pub const MULTIPATH: u8 = 30;
    /// The cookie of TCP Fast Open (RFC 7413 §2).
    pub const FAST_OPEN: u8 = 34;
}

/// One option in a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpOption<'a> {
    /// The option's kind; never End-of-List or NOP.
    pub kind: u8,
    /// Where the option starts, in octets from the start of the options.
    pub offset: usize,
    /// The octets after kind and length.
    pub data: &'a [u8],
}

impl TcpOption<'_> {
    /// Octets of the whole option: kind, length and data.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.data.len() + 2
    }
}

/// Walks the options of a TCP header. It skips NOPs, and ends at End-of-List or the first error.
///
/// All of Wireseal finds options through this iterator.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    octets: &'a [u8],
    offset: usize,
}

impl<'a> Options<'a> {
    /// Walks `octets`: a header from octet 20 up to its data offset.
    #[inline]
    #[must_use]
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { octets, offset: 0 }
    }

    /// Octets walked over so far; after the walk, where the last option ended.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, OptionError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut offset = self.offset;
        while self.octets.get(offset) == Some(&kind::NO_OPERATION) {
            offset += 1;
        }
        let kind = *self.octets.get(offset)?;
        if kind == kind::END_OF_LIST {
            return None;
        }
        let end = offset + usize::from(self.octets.get(offset + 1).copied().unwrap_or(0));
        let Some(data) = self.octets.get(offset + 2..end) else {
            self.octets = &[];
            return Some(Err(OptionError::BadLength { kind, offset }));
        };
        self.offset = end;
        Some(Ok(TcpOption { kind, offset, data }))
    }
}

/// An AO option in a header (RFC 5925 §2.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AoOption<'a> {
    /// Where the option starts, in octets from the start of the options.
    pub offset: usize,
    /// The MKT that signed the segment: the sender's SendID, the receiver's RecvID.
    pub key_id: KeyId,
    /// The MKT that the sender asks its peer to sign with: the sender's RecvID.
    pub rnext_key_id: KeyId,
    /// The MAC as received. Do not trust the segment until it has been verified.
    pub mac: &'a [u8],
}

impl<'a> AoOption<'a> {
    /// Octets of an AO option with a MAC of `mac_length` octets.
    #[must_use]
    pub const fn length_with(mac_length: usize) -> usize {
        AO_HEADER_LENGTH.saturating_add(mac_length)
    }

    /// Finds the AO option in `options`: a TCP header from octet 20 up to its data offset.
    ///
    /// `None` means that the segment is unsigned. An AO option after End-of-List is padding.
    ///
    /// # Errors
    /// What RFC 5925 §2.2 and §7.5 refuse: two AO options, AO beside TCP-MD5, an AO option under 4 octets, and any option with an
    /// impossible length, because what follows it cannot be parsed.
    #[inline]
    pub fn find(options: &'a [u8]) -> Result<Option<Self>, OptionError> {
        // Most segments have no other option: nothing to walk.
        if let [kind::AUTHENTICATION, length, key_id, rnext_key_id, mac @ ..] = options
            && usize::from(*length) == options.len()
        {
            let (key_id, rnext_key_id) = (KeyId(*key_id), KeyId(*rnext_key_id));
            return Ok(Some(Self { offset: 0, key_id, rnext_key_id, mac }));
        }
        let found = Self::find_among_others(options)?;
        #[expect(
            clippy::map_identity,
            reason = "copied field by field, all fields stay in registers, also those above"
        )]
        let found = found.map(|Self { offset, key_id, rnext_key_id, mac }| Self {
            offset,
            key_id,
            rnext_key_id,
            mac,
        });
        Ok(found)
    }

    /// [`find`](Self::find) in a header with several options.
    #[inline(never)]
    fn find_among_others(options: &'a [u8]) -> Result<Option<Self>, OptionError> {
        let mut found = None;
        let mut md5 = false;
        for option in Options::new(options) {
            let option = option?;
            match option.kind {
                kind::AUTHENTICATION => {
                    let [key_id, rnext_key_id, mac @ ..] = option.data else {
                        return Err(OptionError::AoTooShort);
                    };
                    let ao = Self {
                        offset: option.offset,
                        key_id: KeyId(*key_id),
                        rnext_key_id: KeyId(*rnext_key_id),
                        mac,
                    };
                    if found.replace(ao).is_some() {
                        return Err(OptionError::TwoAoOptions);
                    }
                }
                kind::MD5_SIGNATURE => md5 = true,
                _ => {}
            }
        }
        if md5 && found.is_some() {
            return Err(OptionError::AoWithMd5);
        }
        Ok(found)
    }

    /// Octets of the whole option.
    #[must_use]
    pub const fn length(&self) -> usize {
        Self::length_with(self.mac.len())
    }

    /// Its place in its header.
    #[inline]
    pub(crate) const fn place(&self) -> AoPlace {
        AoPlace { start: TCP_HEADER_LENGTH + self.offset, mac_length: self.mac.len() }
    }
}

/// The place of an AO option in a TCP header, as offsets: unlike [`AoOption`] it borrows nothing, so the header can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AoPlace {
    /// Octets of the header before the option.
    pub(crate) start: usize,
    mac_length: usize,
}

impl AoPlace {
    /// The place of an option that comes first in the header, with a MAC of 12 octets.
    pub(crate) const ALONE: Self = Self { start: TCP_HEADER_LENGTH, mac_length: 12 };

    /// The place of the MAC.
    #[inline]
    pub(crate) const fn mac(self) -> Range<usize> {
        let start = self.start + AO_HEADER_LENGTH;
        start..start + self.mac_length
    }

    /// The same option in another header, behind `start` octets.
    pub(crate) const fn moved_to(self, start: usize) -> Self {
        Self { start, ..self }
    }

    /// Writes the ids into the option's header, unless they are already there. `None` if `tcp` is too short for the option.
    // A processor can read a header that was just written only after all earlier work, such as the MAC of another segment.
    #[inline]
    #[must_use]
    pub(crate) fn write_ids(self, tcp: &mut [u8], ids: [KeyId; 2]) -> Option<()> {
        let (place, ids) = (tcp.get_mut(self.start + 2..)?.first_chunk_mut()?, ids.map(u8::from));
        if *place != ids {
            *place = ids;
        }
        Some(())
    }

    /// Writes the leading octets of a MAC into the option's header. `None` if `tcp` is another header, or the MAC is shorter.
    #[inline]
    #[must_use]
    pub(crate) fn write_mac(self, tcp: &mut [u8], mac: &Mac) -> Option<()> {
        let (place, mac) = (tcp.get_mut(self.mac())?, mac.as_bytes());
        // A copy of constant length, such as RFC 5926's 12 octets, is one or two instructions.
        match place.len() {
            12 => *place.first_chunk_mut::<12>()? = *mac.first_chunk()?,
            16 => *place.first_chunk_mut::<16>()? = *mac.first_chunk()?,
            length => place.copy_from_slice(mac.get(..length)?),
        }
        Some(())
    }
}

impl fmt::Debug for AoOption<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AoOption")
            .field("offset", &self.offset)
            .field("key_id", &self.key_id)
            .field("rnext_key_id", &self.rnext_key_id)
            .field("mac_length", &self.mac.len())
            .finish()
    }
}

/// Appends an AO option with a zeroed MAC to the `used` octets of options at the start of `space`, pads with NOPs to a
/// multiple of four octets, and returns the new length of the options.
///
/// `space` is the header's option space: up to 40 octets (RFC 9293 §3.1). Signing the segment fills in ids and MAC.
///
/// # Errors
/// [`SignError::NoRoom`] if the padded options do not fit; `space` is then unchanged.
pub fn append_ao(space: &mut [u8], used: usize, mac_length: usize) -> Result<usize, SignError> {
    let length = AoOption::length_with(mac_length);
    let limit = space.len().min(MAX_OPTIONS_LENGTH);
    let free = limit.saturating_sub(used);
    // A header ends on a multiple of four, so the padding has to fit too.
    let padded = used.saturating_add(length).checked_next_multiple_of(4).unwrap_or(usize::MAX);
    let needed = padded.saturating_sub(used);
    let room = space[..limit].get_mut(used..padded).and_then(|room| room.split_at_mut_checked(length));
    let Some((option, padding)) = room else { return Err(SignError::NoRoom { needed, free }) };
    option.fill(0);
    option[0] = kind::AUTHENTICATION;
    option[1] = length as u8;
    padding.fill(kind::NO_OPERATION);
    Ok(padded)
}
