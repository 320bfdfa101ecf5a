//! The manager without a kernel that has TCP-AO: a model of the keys on a Linux TCP socket follows the rules of the kernel's
//! `net/ipv4/tcp_ao.c`.

mod alike;
mod asks;
mod fleet;
mod links;
mod mixed;
mod pair;
mod peers;
mod plan;
mod policy;
mod rotation;
mod steps;
mod timer;

use std::net::IpAddr;
use std::sync::Arc;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm::HmacSha1;
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use super::apply::{Calls, Outcome, Scope};
use super::peers::{Configured, PeerTable};
use super::plan::SocketKind::{self, Closed, Connection, Listener};
use super::plan::{Action, Call, Found, Memory, Origin, Target};
use super::{KeyManager, check_handshake};
use crate::key::COMPARISONS;
use crate::{EinvalReason, Error, Generation, InstalledKey, KeyName, PeerName, SocketKey};

const PEER: &str = "192.0.2.7/32";

/// A moment, in seconds of the tests' own time.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_000_000_000 + seconds)
}

/// A lifetime in the tests' own time, `None` for an open end.
fn lifetime(from: impl Into<Option<i64>>, until: impl Into<Option<i64>>) -> Lifetime {
    Lifetime::new(from.into().map(at), until.into().map(at)).expect("ends after it starts")
}

/// An MKT with secret number `secret`.
fn mkt(send_id: u8, recv_id: u8, secret: u32) -> Mkt {
    let master_key = MasterKey::new(format!("a secret of many octets, number {secret}").as_bytes());
    Mkt::new(KeyId(send_id), KeyId(recv_id), HmacSha1, master_key.expect("not too long"))
        .expect("not too short")
}

/// A key of a chain with the same lifetime for sending and accepting.
fn key(key_id: u64, mkt: Mkt, lifetime: Lifetime) -> Key {
    Key::new(key_id, mkt).with_lifetimes(lifetime, lifetime).expect("covers itself")
}

/// A chain of one key, with the same id and secret number for sending and receiving.
fn one_key(id: u8, from: impl Into<Option<i64>>, until: impl Into<Option<i64>>) -> KeyChain {
    chain(0, [key(id.into(), mkt(id, id, id.into()), lifetime(from, until))])
}

fn manager(peers: impl IntoIterator<Item = (PeerName, KeyChain)>) -> KeyManager {
    let manager = KeyManager::default();
    manager.set_peers(peers).unwrap();
    manager
}

/// A chain with this tolerance in seconds.
fn chain(tolerance: u32, keys: impl Into<Vec<Key>>) -> KeyChain {
    let chain = KeyChain::new("tested", keys.into()).expect("a chain");
    chain.with_accept_tolerance(tolerance).expect("no ids in each other's way")
}

/// The name of a key for [`PEER`].
pub(in crate::manager) fn name(send_id: u8, recv_id: u8) -> KeyName {
    let remote = PEER.parse().expect("a network");
    KeyName { remote, vrf: None, send_id: KeyId(send_id), recv_id: KeyId(recv_id) }
}

/// A peer in any VRF.
fn peer(remote: &str) -> PeerName {
    PeerName::new(remote.parse().expect("a network"))
}

/// Actions in short: `add 2 rnext`, `delete leftover 1 -> 2 current`. A key of the chain appears under its SendID.
fn short(actions: impl IntoIterator<Item = Action>) -> String {
    let short = |action| {
        let in_use = |is_current, is_rnext| {
            [(is_current, " current"), (is_rnext, " rnext")]
                .map(|(is, text)| if is { text } else { "" })
                .concat()
        };
        match action {
            Action::Add { key_id, key, set_current, set_rnext } => {
                let id =
                    if key_id == u64::from(key.send_id.0) { String::new() } else { format!("{key_id} as ") };
                format!("add {id}{}{}", key.send_id, in_use(set_current, set_rnext))
            }
            Action::AddPlaceholder { key } => format!("placeholder {}", key.send_id),
            Action::SetCurrent(key) => format!("sign {}", key.send_id),
            Action::SetRnext(key) => format!("ask {}", key.send_id),
            Action::Delete { key, origin, successor, is_current, is_rnext } => {
                let id = key.send_id;
                let key = match origin {
                    Origin::Chain(key_id) => key_id.to_string(),
                    Origin::Leftover => format!("leftover {id}"),
                    Origin::Placeholder => format!("placeholder {id}"),
                    Origin::Foreign => panic!("{action} of another program"),
                };
                let successor = successor.map(|name| format!(" -> {}", name.send_id)).unwrap_or_default();
                format!("delete {key}{successor}{}", in_use(is_current, is_rnext))
            }
        }
    };
    actions.into_iter().map(short).collect::<Vec<_>>().join(", ")
}

fn peers(chains: impl IntoIterator<Item = (PeerName, KeyChain)>) -> PeerTable<Configured> {
    let version = Generation::default();
    let configured = |chain| Configured { chain: Arc::new(chain), is_blocked: false, version };
    chains.into_iter().map(|(peer, chain)| (peer, configured(chain))).collect()
}

