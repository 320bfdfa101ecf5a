//! Key chains: keys with lifetimes (RFC 8177), from files, from texts and from structs.

use core::ffi::c_char;
use core::mem::MaybeUninit;
use std::format;
use std::vec::Vec;

use wireseal_keys::{Error, Key, KeyChain, KeyChains, Lifetime, Timestamp};

use crate::border::{given, items, items_mut, octets, place, place_if_wanted, unused};
use crate::formats::{Converted, chains_of_file, chains_of_text, converted as converted_text};
use crate::heap::{Message, OnHeap, end, explained, keep, status_text, telling, text, text_if_given, with};
use crate::mkt::wireseal_mkt;
use crate::status::{wireseal_status, wireseal_status as Status};

/// Key chains, each with a name. Any number of threads may use them at once. The handle is on the heap.
pub struct wireseal_chains(());

impl OnHeap for wireseal_chains {
    type Value = KeyChains;
}

/// When a key is valid, in seconds since 1970-01-01T00:00:00Z. All zeros means always.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_lifetime {
    /// The first second in which it is valid; 0 for no start.
    pub from: i64,
    /// The first second in which it is not valid any more; 0 for no end.
    pub until: i64,
}

/// A key of a chain. Set all to zero first: then what you do not set has its usual value.
#[repr(C)]
pub struct wireseal_chain_key {
    /// Identifies the key within its chain. It is never sent.
    pub key_id: u64,
    /// The key. Its `accept_only` is ignored, because the lifetimes decide that.
    pub mkt: wireseal_mkt,
    /// When this end may choose to sign with it.
    pub send: wireseal_lifetime,
    /// When the peer may sign with it. It must cover `send`.
    pub accept: wireseal_lifetime,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

impl TryFrom<wireseal_lifetime> for Lifetime {
    type Error = Error;

    fn try_from(lifetime: wireseal_lifetime) -> Result<Self, Error> {
        let moment = |seconds: i64| (seconds != 0).then_some(Timestamp::from_unix_seconds(seconds));
        Self::new(moment(lifetime.from), moment(lifetime.until))
    }
}

impl From<&Error> for Status {
    fn from(_: &Error) -> Self {
        Self::Keys
    }
}

/// Reads the key chains of a file in any format that `wireseal keys` knows: TOML and JSON (RFC 8177), and the configurations of routers and BGP
/// daemons. The format is recognized by the file's name and text; if neither tells, it is TOML.
///
/// `of_peer`: 0 if the file was written for this end; else it was written for the peer, whose SendIDs are this end's RecvIDs.
/// `message`: room for `message_size` octets with the zero at the end, or null. After an error it has one line, with the file, line and column.
/// After success it is empty, or has a line for each warning: other users can read the file; a router's chain cannot be used, and why.
///
/// Errors: WIRESEAL_STATUS_KEYS if the file cannot be read, or something in it is wrong. If the library was built without the feature
/// `formats`, it reads only TOML and JSON (a name that ends in .json) written for this end, and returns WIRESEAL_STATUS_NOT_BUILT_IN for all
/// else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_chains_from_file(
    path: *const c_char,
    of_peer: u8,
    message: *mut c_char,
    message_size: usize,
    chains: *mut *mut wireseal_chains,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        telling(message, message_size, |message| {
            keep(chains, || {
                let message = message?;
                chains_of_file(text(path)?, of_peer, message)
            })
        })
    }
}

/// Reads the key chains of a text, as wireseal_chains_from_file() reads those of a file.
///
/// `name`: what messages call the text. Its ending may give the format, as in "keys.toml".
/// `octets`: `length` octets, UTF-8. They hold secrets: wipe them afterwards.
/// `format`: "toml", "json", "xml", "bird", "junos", "ios-xr", "ios-xe", "nx-os", "frr", "eos", "vrp", "sr-os", "sr-linux", "gobgp" or
/// "openconfig" (else WIRESEAL_STATUS_BAD_ARGUMENT); null to recognize it by the name and text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_chains_from_text(
    name: *const c_char,
    octets: *const u8,
    length: usize,
    format: *const c_char,
    of_peer: u8,
    message: *mut c_char,
    message_size: usize,
    chains: *mut *mut wireseal_chains,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        telling(message, message_size, |message| {
            keep(chains, || {
                let (message, name, format) = (message?, text(name)?, text_if_given(format)?);
                let text = utf_8(octets, length, message)?;
                chains_of_text(name, text, format, of_peer, message)
            })
        })
    }
}

