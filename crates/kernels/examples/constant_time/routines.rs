//! The routines with what is secret to them, and twins that depend on a secret on purpose.

use std::fmt;
use std::hint::black_box;

use wireseal_kernels::aes::AesMaskKey;
use wireseal_kernels::chacha20::ChaCha20MaskKey;
use wireseal_kernels::chacha20_poly1305::ChaCha20Poly1305Key;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::gcm::{GcmKey, TAG_LENGTH};
use wireseal_kernels::hmac::ShaInstructions;
use wireseal_kernels::{cmac, poly1305, sha1, sha256};

/// The octets of the longest text.
pub const MAX_LENGTH: usize = 1200;

/// A key, a text with room for a tag, and samples: all unknown to the measurement.
#[derive(Clone)]
pub struct Secrets {
    pub key: [u8; 32],
    pub body: [u8; MAX_LENGTH + TAG_LENGTH],
    pub samples: [[u8; 16]; 16],
    /// What a routine has computed of them, public until then.
    pub outcome: [u8; 16],
}

impl Secrets {
    pub const fn new() -> Self {
        Self { key: [0; 32], body: [0; MAX_LENGTH + TAG_LENGTH], samples: [[0; 16]; 16], outcome: [0; 16] }
    }

    /// Fills every part but the outcome.
    pub fn fill(&mut self, mut fill: impl FnMut(&mut [u8])) {
        fill(&mut self.key);
        fill(&mut self.body);
        fill(self.samples.as_flattened_mut());
    }
}

/// One routine on one path.
pub struct Routine {
    name: &'static str,
    /// The greatest path that is on; with none, what every processor of this architecture has.
    pub path: Option<InstructionSet>,
    /// The branches on a verdict in one run: whether a packet is authentic is what the caller is told in the end.
    pub verdicts: usize,
    /// Made to be found.
    pub is_twin: bool,
    /// Whether a twin takes so much longer that a clock sees it; memcheck finds all of them.
    pub shows_in_time: bool,
    /// Runs it with a text of this many octets.
    pub run: fn(&mut Secrets, usize),
}

impl Routine {
    const fn new(name: &'static str, path: Option<InstructionSet>, run: fn(&mut Secrets, usize)) -> Self {
        Self { name, path, verdicts: 0, is_twin: false, shows_in_time: false, run }
    }

    const fn with_verdicts(self, verdicts: usize) -> Self {
        Self { verdicts, ..self }
    }

    const fn twin(name: &'static str, shows_in_time: bool, run: fn(&mut Secrets, usize)) -> Self {
        Self { name, path: None, verdicts: 0, is_twin: true, shows_in_time, run }
    }
}

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.map_or("any processor", InstructionSet::name);
        f.pad(&format!("{} ({path})", self.name))
    }
}

