//! Compares the option walker with a slow one that reads like RFC 9293, and the AO option with RFC 5925 §2.2.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::slow;
use wireseal_tcp_ao::AoOption;
use wireseal_tcp_ao::option::Options;

fuzz_target!(|octets: &[u8]| {
    let (expected, is_well_formed) = slow::options(octets);
    let mut walk = Options::new(octets);
    for (kind, offset, data) in expected {
        let option = walk.next().expect("another option").expect("a well-formed option");
        assert_eq!((option.kind, option.offset, option.data), (kind, offset, data));
        assert_eq!(option.length(), data.len() + 2);
    }
    assert_eq!(walk.next().is_none(), is_well_formed);
    assert!(walk.next().is_none(), "the walk has ended");

    let found = AoOption::find(octets);
    match (slow::ao(octets), found) {
        (Err(slow::MustDiscard), Err(_)) | (Ok(None), Ok(None)) => {}
        (Ok(Some((offset, data))), Ok(Some(ao))) => {
            assert_eq!(ao.offset, offset);
            assert_eq!((ao.key_id.0, ao.rnext_key_id.0, ao.mac), (data[0], data[1], &data[2..]));
        }
        (expected, found) => panic!("{expected:?} expected, {found:?} found"),
    }
});
