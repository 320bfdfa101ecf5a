//! Calls of `connect` on TCP sockets, and answers to calls. Each `connect` is made in a thread of its own, because it may block for
//! minutes, and the program may make a socket blocking at any moment.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, connect, shutdown, sockopt};
use wireseal_linux::{CallAnswer, CallListener};

use super::protected::{Kind, kind_of, remote_of};
use crate::instance::lock;

/// What a call has returned.
pub(super) type Made = Result<(), Errno>;

/// How the program's call is answered.
pub(super) enum Answer {
    /// The result of the supervisor's call.
    Made(Made),
    /// The kernel makes the call itself.
    Unprotected,
    /// Not answered yet.
    Later,
}

/// A call of the program that waits for its answer.
#[derive(Clone)]
pub(super) struct Caller {
    /// The listener that it came from.
    pub(super) notifications: Arc<CallListener>,
    pub(super) call: u64,
}

impl Caller {
    /// Whether it still waits.
    pub(super) fn waits(&self) -> bool {
        self.notifications.waits(self.call)
    }

    /// Answers it; returns whether it got the answer.
    pub(super) fn answer(&self, answer: &Answer) -> bool {
        let answer = match answer {
            Answer::Made(Ok(())) => CallAnswer::Done,
            Answer::Made(Err(error)) => CallAnswer::Failed(error.raw_os_error()),
            Answer::Unprotected => CallAnswer::Passes,
            Answer::Later => return false,
        };
        // This fails if the caller was killed, or interrupted by a signal.
        self.notifications.answer(self.call, answer).is_ok()
    }
}

/// Connections that are being opened, and results that no caller has got yet.
#[derive(Clone, Default)]
pub(super) struct Connects(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    opening: Vec<Opening>,
    /// By inode, the result of the latest call whose caller was interrupted by a signal before it got the answer. The next caller gets it:
    /// the kernel restarts most calls, and programs repeat those that fail with EINTR. If the interruption comes in the microsecond of the
    /// answer, the kernel does not tell that the caller missed it.
    unheard: HashMap<u64, Made>,
}

/// A call of `connect` that is being made.
struct Opening {
    inode: u64,
    /// `None` once the call has been made.
    socket: Option<Arc<OwnedFd>>,
    /// Whether the socket was blocking when the call began.
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
    /// To this address: it is in no connection.
    To(SocketAddr),
    /// Without an address: it has begun to connect, or listens.
    GoOn,
}

impl How {
    /// How to connect a socket whose caller wants this address.
    pub(super) fn of(socket: &OwnedFd, address: Result<SocketAddr, Errno>) -> Result<Self, Errno> {
        // A socket in its handshake keeps its keys. Multipath TCP and SMC have no keys, and show their state differently.
        if kind_of(socket) == Kind::Tcp && has_begun(socket) { Ok(Self::GoOn) } else { address.map(Self::To) }
    }

    fn make(self, socket: &OwnedFd) -> Made {
        match self {
            Self::To(remote) => connect(socket, &remote),
            Self::GoOn => {
                // The kernel ignores the address here. It has the other family, so that it connects nothing if another thread dissolves the
                // connection first.
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
    // A connection that is shut down in both directions polls as hung up, too.
    !is_asked || !events[0].revents().contains(PollFlags::HUP) || remote_of(socket).is_some()
}

impl Connects {
    /// Joins a call to the one in progress for its socket, or gives it a result that no caller has got; `None` if there is neither.
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
        // Dropped before the answer: the program may close its own descriptor at once, and that must be the last one, since closing may
        // block.
        drop(socket);
        let mut state = lock(&self.0);
        let callers = state.take(inode).map(|opening| opening.callers).unwrap_or_default();
        let heard = callers.iter().filter(|caller| caller.answer(&Answer::Made(made))).count();
        if heard == 0 {
            state.unheard.insert(inode, made);
        }
    }

    /// Forgets a result that no caller has got: the socket's connection is dissolved.
    pub(super) fn forget(&self, inode: u64) {
        lock(&self.0).unheard.remove(&inode);
    }

    /// Gives up connections that no caller waits for and whose socket no process has open. A socket that is on its way in a message is open
    /// in no process either, but then its caller waits.
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
