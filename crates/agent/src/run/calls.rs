//! Answering the program's calls: each is made by the supervisor itself, on a duplicate of the socket.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libseccomp::{ScmpNotifReq, ScmpNotifResp, ScmpNotifRespFlags, ScmpSyscall, notify_id_valid};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{Shutdown, connect, connect_unspec, listen, shutdown};

use super::addresses::{self, Address};
use super::filter;
use super::process::{self, Family, Opened};
use super::socket::{Kind, inode_of, kind_of};
use super::sockets::Sockets;

/// What the program's call returns.
enum Answer {
    /// This, from the supervisor.
    Made(Result<(), Errno>),
    /// What the kernel says to it.
    Unprotected,
    /// It is answered later.
    Later,
}

/// The program's calls and its sockets.
pub(super) struct Calls {
    /// Where calls are announced: one for the processes that have a filter in common.
    notifications: Vec<Arc<OwnedFd>>,
    pub(super) sockets: Sockets,
    family: Family,
    /// Connections that are being opened while the program waits.
    waiting: Arc<Mutex<Vec<Waiting>>>,
    newest: Newest,
}

/// A call that waits until its connection is open.
struct Waiting {
    /// The newest call for this connection.
    call: u64,
    inode: u64,
    socket: Arc<OwnedFd>,
    notifications: Arc<OwnedFd>,
}

/// By socket, what the newest `connect` came to. A caller that is interrupted by a signal before it hears of it calls again at once; the
/// kernel does not say which caller has heard.
type Newest = Arc<Mutex<HashMap<u64, (Instant, Result<(), Errno>)>>>;

/// For how long such a call is expected.
const AGAIN: Duration = Duration::from_secs(1);

/// A call of `connect` that is being made.
struct Connect {
    call: u64,
    inode: u64,
    remote: SocketAddr,
    notifications: Arc<OwnedFd>,
    newest: Newest,
}

impl Connect {
    fn make(&self, socket: OwnedFd) {
        let result = connect(&socket, &self.remote);
        drop(socket);
        self.answer(result);
    }

    fn answer(&self, result: Result<(), Errno>) {
        let mut newest = lock(&self.newest);
        // The call that was interrupted has done what this one was to do.
        let result = match (newest.get(&self.inode), result) {
            (Some((_, before @ Err(Errno::INPROGRESS))), Err(Errno::ALREADY)) => *before,
            (Some((_, before @ Ok(()))), Err(Errno::ISCONN)) => *before,
            (_, result) => result,
        };
        newest.insert(self.inode, (Instant::now(), result));
        drop(newest);
        respond(self.notifications.as_raw_fd(), self.call, &Answer::Made(result));
    }
}

