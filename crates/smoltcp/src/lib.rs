//! TCP-AO under an unchanged [smoltcp] stack.
//!
//! ```
//! use smoltcp::iface::{Config, Interface};
//! use smoltcp::phy::{Loopback, Medium};
//! use smoltcp::time::Instant;
//! use smoltcp::wire::HardwareAddress;
//! use wireseal_smoltcp::AuthenticatedDevice;
//! use wireseal_tcp_ao::shim::{HashKey, ShimSlot};
//! use wireseal_tcp_ao::{ConnectionIdentifier, KeyId, MasterKey, Mkt, MktSet, Peer, TcpAoAlgorithm};
//!
//! let mkt = Mkt::new(KeyId(1), KeyId(1), TcpAoAlgorithm::Aes128Cmac, MasterKey::new(b"secret")?)?;
//! let peer = Peer {
//!     connections: ConnectionIdentifier::between("192.0.2.1/32".parse()?, "192.0.2.2/32".parse()?),
//!     mkts: MktSet::from_mkts([mkt])?,
//! };
//! let link = Loopback::new(Medium::Ip);
//! // Borrowed here; with smoltcp's feature `alloc` or `std`, vectors work too.
//! let (mut peers, mut table) = ([peer.into()], [const { ShimSlot::EMPTY }; 16]);
//! let (mut received, mut sent) = ([0; 1514], [0; 1514]);
//! let buffers = [&mut received[..], &mut sent[..]];
//! // Sixteen random octets, from the chip's generator.
//! # let random = [7; 16];
//! let hash_key = HashKey::new(random);
//! let mut device = AuthenticatedDevice::new(link, hash_key, &mut peers[..], &mut table[..], buffers)?;
//! let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut device, Instant::ZERO);
//! # let _ = &mut interface;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which call do I need?
//! | I want to | call |
//! |---|---|
//! | put TCP-AO under an interface | [`AuthenticatedDevice::new`]; give smoltcp the result instead of the device |
//! | read counters, change keys, roll keys over | [`AuthenticatedDevice::shim`], [`AuthenticatedDevice::shim_mut`] |
//! | see why packets are refused, and when connections open and end | [`Shim::refused`], or an [`Observer`] |
//! | let a restarted peer reconnect on the same ports | [`AuthenticatedDevice::expire`], once a minute |
//! | get the device back | [`AuthenticatedDevice::into_inner`] |
//!
//! The stack sees an MTU that is smaller by [`OPTION_ROOM`], so that its segments fit the link with the option; the device corrects
//! the MSS that it advertises. Segmentation offload is turned off, because segments must be signed as they go on the wire. On
//! Ethernet, everything but IP passes unchanged: ARP, and frames with a VLAN tag, which smoltcp does not read either. On any other
//! medium nothing passes, since it could not be checked.
//!
//! # Features
//! The crate needs neither std nor a heap.
//! * `medium-ethernet`, `medium-ip`, `proto-ipv4`, `proto-ipv6`: smoltcp's, all on by default. A stack needs one medium and one protocol.
//!   With `default-features = false` it has only those that you name. Frames of a medium that is off here do not pass.
//! * Algorithms are features of `wireseal-tcp-ao`, on by default where you depend on it; this crate turns none on.
//! * `defmt`: smoltcp's and `wireseal-tcp-ao`'s, for firmware.
//!
//! [smoltcp]: ::smoltcp
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use managed::ManagedSlice;
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium, PacketMeta};
use smoltcp::time::Instant;
use wireseal_tcp_ao::PeerError;
use wireseal_tcp_ao::shim::{HashKey, OPTION_ROOM, Observer, PeerSlot, Shim, ShimConfig, ShimSlot};

/// Octets of an Ethernet header without VLAN tag, and the place of the EtherType in it (IEEE 802.3).
const ETHERNET_HEADER_LENGTH: usize = 14;
const ETHER_TYPE: Range<usize> = 12..ETHERNET_HEADER_LENGTH;

/// Octets of a packet that every IPv4 host must accept (RFC 791 §3.1); a buffer must have room for it.
const SHORTEST_BUFFER: usize = 576;

