//! QUIC packets, sealed and opened with the caller's packet numbers, limits and key phases; and Retry packets.

use core::mem::MaybeUninit;

use wireseal_quic::hazmat::PathId;
use wireseal_quic::{
    AnyLongHeader, HeaderError, OpenError, PacketHeader, PacketType, Protected, Retry, SealError, Version,
    VersionNegotiation, retry_integrity_tag,
};

use crate::border;
use crate::quic_keys::{connection_id, version, wireseal_quic_header_key, wireseal_quic_packet_key};
use crate::status::{wireseal_status, wireseal_status as Status};

/// The type of a QUIC packet. For the first four, it says which keys protect the packet (RFC 9001 §4).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_quic_packet_type {
    /// Long header; protected by the keys of the Initial secrets.
    Initial = 0,
    /// Long header; protected by the keys of early data.
    ZeroRtt = 1,
    /// Long header; protected by the keys of the handshake.
    Handshake = 2,
    /// Short header; protected by the keys of its key phase.
    OneRtt = 3,
    /// Long header; has an integrity tag, which wireseal_quic_retry_verify() checks.
    Retry = 4,
    /// Long header with version 0; nothing protects it. wireseal_quic_version_negotiation_read() reads it.
    VersionNegotiation = 5,
    /// Long header of a version that is not built in.
    OtherVersion = 6,
}

/// The key phase that wireseal_quic_open() expects.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_quic_phase {
    /// A key phase bit of 0. Use it for long headers, too.
    Zero = 0,
    /// A key phase bit of 1.
    One = 1,
    /// Either: do not check the bit.
    Any = 2,
}

/// `largest` of wireseal_quic_open() if no packet was opened yet.
pub const WIRESEAL_QUIC_NONE: u64 = u64::MAX;

fn status_of_header(error: HeaderError) -> Status {
    match error {
        HeaderError::Retry | HeaderError::VersionNegotiation => Status::NotProtected,
        HeaderError::UnknownVersion(_) => Status::UnknownVersion,
        HeaderError::NotRetry | HeaderError::OtherVersion { .. } => Status::NotRetry,
        HeaderError::RetryTag => Status::RetryTag,
        HeaderError::SameConnectionId => Status::SameConnectionId,
        _ => Status::NotAPacket,
    }
}

fn status_of_seal(error: SealError) -> Status {
    match error {
        SealError::BufferTooSmall { .. } => Status::TooSmall,
        SealError::NoFrames => Status::NoFrames,
        SealError::TooShortForSample { .. } => Status::TooShortForSample,
        SealError::TooLong { .. } | SealError::FieldTooLong => Status::TooLong,
        SealError::NumbersExhausted => Status::NumberTooLarge,
        _ => Status::BadArgument,
    }
}

fn status_of_open(error: OpenError) -> Status {
    match error {
        OpenError::Undecryptable => Status::TooShortForSample,
        OpenError::ReservedBits => Status::ReservedBits,
        OpenError::NoFrames => Status::NoFrames,
        _ => Status::NotAuthentic,
    }
}

/// Seals a whole packet in place: encrypts the payload, writes the tag and masks the header (RFC 9001 §5.3 and §5.4), in one pass over the
/// packet if Wireseal has routines for the processor's instructions.
///
/// `packet` holds the unmasked header, with reserved bits, key phase and packet number; the payload from `payload_offset` on; and 16 octets of
/// room for the tag, which `packet_length` and a long header's Length field include. The header ends with the packet number, whose length is in
/// the two low bits of the first octet. `number` is the whole packet number, and must never be used twice with the same key and `path`: that
/// would reveal both payloads and let anyone forge others. `path` is 0 except with draft-ietf-quic-multipath.
///
/// Errors, with nothing written: WIRESEAL_STATUS_TOO_SMALL, WIRESEAL_STATUS_NO_FRAMES, WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE,
/// WIRESEAL_STATUS_TOO_LONG above 65,535 octets of payload, WIRESEAL_STATUS_NUMBER_TOO_LARGE; WIRESEAL_STATUS_BAD_ARGUMENT if the packet number
/// would start before the second octet, if the header does not end with the low octets of `number`, or if the two keys are of different
/// algorithms.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_seal(
    packet_key: *const wireseal_quic_packet_key,
    header_key: *const wireseal_quic_header_key,
    path: u32,
    number: u64,
    packet: *mut u8,
    packet_length: usize,
    payload_offset: usize,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    border::guarded(|| unsafe {
        let (packet_key, header_key) = (border::shared(packet_key)?, border::shared(header_key)?);
        let packet = border::octets_mut(packet, packet_length)?;
        packet_key
            .seal_packet(header_key, PathId(path), number, packet, payload_offset)
            .map_err(status_of_seal)
    })
}

