//! The secrets and keys of QUIC's packet protection (RFC 9001 §5.1, RFC 9369 §3.3), and their limits.

use core::ffi::c_void;

use wireseal_aead::AeadAlgorithm;
use wireseal_quic::hazmat::{HeaderKey, KeyOctets, PacketKey, initial_secrets, next_secret};
use wireseal_quic::{ConnectionId, KeyError, TrafficSecret, Version};
use zeroize::Zeroizing;

use crate::aead::{algorithm, array};
use crate::border::{self, Kind, Opaque};
use crate::status::{wireseal_status, wireseal_status as Status};

/// A version of QUIC, by its number on the wire.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_quic_version {
    /// Version 1 (RFC 9000, RFC 9001).
    V1 = 1,
    /// Version 2 (RFC 9369).
    V2 = 0x6b33_43cf,
}

/// An end of a QUIC connection.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_quic_side {
    /// The end that opens the connection.
    Client = 0,
    /// The other.
    Server = 1,
}

/// Octets of memory that are enough for a struct wireseal_quic_packet_key, aligned to WIRESEAL_ALIGN.
pub const WIRESEAL_QUIC_PACKET_KEY_SIZE: usize = 768;
/// Octets of memory that are enough for a struct wireseal_quic_header_key, aligned to WIRESEAL_ALIGN.
pub const WIRESEAL_QUIC_HEADER_KEY_SIZE: usize = 640;

const _: () = assert!(wireseal_quic_packet_key::SIZE <= WIRESEAL_QUIC_PACKET_KEY_SIZE);
const _: () = assert!(wireseal_quic_header_key::SIZE <= WIRESEAL_QUIC_HEADER_KEY_SIZE);

/// The octets of the longest traffic secret, that of SHA-384.
const MAX_SECRET_LENGTH: usize = 48;

/// The version with this number on the wire.
pub(crate) fn version(number: u32) -> Result<Version, Status> {
    Version::from_wire(number).map_err(|_| Status::UnknownVersion)
}

/// The connection ID at `start`, which C gives for this call.
///
/// # Safety
/// As for [`border::octets`].
pub(crate) unsafe fn connection_id(start: *const u8, length: usize) -> Result<ConnectionId, Status> {
    // SAFETY: the caller's promise.
    ConnectionId::new(unsafe { border::octets(start, length)? }).map_err(|_| Status::TooLong)
}

/// The secret at `start`, which C gives for this call.
///
/// # Safety
/// As for [`border::octets`].
unsafe fn secret(number: u32, start: *const u8, length: usize) -> Result<TrafficSecret, Status> {
    // SAFETY: the caller's promise.
    TrafficSecret::new(algorithm(number)?, unsafe { border::octets(start, length)? }).map_err(status_of_key)
}

fn status_of_key(error: KeyError) -> Status {
    match error {
        KeyError::WrongLength { .. } => Status::KeyLength,
        _ => Status::BadArgument,
    }
}

/// Returns how many packets one key may seal (RFC 9001 §6.6): count them, and update the key before. UINT64_MAX if there is no limit
/// (ChaCha20-Poly1305), 0 if no enum wireseal_aead_algorithm has this number.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_quic_confidentiality_limit(algorithm: u32) -> u64 {
    self::algorithm(algorithm).map_or(0, |algorithm| algorithm.confidentiality_limit().unwrap_or(u64::MAX))
}

/// Returns how many packets of a connection may fail with WIRESEAL_STATUS_NOT_AUTHENTIC, counted over all its keys, before you must close it
/// with AEAD_LIMIT_REACHED (RFC 9001 §6.6). 0 if no enum wireseal_aead_algorithm has this number.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_quic_integrity_limit(algorithm: u32) -> u64 {
    self::algorithm(algorithm).map_or(0, AeadAlgorithm::integrity_limit)
}

