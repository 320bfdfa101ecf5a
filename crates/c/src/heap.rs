//! Handles on the heap, and texts: what only Linux's part needs of the border with C.
//!
//! C gets a number in the form of a pointer. It is never followed, and never given out again, so a handle that has ended, or never was one,
//! is always told. A handle that is in use when it ends goes when the last call is done.
//!
//! No thread is cancelled in a call, because Rust may not be unwound like that, and the table of handles works on in the child of a fork.

use core::any::Any;
use core::ffi::{CStr, c_char, c_int};
use core::mem::MaybeUninit;
use core::ptr::without_provenance_mut;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt::{self, Write};
use std::string::String;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

pub(crate) use crate::border::text;
use crate::border::{guarded, items_mut, place};
use crate::status::{wireseal_status as Status, wireseal_status_text};

/// A type that C knows by name only. A pointer to it is a number of the table.
pub(crate) trait OnHeap: Sized {
    /// What is behind the number: of a type that no other handle has.
    type Value: Any + Send + Sync;
}

/// All handles, by their numbers.
static HANDLES: Mutex<Handles> = Mutex::new(Handles { last: 0, entries: BTreeMap::new() });

struct Handles {
    last: usize,
    entries: BTreeMap<usize, Entry>,
}

struct Entry {
    value: Arc<dyn Any + Send + Sync>,
    /// A call has panicked: nobody knows what the value is worth.
    is_broken: bool,
}

impl Handles {
    /// Puts a value in, and tells its number.
    fn add(&mut self, value: Arc<dyn Any + Send + Sync>) -> usize {
        loop {
            // As far apart as the pointers of an allocator. On 32 bits they begin anew after 2^28 handles.
            self.last = self.last.wrapping_add(16);
            if self.last != 0 && !self.entries.contains_key(&self.last) {
                self.entries.insert(self.last, Entry { value, is_broken: false });
                return self.last;
            }
        }
    }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_atfork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> c_int;
}

/// While it lives, its thread is not cancelled: `pthread_cancel` takes effect afterwards.
struct Uncancelled(c_int);

impl Uncancelled {
    fn new() -> Self {
        /// glibc's and musl's.
        const PTHREAD_CANCEL_DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: `before` is a variable.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state from before; Linux's libraries take null.
        unsafe { pthread_setcancelstate(self.0, core::ptr::null_mut()) };
    }
}

/// Runs a call in which the thread is not cancelled; a panic becomes [`Status::Internal`].
pub(crate) fn uncancelled(call: impl FnOnce() -> Result<(), Status>) -> Status {
    let _uncancelled = Uncancelled::new();
    guarded(call)
}

std::thread_local! {
    /// The table, while this thread forks: else the child could get it locked, by a thread that it does not have.
    static FORKING: Cell<Option<MutexGuard<'static, Handles>>> = const { Cell::new(None) };
}

/// Keeps the table out of a fork, from the first handle on.
fn register_fork() {
    extern "C" fn lock() {
        let _ = FORKING.try_with(|forking| forking.set(Some(handles())));
    }
    extern "C" fn unlock() {
        let _ = FORKING.try_with(|forking| drop(forking.take()));
    }
    static ONCE: Once = Once::new();
    // SAFETY: the functions are there as long as the library. It fails without memory alone, and then a fork is as it was.
    ONCE.call_once(|| _ = unsafe { pthread_atfork(lock, unlock, unlock) });
}

/// Ignores poisoning: a table is never left half-changed.
fn handles() -> MutexGuard<'static, Handles> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a handle, and writes its number to `out`; null, on any error.
///
/// # Safety
/// What C promises: `out` points to a pointer.
pub(crate) unsafe fn keep<H: OnHeap>(
    out: *mut *mut H,
    value: impl FnOnce() -> Result<H::Value, Status>,
) -> Status {
    uncancelled(|| {
        // SAFETY: the caller's promise.
        let mut out = unsafe { place(out)? };
        out.write(core::ptr::null_mut());
        let value = Arc::new(value()?);
        register_fork();
        let number = handles().add(value);
        out.write(without_provenance_mut(number));
        Ok(())
    })
}

/// What is in a handle.
pub(crate) fn value<H: OnHeap>(handle: *const H) -> Result<Arc<H::Value>, Status> {
    if handle.is_null() {
        return Err(Status::NullPointer);
    }
    let handles = handles();
    let Entry { value, is_broken } = handles.entries.get(&handle.addr()).ok_or(Status::NotAHandle)?;
    let value = Arc::clone(value).downcast().map_err(|_| Status::NotAHandle)?;
    if *is_broken { Err(Status::Internal) } else { Ok(value) }
}