/// Makes a chain of `count` keys. Two keys may share a SendID or RecvID only if their accept lifetimes do not overlap.
///
/// `name`: the chain's name.
/// `accept_tolerance`: by how many seconds each accept lifetime is extended, before and after, because clocks differ.
/// `preferred`: the `key_id` of the key to sign with whenever it is valid; null for the key whose send lifetime began last.
/// `message`: as for wireseal_chains_from_file().
///
/// Errors: WIRESEAL_STATUS_KEYS, and those of a key, as for wireseal_connection_active().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_chains_from_keys(
    name: *const c_char,
    keys: *const wireseal_chain_key,
    count: usize,
    accept_tolerance: u32,
    preferred: *const u64,
    message: *mut c_char,
    message_size: usize,
    chains: *mut *mut wireseal_chains,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    let call = |message: &mut Message<'_>| unsafe {
        let name = text(name)?;
        let preferred = if preferred.is_null() { None } else { Some(*given(preferred)?) };
        let given = items(keys, count)?;
        // All at once: a list that grew would leave secrets behind.
        let mut keys = Vec::with_capacity(given.len());
        for key in given {
            let id = key.key_id;
            unused(&key.reserved)
                .inspect_err(|_| message.write(format!("key {id}: reserved is not zero")))?;
            let mkt = key
                .mkt
                .read()
                .inspect_err(|status| message.write(format!("key {id}: {}", status_text(*status))))?;
            let made = || Key::new(id, mkt).with_lifetimes(key.send.try_into()?, key.accept.try_into()?);
            keys.push(made().map_err(|error: Error| {
                message.write(format!("key {id}: {error}"));
                Status::Keys
            })?);
        }
        let chain = || {
            let chain = KeyChain::new(name, keys)?.with_accept_tolerance(accept_tolerance)?;
            let chain = match preferred {
                Some(key_id) => chain.with_preferred(key_id)?,
                None => chain,
            };
            KeyChains::new(Vec::from([chain]))
        };
        message.told(chain())
    };
    // SAFETY: what C promises of `message` and `chains`.
    unsafe { telling(message, message_size, |message| keep(chains, || call(message?))) }
}

/// Writes the name of the chain with this index, counted from 0 in the order of the text. WIRESEAL_STATUS_NO_SUCH_CHAIN if there are
/// fewer.
///
/// `name`: room for `size` octets with the zero at the end. WIRESEAL_STATUS_TOO_SMALL if the name is longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_chains_name(
    chains: *const wireseal_chains,
    index: usize,
    name: *mut c_char,
    size: usize,
) -> wireseal_status {
    with(chains, |chains| {
        // SAFETY: what C promises of `name`; `MaybeUninit` takes any octets.
        let room: &mut [MaybeUninit<u8>] = unsafe { items_mut(name.cast(), size)? };
        let chain = chains.chains().get(index).ok_or(Status::NoSuchChain)?;
        let octets = chain.name().bytes().filter(|octet| *octet != 0).chain([0]);
        if octets.clone().count() > room.len() {
            return Err(Status::TooSmall);
        }
        for (place, octet) in room.iter_mut().zip(octets) {
            place.write(octet);
        }
        Ok(())
    })
}

