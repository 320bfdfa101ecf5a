//! The two halves on two threads, in every order in which they can read and write what they share, by loom.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

extern crate std;

use core::time::Duration;
use std::vec::Vec;

use loom::sync::{Arc, mpsc};
use loom::thread;
use wireseal_algorithms::AeadAlgorithm;

use crate::{
    AuthenticationFailures, ConnectionId, KeyPhases, Now, NumberLength, OneRtt, OneRttSealer, OpenError,
    Outgoing, PacketNumberCounter, Protected, ReceiveSpace, ReceivingHalf, SendingHalf, ShortHeader,
    TrafficSecret, UpdateError, Version,
};

/// In machine words: the keys of both ends lie on it, and more than once where the compiler does not optimise.
const STACK: usize = 1 << 16;

/// Starts a thread whose stack has room for a connection.
fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().stack_size(STACK).spawn(run).unwrap()
}

/// Runs a test in every order of its threads' reads and writes.
fn in_every_order(test: fn()) {
    loom::model(move || spawn(test).join().unwrap());
}

/// When packets arrive: their old keys stay.
const NOW: Now = Now { time: Duration::ZERO, probe_timeout: Duration::from_millis(100) };

/// When keys are updated: three probe timeouts later.
const TIME: Duration = Duration::from_millis(300);

fn ends() -> [OneRtt; 2] {
    [[1, 2], [2, 1]].map(|secrets| {
        let [local, remote] =
            secrets.map(|octet| TrafficSecret::new(AeadAlgorithm::Aes128Gcm, &[octet; 32]).unwrap());
        let mut one_rtt =
            OneRttSealer::new(Version::V1, local, remote, PacketNumberCounter::new()).complete_handshake();
        one_rtt.confirm_handshake();
        one_rtt
    })
}

