//! Every packet of RFC 9235, and the same under the two algorithms of draft-ietf-tcpm-tcp-ao-algs-07.

use crate::support::{receive, segment_mac};
use crate::vector::{Vector, draft_tcp_ao_algs, handshakes, rfc_9235};
use wireseal_tcp_ao::{
    Connection, Isn, Mkt, MktError, MktSet, Segment, SocketPair, TrafficKey, TrafficKeyOctets, sign_segment,
    verify_segment,
};

fn assert_traffic_keys(vectors: &[Vector]) {
    for vector in vectors {
        let key = TrafficKeyOctets::derive(&vector.senders_mkt(), &vector.context());
        assert_eq!(key.expose_secret(), vector.traffic_key.0, "section {}", vector.section);
    }
}

fn assert_macs(vectors: &[Vector]) {
    for vector in vectors {
        let section = &vector.section;
        let key = TrafficKey::derive(&vector.senders_mkt(), &vector.context());
        let (segment, ao) = (vector.segment(), vector.ao());
        assert_eq!(ao.mac, vector.mac.0, "section {section}");
        let mac = segment_mac(&key, vector.sne(), vector.coverage(), &segment).unwrap();
        assert_eq!(mac.truncated(ao.mac.len()), vector.mac.0, "section {section}");
        let verdict = verify_segment(&key, vector.sne(), vector.receivers_mkt().parameters(), &segment);
        assert_eq!(verdict, Ok(()), "section {section}");
    }
}

/// Signs each segment anew, and compares it octet for octet with the one in the vector.
fn assert_signed_alike(vectors: &[Vector]) {
    for vector in vectors {
        let key = TrafficKey::derive(&vector.senders_mkt(), &vector.context());
        let segment = vector.segment();
        let addresses = (segment.source_address(), segment.destination_address());
        let mut tcp = vector.unsigned_tcp();
        assert_ne!(tcp, segment.tcp());
        let mkt = vector.senders_mkt();
        sign_segment(&key, vector.sne(), mkt.parameters(), vector.ao().rnext_key_id, addresses, &mut tcp)
            .unwrap();
        assert_eq!(tcp, segment.tcp(), "section {}", vector.section);
    }
}

/// Two connections that send the handshake of the vectors to each other, and data in both directions.
fn assert_conversation([syn, syn_ack, data_forth, data_back]: [&Vector; 4]) {
    let pair = SocketPair { local: syn.segment().source(), remote: syn.segment().destination() };
    let active_mkts = MktSet::<1>::from_mkts([syn.senders_mkt()]).unwrap();
    let passive_mkts = MktSet::<1>::from_mkts([syn.receivers_mkt()]).unwrap();
    let mut active = Connection::active(pair, Isn(syn.segment().sequence().0), &active_mkts).unwrap();
    assert_sends(&mut active, syn);
    let mut passive = Connection::passive(&passive_mkts.verify_syn(syn.segment()).unwrap());
    assert_eq!(passive.pair(), pair.reversed());
    assert_sends(&mut passive, syn_ack);
    active.verify(&syn_ack.segment()).unwrap();
    assert!(active.is_established() && !passive.is_established());
    assert_sends(&mut active, data_forth);
    passive.verify(&data_forth.segment()).unwrap();
    assert!(passive.is_established());
    assert_sends(&mut passive, data_back);
    receive(&mut active, data_back.segment().tcp()).unwrap();
    assert_eq!((active.counters().good, active.counters().bad), (2, 0));
    assert_eq!((passive.counters().good, passive.counters().bad), (2, 0));
}

fn assert_sends<const N: usize>(connection: &mut Connection<N>, vector: &Vector) {
    let mut tcp = vector.unsigned_tcp();
    connection.sign(&mut tcp).unwrap();
    assert_eq!(tcp, vector.segment().tcp(), "section {}", vector.section);
}

fn assert_conversations(vectors: &[Vector], count: usize) {
    let handshakes = handshakes(vectors);
    assert_eq!(handshakes.len(), count);
    handshakes.into_iter().for_each(assert_conversation);
}

#[test]
fn ao_01_all_32_traffic_keys_of_rfc_9235() {
    assert_traffic_keys(&rfc_9235());
}

#[test]
fn ao_02_all_32_macs_of_rfc_9235() {
    assert_macs(&rfc_9235());
    assert_signed_alike(&rfc_9235());
}

#[test]
fn ao_02_connections_speak_the_conversations_of_rfc_9235() {
    assert_conversations(&rfc_9235(), 8);
}

#[test]
fn ao_14_all_64_draft_vectors() {
    assert_traffic_keys(&draft_tcp_ao_algs());
    assert_macs(&draft_tcp_ao_algs());
    assert_signed_alike(&draft_tcp_ao_algs());
}

#[test]
fn ao_14_connections_speak_the_conversations_of_the_draft() {
    assert_conversations(&draft_tcp_ao_algs(), 16);
}

#[test]
fn ao_14_a_short_master_key_is_refused_unless_asked_for() {
    let mut refused = 0;
    for vector in draft_tcp_ao_algs() {
        let (ao, master_key) = (vector.ao(), vector.master_key());
        let length = master_key.len();
        match Mkt::new(ao.key_id, ao.rnext_key_id, vector.algorithm(), master_key) {
            Ok(_) => assert_eq!(length, 32),
            Err(error) => {
                assert_eq!(error, MktError::MasterKeyTooShort { algorithm: vector.algorithm(), length });
                assert_eq!(length, 10);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 32);
}

#[test]
fn ao_02_rfc_9235_packets_of_one_connection_do_not_verify_on_another() {
    let vectors = rfc_9235();
    for vector in &vectors {
        let segment = Segment::parse(&vector.packet.0).unwrap();
        for other in vectors.iter().filter(|other| other.context() != vector.context()) {
            let key = TrafficKey::derive(&vector.senders_mkt(), &other.context());
            let mkt = vector.receivers_mkt();
            assert!(verify_segment(&key, vector.sne(), mkt.parameters(), &segment).is_err());
        }
    }
}
