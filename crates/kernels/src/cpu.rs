//! The processor's instructions: detected once, proven by tokens.
//!
//! A token has no size and exists only if the processor has its instructions, so a routine that takes one needs no other check. Detection
//! also checks that the operating system saves the wider registers.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// A group of instructions that routines are written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum InstructionSet {
    /// AES-NI and PCLMULQDQ, one block at a time (x86-64).
    AesNi,
    /// The same in AVX's encoding, with three operands instead of two (x86-64).
    AesNiAvx,
    /// AES and carry-less multiplication on two blocks at a time: VAES and VPCLMULQDQ with AVX2 (x86-64).
    Vaes256,
    /// AES and carry-less multiplication on four blocks at a time: VAES and VPCLMULQDQ with AVX-512 F, BW, DQ and VL
    /// (x86-64).
    Vaes512,
    /// SHA-1 and SHA-256 (x86-64).
    ShaNi,
    /// The same, with instructions in AVX's encoding (x86-64).
    ShaNiAvx,
    /// Integer vectors of 32 octets (x86-64).
    Avx2,
    /// Rotations and bit manipulation without flags, beside integer vectors: BMI1 and BMI2 with AVX2 (x86-64).
    Bmi2,
    /// Integer vectors of 64 octets: AVX-512 F, BW, DQ and VL (x86-64).
    Avx512,
    /// Multiplication of 52-bit limbs in vectors of 64 octets: AVX-512 with IFMA (x86-64).
    Avx512Ifma,
    /// AES and PMULL (AArch64).
    Aarch64Aes,
    /// SHA-1 and SHA-256 (AArch64).
    Aarch64Sha,
}

impl InstructionSet {
    /// Every set, available or not.
    pub const ALL: [Self; 12] = [
        Self::AesNi,
        Self::AesNiAvx,
        Self::Vaes256,
        Self::Vaes512,
        Self::ShaNi,
        Self::ShaNiAvx,
        Self::Avx2,
        Self::Bmi2,
        Self::Avx512,
        Self::Avx512Ifma,
        Self::Aarch64Aes,
        Self::Aarch64Sha,
    ];

    /// The vendors' name for the set.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AesNi => "AES-NI",
            Self::AesNiAvx => "AES-NI with AVX",
            Self::Vaes256 => "VAES-256",
            Self::Vaes512 => "VAES-512",
            Self::ShaNi => "SHA-NI",
            Self::ShaNiAvx => "SHA-NI with AVX",
            Self::Avx2 => "AVX2",
            Self::Bmi2 => "BMI2",
            Self::Avx512 => "AVX-512",
            Self::Avx512Ifma => "AVX-512 IFMA",
            Self::Aarch64Aes => "ARMv8 AES",
            Self::Aarch64Sha => "ARMv8 SHA",
        }
    }

    /// Whether the processor and the operating system support it, and it is not turned off.
    #[inline]
    #[must_use]
    pub fn is_available(self) -> bool {
        available() & self.bit() != 0
    }

    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Set when the other bits are valid.
const DETECTED: u32 = 1 << 31;

/// Set on those of AMD's Zen 5 whose vectors of 64 octets are not split.
const ZEN_5: u32 = 1 << 30;

/// A bit for each path. Threads that detect at the same time store the same value.
static AVAILABLE: AtomicU32 = AtomicU32::new(0);

#[inline]
fn available() -> u32 {
    let known = AVAILABLE.load(Ordering::Relaxed);
    if known != 0 { known } else { detect_all() }
}

#[cold]
fn detect_all() -> u32 {
    let found = InstructionSet::ALL
        .into_iter()
        .filter(|path| detect::has(*path))
        .fold(DETECTED | if detect::is_zen_5() { ZEN_5 } else { 0 }, |all, path| all | path.bit());
    AVAILABLE.store(found, Ordering::Relaxed);
    found
}

/// Whether this is a server's or a desktop's Zen 5. Vectors of 64 octets take no longer than shorter ones there, but two messages of SHA-256 by SHA-NI
/// take longer than on a Zen 4: 174 cycles for a block of each instead of 134.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn is_zen_5() -> bool {
    available() & ZEN_5 != 0
}

/// Turns paths off for the whole process, for tests and benchmarks. Existing keys keep their path; new ones get the path that a processor
/// without these would give them.
#[cfg(feature = "switch")]
pub mod switch {
    use super::{AVAILABLE, DETECTED, InstructionSet, Ordering, ZEN_5, detect, detect_all};

