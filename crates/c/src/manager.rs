//! The key manager on Linux's sockets, for a daemon's own event loop: a descriptor that is readable when a step is due, and a deadline.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{null_mut, with_exposed_provenance_mut};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::Vec;

use wireseal_keys::Timestamp;
use wireseal_linux::{Attachment, Error, KeyManager, PeerName, StepReport, StepTimer};

use crate::address::wireseal_address;
use crate::border::{given, items_mut, place};
use crate::heap::{OnHeap, end, keep, telling, using, with};
use crate::linux::{descriptor, list, wireseal_socket_key};
use crate::report::{Report, wireseal_report_callback, wireseal_socket_state};
use crate::status::{wireseal_status, wireseal_status as Status};

/// A key manager. It has peers, each with a key chain; puts the keys that are valid now on the sockets that are attached to it; and removes
/// those that are not. Any number of threads may use it at once. The handle is on the heap.
pub struct wireseal_manager(());

/// A socket that a key manager takes care of. Any number of threads may use it at once. The handle is on the heap.
pub struct wireseal_attachment(());

pub(crate) struct Manager {
    pub(crate) keys: KeyManager,
    timer: StepTimer,
    /// The peers of which C was told that they have no key to sign with.
    expired: Mutex<Vec<PeerName>>,
    users: Arc<Users>,
}

impl OnHeap for wireseal_manager {
    type Value = Manager;
}

impl OnHeap for wireseal_attachment {
    type Value = Attached;
}

/// An attachment, and where its manager finds what C keeps with it.
pub(crate) struct Attached {
    attachment: Attachment,
    users: Arc<Users>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.users.set(self.attachment.number(), null_mut());
    }
}

/// What C keeps with attachments, by their numbers: addresses, which only C follows.
#[derive(Default)]
struct Users(Mutex<HashMap<u64, usize>>);

impl Users {
    fn of(&self, attachment: u64) -> *mut c_void {
        let users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        with_exposed_provenance_mut(users.get(&attachment).copied().unwrap_or(0))
    }

    fn set(&self, attachment: u64, user: *mut c_void) {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match user.is_null() {
            true => _ = users.remove(&attachment),
            false => _ = users.insert(attachment, user.expose_provenance()),
        }
    }
}

/// Makes a key manager. Call this after the process has forked for the last time, and in the network namespace of the sockets.
///
/// Error: WIRESEAL_STATUS_SYSTEM if the process has no descriptor left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_new(manager: *mut *mut wireseal_manager) -> wireseal_status {
    // SAFETY: what C promises of the pointer.
    unsafe {
        keep(manager, || {
            let keys = KeyManager::default();
            let timer = keys.step_timer().map_err(|_| Status::System)?;
            Ok(Manager { keys, timer, expired: Mutex::default(), users: Arc::default() })
        })
    }
}

/// Ends a key manager. Remove its descriptor from your event loop first. The sockets keep the keys that they have. End the attachments, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_end(manager: *mut wireseal_manager) -> wireseal_status {
    end(manager)
}

/// Writes the manager's descriptor to `*fd`, for poll(), epoll, libevent and the like. It is readable when a step is due: a key's lifetime
/// begins or ends, a thread has changed a peer, the clock was set, or 30 seconds have passed. Then call wireseal_manager_step().
///
/// The descriptor belongs to the manager: do not read from it or close it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_fd(
    manager: *const wireseal_manager,
    fd: *mut c_int,
) -> wireseal_status {
    with(manager, |manager| {
        // SAFETY: what C promises of the pointer.
        let mut place = unsafe { place(fd)? };
        place.write(manager.timer.as_fd().as_raw_fd());
        Ok(())
    })
}

