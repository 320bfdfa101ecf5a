//! No secret leaves through Debug, Display or an error, and none stays behind.

use std::fmt::Debug;

use crate::support::{Ends, Parts, SYN, ipv4_pair, mirrored, mkt_with_secret, receive, segment_mac, view};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{
    Connection, Isn, KdfContext, KeyId, MasterKey, Mkt, MktSet, OptionCoverage, Sne, TrafficKey,
    TrafficKeyOctets,
};
use zeroize::ZeroizeOnDrop;

/// Octets that stand for themselves as text, in hexadecimal and as a list of decimal numbers.
const SECRET: &[u8] = b"Zaphod~Beeblebrox^Trillian~Arthur";

/// Fails when a run of four octets of a secret shows in `text`, in any of the spellings that Debug gives octets.
fn assert_hides(text: &str, secret: &[u8]) {
    for octets in secret.windows(4) {
        let spelled = |each: fn(&u8) -> String, between: &str| {
            octets.iter().map(each).collect::<Vec<_>>().join(between)
        };
        let mut spellings = vec![
            spelled(|octet| format!("{octet:02x}"), ""),
            spelled(|octet| format!("{octet:02X}"), ""),
            spelled(|octet| format!("{octet:02x}"), " "),
            spelled(|octet| format!("{octet:02x}"), ", "),
            spelled(|octet| format!("{octet:#04x}"), ", "),
            spelled(|octet| octet.to_string(), ", "),
            spelled(|octet| octet.to_string(), ",\n"),
        ];
        spellings.extend(std::str::from_utf8(octets).map(str::to_owned));
        for spelling in spellings {
            assert!(!text.contains(&spelling), "{spelling:?} in {text}");
        }
    }
}

fn assert_debug_hides(value: &dyn Debug, secret: &[u8]) {
    for text in [format!("{value:?}"), format!("{value:#?}"), format!("{value:x?}"), format!("{value:X?}")] {
        assert!(!text.is_empty());
        // A list over several lines has indentation between its numbers.
        let unindented = text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
        assert_hides(&text, secret);
        assert_hides(&unindented, secret);
    }
}

#[test]
fn ao_36_the_search_would_find_a_secret_that_shows() {
    for shown in [format!("{SECRET:?}"), format!("{SECRET:#?}"), format!("{SECRET:x?}")] {
        let unindented = shown.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
        assert!(std::panic::catch_unwind(|| assert_hides(&unindented, SECRET)).is_err(), "{shown}");
    }
    let text = String::from_utf8_lossy(SECRET).into_owned();
    assert!(std::panic::catch_unwind(|| assert_hides(&text, SECRET)).is_err());
}

#[test]
fn ao_36_no_debug_shows_a_secret() {
    for algorithm in TcpAoAlgorithm::ALL {
        let master_key = MasterKey::new(SECRET).unwrap();
        let ours = MktSet::<3>::from_mkts([mkt_with_secret(1, 2, algorithm, SECRET)]).unwrap();
        let theirs = MktSet::<3>::from_mkts([mkt_with_secret(2, 1, algorithm, SECRET)]).unwrap();
        let context = KdfContext::send_other(ipv4_pair(), Isn(100), Isn(700));
        let octets = TrafficKeyOctets::derive(&mkt_with_secret(1, 2, algorithm, SECRET), &context);
        let mut active = Connection::active(ipv4_pair(), Isn(100), &ours).unwrap();
        let handshaking = format!("{active:?}");
        let syn = Parts::new(ipv4_pair(), SYN, 100, 0).signed(&mut active);
        let verified_syn = theirs.verify_syn(view(ipv4_pair(), &syn)).unwrap();
        let segment = view(ipv4_pair(), &syn);
        let ao = segment.ao_option().unwrap().unwrap();
        let traffic_key = TrafficKey::new(&octets);
        let mac = segment_mac(&traffic_key, Sne(0), OptionCoverage::Covered, &segment).unwrap();
        let mut ends = Ends::connect(ipv4_pair(), (100, 700), &ours, &theirs);
        let data = ends.active_data(SECRET);
        let verified = receive(&mut ends.passive, &data).unwrap();
        assert_hides(&handshaking, SECRET);
        let values: [&dyn Debug; 10] = [
            &master_key,
            &octets,
            &traffic_key,
            traffic_key.mac_key(),
            &ours,
            &ours.preferred(),
            &verified_syn,
            &mac,
            &active,
            &ends.active,
        ];
        for value in values {
            assert_debug_hides(value, SECRET);
            assert_debug_hides(value, octets.expose_secret());
            assert_debug_hides(value, mac.as_bytes());
        }
        // Nor do segments show their payload or their MAC.
        assert_debug_hides(&verified, SECRET);
        assert_debug_hides(&ao, ao.mac);
        let mut forged = data.clone();
        forged[60] ^= 1;
        let error = receive(&mut ends.passive, &forged).unwrap_err();
        assert_debug_hides(&error, octets.expose_secret());
        let carried = view(ipv4_pair(), &data).ao_option().unwrap().unwrap().mac;
        assert_debug_hides(&error, carried);
        assert_hides(&error.to_string(), carried);
        assert_debug_hides(&ends.active.export(), octets.expose_secret());
    }
}

#[test]
fn ao_36_errors_about_a_master_key_do_not_show_it() {
    let long = [SECRET, SECRET, SECRET].concat();
    let error = MasterKey::new(&long).unwrap_err();
    assert_debug_hides(&error, &long);
    assert_hides(&error.to_string(), &long);
    let short = MasterKey::new(&SECRET[..31]).unwrap();
    let (id, algorithm) = (KeyId(1), TcpAoAlgorithm::Kmac256_128);
    let error = Mkt::new(id, id, algorithm, short).unwrap_err();
    assert_debug_hides(&error, SECRET);
    assert_hides(&error.to_string(), SECRET);
}

#[test]
fn ao_36_secrets_are_wiped() {
    fn is_wiped<T: ZeroizeOnDrop>() {}
    is_wiped::<MasterKey>();
    is_wiped::<wireseal_mac::Mac>();
    is_wiped::<wireseal_mac::MacKey>();
    // What has no such impl of its own holds fields that wipe themselves, so that dropping it runs code.
    assert!(std::mem::needs_drop::<TrafficKeyOctets>());
    assert!(std::mem::needs_drop::<TrafficKey>());
    assert!(std::mem::needs_drop::<MktSet<1>>());
    assert!(std::mem::needs_drop::<Connection<1>>());
    // The master keys of a connection are gone with its handshake: it verifies nothing that takes one.
    let ids = [(1, 2)];
    let mut ends = Ends::<1>::with_ids(&ids);
    let mut twin =
        Connection::active(ipv4_pair(), Isn(0x1000_0000), &crate::support::mkts::<1>(&ids)).unwrap();
    let syn = Parts::new(ipv4_pair(), SYN, 0x1000_0000, 0).signed(&mut twin);
    assert!(mirrored::<1>(&ids).verify_syn(view(ipv4_pair(), &syn)).is_ok());
    assert!(receive(&mut ends.passive, &syn).is_err());
}