/// Writes the MKTs of a chain that are valid at a moment, for wireseal_connection_replace_keys() or wireseal_shim_set_mkts(): the preferred one
/// first; last, and accept-only, those that are valid only for accepting. There are none if no key is valid for sending: then nothing may get
/// through.
///
/// `chain`: the chain's name; null for the only one.
/// `now`: seconds since 1970-01-01T00:00:00Z.
/// `mkts`: room for `room` of them; `*count` is how many there are. If that is more than `room`, only `*count` is written, and the status is
/// WIRESEAL_STATUS_TOO_SMALL. Their master keys point into the chains: do not use them after wireseal_chains_end().
/// `next_change`: when to ask again, in the same seconds; INT64_MAX if never. It may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_chains_at(
    chains: *const wireseal_chains,
    chain: *const c_char,
    now: i64,
    mkts: *mut wireseal_mkt,
    room: usize,
    count: *mut usize,
    next_change: *mut i64,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer; `MaybeUninit` takes any octets.
    with(chains, |chains| unsafe {
        let chain = chain_named(chains, text_if_given(chain)?, &mut Message::none())?;
        let room: &mut [MaybeUninit<wireseal_mkt>] = items_mut(mkts.cast(), room)?;
        let (mut count, next_change) = (place(count)?, place_if_wanted(next_change)?);
        let now = Timestamp::from_unix_seconds(now);
        let (active, next) = (chain.at(now), chain.next_change(now));
        let sendable = active.sendable().count();
        // Without a key to sign with there is none to accept with, either.
        let usable = if sendable == 0 { 0 } else { active.iter().count() };
        count.write(usable);
        if usable > room.len() {
            return Err(Status::TooSmall);
        }
        for (index, (place, key)) in room.iter_mut().zip(active.iter().take(usable)).enumerate() {
            place.write(wireseal_mkt::of(key.mkt(), index >= sendable));
        }
        next_change.into_iter().for_each(|mut place| {
            place.write(next.map_or(i64::MAX, Timestamp::unix_seconds));
        });
        Ok(())
    })
}

/// Ends key chains, and wipes them once no call uses them any more. A manager that was given a chain has its own copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_chains_end(chains: *mut wireseal_chains) -> wireseal_status {
    end(chains)
}

/// Writes the keys of a text in another format.
///
/// `name`, `octets`, `length` and `from`: as for wireseal_chains_from_text().
/// `to`: a format; "nx-os", "frr", "sr-linux" and "openconfig" are only read.
/// `converted`: room for `size` octets. It gets the text, secrets included, without a zero at its end; wipe it after use. `*needed` is how many
/// octets the text has. If that is more than `size`, nothing is written to `converted`, and the status is WIRESEAL_STATUS_TOO_SMALL.
/// `message`: as for wireseal_chains_from_file(). After success it has a line for each thing that the other format cannot express.
/// WIRESEAL_STATUS_NOT_BUILT_IN if the library was built without the feature `formats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_keys_convert(
    name: *const c_char,
    octets: *const u8,
    length: usize,
    from: *const c_char,
    to: *const c_char,
    converted: *mut u8,
    size: usize,
    needed: *mut usize,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer; `MaybeUninit` takes any octets.
    let call = |message: &mut Message<'_>| unsafe {
        let (name, to, from) = (text(name)?, text(to)?, text_if_given(from)?);
        let mut needed = place(needed)?;
        let room: &mut [MaybeUninit<u8>] = items_mut(converted.cast(), size)?;
        let text = utf_8(octets, length, message)?;
        let Converted { text, losses } = converted_text(name, text, from, to, message)?;
        needed.write(text.len());
        if text.len() > room.len() {
            return Err(Status::TooSmall);
        }
        for (place, octet) in room.iter_mut().zip(text.bytes()) {
            place.write(octet);
        }
        message.write(losses);
        Ok(())
    };
    // SAFETY: what C promises of `message`.
    unsafe { explained(message, message_size, call) }
}

/// # Safety
/// As for [`octets`].
unsafe fn utf_8<'a>(start: *const u8, length: usize, message: &mut Message<'_>) -> Result<&'a str, Status> {
    // SAFETY: the caller's promise.
    let octets = unsafe { octets(start, length)? };
    str::from_utf8(octets).map_err(|error| {
        message.write(format!("not UTF-8 text, from octet {} on", error.valid_up_to()));
        Status::Keys
    })
}

/// The chain with this name, or the only one; else C is told why there is none.
pub(crate) fn chain_named<'a>(
    chains: &'a KeyChains,
    name: Option<&str>,
    message: &mut Message<'_>,
) -> Result<&'a KeyChain, Status> {
    let unusable = |name: &str| chains.unusable().iter().find(|(unusable, _)| unusable == name);
    match (name, chains.chains()) {
        (None, [only]) => return Ok(only),
        (None, []) => message.write("there is no key chain"),
        (None, several) => message.write(format!("there are {} key chains: name one", several.len())),
        (Some(name), _) => match (chains.get(name), unusable(name)) {
            (Some(chain), _) => return Ok(chain),
            (None, Some((_, error))) => message.write(format!("key chain {name:?} cannot be used: {error}")),
            (None, None) => message.write(format!("there is no key chain {name:?}")),
        },
    }
    Err(Status::NoSuchChain)
}
