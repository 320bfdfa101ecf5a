//! No secret appears in `Debug`, `Display` or an error, and none stays in memory when it is no longer needed.

use std::fmt::Debug;
#[cfg(target_os = "linux")]
use std::hint::black_box;

#[cfg(target_os = "linux")]
use wireseal_tcp_ao::shim::PeerSlot;
#[cfg(target_os = "linux")]
use zeroize::Zeroize;
use zeroize::ZeroizeOnDrop;

#[cfg(target_os = "linux")]
use crate::memory::{Memory, apart, clear_stack, observe, role, stage};
#[cfg(target_os = "linux")]
use crate::shim_support::{CLIENT_ISN, Link, SERVER_ISN};
use crate::support::*;

/// Octets that are recognisable as text, in hexadecimal and as a list of decimal numbers.
const SECRET: &[u8] = b"Zaphod~Beeblebrox^Trillian~Arthur";

/// Fails if four successive octets of a secret appear in `text`, in any spelling that Debug gives octets.
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
        // A list over several lines has indented numbers.
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
        let syn = sent(&mut active, SYN, 100, 0);
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
        // Segments show neither their payload nor their MAC.
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
    // Types without a `Drop` of their own have fields that wipe themselves, so dropping them runs code.
    assert!(std::mem::needs_drop::<TrafficKeyOctets>());
    assert!(std::mem::needs_drop::<TrafficKey>());
    assert!(std::mem::needs_drop::<MktSet<1>>());
    assert!(std::mem::needs_drop::<Connection<1>>());
    // The master keys of a connection are wiped after its handshake: nothing that needs one verifies.
    let ids = [(1, 2)];
    let mut ends = Ends::<1>::with_ids(&ids);
    let mut twin = Connection::active(ipv4_pair(), Isn(0x1000_0000), &mkts::<1>(&ids)).unwrap();
    let syn = sent(&mut twin, SYN, 0x1000_0000, 0);
    assert!(mirrored::<1>(&ids).verify_syn(view(ipv4_pair(), &syn)).is_ok());
    assert!(receive(&mut ends.passive, &syn).is_err());
}

#[cfg(target_os = "linux")]
const ISNS: (u32, u32) = (1000, 5000);

/// One of three secrets; no constant of the program contains it.
#[cfg(target_os = "linux")]
fn secret(which: u8) -> [u8; 40] {
    std::array::from_fn(|place| black_box((place as u8).wrapping_mul(37).wrapping_add(11 + which)) ^ 0x5c)
}

#[cfg(target_os = "linux")]
fn mkt(which: u8, ids: (u8, u8), algorithm: TcpAoAlgorithm) -> Mkt {
    let mut octets = secret(which);
    let master_key = MasterKey::new(&octets).unwrap();
    octets.zeroize();
    Mkt::new(KeyId(ids.0), KeyId(ids.1), algorithm, master_key).unwrap()
}

#[cfg(target_os = "linux")]
fn set<const N: usize>(which: u8, ids: (u8, u8), algorithm: TcpAoAlgorithm) -> MktSet<N> {
    MktSet::from_mkts([mkt(which, ids, algorithm)]).unwrap()
}

/// The octets that show a key in memory: its own, which also show a ready AES key, whose round keys begin with them; and for a ready HMAC key the
/// chaining value after its inner block.
#[cfg(target_os = "linux")]
struct Wanted {
    master: [Vec<u8>; 3],
    traffic: [[Vec<u8>; 4]; 3],
}

/// What a ready HMAC key begins with: the chaining value after the inner key block, as it lies in memory.
#[cfg(target_os = "linux")]
fn ready(algorithm: TcpAoAlgorithm, key: &[u8]) -> Option<Vec<u8>> {
    let mut block = [0x36; 64];
    block.iter_mut().zip(key).for_each(|(octet, key)| *octet ^= key);
    let octets = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).take(16).collect();
    match algorithm {
        TcpAoAlgorithm::HmacSha1 => {
            let mut words = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
            sha1::block_api::compress(&mut words, &[block]);
            Some(octets(&words))
        }
        TcpAoAlgorithm::LinuxHmacSha256 | TcpAoAlgorithm::HmacSha256_128 => {
            let mut words = [
                0x6a09_e667,
                0xbb67_ae85,
                0x3c6e_f372,
                0xa54f_f53a,
                0x510e_527f,
                0x9b05_688c,
                0x1f83_d9ab,
                0x5be0_cd19,
            ];
            sha2::block_api::compress256(&mut words, &[block]);
            Some(octets(&words))
        }
        _ => None,
    }
}

#[cfg(target_os = "linux")]
impl Wanted {
    fn new(pair: SocketPair, (active, passive): (u32, u32), algorithm: TcpAoAlgorithm) -> Self {
        let contexts = [
            KdfContext::send_other(pair, Isn(active), Isn(passive)),
            KdfContext::receive_other(pair, Isn(active), Isn(passive)),
        ];
        let master = [0, 1, 2].map(|which| secret(which)[..24].to_vec());
        let traffic = [0, 1, 2].map(|which| {
            let mkt = mkt(which, (1, 2), algorithm);
            let keys = contexts.map(|context| TrafficKeyOctets::derive(&mkt, &context));
            let [sent, received] = keys.each_ref().map(|key| key.expose_secret());
            // Of AES and KMAC256 only the octets themselves.
            let of = |key: &[u8]| ready(algorithm, key).unwrap_or_else(|| key[..16].to_vec());
            [sent[..16].to_vec(), received[..16].to_vec(), of(sent), of(received)]
        });
        Self { master, traffic }
    }