/// Writes to `*unix_ms` when the next step is due, for an event loop with its own timers: milliseconds since 1970-01-01T00:00:00Z, by
/// CLOCK_REALTIME. A time in the past means now; so does 0, before the first step. Ask again after each step, each change of peers and each
/// attached socket. It does not notice that the clock was set, so sleep for a few seconds at most.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_deadline(
    manager: *const wireseal_manager,
    unix_ms: *mut i64,
) -> wireseal_status {
    with(manager, |manager| {
        // SAFETY: what C promises of the pointer.
        let mut place = unsafe { place(unix_ms)? };
        place.write(manager.timer.due().unix_seconds().max(0) * 1000);
        Ok(())
    })
}

/// Takes a step, if one is due: puts the keys that are valid now on each socket that needs them, removes those that are not, and reports what
/// it found and did. Afterwards the descriptor is not readable until the next step is due.
///
/// You may call it at any time, even if no step is due: every call checks whether listening sockets have refused segments with a wrong MAC, and
/// reports them. It makes a few system calls for each socket that needs a step.
/// Linux takes some milliseconds to delete a key from a connection, and the call waits for it, once for each such key. If your event loop must
/// not wait, call this function in a thread of its own that polls the descriptor and does nothing else. Only wireseal_manager_change() with
/// WIRESEAL_CHANGE_DRY_RUN and wireseal_attachment_keys() wait for a step in progress; no other function does.
///
/// `report`: called for each report, after the step, in this thread; null if you use wireseal_attachment_state() instead. It must return: no
/// longjmp(), no C++ exception.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_step(
    manager: *const wireseal_manager,
    report: wireseal_report_callback,
    context: *mut c_void,
) -> wireseal_status {
    with(manager, |manager| {
        let Some(step) = manager.timer.step() else { return Ok(()) };
        for of in manager.reports(&step) {
            // SAFETY: what C promises of its callback.
            unsafe { of.pass(report, context) };
        }
        Ok(())
    })
}

/// Attaches a socket that listens, or will, and serves only the manager's peers: it gets the keys of all of them, and refuses unsigned segments
/// from everybody else. Attach it before listen(): anyone who connects before gets in unsigned.
///
/// The manager has a duplicate of the descriptor until wireseal_attachment_end(): until then, closing yours does not close the socket.
/// `message`: as for wireseal_manager_set_peer().
///
/// Errors: WIRESEAL_STATUS_ALREADY_ATTACHED; and those of wireseal_socket_add_key(), after which you must not listen on the socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_attach_listener(
    manager: *const wireseal_manager,
    fd: c_int,
    message: *mut c_char,
    message_size: usize,
    attachment: *mut *mut wireseal_attachment,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor.
    unsafe {
        attach(manager, fd, message, message_size, attachment, |manager, socket| {
            Ok(manager.attach(&socket, Timestamp::now()))
        })
    }
}

/// Attaches a socket that listens, or will, and also serves peers that the manager does not have, with TCP-MD5 or with nothing. The manager's
/// peers are still protected.
///
/// Call wireseal_manager_attach_accepted() for every connection that it accepts. If that returns WIRESEAL_STATUS_NO_PEER, the other end is no
/// peer of the manager's, and you may serve it; on any other error reset the connection.
/// `message` and the duplicate: as for wireseal_manager_attach_listener().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_attach_mixed(
    manager: *const wireseal_manager,
    fd: c_int,
    message: *mut c_char,
    message_size: usize,
    attachment: *mut *mut wireseal_attachment,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor.
    unsafe {
        attach(manager, fd, message, message_size, attachment, |manager, socket| {
            Ok(manager.attach_mixed(&socket, Timestamp::now()))
        })
    }
}