/// A packet that was opened: all of it is authentic.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wireseal_quic_opened {
    /// The packet number.
    pub number: u64,
    /// The octets of header, payload and tag. Another packet of the datagram may follow.
    pub packet_length: usize,
    /// Where the payload starts, and the header ends.
    pub payload_offset: usize,
    /// The octets of the payload: at least one.
    pub payload_length: usize,
    /// The key phase bit of a short header; 0 for a long one.
    pub phase: u8,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

/// Opens the first packet of a datagram in place: removes the mask, decodes the packet number, decrypts, and checks the reserved bits and that
/// there are frames (RFC 9001 §5.5 and §9.5).
///
/// `destination_id_length` is the length of this end's connection IDs, which a short header does not say. `largest` is the largest number
/// opened so far in the packet's number space and `path`, or WIRESEAL_QUIC_NONE. `phase` is the enum wireseal_quic_phase that `packet_key` is
/// for. Left to you are: choosing keys by type and phase, dropping duplicates, the order of key phases, the fixed bit, and the integrity limit.
///
/// Errors:
///   WIRESEAL_STATUS_NOT_AUTHENTIC: the payload is zeros; header and tag are unchanged.
///   WIRESEAL_STATUS_OTHER_PHASE: nothing was changed, but `number` and `phase` are written to `opened`, and are not authentic. Call again with
///   the key of that phase.
///   WIRESEAL_STATUS_RESERVED_BITS and WIRESEAL_STATUS_NO_FRAMES: the packet was authentic; payload and tag are zeros.
///   WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE, WIRESEAL_STATUS_NOT_A_PACKET, WIRESEAL_STATUS_NOT_PROTECTED, WIRESEAL_STATUS_UNKNOWN_VERSION: drop the
///   datagram. WIRESEAL_STATUS_BAD_ARGUMENT: `phase` has no meaning, or the two keys are of different algorithms. Nothing was changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_open(
    packet_key: *const wireseal_quic_packet_key,
    header_key: *const wireseal_quic_header_key,
    path: u32,
    datagram: *mut u8,
    datagram_length: usize,
    destination_id_length: usize,
    largest: u64,
    phase: u32,
    opened: *mut wireseal_quic_opened,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    border::guarded(|| unsafe {
        let (packet_key, header_key) = (border::shared(packet_key)?, border::shared(header_key)?);
        let mut out = border::place(opened)?;
        let expected = match phase {
            0 => Some(false),
            1 => Some(true),
            2 => None,
            _ => return Err(Status::BadArgument),
        };
        if packet_key.algorithm() != header_key.algorithm() {
            return Err(Status::BadArgument);
        }
        let datagram = border::octets_mut(datagram, datagram_length)?;
        let (packet, rest) =
            Protected::split_first(datagram, destination_id_length).map_err(status_of_header)?;
        let packet_length = datagram_length - rest.len();
        let largest = (largest != WIRESEAL_QUIC_NONE).then_some(largest);
        let unmasked = header_key.unmask(packet, largest).map_err(status_of_open)?;
        let (number, phase) = (unmasked.number(), unmasked.key_phase());
        if expected.is_some_and(|expected| expected != phase) {
            out.write(wireseal_quic_opened {
                number,
                packet_length,
                payload_offset: 0,
                payload_length: 0,
                phase: phase.into(),
                reserved: [0; 2],
            });
            return Err(Status::OtherPhase);
        }
        let opened = unmasked.open_by(packet_key, PathId(path)).map_err(status_of_open)?;
        out.write(wireseal_quic_opened {
            number,
            packet_length,
            payload_offset: opened.header().len(),
            payload_length: opened.payload.len(),
            phase: phase.into(),
            reserved: [0; 2],
        });
        Ok(())
    })
}

/// What a packet says without keys. None of it is authentic. Offsets are from the start of the packet.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wireseal_quic_packet {
    /// The version of a long header, which is 0 in a Version Negotiation packet; 0 for a short one.
    pub version: u32,
    /// An enum wireseal_quic_packet_type.
    pub packet_type: u32,
    /// The octets of the packet, tag included. Another packet of the datagram may follow.
    pub length: usize,
    /// Where the destination connection ID starts.
    pub destination_id_offset: usize,
    /// Its octets: at most 20 in a long header of a version that is built in, at most 255 in another.
    pub destination_id_length: usize,
    /// Where the source connection ID starts; 0 for a short header.
    pub source_id_offset: usize,
    /// Its octets, with the same limits.
    pub source_id_length: usize,
    /// Where the token of an Initial packet starts; 0 if there is none.
    pub token_offset: usize,
    /// Its octets.
    pub token_length: usize,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