/// Returns how many octets a traffic secret has with this enum wireseal_aead_algorithm, as many as its hash: 48 for AES-256-GCM, 32 for the
/// others; 0 if no algorithm has this number. Keys have wireseal_aead_key_length() octets.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_quic_secret_length(algorithm: u32) -> usize {
    self::algorithm(algorithm).map_or(0, AeadAlgorithm::secret_length)
}

/// Writes to 32 octets at `secret` the secret of the Initial packets that `sender`, an enum wireseal_quic_side, sends (RFC 9001 §5.2). Its keys
/// are for AES-128-GCM. `destination_id` is the destination connection ID of the client's first Initial packet, or the source connection ID of
/// the Retry packet that answered it. `version` is a version's number on the wire.
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_VERSION; WIRESEAL_STATUS_TOO_LONG for an ID above 20 octets; WIRESEAL_STATUS_BAD_ARGUMENT if `sender` is no
/// enum wireseal_quic_side.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_initial_secret(
    version: u32,
    destination_id: *const u8,
    destination_id_length: usize,
    sender: u32,
    secret: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    border::guarded(|| unsafe {
        let mut out = border::place(secret.cast::<[u8; 32]>())?;
        let destination = connection_id(destination_id, destination_id_length)?;
        let [client, server] = initial_secrets(self::version(version)?, &destination);
        let sender = match sender {
            0 => client,
            1 => server,
            _ => return Err(Status::BadArgument),
        };
        out.write(sender.octets().try_into().map_err(|_| Status::Internal)?);
        Ok(())
    })
}

/// Writes the secret of the next key phase to `secret_length` octets at `next` (RFC 9001 §6.1, RFC 9369 §3.3.2), which may be where `secret`
/// is. Derive only packet keys from it: the header key of the first secret stays.
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_VERSION, WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_next_secret(
    version: u32,
    algorithm: u32,
    secret: *const u8,
    secret_length: usize,
    next: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C. The secret is not used any more when `next` is written.
    border::guarded(|| unsafe {
        let algorithm = self::algorithm(algorithm)?;
        let mut following = Zeroizing::new([0; MAX_SECRET_LENGTH]);
        let following = following.get_mut(..algorithm.secret_length()).ok_or(Status::Internal)?;
        let secret = border::octets(secret, secret_length)?;
        next_secret(self::version(version)?, algorithm, secret, following).map_err(status_of_key)?;
        border::octets_place(next, secret_length)?.write(following)
    })
}

/// Writes the octets of the keys that are derived from a secret (RFC 9001 §5.1), for stacks that keep IVs themselves or make the keys later:
/// wireseal_aead_key_length() octets each to `key` and `header_protection_key`, and 12 to `iv`. Each of the three may be null.
///
/// Errors: those of wireseal_quic_next_secret().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_key_octets(
    version: u32,
    algorithm: u32,
    secret: *const u8,
    secret_length: usize,
    key: *mut u8,
    iv: *mut u8,
    header_protection_key: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    border::guarded(|| unsafe {
        let secret = self::secret(algorithm, secret, secret_length)?;
        let octets = KeyOctets::derive(self::version(version)?, &secret);
        let wanted =
            [(key, octets.key()), (iv, octets.iv()), (header_protection_key, octets.header_protection_key())];
        for (place, octets) in wanted {
            if !place.is_null() {
                border::octets_place(place, octets.len())?.write(octets)?;
            }
        }
        Ok(())
    })
}

/// A packet protection key with its IV, or packet key: for one direction of one encryption level, or of one key phase (RFC 9001 §5.3). Any
/// number of threads may use it at once, but none while it is ended.
pub struct wireseal_quic_packet_key(());

// SAFETY: no other type has this kind.
unsafe impl Opaque for wireseal_quic_packet_key {
    type Value = PacketKey;
    const KIND: Kind = Kind::QuicPacketKey;
}

/// A header protection key, or header key: for one direction of one encryption level, and for all key phases (RFC 9001 §5.4 and §6.1). Any
/// number of threads may use it at once, but none while it is ended.
pub struct wireseal_quic_header_key(());

// SAFETY: no other type has this kind.
unsafe impl Opaque for wireseal_quic_header_key {
    type Value = HeaderKey;
    const KIND: Kind = Kind::QuicHeaderKey;
}

