//! An operation of one library: what the scoreboard times.

use super::packet::initial_packet;

/// Seals a packet in place, new or sealed before, with the next number.
pub(super) type Seal = Box<dyn FnMut(&mut [u8])>;

/// Opens a packet in place that was sealed under the same secret; `false` if it is not authentic.
type Open = Box<dyn FnMut(&mut [u8]) -> bool>;

/// Makes a mask of each sample. In the first octet only the bits count that a short header masks.
type Masks = Box<dyn FnMut(&[[u8; 16]], &mut [[u8; 5]])>;

/// Sets up the keys of both directions for a connection ID, and drops them.
type SetUp = Box<dyn Fn(&[u8])>;

/// Seals the first packet of client and server under the keys of a connection ID.
type Sealed = Box<dyn Fn(&[u8]) -> [Vec<u8>; 2]>;

/// A library that seals and opens packets.
pub(crate) struct PacketContender {
    /// The library, and how it is used.
    pub(crate) name: &'static str,
    pub(crate) seal: Seal,
    pub(crate) open: Open,
}

/// A library that makes header protection masks.
pub(crate) struct MaskContender {
    /// The library, and how it is used.
    pub(crate) name: &'static str,
    pub(crate) masks: Masks,
}

impl MaskContender {
    /// A contender that makes masks one by one.
    pub(super) fn one_by_one(
        name: &'static str,
        mut mask: impl FnMut(&[u8; 16]) -> [u8; 5] + 'static,
    ) -> Self {
        let masks = move |samples: &[[u8; 16]], masks: &mut [[u8; 5]]| {
            for (sample, to) in samples.iter().zip(masks) {
                *to = mask(sample);
            }
        };
        Self { name, masks: Box::new(masks) }
    }
}

/// A library that derives Initial keys.
pub(crate) struct InitialContender {
    /// The library, and how it is used.
    pub(crate) name: &'static str,
    pub(crate) set_up: SetUp,
    pub(super) sealed: Sealed,
}

impl InitialContender {
    /// `set_up` derives the keys of client and server, `seal` seals packet number 0 under one of them.
    pub(super) fn new<K: 'static>(
        name: &'static str,
        set_up: impl Fn(&[u8]) -> [K; 2] + Copy + 'static,
        seal: impl Fn(K, &mut [u8]) + 'static,
    ) -> Self {
        Self {
            name,
            set_up: Box::new(move |connection_id| drop(std::hint::black_box(set_up(connection_id)))),
            sealed: Box::new(move |connection_id| {
                set_up(connection_id).map(|keys| {
                    let mut packet = initial_packet();
                    seal(keys, &mut packet);
                    packet
                })
            }),
        }
    }
}