/// Reads what the first packet of a datagram says without keys (RFC 9000 §17.2 and §17.3), so that you can choose them. `destination_id_length`
/// is the length of this end's connection IDs, which a short header does not say. It does not check the fixed bit.
///
/// Errors:
///   WIRESEAL_STATUS_NOT_A_PACKET.
///   WIRESEAL_STATUS_UNKNOWN_VERSION, and WIRESEAL_STATUS_NOT_PROTECTED for Retry and Version Negotiation packets: `packet` is written all the
///   same, with the version, the type and both connection IDs, which all versions of QUIC have (RFC 8999 §5.1). Its `length` is the rest of the
///   datagram. A server may answer an unknown version with wireseal_quic_version_negotiation_write().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_packet_read(
    datagram: *const u8,
    datagram_length: usize,
    destination_id_length: usize,
    packet: *mut wireseal_quic_packet,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    border::guarded(|| unsafe {
        let mut out = border::place(packet)?;
        let datagram = border::octets(datagram, datagram_length)?;
        let offset_of = |part: &[u8]| match part.len() {
            0 => 0,
            _ => part.as_ptr().addr() - datagram.as_ptr().addr(),
        };
        let packet = match PacketHeader::read(datagram, destination_id_length) {
            Ok(packet) => packet,
            Err(error) => {
                let packet_type = match error {
                    HeaderError::Retry => wireseal_quic_packet_type::Retry,
                    HeaderError::VersionNegotiation => wireseal_quic_packet_type::VersionNegotiation,
                    HeaderError::UnknownVersion(_) => wireseal_quic_packet_type::OtherVersion,
                    _ => return Err(status_of_header(error)),
                };
                let header = AnyLongHeader::read(datagram).ok_or(Status::NotAPacket)?;
                out.write(wireseal_quic_packet {
                    version: header.version,
                    packet_type: packet_type as u32,
                    length: datagram_length,
                    destination_id_offset: offset_of(header.destination),
                    destination_id_length: header.destination.len(),
                    source_id_offset: offset_of(header.source),
                    source_id_length: header.source.len(),
                    token_offset: 0,
                    token_length: 0,
                    reserved: [0; 2],
                });
                return Err(status_of_header(error));
            }
        };
        let packet_type = match packet.packet_type() {
            PacketType::Initial => wireseal_quic_packet_type::Initial,
            PacketType::ZeroRtt => wireseal_quic_packet_type::ZeroRtt,
            PacketType::Handshake => wireseal_quic_packet_type::Handshake,
            PacketType::OneRtt => wireseal_quic_packet_type::OneRtt,
        };
        out.write(wireseal_quic_packet {
            version: packet.version().map_or(0, Version::to_wire),
            packet_type: packet_type as u32,
            length: packet.octets().len(),
            destination_id_offset: offset_of(packet.destination()),
            destination_id_length: packet.destination().len(),
            source_id_offset: offset_of(packet.source()),
            source_id_length: packet.source().len(),
            token_offset: offset_of(packet.token()),
            token_length: packet.token().len(),
            reserved: [0; 2],
        });
        Ok(())
    })
}

/// Writes a Version Negotiation packet (RFC 9000 §17.2.1), a server's answer to a client's first packet of a version that it does not support,
/// to at most `packet_size` octets at `packet`, and their number to `packet_length`. `asked` is the datagram that it answers; a server answers
/// none shorter than 1,200 octets (RFC 9000 §6.1). `versions` are those that the server supports, at most 16. `unused` is a random octet, whose
/// low six bits become those of the first octet.
///
/// Errors: WIRESEAL_STATUS_TOO_SMALL; WIRESEAL_STATUS_TOO_LONG for too many versions; WIRESEAL_STATUS_NOT_A_PACKET if `asked` has no long header;
/// WIRESEAL_STATUS_BAD_ARGUMENT if there are no versions, or `asked` is a Version Negotiation packet itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_version_negotiation_write(
    unused: u8,
    asked: *const u8,
    asked_length: usize,
    versions: *const u32,
    versions_count: usize,
    packet: *mut u8,
    packet_size: usize,
    packet_length: *mut usize,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    border::guarded(|| unsafe {
        let (mut packet, mut out) =
            (border::octets_place(packet, packet_size)?, border::place(packet_length)?);
        let asked = border::octets(asked, asked_length)?;
        let versions = border::items(versions, versions_count)?;
        let asked = AnyLongHeader::read(asked).ok_or(Status::NotAPacket)?;
        // First octet, version, and two connection IDs with their lengths.
        let mut answer = [0; 5 + 2 * 256 + 4 * VersionNegotiation::MAX_VERSIONS];
        let length =
            VersionNegotiation::write(unused, &asked, versions, &mut answer).map_err(status_of_seal)?;
        packet.write(&answer[..length])?;
        out.write(length);
        Ok(())
    })
}