/// Wraps any smoltcp [`Device`]: signs what the stack sends and verifies what it receives. Your stack stays unchanged.
///
/// The caller provides the memory for peers, connections and one frame each way, in slices or vectors as in smoltcp. Their length is the
/// limit.
pub struct AuthenticatedDevice<'a, D, O = ()> {
    inner: D,
    signer: Signer<'a, O>,
    received: ManagedSlice<'a, u8>,
    sent: ManagedSlice<'a, u8>,
}

/// The shim of a device.
pub type DeviceShim<'a, O = ()> = Shim<Slots<'a, PeerSlot>, Slots<'a, ShimSlot>, O>;

/// Slots of a [`DeviceShim`], borrowed or owned.
#[derive(Debug)]
pub struct Slots<'a, T>(ManagedSlice<'a, T>);

impl<'a, T> Slots<'a, T> {
    /// These slots: a slice, or a vector where smoltcp has its feature `alloc` or `std`.
    pub fn new(slots: impl Into<ManagedSlice<'a, T>>) -> Self {
        Self(slots.into())
    }
}

impl<T> AsRef<[T]> for Slots<'_, T> {
    fn as_ref(&self) -> &[T] {
        &self.0
    }
}

impl<T> AsMut<[T]> for Slots<'_, T> {
    fn as_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// The part of the device that both tokens use.
struct Signer<'a, O> {
    shim: DeviceShim<'a, O>,
    /// Octets of the link-layer header; `None` for a medium whose frames this crate cannot read.
    header_length: Option<usize>,
    unreadable: u64,
}

impl<'a, D: Device> AuthenticatedDevice<'a, D> {
    /// Wraps `device` with the defaults of RFC 5925, for these peers and one connection per slot of `table`. `hash_key` keys the hash
    /// tables of both; with std, `HashKey::random` draws one.
    ///
    /// One buffer is for frames from the device and one for frames from the stack, each of the device's `max_transmission_unit` octets. If
    /// they are shorter, longer incoming frames are dropped and counted as [`unreadable`](Self::unreadable), and the stack is told to send
    /// none.
    ///
    /// # Errors
    /// [`PeerError`] if equally specific peers overlap and share key ids.
    ///
    /// # Panics
    /// If a buffer has fewer than 576 octets: what every IPv4 host must accept (RFC 791 §3.1).
    pub fn new(
        device: D,
        hash_key: HashKey,
        peers: impl Into<ManagedSlice<'a, PeerSlot>>,
        table: impl Into<ManagedSlice<'a, ShimSlot>>,
        buffers: [impl Into<ManagedSlice<'a, u8>>; 2],
    ) -> Result<Self, PeerError> {
        let capabilities = device.capabilities();
        let config = ShimConfig {
            check_checksum: capabilities.checksum.tcp.rx() || capabilities.checksum.ipv4.rx(),
            ..ShimConfig::new(capabilities.ip_mtu())
        };
        Self::with_config(device, config, hash_key, peers, table, buffers)
    }

    /// Like [`new`](Self::new) with the caller's configuration; its `mtu` is limited to the device's. The stack's MTU is the device's less
    /// the difference between `mtu` and `stack_mtu`.
    ///
    /// # Errors
    /// [`PeerError`] if equally specific peers overlap and share key ids.
    ///
    /// # Panics
    /// If a buffer has fewer than 576 octets: what every IPv4 host must accept (RFC 791 §3.1).
    pub fn with_config(
        device: D,
        config: ShimConfig,
        hash_key: HashKey,
        peers: impl Into<ManagedSlice<'a, PeerSlot>>,
        table: impl Into<ManagedSlice<'a, ShimSlot>>,
        buffers: [impl Into<ManagedSlice<'a, u8>>; 2],
    ) -> Result<Self, PeerError> {
        let [received, sent] = buffers.map(Into::into);
        let room = received.len().min(sent.len());
        assert!(room >= SHORTEST_BUFFER, "a buffer for frames has fewer than 576 octets");
        let capabilities = device.capabilities();
        let header_length = match capabilities.medium {
            #[cfg(feature = "medium-ethernet")]
            Medium::Ethernet => Some(ETHERNET_HEADER_LENGTH),
            #[cfg(feature = "medium-ip")]
            Medium::Ip => Some(0),
            // A smoltcp medium that this crate does not support, or whose feature is off here and on in another crate.
            #[allow(unreachable_patterns)]
            _ => None,
        };
        let config = ShimConfig { mtu: config.mtu.min(capabilities.ip_mtu()), ..config };
        let shim = Shim::new(config, hash_key, Slots::new(peers), Slots::new(table))?;
        let signer = Signer { shim, header_length, unreadable: 0 };
        Ok(Self { inner: device, signer, received, sent })
    }

    /// The same device with an [`Observer`] of the shim's events.
    #[must_use]
    pub fn with_observer<O: Observer>(self, observer: O) -> AuthenticatedDevice<'a, D, O> {
        let Self { inner, signer: Signer { shim, header_length, unreadable }, received, sent } = self;
        let signer = Signer { shim: shim.with_observer(observer), header_length, unreadable };
        AuthenticatedDevice { inner, signer, received, sent }
    }
}

impl<'a, D: Device, O: Observer> AuthenticatedDevice<'a, D, O> {
    /// The shim: counters, connections, peers.
    #[must_use]
    pub const fn shim(&self) -> &DeviceShim<'a, O> {
        &self.signer.shim
    }

