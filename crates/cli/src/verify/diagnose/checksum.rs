//! MACs over a header whose checksum field is not zero as RFC 5925 §5.1 requires.

use wireseal_tcp_ao::option::{AO_HEADER_LENGTH, TCP_HEADER_LENGTH};
use wireseal_tcp_ao::{AoOption, FieldName, OptionCoverage, Segment, Sne, TrafficKey, checksum};

/// What the sender may have had in the checksum field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChecksumForm {
    /// What was recorded.
    AsRecorded,
    /// The sum over the pseudo-header, which a stack leaves for the network card to complete.
    PseudoHeader,
    /// The checksum of the segment before its MAC was filled in.
    WithoutMac,
}

impl ChecksumForm {
    pub(super) const ALL: [Self; 3] = [Self::AsRecorded, Self::PseudoHeader, Self::WithoutMac];

    fn of(self, segment: &Segment<'_>, ao: &AoOption<'_>) -> u16 {
        let (source, destination) = (segment.source().address(), segment.destination().address());
        let mut tcp = segment.tcp().to_vec();
        match self {
            Self::AsRecorded => u16::from_be_bytes([tcp[16], tcp[17]]),
            Self::PseudoHeader => {
                tcp.fill(0);
                !checksum::tcp(source, destination, &tcp)
            }
            Self::WithoutMac => {
                tcp[16..18].fill(0);
                tcp[TCP_HEADER_LENGTH + ao.offset + AO_HEADER_LENGTH..][..ao.mac.len()].fill(0);
                checksum::tcp(source, destination, &tcp)
            }
        }
    }
}

/// Whether the received MAC is one over the segment with the checksum field in this form.
pub(super) fn verifies(
    form: ChecksumForm,
    key: &TrafficKey,
    sne: Sne,
    segment: &Segment<'_>,
    ao: &AoOption<'_>,
    options: OptionCoverage,
) -> bool {
    let Ok(input) = segment.mac_input(sne, options) else { return false };
    let checksum = form.of(segment, ao).to_be_bytes();
    let mut octets = Vec::new();
    for field in input.fields() {
        let is_checksum = field.name == FieldName::Checksum;
        octets.extend_from_slice(if is_checksum { &checksum } else { field.as_ref() });
    }
    key.mac_key().verify(&[&octets], ao.mac).is_ok()
}
