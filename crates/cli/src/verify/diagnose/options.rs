//! How the options that a sender signed may differ from those that were recorded.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use wireseal_tcp_ao::option::{MAX_OPTIONS_LENGTH, Options, TCP_HEADER_LENGTH, kind};
use wireseal_tcp_ao::{FieldName, MacInput, Segment};

/// Octets after TCP-AO that are missing or zero in the sender's MAC input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PaddingForm {
    octets: Padding,
    omission: Omission,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Padding {
    /// The NOPs right after TCP-AO.
    AfterAo,
    /// The padding after the last option.
    AtEnd,
    /// Everything after TCP-AO, as if its NOPs ended the list.
    Everything,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Omission {
    Zeroed,
    /// The data offset, and the length in the pseudo-header, may count the octets nevertheless.
    LeftOut {
        data_offset_is_less: bool,
        length_is_less: bool,
    },
}

impl PaddingForm {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let flags = [(false, false), (true, true), (false, true), (true, false)];
        let left_out = flags.map(|(data_offset_is_less, length_is_less)| Omission::LeftOut {
            data_offset_is_less,
            length_is_less,
        });
        [Padding::AfterAo, Padding::AtEnd, Padding::Everything].into_iter().flat_map(move |octets| {
            left_out.into_iter().chain([Omission::Zeroed]).map(move |omission| Self { octets, omission })
        })
    }

    /// The MAC input in this form, if that changes it.
    pub(super) fn input(self, input: &MacInput<'_>) -> Option<Vec<u8>> {
        let after = input.fields().find(|field| field.name == FieldName::OptionsAfterAo)?;
        let place = self.octets.place(after.as_ref())?;
        let mut octets = Vec::new();
        for field in input.fields() {
            let start = octets.len();
            octets.extend_from_slice(field.as_ref());
            match (field.name, self.omission) {
                (FieldName::OptionsAfterAo, Omission::Zeroed) => {
                    octets[start..][place.clone()].fill(0);
                }
                (FieldName::OptionsAfterAo, Omission::LeftOut { .. }) => {
                    octets.drain(start + place.start..start + place.end);
                }
                (FieldName::Header, Omission::LeftOut { data_offset_is_less: true, .. }) => {
                    let octet = &mut octets[start + 12];
                    let length = usize::from(*octet >> 4) * 4;
                    let shorter = ((length - place.len()) / 4) as u8;
                    *octet = shorter << 4 | *octet & 0x0f;
                }
                (FieldName::TcpLength, Omission::LeftOut { length_is_less: true, .. }) => {
                    let last = octets.last_chunk_mut()?;
                    *last = u16::from_be_bytes(*last).wrapping_sub(place.len() as u16).to_be_bytes();
                }
                _ => {}
            }
        }
        Some(octets)
    }

    /// What the sender does, after its name in a sentence.
    pub(super) fn words(self) -> String {
        let octets = match self.octets {
            Padding::AfterAo => "the NOPs after TCP-AO",
            Padding::AtEnd => "the padding (NOPs) at the end of the options",
            Padding::Everything => "everything after TCP-AO",
        };
        match self.omission {
            Omission::Zeroed => format!("computes the MAC with zeros instead of {octets}"),
            Omission::LeftOut { .. } => format!("leaves {octets} out of the MAC"),
        }
    }
}

impl Padding {
    /// Where the octets are among those after TCP-AO; `None` if there are none, or another variant has the same.
    fn place(self, after: &[u8]) -> Option<Range<usize>> {
        let nops = after.iter().take_while(|octet| **octet == kind::NO_OPERATION).count();
        let mut options = Options::new(after);
        if options.any(|option| option.is_err()) {
            return None;
        }
        let after_ao = 0..nops;
        let at_end = options.position()..after.len();
        let everything = 0..after.len();
        let place = match self {
            Self::AfterAo => after_ao,
            Self::AtEnd if at_end != after_ao => at_end,
            Self::Everything if nops > 0 && everything != after_ao && everything != at_end => everything,
            Self::AtEnd | Self::Everything => return None,
        };
        (!place.is_empty()).then_some(place)
    }
}

/// An option of a SYN that a device may have replaced by NOPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClearedOption {
    SackPermitted,
    WindowScale(u8),
    Mss(u16),
    /// The request for a cookie (RFC 7413 §4.1.1).
    FastOpen,
}