    /// The shim, to change keys.
    pub const fn shim_mut(&mut self) -> &mut DeviceShim<'a, O> {
        &mut self.signer.shim
    }

    /// Forgets connections that have ended, were never completed, or have made no progress for
    /// [`TimeLimits::idle`](wireseal_tcp_ao::shim::TimeLimits::idle): [`Shim::expire`] by smoltcp's clock.
    ///
    /// Call it once a minute, and use the sockets' keepalive (`set_keep_alive`) so that silent sessions are not forgotten. Without this
    /// call, a peer that restarts on the same ports may be refused until it chooses another ISN.
    pub fn expire(&mut self, timestamp: Instant) {
        self.signer.shim.expire(since_zero(timestamp));
    }

    /// The number of frames that were dropped because they could not be read: truncated, too long for the buffer, or of an unknown medium.
    /// [`Shim::refused`] counts all other refused packets.
    #[must_use]
    pub const fn unreadable(&self) -> u64 {
        self.signer.unreadable
    }

    /// The device underneath.
    #[must_use]
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The device underneath, to change it.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Returns the device underneath. The shim's connections are gone, and their keys wiped.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.inner
    }
}

impl<O: Observer> Signer<'_, O> {
    /// The place in `frame` of the frame for the stack; `None` if it is refused.
    fn inbound(&mut self, now: Duration, frame: &mut [u8]) -> Option<Range<usize>> {
        let header = match self.find_ip(frame) {
            Content::Ip { header } => header,
            Content::Other => return Some(0..frame.len()),
            Content::Unreadable => return self.drop_unreadable(),
        };
        let packet = self.shim.inbound(now, &mut frame[header..]).ok()?;
        // Move the header in front of the packet again, which has become shorter at its front.
        let start = packet.start;
        frame.copy_within(0..header, start);
        Some(start..header + packet.end)
    }

    /// The place in `buffer` of the frame for the link; the stack's starts at `room`. `None` if it is refused.
    fn outbound(&mut self, now: Duration, buffer: &mut [u8], room: usize) -> Option<Range<usize>> {
        let header = match self.find_ip(&buffer[room..]) {
            Content::Ip { header } => header,
            Content::Other => return Some(room..buffer.len()),
            Content::Unreadable => return self.drop_unreadable(),
        };
        let mut saved = [0; ETHERNET_HEADER_LENGTH];
        saved[..header].copy_from_slice(&buffer[room..room + header]);
        let packet = self.shim.outbound(now, &mut buffer[header..], room).ok()?;
        buffer[packet.start..packet.start + header].copy_from_slice(&saved[..header]);
        Some(packet.start..header + packet.end)
    }

    fn drop_unreadable<F>(&mut self) -> Option<F> {
        self.unreadable = self.unreadable.saturating_add(1);
        None
    }

    fn find_ip(&self, frame: &[u8]) -> Content {
        let Some(header) = self.header_length else { return Content::Unreadable };
        if header == 0 {
            return Content::Ip { header };
        }
        // smoltcp's view of a frame does not exist in stacks without Ethernet, so read the field directly.
        match frame.get(ETHER_TYPE) {
            Some([0x08, 0x00] | [0x86, 0xdd]) => Content::Ip { header },
            Some(_) => Content::Other,
            None => Content::Unreadable,
        }
    }
}

