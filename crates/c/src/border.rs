//! The border between C and Rust: pointers become references and slices, handles are checked, panics become a status.
//!
//! Every exported function is one call of [`make`], [`with`], [`read`], [`take`], [`end`] or [`guarded`], with a closure that does the work.
//!
//! What C promises about each pointer that is not null, and what nothing here can check (the top of the header says it to C): it points to
//! as many octets as its length says, which nobody else changes during the call, nor reads if the function writes them; a pointer to a
//! struct is aligned for it; a handle's memory is readable.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_void};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use zeroize::Zeroize;

use crate::status::wireseal_status as Status;

/// The handle has ended.
const ENDED: u8 = 0;
/// Nobody is in the handle.
const FREE: u8 = 1;
/// A call is in the handle.
const BUSY: u8 = 2;
/// A call has panicked: nobody knows what the value is worth.
const BROKEN: u8 = 3;

/// An alignment that is enough for every handle, in octets. malloc() usually aligns to 16 only: use
/// aligned_alloc(), or _Alignas for static memory.
pub const WIRESEAL_ALIGN: usize = 64;

/// A value of Rust in memory of C, with what tells it from other memory.
#[repr(C)]
struct Handle<T> {
    /// The kind of the handle and its address, combined; zero when it has ended.
    tag: AtomicUsize,
    state: AtomicU8,
    /// Octets of memory that end with it: its own, and those of what lies behind it.
    size: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// The kinds of handles.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "some are left out with their feature")]
pub(crate) enum Kind {
    Connection = 1,
    Shim,
    AeadKey,
    MaskKey,
    QuicPacketKey,
    QuicHeaderKey,
}

/// A type that C knows by name only. A pointer to it leads to a [`Handle`] of `Value`.
///
/// # Safety
/// No other type has its `KIND`.
pub(crate) unsafe trait Opaque: Sized {
    /// What is in the handle.
    type Value;
    /// Tells the handles apart.
    const KIND: Kind;

    /// Octets of the handle.
    const SIZE: usize = size_of::<Handle<Self::Value>>();
    /// The alignment of its memory.
    const ALIGN: usize = {
        assert!(align_of::<Handle<Self::Value>>() <= WIRESEAL_ALIGN);
        align_of::<Handle<Self::Value>>()
    };