/// The scope of a socket that has the keys of all these peers.
fn scope(peers: &PeerTable<Configured>, now: i64) -> Scope<'_> {
    Scope { peers, only: None, families: [true; 2], device: None, now: at(now), kind: SocketKind::Listener }
}

/// The work of a step: calls to the kernel, and comparisons of the keys that it reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Work {
    /// Calls of `TCP_AO_GET_KEYS`.
    reads: usize,
    /// Keys that these returned.
    keys: usize,
    /// Comparisons with an MKT.
    comparisons: usize,
}

fn secret_of(key: &InstalledKey) -> &[u8] {
    key.master_key.as_ref().expect("a key has a secret").expose_secret()
}

/// A segment's key, and the key that it asks for.
#[derive(Clone, Debug)]
struct Segment {
    key: InstalledKey,
    rnext_key_id: KeyId,
}

/// Why a segment is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Drop {
    KeyNotFound,
    Bad,
}

/// A socket's keys, the most recently added one first.
#[derive(Clone, Debug)]
struct Kernel {
    kind: SocketKind,
    keys: Vec<InstalledKey>,
    current: Option<KeyName>,
    rnext: Option<KeyName>,
    /// The manager's memory of it, if it is for one peer.
    memory: Memory,
    /// The connection was reset.
    is_reset: bool,
}

impl Calls for Kernel {
    fn look(&mut self) -> Result<Vec<InstalledKey>, Error> {
        let report = |key: &InstalledKey| InstalledKey {
            is_current: self.current == Some(key.name),
            is_rnext: self.rnext == Some(key.name),
            ..key.clone()
        };
        Ok(self.keys.iter().map(report).collect())
    }

    fn call(&mut self, call: &Call<'_>) -> Result<(), Error> {
        match *call {
            Call::Add { key, .. } => self.add(&key),
            Call::AddPlaceholder { key, .. } => {
                let mkt = mkt(key.send_id.0, key.recv_id.0, u32::MAX);
                self.add(&SocketKey { vrf: key.vrf, ..SocketKey::new(key.remote, &mkt) })
            }
            Call::SetCurrent(key) => {
                self.check_not_listening()?;
                self.current = Some(self.by_send_id(key.send_id)?);
                Ok(())
            }
            Call::SetRnext(key) => {
                self.check_not_listening()?;
                self.rnext = Some(self.by_recv_id(key.recv_id)?);
                Ok(())
            }
            Call::Delete { key, successor, is_current, is_rnext, .. } => {
                let current = successor.filter(|_| is_current).map(|name| name.send_id);
                let rnext = successor.filter(|_| is_rnext).map(|name| name.recv_id);
                self.delete(key, current, rnext)
            }
        }
    }

    fn reset(&mut self) {
        self.is_reset = true;
    }
}

/// A kernel, and a function that can interfere between it and the manager. Counts the work.
struct Between<'a, F> {
    kernel: &'a mut Kernel,
    between: F,
    work: Work,
}

