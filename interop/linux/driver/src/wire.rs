//! The wire: a learning Ethernet switch between the machines of the lab. It records every frame; for a row it loses or forges frames, and
//! cuts cables.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use agent::TIME_LIMIT;
use anyhow::{Context, Result, anyhow};
use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacket, EtherType, NetSlice, PacketBuilder, SlicedPacket, ether_type,
};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use speaker::forge::Forgery;
use speaker::link::{DEFAULT_IP_MTU, ETHERNET_HEADER, FrameQueue, Link};
use tokio::net::UnixDatagram;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wireseal_tcp_ao::{Segment, SocketPair};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Port {
    /// The driver's own TCP stack.
    Userspace,
    /// The first guest, which has little besides BIRD.
    North,
    /// The second guest, with Debian.
    South,
    /// Another process on this machine.
    Host,
    /// The third guest, with a kernel without TCP-AO.
    Stock,
    /// The fourth guest, like the second.
    East,
    /// The microcontroller, whose image has these addresses built in.
    Firmware,
}

impl Port {
    pub const ALL: [Self; 7] =
        [Self::Userspace, Self::North, Self::South, Self::Host, Self::Stock, Self::East, Self::Firmware];

    /// The port whose address this is.
    pub fn of(address: IpAddr) -> Result<Self> {
        let has_it = |port: &Self| Family::ALL.map(|family| port.address(family)).contains(&address);
        Self::ALL.into_iter().find(has_it).with_context(|| format!("no port of the wire has {address}"))
    }

    pub const fn hardware_address(self) -> [u8; 6] {
        [2, 0, 0, 0, 0, self as u8 + 1]
    }

    /// Its address in 192.0.2.0/24 (RFC 5737).
    pub const fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, self as u8 + 1)
    }

    /// Its address in 2001:db8::/64 (RFC 3849).
    pub const fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, self as u16 + 1)
    }

    pub const fn address(self, family: Family) -> IpAddr {
        match family {
            Family::Ipv4 => IpAddr::V4(self.ipv4()),
            Family::Ipv6 => IpAddr::V6(self.ipv6()),
        }
    }

    pub const fn at(self, family: Family, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(family), port)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Userspace => "userspace",
            Self::North => "north",
            Self::South => "south",
            Self::Host => "host",
            Self::Stock => "stock",
            Self::East => "east",
            Self::Firmware => "firmware",
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Ipv4,
    Ipv6,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// Port `port` of all interfaces.
    pub const fn any(self, port: u16) -> SocketAddr {
        match self {
            Self::Ipv4 => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
            Self::Ipv6 => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Ipv4 { "IPv4" } else { "IPv6" })
    }
}

/// EtherTypes of what carries TCP (RFC 894, RFC 2464).
const ETHERTYPES: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];

/// A frame that came to the wire.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The time since the wire was started.
    pub at: Duration,
    /// The port it came from; `None` if the driver forged it.
    pub from: Option<Port>,
    /// Whether it was stopped on its way.
    pub is_lost: bool,
    /// From the Ethernet header on, without checksum.
    pub octets: Vec<u8>,
}

impl Frame {
    pub fn segment(&self) -> Option<Segment<'_>> {
        segment(&self.octets)
    }
}

/// The IP packet in a frame.
fn packet(frame: &[u8]) -> Option<&[u8]> {
    let (header, packet) = frame.split_at_checked(ETHERNET_HEADER)?;
    ETHERTYPES.iter().any(|ethertype| header.ends_with(ethertype)).then_some(packet)
}

/// The TCP segment in a frame.
pub fn segment(frame: &[u8]) -> Option<Segment<'_>> {
    Segment::parse(packet(frame)?).ok()
}

/// All frames that came to the wire for a while, in order.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub frames: Vec<Frame>,
}

