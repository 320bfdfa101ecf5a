//! The routines with their secrets, and twins that depend on a secret on purpose.

use std::fmt;
use std::hint::black_box;

use wireseal_kernels::aes::AesMaskKey;
use wireseal_kernels::chacha20::ChaCha20MaskKey;
use wireseal_kernels::chacha20_poly1305::ChaCha20Poly1305Key;
use wireseal_kernels::cpu::{InstructionSet, switch};
use wireseal_kernels::gcm::{GcmKey, TAG_LENGTH};
use wireseal_kernels::hmac::ShaInstructions;
use wireseal_kernels::{cmac, poly1305, sha1, sha256};

/// The length of the longest text in octets.
pub const MAX_LENGTH: usize = 1200;

/// A key, a text with room for a tag, and samples: all secret to the measurement.
#[derive(Clone)]
pub struct Secrets {
    pub key: [u8; 32],
    pub body: [u8; MAX_LENGTH + TAG_LENGTH],
    pub samples: [[u8; 16]; 16],
    /// The routine's result, public before it runs.
    pub outcome: [u8; 16],
    /// Where the samples of header masks start, in a text that is long enough. Public.
    pub sample_starts: &'static [usize],
}

impl Secrets {
    pub const fn new(sample_starts: &'static [usize]) -> Self {
        Self {
            key: [0; 32],
            body: [0; MAX_LENGTH + TAG_LENGTH],
            samples: [[0; 16]; 16],
            outcome: [0; 16],
            sample_starts,
        }
    }

    /// Fills every part that is secret from the start.
    pub fn fill(&mut self, mut fill: impl FnMut(&mut [u8])) {
        fill(&mut self.key);
        fill(&mut self.body);
        fill(self.samples.as_flattened_mut());
    }
}

/// One routine on one path.
pub struct Routine {
    pub name: &'static str,
    /// The highest path that is on; `None` for the instructions that every processor of this architecture has.
    pub path: Option<InstructionSet>,
    /// The number of branches on a verdict in one run: the caller is told in the end whether a packet is authentic.
    pub verdicts: usize,
    /// Runs it with a text of this many octets.
    pub run: fn(&mut Secrets, usize),
}

impl Routine {
    /// Turns on the routine's path and nothing above it. `false`, with everything on, if the processor does not have it.
    pub fn select(&self) -> bool {
        switch::all();
        match self.path {
            None => switch::only(&[]),
            Some(path) if path.is_available() => switch::up_to(path),
            Some(_) => return false,
        }
        true
    }
}

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.map_or("any processor", InstructionSet::name);
        f.pad(&format!("{} ({path})", self.name))
    }
}

type Run = fn(&mut Secrets, usize);

