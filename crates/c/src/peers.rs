//! The peers of a key manager: each change, many at once, with a dry run, an undo, and how far it has come.

use core::ffi::{c_char, c_void};
use core::ptr::null;
use std::string::String;

use wireseal_keys::Timestamp;
use wireseal_linux::{Error, Generation, KeyManager, OnFailure, PeerName, Policy, Transaction};

use crate::border::{given, items, place, place_if_wanted, unused};
use crate::heap::{Message, for_c, telling, text, text_if_given, value, with};
use crate::keys::{chain_named, wireseal_chains};
use crate::manager::{Manager, wireseal_manager};
use crate::report::{say, wireseal_line_callback};
use crate::status::{wireseal_status, wireseal_status as Status};

/// What happens to a peer in wireseal_manager_change().
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_peer_change_kind {
    /// It gets a chain: as a new peer, or in place of the chain that it has.
    Set = 1,
    /// It is removed, if it is there, as by wireseal_manager_remove_peer().
    Remove = 2,
    /// It is blocked, as by wireseal_manager_block_peer().
    Block = 3,
    /// It keeps its keys, also with WIRESEAL_CHANGE_REMOVE_OTHERS; only its policy is set. If there is no such peer, WIRESEAL_STATUS_NO_PEER.
    Keep = 4,
}

/// What a manager does if it cannot put the keys of a peer on a socket, or the peer does not begin to use them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_on_failure {
    /// Try again in each step.
    Retry = 0,
    /// Give the peer its keys from before the change again, until the next change.
    HoldOldKeys = 1,
    /// Reset this connection, with a signed segment.
    ResetSession = 2,
    /// Reset all connections of all peers of the cohort.
    ResetCohort = 3,
}

/// What a manager does if a peer does not follow a change of its keys. All zeros: it tries again.
#[repr(C)]
pub struct wireseal_policy {
    /// An enum wireseal_on_failure.
    pub on_failure: u32,
    /// How many seconds the peer has to sign with the new key and ask for it, once its connection has the key. Set more than the interval of
    /// its keepalives. 0: no limit; then only a key that cannot be set is a failure.
    pub patience: u32,
    /// The name of the peer's cohort, for WIRESEAL_ON_FAILURE_RESET_COHORT, or null. Peers with the same name are in one cohort.
    pub cohort: *const c_char,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

/// A change of one peer. Set all to zero first.
#[repr(C)]
pub struct wireseal_peer_change {
    /// The peer, as wireseal_manager_set_peer() reads it.
    pub peer: *const c_char,
    /// An enum wireseal_peer_change_kind.
    pub kind: u32,
    /// For WIRESEAL_PEER_CHANGE_KIND_SET: the chains among which the peer's is. Otherwise null.
    pub chains: *const wireseal_chains,
    /// The name of the peer's chain; null for the only one.
    pub chain: *const c_char,
    /// The peer's policy from now on; null to leave it as it is.
    pub policy: *const wireseal_policy,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

/// For wireseal_manager_change(): changes nothing, and reports what would be done.
pub const WIRESEAL_CHANGE_DRY_RUN: u32 = 1;
/// For wireseal_manager_change(): also removes all peers that no change names.
pub const WIRESEAL_CHANGE_REMOVE_OTHERS: u32 = 2;

/// A peer of a manager, from wireseal_manager_peers(). It and what it points to are valid until the callback returns.
#[repr(C)]
pub struct wireseal_peer {
    /// The peer, as wireseal_manager_set_peer() reads it.
    pub peer: *const c_char,
    /// The name of its key chain; null if it is blocked.
    pub chain: *const c_char,
    /// The number of the change that gave it this chain, or blocked it.
    pub generation: u64,
}

/// Called for each peer. `context` is the one given to the function. It may call any function of the manager.
pub type wireseal_peer_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, peer: *const wireseal_peer)>;

/// How far a change of a manager's peers has come, according to the steps so far.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_progress {
    /// Whether a later change was made. Ask about that one instead.
    pub is_superseded: bool,
    /// Whether the change was undone.
    pub is_undone: bool,
    /// Whether all sockets that count have the keys.
    pub is_held: bool,
    /// Whether, in addition, the peer of each connection signs with its preferred key, and asks for it.
    pub has_moved: bool,
    /// How many sockets count: not connections that have ended, nor those of peers that hold their old keys.
    pub sockets: usize,
    /// How many of them lack keys.
    pub not_held: usize,
    /// How many of them have a peer that has not moved.
    pub not_moved: usize,
    /// For how many peers a policy has acted since their last change.
    pub given_up: usize,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

/// Adds a peer, or replaces its key chain; a key with the same ids but another secret is replaced, too. It takes effect with the next step,
/// which is due at once.
///
/// `peer`: an address, or a network of peers that share the chain. If the peer is only on one interface, add % and the name or index of the
/// interface; if it is only in one VRF, add " in VRF " and the name or index of the VRF device: "192.0.2.7", "2001:db8::/64", "fe80::1%eth0",
/// "192.0.2.7 in VRF red". A connection belongs to the peer with the longest prefix.
/// `chains`: where the chain is; the manager copies it.
/// `chain`: its name; null for the only one.
/// `message`: room for `message_size` octets with the zero at the end, or null. After an error it has one line that says why, and what to do.
/// `generation`: the number of the change, for wireseal_manager_progress(); it may be null.
///
/// Errors: WIRESEAL_STATUS_NOT_A_PEER; _NO_SUCH_CHAIN; _NOT_IN_KERNEL if Linux does not have an algorithm of the chain; _PEERS_OVERLAP if a
/// connection could belong to this peer or to another, and a key of each has the same SendID or RecvID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_set_peer(
    manager: *const wireseal_manager,
    peer: *const c_char,
    chains: *const wireseal_chains,
    chain: *const c_char,
    message: *mut c_char,
    message_size: usize,
    generation: *mut u64,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        change_peer(manager, peer, message, message_size, generation, |manager, peer, message| {
            let chains = value(chains)?;
            let chain = chain_named(&chains, text_if_given(chain)?, message)?.clone();
            Ok(manager.set_peer(peer, chain))
        })
    }
}

