//! The border between C and Rust: pointers become references and slices, handles are checked, panics become a status.
//!
//! Every exported function is one call of [`make`], [`with`], [`read`], [`end`] or [`guarded`], with a closure that does the work.
//!
//! What C promises about each pointer that is not null, and what nothing here can check (the top of the header says it to C): it points to
//! as many octets as its length says, which nobody else changes during the call, nor reads if the function writes them; a pointer to a
//! struct is aligned for it; a handle's memory is readable.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use zeroize::Zeroize;

use crate::status::wireseal_status as Status;

/// Nobody is in the handle.
const FREE: u8 = 0;
/// A call is in the handle.
const BUSY: u8 = 1;
/// A call has panicked: nobody knows what the value is worth.
const BROKEN: u8 = 2;

/// A value of Rust in memory of C, with what tells it from other memory.
#[repr(C)]
pub(crate) struct Handle<T> {
    /// The kind of the handle and its address, combined; zero when it has ended.
    tag: AtomicUsize,
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// A type that C knows by name only.
///
/// # Safety
/// The type is a `#[repr(transparent)]` struct around a [`Handle`] of `Value`, and `KIND` differs from that of all others.
pub(crate) unsafe trait Opaque: Sized {
    /// What is in the handle.
    type Value;
    /// Tells the kinds of handles apart.
    const KIND: usize;

    /// What the tag of a handle at this address is. Multiplied, so that neither zeros nor text nor a moved handle look like one.
    fn tag(address: *const Self) -> usize {
        // Odd, so that no two addresses give the same.
        const FACTOR: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize;
        (address.addr() ^ (Self::KIND << (usize::BITS - 8))).wrapping_mul(FACTOR) | 1
    }
}

/// Runs a call; a panic becomes [`Status::Internal`].
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), Status>) -> Status {
    caught(call).unwrap_or(Status::Internal)
}

/// Runs a call; `None` if it panicked.
fn caught(call: impl FnOnce() -> Result<(), Status>) -> Option<Status> {
    let call = || call().err().unwrap_or(Status::Ok);
    #[cfg(feature = "std")]
    return std::panic::catch_unwind(core::panic::AssertUnwindSafe(call)).ok();
    #[cfg(not(feature = "std"))]
    return Some(call());
}

/// Makes a handle in `size` octets of C's memory, and writes its address to `out`; null, on any error.
///
/// # Safety
/// What C promises: `memory` points to `size` octets that can be written, `out` to a pointer.
pub(crate) unsafe fn make<H: Opaque>(
    memory: *mut c_void,
    size: usize,
    out: *mut *mut H,
    value: impl FnOnce() -> Result<H::Value, Status>,
) -> Status {
    guarded(|| {
        // SAFETY: the caller's promise.
        let mut out = unsafe { place(out)? };
        out.write(core::ptr::null_mut());
        let handle: *mut H = memory.cast();
        if handle.is_null() {
            return Err(Status::NullPointer);
        }
        if size < size_of::<H>() {
            return Err(Status::TooSmall);
        }
        if !handle.is_aligned() {
            return Err(Status::Misaligned);
        }
        let value = value()?;
        let of = Handle {
            tag: AtomicUsize::new(H::tag(handle)),
            state: AtomicU8::new(FREE),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        };
        // SAFETY: aligned, and as large as an `H`, which is a `Handle` and nothing else (`Opaque`).
        unsafe { handle.cast::<Handle<H::Value>>().write(of) };
        out.write(handle);
        Ok(())
    })
}