    /// Turns on those of `paths` that the processor has, and turns off all others.
    pub fn only(paths: &[InstructionSet]) {
        let wanted = paths.iter().fold(DETECTED | ZEN_5, |all, path| all | path.bit());
        AVAILABLE.store(detect_all() & wanted, Ordering::Relaxed);
    }

    /// Turns on `path` and the sets that it includes, where the processor has them, and turns off all others.
    pub fn up_to(path: InstructionSet) {
        let included = |other: &InstructionSet| detect::includes(path, *other);
        let wanted = InstructionSet::ALL.iter().filter(|other| included(other));
        let wanted = wanted.fold(DETECTED | ZEN_5, |all, path| all | path.bit());
        AVAILABLE.store(detect_all() & wanted, Ordering::Relaxed);
    }

    /// Turns everything on again.
    pub fn all() {
        detect_all();
    }
}

/// Defines tokens. Some imply another token.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! tokens {
    ($($(#[$attribute:meta])* $name:ident $(=> $other:ident)?;)*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(());

        impl $name {
            /// The token, if the path [is available](InstructionSet::is_available).
            #[inline]
            pub(crate) fn detect() -> Option<Self> {
                InstructionSet::$name.is_available().then_some(Self(()))
            }

            /// The token, without a check.
            ///
            /// # Safety
            /// The processor has the path's instructions.
            #[allow(dead_code, reason = "not every path needs it")]
            pub(crate) const unsafe fn proven() -> Self {
                Self(())
            }
        }

        $(impl From<$name> for $other {
            #[inline]
            fn from($name(()): $name) -> Self {
                Self(())
            }
        })?
    )*};
}

#[cfg(target_arch = "x86_64")]
tokens! {
    /// Proof of [`InstructionSet::AesNi`]: the target features `aes`, `pclmulqdq`, `sse4.1` and `ssse3`.
    AesNi;
    /// Proof of [`InstructionSet::AesNiAvx`]: the target features of [`AesNi`] and `avx`.
    AesNiAvx => AesNi;
    /// Proof of [`InstructionSet::Vaes256`]: the target features of [`AesNi`], `avx2`, `vaes` and `vpclmulqdq`.
    Vaes256 => AesNi;
    /// Proof of [`InstructionSet::Vaes512`]: the target features of [`Vaes256`], `avx512f`, `avx512bw`, `avx512dq` and `avx512vl`.
    Vaes512 => AesNi;
    /// Proof of [`InstructionSet::ShaNi`]: the target features `sha`, `sse4.1` and `ssse3`.
    ShaNi;
    /// Proof of [`InstructionSet::ShaNiAvx`]: the target features of [`ShaNi`] and `avx`.
    ShaNiAvx => ShaNi;
    /// Proof of [`InstructionSet::Avx2`]: the target feature `avx2`.
    Avx2;
    /// Proof of [`InstructionSet::Bmi2`]: the target features `avx2`, `bmi1` and `bmi2`.
    Bmi2;
    /// Proof of [`InstructionSet::Avx512`]: the target features `avx2`, `avx512f`, `avx512bw`, `avx512dq` and `avx512vl`.
    Avx512 => Avx2;
    /// Proof of [`InstructionSet::Avx512Ifma`]: the target features of [`Avx512`] and `avx512ifma`.
    Avx512Ifma => Avx512;
}

#[cfg(target_arch = "aarch64")]
tokens! {
    /// Proof of [`InstructionSet::Aarch64Aes`]: the target features `neon` and `aes`.
    Aarch64Aes;
    /// Proof of [`InstructionSet::Aarch64Sha`]: the target features `neon` and `sha2`.
    Aarch64Sha;
}

#[cfg(target_arch = "x86_64")]
mod detect {
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    use super::InstructionSet;

    /// Bits of CPUID leaf 1, register ECX (Intel's manual, volume 2, "CPUID").
    mod basic {
        pub(super) const PCLMULQDQ: u32 = 1 << 1;
        pub(super) const SSSE3: u32 = 1 << 9;
        pub(super) const SSE41: u32 = 1 << 19;
        pub(super) const AES: u32 = 1 << 25;
        pub(super) const OSXSAVE: u32 = 1 << 27;
        pub(super) const AVX: u32 = 1 << 28;
    }

    /// Bits of CPUID leaf 7, subleaf 0: EBX in the lower half, ECX in the upper one.
    mod extended {
        pub(super) const BMI1: u64 = 1 << 3;
        pub(super) const AVX2: u64 = 1 << 5;
        pub(super) const BMI2: u64 = 1 << 8;
        pub(super) const AVX512F: u64 = 1 << 16;
        pub(super) const AVX512DQ: u64 = 1 << 17;
        pub(super) const AVX512IFMA: u64 = 1 << 21;
        pub(super) const SHA: u64 = 1 << 29;
        pub(super) const AVX512BW: u64 = 1 << 30;
        pub(super) const AVX512VL: u64 = 1 << 31;
        pub(super) const VAES: u64 = 1 << (32 + 9);
        pub(super) const VPCLMULQDQ: u64 = 1 << (32 + 10);
    }