impl ClearedOption {
    /// Every option without contents, or with usual ones.
    fn all(sizes: &[u16]) -> impl Iterator<Item = Self> {
        let scales = (0..=MAX_WINDOW_SCALE).map(Self::WindowScale);
        let sizes = sizes.iter().copied().map(Self::Mss);
        [Self::SackPermitted].into_iter().chain(scales).chain(sizes).chain([Self::FastOpen])
    }

    /// Whether an option stands here in the usual layouts, in which MSS and window scale end on a multiple of four octets, alone or with
    /// a NOP beside them.
    const fn is_usual_at(self, offset: usize) -> bool {
        match self {
            Self::SackPermitted | Self::FastOpen => offset.is_multiple_of(2),
            Self::WindowScale(_) => offset % 4 < 2,
            Self::Mss(_) => offset.is_multiple_of(4),
        }
    }

    const fn kind(self) -> u8 {
        match self {
            Self::SackPermitted => SACK_PERMITTED,
            Self::WindowScale(_) => WINDOW_SCALE,
            Self::Mss(_) => kind::MAXIMUM_SEGMENT_SIZE,
            Self::FastOpen => kind::FAST_OPEN,
        }
    }

    /// Writes the option to the start of `octets` if only padding is there. Returns its length.
    fn write(self, octets: &mut [u8], is_padding: &[bool]) -> Option<usize> {
        let [high, low] = match self {
            Self::WindowScale(scale) => [scale, 0],
            Self::Mss(size) => size.to_be_bytes(),
            Self::SackPermitted | Self::FastOpen => [0; 2],
        };
        let length = match self {
            Self::SackPermitted | Self::FastOpen => 2,
            Self::WindowScale(_) => 3,
            Self::Mss(_) => 4,
        };
        is_padding.get(..length)?.iter().all(|is_padding| *is_padding).then_some(())?;
        octets.get_mut(..length)?.copy_from_slice(&[self.kind(), length as u8, high, low][..length]);
        Some(length)
    }
}

impl fmt::Display for ClearedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SackPermitted => f.write_str("SACK-permitted"),
            Self::WindowScale(scale) => write!(f, "window scale ({scale})"),
            Self::Mss(size) => write!(f, "MSS ({size})"),
            Self::FastOpen => f.write_str("the Fast Open option"),
        }
    }
}

/// SACK-permitted (RFC 2018 §2).
const SACK_PERMITTED: u8 = 4;
/// Window scale (RFC 7323 §2.2), and the values it may have (§2.3).
pub(super) const WINDOW_SCALE: u8 = 3;
pub(super) const MAX_WINDOW_SCALE: u8 = 14;
/// Timestamps (RFC 7323 §3.2), and the octets of the option.
pub(super) const TIMESTAMPS: u8 = 8;
const TIMESTAMPS_LENGTH: usize = 10;

/// How many options may have been replaced.
const MOST_CLEARED: usize = 3;

/// Options that were replaced by NOPs, each with its place in the options.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ClearedOptions([Option<(usize, ClearedOption)>; MOST_CLEARED]);

impl ClearedOptions {
    /// Looks for the options with which the SYN is the one that was signed. `is_signed` compares; it returns `None` to end the search.
    /// `sizes` are the values of the MSS to try, `counts` the numbers of options.
    pub(super) fn find(
        segment: &Segment<'_>,
        sizes: &[u16],
        counts: Range<usize>,
        is_signed: impl FnMut(&[u8]) -> Option<bool>,
    ) -> Option<Self> {
        let is_padding = padding(segment)?;
        let is_there =
            |option: &ClearedOption| segment.options().flatten().any(|there| there.kind == option.kind());
        let options = ClearedOption::all(sizes).filter(|option| !is_there(option)).collect();
        let tcp = segment.tcp().to_vec();
        let mut search = ClearedSearch {
            tcp,
            is_padding,
            options,
            is_several: counts.start > 1,
            chosen: Self::default(),
            is_signed,
        };
        counts.into_iter().find_map(|count| match search.place(0, 0, count)? {
            true => Some(search.chosen),
            false => None,
        })
    }

