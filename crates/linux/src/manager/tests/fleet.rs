//! A manager with many sockets, each a model with the far end of its connection.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;

use super::*;
use crate::manager::apply::IDLE;
use crate::manager::look::{Attached, Look};
use crate::manager::policy::Standing;
use crate::manager::report::{SocketReport, SocketState};
use crate::manager::sockets::{Attachment, Entry, lock};
use crate::manager::step::{Found, Visit};

/// A socket of the fleet.
pub(super) struct Model {
    pub(super) attachment: Attachment,
    pub(super) peer: Option<PeerName>,
    pub(super) kernel: Kernel,
    /// The other end of a connection, with the chain that it has.
    pub(super) far: Option<(Kernel, KeyChain)>,
    attached: Arc<Mutex<Attached>>,
    pub(super) has_ended: bool,
    pub(super) is_connecting: bool,
}

#[derive(Default)]
pub(super) struct Fleet {
    pub(super) manager: KeyManager,
    pub(super) models: Vec<Model>,
}

/// A peer by its number.
pub(super) fn host(number: u32) -> PeerName {
    PeerName::new(IpCidr::new_host(IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number))))
}

/// Both ends have the same chain, and each key the same id for sending and receiving: the last key is preferred from 0 on.
pub(super) fn with_keys(ids: &[u8]) -> KeyChain {
    let key = |(index, id): (usize, &u8)| {
        let from = (index > 0).then_some(index as i64 - 100);
        key((*id).into(), mkt(*id, *id, (*id).into()), lifetime(from, None))
    };
    chain(0, ids.iter().enumerate().map(key).collect::<Vec<_>>())
}

impl Fleet {
    /// Lists a socket of this kind as attached, without keys.
    pub(super) fn list(
        &mut self,
        kernel: Kernel,
        peer: Option<PeerName>,
        far: Option<(Kernel, KeyChain)>,
    ) -> u64 {
        let mut attached = Attached::new(&File::open("/dev/null").unwrap()).unwrap();
        attached.let_go();
        let (identity, attached) = (attached.identity, Arc::new(Mutex::new(attached)));
        let mut state = self.manager.shared.state();
        let (number, generation) = (self.models.len() as u64, state.generation);
        state.sockets.push(Entry {
            number,
            identity,
            socket: Arc::clone(&attached),
            next: Some(Timestamp::MIN),
            state: SocketState { peer, generation, ..SocketState::default() },
            standing: Standing::default(),
            reset: None,
            is_let_go: false,
        });
        drop(state);
        let attachment = Attachment { shared: Arc::clone(&self.manager.shared), number };
        self.models.push(Model {
            attachment,
            peer,
            kernel,
            far,
            attached,
            has_ended: false,
            is_connecting: false,
        });
        number
    }

    /// A listener with the keys of all peers.
    pub(super) fn listen(&mut self) -> u64 {
        self.list(Kernel::new(Listener), None, None)
    }

    /// A connection with a peer; both ends use the first key of the chain.
    pub(super) fn connect(&mut self, peer: PeerName, chain: &KeyChain) -> u64 {
        let mkt = chain.keys()[0].mkt();
        let name = peer.key(mkt);
        let kernel = Kernel {
            keys: vec![InstalledKey::of(name, mkt)],
            current: Some(name),
            rnext: Some(name),
            ..Kernel::new(Connection)
        };
        self.list(kernel, Some(peer), Some((Kernel::connected(mkt), chain.clone())))
    }

    /// Takes a step of all sockets that are due, or of all as [`KeyManager::step_due`] does after a while.
    pub(super) fn step(&mut self, now: i64) -> Vec<SocketReport> {
        self.step_with(now, |_, kernel, call| kernel.call(call))
    }

    /// Takes a step of all sockets that are due, with `between` between each and its kernel.
    pub(super) fn step_with(
        &mut self,
        now: i64,
        between: impl Fn(u64, &mut Kernel, &Call<'_>) -> Result<(), Error>,
    ) -> Vec<SocketReport> {
        let state = self.manager.shared.state();
        let all = now % i64::from(IDLE) == 0;
        let due = state.listed(|entry| all || state.is_due(entry, at(now)));
        let due: BTreeSet<u64> = due.into_iter().map(|(number, _)| number).collect();
        drop(state);
        let mut reports = Vec::new();
        for model in self.models.iter_mut().filter(|model| due.contains(&model.attachment.number())) {
            let number = model.attachment.number();
            let state = self.manager.shared.state();
            let (peers, generation) = (Arc::clone(&state.peers), state.generation);
            drop(state);
            let kind = model.kernel.kind;
            let remote = model.peer.map(|peer| peer.remote.first_address());
            let look = Look {
                kind,
                is_connecting: model.is_connecting,
                remote,
                scope: None,
                device: None,
                families: [true; 2],
            };
            let Attached { memories, seen, .. } = &mut *lock(&model.attached);
            let look = Some(look).filter(|_| !model.has_ended);
            let visit = Visit {
                number,
                peers,
                generation,
                peer: model.peer,
                found: Ok(Found { look, peer: model.peer }),
                counters: None,
                memories,
                seen,
            };
            let between = |kernel: &mut Kernel, call: &Call<'_>| between(number, kernel, call);
            let mut calls = Between { kernel: &mut model.kernel, between, work: Work::default() };
            reports.extend(self.manager.visit(visit, &mut calls, at(now)));
            model.has_ended |= model.kernel.is_reset;
        }
        self.manager.finish_step();
        reports
    }

    /// Has each far end take a step, and both ends of each connection send a segment.
    pub(super) fn exchange(&mut self, now: i64) {
        for Model { kernel, far, has_ended, .. } in &mut self.models {
            let Some((far, chain)) = far.as_mut().filter(|_| !*has_ended) else { continue };
            far.apply(chain, now);
            let _ = far.receive(&kernel.send());
            let _ = kernel.receive(&far.send());
        }
    }

    /// Exchanges segments and takes a step each second.
    pub(super) fn run(&mut self, seconds: std::ops::Range<i64>) -> Vec<SocketReport> {
        let mut reports = Vec::new();
        for now in seconds {
            self.exchange(now);
            reports.extend(self.step(now));
        }
        reports
    }

    /// The ids of the keys on a socket, sorted, with the current and the rnext key.
    pub(super) fn keys(&self, number: u64) -> (Vec<u8>, [Option<u8>; 2]) {
        let kernel = &self.models[number as usize].kernel;
        let mut ids: Vec<u8> = kernel.keys.iter().map(|key| key.name.send_id.0).collect();
        ids.sort_unstable();
        (ids, [kernel.current, kernel.rnext].map(|name| name.map(|name| name.send_id.0)))
    }
}
