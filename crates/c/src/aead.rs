//! AEADs over messages in place, and masks of packet numbers, for protocols that have their own packets.

use core::ffi::{c_char, c_void};

use wireseal_aead::{AeadAlgorithm, AeadError, AeadKey, MaskKey};

use crate::border::{self, Kind, Opaque};
use crate::status::{wireseal_status, wireseal_status as Status};

/// An AEAD with nonces of 12 octets and tags of 16, by the number of its TLS 1.3 cipher suite (RFC 8446 appendix B.4).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_aead_algorithm {
    /// AES-128-GCM. QUIC derives its keys with SHA-256.
    Aes128Gcm = 0x1301,
    /// AES-256-GCM. QUIC derives its keys with SHA-384.
    Aes256Gcm = 0x1302,
    /// ChaCha20-Poly1305. QUIC derives its keys with SHA-256.
    Chacha20Poly1305 = 0x1303,
    /// AES-128-CCM. QUIC derives its keys with SHA-256.
    Aes128Ccm = 0x1304,
}

/// The algorithm with this number.
pub(crate) fn algorithm(number: u32) -> Result<AeadAlgorithm, Status> {
    let suite = u16::try_from(number).ok();
    suite.and_then(AeadAlgorithm::from_tls_cipher_suite).ok_or(Status::UnknownAlgorithm)
}

/// The `N` octets at `start`, which C gives for this call.
///
/// # Safety
/// As for [`border::octets`].
pub(crate) unsafe fn array<'a, const N: usize>(start: *const u8) -> Result<&'a [u8; N], Status> {
    // SAFETY: the caller's promise; octets have no alignment.
    unsafe { border::given(start.cast()) }
}

/// [`Status::BadArgument`] if octets that a call changes overlap others of the call. Lengths that no buffer has are found elsewhere.
fn apart(changed: (*const u8, usize), other: (*const u8, usize)) -> Result<(), Status> {
    let starts_inside = |start: *const u8, (of, length): (*const u8, usize)| {
        length <= isize::MAX as usize && start.addr().wrapping_sub(of.addr()) < length
    };
    let overlap =
        starts_inside(changed.0, other) && changed.1 > 0 || starts_inside(other.0, changed) && other.1 > 0;
    if overlap { Err(Status::BadArgument) } else { Ok(()) }
}

fn status_of(error: AeadError) -> Status {
    match error {
        AeadError::KeyLength { .. } => Status::KeyLength,
        AeadError::TooLong { .. } => Status::TooLong,
        AeadError::NoRoomForTag { .. } => Status::TooSmall,
        AeadError::SampleOutside { .. } => Status::TooShortForSample,
        AeadError::Truncated { .. } | AeadError::NotAuthentic => Status::NotAuthentic,
        _ => Status::BadArgument,
    }
}

/// An AEAD key. Any number of threads may use it at once, but none while it is ended.
pub struct wireseal_aead_key(());

// SAFETY: no other type has this kind.
unsafe impl Opaque for wireseal_aead_key {
    type Value = AeadKey;
    const KIND: Kind = Kind::AeadKey;
}

/// Octets of memory that are enough for a struct wireseal_aead_key, aligned to WIRESEAL_ALIGN.
pub const WIRESEAL_AEAD_KEY_SIZE: usize = 768;
/// Octets of memory that are enough for a struct wireseal_mask_key, aligned to WIRESEAL_ALIGN.
pub const WIRESEAL_MASK_KEY_SIZE: usize = 640;

const _: () = assert!(wireseal_aead_key::SIZE <= WIRESEAL_AEAD_KEY_SIZE);
const _: () = assert!(wireseal_mask_key::SIZE <= WIRESEAL_MASK_KEY_SIZE);

/// Returns how many octets a key of this enum wireseal_aead_algorithm has: 16 or 32; 0 if no algorithm has this number.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_aead_key_length(algorithm: u32) -> usize {
    self::algorithm(algorithm).map_or(0, AeadAlgorithm::key_length)
}