/// Removes a peer. If there is none, this still counts as a change. The next step, which is due at once, removes its keys from the listening
/// sockets. Its connections keep theirs, and are reported as expired: shut them down.
///
/// On a listening socket attached by wireseal_manager_attach_mixed(), the peer can connect unsigned from then on: block it instead.
/// `peer`, `message` and `generation`: as for wireseal_manager_set_peer().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_remove_peer(
    manager: *const wireseal_manager,
    peer: *const c_char,
    message: *mut c_char,
    message_size: usize,
    generation: *mut u64,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        change_peer(manager, peer, message, message_size, generation, |manager, peer, _| {
            // A change also if the peer is not there, so that nobody who undoes it undoes an earlier one.
            loop {
                let mut transaction = manager.transaction();
                transaction.remove_peer(peer);
                match transaction.commit() {
                    Err(Error::ChangedMeanwhile { .. }) => {}
                    done => return Ok(done),
                }
            }
        })
    }
}

/// Blocks a peer, for example one whose keys are lost, and adds it if it is new: the next step, which is due at once, gives it a random key on
/// listening sockets, which nobody knows. Its connections keep the keys that are in use, and are reported as expired: shut them down.
///
/// `peer`, `message` and `generation`: as for wireseal_manager_set_peer().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_block_peer(
    manager: *const wireseal_manager,
    peer: *const c_char,
    message: *mut c_char,
    message_size: usize,
    generation: *mut u64,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        change_peer(manager, peer, message, message_size, generation, |manager, peer, _| {
            Ok(Ok(manager.block_peer(peer)))
        })
    }
}