/// The head of a handle, if it is one.
///
/// # Safety
/// What C promises: a pointer that is not null points to the memory of a handle that was once made, moved or ended.
unsafe fn checked<'a, H: Opaque>(handle: *const H) -> Result<&'a Handle<H::Value>, Status> {
    if handle.is_null() {
        return Err(Status::NullPointer);
    }
    if !handle.is_aligned() {
        return Err(Status::NotAHandle);
    }
    // SAFETY: aligned, and readable by the caller's promise. Any octets are a `Handle`: two atomics, and a cell that may be uninitialised.
    let of = unsafe { &*handle.cast::<Handle<H::Value>>() };
    let is_one = of.tag.load(Ordering::Acquire) == H::tag(handle);
    if is_one { Ok(of) } else { Err(Status::NotAHandle) }
}

/// Enters a handle, in which nobody else may be.
fn enter<T>(of: &Handle<T>) -> Result<(), Status> {
    #[cfg(target_has_atomic = "8")]
    let entered = of.state.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed);
    // On one processor without atomic exchange, such as a Cortex-M0: only a callback, or an interrupt, can find the handle busy.
    #[cfg(not(target_has_atomic = "8"))]
    let entered = match of.state.load(Ordering::Acquire) {
        FREE => {
            of.state.store(BUSY, Ordering::Relaxed);
            Ok(FREE)
        }
        found => Err(found),
    };
    match entered {
        Ok(_) => Ok(()),
        Err(BROKEN) => Err(Status::Internal),
        Err(_) => Err(Status::Busy),
    }
}

/// Works with what is in a handle, alone.
///
/// # Safety
/// As for [`checked`].
pub(crate) unsafe fn with<H: Opaque>(
    handle: *mut H,
    call: impl FnOnce(&mut H::Value) -> Result<(), Status>,
) -> Status {
    // SAFETY: the caller's promise.
    let of = match unsafe { checked(handle) }.and_then(|of| enter(of).map(|()| of)) {
        Ok(of) => of,
        Err(status) => return status,
    };
    // SAFETY: the tag says that the value was written, and `enter` that nobody else has a reference to it until the state is free again.
    let status = caught(|| call(unsafe { (*of.value.get()).assume_init_mut() }));
    of.state.store(if status.is_some() { FREE } else { BROKEN }, Ordering::Release);
    status.unwrap_or(Status::Internal)
}

/// Reads what is in a handle, of a kind that is only ever [read](read) until its [end](end): from any number of threads.
///
/// # Safety
/// As for [`checked`]; and nobody ends the handle meanwhile.
pub(crate) unsafe fn read<H: Opaque>(
    handle: *const H,
    call: impl FnOnce(&H::Value) -> Result<(), Status>,
) -> Status
where
    H::Value: Sync,
{
    // SAFETY: the caller's promise.
    let of = match unsafe { checked(handle) } {
        Ok(of) => of,
        Err(status) => return status,
    };
    // SAFETY: the tag says that the value was written, and nobody has a mutable reference to it: no function of this kind calls `with`.
    guarded(|| call(unsafe { (*of.value.get()).assume_init_ref() }))
}

/// Ends a handle: drops its value, which wipes secrets, and sets its memory to zeros.
///
/// # Safety
/// As for [`checked`].
pub(crate) unsafe fn end<H: Opaque>(handle: *mut H) -> Status {
    // SAFETY: the caller's promise.
    let of = match unsafe { checked(handle) } {
        Ok(of) => of,
        Err(status) => return status,
    };
    match enter(of) {
        Ok(()) => {}
        // Its value is not dropped, because that might panic again; it is wiped all the same.
        Err(Status::Internal) => {
            of.tag.store(0, Ordering::Release);
            // SAFETY: as below.
            unsafe { wipe(handle) };
            return Status::Ok;
        }
        Err(status) => return status,
    }
    of.tag.store(0, Ordering::Release);
    // SAFETY: the tag said that the value was written, and `enter` that nobody else uses it. It is not used again: the tag is gone.
    let status = caught(|| {
        unsafe { (*of.value.get()).assume_init_drop() };
        Ok(())
    });
    // SAFETY: the memory was made by `make`, so it has the size of an `H`; nobody uses it as a value of Rust any more.
    unsafe { wipe(handle) };
    status.unwrap_or(Status::Internal)
}