/// Returns how many octets of memory a struct wireseal_aead_key needs.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_aead_key_size() -> usize {
    wireseal_aead_key::SIZE
}

/// Returns the alignment of that memory, in octets.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_aead_key_align() -> usize {
    wireseal_aead_key::ALIGN
}

/// Makes an AEAD key in `size` octets of `memory`. `algorithm` is an enum wireseal_aead_algorithm, and `octets` the key,
/// wireseal_aead_key_length() octets. The routines for this processor are chosen here, once.
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_aead_key_new(
    memory: *mut c_void,
    size: usize,
    algorithm: u32,
    octets: *const u8,
    octets_length: usize,
    key: *mut *mut wireseal_aead_key,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::make(memory, size, key, || {
            AeadKey::new(self::algorithm(algorithm)?, border::octets(octets, octets_length)?)
                .map_err(status_of)
        })
    }
}

/// Writes to `text`, which has room for `text_size` octets with the zero at the end, what computes the AEAD: Wireseal's own routines for the
/// processor's instructions, or the name of a library. 64 octets are enough.
///
/// Error: WIRESEAL_STATUS_TOO_SMALL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_aead_key_served_by(
    key: *const wireseal_aead_key,
    text: *mut c_char,
    text_size: usize,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe { border::read(key, |key| write_text(key.served_by(), text, text_size)) }
}

/// Copies a text to where it is sealed or opened. The places may overlap.
///
/// # Safety
/// As for [`border::octets`] and [`border::octets_mut`], but for the overlap.
unsafe fn copied<'a>(from: *const u8, to: *mut u8, length: usize) -> Result<&'a mut [u8], Status> {
    // SAFETY: the caller's promise; the first two lines check both pointers, which are not used as references before the copy is made.
    unsafe {
        border::octets(from, length)?;
        border::octets_place(to, length)?;
        if length > 0 {
            core::ptr::copy(from, to, length);
        }
        border::octets_mut(to, length)
    }
}

/// [`Status::TooLong`] for a text that the key does not take.
fn check_length(key: &AeadKey, length: usize) -> Result<(), Status> {
    if length as u64 > key.algorithm().max_text_length() { Err(Status::TooLong) } else { Ok(()) }
}

/// Writes a text and a zero.
///
/// # Safety
/// As for [`border::octets_mut`].
unsafe fn write_text(text: &str, into: *mut c_char, size: usize) -> Result<(), Status> {
    if size <= text.len() {
        return Err(Status::TooSmall);
    }
    // SAFETY: the caller's promise, and both fit.
    unsafe {
        border::octets_place(into.cast(), size)?.write(text.as_bytes())?;
        border::octets_place(into.add(text.len()).cast(), 1)?.write(&[0])
    }
}

/// Ends an AEAD key and wipes its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_aead_key_end(key: *mut wireseal_aead_key) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe { border::end(key) }
}

/// Encrypts `text` in place and writes its tag to 16 octets at `tag`, which may be directly after the text. `aad` is authenticated, but not
/// encrypted.
///
/// `nonce` has 12 octets, and must never be used twice with the same key: that would reveal both texts and let anyone forge others.
///
/// Errors: WIRESEAL_STATUS_TOO_LONG for a text above 2^24-1 octets with AES-128-CCM, 2^36-32 with AES-GCM, 2^38-64 with ChaCha20-Poly1305;
/// WIRESEAL_STATUS_BAD_ARGUMENT if the text overlaps its tag or `aad`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_aead_seal(
    key: *const wireseal_aead_key,
    nonce: *const u8,
    aad: *const u8,
    aad_length: usize,
    text: *mut u8,
    text_length: usize,
    tag: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::read(key, |key| {
            apart((text, text_length), (aad, aad_length))?;
            apart((text, text_length), (tag, AeadAlgorithm::TAG_LENGTH))?;
            let mut tag = border::place(tag.cast::<[u8; 16]>())?;
            let text = border::octets_mut(text, text_length)?;
            let sealed = key.seal_detached(array(nonce)?, border::octets(aad, aad_length)?, text);
            tag.write(sealed.map_err(status_of)?);
            Ok(())
        })
    }
}