    /// Which master keys and which traffic keys are in memory.
    fn found(&self, memory: &Memory) -> ([usize; 3], [bool; 3]) {
        let master = self.master.each_ref().map(|octets| memory.count(octets));
        let traffic = self.traffic.each_ref().map(|keys| keys.iter().any(|octets| memory.count(octets) > 0));
        (master, traffic)
    }
}

#[cfg(target_os = "linux")]
const GONE: [bool; 3] = [false; 3];

#[cfg(target_os = "linux")]
#[test]
fn ao_36_no_secret_of_a_connection_stays_in_memory() {
    if let Some(algorithm) = role() {
        return live_a_connection(algorithm.parse().unwrap());
    }
    let name = "secrets::ao_36_no_secret_of_a_connection_stays_in_memory";
    for algorithm in TcpAoAlgorithm::ALL {
        let wanted = Wanted::new(ipv4_pair(), ISNS, algorithm);
        let stages = observe(name, algorithm.name(), |stage, memory| {
            let expected = match stage {
                "a set" => ([1, 0, 0], GONE),
                "opening" => ([1, 0, 0], GONE),
                "opening, with another key" => ([1, 1, 0], GONE),
                "established" => ([0, 0, 0], [true, false, false]),
                "with another key" => ([0, 0, 0], [true, true, false]),
                "without the first" => ([0, 0, 0], [false, true, false]),
                "with a third alone" => ([0, 0, 0], [false, false, true]),
                _ => ([0, 0, 0], GONE),
            };
            assert_eq!(wanted.found(memory), expected, "{algorithm}: {stage}");
        });
        assert_eq!(stages, 11);
    }
}

#[cfg(target_os = "linux")]
fn live_a_connection(algorithm: TcpAoAlgorithm) {
    let ours = || set::<3>(0, (1, 2), algorithm);
    let boxed = |which, ids| apart(move || Box::new(mkt(which, ids, algorithm)));
    stage("start");
    let one = apart(|| Box::new(ours()));
    stage("a set");
    drop(one);
    stage("without it");

    // A connection that moves carries stack contents in its padding. These do not include the set, which was made on another stack.
    let again = apart(|| Box::new(ours()));
    let open = || Box::new(Connection::active(ipv4_pair(), Isn(ISNS.0), &again).unwrap());
    let mut opening = apart(open);
    drop(again);
    apart(|| sent(&mut opening, SYN, ISNS.0, 0));
    stage("opening");
    let another = boxed(1, (3, 4));
    opening.add_key(&another).unwrap();
    drop(another);
    stage("opening, with another key");
    opening.remove_key(KeyId(1), Some(KeyId(3))).unwrap();
    opening.replace_keys(&apart(|| Box::new(set(2, (5, 6), algorithm)))).unwrap();
    drop(opening);
    stage("opened no longer");

    let theirs = || set(0, (2, 1), algorithm);
    let mut active = apart(|| {
        let ends = Ends::connect(ipv4_pair(), ISNS, &ours(), &theirs());
        Box::new(ends.active)
    });
    stage("established");
    let another = boxed(1, (3, 4));
    active.add_key(&another).unwrap();
    assert!(active.has_key(&another));
    drop(another);
    stage("with another key");
    // A traffic key moves when it has been derived, and when it becomes ready.
    clear_stack();
    apart(|| active.remove_key(KeyId(1), Some(KeyId(3))).unwrap());
    stage("without the first");
    apart(|| active.replace_keys(&set(2, (5, 6), algorithm)).unwrap());
    stage("with a third alone");
    drop(active);
    stage("closed");
}

#[cfg(target_os = "linux")]
#[test]
fn ao_36_no_secret_of_a_shims_peer_stays_in_memory() {
    if role().is_some() {
        return live_a_peer();
    }
    let name = "secrets::ao_36_no_secret_of_a_shims_peer_stays_in_memory";
    let isns = (CLIENT_ISN, SERVER_ISN);
    let wanted = Wanted::new(ipv4_pair(), isns, TcpAoAlgorithm::HmacSha1);
    let stages = observe(name, "shim", |stage, memory| {
        let expected = match stage {
            // One of the client and one of the server.
            "peers" => ([2, 0, 0], GONE),
            "established" => ([2, 0, 0], [true, false, false]),
            "with other keys" | "in other slots" => ([0, 2, 0], [false, true, false]),
            "forgotten" => ([0, 2, 0], GONE),
            _ => ([0, 0, 0], GONE),
        };
        assert_eq!(wanted.found(memory), expected, "{stage}");
    });
    assert_eq!(stages, 7);
}

#[cfg(target_os = "linux")]
fn live_a_peer() {
    let algorithm = TcpAoAlgorithm::HmacSha1;
    stage("start");
    let mut link = apart(|| {
        Box::new(Link::with_mkts(ipv4_pair(), set(0, (1, 2), algorithm), set(0, (2, 1), algorithm)))
    });
    stage("peers");
    apart(|| link.connect(ipv4_pair()));
    stage("established");
    apart(|| {
        link.client.set_mkts(0, set(1, (1, 2), algorithm)).unwrap();
        link.server.set_mkts(0, set(1, (2, 1), algorithm)).unwrap();
    });
    stage("with other keys");
    apart(|| {
        for shim in [&mut link.client, &mut link.server] {
            shim.move_peers((0..20).map(|_| PeerSlot::EMPTY).collect()).unwrap();
        }
    });
    stage("in other slots");
    link.client.forget(&ipv4_pair());
    link.server.forget(&ipv4_pair().reversed());
    stage("forgotten");
    apart(|| {
        drop(link.client.remove_peer(0).unwrap());
        drop(link.server.remove_peer(0).unwrap());
    });
    stage("peers removed");
}
