//! Which connection a datagram belongs to: by connection ID, or by addresses where there is none.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;

use wireseal_quic::ConnectionId;

use super::report::Side;

/// Connection IDs and pairs of addresses of the connections that are watched.
#[derive(Default)]
pub(super) struct Routes {
    by_id: HashMap<ConnectionId, Vec<Owner>>,
    /// Client and server; the latest connection last.
    by_addresses: HashMap<[SocketAddr; 2], BTreeSet<u64>>,
    /// How many ids there are of each length, so that a short header is asked for those alone.
    lengths: [usize; ConnectionId::MAX_LENGTH + 1],
    /// Where connections were opened to. Those that are over leave their servers here, so that what comes late is not taken for
    /// something else.
    servers: HashSet<SocketAddr>,
}

/// An end of a connection that has given out a connection ID: who gets the packets for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) connection: u64,
    pub(super) side: Side,
}

/// Ends that one id is remembered of: where more have it, it says nothing.
const MOST_OWNERS: usize = 64;
/// Servers that are remembered, whether or not their connections are over.
const MOST_SERVERS: usize = 1 << 16;

impl Routes {
    /// An id that packets to `owner` may have. One of no octets says nothing, and is left out.
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

    /// Forgets a connection with these ids and pairs of addresses.
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

    /// Who may have given out this id.
    pub(super) fn owners(&self, id: &[u8]) -> &[Owner] {
        let owners = ConnectionId::new(id).ok().and_then(|id| self.by_id.get(&id));
        owners.map_or(&[], Vec::as_slice)
    }

    /// Who may have given out the id that these octets begin with, and its length; the longest first.
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

    /// The latest connection between these addresses, and which end sends from `source`.
    pub(super) fn by_addresses(&self, source: SocketAddr, destination: SocketAddr) -> Option<(u64, Side)> {
        let latest = |ends| self.by_addresses.get(&ends)?.last().copied();
        let sent_by = |side| move |connection| (connection, side);
        latest([source, destination])
            .map(sent_by(Side::Client))
            .or_else(|| latest([destination, source]).map(sent_by(Side::Server)))
    }
}
