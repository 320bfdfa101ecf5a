//! Segments on the wire, and what the model knows of them.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Connection, Endpoint, Isn, KeyId, MasterKey, Mkt, MktSet, Segment, SocketPair};

use crate::ends::Side;

/// MKTs that a connection has room for, and that the model has.
pub(super) const ROOM: usize = 3;

/// Octets of data in a segment.
pub(super) const DATA: u32 = 4;

/// The largest window (RFC 7323 §2.3) but for its last octets.
const LARGEST_WINDOW: u32 = 1 << 30;

/// How far one segment of data is from the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spacing {
    /// It follows at once.
    #[default]
    Near,
    /// It ends 2^30 octets after the end of the one before, and is sent once that is acknowledged, as the largest window demands. The
    /// octets in between are as good as sent. So numbers come to be exactly 2^31 octets apart, and further.
    Far,
}

impl Spacing {
    const fn octets(self) -> u32 {
        match self {
            Self::Near => DATA,
            Self::Far => LARGEST_WINDOW,
        }
    }

    /// The number after so many segments of data, counted in 64 bits.
    pub(super) fn extended(self, side: Side, segments: u8) -> u64 {
        u64::from(isn(side).0) + 1 + u64::from(segments) * u64::from(self.octets())
    }

    /// Its lower 32 bits, as on the wire.
    pub(super) fn sequence(self, side: Side, segments: u8) -> u32 {
        self.extended(side, segments) as u32
    }

    /// The number of a segment with `before` segments of data before it. One with data ends where the next begins.
    pub(super) fn start(self, side: Side, before: u8, has_data: bool) -> u64 {
        let data = if has_data { DATA } else { 0 };
        self.extended(side, before + u8::from(has_data)) - u64::from(data)
    }
}

pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;

const HEADER: usize = 20;

/// A segment in flight.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sent {
    pub(super) from: Side,
    /// The keys that it was signed with and asks for.
    pub(super) key: u8,
    pub(super) rnext: u8,
    /// How many segments of data come before it, and how many of the peer's it acknowledges.
    pub(super) before: u8,
    pub(super) acknowledges: u8,
    pub(super) has_data: bool,
    pub(super) octets: Vec<u8>,
}

/// The left end's numbers pass 2^32 with its second segment of data.
pub(super) const fn isn(side: Side) -> Isn {
    match side {
        Side::Left => Isn(u32::MAX - DATA),
        Side::Right => Isn(0x7000_0000),
    }
}

pub(super) fn data(side: Side, before: u8) -> [u8; DATA as usize] {
    [b'd', side as u8, before, before ^ 0x5a]
}

pub(super) fn pair(side: Side) -> SocketPair {
    let pair = SocketPair {
        local: Endpoint::new([192, 0, 2, 1], 49152),
        remote: Endpoint::new([192, 0, 2, 2], 179),
    };
    if side == Side::Left { pair } else { pair.reversed() }
}

pub(super) fn send_id(side: Side, key: u8) -> KeyId {
    KeyId(key + if side == Side::Left { 1 } else { 11 })
}

pub(super) fn recv_id(side: Side, key: u8) -> KeyId {
    send_id(side.other(), key)
}

pub(super) fn mkt(side: Side, key: u8) -> Mkt {
    let master_key = MasterKey::new(&[key + 1; 16]).expect("of a length that is allowed");
    Mkt::new(send_id(side, key), recv_id(side, key), TcpAoAlgorithm::Aes128Cmac, master_key)
        .expect("built in")
}

/// The MKTs of a mask of keys.
pub(super) fn mkts(side: Side, held: u8) -> MktSet<ROOM> {
    let held = (0..ROOM as u8).filter(|key| held & 1 << key != 0);
    MktSet::from_mkts(held.map(|key| mkt(side, key))).expect("different ids, and room for all")
}

/// A segment that `connection` has signed. No MAC covers the checksum, and nothing here reads it.
pub(super) fn signed(
    connection: &mut Connection<ROOM>,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    payload: &[u8],
) -> Result<Vec<u8>, String> {
    let pair = connection.pair();
    let mut options = [0; 40];
    let length = connection.append_ao(&mut options, 0).map_err(|e| e.to_string())?;
    let mut tcp = Vec::with_capacity(HEADER + length + payload.len());
    tcp.extend(pair.local.port().to_be_bytes());
    tcp.extend(pair.remote.port().to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledgment.to_be_bytes());
    tcp.extend([((HEADER + length) as u8 / 4) << 4, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
    tcp.extend(&options[..length]);
    tcp.extend(payload);
    connection.sign(&mut tcp).map_err(|error| format!("cannot sign: {error}"))?;
    Ok(tcp)
}

/// The segment as it travels from the local to the remote end of `pair`.
pub(super) fn view(pair: SocketPair, tcp: &[u8]) -> Segment<'_> {
    Segment::from_tcp(pair.local.address(), pair.remote.address(), tcp).expect("a whole segment")
}
