//! The sockets of a stack: shared by the driver and the streams, and ignorant of the device.

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::AnySocket;
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use tokio::sync::Notify;

use crate::sync::Locked;

/// Octets of each socket's buffers, one each way; the receive buffer is also the largest window.
const BUFFER: usize = 256 * 1024;

pub(super) struct SocketTable {
    pub(super) sockets: Locked<SocketSet<'static>>,
    /// Sockets without a stream, which stay until TCP has nothing left to say on them.
    finishing: Locked<Vec<SocketHandle>>,
    /// Wakes the driver.
    pub(super) wake: Notify,
    congestion_control: CongestionControl,
}

impl SocketTable {
    pub(super) fn new(congestion_control: CongestionControl) -> Self {
        Self {
            sockets: Locked::new(SocketSet::new(Vec::new())),
            finishing: Locked::default(),
            wake: Notify::new(),
            congestion_control,
        }
    }

    pub(super) fn add(&self) -> SocketHandle {
        let mut socket = Socket::new(SocketBuffer::new(vec![0; BUFFER]), SocketBuffer::new(vec![0; BUFFER]));
        socket.set_congestion_control(self.congestion_control);
        // A BGP speaker hands over whole batches: waiting to fill a segment only delays the last one.
        socket.set_nagle_enabled(false);
        self.sockets.lock().add(socket)
    }

    pub(super) fn tcp<'a>(
        sockets: &'a mut SocketSet<'static>,
        handle: SocketHandle,
    ) -> &'a mut Socket<'static> {
        sockets.get_mut(handle)
    }

    /// Runs `f` on a socket and wakes the driver.
    pub(super) fn with<R>(&self, handle: SocketHandle, f: impl FnOnce(&mut Socket<'static>) -> R) -> R {
        let result = f(Self::tcp(&mut self.sockets.lock(), handle));
        self.wake.notify_one();
        result
    }

    /// Closes a socket in order and forgets it once TCP is through with it.
    pub(super) fn finish(&self, handle: SocketHandle) {
        self.with(handle, Socket::close);
        self.finishing.lock().push(handle);
    }

    pub(super) fn remove_finished(&self, sockets: &mut SocketSet<'static>) {
        self.finishing.lock().retain(|&handle| {
            let socket = Self::tcp(sockets, handle);
            // An aborted socket keeps its addresses until its RST has been sent.
            let done = socket.state() == State::Closed && socket.remote_endpoint().is_none();
            if done {
                sockets.remove(handle);
            }
            !done
        });
    }

    /// Whether no socket has anything left to send.
    pub(super) fn is_idle(&self) -> bool {
        self.states().iter().all(|state| matches!(state, State::Closed | State::Listen | State::TimeWait))
    }

    pub(super) fn states(&self) -> Vec<State> {
        let sockets = self.sockets.lock();
        sockets.iter().filter_map(|(_, socket)| Socket::downcast(socket)).map(Socket::state).collect()
    }
}
