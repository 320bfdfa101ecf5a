//! Handles on the heap, and texts: what only Linux's part needs of the border with C.
//!
//! C gets a number in the form of a pointer. It is never followed, and never given out again, so a handle that has ended, or never was one,
//! is always told. A handle that is in use when it ends goes when the last call is done.

use core::any::Any;
use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::ptr::without_provenance_mut;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt::{self, Write};
use std::string::String;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use crate::border::text;
use crate::border::{guarded, items_mut, place};
use crate::status::wireseal_status as Status;

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
    guarded(|| {
        // SAFETY: the caller's promise.
        let mut out = unsafe { place(out)? };
        out.write(core::ptr::null_mut());
        let value = Arc::new(value()?);
        let mut handles = handles();
        // As far apart as the pointers of an allocator.
        handles.last += 16;
        let number = handles.last;
        handles.entries.insert(number, Entry { value, is_broken: false });
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
    let value = match value(handle) {
        Ok(value) => value,
        Err(status) => return status,
    };
    let status = guarded(move || call(&value));
    if status == Status::Internal
        && let Some(entry) = handles().entries.get_mut(&handle.addr())
    {
        entry.is_broken = true;
    }
    status
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
        Some(entry) => guarded(move || {
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

/// Room for a text for people, if C wants it.
pub(crate) struct Message<'a>(&'a mut [MaybeUninit<u8>]);

impl Message<'_> {
    /// The room at `start`, empty at first.
    ///
    /// # Safety
    /// What C promises: a pointer that is not null points to `size` octets that nobody else uses during the call.
    pub(crate) unsafe fn at(start: *mut c_char, size: usize) -> Result<Self, Status> {
        let size = if start.is_null() { 0 } else { size };
        // SAFETY: the caller's promise; `MaybeUninit` takes any octets.
        let mut message = Self(unsafe { items_mut(start.cast(), size)? });
        message.write("");
        Ok(message)
    }

    /// No room: nobody wants to know.
    pub(crate) const fn none() -> Self {
        Self(&mut [])
    }

    /// Writes a text and a zero, as much as there is room for.
    pub(crate) fn write(&mut self, text: impl fmt::Display) {
        let mut written = String::new();
        // It fails only if `text` does, and then there is no more of it.
        let _ = write!(written, "{text}");
        let Some(most) = self.0.len().checked_sub(1) else { return };
        // A zero within would end it.
        let octets = cut(&written, most).bytes().map(|octet| if octet == 0 { b' ' } else { octet });
        for (place, octet) in self.0.iter_mut().zip(octets.chain([0])) {
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
        assert_eq!((end(handle), end(handle)), (Status::Ok, Status::NotAHandle));
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
