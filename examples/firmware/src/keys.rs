//! TCP-AO under the stack: its peers, its keys, and its counters for the console.

use core::fmt;
use core::net::Ipv4Addr;

use cidr::{IpCidr, Ipv4Cidr};
use static_cell::{ConstStaticCell, StaticCell};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_smoltcp::AuthenticatedDevice;
use wireseal_tcp_ao::shim::{Direction, HashKey, PeerSlot, ShimSlot};
use wireseal_tcp_ao::{
    ConnectionIdentifier, Counters, KeyId, MKTS_PER_PEER, MasterKey, Mkt, MktError, MktSet, Peer, PeerError,
};

use crate::board::deepest_stack;
use crate::card::{Card, FRAME};

/// How many connections can be open at a time.
const CONNECTIONS: usize = 4;

/// The keys, each with SendID, RecvID, algorithm and secret. A product reads them from a sector of flash that is written when it is set up:
/// docs/embedded.md.
const KEYS: &[(u8, u8, TcpAoAlgorithm, &[u8])] = &[
    #[cfg(feature = "hmac-sha1")]
    (11, 21, TcpAoAlgorithm::HmacSha1, b"secret of key 1, 32 octets"),
    #[cfg(feature = "aes-128-cmac")]
    (12, 22, TcpAoAlgorithm::Aes128Cmac, b"secret of key 2, 32 octets"),
];

/// The network card with TCP-AO on it.
pub type Device = AuthenticatedDevice<'static, Card>;

/// The keys of the image.
///
/// # Errors
/// A key is unusable, for example because its algorithm is left out of the image.
pub fn mkts() -> Result<MktSet<MKTS_PER_PEER>, MktError> {
    let mut mkts = MktSet::new();
    for &(send_id, recv_id, algorithm, secret) in KEYS {
        mkts.push(Mkt::new(KeyId(send_id), KeyId(recv_id), algorithm, MasterKey::new(secret)?)?)?;
    }
    Ok(mkts)
}

/// Puts TCP-AO on the card: every TCP connection with an address in `network` has to be signed with one of the keys. `hash_key` is
/// random.
///
/// # Errors
/// The shim refuses the peer.
///
/// # Panics
/// When called again.
pub fn authenticate(
    card: Card,
    address: Ipv4Addr,
    network: Ipv4Cidr,
    mkts: MktSet<MKTS_PER_PEER>,
    hash_key: [u8; 16],
) -> Result<Device, PeerError> {
    // Filled here and not by the linker, which would keep a copy of all empty slots in flash.
    static PEERS: StaticCell<[PeerSlot; 1]> = StaticCell::new();
    static TABLE: StaticCell<[ShimSlot; CONNECTIONS]> = StaticCell::new();
    static RECEIVED: ConstStaticCell<[u8; FRAME]> = ConstStaticCell::new([0; FRAME]);
    static SENT: ConstStaticCell<[u8; FRAME]> = ConstStaticCell::new([0; FRAME]);
    let buffers = [&mut RECEIVED.take()[..], &mut SENT.take()[..]];
    let peers = PEERS.init_with(|| [PeerSlot::EMPTY]);
    let table = TABLE.init_with(|| [const { ShimSlot::EMPTY }; CONNECTIONS]);
    let mut device =
        AuthenticatedDevice::new(card, HashKey::new(hash_key), &mut peers[..], &mut table[..], buffers)?;
    let connections = ConnectionIdentifier::between(IpCidr::new_host(address.into()), network.into());
    device.shim_mut().add_peer(Peer { connections, mkts })?;
    Ok(device)
}

/// Asks the peer of every connection to sign with the next key (RFC 5925 §7.5): in their order, the one after the key that it was last
/// asked for.
pub fn roll_over(device: &mut Device) {
    let mut pairs = [None; CONNECTIONS];
    for (place, connection) in pairs.iter_mut().zip(device.shim().connections()) {
        *place = Some(connection.pair());
    }
    for pair in pairs.into_iter().flatten() {
        let Some(connection) = device.shim_mut().connection_mut(&pair) else { continue };
        let asked = connection.rnext_key().recv_id;
        let ids = || connection.keys().map(|key| key.recv_id);
        let next = ids().skip_while(|id| *id != asked).nth(1).or_else(|| ids().next());
        // It is one of the connection's own keys, so it is not refused.
        let _ = next.map(|id| connection.set_rnext_key(id));
    }
}

/// What has been received and refused, in a line.
pub struct Report<'a>(pub &'a Device);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shim = self.0.shim();
        let Counters { good, bad, key_not_found, required, dropped_icmp } = shim.counters();
        write!(f, "good {good}, bad {bad}, key not found {key_not_found}, required {required}, ")?;
        let (refused, unreadable) = (shim.refused(Direction::Inbound).total(), self.0.unreadable());
        write!(f, "dropped ICMPs {dropped_icmp}, refused {refused}, unreadable {unreadable}, ")?;
        write!(f, "connections {}, stack {}", shim.connections().count(), deepest_stack())
    }
}
