//! A model of the keys on a Linux TCP socket, with the rules of the kernel's `net/ipv4/tcp_ao.c`.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm::HmacSha1;
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use crate::manager::action::{Action, SocketKind};
use crate::manager::apply::{Outcome, Scope};
use crate::manager::peers::{Configured, PeerTable};
use crate::manager::state::{Found, Memory, Reported};
use crate::manager::target::{Target, key_of};
use crate::{EinvalReason, Error, KeyName, PeerName};

/// The peer of most tests.
pub const PEER: &str = "192.0.2.7/32";

/// A moment, in seconds of the tests' own time.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_000_000_000 + seconds)
}

/// A lifetime in the tests' own time, `None` for an open end.
pub fn lifetime(from: impl Into<Option<i64>>, until: impl Into<Option<i64>>) -> Lifetime {
    Lifetime::new(from.into().map(at), until.into().map(at)).expect("ends after it starts")
}

/// An MKT with a secret made from a number.
pub fn mkt(send_id: u8, recv_id: u8, secret: u32) -> Mkt {
    let master_key = MasterKey::new(format!("a secret of many octets, number {secret}").as_bytes());
    Mkt::new(KeyId(send_id), KeyId(recv_id), HmacSha1, master_key.expect("not too long"))
        .expect("not too short")
}

/// A key of a chain with the same lifetime for sending and accepting.
pub fn key(key_id: u64, mkt: Mkt, lifetime: Lifetime) -> Key {
    Key::new(key_id, mkt).with_lifetimes(lifetime, lifetime).expect("covers itself")
}

/// A chain with this tolerance in seconds.
pub fn chain(tolerance: u32, keys: impl Into<Vec<Key>>) -> KeyChain {
    let chain = KeyChain::new("tested", keys.into()).expect("a chain");
    chain.with_accept_tolerance(tolerance).expect("no ids in each other's way")
}

/// The name of a key for [`PEER`].
pub fn name(send_id: u8, recv_id: u8) -> KeyName {
    let remote = PEER.parse().expect("a network");
    KeyName { remote, vrf: None, send_id: KeyId(send_id), recv_id: KeyId(recv_id) }
}

/// A peer in any VRF.
pub fn peer(remote: &str) -> PeerName {
    PeerName::new(remote.parse().expect("a network"))
}

/// What a socket whose peer is [`PEER`] should have.
pub fn target(chain: &KeyChain, now: i64, kind: SocketKind) -> Target<'_> {
    Target { chain, peer: peer(PEER), now: at(now), kind, near: &Vec::new }
}

/// The peers of a manager.
pub fn peers(chains: impl IntoIterator<Item = (PeerName, KeyChain)>) -> PeerTable<Configured> {
    let configured = |chain| Configured { chain: Arc::new(chain), version: 0 };
    chains.into_iter().map(|(peer, chain)| (peer, configured(chain))).collect()
}

/// What a socket with the keys of all these peers should have.
pub fn scope(peers: &PeerTable<Configured>, now: i64) -> Scope<'_> {
    Scope { peers, only: None, families: [true; 2], now: at(now), kind: SocketKind::Listener }
}

/// What was asked of a kernel and of the keys that it reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Calls of `TCP_AO_GET_KEYS`.
    pub reads: usize,
    /// Keys that these returned.
    pub keys: usize,
    /// Times that a key's name was looked at.
    pub names: usize,
    /// Comparisons with an MKT.
    pub comparisons: usize,
}

/// A key as it is reported.
struct Report<'a> {
    key: KernelKey,
    is_current: bool,
    is_rnext: bool,
    work: &'a Cell<Work>,
}

impl Reported for Report<'_> {
    fn name(&self) -> KeyName {
        let work = self.work.get();
        self.work.set(Work { names: work.names + 1, ..work });
        self.key.name
    }

    fn is(&self, mkt: &Mkt) -> bool {
        let work = self.work.get();
        self.work.set(Work { comparisons: work.comparisons + 1, ..work });
        self.key.is(mkt)
    }

    fn is_current(&self) -> bool {
        self.is_current
    }

    fn is_rnext(&self) -> bool {
        self.is_rnext
    }

    fn good(&self) -> u64 {
        self.key.good
    }

    fn bad(&self) -> u64 {
        0
    }
}

/// A key as the kernel holds it.
#[derive(Clone, Debug)]
pub struct KernelKey {
    pub name: KeyName,
    pub mkt: Mkt,
    pub good: u64,
}

impl KernelKey {
    fn is(&self, mkt: &Mkt) -> bool {
        self.mkt.parameters() == mkt.parameters()
            && self.mkt.master_key().expose_secret() == mkt.master_key().expose_secret()
    }
}

/// What a segment shows of its key.
#[derive(Clone, Debug)]
pub struct Segment {
    mkt: Mkt,
    rnext_key_id: KeyId,
}

/// Why a segment is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drop {
    KeyNotFound,
    Bad,
}

