//! The wire: a learning Ethernet switch that records every frame, and loses or forges frames and cuts cables for a row.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, Result};
use speaker::link::{DEFAULT_IP_MTU, ETHERNET_HEADER, FrameQueue, Link};
use tokio::net::UnixDatagram;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wireseal_tcp_ao::Segment;

use crate::net::Port;
use crate::recording::{Frame, Recording, segment};
use agent::TIME_LIMIT;

/// Longest frame in octets; QEMU's network cards send none longer.
const FRAME: usize = DEFAULT_IP_MTU + ETHERNET_HEADER;

type Loses = Box<dyn FnMut(Port, &Segment<'_>) -> bool + Send>;

/// A handle on the wire; cloning it gives another.
#[derive(Clone)]
pub struct Wire(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    began: Instant,
    /// Notified of each frame.
    traffic: Notify,
}

#[derive(Default)]
struct State {
    outlets: HashMap<Port, Outlet>,
    addresses: HashMap<[u8; 6], Port>,
    /// Where TCP segments for a port go instead.
    diverted: HashMap<Port, Port>,
    recording: Recording,
    loses: Option<Loses>,
    undelivered: Vec<String>,
}

struct Outlet {
    frames: Arc<FrameQueue>,
    is_plugged: bool,
}

/// Something that is plugged in; dropping it pulls it out.
#[must_use]
pub struct Plug {
    wire: Wire,
    port: Port,
    _tasks: JoinSet<()>,
}

impl Drop for Plug {
    fn drop(&mut self) {
        let mut state = self.wire.state();
        state.outlets.remove(&self.port);
        state.diverted.retain(|_, at| *at != self.port);
    }
}

impl Default for Wire {
    fn default() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), began: Instant::now(), traffic: Notify::new() }))
    }
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Plugs in a stack of this process.
    pub fn plug_link(&self, port: Port, link: Link) -> Plug {
        self.add_outlet(port, Arc::clone(&link.to_stack));
        let (wire, mut tasks) = (self.clone(), JoinSet::new());
        tasks.spawn(async move {
            loop {
                wire.forward(port, link.from_stack.pop().await);
            }
        });
        Plug { wire: self.clone(), port, _tasks: tasks }
    }

    /// Plugs in a stack that receives the TCP segments for another port, which keeps answering ARP and neighbor discovery.
    pub fn plug_in_place_of(&self, of: Port, port: Port, link: Link) -> Plug {
        self.state().diverted.insert(of, port);
        self.plug_link(port, link)
    }

    /// Plugs in a process that sends frames to the socket `local` and receives them at the socket `peer`, which may appear later.
    pub fn plug_unix(&self, port: Port, local: &Path, peer: &Path) -> Result<Plug> {
        // Left over from an earlier run.
        let _ = std::fs::remove_file(local);
        let socket = Arc::new(UnixDatagram::bind(local)?);
        let frames = Arc::<FrameQueue>::default();
        self.add_outlet(port, Arc::clone(&frames));
        let mut tasks = JoinSet::new();
        tasks.spawn(receive(self.clone(), port, Arc::clone(&socket)));
        tasks.spawn(send(self.clone(), frames, socket, peer.to_owned()));
        Ok(Plug { wire: self.clone(), port, _tasks: tasks })
    }

    fn add_outlet(&self, port: Port, frames: Arc<FrameQueue>) {
        self.state().outlets.insert(port, Outlet { frames, is_plugged: true });
    }

    /// Cuts the cable of a port, or joins it again. Frames on a cut cable are recorded as lost.
    pub fn set_plugged(&self, port: Port, is_plugged: bool) {
        if let Some(outlet) = self.state().outlets.get_mut(&port) {
            outlet.is_plugged = is_plugged;
        }
    }

    /// Loses the TCP segments for which `loses` returns true, given the port they come from.
    pub fn lose(&self, loses: impl FnMut(Port, &Segment<'_>) -> bool + Send + 'static) {
        self.state().loses = Some(Box::new(loses));
    }

    /// Stops all loss and rejoins all cables.
    pub fn reset(&self) {
        let mut state = self.state();
        state.loses = None;
        state.outlets.values_mut().for_each(|outlet| outlet.is_plugged = true);
    }

    /// Sends a forged frame to a port.
    pub fn inject(&self, to: Port, frame: Vec<u8>) {
        let mut state = self.state();
        let at = self.0.began.elapsed();
        let delivered = state.deliver(to, &frame);
        state.recording.frames.push(Frame { at, from: None, is_lost: !delivered, octets: frame });
        drop(state);
        self.0.traffic.notify_waiters();
    }

    /// Takes what has been recorded since the last time.
    pub fn take_recording(&self) -> Recording {
        std::mem::take(&mut self.state().recording)
    }

    /// Calls `f` with the recording so far.
    pub fn look<T>(&self, f: impl FnOnce(&Recording) -> T) -> T {
        f(&self.state().recording)
    }

    /// TCP segments from a port in the recording so far, without lost ones.
    pub fn segments_from(&self, port: Port) -> u64 {
        self.look(|recording| recording.delivered_from(port).count() as u64)
    }

    /// Waits until `wanted` finds something in the recording; calls it again after each frame.
    pub async fn await_recorded<T>(
        &self,
        what: &str,
        mut wanted: impl FnMut(&Recording) -> Option<T>,
    ) -> Result<T> {
        let search = async {
            loop {
                let traffic = self.0.traffic.notified();
                tokio::pin!(traffic);
                traffic.as_mut().enable();
                if let Some(found) = wanted(&self.state().recording) {
                    return found;
                }
                traffic.await;
            }
        };
        tokio::time::timeout(TIME_LIMIT, search)
            .await
            .with_context(|| format!("timed out waiting for {what}"))
    }

    /// Takes the reasons why frames were not delivered. Any of them fails the row.
    pub fn take_undelivered(&self) -> Vec<String> {
        let mut state = self.state();
        let full = state.outlets.iter().filter(|(_, outlet)| outlet.frames.dropped() > 0);
        let full: Vec<String> = full.map(|(port, _)| format!("the queue to {port} was full")).collect();
        [std::mem::take(&mut state.undelivered), full].concat()
    }

    fn forward(&self, from: Port, octets: Vec<u8>) {
        let mut state = self.state();
        let at = self.0.began.elapsed();
        let is_lost = state.switch(from, &octets);
        state.recording.frames.push(Frame { at, from: Some(from), is_lost, octets });
        drop(state);
        self.0.traffic.notify_waiters();
    }
}

