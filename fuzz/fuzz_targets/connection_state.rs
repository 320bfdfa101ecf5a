//! Exported connections: octets read back the same, an imported connection signs what its peer verifies and exports the same state, and one
//! whose state was altered is refused by its peer.
//!
//! Input: four octets of choices, then a state as octets.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_fuzz::hosts;
use wireseal_tcp_ao::shim::{HashKey, PeerSlot, Shim, ShimConfig, ShimSlot};
use wireseal_tcp_ao::{
    Connection, ConnectionIdentifier, ConnectionState, HeardKeys, KeyId, MKTS_PER_PEER, Mkt, MktSet, Peer,
    Segment, SocketPair, StateError,
};

const OCTETS: usize = ConnectionState::OCTETS;
const VERSION: u8 = 2;

fuzz_target!(|input: &[u8]| {
    let Some((choice, octets)) = input.split_first_chunk() else { return };
    match (ConnectionState::from_octets(octets), octets.first().copied().unwrap_or_default()) {
        (Ok(state), VERSION) => assert_eq!(state.to_octets(), octets),
        (Err(error), VERSION) => {
            assert_eq!(error, StateError::Length { expected: OCTETS, got: octets.len() });
            assert_ne!(octets.len(), OCTETS);
        }
        (result, version) => assert_eq!(result, Err(StateError::Version(version))),
    }
    let mut whole = [0; OCTETS];
    whole.iter_mut().zip(octets).for_each(|(place, octet)| *place = *octet);
    whole[0] = VERSION;
    go_on(*choice, hosts::secret(input), &whole);
});

fn read(octets: &[u8; OCTETS]) -> ConnectionState {
    ConnectionState::from_octets(octets).expect("the version and the length")
}

fn import(state: &ConnectionState, mkts: &MktSet<MKTS_PER_PEER>) -> Connection<MKTS_PER_PEER> {
    Connection::import(state, mkts).expect("the keys are there")
}

/// The keys of one end: one key to send with and one to ask for, or one for both. The other end's have the ids exchanged.
fn mkts(secret: u64, choice: u8, [current, rnext]: [KeyId; 2], is_local: bool) -> MktSet<MKTS_PER_PEER> {
    let mkt = |send: u8, recv: u8| -> Mkt {
        let [send, recv] = if is_local { [send, recv] } else { [recv, send] };
        hosts::mkt(secret, send, recv, TcpAoAlgorithm::ALL[usize::from(choice >> 1) % 2])
    };
    let all = match choice & 1 {
        0 => vec![mkt(current.0, rnext.0)],
        _ => vec![mkt(current.0, rnext.0 ^ 1), mkt(current.0 ^ 1, rnext.0)],
    };
    MktSet::from_mkts(all).expect("ids that differ")
}

