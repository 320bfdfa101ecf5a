//! Slow readers of netlink's messages and attributes (`linux/netlink.h`).

/// A message: its type, and what follows its header.
#[derive(Debug)]
pub struct Message<'a> {
    /// The type.
    pub kind: u16,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// The number in the machine's order at this place.
#[must_use]
pub fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|octets| u16::from_ne_bytes(*octets))
}

/// The number in the machine's order at this place.
#[must_use]
pub fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
}

/// The messages of a datagram up to the first damaged one, and whether all were intact.
#[must_use]
pub fn messages(datagram: &[u8]) -> (Vec<Message<'_>>, bool) {
    let mut all = Vec::new();
    let mut at = 0;
    while at < datagram.len() {
        let length = u32_at(datagram, at).map_or(0, |length| length as usize);
        let message = at.checked_add(length).and_then(|end| datagram.get(at..end)?.get(16..));
        let (Some(payload), Some(kind)) = (message, u16_at(datagram, at + 4)) else { return (all, false) };
        all.push(Message { kind, payload });
        at += length.next_multiple_of(4);
    }
    (all, true)
}

/// The attributes up to the first damaged one: types without the two flags, and values.
#[must_use]
pub fn attributes(octets: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    let mut at = 0;
    while let (Some(length), Some(kind)) = (u16_at(octets, at), u16_at(octets, at + 2)) {
        let Some(value) = octets.get(at + 4..at + usize::from(length)) else { break };
        all.push((kind & 0x3fff, value));
        at += usize::from(length).next_multiple_of(4);
    }
    all
}
