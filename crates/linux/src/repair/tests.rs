use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use proptest::prelude::*;
use socket2::{Domain, Protocol, Socket, Type};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{
    ConnectionState, Counters, Endpoint, HeardKeys, Isn, KeyId, MasterKey, Mkt, SeqNum, Sne, SocketPair,
    StateError,
};

use super::restore::{address, ao_repair, check, check_release, options};
use super::*;
use crate::key::Family;
use crate::{Error, SocketKey, TcpAoSocket, sys};

fn exported() -> Exported {
    Exported {
        tcp: TcpState {
            send_next: SeqNum(0x10),
            send_queue: vec![b'q'; 0x20],
            unsent: 4,
            receive_next: SeqNum(1000),
            receive_queue: vec![b'q'; 5],
            mss: 1460,
            window_scale: Some(WindowScale { send: 7, receive: 9 }),
            sack: true,
            timestamp: Some(12345),
            window: Window {
                send: 100,
                send_max: 200,
                send_update: SeqNum(900),
                receive: 300,
                receive_update: SeqNum(1000),
            },
        },
        authentication: ConnectionState {
            pair: SocketPair {
                local: Endpoint::new([192, 0, 2, 1], 179),
                remote: Endpoint::new([192, 0, 2, 2], 50_000),
            },
            local_isn: Isn(0x0102_0304),
            remote_isn: Isn(0x0506_0708),
            send_sne: Sne(3),
            send_sequence: SeqNum(0xffff_fff0),
            sent_end: SeqNum(0xffff_fff0),
            receive_sne: Sne(8),
            receive_sequence: SeqNum(1000),
            acknowledged: SeqNum(0xffff_fff0),
            heard: HeardKeys::ALL,
            current_key: KeyId(1),
            rnext_key: KeyId(2),
            counters: Counters::default(),
        },
        required: true,
        accept_icmps: false,
    }
}

fn mkt(send_id: u8, recv_id: u8) -> Mkt {
    let master_key = MasterKey::new(b"secret").unwrap();
    Mkt::new(KeyId(send_id), KeyId(recv_id), TcpAoAlgorithm::HmacSha1, master_key).unwrap()
}

#[test]
fn ao_38_snes_go_with_the_kernels_sequence_numbers() {
    let mut exported = exported();
    let assert_expected = |exported: &_| {
        let repair = ao_repair(exported);
        let isns = [repair.snt_isn, repair.rcv_isn].map(u32::to_ne_bytes);
        assert_eq!((isns, repair.snd_sne, repair.rcv_sne), ([[1, 2, 3, 4], [5, 6, 7, 8]], 3, 8));
    };
    // The octets not acknowledged start before the wrap, and the next octet expected is after the number in the state.
    assert_expected(&exported);
    // A state from another stack has the highest number sent, which is already past the wrap.
    exported.authentication.send_sne = Sne(4);
    exported.authentication.send_sequence = SeqNum(0x10);
    exported.authentication.receive_sne = Sne(7);
    exported.authentication.receive_sequence = SeqNum(0xffff_ffff);
    assert_expected(&exported);
}

#[test]
fn ao_38_options_are_those_of_the_handshake() {
    let mut state = exported().tcp;
    let options = |state: &_| -> Vec<(u32, u32)> {
        options(state).iter().map(|option| (option.opt_code, option.opt_val)).collect()
    };
    assert_eq!(options(&state), [(2, 1460), (3, 7 | 9 << 16), (4, 0), (8, 0)]);
    state.window_scale = None;
    state.sack = false;
    state.timestamp = None;
    assert_eq!(options(&state), [(2, 1460)]);
}

#[test]
fn ao_38_the_keys_in_use_must_be_there() {
    let exported = exported();
    let remote = "192.0.2.0/24".parse().unwrap();
    let (both, current, rnext) = (mkt(1, 2), mkt(1, 9), mkt(9, 2));
    let key = |mkt| SocketKey::new(remote, mkt);
    assert!(check(&exported, &[key(&both)]).is_ok());
    assert!(check(&exported, &[key(&rnext), key(&current)]).is_ok());
    let missing = |mkt| match check(&exported, &[key(mkt)]) {
        Err(Error::NoSuchKey { send_id, recv_id }) => (send_id, recv_id),
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(&current), (None, Some(KeyId(2))));
    assert_eq!(missing(&rnext), (Some(KeyId(1)), None));
    let elsewhere = SocketKey::new("198.51.100.0/24".parse().unwrap(), &both);
    assert!(matches!(check(&exported, &[elsewhere]), Err(Error::NoSuchKey { .. })));
}