/// Continues a connection from its state, and its peer from the reverse.
fn go_on([keys, flags, place, difference]: [u8; 4], secret: u64, octets: &[u8; OCTETS]) {
    let state = read(octets);
    let ids = [state.current_key, state.rnext_key];
    let own = mkts(secret, keys, ids, true);
    let mut connection = import(&state, &own);
    missing(&state, secret, keys);

    let again = import(&state, &own).export().expect("it is established");
    let expected = ConnectionState {
        send_sne: again.send_sne,
        send_sequence: again.send_sequence,
        sent_end: again.send_sequence,
        heard: again.heard,
        ..state.clone()
    };
    assert_eq!(again, expected);
    // The first octet not acknowledged or the end of what was sent, whichever is later.
    assert!(again.send_sequence == state.send_sequence || again.send_sequence == state.sent_end);
    let once_more = import(&again, &own).export().expect("it is established");
    assert_eq!(once_more, again);
    adopt(&again, &own);

    let ConnectionState { pair, local_isn, remote_isn, .. } = again;
    let reverse = ConnectionState {
        pair: SocketPair { local: pair.remote, remote: pair.local },
        local_isn: remote_isn,
        remote_isn: local_isn,
        send_sne: again.receive_sne,
        send_sequence: again.receive_sequence,
        sent_end: again.receive_sequence,
        receive_sne: again.send_sne,
        receive_sequence: again.send_sequence,
        acknowledged: again.receive_sequence,
        current_key: state.rnext_key,
        rnext_key: state.current_key,
        heard: HeardKeys::ALL,
        counters: Default::default(),
    };
    let mut peer = import(&reverse, &mkts(secret, keys, ids, false));
    let before = peer.counters();
    let signed = segment(&mut connection, &again, flags);
    let sent = view(&pair, &signed).expect("a whole segment");
    assert!(
        import(&reverse, &mkts(secret ^ 1, keys, ids, false)).verify(&sent).is_err(),
        "under another key"
    );
    peer.verify(&sent).expect("both ends agree on everything");
    assert_eq!(peer.counters().good, before.good.wrapping_add(1));

    // The ISNs and the SNE, which are in octets 37 to 48, decide the MAC.
    let mut altered = *octets;
    altered[37 + usize::from(place) % 12] ^= difference;
    let altered = read(&altered);
    let mut other = import(&altered, &own);
    let is_same = (altered.local_isn, altered.remote_isn) == (local_isn, remote_isn)
        && other.highest_sent() == (again.send_sne, again.send_sequence);
    let by_other = segment(&mut other, &again, flags);
    let verdict = peer.verify(&view(&pair, &by_other).expect("a whole segment")).map(|_| ());
    assert_eq!(verdict.is_ok(), is_same, "{again:?} {altered:?}");

    let mut forged = signed.clone();
    let at = usize::from(place) % forged.len();
    if difference != 0 && !(16..18).contains(&at) {
        forged[at] ^= difference;
        let is_good = view(&pair, &forged).is_some_and(|view| peer.verify(&view).is_ok());
        assert!(!is_good, "altered at {at}");
    }
}

/// If a key in use is missing, the error names it.
fn missing(state: &ConnectionState, secret: u64, choice: u8) {
    let (current, rnext) = (state.current_key, state.rnext_key);
    let without = |ids| Connection::import(state, &mkts(secret, choice & !1, ids, true)).map(|_| ());
    assert_eq!(without([KeyId(!current.0), rnext]), Err(StateError::CurrentKeyMissing(current)));
    assert_eq!(without([current, KeyId(!rnext.0)]), Err(StateError::RnextKeyMissing(rnext)));
}

/// A shim adopts the connection and gives it back.
fn adopt(state: &ConnectionState, mkts: &MktSet<MKTS_PER_PEER>) {
    let all = || "::/0".parse().expect("a network");
    let peer = Peer { connections: ConnectionIdentifier::between(all(), all()), mkts: mkts.clone() };
    let slots: Vec<ShimSlot> = ShimSlot::many(1);
    let mut shim = Shim::new(ShimConfig::new(1500), HashKey::new([7; 16]), vec![PeerSlot::from(peer)], slots)
        .expect("a peer");
    shim.adopt(Duration::ZERO, import(state, mkts)).expect("of this peer");
    let exported = shim.export(&state.pair).expect("it is open");
    // It asks for the preferred key.
    let rnext_key = mkts.preferred().expect("a key").recv_id();
    assert_eq!(exported, ConnectionState { rnext_key, heard: exported.heard, ..state.clone() });
    assert_eq!((shim.connections().count(), shim.export(&state.pair)), (0, None));
}

fn view<'a>(pair: &SocketPair, tcp: &'a [u8]) -> Option<Segment<'a>> {
    Segment::from_tcp(pair.local.address(), pair.remote.address(), tcp).ok()
}

/// A signed segment, from where the state continues.
fn segment(connection: &mut Connection<MKTS_PER_PEER>, state: &ConnectionState, flags: u8) -> Vec<u8> {
    let pair = connection.pair();
    // An acknowledgment, perhaps with FIN and PSH, and an AO option of 16 octets.
    let fixed = [9 << 4, 0x10 | flags & 9, 1, 0, 0, 0, 0, 0];
    let mut tcp = [pair.local.port().to_be_bytes(), pair.remote.port().to_be_bytes()].concat();
    tcp.extend(state.send_sequence.0.to_be_bytes());
    tcp.extend(state.receive_sequence.0.to_be_bytes());
    tcp.extend(fixed);
    tcp.extend([29, 16]);
    tcp.extend([0; 14]);
    tcp.extend_from_slice(&b"data"[..usize::from(flags >> 4) % 5]);
    connection.sign(&mut tcp).expect("it is established");
    tcp
}
