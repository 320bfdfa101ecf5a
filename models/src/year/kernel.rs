//! A socket of a kernel: TCP-AO keys with a current and an rnext key, which the real key manager adds and deletes as on Linux, around the real
//! `Connection`. It follows net/ipv4/tcp_ao.c.

use std::sync::Arc;

use wireseal_keys::{KeyChain, Timestamp};
use wireseal_linux::{
    Call, Calls, Error, InstalledKey, KeyName, PeerName, SimulatedSocket, SimulatedStep, SocketKind,
};
use wireseal_tcp_ao::{
    Connection, ConnectionState, Isn, KeyId, MasterKey, Mkt, MktSet, Segment, SocketPair, Verified,
    VerifiedSyn, VerifyError,
};

/// The most keys of a connection. A kernel has no limit, and no chain of the simulator comes near this one.
pub(super) const ROOM: usize = 8;

/// A key on a socket.
#[derive(Clone, Debug)]
struct Held {
    name: KeyName,
    mkt: Mkt,
    good: u64,
}

/// A socket with the key manager's memory of it.
pub(super) struct Socket {
    manager: SimulatedSocket,
    pub(super) keys: SocketKeys,
}

/// The keys of a socket, the newest first, and its connection if it has one.
pub(super) struct SocketKeys {
    kind: SocketKind,
    held: Vec<Held>,
    current: Option<KeyName>,
    rnext: Option<KeyName>,
    pub(super) connection: Option<Connection<ROOM>>,
}

impl Socket {
    /// A socket that listens, or that will connect.
    pub(super) fn new(peer: PeerName, kind: SocketKind) -> Self {
        let keys = SocketKeys { kind, held: Vec::new(), current: None, rnext: None, connection: None };
        Self { manager: SimulatedSocket::new(peer), keys }
    }

    /// Brings the keys in line with a chain.
    pub(super) fn step(&mut self, chain: &Arc<KeyChain>, now: Timestamp) -> SimulatedStep {
        self.manager.step(chain, self.keys.kind, now, &mut self.keys)
    }

    /// Connects; fails without a key to sign with.
    pub(super) fn connect(mut self, pair: SocketPair, isn: u32) -> Option<Self> {
        let mkts = self.keys.mkts();
        self.keys.connection = Some(Connection::active(pair, Isn(isn), &mkts).ok()?);
        Some(self)
    }

    /// The socket of a connection that a listener accepts: with a copy of its keys, and a new memory.
    pub(super) fn accept(listener: &SocketKeys, syn: &VerifiedSyn<'_, '_, ROOM>, peer: PeerName) -> Self {
        let mut socket = Self::new(peer, SocketKind::Connection);
        socket.keys.held.clone_from(&listener.held);
        socket.keys.held.iter_mut().for_each(|held| held.good = 0);
        socket.keys.connection = Some(Connection::passive(syn));
        socket.keys.follow();
        socket
    }

    /// The handshake is over.
    pub(super) fn establish(&mut self) {
        self.keys.kind = SocketKind::Connection;
    }

    /// Moves the connection: exports it, and goes on with what was written and read. Before it is established, nothing happens.
    pub(super) fn change_state(&mut self, change: impl FnOnce(&mut ConnectionState)) -> Result<(), String> {
        let mkts = self.keys.mkts();
        let Some(connection) = self.keys.connection.take_if(|connection| connection.is_established()) else {
            return Ok(());
        };
        let octets = connection.export().map_err(|error| error.to_string())?.to_octets();
        let mut state = ConnectionState::from_octets(&octets).map_err(|error| error.to_string())?;
        change(&mut state);
        self.keys.connection = Some(Connection::import(&state, &mkts).map_err(|error| error.to_string())?);
        Ok(())
    }
}

impl SocketKeys {
    /// The keys as a set, the current one first.
    pub(super) fn mkts(&self) -> MktSet<ROOM> {
        let is_current = |held: &&Held| Some(held.name) == self.current;
        let (first, rest): (Vec<_>, Vec<_>) = self.held.iter().partition(is_current);
        MktSet::from_mkts(first.into_iter().chain(rest).map(|held| held.mkt.clone())).expect("no ids clash")
    }

