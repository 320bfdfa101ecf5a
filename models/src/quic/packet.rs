//! Packets on the wire, and what the model knows of them.

use wireseal_quic::{ConnectionId, OneRtt, Outgoing, ShortHeader};

use crate::ends::Side;

/// The connection ID that every packet goes to.
const DESTINATION: [u8; 4] = [0xd0, 0xd1, 0xd2, 0xd3];

const TAG: usize = 16;

/// A packet in flight.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sealed {
    pub(super) from: Side,
    pub(super) number: u8,
    /// How many key updates its sender had seen.
    pub(super) generation: u8,
    /// The peer's packets that its sender had opened: a bit for each.
    pub(super) acknowledges: u16,
    pub(super) octets: Vec<u8>,
}

impl Sealed {
    pub(super) fn payload(&self) -> [u8; 5] {
        let [high, low] = self.acknowledges.to_be_bytes();
        [self.from as u8, self.number, self.generation, high, low]
    }
}

/// Seals the next packet of an end.
pub(super) fn seal(
    one_rtt: &mut OneRtt,
    from: Side,
    number: u8,
    generation: u8,
    acknowledges: u16,
) -> Result<Sealed, String> {
    let mut sealed =
        Sealed { from, number, generation, acknowledges, octets: vec![0; 1 + DESTINATION.len()] };
    let destination = ConnectionId::new(&DESTINATION).map_err(|error| error.to_string())?;
    let header = ShortHeader { destination, spin: false };
    let number_offset = header.encode(&mut sealed.octets).map_err(|error| error.to_string())?;
    let number_length = one_rtt.number_length();
    sealed.octets.resize(number_offset + number_length.octets(), 0);
    sealed.octets.extend(sealed.payload());
    sealed.octets.resize(sealed.octets.len() + TAG, 0);
    let outgoing = Outgoing { packet: &mut sealed.octets, number_offset, number_length };
    match one_rtt.seal(outgoing) {
        Ok(used) if used == u64::from(number) => Ok(sealed),
        Ok(used) => Err(format!("sealed with number {used} instead of {number}")),
        Err(error) => Err(format!("cannot seal: {error}")),
    }
}

pub(super) const fn destination_length() -> usize {
    DESTINATION.len()
}