pub const ROUTINES: &[Routine] = &[
    Routine::twin("twin: a branch", true, branch),
    Routine::twin("twin: an index", false, index),
    Routine::new("ChaCha20 mask", None, chacha20_mask),
    Routine::new("ChaCha20 masks", None, chacha20_masks),
    Routine::new("ChaCha20 masks", Some(InstructionSet::Avx2), chacha20_masks),
    Routine::new("ChaCha20 masks", Some(InstructionSet::Avx512), chacha20_masks),
    Routine::new("Poly1305", None, poly1305),
    Routine::new("Poly1305", Some(InstructionSet::Avx512Ifma), poly1305),
    Routine::new("ChaCha20-Poly1305 seal", Some(InstructionSet::Avx512Ifma), chacha20_poly1305_seal),
    Routine::new("ChaCha20-Poly1305 open", Some(InstructionSet::Avx512Ifma), chacha20_poly1305_open)
        .with_verdicts(1),
    Routine::new("AES mask", Some(InstructionSet::AesNi), aes_mask),
    Routine::new("AES mask", Some(InstructionSet::Vaes256), aes_mask),
    Routine::new("AES mask", Some(InstructionSet::Vaes512), aes_mask),
    Routine::new("AES-128-GCM seal", Some(InstructionSet::AesNi), gcm_seal::<16>),
    Routine::new("AES-128-GCM seal", Some(InstructionSet::Vaes256), gcm_seal::<16>),
    Routine::new("AES-128-GCM seal", Some(InstructionSet::Vaes512), gcm_seal::<16>),
    Routine::new("AES-256-GCM seal", Some(InstructionSet::AesNi), gcm_seal::<32>),
    Routine::new("AES-256-GCM seal", Some(InstructionSet::Vaes256), gcm_seal::<32>),
    Routine::new("AES-256-GCM seal", Some(InstructionSet::Vaes512), gcm_seal::<32>),
    Routine::new("AES-128-GCM open", Some(InstructionSet::AesNi), gcm_open::<16>).with_verdicts(1),
    Routine::new("AES-128-GCM open", Some(InstructionSet::Vaes256), gcm_open::<16>).with_verdicts(1),
    Routine::new("AES-128-GCM open", Some(InstructionSet::Vaes512), gcm_open::<16>).with_verdicts(1),
    Routine::new("AES-256-GCM open", Some(InstructionSet::AesNi), gcm_open::<32>).with_verdicts(1),
    Routine::new("AES-256-GCM open", Some(InstructionSet::Vaes256), gcm_open::<32>).with_verdicts(1),
    Routine::new("AES-256-GCM open", Some(InstructionSet::Vaes512), gcm_open::<32>).with_verdicts(1),
    Routine::new("AES-128-CMAC", Some(InstructionSet::AesNi), cmac),
    Routine::new("AES-128-CMAC of 16", Some(InstructionSet::AesNi), cmacs),
    Routine::new("AES-128-CMAC of 16", Some(InstructionSet::Vaes512), cmacs),
    Routine::new("HMAC-SHA-1", Some(InstructionSet::ShaNi), hmac_sha1),
    Routine::new("HMAC-SHA-1 of 16", Some(InstructionSet::Avx512), hmac_sha1_many),
    Routine::new("HMAC-SHA-256", Some(InstructionSet::ShaNi), hmac_sha256),
    Routine::new("HMAC-SHA-256 of 16", Some(InstructionSet::Avx512), hmac_sha256_many),
];

/// A loop for one value of a bit of the key, and none for the other.
fn branch(secrets: &mut Secrets, _: usize) {
    if black_box(secrets.key[0]) & 1 == 1 {
        for octet in &mut secrets.body[..256] {
            *octet = black_box(octet.wrapping_mul(3));
        }
    }
    secrets.outcome[0] = secrets.key[0];
}

/// A table that octets of the key are indices of.
fn index(secrets: &mut Secrets, _: usize) {
    static TABLE: [u8; 256] = [7; 256];
    let mut sum = 0_u8;
    for octet in secrets.key {
        sum ^= black_box(TABLE)[usize::from(octet)];
    }
    secrets.outcome[0] = sum;
}

fn chacha20_mask(secrets: &mut Secrets, _: usize) {
    let mask = ChaCha20MaskKey::new(&secrets.key).mask(&secrets.samples[0]);
    secrets.outcome[..5].copy_from_slice(&mask);
}

fn chacha20_masks(secrets: &mut Secrets, length: usize) {
    let count = length % (secrets.samples.len() + 1);
    ChaCha20MaskKey::new(&secrets.key).mask_batch(&mut secrets.samples[..count]);
    secrets.outcome = secrets.samples[0];
}

fn poly1305(secrets: &mut Secrets, length: usize) {
    let (start, rest) = secrets.body[..length].split_at(length / 7);
    secrets.outcome = poly1305::mac(&secrets.key, &[start, rest]);
}

fn chacha20_poly1305_seal(secrets: &mut Secrets, length: usize) {
    let Some(key) = ChaCha20Poly1305Key::new(&secrets.key) else { return };
    secrets.outcome = key.seal_detached(&[1; 12], &[2; 21], &mut secrets.body[..length]);
}

/// Opens what it has sealed itself.
fn chacha20_poly1305_open(secrets: &mut Secrets, length: usize) {
    let Some(key) = ChaCha20Poly1305Key::new(&secrets.key) else { return };
    let body = &mut secrets.body[..length];
    let tag = key.seal_detached(&[1; 12], &[2; 21], body);
    black_box(key.open_detached(&[1; 12], &[2; 21], body, &tag));
    secrets.outcome = *secrets.body.first_chunk().expect("there is room for a tag at least");
}