/// Attaches a socket that will connect to `remote`: it gets the keys of this peer. Call it before connect(). If the peer is in a VRF, first
/// bind the socket to that.
///
/// `interface_index`: the index of the interface of a link-local address (`sin6_scope_id`), or 0.
/// `message` and the duplicate: as for wireseal_manager_attach_listener().
///
/// Errors, after which you must not connect: WIRESEAL_STATUS_NO_PEER; _NO_KEY if no key of the peer is valid for sending now; and those of
/// wireseal_manager_attach_listener().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_attach_connecting(
    manager: *const wireseal_manager,
    fd: c_int,
    remote: *const wireseal_address,
    interface_index: u32,
    message: *mut c_char,
    message_size: usize,
    attachment: *mut *mut wireseal_attachment,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor.
    unsafe {
        attach(manager, fd, message, message_size, attachment, |manager, socket| {
            let remote = IpAddr::try_from(given(remote)?)?;
            let remote = match remote {
                IpAddr::V6(address) => SocketAddrV6::new(address, 0, 0, interface_index).into(),
                IpAddr::V4(address) => SocketAddr::new(address.into(), 0),
            };
            Ok(manager.attach_connecting(&socket, remote, Timestamp::now()))
        })
    }
}

/// Attaches a connection that was accepted from `remote`. It gets its peer's keys, in place of those from the handshake.
///
/// On any error reset the connection (SO_LINGER with 0 seconds, and close) without reading from it: its data may come from somebody who has no
/// key, or has another peer's. The only exception is at wireseal_manager_attach_mixed().
/// `message` and the duplicate: as for wireseal_manager_attach_listener().
///
/// Errors: WIRESEAL_STATUS_NO_PEER, _OPENED_UNSIGNED, _WRONG_KEY, _CONNECTION_ENDED, _NO_KEY, and those of wireseal_manager_attach_listener().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_manager_attach_accepted(
    manager: *const wireseal_manager,
    fd: c_int,
    remote: *const wireseal_address,
    message: *mut c_char,
    message_size: usize,
    attachment: *mut *mut wireseal_attachment,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor.
    unsafe {
        attach(manager, fd, message, message_size, attachment, |manager, socket| {
            let remote = IpAddr::try_from(given(remote)?)?;
            Ok(manager.attach_accepted(&socket, remote, Timestamp::now()))
        })
    }
}

/// Writes what the manager's last step found out about a socket to `*state`. It makes no system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_attachment_state(
    attachment: *const wireseal_attachment,
    state: *mut wireseal_socket_state,
) -> wireseal_status {
    with(attachment, |attachment| {
        // SAFETY: what C promises of the pointer.
        let mut place = unsafe { place(state)? };
        let number = attachment.attachment.number();
        let user = attachment.users.of(number);
        place.write(wireseal_socket_state::of(number, &attachment.attachment.state(), user));
        Ok(())
    })
}

/// Sets `user` in a socket's states and reports: a pointer to your session, for example. The library never dereferences it. If another thread
/// takes a step, its reports may still have null until this call returns, and still have the pointer after the attachment has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_attachment_set_user(
    attachment: *const wireseal_attachment,
    user: *mut c_void,
) -> wireseal_status {
    with(attachment, |attachment| {
        attachment.users.set(attachment.attachment.number(), user);
        Ok(())
    })
}

/// Lists the keys that are on an attached socket now, as wireseal_socket_keys() does, without its descriptor. It waits for a step of the socket
/// that is in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_attachment_keys(
    attachment: *const wireseal_attachment,
    message: *mut c_char,
    message_size: usize,
    keys: *mut wireseal_socket_key,
    room: usize,
    count: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer; `MaybeUninit` takes any octets.
    unsafe {
        telling(message, message_size, |message| {
            with(attachment, |attachment| {
                let (message, room, count) = (message?, items_mut(keys.cast(), room)?, place(count)?);
                list(&message.told(attachment.attachment.keys())?, room, count)
            })
        })
    }
}

/// Ends an attachment: the manager closes its duplicate of the descriptor, and the socket keeps the keys that it has. End it before you close
/// your descriptor. It does not wait for a step in progress. It waits only if it closes the last descriptor of a socket with SO_LINGER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_attachment_end(attachment: *mut wireseal_attachment) -> wireseal_status {
    end(attachment)
}