/// Works with what is in a handle. Any number of threads may do so at once.
pub(crate) fn with<H: OnHeap>(
    handle: *const H,
    call: impl FnOnce(&H::Value) -> Result<(), Status>,
) -> Status {
    uncancelled(|| using(handle, call))
}

/// Works with what is in a handle, within a call that makes something of it. A panic breaks the handle.
pub(crate) fn using<H: OnHeap, T>(
    handle: *const H,
    call: impl FnOnce(&H::Value) -> Result<T, Status>,
) -> Result<T, Status> {
    let value = value(handle)?;
    let mut result = Err(Status::Internal);
    let place = &mut result;
    // It also drops the value, which may have ended meanwhile.
    let status = guarded(move || {
        *place = call(&value);
        Ok(())
    });
    if status == Status::Ok {
        return result;
    }
    if let Some(entry) = handles().entries.get_mut(&handle.addr()) {
        entry.is_broken = true;
    }
    Err(status)
}

/// Ends a handle, whatever state it is in.
pub(crate) fn end<H: OnHeap>(handle: *mut H) -> Status {
    match value(handle) {
        Ok(_) | Err(Status::Internal) => {}
        Err(status) => return status,
    }
    // Taken out first, because dropping a value may take time.
    let entry = handles().entries.remove(&handle.addr());
    match entry {
        Some(entry) => uncancelled(move || {
            drop(entry);
            Ok(())
        }),
        None => Status::NotAHandle,
    }
}

/// A text of C's that it may leave out.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn text_if_given<'a>(start: *const c_char) -> Result<Option<&'a str>, Status> {
    // SAFETY: the caller's promise.
    if start.is_null() { Ok(None) } else { unsafe { text(start) }.map(Some) }
}

/// Runs a call that has room for a message. After an error for which it has written none, the message is the status's text.
///
/// # Safety
/// What C promises: `start`, if it is not null, points to `size` octets that nobody else uses during the call.
pub(crate) unsafe fn telling(
    start: *mut c_char,
    size: usize,
    call: impl FnOnce(Result<&mut Message<'_>, Status>) -> Status,
) -> Status {
    let _uncancelled = Uncancelled::new();
    // SAFETY: the caller's promise.
    let mut message = unsafe { Message::at(start, size) };
    let status = call(message.as_mut().map_err(|status| *status));
    if let Ok(message) = &mut message
        && status != Status::Ok
        && message.is_empty
    {
        message.write(status_text(status));
    }
    status
}

/// The text of a status.
pub(crate) fn status_text(status: Status) -> impl fmt::Display {
    // SAFETY: each text ends with a zero, and lives as long as the library.
    let text: &'static CStr = unsafe { CStr::from_ptr(wireseal_status_text(status as u32)) };
    text.to_str().unwrap_or_default()
}

/// [`telling`], for a call without a handle.
///
/// # Safety
/// As for [`telling`].
pub(crate) unsafe fn explained(
    start: *mut c_char,
    size: usize,
    call: impl FnOnce(&mut Message<'_>) -> Result<(), Status>,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe { telling(start, size, |message| guarded(|| call(message?))) }
}

/// Room for a text for people, if C wants it.
pub(crate) struct Message<'a> {
    room: &'a mut [MaybeUninit<u8>],
    is_empty: bool,
}

impl Message<'_> {
    /// The room at `start`, empty at first.
    ///
    /// # Safety
    /// As for [`telling`].
    unsafe fn at(start: *mut c_char, size: usize) -> Result<Self, Status> {
        let size = if start.is_null() { 0 } else { size };
        // SAFETY: the caller's promise; `MaybeUninit` takes any octets.
        let mut message = Self { room: unsafe { items_mut(start.cast(), size)? }, is_empty: true };
        message.write("");
        Ok(message)
    }

    /// No room: nobody wants to know.
    pub(crate) const fn none() -> Self {
        Self { room: &mut [], is_empty: true }
    }

    /// Writes a text and a zero, as much as there is room for.
    pub(crate) fn write(&mut self, text: impl fmt::Display) {
        let mut written = String::new();
        // It fails only if `text` does, and then there is no more of it.
        let _ = write!(written, "{text}");
        self.is_empty = written.is_empty();
        let Some(most) = self.room.len().checked_sub(1) else { return };
        // A zero within would end it.
        let octets = cut(&written, most).bytes().map(|octet| if octet == 0 { b' ' } else { octet });
        for (place, octet) in self.room.iter_mut().zip(octets.chain([0])) {
            place.write(octet);
        }
    }

    /// The result of a call, whose error is written.
    pub(crate) fn told<T, E: fmt::Display>(&mut self, result: Result<T, E>) -> Result<T, Status>
    where
        Status: for<'a> From<&'a E>,
    {
        result.map_err(|error| {
            self.write(&error);
            Status::from(&error)
        })
    }
}

