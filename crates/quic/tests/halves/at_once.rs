//! Two ends with two threads each, which all run at once, and both ends update their keys whenever they may.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use wireseal_quic::{
    AuthenticationFailures, KeyPhases, Now, NumberLength, ReceiveSpace, ReceivingHalf, SendingHalf,
    UpdateError,
};

use crate::support::{Draft, PROBE_TIMEOUT, Side, protected, suites_of_one_version};

/// How many packets each end sends.
const PACKETS: usize = 6_000;

/// How many packets arrive in any order among themselves.
const OUT_OF_ORDER: usize = 8;

/// How many packets the network holds in each direction, and how far an end may be ahead of the other.
const IN_FLIGHT: usize = 64;

/// The clock of an end goes on by this for each packet that arrives, so that old keys stay while packets may still be out of order.
const TICK: Duration = Duration::from_millis(1);

const _: () = assert!(3 * PROBE_TIMEOUT.as_millis() > 8 * TICK.as_millis() * OUT_OF_ORDER as u128);

/// What the receiving thread tells the sending one about a packet.
struct Told {
    now: Now,
    /// The largest number received.
    largest: u64,
    generation: u64,
    /// The largest number in the packet's ACK frame, if it had one.
    acknowledges: Option<u64>,
}

/// Seals packets that acknowledge what has arrived, and updates the keys as often as it may. Returns how often it did.
fn send(mut half: SendingHalf, phases: &KeyPhases, told: &Receiver<Told>, wire: &SyncSender<Vec<u8>>) -> u64 {
    let (mut time, mut largest, mut updates, mut heard) = (Duration::ZERO, None, 0, 0);
    for number in 0..PACKETS {
        // Neither end runs far ahead of the other, so that both have something to acknowledge.
        let next = |heard| if number > heard + IN_FLIGHT { told.recv().ok() } else { told.try_recv().ok() };
        while let Some(told) = next(heard) {
            heard += 1;
            (time, largest) = (told.now.time, Some(told.largest));
            if let Some(acknowledged) = told.acknowledges {
                half.acknowledged(phases, acknowledged, told.generation, told.now).unwrap();
            }
        }
        match half.initiate_update(phases, time) {
            Ok(()) => updates += 1,
            Err(error) => assert!(error != UpdateError::HandshakeNotConfirmed),
        }
        let acknowledges = largest.map_or(0, |largest| largest + 1);
        let mut draft = Draft::short(NumberLength::Four, &acknowledges.to_be_bytes());
        half.seal(phases, draft.outgoing()).unwrap();
        wire.send(draft.octets).unwrap();
    }
    updates
}

/// Opens every packet, a handful at a time from the last to the first. Returns how many key updates there were.
fn receive(
    mut half: ReceivingHalf,
    phases: &KeyPhases,
    wire: &Receiver<Vec<u8>>,
    told: &Sender<Told>,
) -> u64 {
    let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
    let mut time = Duration::ZERO;
    let mut opened = 0;
    while opened < PACKETS {
        let mut arrived: Vec<_> = wire.iter().take(OUT_OF_ORDER.min(PACKETS - opened)).collect();
        assert!(!arrived.is_empty());
        for packet in arrived.iter_mut().rev() {
            time += TICK;
            let now = Now { time, probe_timeout: PROBE_TIMEOUT };
            half.prepare();
            let packet = half.open(phases, protected(packet), now, &mut space, &mut failures).unwrap();
            let acknowledges = u64::from_be_bytes(packet.payload.try_into().unwrap()).checked_sub(1);
            let (generation, largest) = (packet.generation, space.largest().unwrap());
            // The sending thread may be done.
            let _ = told.send(Told { now, largest, generation, acknowledges });
        }
        opened += arrived.len();
    }
    assert_eq!(failures.count(), 0);
    half.generation()
}

#[test]
fn q_35_four_threads_at_once_lose_no_packet() {
    for suite in suites_of_one_version() {
        let [(client_wire, to_client), (server_wire, to_server)] = [(); 2].map(|()| sync_channel(IN_FLIGHT));
        let wires = [(server_wire, to_client), (client_wire, to_server)];
        let threads = Side::BOTH.into_iter().zip(wires).map(|(side, (outgoing, incoming))| {
            let (mut sending, receiving, phases) = suite.end(side).one_rtt.into_halves();
            sending.confirm_handshake();
            let (phases, (tell, told)) = (Arc::new(phases), channel());
            let sender = thread::spawn({
                let phases = phases.clone();
                move || send(sending, &phases, &told, &outgoing)
            });
            (sender, thread::spawn(move || receive(receiving, &phases, &incoming, &tell)))
        });
        // All are started before one is waited for.
        let threads: Vec<_> = threads.collect();
        let results: Vec<_> = threads
            .into_iter()
            .map(|(sender, receiver)| (sender.join().unwrap(), receiver.join().unwrap()))
            .collect();
        println!("{suite:?}: (updates of this end, phases seen) of client and server: {results:?}");
        // An update by both at once is one.
        let [(client, _), (server, _)] = results[..] else { unreachable!("there are two ends") };
        for (_, generation) in results {
            assert!(generation <= client + server && generation >= 2, "{suite:?}: {generation} updates");
        }
    }
}