/// Every routine on each of its paths on this architecture.
pub fn routines() -> Vec<Routine> {
    const ANY: [Option<InstructionSet>; 1] = [None];
    const AES: [Option<InstructionSet>; 5] = [
        Some(InstructionSet::AesNi),
        Some(InstructionSet::AesNiAvx),
        Some(InstructionSet::Vaes256),
        Some(InstructionSet::Vaes512),
        Some(InstructionSet::Aarch64Aes),
    ];
    const MASKS: [Option<InstructionSet>; 3] =
        [None, Some(InstructionSet::Avx2), Some(InstructionSet::Avx512)];
    const POLY1305: [Option<InstructionSet>; 3] =
        [None, Some(InstructionSet::Avx2), Some(InstructionSet::Avx512Ifma)];
    const CHACHA20_POLY1305: [Option<InstructionSet>; 2] =
        [Some(InstructionSet::Avx512), Some(InstructionSet::Avx512Ifma)];
    const CMAC: [Option<InstructionSet>; 2] = [Some(InstructionSet::AesNi), Some(InstructionSet::Aarch64Aes)];
    const CMACS: [Option<InstructionSet>; 3] =
        [Some(InstructionSet::AesNi), Some(InstructionSet::Vaes512), Some(InstructionSet::Aarch64Aes)];
    const SHA: [Option<InstructionSet>; 4] = [
        Some(InstructionSet::ShaNi),
        Some(InstructionSet::ShaNiAvx),
        Some(InstructionSet::Bmi2),
        Some(InstructionSet::Aarch64Sha),
    ];
    const SHAS: [Option<InstructionSet>; 4] = [
        Some(InstructionSet::ShaNi),
        Some(InstructionSet::ShaNiAvx),
        Some(InstructionSet::Avx512),
        Some(InstructionSet::Aarch64Sha),
    ];

    let table: [(&'static str, &[Option<InstructionSet>], usize, Run); 20] = [
        ("ChaCha20 mask", &ANY, 0, chacha20_mask),
        ("ChaCha20 masks", &MASKS, 0, chacha20_masks),
        ("Poly1305", &POLY1305, 0, poly1305),
        ("ChaCha20-Poly1305 seal", &CHACHA20_POLY1305, 0, chacha20_poly1305_seal),
        ("ChaCha20-Poly1305 open", &CHACHA20_POLY1305, 1, chacha20_poly1305_open),
        ("ChaCha20-Poly1305 refuse", &CHACHA20_POLY1305, 1, chacha20_poly1305_refuse),
        ("AES-128 mask", &AES, 0, aes_mask::<16>),
        ("AES-256 mask", &AES, 0, aes_mask::<32>),
        ("AES-128-GCM seal", &AES, 0, gcm_seal::<16>),
        ("AES-256-GCM seal", &AES, 0, gcm_seal::<32>),
        ("AES-128-GCM open", &AES, 1, gcm_open::<16>),
        ("AES-256-GCM open", &AES, 1, gcm_open::<32>),
        ("AES-128-GCM refuse", &AES, 1, gcm_refuse::<16>),
        ("AES-256-GCM refuse", &AES, 1, gcm_refuse::<32>),
        ("AES-128-CMAC", &CMAC, 0, cmac),
        ("AES-128-CMAC of 16", &CMACS, 0, cmacs),
        ("HMAC-SHA-1", &SHA, 0, hmac_sha1),
        ("HMAC-SHA-1 of 16", &SHAS, 0, hmac_sha1_many),
        ("HMAC-SHA-256", &SHA, 0, hmac_sha256),
        ("HMAC-SHA-256 of 16", &SHAS, 0, hmac_sha256_many),
    ];
    let is_here = |path: &Option<InstructionSet>| {
        let of_aarch64 = [InstructionSet::Aarch64Aes, InstructionSet::Aarch64Sha];
        path.is_none_or(|path| of_aarch64.contains(&path) == cfg!(target_arch = "aarch64"))
    };
    table
        .into_iter()
        .flat_map(|(name, paths, verdicts, run)| {
            let paths = paths.iter().copied().filter(is_here);
            paths.map(move |path| Routine { name, path, verdicts, run })
        })
        .collect()
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

/// Opens a packet that it has sealed itself.
fn chacha20_poly1305_open(secrets: &mut Secrets, length: usize) {
    let Some(key) = ChaCha20Poly1305Key::new(&secrets.key) else { return };
    let body = &mut secrets.body[..length];
    let tag = key.seal_detached(&[1; 12], &[2; 21], body);
    black_box(key.open_detached(&[1; 12], &[2; 21], body, &tag));
    secrets.outcome = *secrets.body.first_chunk().expect("there is room for a tag at least");
}

/// Opens a forged packet.
fn chacha20_poly1305_refuse(secrets: &mut Secrets, length: usize) {
    let Some(key) = ChaCha20Poly1305Key::new(&secrets.key) else { return };
    secrets.outcome = secrets.samples[0];
    black_box(key.open_detached(&[1; 12], &[2; 21], &mut secrets.body[..length], &secrets.samples[0]));
}

fn aes_mask<const KEY: usize>(secrets: &mut Secrets, _: usize) {
    let Some(key) = AesMaskKey::new(&secrets.key[..KEY]) else { return };
    secrets.outcome = key.mask(&secrets.samples[0]);
}

/// Seals with the header mask from each of the samples, and from the tag after the text.
fn gcm_seal<const KEY: usize>(secrets: &mut Secrets, length: usize) {
    let (Some(key), Some(mask_key)) =
        (GcmKey::new(&secrets.key[..KEY]), AesMaskKey::new(&secrets.key[..KEY]))
    else {
        return;
    };
    let starts = secrets.sample_starts.iter().copied().filter(|start| *start < length);
    for sample in starts.chain([length]) {
        let body = &mut secrets.body[..length + TAG_LENGTH];
        secrets.outcome = key.seal(&[1; 12], &[2; 21], body, Some((&mask_key, sample)));
    }
}

/// Opens a packet that it has sealed itself.
fn gcm_open<const KEY: usize>(secrets: &mut Secrets, length: usize) {
    let Some(key) = GcmKey::new(&secrets.key[..KEY]) else { return };
    let body = &mut secrets.body[..length + TAG_LENGTH];
    key.seal(&[1; 12], &[2; 21], body, None);
    black_box(key.open(&[1; 12], &[2; 21], body));
    secrets.outcome = *secrets.body.first_chunk().expect("there is room for a tag at least");
}

/// Opens a forged packet.
fn gcm_refuse<const KEY: usize>(secrets: &mut Secrets, length: usize) {
    let Some(key) = GcmKey::new(&secrets.key[..KEY]) else { return };
    let body = &mut secrets.body[..length + TAG_LENGTH];
    black_box(key.open(&[1; 12], &[2; 21], body));
    secrets.outcome = *body.last_chunk().expect("there is a tag at least");
}

fn cmac(secrets: &mut Secrets, length: usize) {
    let Some(key) = secrets.key.first_chunk().and_then(cmac::Key::new) else { return };
    let (start, rest) = secrets.body[..length].split_at(length / 7);
    secrets.outcome = key.mac(&[start, rest]);
    let (blocks, _) = start.as_chunks();
    key.absorb(&mut secrets.outcome, blocks);
    secrets.outcome = key.finish(&secrets.outcome, rest);
}

/// Sixteen messages of different lengths, after heads of the same length: whole blocks of every hash.
fn messages(body: &[u8; MAX_LENGTH + TAG_LENGTH], length: usize) -> [[&[u8]; 2]; 16] {
    let head = length / 128 * 64;
    std::array::from_fn(|number| [&body[..head], &body[head..][..(length - head) * (number + 16) / 32]])
}

/// The CMACs of the messages, each with a sample as its key.
fn cmacs(secrets: &mut Secrets, length: usize) {
    let keys = secrets.samples.each_ref().map(cmac::Key::new);
    let messages = messages(&secrets.body, length);
    let jobs = keys.iter().flatten().zip(&messages).enumerate();
    cmac::mac_many(jobs.map(|(number, (key, message))| (number, key, &message[..])), |_, mac| {
        secrets.outcome = *mac;
    });
}

/// HMAC with one hash, of one message and of sixteen. The chaining values after the keys are as secret as the keys.
macro_rules! hmac {
    ($hash:ident, $words:literal: $one:ident, $many:ident) => {
        fn $one(secrets: &mut Secrets, length: usize) {
            let Some(sha) = ShaInstructions::detect() else { return };
            let mut values = [[0; $words]; 2];
            $hash::absorb_key(sha, &mut values, &secrets.key);
            let [inner, outer] = values;
            let (start, rest) = secrets.body[..length].split_at(length / 7);
            let mac = $hash::hmac(sha, [&inner, &outer], &[start, rest]);
            secrets.outcome.copy_from_slice(&mac[..16]);
            let mut value = inner;
            $hash::absorb(sha, &mut value, start.as_chunks().0);
            let mac = $hash::finish(sha, [&value, &outer], 64, rest);
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

/// A routine that depends on a secret on purpose: a method that does not find it does not work.
const fn twin(name: &'static str, run: fn(&mut Secrets, usize)) -> Routine {
    Routine { name, path: None, verdicts: 0, run }
}

/// A branch, which both methods must find.
pub const BRANCH_TWIN: Routine = twin("twin: a branch", branch);
/// An index, which only memcheck must find: a clock does not show it when the table is cached.
pub const INDEX_TWIN: Routine = twin("twin: an index", index);

/// Loops for one value of a bit of the key, and not for the other.
fn branch(secrets: &mut Secrets, _: usize) {
    if black_box(secrets.key[0]) & 1 == 1 {
        for octet in &mut secrets.body[..256] {
            *octet = black_box(octet.wrapping_mul(3));
        }
    }
    secrets.outcome[0] = secrets.key[0];
}

/// Uses octets of the key as indices into a table.
fn index(secrets: &mut Secrets, _: usize) {
    static TABLE: [u8; 256] = [7; 256];
    let mut sum = 0_u8;
    for octet in secrets.key {
        sum ^= black_box(TABLE)[usize::from(octet)];
    }
    secrets.outcome[0] = sum;
}