/// Changes several peers at once. On an error none of them is changed. It takes effect with the next step, which is due at once.
///
/// `changes`: `count` of them, each for a different peer; `count` may be 0.
/// `flags`: WIRESEAL_CHANGE_DRY_RUN, WIRESEAL_CHANGE_REMOVE_OTHERS, both or 0. A dry run reads the keys of all attached sockets, waits for a
/// step in progress, and changes nothing.
/// `plan`: called in a dry run with a line for each attached socket; may be null otherwise.
/// `message` and `generation`: as for wireseal_manager_set_peer(). A dry run does not write `generation`.
///
/// Errors: those of wireseal_manager_set_peer(); WIRESEAL_STATUS_NO_PEER, _PEER_TWICE; _CHANGED_MEANWHILE if another thread changed peers
/// during the call: call again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_change(
    manager: *const wireseal_manager,
    changes: *const wireseal_peer_change,
    count: usize,
    flags: u32,
    plan: wireseal_line_callback,
    context: *mut c_void,
    message: *mut c_char,
    message_size: usize,
    generation: *mut u64,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    let call = |manager: &Manager, message: &mut Message<'_>| unsafe {
        let place = place_if_wanted(generation)?;
        if flags & !(WIRESEAL_CHANGE_DRY_RUN | WIRESEAL_CHANGE_REMOVE_OTHERS) != 0 {
            message.write("flags are WIRESEAL_CHANGE_DRY_RUN and WIRESEAL_CHANGE_REMOVE_OTHERS");
            return Err(Status::BadArgument);
        }
        let mut transaction = manager.keys.transaction();
        for change in items(changes, count)? {
            change.add_to(&mut transaction, message)?;
        }
        if flags & WIRESEAL_CHANGE_REMOVE_OTHERS != 0 {
            transaction.remove_others();
        }
        if flags & WIRESEAL_CHANGE_DRY_RUN != 0 {
            for socket in message.told(transaction.dry_run(Timestamp::now()))? {
                say(plan, context, socket);
            }
            return Ok(());
        }
        let made = message.told(transaction.commit())?;
        place.into_iter().for_each(|mut place| place.write(made.number()));
        Ok(())
    };
    // SAFETY: what C promises of the pointer.
    unsafe { telling(message, message_size, |message| with(manager, |manager| call(manager, message?))) }
}

/// Writes the number of the newest change of a manager's peers to `*generation`; 0 before the first change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_generation(
    manager: *const wireseal_manager,
    generation: *mut u64,
) -> wireseal_status {
    with(manager, |manager| {
        // SAFETY: what C promises of the pointer.
        let mut place = unsafe { place(generation)? };
        place.write(manager.keys.generation().number());
        Ok(())
    })
}

/// Lists a manager's peers as they are now, in order: calls `peer` for each, in this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_peers(
    manager: *const wireseal_manager,
    peer: wireseal_peer_callback,
    context: *mut c_void,
) -> wireseal_status {
    with(manager, |manager| {
        let callback = peer.ok_or(Status::NullPointer)?;
        for peer in manager.keys.peers() {
            let (name, chain) = (for_c(peer.name), peer.chain.map(for_c));
            let told = wireseal_peer {
                peer: name.as_ptr(),
                chain: chain.as_ref().map_or(null(), |chain| chain.as_ptr()),
                generation: peer.generation.number(),
            };
            // SAFETY: what C promises of its callback; the texts live until after the call.
            unsafe { callback(context, &raw const told) };
        }
        Ok(())
    })
}

/// Undoes the newest change of peers: gives the peers that it changed their chains from before. This counts as a new change.
///
/// `generation`: the number of the newest change; WIRESEAL_STATUS_CANNOT_UNDO for any other.
/// `message`: as for wireseal_manager_set_peer().
/// `undoing`: the number of the new change; it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_undo(
    manager: *const wireseal_manager,
    generation: u64,
    message: *mut c_char,
    message_size: usize,
    undoing: *mut u64,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        telling(message, message_size, |message| {
            with(manager, |manager| {
                let (message, place) = (message?, place_if_wanted(undoing)?);
                let made = message.told(manager.keys.undo(Generation::new(generation)))?;
                place.into_iter().for_each(|mut place| place.write(made.number()));
                Ok(())
            })
        })
    }
}

