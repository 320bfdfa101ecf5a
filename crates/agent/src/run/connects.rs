//! Calls of `connect` on TCP sockets. Each is made in a thread of its own: it may wait for minutes, and whether it waits is the program's
//! to change at any moment.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, connect, shutdown, sockopt};

use super::answer::{Answer, Caller, Made};
use super::socket::{Kind, kind_of, remote_of};

/// Connections that are being opened, and what nobody has heard yet.
#[derive(Clone, Default)]
pub(super) struct Connects(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    opening: Vec<Opening>,
    /// By socket, what its last call has come to if its caller was interrupted by a signal before it heard. The next caller hears it:
    /// the kernel makes most callers call again, and those that fail with EINTR hear it when they call again themselves. A caller that is
    /// interrupted in the very microsecond in which it is answered has not heard either, but the kernel does not say so.
    unheard: HashMap<u64, Made>,
}

/// A call that is being made.
struct Opening {
    inode: u64,
    /// Until the call has been made.
    socket: Option<Arc<OwnedFd>>,
    /// Whether the socket waited when the call began.
    is_blocking: bool,
    callers: Vec<Caller>,
}

impl State {
    fn opening(&mut self, inode: u64) -> Option<&mut Opening> {
        self.opening.iter_mut().find(|opening| opening.inode == inode)
    }

    fn take(&mut self, inode: u64) -> Option<Opening> {
        let index = self.opening.iter().position(|opening| opening.inode == inode)?;
        Some(self.opening.swap_remove(index))
    }
}

/// How a socket is connected.
#[derive(Clone, Copy)]
pub(super) enum How {
    /// It is not yet.
    To(SocketAddr),
    /// It has begun to connect, or listens, and the kernel looks at no address.
    GoOn,
}

impl How {
    /// Where a socket is connected to; `address` is what the caller wants.
    pub(super) fn of(socket: &OwnedFd, address: Result<SocketAddr, Errno>) -> Result<Self, Errno> {
        // Otherwise its keys would be exchanged in the middle of its handshake. Multipath TCP and SMC, without keys, show their state differently.
        if kind_of(socket) == Kind::Tcp && has_begun(socket) { Ok(Self::GoOn) } else { address.map(Self::To) }
    }

    fn make(self, socket: &OwnedFd) -> Made {
        match self {
            Self::To(remote) => connect(socket, &remote),
            Self::GoOn => {
                // An address that it cannot be connected to, whatever has become of it meanwhile.
                let other: SocketAddr = match sockopt::socket_domain(socket)? {
                    AddressFamily::INET => (Ipv6Addr::UNSPECIFIED, 0).into(),
                    _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
                };
                connect(socket, &other).map_err(|error| match error {
                    // Another thread has dissolved its connection.
                    Errno::AFNOSUPPORT | Errno::INVAL => Errno::CONNABORTED,
                    error => error,
                })
            }
        }
    }
}

/// Whether a TCP socket is in any state but CLOSED.
fn has_begun(socket: &OwnedFd) -> bool {
    let mut events = [PollFd::new(socket, PollFlags::empty())];
    let is_asked = poll(&mut events, Some(&Timespec::default())).is_ok();
    // A connection that is shut down in both directions has hung up, too.
    !is_asked || !events[0].revents().contains(PollFlags::HUP) || remote_of(socket).is_some()
}

impl Connects {
    /// What a call comes to that is not the first for a socket: what the first one comes to, or has come to. `None` if it is the first.
    pub(super) fn join(
        &self,
        inode: u64,
        socket: &OwnedFd,
        caller: &Caller,
    ) -> Result<Option<Answer>, Errno> {
        let mut state = lock(&self.0);
        if let Some(made) = state.unheard.remove(&inode) {
            return Ok(Some(Answer::Made(made)));
        }
        let Some(opening) = state.opening(inode) else {
            return Ok(None);
        };
        if opening.is_blocking && !is_blocking(socket)? {
            return Err(Errno::ALREADY);
        }
        opening.callers.retain(Caller::waits);
        opening.callers.push(caller.clone());
        Ok(Some(Answer::Later))
    }

    /// Makes a call and answers it.
    pub(super) fn start(&self, inode: u64, socket: OwnedFd, how: How, caller: Caller) -> Result<(), Errno> {
        let is_blocking = is_blocking(&socket)?;
        let socket = Arc::new(socket);
        let opening =
            Opening { inode, socket: Some(Arc::clone(&socket)), is_blocking, callers: vec![caller] };
        lock(&self.0).opening.push(opening);
        let connects = self.clone();
        let thread = thread::Builder::new().name("connect".to_owned()).spawn(move || {
            let made = how.make(&socket);
            connects.end(inode, socket, made);
        });
        thread.map(drop).map_err(|_| {
            lock(&self.0).take(inode);
            Errno::NOMEM
        })
    }

    fn end(&self, inode: u64, socket: Arc<OwnedFd>, made: Made) {
        if let Some(opening) = lock(&self.0).opening(inode) {
            opening.socket = None;
        }
        // Before the answer, so that the program can close the connection at once. If it has, this may wait as `close` does.
        drop(socket);
        let mut state = lock(&self.0);
        let callers = state.take(inode).map(|opening| opening.callers).unwrap_or_default();
        let heard = callers.iter().filter(|caller| caller.answer(&Answer::Made(made))).count();
        if heard == 0 {
            state.unheard.insert(inode, made);
        }
    }

    /// A socket is to be connected anew.
    pub(super) fn forget(&self, inode: u64) {
        lock(&self.0).unheard.remove(&inode);
    }

    /// Gives up what nobody waits for any more and no process has open. What is passed to another process in a message is not open, but
    /// who connects it waits.
    pub(super) fn give_up<T>(&self, open: &HashMap<u64, T>) {
        let mut state = lock(&self.0);
        state.unheard.retain(|inode, _| open.contains_key(inode));
        for opening in &state.opening {
            let is_wanted = open.contains_key(&opening.inode) || opening.callers.iter().any(Caller::waits);
            if let Some(socket) = opening.socket.as_ref().filter(|_| !is_wanted) {
                // This ends the thread's call.
                let _ = shutdown(&**socket, Shutdown::Both);
            }
        }
    }
}

fn is_blocking(socket: &OwnedFd) -> Result<bool, Errno> {
    Ok(!fcntl_getfl(socket)?.contains(OFlags::NONBLOCK))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