/// Sets the memory of a handle to zeros.
///
/// # Safety
/// It is an `H` that nobody uses any more.
unsafe fn wipe<H>(handle: *mut H) {
    // SAFETY: as many octets as an `H` has, which may be written as such; `MaybeUninit` takes any.
    let octets = unsafe { core::slice::from_raw_parts_mut(handle.cast::<MaybeUninit<u8>>(), size_of::<H>()) };
    octets.zeroize();
}

/// The octets at `start`, which C gives for this call.
///
/// # Safety
/// What C promises: a pointer that is not null points to `length` octets that are not written during the call.
pub(crate) unsafe fn octets<'a>(start: *const u8, length: usize) -> Result<&'a [u8], Status> {
    // SAFETY: the caller's promise; any octet is a `u8`.
    unsafe { items(start, length) }
}

/// The structs at `start`, which C gives for this call.
///
/// # Safety
/// As for [`octets`], and any octets are a `T`: integers, pointers and structs of these.
pub(crate) unsafe fn items<'a, T>(start: *const T, length: usize) -> Result<&'a [T], Status> {
    check(start, length)?;
    // SAFETY: not null, aligned and not too long, or empty; the rest is the caller's promise.
    Ok(if length == 0 { &[] } else { unsafe { core::slice::from_raw_parts(start, length) } })
}

/// The octets at `start`, which the call may change.
///
/// # Safety
/// What C promises: a pointer that is not null points to `length` octets that nobody else uses during the call.
pub(crate) unsafe fn octets_mut<'a>(start: *mut u8, length: usize) -> Result<&'a mut [u8], Status> {
    check(start, length)?;
    // SAFETY: not null, aligned and not too long, or empty; the rest is the caller's promise.
    Ok(if length == 0 { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(start, length) } })
}

fn check<T>(start: *const T, length: usize) -> Result<(), Status> {
    if length == 0 {
        return Ok(());
    }
    if start.is_null() {
        return Err(Status::NullPointer);
    }
    if !start.is_aligned() {
        return Err(Status::Misaligned);
    }
    // RFC-sized buffers are far below; what is above is a length that went below zero.
    let fits = length.checked_mul(size_of::<T>()).is_some_and(|octets| isize::try_from(octets).is_ok());
    if fits { Ok(()) } else { Err(Status::TooLong) }
}

/// A struct that C gives for this call.
///
/// # Safety
/// As for [`items`].
pub(crate) unsafe fn given<'a, T>(it: *const T) -> Result<&'a T, Status> {
    // SAFETY: the caller's promise.
    unsafe { items(it, 1) }.map(|items| &items[0])
}

/// Where a result goes.
pub(crate) struct Place<'a, T>(&'a mut MaybeUninit<T>);

impl<T> Place<'_, T> {
    /// Writes the result.
    pub(crate) fn write(&mut self, value: T) {
        self.0.write(value);
    }
}

/// A place for a result. It need not be initialised, and is written only by [`Place::write`].
///
/// # Safety
/// What C promises: a pointer that is not null points to memory for a `T` that nobody else uses during the call.
pub(crate) unsafe fn place<'a, T>(out: *mut T) -> Result<Place<'a, T>, Status> {
    check(out, 1)?;
    // SAFETY: not null, aligned; the rest is the caller's promise, and `MaybeUninit` takes any octets.
    Ok(Place(unsafe { &mut *out.cast::<MaybeUninit<T>>() }))
}

/// A place for a result that C may do without.
///
/// # Safety
/// As for [`place`].
#[allow(dead_code, reason = "for functions with results that may be left out")]
pub(crate) unsafe fn place_if_wanted<'a, T>(out: *mut T) -> Result<Option<Place<'a, T>>, Status> {
    // SAFETY: the caller's promise.
    if out.is_null() { Ok(None) } else { unsafe { place(out) }.map(Some) }
}
