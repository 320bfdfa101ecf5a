//! What the handles, the streams and the driver of a stack share.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::AnySocket;
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant as StackInstant;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use wireseal_smoltcp::AuthenticatedDevice;
use wireseal_tcp_ao::shim::TracingObserver;

use crate::link::Link;

/// The device under every stack.
pub type Device = AuthenticatedDevice<'static, Link, TracingObserver>;

/// Octets of each socket's buffers, one each way; the receive buffer is also the largest window.
const BUFFER: usize = 256 * 1024;
/// How long a stack without users keeps sending what its sockets still owe; also the longest it sleeps.
const LINGER: Duration = Duration::from_secs(1);
/// Wait before asking again a device that had no room; tokio's timer counts milliseconds.
const DEVICE_BUSY: Duration = Duration::from_millis(1);

pub(super) struct Core {
    pub(super) device: Device,
    pub(super) interface: Interface,
    pub(super) sockets: SocketSet<'static>,
    /// Sockets without a stream, which stay until TCP has nothing left to say on them.
    pub(super) finishing: Vec<SocketHandle>,
    pub(super) congestion_control: CongestionControl,
    pub(super) next_port: u16,
}

impl Core {
    pub(super) fn add(&mut self) -> SocketHandle {
        let mut socket = Socket::new(SocketBuffer::new(vec![0; BUFFER]), SocketBuffer::new(vec![0; BUFFER]));
        socket.set_congestion_control(self.congestion_control);
        // A BGP speaker hands over whole batches: waiting to fill a segment only delays the last one.
        socket.set_nagle_enabled(false);
        self.sockets.add(socket)
    }

    /// Runs TCP, and says when to do it again at the latest.
    fn poll(&mut self, now: StackInstant) -> Option<Duration> {
        self.interface.poll(now, &mut self.device, &mut self.sockets);
        let sockets = &mut self.sockets;
        self.finishing.retain(|&handle| {
            let socket = sockets.get::<Socket<'_>>(handle);
            // An aborted socket keeps its addresses until its RST has been sent.
            let is_done = socket.state() == State::Closed && socket.remote_endpoint().is_none();
            if is_done {
                sockets.remove(handle);
            }
            !is_done
        });
        self.interface.poll_delay(now, &self.sockets).map(Duration::from)
    }

    /// Whether no socket has anything left to send.
    pub(super) fn is_idle(&self) -> bool {
        let sockets = self.sockets.iter().filter_map(|(_, socket)| Socket::downcast(socket));
        sockets
            .map(Socket::state)
            .all(|state| matches!(state, State::Closed | State::Listen | State::TimeWait))
    }
}

pub(super) struct Shared {
    pub(super) core: Mutex<Core>,
    /// Wakes the driver.
    pub(super) wake: Notify,
    pub(super) link: Link,
}

impl Shared {
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap()
    }

    /// Uses a socket, and has the driver look at it.
    pub(super) fn with<R>(&self, handle: SocketHandle, f: impl FnOnce(&mut Socket<'static>) -> R) -> R {
        let result = f(self.core().sockets.get_mut(handle));
        self.wake.notify_one();
        result
    }
}

/// Polls a stack whenever a frame, a user or a timer of TCP asks for it.
pub(super) async fn drive(shared: Arc<Shared>) {
    let started = Instant::now();
    let mut stop_at = None;
    loop {
        let now = i64::try_from(started.elapsed().as_micros()).unwrap_or(i64::MAX);
        let delay = shared.core().poll(StackInstant::from_micros(now));
        // This task is the last user.
        if Arc::strong_count(&shared) == 1 {
            let stop_at = *stop_at.get_or_insert_with(|| Instant::now() + LINGER);
            if shared.core().is_idle() || Instant::now() >= stop_at {
                return;
            }
        }
        tokio::select! {
            () = shared.link.to_stack.ready() => {}
            () = shared.wake.notified() => {}
            () = sleep(delay.unwrap_or(LINGER).clamp(DEVICE_BUSY, LINGER)) => {}
        }
    }
}