/// Seals like wireseal_aead_seal(), and writes the mask for the sample of 16 octets that begins `sample_offset` octets after the start of the
/// sealed text to 5 octets at `mask`. The tag is written directly after the text, where there must be room for its 16 octets; the sample may
/// reach into it. With AES-GCM, on processors whose instructions Wireseal uses, the mask is computed in the same pass over the text.
///
/// Errors, with nothing changed: WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE if the sample is not inside text and tag; WIRESEAL_STATUS_BAD_ARGUMENT if
/// the two keys are of different algorithms; and those of wireseal_aead_seal().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_aead_seal_with_mask(
    key: *const wireseal_aead_key,
    mask_key: *const wireseal_mask_key,
    nonce: *const u8,
    aad: *const u8,
    aad_length: usize,
    text: *mut u8,
    text_length: usize,
    sample_offset: usize,
    mask: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    border::guarded(|| unsafe {
        let mut mask = border::place(mask.cast::<[u8; 5]>())?;
        let length = text_length.checked_add(AeadAlgorithm::TAG_LENGTH).ok_or(Status::TooLong)?;
        apart((text, length), (aad, aad_length))?;
        let message = border::octets_mut(text, length)?;
        let (key, mask_key) = (border::shared(key)?, border::shared(mask_key)?);
        if key.algorithm() != mask_key.algorithm {
            return Err(Status::BadArgument);
        }
        let sealed = key.seal_with_mask(
            &mask_key.key,
            array(nonce)?,
            border::octets(aad, aad_length)?,
            message,
            sample_offset,
        );
        mask.write(sealed.map_err(status_of)?);
        Ok(())
    })
}

/// Seals like wireseal_aead_seal() from one buffer to another: `text_length` octets at `text` become `text_length` + 16 at `sealed`, text and
/// tag. The two may overlap or be the same. The text is copied to `sealed`, and sealed there.
///
/// Errors, with nothing changed: WIRESEAL_STATUS_TOO_LONG, as for wireseal_aead_seal(); WIRESEAL_STATUS_BAD_ARGUMENT if `sealed` overlaps `aad`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_aead_seal_to(
    key: *const wireseal_aead_key,
    nonce: *const u8,
    aad: *const u8,
    aad_length: usize,
    text: *const u8,
    text_length: usize,
    sealed: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::read(key, |key| {
            check_length(key, text_length)?;
            let length = text_length.checked_add(AeadAlgorithm::TAG_LENGTH).ok_or(Status::TooLong)?;
            apart((sealed, length), (aad, aad_length))?;
            let (nonce, aad) = (*array(nonce)?, border::octets(aad, aad_length)?);
            border::octets_place(sealed, length)?;
            let text = copied(text, sealed, text_length)?;
            let tag = key.seal_detached(&nonce, aad, text).map_err(status_of)?;
            border::octets_place(sealed.add(text_length), tag.len())?.write(&tag)
        })
    }
}

/// Decrypts `text` in place, if the 16 octets at `tag` are its tag with the 12 octets at `nonce` and with `aad`.
///
/// Errors: WIRESEAL_STATUS_NOT_AUTHENTIC: the text is zeros; WIRESEAL_STATUS_TOO_LONG and
/// WIRESEAL_STATUS_BAD_ARGUMENT, as for wireseal_aead_seal().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_aead_open(
    key: *const wireseal_aead_key,
    nonce: *const u8,
    aad: *const u8,
    aad_length: usize,
    text: *mut u8,
    text_length: usize,
    tag: *const u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::read(key, |key| {
            apart((text, text_length), (aad, aad_length))?;
            apart((text, text_length), (tag, AeadAlgorithm::TAG_LENGTH))?;
            let text = border::octets_mut(text, text_length)?;
            let aad = border::octets(aad, aad_length)?;
            key.open_detached(array(nonce)?, aad, text, array(tag)?).map_err(status_of)
        })
    }
}