/// A socket's keys, the one added last first.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub kind: SocketKind,
    pub keys: Vec<KernelKey>,
    pub current: Option<KeyName>,
    pub rnext: Option<KeyName>,
}

impl Kernel {
    pub fn new(kind: SocketKind) -> Self {
        Self { kind, keys: Vec::new(), current: None, rnext: None }
    }

    /// A connection with one key.
    pub fn connected(mkt: Mkt) -> Self {
        let name = name(mkt.send_id().0, mkt.recv_id().0);
        let keys = vec![KernelKey { name, mkt, good: 0 }];
        Self { kind: SocketKind::Connection, keys, current: Some(name), rnext: Some(name) }
    }

    /// Adds a key as another program would.
    pub fn with(mut self, name: KeyName, mkt: Mkt) -> Self {
        self.add(name, mkt, false, false).expect("no ids in the way");
        self
    }

    /// A connection in no VRF that this listener accepts from `address` when the handshake ended under `key`.
    pub fn accept(&self, address: &str, key: KeyName) -> Self {
        self.accept_in(address, key, 0)
    }

    /// The same in a VRF.
    pub fn accept_in(&self, address: &str, key: KeyName, vrf: u32) -> Self {
        let address: IpAddr = address.parse().expect("an address");
        let mut keys = self.keys.clone();
        keys.retain(|key| key.name.remote.contains(&address) && key.name.vrf.is_none_or(|of| of == vrf));
        keys.iter_mut().for_each(|key| key.good = 0);
        Self { kind: SocketKind::Connection, keys, current: Some(key), rnext: Some(key) }
    }

