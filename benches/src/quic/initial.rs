//! Setting up the Initial keys of both directions from a connection ID.

use wireseal_quic::{ConnectionId, LongHeader, LongType, NumberLength, Version};

use super::{CONNECTION_ID, direct, rustls_keys, wireseal};

/// The first octet of an Initial packet: long header, fixed bit, and a packet number of four octets.
pub(super) const INITIAL_FIRST: u8 = 0xc3;
/// Where the packet number of [`packet`] is.
pub(super) const INITIAL_NUMBER: usize = 18;

/// An Initial packet, to be sealed, with room for its tag.
fn packet() -> Vec<u8> {
    let payload = 100;
    let mut packet = vec![0; INITIAL_NUMBER + 4 + payload + 16];
    let header = LongHeader {
        version: Version::V1,
        packet_type: LongType::Initial,
        destination: ConnectionId::new(&CONNECTION_ID).expect("eight octets"),
        source: ConnectionId::new(&[]).expect("no octets"),
        token: &[],
    };
    assert_eq!(header.encode(&mut packet, NumberLength::Four, payload), Ok(INITIAL_NUMBER));
    packet
}

/// Sets up keys for a connection ID, and drops them.
pub type SetUp = Box<dyn Fn(&[u8])>;

/// The first packet of client and server under the keys of a connection ID.
type Sealed = Box<dyn Fn(&[u8]) -> [Vec<u8>; 2]>;

/// A library that derives Initial keys.
pub struct InitialContender {
    /// The library, and how it is used.
    pub name: &'static str,
    /// For both directions.
    pub set_up: SetUp,
    sealed: Sealed,
}

impl std::fmt::Debug for InitialContender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InitialContender").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A contender from what derives the keys of client and server, and what seals a packet with number 0 under either.
pub(super) fn contender<K: 'static>(
    name: &'static str,
    set_up: impl Fn(&[u8]) -> [K; 2] + Copy + 'static,
    seal: impl Fn(K, &mut [u8]) + 'static,
) -> InitialContender {
    InitialContender {
        name,
        set_up: Box::new(move |connection_id| drop(std::hint::black_box(set_up(connection_id)))),
        sealed: Box::new(move |connection_id| {
            set_up(connection_id).map(|keys| {
                let mut packet = packet();
                seal(keys, &mut packet);
                packet
            })
        }),
    }
}

/// Wireseal first, then the others.
///
/// # Panics
/// When two of them seal differently under the keys of any connection ID of 0 to 20 octets.
#[must_use]
pub fn initial_contenders() -> Vec<InitialContender> {
    let mut contenders = wireseal::initial_contenders();
    contenders.extend(direct::initial_contenders());
    contenders.extend(rustls_keys::initial_contenders());
    let long = [CONNECTION_ID; 3].concat();
    for length in 0..=20 {
        let expected = (contenders[0].sealed)(&long[..length]);
        for contender in &contenders {
            assert_eq!(
                (contender.sealed)(&long[..length]),
                expected,
                "{} at {length} octets",
                contender.name
            );
        }
    }
    contenders
}
