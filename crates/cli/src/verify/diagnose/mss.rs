//! SYNs whose MSS a device on the path has changed.

use std::ops::Range;

use wireseal_tcp_ao::OptionCoverage;
use wireseal_tcp_ao::option::{TCP_HEADER_LENGTH, kind};

use super::case::Case;
use super::hypothesis::Hypothesis;

/// The MSS values worth trying. Devices lower the MSS, so the original was higher: up to the 9,216 octets of the largest
/// frames in use, or loopback's 65,535 with or without room for the headers. Those of usual interfaces come first.
pub(super) fn all() -> impl Iterator<Item = u16> {
    let usual = [1460, 1440, 8960, 8940, u16::MAX - 40, u16::MAX - 60, u16::MAX];
    usual.into_iter().chain(500..=9216)
}

/// The MSS, among these, with which a SYN verifies.
pub(super) fn find(
    case: &Case<'_, '_>,
    hypothesis: &Hypothesis,
    mut sizes: impl Iterator<Item = u16>,
) -> Option<u16> {
    let options = case.options(hypothesis);
    if !case.segment.flags().syn() || options == OptionCoverage::Excluded {
        return None;
    }
    let (key, place) = (case.key(hypothesis)?, place(case)?);
    let mut tcp = case.segment.tcp().to_vec();
    sizes.find(|mss| {
        tcp[place.clone()].copy_from_slice(&mss.to_be_bytes());
        case.matches(&key, case.sne, &tcp, options)
    })
}

/// Where in the segment its MSS is.
fn place(case: &Case<'_, '_>) -> Option<Range<usize>> {
    let option =
        case.segment.options().flatten().find(|option| {
            option.kind == kind::MAXIMUM_SEGMENT_SIZE && option.data.len() == size_of::<u16>()
        })?;
    let start = TCP_HEADER_LENGTH + option.offset + 2;
    Some(start..start + size_of::<u16>())
}