#[test]
fn ao_38_a_state_that_contradicts_itself_is_refused() {
    let mut exported = exported();
    exported.tcp.unsent = 0x21;
    let mkt = mkt(1, 2);
    let refused = check(&exported, &[SocketKey::new("192.0.2.2".parse().unwrap(), &mkt)]);
    assert!(matches!(refused, Err(Error::NotRestorable(reason)) if reason.contains("unsent")));
}

/// Restoring crashes other kernels that have TCP-AO.
#[test]
fn ao_38_kernels_that_would_crash_are_refused() {
    for kernel in
        ["6.12.49", "6.12.107+deb13-cloud-amd64", "6.17", "6.18.15+deb13-cloud-amd64", "7.0.4", "10.0-rc1"]
    {
        assert!(check_release(kernel.to_owned()).is_ok(), "{kernel}");
    }
    for kernel in
        ["6.7.0", "6.8.0-45-generic", "6.12", "6.12.48", "6.13.0", "6.16.12+deb13-cloud-amd64", "other"]
    {
        let error = check_release(kernel.to_owned()).unwrap_err();
        assert!(matches!(&error, Error::CannotRestore { kernel: named } if named == kernel), "{error}");
    }
}

/// A new socket's buffer is smaller than the old one, which had grown.
#[test]
fn ao_38_unread_octets_enlarge_the_receive_buffer() {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
    // The kernel does not resize a buffer whose size was set.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut frozen = match TcpAoSocket::new(&socket).freeze() {
        // Without CAP_NET_ADMIN there is nothing else to test.
        Err(Error::NoPermission { .. }) => return,
        frozen => frozen.unwrap(),
    };
    // In repair this sends nothing.
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], 9)).into()).unwrap();
    let unread = vec![b'q'; 1 << 20];
    frozen.restore_receive_queue(&unread).unwrap();
    assert_eq!(sys::queued(socket.as_fd(), sys::SIOCINQ).unwrap(), unread.len());
    // Thawing would probe the peer.
    frozen.is_exported = true;
}

/// An exported connection must not go on in two places.
#[test]
fn ao_38_an_exported_connection_stays_frozen_until_it_is_resumed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (near, _) = listener.accept().unwrap();
    let freeze = || TcpAoSocket::new(&near).freeze();
    // The kernel reports the windows only in repair.
    let is_frozen = || sys::get(near.as_fd(), sys::REPAIR_WINDOW).is_ok();
    let mut frozen = match freeze() {
        // Without CAP_NET_ADMIN there is nothing else to test.
        Err(Error::NoPermission { .. }) => return,
        frozen => frozen.unwrap(),
    };
    // Without TCP-AO there is nothing to export, and dropping it lets the connection continue.
    assert!(frozen.export().is_err());
    drop(frozen);
    assert!(!is_frozen());
    let mut frozen = freeze().unwrap();
    frozen.is_exported = true;
    drop(frozen);
    assert!(is_frozen());
    freeze().unwrap().resume().unwrap();
    assert!(!is_frozen());
}

#[test]
fn ao_12_ipv4_connections_go_on_sockets_of_either_family() {
    let ipv4 = Endpoint::new([192, 0, 2, 1], 179);
    let socket_address = |family| address(ipv4, family).unwrap().as_socket().unwrap().to_string();
    assert_eq!(socket_address(Family::Ipv4), "192.0.2.1:179");
    assert_eq!(socket_address(Family::Ipv6), "[::ffff:192.0.2.1]:179");
    let ipv6 = Endpoint::new(std::net::Ipv6Addr::LOCALHOST, 179);
    assert!(matches!(address(ipv6, Family::Ipv4), Err(Error::NotRestorable(_))));
}

/// With and without the optional values.
fn both_forms() -> [Exported; 2] {
    let mut bare = exported();
    (bare.tcp.window_scale, bare.tcp.timestamp, bare.tcp.send_queue) = (None, None, Vec::new());
    [exported(), bare]
}

#[test]
fn ao_38_octets_are_the_exported_connection() {
    for exported in both_forms() {
        let octets = exported.to_octets();
        assert_eq!(Exported::from_octets(&octets).as_ref(), Ok(&exported));
        // Every octet is read.
        for place in 0..octets.len() {
            let mut altered = octets.clone();
            altered[place] ^= 1;
            assert_ne!(Exported::from_octets(&altered).as_ref(), Ok(&exported), "octet {place}");
        }
    }
}