fn sealed(seal: impl FnOnce(Outgoing<'_>) -> Result<u64, crate::SealError>) -> Vec<u8> {
    let mut packet = std::vec![0; 40];
    let header = ShortHeader { destination: ConnectionId::new(&[]).unwrap(), spin: false };
    let number_offset = header.encode(&mut packet).unwrap();
    seal(Outgoing { packet: &mut packet, number_offset, number_length: NumberLength::Four }).unwrap();
    packet
}

/// What a receiving thread has.
struct Receiver {
    half: ReceivingHalf,
    space: ReceiveSpace,
    failures: AuthenticationFailures,
}

impl Receiver {
    fn new(half: ReceivingHalf) -> Self {
        Self { half, space: ReceiveSpace::new(), failures: AuthenticationFailures::new() }
    }

    /// The number and the generation of a packet.
    fn open(&mut self, phases: &KeyPhases, packet: &[u8]) -> Result<(u64, u64), OpenError> {
        let mut packet = packet.to_vec();
        let (packet, _) = Protected::split_first(&mut packet, 0).unwrap();
        let opened = self.half.open(phases, packet, NOW, &mut self.space, &mut self.failures)?;
        Ok((opened.number, opened.generation))
    }
}

/// The other end of the connection, on one thread.
struct Peer {
    sending: SendingHalf,
    receiver: Receiver,
    phases: KeyPhases,
}

impl Peer {
    fn new(one_rtt: OneRtt) -> Self {
        let (sending, receiving, phases) = one_rtt.split();
        Self { sending, receiver: Receiver::new(receiving), phases }
    }

    fn seal(&mut self) -> Vec<u8> {
        sealed(|outgoing| self.sending.seal(&self.phases, outgoing))
    }

    fn open(&mut self, packet: &[u8]) -> (u64, u64) {
        self.receiver.open(&self.phases, packet).unwrap()
    }

    fn acknowledged(&mut self, (largest, generation): (u64, u64)) {
        self.sending.acknowledged(&self.phases, largest, generation, NOW).unwrap();
    }
}

/// Both ends update their keys at once. Whichever thread comes first, this is one update, and nothing is lost.
#[test]
fn q_35_updates_by_both_ends_at_once_are_one() {
    in_every_order(|| {
        let [ours, theirs] = ends();
        let mut peer = Peer::new(theirs);
        let old = peer.seal();
        peer.sending.initiate_update(&peer.phases, TIME).unwrap();
        let new = peer.seal();

        let (mut sending, receiving, phases) = ours.split();
        let phases = Arc::new(phases);
        let receiving = spawn({
            let phases = phases.clone();
            move || {
                let mut receiver = Receiver::new(receiving);
                assert_eq!(receiver.open(&phases, &old), Ok((0, 0)));
                assert_eq!(receiver.open(&phases, &new), Ok((1, 1)));
                receiver
            }
        });
        let first = sealed(|outgoing| sending.seal(&phases, outgoing));
        let has_followed = sending.generation() == 1;
        let updated = sending.initiate_update(&phases, TIME);
        assert!(updated.is_ok() || updated == Err(UpdateError::NotAcknowledged));
        assert!(!has_followed || updated.is_err());
        let second = sealed(|outgoing| sending.seal(&phases, outgoing));
        let mut receiver = receiving.join().unwrap();

        assert_eq!(peer.open(&first), (0, u64::from(has_followed)));
        assert_eq!(peer.open(&second), (1, 1));
        assert_eq!((peer.sending.generation(), sending.generation()), (1, 1));
        assert_eq!(receiver.half.generation(), 1);
        // The peer has an acknowledgment and goes on.
        peer.acknowledged((1, 1));
        peer.sending.initiate_update(&peer.phases, TIME).unwrap();
        sealed(|outgoing| sending.seal(&phases, outgoing));
        assert_eq!(receiver.open(&phases, &peer.seal()), Ok((2, 2)));
        let Ok(phases) = Arc::try_unwrap(phases) else { panic!("the other thread is done") };
        assert_eq!(OneRtt::join(sending, receiver.half, phases).generation(), 2);
    });
}

/// This end updates its keys and goes on sealing, while the peer's packets of both phases arrive.
#[test]
fn q_29_an_update_of_this_end_is_followed_by_its_other_thread() {
    in_every_order(|| {
        let [ours, theirs] = ends();
        let (mut sending, receiving, phases) = ours.split();
        let phases = Arc::new(phases);
        let (wire, arriving) = mpsc::channel();
        let receiving = spawn({
            let phases = phases.clone();
            move || {
                let (mut peer, mut receiver) = (Peer::new(theirs), Receiver::new(receiving));
                let old = peer.seal();
                for number in 0..2 {
                    let packet: Vec<u8> = arriving.recv().unwrap();
                    assert_eq!(peer.open(&packet), (number, 1));
                    assert_eq!(receiver.open(&phases, &peer.seal()), Ok((number + 1, 1)));
                }
                // Late, of the phase before.
                assert_eq!(receiver.open(&phases, &old), Ok((0, 0)));
                receiver.half.generation()
            }
        });
        sending.initiate_update(&phases, TIME).unwrap();
        for _ in 0..2 {
            wire.send(sealed(|outgoing| sending.seal(&phases, outgoing))).unwrap();
        }
        assert_eq!(sending.initiate_update(&phases, TIME), Err(UpdateError::NotAcknowledged));
        assert_eq!((receiving.join().unwrap(), sending.generation()), (1, 1));
    });
}

/// The peer updates its keys as often as it may: each time it has an acknowledgment of its last update, sealed by one thread after
/// the other has opened what is acknowledged.
#[test]
fn q_35_a_peer_may_update_again_once_it_has_an_acknowledgment() {
    in_every_order(|| {
        let [ours, theirs] = ends();
        let (mut sending, receiving, phases) = ours.split();
        let phases = Arc::new(phases);
        let ((wire, arriving), (acknowledge, told)) = (mpsc::channel(), mpsc::channel());
        let receiving = spawn({
            let phases = phases.clone();
            move || {
                let (mut peer, mut receiver) = (Peer::new(theirs), Receiver::new(receiving));
                for generation in 1..3 {
                    peer.sending.initiate_update(&peer.phases, TIME).unwrap();
                    let opened = receiver.open(&phases, &peer.seal());
                    assert_eq!(opened, Ok((generation - 1, generation)));
                    acknowledge.send(generation).unwrap();
                    let packet: Vec<u8> = arriving.recv().unwrap();
                    let (_, sealed_with) = peer.open(&packet);
                    assert_eq!(sealed_with, generation);
                    peer.acknowledged((generation - 1, sealed_with));
                }
            }
        });
        for generation in 1..3 {
            // Of one phase or the other.
            sealed(|outgoing| sending.seal(&phases, outgoing));
            assert_eq!(told.recv().unwrap(), generation);
            wire.send(sealed(|outgoing| sending.seal(&phases, outgoing))).unwrap();
            assert_eq!(sending.generation(), generation);
        }
        receiving.join().unwrap();
    });
}
