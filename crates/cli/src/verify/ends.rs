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
    /// By ends without a scope.
    known: HashMap<Ends, Known, RandomState>,
}

#[derive(Debug, Default)]
struct Known {
    /// Those of the connections, except for [`Scope::NONE`].
    connections: Vec<Scope>,
    directions: Vec<JoinedDirection>,
}

/// One direction of a connection that is in another scope than the rest.
#[derive(Debug)]
struct JoinedDirection {
    is_from_first: bool,
    scope: Scope,
    connection: Scope,
}

/// How many connections of the same ends in other scopes are looked at, the newest first.
const MOST_OTHERS: usize = 16;

impl Scopes {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// A connection begins.
    pub(super) fn begin(&mut self, ends: &Ends) {
        if !ends.scope.is_none() {
            self.known.entry(ends.within(Scope::NONE)).or_default().connections.push(ends.scope);
        }
    }

    /// A connection is over.
    pub(super) fn end(&mut self, ends: &Ends) {
        if self.known.is_empty() {
            return;
        }
        let key = ends.within(Scope::NONE);
        let Some(known) = self.known.get_mut(&key) else { return };
        known.connections.retain(|scope| *scope != ends.scope);
        known.directions.retain(|direction| direction.connection != ends.scope);
        if known.connections.is_empty() && known.directions.is_empty() {
            self.known.remove(&key);
        }
    }

    /// Connections of the same ends in other scopes.
    pub(super) fn others(&self, ends: &Ends) -> impl Iterator<Item = Ends> {
        let key = ends.within(Scope::NONE);
        let scoped = self.known.get(&key).map_or(&[][..], |known| &known.connections);
        let scoped = scoped.iter().rev().copied();
        let scopes = [Scope::NONE].into_iter().chain(scoped).take(MOST_OTHERS);
        scopes.filter(|scope| *scope != ends.scope).map(move |scope| key.within(scope))
    }

    /// The connection that this direction was joined to.
    pub(super) fn joined(&self, ends: &Ends, source: &Endpoint) -> Option<Ends> {
        let known = self.known.get(&ends.within(Scope::NONE))?;
        let is_from_first = ends.is_first(source);
        let direction = known
            .directions
            .iter()
            .find(|direction| (direction.scope, direction.is_from_first) == (ends.scope, is_from_first))?;
        Some(ends.within(direction.connection))
    }

    /// Joins a direction to a connection of the same ends in another scope.
    pub(super) fn join(&mut self, ends: &Ends, source: &Endpoint, connection: &Ends) {
        let known = self.known.entry(ends.within(Scope::NONE)).or_default();
        known.directions.push(JoinedDirection {
            is_from_first: ends.is_first(source),
            scope: ends.scope,
            connection: connection.scope,
        });
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
}