/// Reads a Version Negotiation packet that a client has received, and checks that it answers the client's first packet, whose version and
/// connection IDs are given: it has the same IDs, exchanged, and does not name that version (RFC 9000 §6.2). Writes the versions to `versions`,
/// which has room for `versions_size`, and their number to `*count`. The packet is not authentic. A client that has received any other packet
/// of the connection ignores it.
///
/// Errors: WIRESEAL_STATUS_NOT_VERSION_NEGOTIATION: drop the packet; WIRESEAL_STATUS_TOO_SMALL: only `*count` is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_version_negotiation_read(
    version: u32,
    destination_id: *const u8,
    destination_id_length: usize,
    source_id: *const u8,
    source_id_length: usize,
    datagram: *const u8,
    datagram_length: usize,
    versions: *mut u32,
    versions_size: usize,
    count: *mut usize,
) -> wireseal_status {
    // SAFETY: what the header asks of C; `MaybeUninit` takes any octets.
    border::guarded(|| unsafe {
        let mut count = border::place(count)?;
        let destination = border::octets(destination_id, destination_id_length)?;
        let source = border::octets(source_id, source_id_length)?;
        let datagram = border::octets(datagram, datagram_length)?;
        let places = border::items_mut(versions.cast::<MaybeUninit<u32>>(), versions_size)?;
        let sent = AnyLongHeader::new(version, destination, source);
        let found = VersionNegotiation::read(datagram).filter(|found| found.answers(&sent));
        let found = found.ok_or(Status::NotVersionNegotiation)?;
        count.write(found.versions().count());
        if found.versions().count() > places.len() {
            return Err(Status::TooSmall);
        }
        for (place, version) in places.iter_mut().zip(found.versions()) {
            place.write(version);
        }
        Ok(())
    })
}

/// Writes the integrity tag of a Retry packet to 16 octets at `tag` (RFC 9001 §5.8, RFC 9369 §3.3.3). `retry` is the packet without its tag,
/// and `original_id` the destination connection ID of the Initial packet that it answers.
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_VERSION; WIRESEAL_STATUS_TOO_LONG for an ID above 20 octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_retry_tag(
    version: u32,
    original_id: *const u8,
    original_id_length: usize,
    retry: *const u8,
    retry_length: usize,
    tag: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    border::guarded(|| unsafe {
        let mut tag = border::place(tag.cast::<[u8; 16]>())?;
        let original = connection_id(original_id, original_id_length)?;
        let retry = border::octets(retry, retry_length)?;
        tag.write(retry_integrity_tag(self::version(version)?, &original, retry));
        Ok(())
    })
}

/// Where the parts of a verified Retry packet are, in octets from its start.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wireseal_quic_retry {
    /// Where the source connection ID starts. It becomes the destination connection ID of the client's packets, and the next Initial keys are
    /// derived from it.
    pub source_id_offset: usize,
    /// Its octets: at most 20.
    pub source_id_length: usize,
    /// Where the token starts, which the client returns.
    pub token_offset: usize,
    /// Its octets: at least one.
    pub token_length: usize,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

/// Verifies a Retry packet, which fills its datagram (RFC 9001 §5.8). `version` and `original_id`, its destination connection ID, are those of
/// the client's first Initial packet.
///
/// Errors, on which a client drops the packet (RFC 9000 §17.2.5.2): WIRESEAL_STATUS_NOT_RETRY, WIRESEAL_STATUS_NOT_A_PACKET,
/// WIRESEAL_STATUS_RETRY_TAG, WIRESEAL_STATUS_SAME_CONNECTION_ID. Also WIRESEAL_STATUS_UNKNOWN_VERSION, and WIRESEAL_STATUS_TOO_LONG for an ID
/// above 20 octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_retry_verify(
    version: u32,
    original_id: *const u8,
    original_id_length: usize,
    datagram: *const u8,
    datagram_length: usize,
    retry: *mut wireseal_quic_retry,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    border::guarded(|| unsafe {
        let mut out = border::place(retry)?;
        let original = connection_id(original_id, original_id_length)?;
        let datagram = border::octets(datagram, datagram_length)?;
        let retry = Retry::open(self::version(version)?, &original, datagram).map_err(status_of_header)?;
        // The token goes up to the tag, and the source connection ID up to the token (RFC 9000 §17.2.5).
        let token_offset = retry.token.as_ptr().addr() - datagram.as_ptr().addr();
        let source_id_length = retry.source.len();
        out.write(wireseal_quic_retry {
            source_id_offset: token_offset - source_id_length,
            source_id_length,
            token_offset,
            token_length: retry.token.len(),
            reserved: [0; 2],
        });
        Ok(())
    })
}