    /// Verifies a segment. A kernel signs with the key that any good segment asks for (RFC 5925 §7.5).
    /// With the fault `is_deaf` it obeys only segments that are not older than the newest.
    pub(super) fn verify<'a>(
        &mut self,
        segment: &Segment<'a>,
        is_deaf: bool,
    ) -> Result<Verified<'a>, VerifyError> {
        let connection = self.connection.as_mut().ok_or(VerifyError::State)?;
        let (before, highest) = (connection.current_key().send_id, connection.highest_received().1);
        let verified = connection.verify(segment)?;
        if let Some(ao) = segment.ao_option()? {
            let is_heard = !is_deaf || !segment.sequence().before(highest);
            // Has no effect for a key that is not held.
            let _ = connection.set_current_key(if is_heard { ao.rnext_key_id } else { before });
        }
        let signed = self.held.iter_mut().find(|held| held.mkt.recv_id() == verified.key_id());
        signed.expect("its key is held").good += 1;
        self.follow();
        Ok(verified)
    }

    /// Whether it has a key with this RecvID.
    pub(super) fn has_recv_id(&self, id: KeyId) -> bool {
        self.held.iter().any(|held| held.mkt.recv_id() == id)
    }

    /// The SendIDs of all keys.
    pub(super) fn send_ids(&self) -> impl Iterator<Item = u8> {
        self.held.iter().map(|held| held.mkt.send_id().0)
    }

    /// Makes the connection's current and rnext key those of the socket.
    fn follow(&mut self) {
        let Some(connection) = &self.connection else { return };
        let name =
            |send_id| self.held.iter().find(|held| held.mkt.send_id() == send_id).map(|held| held.name);
        let [current, rnext] =
            [connection.current_key(), connection.rnext_key()].map(|key| name(key.send_id));
        (self.current, self.rnext) = (current, rnext);
    }

    fn add(&mut self, name: KeyName, mkt: &Mkt, set_current: bool, set_rnext: bool) -> Result<(), Error> {
        let clashes = |held: &Held| held.name.send_id == name.send_id || held.name.recv_id == name.recv_id;
        if self.held.iter().any(clashes) {
            return Err(Error::IdInUse { send_id: name.send_id, recv_id: name.recv_id });
        }
        if let Some(connection) = &mut self.connection {
            connection.add_key(mkt).expect("there is room, and no ids clash");
        }
        self.held.insert(0, Held { name, mkt: mkt.clone(), good: 0 });
        self.use_keys(set_current.then_some(name), set_rnext.then_some(name));
        Ok(())
    }

    fn use_keys(&mut self, current: Option<KeyName>, rnext: Option<KeyName>) {
        (self.current, self.rnext) = (current.or(self.current), rnext.or(self.rnext));
        if let Some(connection) = &mut self.connection {
            if let Some(key) = current {
                connection.set_current_key(key.send_id).expect("it is held");
            }
            if let Some(key) = rnext {
                connection.set_rnext_key(key.recv_id).expect("it is held");
            }
        }
    }
}

impl Calls for SocketKeys {
    fn look(&mut self) -> Result<Vec<InstalledKey>, Error> {
        let report = |held: &Held| {
            let mut key = InstalledKey::simulated(held.name, &held.mkt);
            key.good = held.good;
            (key.is_current, key.is_rnext) = (self.current == Some(held.name), self.rnext == Some(held.name));
            key
        };
        Ok(self.held.iter().map(report).collect())
    }

    fn call(&mut self, call: &Call<'_>) -> Result<(), Error> {
        match *call {
            Call::Add { key, .. } => self.add(key.name(), key.mkt, key.set_current, key.set_rnext),
            Call::AddPlaceholder { key, algorithm } => {
                // No end of the simulation has this key.
                let secret = MasterKey::new(b"the secret of a placeholder").expect("not too long");
                let mkt =
                    Mkt::new(key.send_id, key.recv_id, algorithm, secret).expect("a kernel's algorithm");
                self.add(key, &mkt, false, false)
            }
            Call::SetCurrent(key) => {
                self.use_keys(Some(key), None);
                Ok(())
            }
            Call::SetRnext(key) => {
                self.use_keys(None, Some(key));
                Ok(())
            }
            Call::Delete { key, successor, is_current, is_rnext, .. } => {
                self.use_keys(successor.filter(|_| is_current), successor.filter(|_| is_rnext));
                if self.kind == SocketKind::Listener {
                    (self.current, self.rnext) = (None, None);
                } else if self.current == Some(key) || self.rnext == Some(key) {
                    return Err(Error::KeyInUse(key));
                }
                self.held.retain(|held| held.name != key);
                if let Some(connection) = &mut self.connection {
                    connection.remove_key(key.send_id, None).expect("it is held, and not in use");
                }
                Ok(())
            }
        }
    }

    fn reset(&mut self) {
        self.connection = None;
    }
}