impl Recording {
    /// All IP packets but forged ones.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.frames.iter().filter(|frame| frame.from.is_some()).filter_map(|frame| packet(&frame.octets))
    }

    /// All TCP segments but forged ones.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.packets().filter_map(|packet| Segment::parse(packet).ok())
    }

    /// The TCP segments that came from a port.
    pub fn segments_from(&self, port: Port) -> impl Iterator<Item = Segment<'_>> {
        self.frames.iter().filter(move |frame| frame.from == Some(port)).filter_map(Frame::segment)
    }

    /// The TCP segments from a port that were not lost.
    pub fn delivered_from(&self, port: Port) -> impl Iterator<Item = Segment<'_>> {
        let frames = self.frames.iter().filter(move |frame| frame.from == Some(port) && !frame.is_lost);
        frames.filter_map(Frame::segment)
    }

    /// The segments that went from `pair.local` to `pair.remote`, forged ones left out.
    pub fn sent(&self, pair: SocketPair) -> impl Iterator<Item = Segment<'_>> {
        speaker::forge::sent(self.packets(), pair)
    }

    /// Writes it as pcap, with or without what the driver forged.
    pub fn write(&self, path: &Path, with_forged: bool) -> Result<()> {
        let broken = |error: pcap_file::PcapError| anyhow!("{}: {error}", path.display());
        let file = BufWriter::new(File::create(path)?);
        let mut writer = PcapWriter::with_header(file, PcapHeader::default()).map_err(broken)?;
        for frame in self.frames.iter().filter(|frame| with_forged || frame.from.is_some()) {
            let length = u32::try_from(frame.octets.len())?;
            writer.write_packet(&PcapPacket::new(frame.at, length, &frame.octets)).map_err(broken)?;
        }
        Ok(())
    }
}

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
    /// By port, where its TCP segments are diverted.
    diverted: HashMap<Port, Port>,
    recording: Recording,
    loses: Option<Loses>,
    undelivered: Vec<String>,
}

struct Outlet {
    frames: Arc<FrameQueue>,
    is_plugged: bool,
}

/// Something that is plugged in; dropping it unplugs it.
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

    /// Takes what has been recorded since the last call.
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
    /// Forwards a frame; returns whether it is lost.
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

/// IP hop limit of forged packets.
const HOP_LIMIT: u8 = 64;
/// Octets of a quoted packet that an ICMP error carries: the headers, as RFC 1812 §4.3.2.3 asks for.
const QUOTED: usize = 128;

/// Puts an IP packet on the wire, from `pair.local` to the port at `pair.remote`.
pub fn inject(wire: &Wire, pair: SocketPair, packet: &[u8]) -> Result<()> {
    let (from, to) = (Port::of(pair.local.address())?, Port::of(pair.remote.address())?);
    let ethertype = if pair.local.address().is_ipv4() { ether_type::IPV4 } else { ether_type::IPV6 };
    let header = [&to.hardware_address()[..], &from.hardware_address(), &ethertype.0.to_be_bytes()];
    wire.inject(to, [&header.concat(), packet].concat());
    Ok(())
}

/// Sends an end an ICMP error about the segment that this end, `pair.local`, could have sent last. `mtu` is in the last
/// octets of the ICMP header.
pub fn inject_icmp_error(wire: &Wire, pair: SocketPair, (kind, code): (u8, u8), mtu: u32) -> Result<()> {
    let quoted = wire.look(|recording| Forgery::next(recording.packets(), pair)?.unsigned())?;
    let quoted = &quoted[..quoted.len().min(QUOTED)];
    let mut packet = Vec::new();
    match (pair.remote.address(), pair.local.address()) {
        (IpAddr::V4(liar), IpAddr::V4(deceived)) => {
            PacketBuilder::ipv4(liar.octets(), deceived.octets(), HOP_LIMIT)
                .icmpv4_raw(kind, code, mtu.to_be_bytes())
                .write(&mut packet, quoted)?;
        }
        (IpAddr::V6(liar), IpAddr::V6(deceived)) => {
            PacketBuilder::ipv6(liar.octets(), deceived.octets(), HOP_LIMIT)
                .icmpv6_raw(kind, code, mtu.to_be_bytes())
                .write(&mut packet, quoted)?;
        }
        _ => unreachable!("a connection has one version of IP"),
    }
    inject(wire, pair.reversed(), &packet)
}

/// An ARP request for a port's hardware address, from [`Port::Host`].
pub fn arp_request(port: Port) -> Result<Vec<u8>> {
    let asker = Port::Host;
    let request = ArpPacket::new(
        ArpHardwareId::ETHERNET,
        EtherType::IPV4,
        ArpOperation::REQUEST,
        &asker.hardware_address(),
        &asker.ipv4().octets(),
        &[0; 6],
        &port.ipv4().octets(),
    )?;
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(asker.hardware_address(), [0xff; 6]).arp(request).write(&mut frame)?;
    Ok(frame)
}

/// How many answers to [`arp_request`] a port has sent.
pub fn arp_replies(recording: &Recording, port: Port) -> usize {
    let is_reply = |frame: &[u8]| match SlicedPacket::from_ethernet(frame).ok().and_then(|packet| packet.net)
    {
        Some(NetSlice::Arp(arp)) => {
            arp.operation() == ArpOperation::REPLY && arp.target_protocol_addr() == Port::Host.ipv4().octets()
        }
        _ => false,
    };
    let frames = recording.frames.iter().filter(|frame| frame.from == Some(port));
    frames.filter(|frame| is_reply(&frame.octets)).count()
}
