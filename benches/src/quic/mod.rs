//! QUIC packet protection by several libraries, each with the same keys, and outputs compared before they are handed out.
//!
//! Every packet has a short header: first octet, a connection ID of eight octets, a packet number of four. Whoever seals counts
//! the numbers, writes the header's bits and masks them, so that all contenders make the same packets, octet for octet.

#[cfg(feature = "peers")]
mod boringssl;
mod direct;
mod initial;
mod masks;
mod rustls_keys;
mod wireseal;

use wireseal_quic::AeadAlgorithm;

pub use initial::{InitialContender, initial_contenders};
pub use masks::{MaskContender, mask_contenders};

/// The payloads that the benches seal and open, in octets: small packets, the least Initial, and what Ethernet carries.
pub const PAYLOADS: [usize; 5] = [64, 256, 1200, 1350, 1440];

/// The destination connection ID that all keys come from: that of RFC 9001, appendix A.
const CONNECTION_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
/// A short header's first octet: fixed bit, and a packet number of four octets.
const FIRST: u8 = 0x43;
/// Where the packet number is.
const NUMBER: usize = 9;
/// Where the payload is.
const PAYLOAD: usize = 13;

/// Seals a packet where it lies.
pub type Seal = Box<dyn FnMut(&mut [u8])>;

/// Opens a packet where it lies, and says whether it was authentic.
pub type Open = Box<dyn FnMut(&mut [u8]) -> bool>;

/// A library that seals and opens packets.
pub struct PacketContender {
    /// The library, and how it is used.
    pub name: &'static str,
    /// Seals what [`packet`] makes, or what was sealed before, with the next number.
    pub seal: Seal,
    /// Opens what was sealed under the same secret.
    pub open: Open,
}

impl std::fmt::Debug for PacketContender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketContender").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A packet of `payload` octets of payload, to be sealed, with room for its tag.
#[must_use]
pub fn packet(payload: usize) -> Vec<u8> {
    let mut packet = vec![FIRST];
    packet.extend_from_slice(&CONNECTION_ID);
    packet.extend_from_slice(&[0; 4]);
    packet.extend((0..payload).map(|i| (i * 31) as u8));
    packet.extend_from_slice(&[0; AeadAlgorithm::TAG_LENGTH]);
    packet
}

/// Wireseal first, then the other libraries that have the AEAD, all with the keys of the same secret.
///
/// # Panics
/// When two of them seal differently, when one does not open what was sealed, and when one opens what was altered.
#[must_use]
pub fn packet_contenders(algorithm: AeadAlgorithm) -> Vec<PacketContender> {
    let mut compared = all(algorithm);
    for payload in (0..100).chain(PAYLOADS) {
        let plain = packet(payload);
        let mut expected = plain.clone();
        for (place, contender) in compared.iter_mut().enumerate() {
            let name = contender.name;
            let mut sealed = plain.clone();
            (contender.seal)(&mut sealed);
            if place == 0 {
                expected.clone_from(&sealed);
            }
            assert_eq!(sealed, expected, "{name} seals {payload} octets differently under {algorithm}");
            let mut opened = sealed.clone();
            assert!((contender.open)(&mut opened), "{name} opens {payload} octets under {algorithm}");
            let end = PAYLOAD + payload;
            assert_eq!(opened[PAYLOAD..end], plain[PAYLOAD..end], "{name}");
            assert_eq!((opened[0], &opened[1..NUMBER]), (FIRST, &plain[1..NUMBER]), "{name}");
            for at in [0, 1, NUMBER, PAYLOAD - 1, PAYLOAD, end, end + 15] {
                let mut forged = sealed.clone();
                forged[at] ^= 1;
                assert!(!(contender.open)(&mut forged), "{name} opens a packet altered at {at}");
            }
        }
    }
    // Others, so that nothing is timed with numbers or failures that the comparison has left.
    all(algorithm)
}

fn all(algorithm: AeadAlgorithm) -> Vec<PacketContender> {
    let mut contenders = wireseal::packets(algorithm);
    contenders.extend(direct::packets(algorithm));
    contenders.extend(rustls_keys::packets(algorithm));
    #[cfg(feature = "peers")]
    contenders.extend(boringssl::packets(algorithm));
    contenders
}