    /// Bits of XCR0: the registers that the operating system saves (Intel's manual, volume 1, 13.3).
    mod saved {
        pub(super) const YMM: u64 = 0b110;
        pub(super) const ZMM: u64 = 0b1110_0110;
    }

    /// A processor's CPUID and XCR0 bits, or those that a path needs.
    struct Processor {
        basic: u32,
        extended: u64,
        saved: u64,
    }

    pub(super) fn has(path: InstructionSet) -> bool {
        Processor::this().has(path)
    }

    /// Whether this is a server's or a desktop's Zen 5: [`is_whole_zen_5`].
    pub(super) fn is_zen_5() -> bool {
        #[allow(unused_unsafe, reason = "before Rust 1.94 they are unsafe to call")]
        // SAFETY: every x86-64 processor has CPUID.
        let (maker, version) = unsafe { (__cpuid(0), __cpuid(1).eax) };
        is_whole_zen_5([maker.ebx, maker.edx, maker.ecx], version)
    }

    /// AMD's family 1Ah, models 00h to 1Fh (EPYC 9005) and 40h to 4Fh (Ryzen 9000), by the answers of CPUID's functions 0 and 1 (AMD's manual,
    /// volume 3, appendix E). Mobile ones of the family split vectors of 64 octets.
    pub(super) fn is_whole_zen_5(maker: [u32; 3], version: u32) -> bool {
        let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
        let model = version >> 4 & 0xf | version >> 12 & 0xf0;
        maker.map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
            && family == 0x1a
            && matches!(model, 0x00..=0x1f | 0x40..=0x4f)
    }

    /// Whether every processor with one path has the other.
    #[cfg(feature = "switch")]
    pub(super) fn includes(path: InstructionSet, other: InstructionSet) -> bool {
        Processor::with(path).is_some_and(|processor| processor.has(other))
    }

    impl Processor {
        fn this() -> Self {
            #[allow(unused_unsafe, reason = "before Rust 1.94 they are unsafe to call")]
            // SAFETY: every x86-64 processor has CPUID, and leaf 7 is read only if there is one.
            let (basic, extended) = unsafe {
                let extended = if __cpuid(0).eax >= 7 {
                    let leaf = __cpuid_count(7, 0);
                    u64::from(leaf.ebx) | u64::from(leaf.ecx) << 32
                } else {
                    0
                };
                (__cpuid(1).ecx, extended)
            };
            // SAFETY: OSXSAVE says that the operating system has turned on XGETBV.
            let saved = if basic & basic::OSXSAVE != 0 { unsafe { _xgetbv(0) } } else { 0 };
            Self { basic, extended, saved }
        }

        /// The bits that a path needs; `None` for paths of other architectures.
        fn with(path: InstructionSet) -> Option<Self> {
            let sse = basic::SSSE3 | basic::SSE41;
            let aes = basic::AES | basic::PCLMULQDQ | sse;
            let avx512 = extended::AVX2
                | extended::AVX512F
                | extended::AVX512BW
                | extended::AVX512DQ
                | extended::AVX512VL;
            let vaes = extended::AVX2 | extended::VAES | extended::VPCLMULQDQ;
            let bmi2 = extended::AVX2 | extended::BMI1 | extended::BMI2;
            let ifma = avx512 | extended::AVX512IFMA;
            let (basic, extended, saved) = match path {
                InstructionSet::AesNi => (aes, 0, 0),
                InstructionSet::AesNiAvx => (aes | basic::AVX, 0, saved::YMM),
                InstructionSet::Vaes256 => (aes | basic::AVX, vaes, saved::YMM),
                InstructionSet::Vaes512 => (aes | basic::AVX, vaes | avx512, saved::ZMM),
                InstructionSet::ShaNi => (sse, extended::SHA, 0),
                InstructionSet::ShaNiAvx => (sse | basic::AVX, extended::SHA, saved::YMM),
                InstructionSet::Avx2 => (basic::AVX, extended::AVX2, saved::YMM),
                InstructionSet::Bmi2 => (basic::AVX, bmi2, saved::YMM),
                InstructionSet::Avx512 => (basic::AVX, avx512, saved::ZMM),
                InstructionSet::Avx512Ifma => (basic::AVX, ifma, saved::ZMM),
                InstructionSet::Aarch64Aes | InstructionSet::Aarch64Sha => return None,
            };
            Some(Self { basic, extended, saved })
        }

