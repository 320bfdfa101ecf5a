//! What people read: events and errors as texts, and `Debug` of what holds secrets.

use std::fmt::{self, Write};

use crate::shim_support::*;
use crate::support::*;

/// A writer that takes this many octets.
struct Room(usize);

impl Write for Room {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

#[test]
fn every_event_is_one_line_that_says_what_happened() {
    let refusal = UNSIGNED;
    let switched = EventKind::KeySwitched { from: KeyId(1), to: KeyId(3) };
    let on_old = EventKind::PeerOnOldKey { signed_with: KeyId(2), asked_for: KeyId(4) };
    for (kind, text) in [
        (
            EventKind::Refused { direction: Direction::Outbound, refusal: Refusal::NoKey },
            "outbound packet refused: the peer has no valid key at this time",
        ),
        (
            EventKind::Passed { direction: Direction::Inbound, refusal },
            "inbound packet passed, NOT PROTECTED (mismatches are accepted): segment is unsigned",
        ),
        (EventKind::Opened, "established"),
        (EventKind::Ended(End::Closed), "closed"),
        (EventKind::Ended(End::Replaced), "replaced by a new connection"),
        (EventKind::HandshakeEnded(End::Evicted), "handshake evicted from a full table"),
        (EventKind::Ended(End::Expired), "expired"),
        (EventKind::Ended(End::Forgotten), "forgotten"),
        (EventKind::Ended(End::NoKey), "lost its last key"),
        (switched, "now signing with SendID 3, no longer with 1"),
        (on_old, "peer still signs with RecvID 2, although asked for 4"),
        (
            EventKind::PeerInsists { on: KeyId(1) },
            "peer has moved on, but goes on asking for SendID 1, whose send lifetime is over",
        ),
    ] {
        assert_eq!(Event { peer: Some(0), pair: None, kind }.to_string(), text);
        let event = Event { peer: Some(0), pair: Some(ipv6_pair()), kind };
        assert_eq!(event.to_string(), format!("[2001:db8::1]:49152 <-> [2001:db8::2]:179: {text}"));
        // A line that does not fit its place is no line.
        let length = event.to_string().len();
        for room in 0..length {
            assert!(write!(Room(room), "{event}").is_err(), "{room} of {length} octets");
        }
        assert!(write!(Room(length), "{event}").is_ok());
    }
}

#[test]
fn debug_shows_a_shims_state_and_no_keys() {
    let mut link = Link::connected(ipv4_pair());
    link.server_gets(&Packet::new(ipv4_pair(), RST, 1, 0).build()).unwrap_err();
    let shown = format!("{:?}", link.server);
    assert!(shown.starts_with("Shim { config: ShimConfig { mtu: 1500, stack_mtu: 1480, "), "{shown}");
    assert!(shown.ends_with("required: 1, dropped_icmp: 0 }, .. }"), "{shown}");
    assert_eq!(format!("{:?} {:?}", PeerSlot::EMPTY, ShimSlot::EMPTY), "PeerSlot(None) ShimSlot(None)");
    let slot = format!("{:?}", peer(ipv4_pair(), mkts(&[(1, 2)])));
    assert!(slot.starts_with("PeerSlot(Some(Peer { connections: ") && slot.contains("MasterKey(34 octets)"));
    assert_eq!(format!("{:?}", hash_key()), "HashKey");
    // The fields of a MAC's input, without what is in them.
    let tcp = Parts::new(ipv4_pair(), ACK, 1, 2).options(&TIMESTAMPS).payload(b"data").with_ao(12);
    let segment = view(ipv4_pair(), &tcp);
    let input = segment.mac_input(Sne(0), OptionCoverage::Covered).unwrap();
    assert_eq!(
        format!("{input:?}"),
        "[Sne, Source, Destination, Protocol, TcpLength, Header, Checksum, UrgentPointer, OptionsBeforeAo, AoHeader, \
         AoMac, Payload]"
    );
    assert_eq!(format!("{:?}", segment.flags()), r#"["ACK"]"#);
    let every_flag = Parts::new(ipv4_pair(), SYN | ACK | FIN | RST, 1, 2).with_ao(12);
    assert_eq!(format!("{:?}", view(ipv4_pair(), &every_flag).flags()), r#"["SYN", "ACK", "FIN", "RST"]"#);
    assert_eq!(
        format!("{segment:?}"),
        r#"Segment { source: 192.0.2.1:49152, destination: 192.0.2.2:179, sequence: SeqNum(1), flags: ["ACK"], payload_length: 4 }"#
    );
    let ao = segment.ao_option().unwrap().unwrap();
    assert_eq!(
        format!("{ao:?}"),
        "AoOption { offset: 12, key_id: KeyId(0), rnext_key_id: KeyId(0), mac_length: 12 }"
    );
    assert_eq!(ao.length(), 16);
}

#[test]
fn an_algorithm_that_is_left_out_is_named_with_its_feature() {
    let features = ["hmac-sha1", "aes-128-cmac", "hmac-sha256", "hmac-sha256", "kmac256"];
    for (algorithm, feature) in TcpAoAlgorithm::ALL.into_iter().zip(features) {
        assert_eq!(
            MktError::NotBuiltIn { algorithm }.to_string(),
            format!("{algorithm} is not built in: it needs the feature {feature} of wireseal-tcp-ao")
        );
    }
}

#[test]
fn debug_of_a_state_counts_its_keys_and_does_not_show_them() {
    let shown = |heard: HeardKeys| format!("{heard:?}");
    assert_eq!(shown(HeardKeys::NONE), "HeardKeys { held: 0, others_unknown: 0, is_doubtful: 0, .. }");
    assert_eq!(shown(HeardKeys::ALL), "HeardKeys { held: 0, others_unknown: 1, is_doubtful: 0, .. }");
    let state = Ends::<3>::with_ids(&TWO).active.export().unwrap();
    assert_eq!(shown(state.heard), "HeardKeys { held: 1, others_unknown: 0, is_doubtful: 0, .. }");
}