    /// What `TCP_AO_GET_KEYS` returns.
    fn report<'a>(&self, work: &'a Cell<Work>) -> Vec<Report<'a>> {
        let Work { reads, keys, .. } = work.get();
        work.set(Work { reads: reads + 1, keys: keys + self.keys.len(), ..work.get() });
        let report = |key: &KernelKey| Report {
            key: key.clone(),
            is_current: self.current == Some(key.name),
            is_rnext: self.rnext == Some(key.name),
            work,
        };
        self.keys.iter().map(report).collect()
    }

    /// The keys as the manager recognises them.
    pub fn found(&self, target: &Target<'_>, memory: &Memory) -> Vec<Found> {
        self.report(&Cell::default()).iter().map(|key| target.recognise(memory, key)).collect()
    }

    /// Reaches the target undisturbed.
    pub fn settle(&mut self, target: &Target<'_>, memory: &mut Memory) -> Outcome {
        self.settle_with(target, memory, |kernel, action| kernel.apply(action, target))
    }

    /// Reaches the target while `apply` stands between the manager and the kernel.
    pub fn settle_with(
        &mut self,
        target: &Target<'_>,
        memory: &mut Memory,
        mut apply: impl FnMut(&mut Self, &Action) -> Result<(), Error>,
    ) -> Outcome {
        let peers = peers([(target.peer, target.chain.clone())]);
        let only = (target.kind != SocketKind::Listener).then_some(target.peer);
        let scope = Scope { only, now: target.now, kind: target.kind, ..scope(&peers, 0) };
        let mut memories = PeerTable::from([(target.peer, *memory)]);
        let (outcome, _) =
            self.settle_all_with(&scope, &mut memories, |kernel, action, _| apply(kernel, action));
        *memory = memories[&target.peer];
        outcome
    }

    /// Gives all peers their keys undisturbed, and counts the work.
    pub fn settle_all(&mut self, scope: &Scope<'_>, memories: &mut PeerTable<Memory>) -> (Outcome, Work) {
        self.settle_all_with(scope, memories, Self::call)
    }

    /// Gives all peers their keys while `apply` stands between the manager and the kernel, and counts the work.
    pub fn settle_all_with(
        &mut self,
        scope: &Scope<'_>,
        memories: &mut PeerTable<Memory>,
        mut apply: impl FnMut(&mut Self, &Action, Option<&KeyChain>) -> Result<(), Error>,
    ) -> (Outcome, Work) {
        let (kernel, work) = (RefCell::new(self), Cell::default());
        let outcome = scope.settle(
            memories,
            || Ok(kernel.borrow().report(&work)),
            |action, chain| apply(&mut kernel.borrow_mut(), action, chain),
        );
        (outcome, work.get())
    }

    /// The call that an action comes to.
    pub fn apply(&mut self, action: &Action, target: &Target<'_>) -> Result<(), Error> {
        self.call(action, Some(target.chain))
    }

    /// The same, with the chain that a key to be added is from.
    pub fn call(&mut self, action: &Action, chain: Option<&KeyChain>) -> Result<(), Error> {
        match *action {
            Action::Add { key_id, key, set_current, set_rnext } => {
                let of_chain = chain.and_then(|chain| key_of(chain, key_id));
                self.add(key, of_chain.expect("of the chain").mkt().clone(), set_current, set_rnext)
            }
            Action::AddPlaceholder { key } => {
                let mkt = mkt(key.send_id.0, key.recv_id.0, u32::MAX);
                self.add(key, mkt, false, false)
            }
            Action::SetCurrent(key) => {
                self.check_not_listening()?;
                self.current = Some(self.by_send_id(key.send_id)?);
                Ok(())
            }
            Action::SetRnext(key) => {
                self.check_not_listening()?;
                self.rnext = Some(self.by_recv_id(key.recv_id)?);
                Ok(())
            }
            Action::Delete { key, successor, is_current, is_rnext, .. } => {
                let current = successor.filter(|_| is_current).map(|name| name.send_id);
                let rnext = successor.filter(|_| is_rnext).map(|name| name.recv_id);
                self.delete(key, current, rnext)
            }
        }
    }

    fn add(&mut self, name: KeyName, mkt: Mkt, set_current: bool, set_rnext: bool) -> Result<(), Error> {
        if set_current || set_rnext {
            self.check_not_listening()?;
        }
        if self.kind == SocketKind::Connection && self.keys.is_empty() {
            return Err(Error::Connected);
        }
        let overlaps = |other: IpCidr| {
            other.contains(&name.remote.first_address()) || name.remote.contains(&other.first_address())
        };
        // A key for one VRF is not in the way of a key for all, but the other way round.
        let same_vrf = |other: Option<u32>| other.is_none_or(|other| other == name.vrf.unwrap_or(0));
        let is_in_the_way = |key: &KernelKey| {
            (key.name.send_id == name.send_id || key.name.recv_id == name.recv_id)
                && overlaps(key.name.remote)
                && same_vrf(key.name.vrf)
        };
        if self.keys.iter().any(is_in_the_way) {
            return Err(Error::IdInUse { send_id: name.send_id, recv_id: name.recv_id });
        }
        self.keys.insert(0, KernelKey { name, mkt, good: 0 });
        self.current = if set_current { Some(name) } else { self.current };
        self.rnext = if set_rnext { Some(name) } else { self.rnext };
        Ok(())
    }

    fn delete(&mut self, name: KeyName, current: Option<KeyId>, rnext: Option<KeyId>) -> Result<(), Error> {
        if current.is_some() || rnext.is_some() {
            self.check_not_listening()?;
        }
        let current = current.map(|id| self.by_send_id(id)).transpose()?;
        let rnext = rnext.map(|id| self.by_recv_id(id)).transpose()?;
        let missing = Error::NoSuchKey { send_id: Some(name.send_id), recv_id: Some(name.recv_id) };
        let is_it = |key: &KernelKey| key.name == name && current != Some(name) && rnext != Some(name);
        let index = self.keys.iter().position(is_it).ok_or(missing)?;
        // The successors take over even if the key then turns out to be in use.
        self.current = current.or(self.current);
        self.rnext = rnext.or(self.rnext);
        if self.kind == SocketKind::Listener {
            self.current = self.current.filter(|current| *current != name);
            self.rnext = self.rnext.filter(|rnext| *rnext != name);
        } else if self.current == Some(name) || self.rnext == Some(name) {
            return Err(Error::KeyInUse(name));
        }
        self.keys.remove(index);
        Ok(())
    }

    fn check_not_listening(&self) -> Result<(), Error> {
        if self.kind == SocketKind::Listener {
            return Err(Error::Refused { call: "the call", because: EinvalReason::Listening });
        }
        Ok(())
    }

    fn by_send_id(&self, id: KeyId) -> Result<KeyName, Error> {
        let found = self.keys.iter().find(|key| key.name.send_id == id);
        found.map(|key| key.name).ok_or(Error::NoSuchKey { send_id: Some(id), recv_id: None })
    }

    fn by_recv_id(&self, id: KeyId) -> Result<KeyName, Error> {
        let found = self.keys.iter().find(|key| key.name.recv_id == id);
        found.map(|key| key.name).ok_or(Error::NoSuchKey { send_id: None, recv_id: Some(id) })
    }

    /// The key with this name.
    fn key(&self, name: KeyName) -> &KernelKey {
        self.keys.iter().find(|key| key.name == name).expect("a key with this name")
    }

    /// The next segment of a connection.
    pub fn send(&self) -> Segment {
        let current = self.key(self.current.expect("a connection has a current key"));
        let rnext = self.rnext.expect("a connection has an rnext key");
        Segment { mkt: current.mkt.clone(), rnext_key_id: rnext.recv_id }
    }

    /// Verifies a segment from the peer and switches to the key that it asks for.
    pub fn receive(&mut self, segment: &Segment) -> Result<(), Drop> {
        let key_id = segment.mkt.send_id();
        let index = self.keys.iter().position(|key| key.name.recv_id == key_id).ok_or(Drop::KeyNotFound)?;
        let key = &mut self.keys[index];
        if key.mkt.master_key().expose_secret() != segment.mkt.master_key().expose_secret() {
            return Err(Drop::Bad);
        }
        key.good += 1;
        if let Ok(asked_for) = self.by_send_id(segment.rnext_key_id) {
            self.current = Some(asked_for);
        }
        Ok(())
    }
}