/// Writes to `*progress` how far the change with the number `generation` has come, according to the steps so far. It makes no system call.
///
/// `pending`: called with a line for each socket that lacks keys or whose peer does not use the new key yet, and for each peer for which a
/// policy has acted; may be null.
/// Error: WIRESEAL_STATUS_BAD_ARGUMENT if no change has this number yet. The number 0 stands for the state before the first change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_progress(
    manager: *const wireseal_manager,
    generation: u64,
    pending: wireseal_line_callback,
    context: *mut c_void,
    progress: *mut wireseal_progress,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    with(manager, |manager| unsafe {
        let mut place = place(progress)?;
        let found = manager.keys.progress(Generation::new(generation));
        if !found.is_made {
            return Err(Status::BadArgument);
        }
        place.write(wireseal_progress {
            is_superseded: found.superseded_by.is_some(),
            is_undone: found.is_undone,
            is_held: found.is_held(),
            has_moved: found.has_moved(),
            sockets: found.sockets,
            not_held: found.not_held.len(),
            not_moved: found.not_moved.len(),
            given_up: found.given_up.len(),
            reserved: [0; 2],
        });
        found
            .not_held
            .iter()
            .for_each(|socket| say(pending, context, format_args!("{socket}: not all keys")));
        found.not_moved.iter().for_each(|socket| say(pending, context, format_args!("{socket}: not moved")));
        found
            .given_up
            .iter()
            .for_each(|(peer, action)| say(pending, context, format_args!("{peer}: {action}")));
        Ok(())
    })
}

impl wireseal_peer_change {
    /// Adds it to a transaction.
    ///
    /// # Safety
    /// What C promises of its pointers.
    unsafe fn add_to(&self, transaction: &mut Transaction, message: &mut Message<'_>) -> Result<(), Status> {
        // SAFETY: the caller's promise.
        let (name, policy) = unsafe {
            let policy = if self.policy.is_null() { None } else { Some(given(self.policy)?.read(message)?) };
            (text(self.peer)?, policy)
        };
        let peer: PeerName = message.told(name.parse())?;
        let reserved = unused(&self.reserved);
        reserved
            .inspect_err(|_| message.write(format_args!("the change of {peer}: reserved is not zero")))?;
        let is_twice = match self.kind {
            kind if kind == wireseal_peer_change_kind::Set as u32 => {
                let chains = value(self.chains)?;
                // SAFETY: the caller's promise.
                let name = unsafe { text_if_given(self.chain)? };
                transaction.set_peer(peer, chain_named(&chains, name, message)?.clone())
            }
            kind if kind == wireseal_peer_change_kind::Remove as u32 => transaction.remove_peer(peer),
            kind if kind == wireseal_peer_change_kind::Block as u32 => transaction.block_peer(peer),
            kind if kind == wireseal_peer_change_kind::Keep as u32 => transaction.keep_peer(peer),
            kind => {
                message.write(format_args!("peer {peer}: no change is of the kind {kind}"));
                return Err(Status::BadArgument);
            }
        };
        if is_twice {
            message.told(Err(Error::PeerTwice(peer)))?;
        }
        if let Some(policy) = policy {
            transaction.set_policy(peer, policy);
        }
        Ok(())
    }
}

impl wireseal_policy {
    /// The same in Rust.
    ///
    /// # Safety
    /// What C promises of its pointer.
    unsafe fn read(&self, message: &mut Message<'_>) -> Result<Policy, Status> {
        unused(&self.reserved).inspect_err(|_| message.write("a policy: reserved is not zero"))?;
        let on_failure = match self.on_failure {
            0 => OnFailure::Retry,
            1 => OnFailure::HoldOldKeys,
            2 => OnFailure::ResetSession,
            3 => OnFailure::ResetCohort,
            other => {
                message.write(format_args!("a policy has {other} for on_failure, which means nothing"));
                return Err(Status::BadArgument);
            }
        };
        let patience = (self.patience != 0).then_some(self.patience);
        // SAFETY: the caller's promise.
        let cohort = unsafe { text_if_given(self.cohort)? };
        Ok(Policy { on_failure, patience, cohort: cohort.map(String::from) })
    }
}

/// Changes one peer, and tells C why that failed.
///
/// # Safety
/// What C promises of each pointer.
unsafe fn change_peer(
    manager: *const wireseal_manager,
    peer: *const c_char,
    message: *mut c_char,
    message_size: usize,
    generation: *mut u64,
    change: impl FnOnce(&KeyManager, PeerName, &mut Message<'_>) -> Result<Result<Generation, Error>, Status>,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        telling(message, message_size, |message| {
            with(manager, |manager| {
                let (message, place) = (message?, place_if_wanted(generation)?);
                let peer = message.told(text(peer)?.parse())?;
                let made = change(&manager.keys, peer, message)?;
                let made = message.told(made)?;
                place.into_iter().for_each(|mut place| place.write(made.number()));
                Ok(())
            })
        })
    }
}
