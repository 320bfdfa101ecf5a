//! QUIC's Initial packets (RFC 9001 §5.2), whose keys come from a connection ID in the first one: here they are opened, not answered.

use core::fmt;

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::udp;
use static_cell::ConstStaticCell;
use wireseal_quic::{
    AnyLongHeader, AuthenticationFailures, ConnectionId, InitialKeys, Protected, ReceiveSpace, Version,
};

const PORT: u16 = 443;
/// Octets of the longest UDP payload in an Ethernet frame over IPv4.
const DATAGRAM: usize = 1472;

/// The result of a datagram.
pub enum Received {
    /// An Initial packet with this number and this many octets of payload.
    Initial { number: u64, octets: usize },
    /// No Initial packet, or one that was changed on its way.
    NotOpened,
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Initial { number, octets } => {
                write!(f, "Initial packet {number}, {octets} octets of payload")
            }
            Self::NotOpened => f.write_str("a datagram that is no Initial packet"),
        }
    }
}

/// A socket for QUIC's first packets.
pub struct Listener {
    socket: SocketHandle,
    datagram: &'static mut [u8; DATAGRAM],
}

impl Listener {
    /// Listens on port 443.
    ///
    /// # Panics
    /// When called again, and if the set of sockets is full.
    pub fn new(sockets: &mut SocketSet<'static>) -> Self {
        static METADATA: ConstStaticCell<[udp::PacketMetadata; 2]> =
            ConstStaticCell::new([udp::PacketMetadata::EMPTY; 2]);
        static ROOM: ConstStaticCell<[u8; DATAGRAM]> = ConstStaticCell::new([0; DATAGRAM]);
        static RECEIVED: ConstStaticCell<[u8; DATAGRAM]> = ConstStaticCell::new([0; DATAGRAM]);
        let [receive, send] = METADATA.take().each_mut().map(core::slice::from_mut);
        let receive = udp::PacketBuffer::new(receive, ROOM.take().as_mut_slice());
        let mut socket = udp::Socket::new(receive, udp::PacketBuffer::new(send, [].as_mut_slice()));
        // Refused only on port 0.
        let _ = socket.bind(PORT);
        Self { socket: sockets.add(socket), datagram: RECEIVED.take() }
    }

    /// The result of the next datagram, if there is one.
    pub fn receive(&mut self, sockets: &mut SocketSet<'_>) -> Option<Received> {
        let (octets, _) = sockets.get_mut::<udp::Socket<'_>>(self.socket).recv_slice(self.datagram).ok()?;
        let datagram = self.datagram.get_mut(..octets)?;
        Some(match open(datagram) {
            Some((number, payload)) => Received::Initial { number, octets: payload.len() },
            None => Received::NotOpened,
        })
    }
}

/// Opens a client's first packet in place: its number and its payload.
pub fn open(datagram: &mut [u8]) -> Option<(u64, &[u8])> {
    let destination = ConnectionId::new(AnyLongHeader::read(datagram)?.destination).ok()?;
    let keys = InitialKeys::new(Version::V1, &destination);
    let (packet, _) = Protected::split_first(datagram, 0).ok()?;
    let opened =
        keys.client.open(packet, &mut ReceiveSpace::new(), &mut AuthenticationFailures::new()).ok()?;
    Some((opened.number, opened.payload))
}