/// Opens like wireseal_aead_open() from one buffer to another: `sealed_length` octets at `sealed`, text and tag, become `sealed_length` - 16 at
/// `text`. The two may overlap or be the same; if they do not, `sealed` is never changed.
///
/// Errors: WIRESEAL_STATUS_NOT_AUTHENTIC: `text` is zeros, or unchanged if `sealed` is shorter than a tag. With nothing changed:
/// WIRESEAL_STATUS_TOO_LONG, as for wireseal_aead_seal(); WIRESEAL_STATUS_BAD_ARGUMENT if `text` overlaps `aad`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_aead_open_to(
    key: *const wireseal_aead_key,
    nonce: *const u8,
    aad: *const u8,
    aad_length: usize,
    sealed: *const u8,
    sealed_length: usize,
    text: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C. The tag is read before the text is copied, perhaps over it.
    unsafe {
        border::read(key, |key| {
            let octets = border::octets(sealed, sealed_length)?;
            let (length, tag) = match octets.split_last_chunk() {
                Some((text, tag)) => (text.len(), *tag),
                None => return Err(Status::NotAuthentic),
            };
            check_length(key, length)?;
            apart((text, length), (aad, aad_length))?;
            let (nonce, aad) = (*array(nonce)?, border::octets(aad, aad_length)?);
            key.open_detached(&nonce, aad, copied(sealed, text, length)?, &tag).map_err(status_of)
        })
    }
}

/// A mask key, for the masks that hide packet numbers in QUIC (RFC 9001 §5.4) and DTLS 1.3 (RFC 9147 §4.2.3). Any number of threads may use it
/// at once, but none while it is ended.
pub struct wireseal_mask_key(());

/// What is in a `wireseal_mask_key`.
pub(crate) struct Mask {
    key: MaskKey,
    algorithm: AeadAlgorithm,
}

// SAFETY: no other type has this kind.
unsafe impl Opaque for wireseal_mask_key {
    type Value = Mask;
    const KIND: Kind = Kind::MaskKey;
}

/// Returns how many octets of memory a struct wireseal_mask_key needs.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_mask_key_size() -> usize {
    wireseal_mask_key::SIZE
}

/// Returns the alignment of that memory, in octets.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_mask_key_align() -> usize {
    wireseal_mask_key::ALIGN
}

/// Makes a mask key in `size` octets of `memory`. `algorithm` is the enum wireseal_aead_algorithm that seals the packets, and `octets` the key,
/// as long as that algorithm's keys (wireseal_aead_key_length()).
///
/// Errors: those of wireseal_aead_key_new().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_mask_key_new(
    memory: *mut c_void,
    size: usize,
    algorithm: u32,
    octets: *const u8,
    octets_length: usize,
    key: *mut *mut wireseal_mask_key,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::make(memory, size, key, || {
            let algorithm = self::algorithm(algorithm)?;
            let key = MaskKey::new(algorithm, border::octets(octets, octets_length)?).map_err(status_of)?;
            Ok(Mask { key, algorithm })
        })
    }
}

/// Writes the mask for a `sample` of 16 octets of ciphertext to 5 octets at `mask`. The protocol defines which bits to apply it to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_mask(
    key: *const wireseal_mask_key,
    sample: *const u8,
    mask: *mut u8,
) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe {
        border::read(key, |key| {
            let mut mask = border::place(mask.cast::<[u8; 5]>())?;
            mask.write(key.key.mask(array(sample)?));
            Ok(())
        })
    }
}

/// Ends a mask key and wipes its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_mask_key_end(key: *mut wireseal_mask_key) -> wireseal_status {
    // SAFETY: what the header asks of C.
    unsafe { border::end(key) }
}
