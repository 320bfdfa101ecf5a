//! The option walker and the codec of the AO option.

use crate::support::{ACK, Parts, ipv4_pair, view};
use proptest::collection::vec;
use proptest::prelude::*;
use wireseal_tcp_ao::option::{MAX_OPTIONS_LENGTH, Options, kind};
use wireseal_tcp_ao::{AoOption, KeyId, OptionError, SignError, append_ao};

/// An AO option with a MAC of these octets.
fn ao(key_id: u8, rnext_key_id: u8, mac: &[u8]) -> Vec<u8> {
    [&[29, 4 + mac.len() as u8, key_id, rnext_key_id], mac].concat()
}

fn find(options: &[u8]) -> Result<Option<AoOption<'_>>, OptionError> {
    AoOption::find(options)
}

#[test]
fn ao_15_two_ao_options_are_rejected() {
    let options = [ao(1, 2, &[7; 12]), ao(1, 2, &[7; 12])].concat();
    assert_eq!(find(&options), Err(OptionError::TwoAoOptions));
}

#[test]
fn ao_15_ao_beside_tcp_md5_is_rejected_in_either_order() {
    let md5 = [&[19, 18][..], &[5; 16]].concat();
    assert_eq!(find(&[&md5[..], &ao(1, 2, &[7; 12])].concat()), Err(OptionError::AoWithMd5));
    assert_eq!(find(&[&ao(1, 2, &[7; 12])[..], &md5].concat()), Err(OptionError::AoWithMd5));
    assert_eq!(find(&md5), Ok(None));
}

#[test]
fn ao_15_a_length_under_four_is_rejected() {
    for length in 2..4 {
        assert_eq!(find(&[29, length, 9, 9, 1, 1]), Err(OptionError::AoTooShort), "length {length}");
    }
    for length in 0..2 {
        let error = OptionError::BadLength { kind: kind::AUTHENTICATION, offset: 0 };
        assert_eq!(find(&[29, length, 9, 9]), Err(error), "length {length}");
    }
    assert!(find(&[29, 4, 8, 9]).unwrap().unwrap().mac.is_empty());
}

#[test]
fn ao_15_an_option_cut_off_by_the_header_is_rejected() {
    let whole = [&[1, 1][..], &ao(1, 2, &[7; 12])].concat();
    for length in 3..whole.len() {
        let error = OptionError::BadLength { kind: kind::AUTHENTICATION, offset: 2 };
        assert_eq!(find(&whole[..length]), Err(error), "{length} octets left");
    }
    assert_eq!(find(&whole[..2]), Ok(None));
    // Whatever cuts itself off, an AO option before it is not believed either.
    let error = OptionError::BadLength { kind: kind::MAXIMUM_SEGMENT_SIZE, offset: 16 };
    assert_eq!(find(&[&ao(1, 2, &[7; 12])[..], &[2, 4, 5]].concat()), Err(error));
}

#[test]
fn ao_15_ao_after_end_of_list_is_not_seen() {
    assert_eq!(find(&[&[0][..], &ao(1, 2, &[7; 12])].concat()), Ok(None));
    let before = [&ao(1, 2, &[7; 12])[..], &[0], &ao(3, 4, &[8; 12])].concat();
    assert_eq!(find(&before).unwrap().unwrap().key_id, KeyId(1));
}

#[test]
fn ao_15_the_walk_ends_with_the_first_error() {
    let mut walk = Options::new(&[1, 2, 4, 5, 0xb4, 8, 0, 3, 3, 7]);
    assert_eq!(walk.next().unwrap().unwrap().data, &[5, 0xb4]);
    assert_eq!(walk.next(), Some(Err(OptionError::BadLength { kind: 8, offset: 5 })));
    assert_eq!(walk.next(), None);
}

#[test]
fn ao_17_no_room_says_how_many_octets_were_free() {
    // MSS, window scale, SACK permitted and timestamps, as stacks send them: 20 octets with two NOPs.
    let mut space = [0xa5; MAX_OPTIONS_LENGTH];
    assert_eq!(append_ao(&mut space, 28, 12), Err(SignError::NoRoom { needed: 16, free: 12 }));
    assert_eq!(append_ao(&mut space, 24, 16), Err(SignError::NoRoom { needed: 20, free: 16 }));
    assert_eq!(append_ao(&mut space, 41, 4), Err(SignError::NoRoom { needed: 11, free: 0 }));
    assert_eq!(space, [0xa5; MAX_OPTIONS_LENGTH]);
    assert_eq!(append_ao(&mut space, 24, 12), Ok(40));
    assert_eq!(
        SignError::NoRoom { needed: 16, free: 12 }.to_string(),
        "AO option needs 16 octets of option space, 12 were free"
    );
}

