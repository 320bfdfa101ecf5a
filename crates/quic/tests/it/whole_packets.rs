//! Whole packets with the caller's own numbers (feature `hazmat`): the same octets as step by step.

use proptest::prelude::*;
use wireseal_quic::hazmat::{MAX_PAYLOAD_LENGTH, PathId};
use wireseal_quic::{MAX_PACKET_NUMBER, NumberLength, OpenError, PacketType, SealError};

use crate::support::schedule::Schedule;
use crate::support::{Draft, NUMBER_LENGTHS, Side, Suite, TAG, protected, suites};

/// A draft whose header is as it will be authenticated, and its number.
fn complete(mut draft: Draft, number: u64, key_phase: bool) -> Draft {
    let octets = draft.number_length.octets();
    let is_short = draft.octets[0] & 0x80 == 0;
    draft.octets[0] |= octets as u8 - 1;
    draft.octets[0] |= if is_short && key_phase { 0x04 } else { 0 };
    let range = draft.number_offset..draft.payload_offset();
    draft.octets[range].copy_from_slice(&number.to_be_bytes()[8 - octets..]);
    draft
}

/// AEAD first, mask afterwards.
fn step_by_step(suite: Suite, path: PathId, number: u64, draft: &Draft) -> Vec<u8> {
    let mut schedule = Schedule::new(suite, Side::Client);
    let mut packet = draft.octets.clone();
    let (header, body) = packet.split_at_mut(draft.payload_offset());
    let (payload, tag) = body.split_last_chunk_mut::<TAG>().unwrap();
    *tag = schedule.packet_key(0).seal(path, number, header, payload).unwrap();
    let sample = *packet[draft.number_offset + 4..].first_chunk().unwrap();
    let (before, number) = packet.split_at_mut(draft.number_offset);
    schedule.header_key().protect(&sample, &mut before[0], number);
    packet
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn are_sealed_and_opened_as_step_by_step(
        payload in prop::collection::vec(any::<u8>(), 4..1500),
        number in prop_oneof![0..1000_u64, 0..=MAX_PACKET_NUMBER],
        path in prop_oneof![Just(0), any::<u32>()],
        length in 0..4_usize,
        key_phase: bool,
        flipped in any::<prop::sample::Index>(),
    ) {
        let path = PathId(path);
        for suite in suites() {
            let mut schedule = Schedule::new(suite, Side::Client);
            let (packet_key, header_key) = (schedule.packet_key(0), schedule.header_key());
            for draft in Draft::both(suite.version, NUMBER_LENGTHS[length], &payload) {
                let draft = complete(draft, number, key_phase);
                let (packet_type, header_length) = (draft.packet_type, draft.payload_offset());
                let mut packet = draft.octets.clone();
                packet_key.seal_packet(&header_key, path, number, &mut packet, header_length).unwrap();
                prop_assert_eq!(&packet, &step_by_step(suite, path, number, &draft), "{:?}", suite);

                // One octet changed, and the packet is refused and left as keys leave all forgeries.
                let mut forged = packet.clone();
                forged[draft.number_offset + flipped.index(packet.len() - draft.number_offset)] ^= 0x20;
                let before = forged.clone();
                let largest = number.checked_sub(1);
                let refused = header_key.unmask(protected(&mut forged), largest).unwrap().open_by(&packet_key, path);
                prop_assert_eq!(refused.map(|_| ()), Err(OpenError::AuthenticationFailed));
                prop_assert_eq!(&forged[..draft.number_offset], &before[..draft.number_offset]);
                prop_assert!(forged[draft.number_offset + 4..packet.len() - TAG].iter().all(|octet| *octet == 0));

                // Another path's nonce is another.
                let mut other = packet.clone();
                let unmasked = header_key.unmask(protected(&mut other), largest).unwrap();
                prop_assert!(unmasked.open_by(&packet_key, PathId(path.0 ^ 1)).is_err());

                let unmasked = header_key.unmask(protected(&mut packet), largest).unwrap();
                let has_phase = key_phase && packet_type == PacketType::OneRtt;
                prop_assert_eq!((unmasked.number(), unmasked.key_phase()), (number, has_phase));
                let opened = unmasked.open_by(&packet_key, path).unwrap();
                prop_assert_eq!((opened.number, opened.key_phase, opened.packet_type()), (number, has_phase, packet_type));
                prop_assert_eq!(opened.header(), &draft.octets[..header_length]);
                prop_assert_eq!(&*opened.payload, &payload[..]);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_nothing_written() {
    for suite in suites() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let (packet_key, header_key) = (schedule.packet_key(0), schedule.header_key());
        let refused = |octets: &[u8], number: u64, payload_offset: usize| {
            let mut packet = octets.to_vec();
            let sealed = packet_key.seal_packet(&header_key, PathId(0), number, &mut packet, payload_offset);
            assert_eq!(packet, octets, "{suite:?}");
            sealed.unwrap_err()
        };
        assert_eq!(refused(&[], 0, 0), SealError::NoHeader);
        // The first octet says four octets of number, and there is room for three before the payload, or for no header.
        assert_eq!(refused(&[0x43; 64], 0, 3), SealError::NoHeader);
        assert_eq!(refused(&[0x43; 64], 0, 4), SealError::NoHeader);
        assert_eq!(refused(&[0x43; 20], 0, 5), SealError::BufferTooSmall { expected: 21, got: 20 });
        assert_eq!(
            refused(&[0x43; 64], 0, usize::MAX),
            SealError::BufferTooSmall { expected: usize::MAX, got: 64 }
        );
        assert_eq!(refused(&[0x43; 21], 0, 5), SealError::NoFrames);
        assert_eq!(refused(&[0x40; 20], 0, 2), SealError::TooShortForSample { expected: 4, got: 3 });
        assert_eq!(refused(&[0x43; 64], MAX_PACKET_NUMBER + 1, 5), SealError::NumbersExhausted);
        let long = vec![0x43; 5 + MAX_PAYLOAD_LENGTH + 1 + TAG];
        let got = MAX_PAYLOAD_LENGTH + 1;
        assert_eq!(refused(&long, 0, 5), SealError::TooLong { expected: MAX_PAYLOAD_LENGTH, got });

        // Authentic, but the peer has set a reserved bit.
        let mut draft = complete(Draft::short(NumberLength::Two, b"some frames"), 7, false);
        draft.octets[0] |= 0x10;
        let header_length = draft.payload_offset();
        packet_key.seal_packet(&header_key, PathId(0), 7, &mut draft.octets, header_length).unwrap();
        let opened =
            header_key.unmask(protected(&mut draft.octets), None).unwrap().open_by(&packet_key, PathId(0));
        assert_eq!(opened.map(|_| ()), Err(OpenError::ReservedBits));
        assert!(draft.octets[header_length..].iter().all(|octet| *octet == 0));

        let mut short = [0x43; 20];
        assert!(matches!(header_key.unmask(protected(&mut short), None), Err(OpenError::Undecryptable)));
    }
}
