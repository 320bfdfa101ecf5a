//! Halves whose threads do not keep pace.

use std::time::Duration;

use wireseal_quic::{AuthenticationFailures, Now, NumberLength, OpenError, ReceiveSpace, UpdateError};

use crate::support::schedule::{PHASE, Schedule};
use crate::support::{Draft, FRAMES, PROBE_TIMEOUT, Side, protected, suites_of_one_version};

/// A peer may update its keys again only once it has an answer to its last update. While the sending thread sends nothing, it has none.
#[test]
fn q_35_a_peer_does_not_update_twice_while_this_end_sends_nothing() {
    for suite in suites_of_one_version() {
        let (mut sending, mut receiving, phases) = suite.end(Side::Client).one_rtt.into_halves();
        let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
        let mut peer = Schedule::new(suite, Side::Server);
        let mut time = Duration::ZERO;
        let mut open = |mut packet: Vec<u8>, prepares: bool| {
            // Every old key is gone by the time of the next packet, and the next key is there.
            time += 4 * PROBE_TIMEOUT;
            if prepares {
                receiving.prepare();
            }
            let now = Now { time, probe_timeout: PROBE_TIMEOUT };
            let opened = receiving.open(&phases, protected(&mut packet), now, &mut space, &mut failures);
            opened.map(|opened| opened.generation)
        };
        assert_eq!(open(peer.seal(1, PHASE, 0, FRAMES), true), Ok(1));
        assert_eq!(open(peer.seal(2, 0, 1, FRAMES), true), Err(OpenError::AuthenticationFailed));
        assert_eq!(open(peer.seal(1, PHASE, 2, FRAMES), true), Ok(1));

        let mut answer = Draft::short(NumberLength::Four, FRAMES);
        sending.seal(&phases, answer.outgoing()).unwrap();
        assert_eq!(sending.generation(), 1);
        assert_eq!(open(peer.seal(2, 0, 3, FRAMES), false), Ok(2));
    }
}

/// Whatever a caller says was acknowledged: this end's next update waits for its own receiving thread.
#[test]
fn q_28_an_update_waits_until_the_other_half_has_opened_a_packet_of_its_phase() {
    for suite in suites_of_one_version() {
        let (mut sending, mut receiving, phases) = suite.end(Side::Client).one_rtt.into_halves();
        let now = |time| Now { time, probe_timeout: PROBE_TIMEOUT };
        sending.confirm_handshake();
        sending.initiate_update(&phases, Duration::ZERO).unwrap();
        let mut packet = Draft::short(NumberLength::Four, FRAMES);
        let number = sending.seal(&phases, packet.outgoing()).unwrap();
        sending.acknowledged(&phases, number, 1, now(Duration::ZERO)).unwrap();
        let later = 4 * PROBE_TIMEOUT;
        assert_eq!(sending.initiate_update(&phases, later), Err(UpdateError::NotAcknowledged));

        let mut answer = Schedule::new(suite, Side::Server).seal(1, PHASE, 0, FRAMES);
        let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
        let opened = receiving.open(&phases, protected(&mut answer), now(later), &mut space, &mut failures);
        assert_eq!(opened.unwrap().generation, 1);
        assert_eq!(sending.initiate_update(&phases, later), Ok(()));
    }
}