    /// The segment with the options back in their places; `None` if there is no padding.
    pub(super) fn restored(&self, segment: &Segment<'_>) -> Option<Vec<u8>> {
        let is_padding = padding(segment)?;
        let mut tcp = segment.tcp().to_vec();
        for (offset, option) in self.0.iter().flatten() {
            let octets = tcp.get_mut(TCP_HEADER_LENGTH + offset..)?;
            option.write(octets, is_padding.get(*offset..)?)?;
        }
        Some(tcp)
    }
}

impl ClearedOptions {
    pub(super) fn count(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

/// In words: `SACK-permitted and window scale (7)`.
impl fmt::Display for ClearedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().flatten().map(|(_, option)| option.to_string()).collect();
        match names.split_last() {
            Some((last, [])) => f.write_str(last),
            Some((last, before)) => write!(f, "{} and {last}", before.join(", ")),
            None => Ok(()),
        }
    }
}

struct ClearedSearch<F> {
    tcp: Vec<u8>,
    is_padding: [bool; MAX_OPTIONS_LENGTH],
    options: Vec<ClearedOption>,
    /// Whether more than one option is looked for; then only usual layouts are tried.
    is_several: bool,
    chosen: ClearedOptions,
    is_signed: F,
}

impl<F: FnMut(&[u8]) -> Option<bool>> ClearedSearch<F> {
    /// Puts `left` more options behind the first `from` octets, after those already chosen.
    fn place(&mut self, chosen: usize, from: usize, left: usize) -> Option<bool> {
        if left == 0 {
            return (self.is_signed)(&self.tcp);
        }
        for offset in from..MAX_OPTIONS_LENGTH {
            for index in 0..self.options.len() {
                let option = self.options[index];
                let mut before = self.chosen.0[..chosen].iter().flatten();
                if before.any(|(_, before)| before.kind() == option.kind())
                    || self.is_several && !option.is_usual_at(offset)
                {
                    continue;
                }
                let Some(octets) = self.tcp.get_mut(TCP_HEADER_LENGTH + offset..) else { return Some(false) };
                let were: [u8; 4] =
                    std::array::from_fn(|place| octets.get(place).copied().unwrap_or_default());
                let Some(length) = option.write(octets, &self.is_padding[offset..]) else { continue };
                self.chosen.0[chosen] = Some((offset, option));
                if self.place(chosen + 1, offset + length, left - 1)? {
                    return Some(true);
                }
                self.chosen.0[chosen] = None;
                self.tcp[TCP_HEADER_LENGTH + offset..][..length].copy_from_slice(&were[..length]);
            }
        }
        Some(false)
    }
}

/// Which octets of a SYN's options are padding; `None` if none are.
fn padding(segment: &Segment<'_>) -> Option<[bool; MAX_OPTIONS_LENGTH]> {
    let mut is_padding = [false; MAX_OPTIONS_LENGTH];
    is_padding[..segment.option_octets().len()].fill(true);
    for option in segment.options().flatten() {
        is_padding[option.offset..][..option.length()].fill(false);
    }
    (segment.flags().syn() && is_padding.contains(&true)).then_some(is_padding)
}

/// Whether the segment is a SYN with padding where options may have been.
pub(super) fn has_padding(segment: &Segment<'_>) -> bool {
    padding(segment).is_some()
}

/// Whether the segment has timestamps, or room where they may have been replaced by NOPs. No search finds what they were.
pub(super) fn may_have_other_timestamps(segment: &Segment<'_>) -> bool {
    let nops = [kind::NO_OPERATION; TIMESTAMPS_LENGTH];
    segment.options().flatten().any(|option| option.kind == TIMESTAMPS)
        || segment.option_octets().windows(nops.len()).any(|octets| octets == nops)
}

/// An option in words.
pub(super) fn option_name(kind: u8) -> Cow<'static, str> {
    match kind {
        kind::MAXIMUM_SEGMENT_SIZE => "the MSS".into(),
        WINDOW_SCALE => "the window scale".into(),
        SACK_PERMITTED => "SACK-permitted".into(),
        TIMESTAMPS => "timestamps".into(),
        kind::MULTIPATH => "Multipath TCP".into(),
        kind::FAST_OPEN => "Fast Open".into(),
        kind::AUTHENTICATION => "the ids of TCP-AO".into(),
        _ => format!("option {kind}").into(),
    }
}