impl<F: FnMut(&mut Kernel, &Call<'_>) -> Result<(), Error>> Calls for Between<'_, F> {
    fn look(&mut self) -> Result<Vec<InstalledKey>, Error> {
        self.work.reads += 1;
        self.work.keys += self.kernel.keys.len();
        self.kernel.look()
    }

    fn call(&mut self, call: &Call<'_>) -> Result<(), Error> {
        (self.between)(self.kernel, call)
    }

    fn reset(&mut self) {
        self.kernel.reset();
    }
}

impl Kernel {
    fn new(kind: SocketKind) -> Self {
        let memory = Memory::default();
        Self { kind, keys: Vec::new(), current: None, rnext: None, memory, is_reset: false }
    }

    fn connected(mkt: &Mkt) -> Self {
        let name = name(mkt.send_id().0, mkt.recv_id().0);
        let keys = vec![InstalledKey::of(name, mkt)];
        Self { keys, current: Some(name), rnext: Some(name), ..Self::new(Connection) }
    }

    /// Adds a key as another program would.
    fn with(mut self, name: KeyName, mkt: &Mkt) -> Self {
        self.add(&SocketKey { vrf: name.vrf, ..SocketKey::new(name.remote, mkt) })
            .expect("no ids in the way");
        self
    }

    /// The connection that this listener accepts from `address` in this VRF (0 for none) after a handshake that ended under `key`.
    fn accept(&self, address: &str, key: KeyName, vrf: u32) -> Self {
        let address: IpAddr = address.parse().expect("an address");
        let mut keys = self.keys.clone();
        keys.retain(|key| key.name.remote.contains(&address) && key.name.vrf.is_none_or(|of| of == vrf));
        keys.iter_mut().for_each(|key| key.good = 0);
        Self { keys, current: Some(key), rnext: Some(key), ..Self::new(Connection) }
    }

    /// The target for it, if its peer is [`PEER`].
    fn target<'a>(&self, chain: &'a KeyChain, now: i64) -> Target<'a> {
        Target { chain, peer: peer(PEER), now: at(now), kind: self.kind, near: &Vec::new }
    }

    /// The keys as the manager recognises them.
    fn found(&self, target: &Target<'_>) -> Vec<Found> {
        self.clone().look().unwrap().iter().map(|key| target.recognise(&self.memory, key)).collect()
    }

    /// The plan for [`PEER`]: its actions, and whether no key is valid for sending.
    fn plan(&self, chain: &KeyChain, now: i64) -> (String, bool) {
        let target = self.target(chain, now);
        let plan = target.plan(&self.found(&target), &self.memory, &[]);
        (short(plan.calls.iter().map(Call::action)), plan.expired)
    }

    /// Gives [`PEER`] its keys without interference.
    fn apply(&mut self, chain: &KeyChain, now: i64) -> Outcome {
        self.apply_with(chain, now, Self::call)
    }

    /// Gives [`PEER`] its keys, with `between` between the manager and the kernel.
    fn apply_with(
        &mut self,
        chain: &KeyChain,
        now: i64,
        between: impl FnMut(&mut Self, &Call<'_>) -> Result<(), Error>,
    ) -> Outcome {
        let (peer, kind) = (peer(PEER), self.kind);
        let peers = peers([(peer, chain.clone())]);
        let scope = Scope { only: (kind != Listener).then_some(peer), kind, ..scope(&peers, now) };
        let mut memories = PeerTable::from([(peer, self.memory)]);
        let (outcome, _) = self.apply_all_with(&scope, &mut memories, between);
        self.memory = memories[&peer];
        outcome
    }

    /// Gives all peers their keys without interference, and counts the work.
    fn apply_all(&mut self, scope: &Scope<'_>, memories: &mut PeerTable<Memory>) -> (Outcome, Work) {
        self.apply_all_with(scope, memories, Self::call)
    }

    /// Gives all peers their keys, with `between` between the manager and the kernel, and counts the work.
    fn apply_all_with(
        &mut self,
        scope: &Scope<'_>,
        memories: &mut PeerTable<Memory>,
        between: impl FnMut(&mut Self, &Call<'_>) -> Result<(), Error>,
    ) -> (Outcome, Work) {
        let mut between = Between { kernel: self, between, work: Work::default() };
        let before = COMPARISONS.get();
        let outcome = scope.apply(memories, &mut between);
        (outcome, Work { comparisons: COMPARISONS.get() - before, ..between.work })
    }

    fn add(&mut self, key: &SocketKey<'_>) -> Result<(), Error> {
        let (name, SocketKey { set_current, set_rnext, .. }) = (key.name(), *key);
        if set_current || set_rnext {
            self.check_not_listening()?;
        }
        if self.kind == Connection && self.keys.is_empty() {
            return Err(Error::Connected);
        }
        let overlaps = |other: IpCidr| PeerName::new(other).overlaps(&PeerName::new(name.remote));
        // A key for one VRF is not in the way of a new key for all; a key for all is in the way of a new key for one VRF.
        let same_vrf = |other: Option<u32>| other.is_none_or(|other| other == name.vrf.unwrap_or(0));
        let is_in_the_way = |key: &InstalledKey| {
            key.name.clashes_with(&name) && overlaps(key.name.remote) && same_vrf(key.name.vrf)
        };
        if self.keys.iter().any(is_in_the_way) {
            return Err(Error::IdInUse { send_id: name.send_id, recv_id: name.recv_id });
        }
        self.keys.insert(0, InstalledKey::of(name, key.mkt));
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
        let is_it = |key: &InstalledKey| key.name == name && current != Some(name) && rnext != Some(name);
        let index = self.keys.iter().position(is_it).ok_or(missing)?;
        // The successors take over even if the key then turns out to be in use.
        self.current = current.or(self.current);
        self.rnext = rnext.or(self.rnext);
        if self.kind == Listener {
            self.current = self.current.filter(|current| *current != name);
            self.rnext = self.rnext.filter(|rnext| *rnext != name);
        } else if self.current == Some(name) || self.rnext == Some(name) {
            return Err(Error::KeyInUse(name));
        }
        self.keys.remove(index);
        Ok(())
    }

    fn check_not_listening(&self) -> Result<(), Error> {
        if self.kind == Listener {
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

    /// The next segment of a connection.
    fn send(&self) -> Segment {
        let current = self.keys.iter().find(|key| Some(key.name) == self.current);
        let rnext = self.rnext.expect("a connection has an rnext key");
        Segment { key: current.expect("a connection has a current key").clone(), rnext_key_id: rnext.recv_id }
    }

    /// Verifies a segment from the peer and switches to the key that it asks for.
    fn receive(&mut self, segment: &Segment) -> Result<(), Drop> {
        let key_id = segment.key.name.send_id;
        let index = self.keys.iter().position(|key| key.name.recv_id == key_id).ok_or(Drop::KeyNotFound)?;
        let key = &mut self.keys[index];
        if secret_of(key) != secret_of(&segment.key) {
            return Err(Drop::Bad);
        }
        key.good += 1;
        if let Ok(asked_for) = self.by_send_id(segment.rnext_key_id) {
            self.current = Some(asked_for);
        }
        Ok(())
    }
}