/// As much of a text as fits into so many octets, whole characters.
fn cut(text: &str, most: usize) -> &str {
    let ends = (0..=most.min(text.len())).rev();
    ends.filter_map(|end| text.get(..end)).next().unwrap_or_default()
}

/// A text in an array of C's, with a zero at its end: cut if it is too long.
pub(crate) fn characters<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (place, octet) in array.iter_mut().zip(cut(text, N - 1).bytes()) {
        *place = octet as c_char;
    }
    array
}

/// A text for C to read during a callback.
pub(crate) fn for_c(text: impl fmt::Display) -> CString {
    let mut octets = std::format!("{text}").into_bytes();
    octets.retain(|octet| *octet != 0);
    CString::new(octets).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Counter(());
    struct Other(());

    impl OnHeap for Counter {
        type Value = AtomicU32;
    }

    impl OnHeap for Other {
        type Value = u8;
    }

    fn made() -> *mut Counter {
        let mut handle = core::ptr::null_mut();
        // SAFETY: `out` is a variable.
        assert_eq!(unsafe { keep(&raw mut handle, || Ok(5.into())) }, Status::Ok);
        handle
    }

    #[test]
    fn a_handle_that_is_none_is_told() {
        let mut none: *mut Counter = without_provenance_mut(7);
        // SAFETY: `out` is a variable.
        let failed = unsafe { keep(&raw mut none, || Err(Status::BadArgument)) };
        assert!(failed == Status::BadArgument && none.is_null());
        assert_eq!((with(none, |_| Ok(())), end(none)), (Status::NullPointer, Status::NullPointer));
        let handle = made();
        let other: *mut Other = handle.cast();
        assert_eq!((with(other, |_| Ok(())), end(other)), (Status::NotAHandle, Status::NotAHandle));
        let ended_inside = with(handle, |value| {
            assert_eq!(end(handle), Status::Ok);
            (value.load(Ordering::Relaxed) == 5).then_some(()).ok_or(Status::Internal)
        });
        assert_eq!(ended_inside, Status::Ok);
        for _ in 0..2 {
            assert_eq!((with(handle, |_| Ok(())), end(handle)), (Status::NotAHandle, Status::NotAHandle));
        }
        let next = made();
        assert_ne!(handle, next, "no pointer is given out twice");
        assert_eq!(end(next), Status::Ok);
    }

    #[test]
    fn a_fault_is_caught_and_breaks_the_handle() {
        let handle = made();
        assert_eq!(with(handle, |_| panic!("a fault")), Status::Internal);
        assert_eq!(with(handle, |_| Ok(())), Status::Internal);
        let user = made();
        // What is wrong with another handle breaks none.
        assert_eq!(with(user, |_| using(handle, |_| Ok(()))), Status::Internal);
        assert_eq!(with(user, |_| Ok(())), Status::Ok);
        // A fault within a call that makes something of the handle.
        let mut other: *mut Other = core::ptr::null_mut();
        // SAFETY: `out` is a variable.
        let failed = unsafe { keep(&raw mut other, || using(user, |_| panic!("a fault"))) };
        assert!(failed == Status::Internal && other.is_null());
        assert_eq!((with(user, |_| Ok(())), end(user)), (Status::Internal, Status::Ok));
        assert_eq!((end(handle), end(handle)), (Status::Ok, Status::NotAHandle));
    }

    #[test]
    fn a_number_in_use_is_not_given_out_after_the_last_one() {
        let mut handles = Handles { last: usize::MAX - 47, entries: BTreeMap::new() };
        let mut add = || handles.add(Arc::new(0));
        assert_eq!((add(), add(), add()), (usize::MAX - 31, usize::MAX - 15, 16));
        handles.last = usize::MAX - 47;
        handles.entries.remove(&(usize::MAX - 15));
        let mut add = || handles.add(Arc::new(0));
        assert_eq!((add(), add()), (usize::MAX - 15, 32));
    }

    #[test]
    fn a_message_is_cut_where_a_character_ends() {
        for (size, expected) in [(0, ""), (1, "\0"), (3, "a\0"), (4, "aé\0"), (9, "aé b\0")] {
            let mut room = [b'?'; 9];
            // SAFETY: `size` octets of `room`.
            let mut message = unsafe { Message::at(room.as_mut_ptr().cast(), size) }.unwrap();
            message.write("aé\0b");
            assert!(
                room.starts_with(expected.as_bytes())
                    && room[expected.len()..].iter().all(|octet| *octet == b'?'),
                "{size}"
            );
        }
        // SAFETY: null.
        unsafe { Message::at(core::ptr::null_mut(), 9) }.unwrap().write("nobody reads it");
    }
}