fn take(waiting: &mut Vec<Waiting>, inode: u64) -> Option<Waiting> {
    let index = waiting.iter().position(|waiting| waiting.inode == inode)?;
    Some(waiting.swap_remove(index))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    pub(super) fn new(
        notifications: impl IntoIterator<Item = OwnedFd>,
        sockets: Sockets,
        family: Family,
    ) -> Self {
        Self {
            notifications: notifications.into_iter().map(Arc::new).collect(),
            sockets,
            family,
            waiting: Arc::default(),
            newest: Arc::default(),
        }
    }

    /// Where calls are announced.
    pub(super) fn notifications(&self) -> Vec<Arc<OwnedFd>> {
        self.notifications.clone()
    }

    /// Nobody is left who could make calls there.
    pub(super) fn let_go(&mut self, notifications: &Arc<OwnedFd>) {
        self.notifications.retain(|other| !Arc::ptr_eq(other, notifications));
    }

    /// Whether nobody is left who could make calls.
    pub(super) fn is_over(&self) -> bool {
        self.notifications.is_empty()
    }

    /// All processes of the program.
    pub(super) const fn family(&mut self) -> &mut Family {
        &mut self.family
    }

    /// Receives a call and answers it, or starts what will.
    pub(super) fn answer_next(&mut self, from: &Arc<OwnedFd>) {
        // The caller may have been killed in the meantime.
        let Ok(request) = ScmpNotifReq::receive(from.as_raw_fd()) else { return };
        self.family.add(request.pid.cast_signed());
        let call = Call { request, from };
        let is_connect = is_call(&call.request, filter::CONNECT);
        let answer = if is_connect { self.connect(&call) } else { self.listen(&call) };
        let answer = answer.unwrap_or_else(|error| Answer::Made(Err(error)));
        // What `connect` has come to is answered there.
        respond(from.as_raw_fd(), call.request.id, &answer);
    }

    /// Puts keys on the listeners that the program has already. Its sessions with peers go on unsigned, and the log names them.
    pub(super) fn take_over(&mut self) {
        match self.family.sockets() {
            Ok(open) => self.sockets.take_over(&open),
            Err(error) => tracing::error!(%error, "cannot look for the program's sockets"),
        }
    }

    /// Carries the key chains out, and gives up connections that nobody waits for any more.
    pub(super) fn tick(&mut self) {
        match self.family.sockets() {
            Ok(open) => {
                self.sockets.step(&open);
                lock(&self.newest).retain(|_, (at, _)| at.elapsed() < AGAIN);
                // Descriptors of a thread with a table of its own are not seen, but the thread waits.
                let is_abandoned = |waiting: &&Waiting| {
                    !open.contains_key(&waiting.inode)
                        && notify_id_valid(waiting.notifications.as_raw_fd(), waiting.call).is_err()
                };
                for abandoned in lock(&self.waiting).iter().filter(is_abandoned) {
                    // This ends the thread's call.
                    let _ = shutdown(&*abandoned.socket, Shutdown::Both);
                }
            }
            Err(error) => tracing::error!(%error, "cannot look for the program's sockets"),
        }
    }

    fn connect(&mut self, call: &Call<'_>) -> Result<Answer, Errno> {
        let request = &call.request;
        let Some(socket) = call.tcp_socket()? else { return Ok(Answer::Unprotected) };
        let length = usize::try_from(request.data.args[2] & 0xffff_ffff).unwrap_or(usize::MAX);
        if length > addresses::MOST {
            return Err(Errno::INVAL);
        }
        let octets = process::memory(request.pid.cast_signed(), request.data.args[1], length);
        let octets = octets.map_err(|_| Errno::FAULT)?;
        // Otherwise the memory may have been another process's.
        call.check()?;
        match addresses::parse(&octets)? {
            Address::Dissolve => {
                self.sockets.forget(&socket);
                Ok(Answer::Made(connect_unspec(&socket)))
            }
            Address::Remote(remote) => {
                self.sockets.protect_connecting(&socket, remote)?;
                let connect = Connect {
                    call: request.id,
                    inode: inode_of(&socket)?,
                    remote,
                    notifications: Arc::clone(call.from),
                    newest: Arc::clone(&self.newest),
                };
                if fcntl_getfl(&socket)?.contains(OFlags::NONBLOCK) {
                    connect.make(socket);
                } else {
                    self.connect_later(connect, socket)?;
                }
                Ok(Answer::Later)
            }
        }
    }

    /// Makes a call that waits until the connection is open, in a thread of its own. If one waits for this connection already, its caller
    /// was interrupted by a signal and calls again: that one will answer this call.
    fn connect_later(&self, call: Connect, socket: OwnedFd) -> Result<(), Errno> {
        let inode = call.inode;
        let socket = Arc::new(socket);
        let mut waiting = lock(&self.waiting);
        if let Some(earlier) = waiting.iter_mut().find(|waiting| waiting.inode == inode) {
            (earlier.call, earlier.notifications) = (call.call, Arc::clone(&call.notifications));
            return Ok(());
        }
        let notifications = Arc::clone(&call.notifications);
        waiting.push(Waiting { call: call.call, inode, socket: Arc::clone(&socket), notifications });
        drop(waiting);
        let waiting = Arc::clone(&self.waiting);
        let thread = thread::Builder::new().name("connect".to_owned()).spawn(move || {
            let result = connect(&*socket, &call.remote);
            let newest = take(&mut lock(&waiting), inode).map_or(call.call, |waiting| waiting.call);
            // Before the answer, so that the program can close the connection at once.
            drop(socket);
            Connect { call: newest, ..call }.answer(result);
        });
        thread.map(drop).map_err(|_| {
            take(&mut lock(&self.waiting), inode);
            Errno::NOMEM
        })
    }

    fn listen(&mut self, call: &Call<'_>) -> Result<Answer, Errno> {
        let Some(socket) = call.tcp_socket()? else { return Ok(Answer::Unprotected) };
        let is_protected = self.sockets.protect_listener(&socket)?;
        let backlog = call.request.data.args[1] as u32;
        let result = listen(&socket, backlog.cast_signed());
        if !is_protected && result.is_ok() {
            // Another thread may have bound it meanwhile.
            self.sockets.protect_listener(&socket)?;
        }
        Ok(Answer::Made(result))
    }
}

/// A call of the program.
struct Call<'a> {
    request: ScmpNotifReq,
    /// Where it was announced.
    from: &'a Arc<OwnedFd>,
}

impl Call<'_> {
    /// A duplicate of the socket that it is about; `None` if that has nothing to do with TCP.
    fn tcp_socket(&self) -> Result<Option<OwnedFd>, Errno> {
        let request = &self.request;
        let opened = Opened::of_thread(request.pid.cast_signed());
        let descriptor = (request.data.args[0] as u32).cast_signed();
        let socket = opened.and_then(|process| process.duplicate(descriptor)).map_err(|error| {
            if error == Errno::BADF {
                return error;
            }
            tracing::error!(pid = request.pid, %error, "cannot take a duplicate of the program's socket (CAP_SYS_PTRACE?)");
            Errno::KEYREJECTED
        })?;
        self.check()?;
        Ok((kind_of(&socket) != Kind::Other).then_some(socket))
    }

    /// Whether the caller still waits.
    fn check(&self) -> Result<(), Errno> {
        notify_id_valid(self.from.as_raw_fd(), self.request.id).map_err(|_| Errno::INTR)
    }
}

fn is_call(request: &ScmpNotifReq, name: &str) -> bool {
    ScmpSyscall::from_name(name).is_ok_and(|call| call == request.data.syscall)
}

fn respond(notifications: RawFd, call: u64, answer: &Answer) {
    let none = ScmpNotifRespFlags::empty();
    let response = match answer {
        Answer::Made(Ok(())) => ScmpNotifResp::new_val(call, 0, none),
        Answer::Made(Err(error)) => ScmpNotifResp::new_error(call, -error.raw_os_error(), none),
        Answer::Unprotected => ScmpNotifResp::new_continue(call, none),
        Answer::Later => return,
    };
    // The caller may have been killed, or interrupted by a signal.
    let _ = response.respond(notifications);
}