impl Manager {
    /// What to tell C about a step: its sockets, and the peers that have run out of keys since the one before.
    fn reports(&self, step: &StepReport) -> Vec<Report> {
        let mut told = self.expired.lock().unwrap_or_else(PoisonError::into_inner);
        let new = step.expired.iter().filter(|peer| told.binary_search(peer).is_err());
        let peers = new.map(|peer| Report::of_expired(*peer, step.generation));
        let reports = step.sockets.iter().map(|socket| Report::of(socket, self.users.of(socket.attachment)));
        let reports = reports.chain(peers).collect();
        told.clone_from(&step.expired);
        reports
    }
}

/// Attaches a socket, and tells C why that failed.
///
/// # Safety
/// What C promises of each pointer; and that it does not close the descriptor meanwhile.
unsafe fn attach(
    manager: *const wireseal_manager,
    fd: c_int,
    message: *mut c_char,
    message_size: usize,
    attachment: *mut *mut wireseal_attachment,
    call: impl FnOnce(&KeyManager, BorrowedFd<'_>) -> Result<Result<Attachment, Error>, Status>,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        telling(message, message_size, |message| {
            keep(attachment, || {
                using(manager, |manager| {
                    let message = message?;
                    let socket = message.told(descriptor(fd))?;
                    let attachment = message.told(call(&manager.keys, socket)?)?;
                    Ok(Attached { attachment, users: Arc::clone(&manager.users) })
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use wireseal_linux::{Generation, Refused, SocketReport, SocketState};

    use super::*;
    use crate::report::wireseal_report;

    fn made() -> *mut wireseal_manager {
        let mut manager = null_mut();
        // SAFETY: `manager` is a variable.
        assert_eq!(unsafe { wireseal_manager_new(&raw mut manager) }, Status::Ok);
        manager
    }

    #[test]
    fn a_fault_while_a_socket_is_attached_breaks_the_manager() {
        let (manager, mut attachment, mut fd) = (made(), null_mut(), 0);
        // SAFETY: variables; the descriptor is standard input.
        let status =
            unsafe { attach(manager, 0, null_mut(), 0, &raw mut attachment, |_, _| panic!("a fault")) };
        assert!(status == Status::Internal && attachment.is_null());
        // SAFETY: a variable.
        assert_eq!(unsafe { wireseal_manager_fd(manager, &raw mut fd) }, Status::Internal);
        // SAFETY: a handle.
        assert_eq!(unsafe { wireseal_manager_end(manager) }, Status::Ok);
    }

    #[test]
    fn a_report_has_what_c_keeps_with_the_socket() {
        unsafe extern "C" fn look(seen: *mut c_void, report: *const wireseal_report) {
            // SAFETY: what the test passes, and the report.
            unsafe { (*seen.cast::<Vec<*mut c_void>>()).push((*report).state.user) };
        }
        let mut session = 5;
        let session: *mut c_void = (&raw mut session).cast();
        let socket = |attachment| SocketReport {
            attachment,
            kind: None,
            state: SocketState::default(),
            refused: Refused::default(),
            done: Vec::new(),
            failed: Vec::new(),
            overdue: Vec::new(),
            insists_on: None,
            policy: Vec::new(),
        };
        let step = StepReport {
            sockets: [7, 8].map(socket).into(),
            expired: ["192.0.2.7".parse().unwrap()].into(),
            next_step: None,
            generation: Generation::default(),
        };
        let manager = made();
        let status = with(manager, |manager| {
            let told = || {
                let mut seen: Vec<*mut c_void> = Vec::new();
                manager.expired.lock().unwrap().clear();
                // SAFETY: `seen` is a variable.
                manager
                    .reports(&step)
                    .into_iter()
                    .for_each(|of| unsafe { of.pass(Some(look), (&raw mut seen).cast()) });
                seen
            };
            manager.users.set(8, session);
            assert_eq!(told(), [null_mut(), session, null_mut()]);
            manager.users.set(8, null_mut());
            assert_eq!(told(), [null_mut(); 3]);
            Ok(())
        });
        // SAFETY: a handle.
        assert_eq!((status, unsafe { wireseal_manager_end(manager) }), (Status::Ok, Status::Ok));
    }
}