/// The content of a frame.
enum Content {
    /// An IP packet after a header of `header` octets.
    Ip { header: usize },
    /// Something that cannot contain a TCP segment, such as ARP.
    Other,
    /// A truncated frame, or an unknown medium.
    Unreadable,
}

impl<'d, D: Device, O: Observer> Device for AuthenticatedDevice<'d, D, O> {
    type RxToken<'a>
        = RxToken<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = TxToken<'a, 'd, D::TxToken<'a>, O>
    where
        Self: 'a;

    fn receive(&mut self, timestamp: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let (rx, tx) = self.inner.receive(timestamp)?;
        let (now, meta) = (since_zero(timestamp), phy::RxToken::meta(&rx));
        let received = phy::RxToken::consume(rx, |frame| {
            let received = self.received.get_mut(..frame.len())?;
            received.copy_from_slice(frame);
            Some(received)
        });
        let frame = match received {
            Some(frame) => self.signer.inbound(now, frame).map(|place| &frame[place]),
            None => self.signer.drop_unreadable(),
        };
        // An empty frame makes the stack skip this one and ask for the next.
        let rx = RxToken { frame: frame.unwrap_or_default(), meta };
        Some((rx, TxToken { inner: tx, signer: &mut self.signer, buffer: &mut self.sent, now }))
    }

    fn transmit(&mut self, timestamp: Instant) -> Option<Self::TxToken<'_>> {
        let inner = self.inner.transmit(timestamp)?;
        Some(TxToken { inner, signer: &mut self.signer, buffer: &mut self.sent, now: since_zero(timestamp) })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let inner = self.inner.capabilities();
        let config = self.signer.shim.config();
        // Start from the defaults, so that no offload unknown to this crate is passed on.
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = inner.medium;
        capabilities.max_burst_size = inner.max_burst_size;
        capabilities.checksum = inner.checksum;
        let longest = inner.max_transmission_unit.min(self.received.len());
        capabilities.max_transmission_unit = longest
            .saturating_sub(config.mtu.saturating_sub(config.stack_mtu))
            .min(self.sent.len().saturating_sub(OPTION_ROOM));
        capabilities
    }
}

impl<D: fmt::Debug, O> fmt::Debug for AuthenticatedDevice<'_, D, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticatedDevice")
            .field("inner", &self.inner)
            .field("shim", &self.signer.shim)
            .field("unreadable", &self.signer.unreadable)
            .finish_non_exhaustive()
    }
}

/// A received frame that verified or needs no verification; empty if it was refused.
#[derive(Debug)]
pub struct RxToken<'a> {
    frame: &'a [u8],
    meta: PacketMeta,
}

impl phy::RxToken for RxToken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.frame)
    }

    fn meta(&self) -> PacketMeta {
        self.meta
    }
}

/// Room for one outgoing frame, which is signed on its way to the device.
pub struct TxToken<'a, 'd, I, O = ()> {
    inner: I,
    signer: &'a mut Signer<'d, O>,
    buffer: &'a mut [u8],
    now: Duration,
}

impl<I, O> fmt::Debug for TxToken<'_, '_, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxToken").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<I: phy::TxToken, O: Observer> phy::TxToken for TxToken<'_, '_, I, O> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        // The stack never asks for more than the MTU that it was told.
        let buffer = &mut self.buffer[..OPTION_ROOM + length];
        buffer[OPTION_ROOM..].fill(0);
        let result = f(&mut buffer[OPTION_ROOM..]);
        if let Some(frame) = self.signer.outbound(self.now, buffer, OPTION_ROOM) {
            self.inner.consume(frame.len(), |octets| octets.copy_from_slice(&buffer[frame]));
        }
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.inner.set_meta(meta);
    }
}

fn since_zero(timestamp: Instant) -> Duration {
    Duration::from_micros(timestamp.total_micros().max(0).unsigned_abs())
}

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