#[test]
fn ao_38_octets_of_another_version_or_length_are_refused() {
    for exported in both_forms() {
        let octets = exported.to_octets();
        for version in (0..=u8::MAX).filter(|version| *version != octets[0]) {
            let other = [&[version], &octets[1..]].concat();
            assert_eq!(Exported::from_octets(&other), Err(ExportedError::Version(version)));
        }
        let authentication = octets.len() - ConnectionState::OCTETS;
        assert_eq!(Exported::from_octets(&[]), Err(ExportedError::Version(0)));
        for length in 1..octets.len() {
            let error = Exported::from_octets(&octets[..length]).unwrap_err();
            let of_authentication = matches!(error, ExportedError::Authentication(_));
            assert_eq!(of_authentication, length >= authentication, "{length} octets: {error}");
            assert!(of_authentication || matches!(error, ExportedError::Length { .. }), "{error}");
        }
        let expected = ConnectionState::OCTETS;
        let surplus = StateError::Length { expected, got: expected + 1 };
        let longer = [&octets[..], &[0]].concat();
        assert_eq!(Exported::from_octets(&longer), Err(ExportedError::Authentication(surplus)));
    }
}

/// The encoding of version 1 never changes.
#[test]
fn ao_38_octets_of_version_1_are_read() {
    let exported = exported();
    let fields: [&[u8]; 17] = [
        &[1, 1, 0, 1],
        &[0, 0, 0, 0x10],
        &[0, 0, 0, 0, 0, 0, 0, 4],
        &[0, 0, 3, 0xe8],
        &[0, 0, 5, 0xb4],
        &[1, 7, 9],
        &[1, 0, 0, 0x30, 0x39],
        &[0, 0, 0, 100],
        &[0, 0, 0, 200],
        &[0, 0, 3, 0x84],
        &[0, 0, 1, 0x2c],
        &[0, 0, 3, 0xe8],
        &[0, 0, 0, 0, 0, 0, 0, 0x20],
        &[b'q'; 0x20],
        &[0, 0, 0, 0, 0, 0, 0, 5],
        b"qqqqq",
        &exported.authentication.to_octets(),
    ];
    assert_eq!(Exported::from_octets(&fields.concat()), Ok(exported));
}

/// A number exported with 64 bits must not become a smaller one when read with 32.
#[test]
fn ao_38_a_number_that_a_usize_cannot_hold_is_refused() {
    let mut octets = exported().to_octets();
    let got: u64 = 1 << 32 | 4;
    octets[8..16].copy_from_slice(&got.to_be_bytes());
    let read = Exported::from_octets(&octets).map(|exported| exported.tcp.unsent);
    let expected = usize::try_from(got).map_err(|_| ExportedError::TooLarge { field: "unsent", got });
    assert_eq!(read, expected);
}

#[test]
fn ao_38_errors_of_octets_name_the_field() {
    let octets = exported().to_octets();
    let error = |place: usize, octet| {
        let mut altered = octets.clone();
        altered[place] = octet;
        Exported::from_octets(&altered).unwrap_err()
    };
    assert_eq!(error(3, 2), ExportedError::Flag { field: "sack", got: 2 });
    assert_eq!(error(24, 0xff), ExportedError::Flag { field: "window_scale", got: 0xff });
    // No memory is reserved for an impossible length.
    let error = error(52, 0xff);
    let is_named = match error {
        ExportedError::Length { field, got, .. } => {
            (field, got) == ("send_queue", 45 + ConnectionState::OCTETS)
        }
        // With 32 bits.
        ExportedError::TooLarge { field, .. } => field == "send_queue",
        _ => false,
    };
    assert!(is_named, "{error}");
    let error = Exported::from_octets(&octets[..30]).unwrap_err();
    assert_eq!(error, ExportedError::Length { field: "timestamp", expected: 4, got: 2 });
}

proptest! {
    #[test]
    fn ao_37_any_octets_are_an_exported_connection_or_refused(
        start in prop_oneof![Just(exported()), Just(both_forms()[1].clone())],
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        behind in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut octets = start.to_octets();
        for (place, octet) in changes {
            let place = place.index(octets.len());
            octets[place] = octet;
        }
        octets.extend(behind);
        if let Ok(exported) = Exported::from_octets(&octets) {
            prop_assert_eq!(exported.to_octets(), octets);
        }
    }
}

#[test]
fn ao_36_debug_shows_no_octet_of_the_queues() {
    let shown = format!("{:?}", exported());
    assert!(shown.contains("send_queue: 32 octets") && shown.contains("receive_queue: 5 octets"), "{shown}");
    assert!(!shown.contains("113"), "{shown}");
}

#[test]
fn ao_40_moving_without_the_capability_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The kernel refuses this on a listening socket, whatever the privilege.
    let error = TcpAoSocket::new(&listener).freeze().unwrap_err();
    assert!(matches!(error, Error::NoPermission { .. }), "{error}");
    assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
}