    /// What the tag of a handle at this address is. Multiplied, so that neither zeros nor text nor a moved handle look like one.
    fn tag(address: *const Self) -> usize {
        // Odd, so that no two addresses give the same.
        const FACTOR: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize;
        (address.addr() ^ ((Self::KIND as usize) << (usize::BITS - 8))).wrapping_mul(FACTOR) | 1
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
#[allow(dead_code, reason = "for the handles of the features linux and quic")]
pub(crate) unsafe fn make<H: Opaque>(
    memory: *mut c_void,
    size: usize,
    out: *mut *mut H,
    value: impl FnOnce() -> Result<H::Value, Status>,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        make_in_place(memory, size, H::SIZE, out, |place, _| {
            place.write(value()?);
            Ok(())
        })
    }
}

/// [`make`] for a large value, or a handle with something behind it: `value` writes the value to its place, so that it is not copied there,
/// which costs stack, on which each copy of a secret stays. `needed` octets are the handle's own and those behind it, which follow at the
/// address that `value` gets. Whoever makes the value may still leave copies on the stack: the header says so.
///
/// # Safety
/// As for [`make`]; `needed` is at least the handle's own size, and `value` writes the value if it succeeds.
pub(crate) unsafe fn make_in_place<H: Opaque>(
    memory: *mut c_void,
    size: usize,
    needed: usize,
    out: *mut *mut H,
    value: impl FnOnce(&mut MaybeUninit<H::Value>, NonNull<u8>) -> Result<(), Status>,
) -> Status {
    guarded(|| {
        // SAFETY: the caller's promise.
        let mut out = unsafe { place(out)? };
        out.write(core::ptr::null_mut());
        let memory = NonNull::new(memory).ok_or(Status::NullPointer)?;
        let handle: NonNull<Handle<H::Value>> = memory.cast();
        if isize::try_from(size).is_err() {
            return Err(Status::TooLong);
        }
        if size < needed {
            return Err(Status::TooSmall);
        }
        if !memory.as_ptr().addr().is_multiple_of(H::ALIGN) {
            return Err(Status::Misaligned);
        }
        let place = handle.as_ptr();
        // SAFETY: the memory is aligned, and large enough for the handle, whose fields these are, and for what is behind it.
        unsafe {
            let cell = UnsafeCell::raw_get(&raw const (*place).value);
            value(&mut *cell, memory.cast::<u8>().add(H::SIZE))?;
            // Atomically, and the tag last: a stray call with a pointer to what was here before finds all of the handle, or none.
            AtomicUsize::from_ptr((&raw mut (*place).size).cast()).store(needed, Ordering::Relaxed);
            AtomicU8::from_ptr((&raw mut (*place).state).cast()).store(FREE, Ordering::Relaxed);
            AtomicUsize::from_ptr((&raw mut (*place).tag).cast())
                .store(H::tag(place.cast()), Ordering::Release);
        }
        out.write(place.cast());
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
    let of: *const Handle<H::Value> = handle.cast();
    if !of.is_aligned() {
        return Err(Status::NotAHandle);
    }
    // SAFETY: aligned, and readable by the caller's promise, which is about the handle that is there: one of another kind may be smaller, so
    // this is not yet a reference to all of it.
    let tag = unsafe { AtomicUsize::from_ptr((&raw const (*of).tag).cast_mut().cast()) };
    if tag.load(Ordering::Acquire) != H::tag(handle) {
        return Err(Status::NotAHandle);
    }
    // SAFETY: the tag says that `make_in_place` has checked the memory and written the handle; its value is a cell that may be uninitialised.
    Ok(unsafe { &*of })
}

/// Enters a handle that is in the state `from`, so that nobody else can. The error says why not.
fn enter<T>(of: &Handle<T>, from: u8) -> Result<(), Status> {
    #[cfg(target_has_atomic = "8")]
    let entered = of.state.compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed);
    // On one processor without atomic exchange, such as a Cortex-M0: only a callback, or an interrupt, can find the handle busy.
    #[cfg(not(target_has_atomic = "8"))]
    let entered = match of.state.load(Ordering::Acquire) {
        found if found == from => Ok(of.state.store(BUSY, Ordering::Relaxed)),
        found => Err(found),
    };
    match entered {
        Ok(_) => Ok(()),
        // Another thread has ended it since its tag was read.
        Err(ENDED) => Err(Status::NotAHandle),
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
    let of = match unsafe { checked(handle) }.and_then(|of| enter(of, FREE).map(|()| of)) {
        Ok(of) => of,
        Err(status) => return status,
    };
    // SAFETY: the tag says that the value was written, and `enter` that nobody else has a reference to it until the state is free again.
    let status = caught(|| call(unsafe { (*of.value.get()).assume_init_mut() }));
    of.state.store(if status.is_some() { FREE } else { BROKEN }, Ordering::Release);
    status.unwrap_or(Status::Internal)
}

/// Reads what is in a handle, of a kind that is only ever [read](read) until its [end](end): from any number of threads. After a panic it can
/// be read again, because nothing can have changed it.
///
/// # Safety
/// As for [`checked`]; and nobody ends the handle meanwhile.
#[allow(dead_code, reason = "the keys that threads share are those of the feature quic")]
pub(crate) unsafe fn read<H: Opaque>(
    handle: *const H,
    call: impl FnOnce(&H::Value) -> Result<(), Status>,
) -> Status
where
    H::Value: Sync,
{
    // SAFETY: the caller's promise.
    guarded(|| call(unsafe { shared(handle)? }))
}

/// What is in a handle of a kind that is only ever [read](read), for a call that needs two of them.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn shared<'a, H: Opaque>(handle: *const H) -> Result<&'a H::Value, Status>
where
    H::Value: Sync,
{
    // SAFETY: the caller's promise.
    let of = unsafe { checked(handle)? };
    // SAFETY: the tag says that the value was written, and nobody has a mutable reference to it: no function of this kind calls `with`.
    Ok(unsafe { (*of.value.get()).assume_init_ref() })
}

/// Ends a handle: drops its value, and sets its memory to zeros.
///
/// # Safety
/// As for [`checked`].
pub(crate) unsafe fn end<H: Opaque>(handle: *mut H) -> Status {
    // SAFETY: the caller's promise; and `finish` calls with a value that was written and is not used again.
    unsafe {
        finish(handle, |value| {
            value.assume_init_drop();
            Ok(())
        })
    }
}

/// Ends a handle as [`end`] does, and gives its value away.
///
/// # Safety
/// As for [`checked`].
pub(crate) unsafe fn take<H: Opaque>(
    handle: *mut H,
    last: impl FnOnce(H::Value) -> Result<(), Status>,
) -> Status {
    // SAFETY: as for `end`.
    unsafe { finish(handle, |value| last(value.assume_init_read())) }
}

/// Ends a handle: `last` gets its value, which is not used again, and then its memory is set to zeros. The value of a handle that has
/// panicked is only wiped, because `last` might panic again.
///
/// # Safety
/// As for [`checked`].
unsafe fn finish<H: Opaque>(
    handle: *mut H,
    last: impl FnOnce(&mut MaybeUninit<H::Value>) -> Result<(), Status>,
) -> Status {
    // SAFETY: the caller's promise.
    let of = match unsafe { checked(handle) } {
        Ok(of) => of,
        Err(status) => return status,
    };
    let entered = match enter(of, FREE) {
        Err(Status::Internal) => enter(of, BROKEN).map(|()| false),
        entered => entered.map(|()| true),
    };
    let is_sound = match entered {
        Ok(is_sound) => is_sound,
        Err(status) => return status,
    };
    of.tag.store(0, Ordering::Release);
    let status = match is_sound {
        // SAFETY: `enter` says that nobody else has a reference to it.
        true => caught(|| last(unsafe { &mut *of.value.get() })).unwrap_or(Status::Internal),
        false => Status::Ok,
    };
    let before = core::mem::offset_of!(Handle<H::Value>, value);
    let rest = of.size.load(Ordering::Relaxed).saturating_sub(before);
    let start = handle.cast::<MaybeUninit<u8>>().wrapping_add(before);
    // SAFETY: `make_in_place` has checked that the memory has so many octets, and nobody uses them as values of Rust any more; `MaybeUninit`
    // takes any.
    unsafe { core::slice::from_raw_parts_mut(start, rest) }.zeroize();
    of.size.store(0, Ordering::Relaxed);
    of.state.store(ENDED, Ordering::Release);
    status
}

/// An array behind a handle, in the memory that C has given for both.
pub(crate) struct Array<T> {
    start: NonNull<T>,
    length: usize,
}

impl<T> Array<T> {
    /// `length` items at `start`.
    ///
    /// # Safety
    /// There is aligned memory for them, which nobody else uses before the array is dropped.
    pub(crate) unsafe fn make(start: NonNull<T>, length: usize, item: impl Fn() -> T) -> Self {
        for index in 0..length {
            // SAFETY: the caller's promise.
            unsafe { start.add(index).write(item()) };
        }
        Self { start, length }
    }
}

impl<T> AsRef<[T]> for Array<T> {
    fn as_ref(&self) -> &[T] {
        // SAFETY: `make` has written so many items, and its caller left the memory to this array.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T> AsMut<[T]> for Array<T> {
    fn as_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `as_ref`.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: the items are there, as for `as_ref`, and not used again.
        unsafe { core::ptr::drop_in_place(self.as_mut()) };
    }
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
    // SAFETY: the caller's promise; any octet is a `u8`.
    unsafe { items_mut(start, length) }
}

/// The structs at `start`, which the call may change.
///
/// # Safety
/// As for [`octets_mut`], and any octets are a `T`.
pub(crate) unsafe fn items_mut<'a, T>(start: *mut T, length: usize) -> Result<&'a mut [T], Status> {
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

/// Where a result of several octets goes.
pub(crate) struct Octets<'a>(&'a mut [MaybeUninit<u8>]);

impl Octets<'_> {
    /// Writes the result to the first octets. An error, and nothing written, if there are fewer.
    pub(crate) fn write(&mut self, octets: &[u8]) -> Result<(), Status> {
        let places = self.0.get_mut(..octets.len()).ok_or(Status::TooSmall)?;
        for (place, octet) in places.iter_mut().zip(octets) {
            place.write(*octet);
        }
        Ok(())
    }
}

/// A place for at most `length` octets. They need not be initialised, and are written only by [`Octets::write`].
///
/// # Safety
/// As for [`octets_mut`].
pub(crate) unsafe fn octets_place<'a>(start: *mut u8, length: usize) -> Result<Octets<'a>, Status> {
    // SAFETY: the caller's promise; `MaybeUninit` takes any octets.
    unsafe { items_mut(start.cast(), length) }.map(Octets)
}

/// A text of C, in UTF-8.
///
/// # Safety
/// What C promises: a pointer that is not null points to octets with a zero at their end, which are not written during the call.
pub(crate) unsafe fn text<'a>(start: *const c_char) -> Result<&'a str, Status> {
    if start.is_null() {
        return Err(Status::NullPointer);
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(start) }.to_str().map_err(|_| Status::BadArgument)
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
pub(crate) unsafe fn place_if_wanted<'a, T>(out: *mut T) -> Result<Option<Place<'a, T>>, Status> {
    // SAFETY: the caller's promise.
    if out.is_null() { Ok(None) } else { unsafe { place(out) }.map(Some) }
}

/// Checks what a struct of C's has for later versions: zeros.
pub(crate) fn unused<T: Into<u64> + Copy>(reserved: &[T]) -> Result<(), Status> {
    reserved.iter().all(|octets| (*octets).into() == 0).then_some(()).ok_or(Status::BadArgument)
}
