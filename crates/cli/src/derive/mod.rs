//! Traffic keys and MACs with every step on the way, for whoever debugs an implementation of TCP-AO.

mod error;
mod field;
mod kdf;
mod mac_input;
mod packet;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::Mac;
use wireseal_tcp_ao::{AoOption, Isn, KdfContext, OptionCoverage, Segment, Sne, TrafficKey, segment_mac};

pub use error::DeriveError;
pub use field::{Field, Octets};
pub use kdf::{Step, kdf};
pub use mac_input::mac_input;
pub use packet::segment;

/// What the traffic key of a segment is derived for.
///
/// A SYN needs no ISN but its own sequence number, and a SYN-ACK acknowledges the other; all else needs both ISNs, the one of the
/// segment's source first.
///
/// # Errors
/// [`DeriveError::NoIsns`], and [`DeriveError::Isns`] for ISNs that contradict the segment.
pub fn context_of(segment: &Segment<'_>, isns: Option<[Isn; 2]>) -> Result<KdfContext, DeriveError> {
    let flags = segment.flags();
    let own = flags.syn().then_some(Isn(segment.sequence().0));
    let other = match (flags.syn(), flags.ack()) {
        (true, false) => Some(Isn::UNKNOWN),
        (true, true) => Some(Isn(segment.acknowledgment().0.wrapping_sub(1))),
        (false, _) => None,
    };
    let [source_isn, destination_isn] = match (isns, own.zip(other)) {
        // Of a SYN's the second does not matter: the sender does not know it.
        (Some([source, _]), Some((own, Isn::UNKNOWN))) if !flags.ack() && source == own => {
            [own, Isn::UNKNOWN]
        }
        (Some(isns), Some((own, other))) if isns == [own, other] => isns,
        (Some(_), Some((own, other))) => return Err(DeriveError::Isns { own, other }),
        (Some(isns), None) => isns,
        (None, Some((own, other))) => [own, other],
        (None, None) => return Err(DeriveError::NoIsns),
    };
    let (source, destination) = (segment.source(), segment.destination());
    Ok(KdfContext { source, destination, source_isn, destination_isn })
}

/// What RFC 5925 §5.2 calls the traffic key of a segment, at its sender and at its receiver.
#[must_use]
pub fn names_of(segment: &Segment<'_>) -> [&'static str; 2] {
    if segment.flags().syn() && !segment.flags().ack() {
        ["Send_SYN", "Receive_SYN"]
    } else {
        ["Send_other", "Receive_other"]
    }
}

/// The AO option of a segment, whose MAC can be computed.
///
/// # Errors
/// [`DeriveError::NoOption`], [`DeriveError::Options`], and [`DeriveError::MacLength`] for a MAC outside of 4 to 16 octets.
pub fn ao_of<'a>(segment: &Segment<'a>) -> Result<AoOption<'a>, DeriveError> {
    let ao = segment.ao_option().map_err(DeriveError::Options)?.ok_or(DeriveError::NoOption)?;
    let lengths = TcpAoAlgorithm::MIN_MAC_LENGTH..=TcpAoAlgorithm::MAX_MAC_LENGTH;
    if !lengths.contains(&ao.mac.len()) {
        return Err(DeriveError::MacLength(ao.mac.len()));
    }
    Ok(ao)
}

/// The whole MAC of a segment, of which its option has the first octets.
///
/// # Errors
/// [`DeriveError::NoOption`].
pub fn mac(
    key: &TrafficKey,
    sne: Sne,
    segment: &Segment<'_>,
    options: OptionCoverage,
) -> Result<Mac, DeriveError> {
    segment_mac(key, sne, segment, options).map_err(|_| DeriveError::NoOption)
}
