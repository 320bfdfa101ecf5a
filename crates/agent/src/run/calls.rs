//! Answering the program's calls: the supervisor makes each itself, on a duplicate of the socket.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{connect_unspec, listen};
use rustix::process::Signal;
use wireseal_linux::{CallListener, CallNotification};

use super::connects::{Answer, Caller, Connects, How};
use super::process::{self, ADDRESS_OCTETS, Address, BEFORE_MD5_SECRET, Family, MD5_KEY, Opened, pid_of};
use super::protected::{Kind, inode_of, kind_of};
use super::signals::pass;
use super::sockets::Sockets;

/// The program's calls and its sockets.
pub(super) struct Calls {
    /// The filter's listener.
    notifications: Arc<CallListener>,
    pub(super) sockets: Sockets,
    family: Family,
    connects: Connects,
}

impl Calls {
    pub(super) fn new(notifications: CallListener, sockets: Sockets, family: Family) -> Self {
        Self { notifications: Arc::new(notifications), sockets, family, connects: Connects::default() }
    }

    /// The filter's listener, to poll.
    pub(super) fn notifications(&self) -> Arc<CallListener> {
        Arc::clone(&self.notifications)
    }

    /// Passes a signal on to all processes of the program.
    pub(super) fn pass(&mut self, signal: Signal) {
        self.family.members().unwrap_or_default().iter().filter_map(pid_of).for_each(|pid| pass(signal, pid));
    }

    /// Receives a call, and answers it or starts a thread that will.
    pub(super) fn answer_next(&mut self) {
        // The caller may have been killed in the meantime.
        let Ok(request) = self.notifications.receive() else { return };
        let caller = Caller { notifications: self.notifications(), call: request.id };
        self.family.add(request.thread.cast_signed(), || caller.waits());
        let call = Call { request, caller };
        let answer = match call.request.call {
            libc::SYS_connect => self.connect(&call),
            libc::SYS_listen => self.listen(&call),
            _ => self.set_md5_key(&call),
        };
        let answer = answer.unwrap_or_else(|error| Answer::Made(Err(error)));
        call.caller.answer(&answer);
    }

    /// Installs and removes keys as the key chains say, and gives up connections that nobody waits for.
    pub(super) fn tick(&mut self) {
        match self.family.sockets() {
            Ok(open) => {
                self.sockets.step(&open);
                self.connects.give_up(&open);
            }
            Err(error) => tracing::error!(%error, "cannot look for the program's sockets"),
        }
    }

    fn connect(&mut self, call: &Call) -> Result<Answer, Errno> {
        let request = &call.request;
        let Some(socket) = call.tcp_socket()? else { return Ok(Answer::Unprotected) };
        let length = usize::try_from(request.arguments[2] & 0xffff_ffff).unwrap_or(usize::MAX);
        if !ADDRESS_OCTETS.contains(&length) {
            return Err(Errno::INVAL);
        }
        let octets = process::memory(request.thread.cast_signed(), request.arguments[1], length);
        let octets = octets.map_err(|_| Errno::FAULT)?;
        // If the caller has ended, the memory that was read may have been another process's.
        call.check()?;
        let inode = inode_of(&socket)?;
        let address = match process::parse_address(&octets) {
            Ok(Address::Dissolve) => {
                self.connects.forget(inode);
                self.sockets.forget(&socket);
                return Ok(Answer::Made(connect_unspec(&socket)));
            }
            Ok(Address::Remote(remote)) => Ok(remote),
            Err(error) => Err(error),
        };
        if let Some(answer) = self.connects.join(inode, &socket, &call.caller)? {
            return Ok(answer);
        }
        let how = How::of(&socket, address)?;
        if let How::To(remote) = how {
            self.sockets.protect_connecting(&socket, remote)?;
        }
        self.connects.start(inode, socket, how, call.caller.clone())?;
        Ok(Answer::Later)
    }

    fn listen(&mut self, call: &Call) -> Result<Answer, Errno> {
        let Some(socket) = call.tcp_socket()? else { return Ok(Answer::Unprotected) };
        let is_protected = self.sockets.protect_listener(&socket)?;
        let backlog = call.request.arguments[1] as u32;
        let result = listen(&socket, backlog.cast_signed());
        if !is_protected && result.is_ok() {
            // Another thread may have bound it meanwhile.
            self.sockets.protect_listener(&socket)?;
        }
        Ok(Answer::Made(result))
    }

    /// Refuses a TCP-MD5 key for a peer, and leaves others to the kernel. If another thread changes the memory meanwhile, the kernel still
    /// takes no TCP-MD5 key for an address that has TCP-AO keys on the socket, nor the other way round.
    fn set_md5_key(&self, call: &Call) -> Result<Answer, Errno> {
        let [_, _, option, address, length, _] = call.request.arguments;
        if call.tcp_socket()?.is_none() || (length as u32) < MD5_KEY {
            return Ok(Answer::Unprotected);
        }
        let octets = process::memory(call.request.thread.cast_signed(), address, BEFORE_MD5_SECRET);
        call.check()?;
        let peer = octets.ok().and_then(|octets| process::md5_peer(octets.first_chunk()?, option as u32));
        match peer {
            Some(peer) if self.sockets.refuses_md5(peer) => Err(Errno::NOPROTOOPT),
            _ => Ok(Answer::Unprotected),
        }
    }
}

/// A call of the program.
struct Call {
    request: CallNotification,
    caller: Caller,
}

impl Call {
    /// A duplicate of its socket; `None` if that has nothing to do with TCP.
    fn tcp_socket(&self) -> Result<Option<OwnedFd>, Errno> {
        let request = &self.request;
        let opened = Opened::of_thread(request.thread.cast_signed());
        let descriptor = (request.arguments[0] as u32).cast_signed();
        let socket = opened.and_then(|process| process.duplicate(descriptor)).map_err(|error| {
            if error == Errno::BADF {
                return error;
            }
            tracing::error!(pid = request.thread, %error, "cannot take a duplicate of the program's socket (CAP_SYS_PTRACE?)");
            Errno::KEYREJECTED
        })?;
        self.check()?;
        Ok((kind_of(&socket) != Kind::Other).then_some(socket))
    }

    /// An error if the caller no longer waits.
    fn check(&self) -> Result<(), Errno> {
        if self.caller.waits() { Ok(()) } else { Err(Errno::INTR) }
    }
}