/// Returns how many octets of memory a struct wireseal_quic_packet_key needs.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_quic_packet_key_size() -> usize {
    wireseal_quic_packet_key::SIZE
}

/// Returns the alignment of that memory, in octets.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_quic_packet_key_align() -> usize {
    wireseal_quic_packet_key::ALIGN
}

/// Returns how many octets of memory a struct wireseal_quic_header_key needs.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_quic_header_key_size() -> usize {
    wireseal_quic_header_key::SIZE
}

/// Returns the alignment of that memory, in octets.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_quic_header_key_align() -> usize {
    wireseal_quic_header_key::ALIGN
}

/// Makes a packet key in `size` octets of `memory` from a traffic secret: from TLS, wireseal_quic_initial_secret() or
/// wireseal_quic_next_secret(). `version` is a version's number on the wire, `algorithm` an enum wireseal_aead_algorithm, and the secret has
/// wireseal_quic_secret_length() octets.
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_VERSION, WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_packet_key_from_secret(
    memory: *mut c_void,
    size: usize,
    version: u32,
    algorithm: u32,
    secret: *const u8,
    secret_length: usize,
    key: *mut *mut wireseal_quic_packet_key,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::make(memory, size, key, || {
            let secret = self::secret(algorithm, secret, secret_length)?;
            let octets = KeyOctets::derive(self::version(version)?, &secret);
            PacketKey::new(secret.algorithm(), octets.key(), octets.iv()).map_err(status_of_key)
        })
    }
}

/// Makes a packet key from the octets of the key, wireseal_aead_key_length() of them, and an IV of 12 octets.
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_packet_key_new(
    memory: *mut c_void,
    size: usize,
    algorithm: u32,
    octets: *const u8,
    octets_length: usize,
    iv: *const u8,
    key: *mut *mut wireseal_quic_packet_key,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::make(memory, size, key, || {
            let octets = border::octets(octets, octets_length)?;
            PacketKey::new(self::algorithm(algorithm)?, octets, array(iv)?).map_err(status_of_key)
        })
    }
}

/// Ends a packet key and wipes its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_packet_key_end(key: *mut wireseal_quic_packet_key) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe { border::end(key) }
}

/// Makes a header key from the first secret of its encryption level, with the parameters and errors of wireseal_quic_packet_key_from_secret().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_header_key_from_secret(
    memory: *mut c_void,
    size: usize,
    version: u32,
    algorithm: u32,
    secret: *const u8,
    secret_length: usize,
    key: *mut *mut wireseal_quic_header_key,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::make(memory, size, key, || {
            let secret = self::secret(algorithm, secret, secret_length)?;
            let octets = KeyOctets::derive(self::version(version)?, &secret);
            HeaderKey::new(secret.algorithm(), octets.header_protection_key()).map_err(status_of_key)
        })
    }
}

/// Makes a header key from the octets of the key, wireseal_aead_key_length() of them.
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_header_key_new(
    memory: *mut c_void,
    size: usize,
    algorithm: u32,
    octets: *const u8,
    octets_length: usize,
    key: *mut *mut wireseal_quic_header_key,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::make(memory, size, key, || {
            let octets = border::octets(octets, octets_length)?;
            HeaderKey::new(self::algorithm(algorithm)?, octets).map_err(status_of_key)
        })
    }
}

/// Writes the mask for a `sample` of 16 octets to 5 octets at `mask`: one for the first octet of the header, then four for the packet number
/// (RFC 9001 §5.4). For stacks that mask headers in a separate step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_mask(
    key: *const wireseal_quic_header_key,
    sample: *const u8,
    mask: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::read(key, |key| {
            let mut mask = border::place(mask.cast::<[u8; 5]>())?;
            mask.write(key.mask(array(sample)?));
            Ok(())
        })
    }
}

/// Ends a header key and wipes its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_quic_header_key_end(key: *mut wireseal_quic_header_key) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe { border::end(key) }
}