impl State {
    /// Sends a frame on; says whether it is lost.
    fn switch(&mut self, from: Port, frame: &[u8]) -> bool {
        let (Some(destination), Some(source)) = (frame.first_chunk::<6>(), frame[6..].first_chunk::<6>())
        else {
            return true;
        };
        if !self.outlets.get(&from).is_some_and(|outlet| outlet.is_plugged) {
            return true;
        }
        let segment = segment(frame);
        if let (Some(loses), Some(segment)) = (&mut self.loses, &segment)
            && loses(from, segment)
        {
            return true;
        }
        if self.diverted.values().all(|at| *at != from) {
            self.addresses.insert(*source, from);
        }
        let is_group = destination[0] & 1 != 0;
        match self.addresses.get(destination).copied().filter(|_| !is_group) {
            Some(to) => {
                let at = self.diverted.get(&to).copied().filter(|_| segment.is_some());
                to != from && !self.deliver(at.unwrap_or(to), frame)
            }
            None => {
                for to in Port::ALL.into_iter().filter(|to| *to != from) {
                    self.deliver(to, frame);
                }
                false
            }
        }
    }

    /// Whether the port is plugged in.
    fn deliver(&self, to: Port, frame: &[u8]) -> bool {
        let Some(outlet) = self.outlets.get(&to).filter(|outlet| outlet.is_plugged) else { return false };
        outlet.frames.push(frame.to_vec());
        true
    }
}

async fn receive(wire: Wire, port: Port, socket: Arc<UnixDatagram>) {
    let mut buffer = vec![0; FRAME + 1];
    while let Ok(octets) = socket.recv(&mut buffer).await {
        if (ETHERNET_HEADER..=FRAME).contains(&octets) {
            wire.forward(port, buffer[..octets].to_vec());
        } else {
            wire.state().undelivered.push(format!("{port:?} sent {octets} octets"));
        }
    }
}

/// Connects the socket before sending, because only a connected one waits when the peer's queue is full. Until the peer
/// appears, frames are dropped, as for a machine that is off.
async fn send(wire: Wire, queue: Arc<FrameQueue>, socket: Arc<UnixDatagram>, peer: PathBuf) {
    let mut has_come = false;
    loop {
        let frame = queue.pop().await;
        let mut sent = socket.send(&frame).await;
        let is_lost = |sent: &io::Result<usize>| {
            use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotConnected};
            matches!(sent, Err(error) if matches!(error.kind(), NotConnected | ConnectionRefused | ConnectionReset))
        };
        if is_lost(&sent) && socket.connect(&peer).is_ok() {
            sent = socket.send(&frame).await;
        }
        match sent {
            Ok(_) => has_come = true,
            Err(error) if has_come => {
                wire.state().undelivered.push(format!("to {}: {error}", peer.display()));
            }
            Err(_) => {}
        }
    }
}
