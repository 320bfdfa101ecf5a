//! The peers and connections of a shim, one after the other.

use wireseal_tcp_ao::{ConnectionIdentifier, Peer};

use crate::border::{given, place, place_if_wanted, with};
use crate::connection::wireseal_connection_info;
use crate::mkt::{WIRESEAL_MKTS, wireseal_mkt};
use crate::shim::{Aligned, wireseal_connection_identifier, wireseal_shim};
use crate::status::{wireseal_status, wireseal_status as Status};

/// A peer of a shim.
#[repr(C)]
pub struct wireseal_shim_peer {
    /// Its connections.
    pub connections: wireseal_connection_identifier,
    /// Its keys, the preferred one first, without their secrets: `master_key` is null.
    pub mkts: [wireseal_mkt; WIRESEAL_MKTS],
    /// How many keys it has.
    pub mkt_count: usize,
    /// Zeros: for later versions.
    pub reserved: [u64; 4],
}

impl From<&Peer> for wireseal_shim_peer {
    fn from(peer: &Peer) -> Self {
        let ConnectionIdentifier { local, remote, local_port, remote_port } = peer.connections;
        let mut mkts = [const { wireseal_mkt::BLANK }; WIRESEAL_MKTS];
        let mut mkt_count = 0;
        for (place, mkt) in mkts.iter_mut().zip(peer.mkts.iter()) {
            *place = wireseal_mkt {
                master_key: core::ptr::null(),
                master_key_length: 0,
                ..wireseal_mkt::of(mkt, mkt.parameters().accept_only)
            };
            mkt_count += 1;
        }
        let connections = wireseal_connection_identifier {
            local: local.into(),
            remote: remote.into(),
            local_port: local_port.unwrap_or(0),
            remote_port: remote_port.unwrap_or(0),
            reserved: [0; 4],
        };
        Self { connections, mkts, mkt_count, reserved: [0; 4] }
    }
}

/// Writes the first peer whose index is at least `*index` to `*peer`, and its index to `*index`. WIRESEAL_STATUS_NO_SUCH_PEER if there is none.
/// To list all: for (index = 0; wireseal_shim_next_peer(shim, &index, &peer) == WIRESEAL_STATUS_OK; index++). Peers may be added and removed
/// between the calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_next_peer(
    shim: *mut wireseal_shim,
    index: *mut usize,
    peer: *mut wireseal_shim_peer,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let (from, mut peer) = (*given(index)?, place(peer)?);
            let (found, its) = shim.peers_from(from).next().ok_or(Status::NoSuchPeer)?;
            place(index)?.write(found);
            peer.write(its.into());
            Ok(())
        })
    }
}

/// Writes what is known of the first connection whose place in the table is at least `*place` to `*info`, its place to `*place`, and the index
/// of its peer to `*peer`, which may be null. WIRESEAL_STATUS_NO_CONNECTION if there is none. List all as with wireseal_shim_next_peer().
/// Handshakes are included, and closed connections that are kept for late segments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_next_connection(
    shim: *mut wireseal_shim,
    place: *mut usize,
    peer: *mut usize,
    info: *mut wireseal_connection_info,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let (from, peer, mut info) = (*given(place)?, place_if_wanted(peer)?, self::place(info)?);
            let (found, its, connection) = shim.connections_from(from).next().ok_or(Status::NoConnection)?;
            self::place(place)?.write(found);
            if let Some(mut peer) = peer {
                peer.write(its);
            }
            info.write(connection.into());
            Ok(())
        })
    }
}
