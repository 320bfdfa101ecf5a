//! Asking for memory before it is needed.

/// Octets of a cache line on the processors that have a path below.
const LINE: usize = 64;

/// Asks the processor to bring the first octets of a value, at most all, into its nearest cache while the caller does something else.
/// Only time changes.
///
/// For what is certainly needed soon and probably far away, such as one of 100,000 connections. Each 64 octets cost an instruction.
/// Processors other than x86-64 and AArch64 ignore it.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T, octets: usize) {
    let start = core::ptr::from_ref(value).cast::<u8>();
    for offset in (0..octets.min(size_of_val(value))).step_by(LINE) {
        prefetch_line(start.wrapping_add(offset));
    }
}

#[inline(always)]
fn prefetch_line(octet: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of x86-64, and a hint: it reads nothing that a program could see, and never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(octet.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the same of AArch64's. It changes no register and no flag.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) octet, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = octet;
}