        fn has(&self, path: InstructionSet) -> bool {
            Self::with(path).is_some_and(|needed| {
                self.basic & needed.basic == needed.basic
                    && self.extended & needed.extended == needed.extended
                    && self.saved & needed.saved == needed.saved
            })
        }
    }

    #[cfg(test)]
    mod tests {
        use std::vec::Vec;

        use super::*;

        #[test]
        fn a_whole_zen_5_is_told_from_its_relatives() {
            // "Auth", "enti" and "cAMD" in the order of EBX, EDX and ECX; "Genu", "ineI" and "ntel".
            let amd = [*b"Auth", *b"enti", *b"cAMD"].map(u32::from_le_bytes);
            let intel = [*b"Genu", *b"ineI", *b"ntel"].map(u32::from_le_bytes);
            for (name, maker, version, expected) in [
                ("EPYC 9005", amd, 0x00b0_0f21, true),
                ("EPYC 9005, dense", amd, 0x00b1_0f10, true),
                ("Ryzen 9000", amd, 0x00b4_0f40, true),
                ("Ryzen AI 300", amd, 0x00b2_0f40, false),
                ("EPYC 9004, Zen 4", amd, 0x00a1_0f11, false),
                ("EPYC 7003, Zen 3", amd, 0x00a0_0f11, false),
                ("the same number from Intel", intel, 0x00b0_0f21, false),
            ] {
                assert_eq!(is_whole_zen_5(maker, version), expected, "{name}");
            }
        }

        #[test]
        fn a_processor_gets_the_paths_that_it_and_its_operating_system_have() {
            let nehalem = basic::SSSE3 | basic::SSE41;
            let westmere = nehalem | basic::AES | basic::PCLMULQDQ;
            let haswell = westmere | basic::OSXSAVE | basic::AVX;
            let avx2_bmi2 = extended::AVX2 | extended::BMI1 | extended::BMI2;
            let zen = avx2_bmi2 | extended::SHA;
            let zen_3 = zen | extended::VAES | extended::VPCLMULQDQ;
            let skylake =
                avx2_bmi2 | extended::AVX512F | extended::AVX512BW | extended::AVX512DQ | extended::AVX512VL;
            let ice_lake = zen_3 | skylake | extended::AVX512IFMA;
            let (aes_ni, avx) = (InstructionSet::AesNi, InstructionSet::AesNiAvx);
            let (sha_ni, sha_avx) = (InstructionSet::ShaNi, InstructionSet::ShaNiAvx);
            let (avx2, bmi2, avx512) = (InstructionSet::Avx2, InstructionSet::Bmi2, InstructionSet::Avx512);
            let without_avx512: &[InstructionSet] =
                &[aes_ni, avx, InstructionSet::Vaes256, sha_ni, sha_avx, avx2, bmi2];
            let rows: [(&str, u32, u64, u64, &[InstructionSet]); 13] = [
                ("Core 2", basic::SSSE3, 0, 0, &[]),
                ("Nehalem", nehalem, 0, 0, &[]),
                ("Westmere", westmere, 0, 0, &[aes_ni]),
                ("Sandy Bridge", haswell, 0, saved::YMM, &[aes_ni, avx]),
                ("Haswell", haswell, avx2_bmi2, saved::YMM, &[aes_ni, avx, avx2, bmi2]),
                ("AVX2 without BMI2", haswell, extended::AVX2, saved::YMM, &[aes_ni, avx, avx2]),
                ("Zen", haswell, zen, saved::YMM, &[aes_ni, avx, sha_ni, sha_avx, avx2, bmi2]),
                ("Zen 3 and Alder Lake", haswell, zen_3, saved::YMM, without_avx512),
                (
                    "Knights Landing",
                    haswell,
                    avx2_bmi2 | extended::AVX512F,
                    saved::ZMM,
                    &[aes_ni, avx, avx2, bmi2],
                ),
                ("Skylake-X", haswell, skylake, saved::ZMM, &[aes_ni, avx, avx2, bmi2, avx512]),
                ("Ice Lake", haswell, ice_lake, saved::ZMM, &InstructionSet::ALL[..10]),
                ("Ice Lake without ZMM saved", haswell, ice_lake, saved::YMM, without_avx512),
                ("Ice Lake without YMM saved", haswell, ice_lake, 0, &[aes_ni, sha_ni]),
            ];
            for (name, basic, extended, saved, expected) in rows {
                let processor = Processor { basic, extended, saved };
                let found: Vec<_> =
                    InstructionSet::ALL.into_iter().filter(|path| processor.has(*path)).collect();
                assert_eq!(found, expected, "{name}");
            }
        }
    }
}