fn aes_mask(secrets: &mut Secrets, _: usize) {
    let Some(key) = AesMaskKey::new(&secrets.key[..16]) else { return };
    secrets.outcome = key.mask(&secrets.samples[0]);
}

fn gcm_seal<const KEY: usize>(secrets: &mut Secrets, length: usize) {
    let (Some(key), Some(mask_key)) =
        (GcmKey::new(&secrets.key[..KEY]), AesMaskKey::new(&secrets.key[..KEY]))
    else {
        return;
    };
    let mask =
        key.seal(&[1; 12], &[2; 21], &mut secrets.body[..length + TAG_LENGTH], Some((&mask_key, length)));
    secrets.outcome = mask;
}

/// Opens what it has sealed itself.
fn gcm_open<const KEY: usize>(secrets: &mut Secrets, length: usize) {
    let Some(key) = GcmKey::new(&secrets.key[..KEY]) else { return };
    let body = &mut secrets.body[..length + TAG_LENGTH];
    key.seal(&[1; 12], &[2; 21], body, None);
    black_box(key.open(&[1; 12], &[2; 21], body));
    secrets.outcome = *secrets.body.first_chunk().expect("there is room for a tag at least");
}

fn cmac(secrets: &mut Secrets, length: usize) {
    let Some(key) = secrets.key.first_chunk().and_then(cmac::Key::new) else { return };
    let (start, rest) = secrets.body[..length].split_at(length / 7);
    secrets.outcome = key.mac(&[start, rest]);
}

/// Sixteen messages of different lengths behind heads of the same: whole blocks of every hash.
fn messages(body: &[u8; MAX_LENGTH + TAG_LENGTH], length: usize) -> [[&[u8]; 2]; 16] {
    let head = length / 128 * 64;
    std::array::from_fn(|number| [&body[..head], &body[head..][..(length - head) * (number + 16) / 32]])
}

/// The CMACs of the messages, each under a sample as its key.
fn cmacs(secrets: &mut Secrets, length: usize) {
    let keys = secrets.samples.each_ref().map(cmac::Key::new);
    let messages = messages(&secrets.body, length);
    let jobs = keys.iter().flatten().zip(&messages).enumerate();
    cmac::mac_many(jobs.map(|(number, (key, message))| (number, key, &message[..])), |_, mac| {
        secrets.outcome = *mac;
    });
}

/// HMAC by one hash, of one message and of sixteen. The chaining values behind the keys are as secret as these.
macro_rules! hmac {
    ($hash:ident, $words:literal: $one:ident, $many:ident) => {
        fn $one(secrets: &mut Secrets, length: usize) {
            let Some(sha) = ShaInstructions::detect() else { return };
            let word = u32::from_le_bytes(*secrets.key.first_chunk().expect("4 of 32 octets"));
            let [inner, outer] = [[word; $words], [!word; $words]];
            let (start, rest) = secrets.body[..length].split_at(length / 7);
            let mac = $hash::hmac(sha, [&inner, &outer], &[start, rest]);
            secrets.outcome.copy_from_slice(&mac[..16]);
        }

        fn $many(secrets: &mut Secrets, length: usize) {
            let words = secrets.samples.map(|sample| {
                sample.as_chunks().0.iter().fold(0, |all, word| all ^ u32::from_le_bytes(*word))
            });
            let values = words.map(|word| [[word; $words], [!word; $words]]);
            let messages = messages(&secrets.body, length);
            let jobs = values.iter().zip(&messages).enumerate();
            $hash::hmac_many(
                jobs.map(|(number, (values, message))| (number, values.each_ref(), &message[..])),
                |_, mac| secrets.outcome.copy_from_slice(&mac[..16]),
            );
        }
    };
}

hmac!(sha1, 5: hmac_sha1, hmac_sha1_many);
hmac!(sha256, 8: hmac_sha256, hmac_sha256_many);
