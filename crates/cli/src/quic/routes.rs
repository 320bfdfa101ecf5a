//! Which connection a datagram belongs to: by connection ID, or by addresses if it has none.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;

use wireseal_quic::ConnectionId;

use super::report::Side;

/// Connection IDs and addresses of the connections that are followed.
#[derive(Default)]
pub(super) struct Routes {
    by_id: HashMap<ConnectionId, Vec<Owner>>,
    /// By client and server; the latest connection last.
    by_addresses: HashMap<[SocketAddr; 2], BTreeSet<u64>>,
    /// How many IDs there are of each length, so that only these are tried on a short header.
    lengths: [usize; ConnectionId::MAX_LENGTH + 1],
    /// The servers of all connections, even of those that are over, so that their late packets are recognized.
    servers: HashSet<SocketAddr>,
}

/// The end that has given out a connection ID and receives packets for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) connection: u64,
    pub(super) side: Side,
}

/// How many ends are remembered for one ID.
const MOST_OWNERS: usize = 64;
/// How many servers are remembered.
const MOST_SERVERS: usize = 1 << 16;

impl Routes {
    /// Adds an ID that packets to `owner` may have. An empty one identifies nothing and is ignored.
    pub(super) fn add_id(&mut self, id: ConnectionId, owner: Owner) {
        if id.is_empty() {
            return;
        }
        let owners = self.by_id.entry(id).or_default();
        if !owners.contains(&owner) {
            if owners.len() == MOST_OWNERS {
                owners.remove(0);
            } else {
                self.lengths[id.len()] += 1;
            }
            owners.push(owner);
        }
    }

    pub(super) fn add_addresses(&mut self, ends: [SocketAddr; 2], connection: u64) {
        if self.servers.len() < MOST_SERVERS {
            self.servers.insert(ends[1]);
        }
        self.by_addresses.entry(ends).or_default().insert(connection);
    }

    /// Forgets a connection with these IDs and addresses.
    pub(super) fn remove(
        &mut self,
        connection: u64,
        ids: impl IntoIterator<Item = ConnectionId>,
        addresses: impl Iterator<Item = [SocketAddr; 2]>,
    ) {
        for id in ids {
            if let Some(owners) = self.by_id.get_mut(&id) {
                let before = owners.len();
                owners.retain(|owner| owner.connection != connection);
                self.lengths[id.len()] -= before - owners.len();
                if owners.is_empty() {
                    self.by_id.remove(&id);
                }
            }
        }
        for ends in addresses {
            if let Some(known) = self.by_addresses.get_mut(&ends) {
                known.remove(&connection);
                if known.is_empty() {
                    self.by_addresses.remove(&ends);
                }
            }
        }
    }

    pub(super) fn is_server(&self, address: SocketAddr) -> bool {
        self.servers.contains(&address)
    }

    /// The ends that may have given out this ID.
    pub(super) fn owners(&self, id: &[u8]) -> &[Owner] {
        let owners = ConnectionId::new(id).ok().and_then(|id| self.by_id.get(&id));
        owners.map_or(&[], Vec::as_slice)
    }

    /// The ends that may have given out the ID at the start of these octets, with its length, the longest first.
    pub(super) fn owners_by_prefix<'a>(
        &'a self,
        octets: &'a [u8],
    ) -> impl Iterator<Item = (usize, Owner)> + 'a {
        let lengths = (1..=ConnectionId::MAX_LENGTH).rev().filter(|length| self.lengths[*length] != 0);
        lengths.flat_map(|length| {
            let owners = octets.get(..length).map_or(&[][..], |id| self.owners(id));
            owners.iter().map(move |owner| (length, *owner))
        })
    }

    /// The latest connection between these addresses, and the end that sends from `source`.
    pub(super) fn by_addresses(&self, source: SocketAddr, destination: SocketAddr) -> Option<(u64, Side)> {
        let latest = |ends| self.by_addresses.get(&ends)?.last().copied();
        let sent_by = |side| move |connection| (connection, side);
        latest([source, destination])
            .map(sent_by(Side::Client))
            .or_else(|| latest([destination, source]).map(sent_by(Side::Server)))
    }
}
