//! Which connection a segment is of: by its ends, and by the virtual network it was in.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use wireseal_tcp_ao::Endpoint;

use crate::capture::Scope;

/// A connection's ends in an order that does not depend on who sends, IPv4 addresses mapped to IPv6, and its scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    addresses: [u128; 2],
    ports: u32,
    pub(super) scope: Scope,
}

// As much as the addresses and ports alone would take, with padding.
const _: () = assert!(size_of::<Ends>() == 48);

#[inline]
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => 0xffff_0000_0000 | u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Ends {
    #[inline]
    pub(super) fn of(source: IpAddr, destination: IpAddr, ports: [u16; 2], scope: Scope) -> Self {
        let (source, destination) = (bits(source), bits(destination));
        let [source_port, destination_port] = ports.map(u32::from);
        if (source, source_port) < (destination, destination_port) {
            Self { addresses: [source, destination], ports: source_port << 16 | destination_port, scope }
        } else {
            Self { addresses: [destination, source], ports: destination_port << 16 | source_port, scope }
        }
    }

    /// Those of a connection.
    pub(super) fn of_connection([opener, listener]: &[Endpoint; 2], scope: Scope) -> Self {
        Self::of(opener.address(), listener.address(), [opener.port(), listener.port()], scope)
    }

    /// Whether they are those of this connection.
    #[inline]
    pub(super) fn are_of(&self, [opener, listener]: &[Endpoint; 2], scope: Scope) -> bool {
        let [first, second] = self.addresses;
        let (one, other) = (bits(opener.address()), bits(listener.address()));
        let [opener, listener] = [opener.port(), listener.port()].map(u32::from);
        let is_as_ordered = one == first && other == second && opener << 16 | listener == self.ports;
        let is_reversed = one == second && other == first && listener << 16 | opener == self.ports;
        (is_as_ordered || is_reversed) && scope == self.scope
    }

    const fn within(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Whether this end is the first of the two in their order.
    fn is_first(&self, end: &Endpoint) -> bool {
        (bits(end.address()), u32::from(end.port())) == (self.addresses[0], self.ports >> 16)
    }
}

impl Hash for Ends {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.addresses[0]);
        state.write_u128(self.addresses[1]);
        state.write_u32(self.ports);
        if !self.scope.is_none() {
            self.scope.hash(state);
        }
    }
}

/// The scopes of live connections.
///
/// The two directions of a connection may be in different scopes: on private VLANs, a router with one interface for all VLANs, or
/// asymmetric routes. What is here joins them. It is empty as long as nothing has a scope.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    /// Those of the newest connections, except for [`Scope::NONE`], by ends without a scope. They are few, so that any number of
    /// connections of the same ends takes no longer to end.
    newest: HashMap<Ends, Vec<Scope>, RandomState>,
    /// Directions in another scope than the rest of their connection: which connection.
    joined: HashMap<(Ends, IsFromFirst), Ends, RandomState>,
    /// The scopes of these directions, by connection.
    of_connection: HashMap<Ends, Vec<(Scope, IsFromFirst)>, RandomState>,
}

/// Whether the sender is the first of [`Ends`].
type IsFromFirst = bool;

/// How many connections of the same ends in other scopes are looked at, the newest first.
const MOST_OTHERS: usize = 16;

impl Scopes {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_empty() && self.joined.is_empty()
    }

    /// A connection begins.
    pub(super) fn begin(&mut self, ends: &Ends) {
        if !ends.scope.is_none() {
            let newest = self.newest.entry(ends.within(Scope::NONE)).or_default();
            if newest.len() == MOST_OTHERS {
                newest.remove(0);
            }
            newest.push(ends.scope);
        }
    }

    /// A connection is over.
    pub(super) fn end(&mut self, ends: &Ends) {
        if self.is_empty() {
            return;
        }
        let key = ends.within(Scope::NONE);
        if let Some(newest) = self.newest.get_mut(&key) {
            newest.retain(|scope| *scope != ends.scope);
            if newest.is_empty() {
                self.newest.remove(&key);
            }
        }
        for (scope, is_from_first) in self.of_connection.remove(ends).unwrap_or_default() {
            self.joined.remove(&(ends.within(scope), is_from_first));
        }
    }

    /// Connections of the same ends in other scopes.
    pub(super) fn others(&self, ends: &Ends) -> impl Iterator<Item = Ends> {
        let key = ends.within(Scope::NONE);
        let scoped = self.newest.get(&key).map_or(&[][..], Vec::as_slice).iter().rev().copied();
        let scopes = [Scope::NONE].into_iter().chain(scoped).take(MOST_OTHERS);
        scopes.filter(|scope| *scope != ends.scope).map(move |scope| key.within(scope))
    }

    /// The connection that this direction was joined to.
    pub(super) fn joined(&self, ends: &Ends, source: &Endpoint) -> Option<Ends> {
        self.joined.get(&(*ends, ends.is_first(source))).copied()
    }

    /// Joins a direction to a connection of the same ends in another scope.
    pub(super) fn join(&mut self, ends: &Ends, source: &Endpoint, connection: &Ends) {
        let is_from_first = ends.is_first(source);
        self.joined.insert((*ends, is_from_first), *connection);
        self.of_connection.entry(*connection).or_default().push((ends.scope, is_from_first));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Network;

    #[test]
    fn scopes_of_connections_that_are_over_are_forgotten() {
        let [source, listener] = [Endpoint::new([192, 0, 2, 1], 50_000), Endpoint::new([192, 0, 2, 2], 179)];
        let within = |vlan| {
            let scope = Scope::NONE.with(Network::Vlan(vlan));
            Ends::of(source.address(), listener.address(), [source.port(), listener.port()], scope)
        };
        let mut scopes = Scopes::default();
        scopes.begin(&within(10));
        scopes.join(&within(20), &listener, &within(10));
        assert_eq!(scopes.joined(&within(20), &listener), Some(within(10)));
        // Only that direction, and only in that VLAN.
        assert_eq!(scopes.joined(&within(20), &source), None);
        assert_eq!(scopes.joined(&within(30), &listener), None);
        scopes.begin(&within(30));
        scopes.end(&within(10));
        assert_eq!(scopes.joined(&within(20), &listener), None);
        scopes.end(&within(30));
        assert!(scopes.is_empty());
    }

    #[test]
    fn connections_of_one_pair_of_ends_in_many_scopes_end_one_by_one() {
        let [source, listener] = [Endpoint::new([192, 0, 2, 1], 50_000), Endpoint::new([192, 0, 2, 2], 179)];
        let within = |network| {
            let scope = Scope::NONE.with(Network::Virtual(network));
            Ends::of(source.address(), listener.address(), [source.port(), listener.port()], scope)
        };
        const CONNECTIONS: u32 = 20_000;
        let mut scopes = Scopes::default();
        for network in 0..CONNECTIONS {
            scopes.begin(&within(network));
            scopes.join(&within(CONNECTIONS + network), &listener, &within(network));
            // What an end looks through.
            assert!(scopes.newest.values().all(|newest| newest.len() <= MOST_OTHERS));
        }
        assert_eq!(scopes.others(&within(CONNECTIONS)).count(), MOST_OTHERS);
        for network in 0..CONNECTIONS {
            assert_eq!(scopes.joined(&within(CONNECTIONS + network), &listener), Some(within(network)));
            assert!(scopes.of_connection.get(&within(network)).is_some_and(|joined| joined.len() == 1));
            scopes.end(&within(network));
            assert_eq!(scopes.joined(&within(CONNECTIONS + network), &listener), None);
        }
        assert!(scopes.is_empty() && scopes.of_connection.is_empty());
    }
}