/// One path needs AES and PMULL, the other SHA-1 and SHA-256. On Linux `cpufeatures` checks HWCAP_AES or HWCAP_PMULL for the first, and
/// only HWCAP_SHA2 for the second, but no known processor has just one of a pair. Only an operating system may read the registers; without
/// one, the compiler's target decides.
#[cfg(target_arch = "aarch64")]
mod detect {
    use super::InstructionSet;

    cpufeatures::new!(aes, "aes");
    cpufeatures::new!(sha, "sha2");

    pub(super) fn has(path: InstructionSet) -> bool {
        match path {
            InstructionSet::Aarch64Aes => aes::get(),
            InstructionSet::Aarch64Sha => sha::get(),
            _ => false,
        }
    }

    pub(super) const fn is_zen_5() -> bool {
        false
    }

    #[cfg(feature = "switch")]
    pub(super) fn includes(path: InstructionSet, other: InstructionSet) -> bool {
        path == other
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod detect {
    pub(super) const fn has(_: super::InstructionSet) -> bool {
        false
    }

    pub(super) const fn is_zen_5() -> bool {
        false
    }

    #[cfg(feature = "switch")]
    pub(super) const fn includes(_: super::InstructionSet, _: super::InstructionSet) -> bool {
        false
    }
}

/// Prefetches the first `octets` of a value, or all of it if it is smaller, into the nearest cache.
///
/// Use it for data that will certainly be needed soon and is probably not cached, such as one of 100,000 connections. Each 64 octets cost
/// an instruction. It does nothing on processors other than x86-64 and AArch64.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T, octets: usize) {
    let start = core::ptr::from_ref(value).cast::<u8>();
    // One instruction for each cache line of 64 octets, as on the processors below.
    for offset in (0..octets.min(size_of_val(value))).step_by(64) {
        prefetch_line(start.wrapping_add(offset));
    }
}

#[inline]
fn prefetch_line(octet: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of x86-64, and a hint: it reads nothing visible to the program, and never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(octet.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction is part of AArch64, and a hint that never faults. It changes no register and no flag.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) octet, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = octet;
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    /// Whether the standard library detects the path.
    #[cfg(target_arch = "x86_64")]
    fn by_std(path: InstructionSet) -> bool {
        macro_rules! all {
            ($($feature:tt),*) => { $(std::is_x86_feature_detected!($feature))&&* };
        }
        match path {
            InstructionSet::AesNi => all!("aes", "pclmulqdq", "sse4.1", "ssse3"),
            InstructionSet::AesNiAvx => all!("aes", "pclmulqdq", "avx"),
            InstructionSet::Vaes256 => all!("aes", "pclmulqdq", "avx2", "vaes", "vpclmulqdq"),
            InstructionSet::Vaes512 => {
                all!("aes", "avx512f", "avx512bw", "avx512dq", "avx512vl", "vaes", "vpclmulqdq")
            }
            InstructionSet::ShaNi => all!("sha", "sse4.1", "ssse3"),
            InstructionSet::ShaNiAvx => all!("sha", "avx"),
            InstructionSet::Avx2 => all!("avx2"),
            InstructionSet::Bmi2 => all!("avx2", "bmi1", "bmi2"),
            InstructionSet::Avx512 => all!("avx512f", "avx512bw", "avx512dq", "avx512vl"),
            InstructionSet::Avx512Ifma => all!("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512ifma"),
            InstructionSet::Aarch64Aes | InstructionSet::Aarch64Sha => false,
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn by_std(path: InstructionSet) -> bool {
        match path {
            InstructionSet::Aarch64Aes => std::arch::is_aarch64_feature_detected!("aes"),
            InstructionSet::Aarch64Sha => std::arch::is_aarch64_feature_detected!("sha2"),
            _ => false,
        }
    }

    #[test]
    fn detection_agrees_with_the_standard_library() {
        for path in InstructionSet::ALL {
            assert_eq!(detect::has(path), by_std(path), "{path}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_path_that_is_turned_off_gives_no_token() {
        switch::only(&[InstructionSet::Avx2]);
        assert!(AesNi::detect().is_none() && Vaes512::detect().is_none());
        assert_eq!(Avx2::detect().is_some(), by_std(InstructionSet::Avx2));
        switch::all();
        assert_eq!(AesNi::detect().is_some(), by_std(InstructionSet::AesNi));
    }
}