#[test]
fn ao_17_a_short_header_leaves_less_room_than_forty_octets() {
    let mut space = [0xa5; 15];
    assert_eq!(append_ao(&mut space, 0, 12), Err(SignError::NoRoom { needed: 16, free: 15 }));
    // Twelve octets would do for the option, but not for its padding.
    assert_eq!(append_ao(&mut space[..14], 0, 9), Err(SignError::NoRoom { needed: 16, free: 14 }));
    assert_eq!(space, [0xa5; 15]);
}

#[test]
fn ao_17_octets_behind_the_padding_are_left_alone() {
    let mut space = [0xa5; MAX_OPTIONS_LENGTH];
    assert_eq!(append_ao(&mut space, 2, 12), Ok(20));
    assert_eq!(space[..2], [0xa5; 2]);
    assert_eq!(space[2..6], [29, 16, 0, 0]);
    assert_eq!(space[6..18], [0; 12]);
    assert_eq!(space[18..20], [kind::NO_OPERATION; 2]);
    assert_eq!(space[20..], [0xa5; 20]);
}

/// A run of well-formed options other than AO, MD5, NOP and End-of-List, with NOPs between them, and how many.
fn well_formed_options(max_length: usize) -> impl Strategy<Value = Vec<u8>> {
    let other = prop_oneof![2u8..19, 20u8..29, 30u8..=255];
    let option = (other, vec(any::<u8>(), 0..10), 0usize..3).prop_map(|(kind, data, nops)| {
        [&vec![kind::NO_OPERATION; nops][..], &[kind, data.len() as u8 + 2], &data].concat()
    });
    vec(option, 0..5)
        .prop_map(|options| options.concat())
        .prop_filter("too long", move |octets| octets.len() <= max_length)
}

proptest! {
    #[test]
    fn ao_15_what_was_emitted_is_found_again(
        before in well_formed_options(20),
        key_id: u8,
        rnext_key_id: u8,
        mac in vec(any::<u8>(), 4..=16),
    ) {
        let mut space = [0xa5; MAX_OPTIONS_LENGTH];
        space[..before.len()].copy_from_slice(&before);
        let length = append_ao(&mut space, before.len(), mac.len()).unwrap();
        prop_assert_eq!(length % 4, 0);
        prop_assert!(length - before.len() - 4 - mac.len() < 4);
        prop_assert_eq!(&space[..before.len()], &before[..]);
        prop_assert!(space[length..].iter().all(|octet| *octet == 0xa5));
        space[before.len() + 2..before.len() + 4].copy_from_slice(&[key_id, rnext_key_id]);
        space[before.len() + 4..before.len() + 4 + mac.len()].copy_from_slice(&mac);
        let expected =
            AoOption { offset: before.len(), key_id: KeyId(key_id), rnext_key_id: KeyId(rnext_key_id), mac: &mac };
        prop_assert_eq!(find(&space[..length]), Ok(Some(expected)));
        prop_assert_eq!(expected.length(), 4 + mac.len());
    }

    #[test]
    fn ao_15_octets_behind_the_header_have_no_influence(
        mut options in vec(any::<u8>(), 0..10),
        first_payload in vec(any::<u8>(), 0..60),
        second_payload in vec(any::<u8>(), 0..60),
    ) {
        options.resize(options.len().next_multiple_of(4), 29);
        let parts = Parts::new(ipv4_pair(), ACK, 1, 1).options(&options);
        let first = parts.clone().payload(&first_payload).unsigned();
        let second = parts.payload(&second_payload).unsigned();
        let (first, second) = (view(ipv4_pair(), &first), view(ipv4_pair(), &second));
        prop_assert_eq!(first.ao_option(), second.ao_option());
        prop_assert_eq!(first.options().collect::<Vec<_>>(), second.options().collect::<Vec<_>>());
    }

    #[test]
    fn ao_37_the_walker_survives_any_octets_and_stays_inside_them(octets in vec(any::<u8>(), 0..64)) {
        let mut end = 0;
        for option in Options::new(&octets) {
            let Ok(option) = option else { break };
            prop_assert!(option.offset >= end && option.kind > kind::NO_OPERATION);
            end = option.offset + option.length();
            prop_assert_eq!(&octets[option.offset + 2..end], option.data);
        }
        if let Ok(Some(ao)) = find(&octets) {
            prop_assert_eq!(octets[ao.offset], kind::AUTHENTICATION);
            prop_assert_eq!(&octets[ao.offset + 4..ao.offset + ao.length()], ao.mac);
        }
    }

    #[test]
    fn ao_37_appending_survives_any_sizes(room in 0usize..64, used: usize, small: u8, mac_length: usize) {
        for (used, mac_length) in [(used, mac_length), (usize::from(small), mac_length), (used, usize::from(small))] {
            let mut space = vec![0xa5; room];
            prop_assert!(append_ao(&mut space, used, mac_length).is_err() || used + mac_length < 40);
        }
    }
}
