//! A segment that failed, and hypotheses tried on it.

use std::borrow::Cow;
use std::cell::Cell;
use std::net::IpAddr;
use std::ops::Range;

use wireseal_tcp_ao::option::{TCP_HEADER_LENGTH, kind};
use wireseal_tcp_ao::{
    AoOption, Endpoint, KdfContext, OptionCoverage, Segment, Sne, TrafficKey, segment_mac,
};

use super::checksum;
use super::hypothesis::{Change, Hypothesis};
use super::offload;
use crate::verify::hints::NatHint;
use crate::verify::key_table::KeyTable;
use crate::verify::report::{Place, Sender};

/// Octets of a MAC that a hypothesis has to explain; fewer match by chance.
pub(super) const LEAST_MAC: usize = 4;

/// A segment that failed.
pub(super) struct Case<'c, 'k> {
    pub(super) table: &'c KeyTable<'k>,
    pub(super) nat: &'c [NatHint],
    pub(super) place: Place,
    pub(super) sender: Sender,
    pub(super) segment: &'c Segment<'c>,
    pub(super) ao: AoOption<'c>,
    /// What its traffic key is derived for.
    pub(super) context: KdfContext,
    pub(super) sne: Sne,
    /// The MSS that the receiver of the segment has announced.
    pub(super) mss: Option<u16>,
    /// MACs computed so far.
    pub(super) tries: Cell<u64>,
}

impl Case<'_, '_> {
    /// Whether the segment verifies under a hypothesis.
    pub(super) fn verifies(&self, hypothesis: &Hypothesis) -> bool {
        let Some(key) = self.key(hypothesis) else { return false };
        let options = self.options(hypothesis);
        let tcp = self.segment.tcp();
        match hypothesis.change {
            Some(Change::Sne(form)) => {
                form.of(self.sne.0).is_some_and(|sne| self.matches(&key, Sne(sne), tcp, options))
            }
            Some(Change::Nat(hint)) => {
                let ends = self.translated(hint);
                let mut tcp = tcp.to_vec();
                tcp[..2].copy_from_slice(&ends[0].port().to_be_bytes());
                tcp[2..4].copy_from_slice(&ends[1].port().to_be_bytes());
                let addresses = (ends[0].address(), ends[1].address());
                self.matches_between(addresses, &key, self.sne, &tcp, options)
            }
            Some(Change::Checksum(form)) => {
                self.count();
                self.is_long_enough()
                    && checksum::verifies(form, &key, self.sne, self.segment, &self.ao, options)
            }
            Some(Change::Mss(mss)) => self.find_mss_among(&key, options, std::iter::once(mss)).is_some(),
            Some(Change::Merged(_)) => offload::find_part(self, &key, hypothesis, options, false).is_some(),
            // Known only from the segments that follow.
            Some(Change::Split(_)) => false,
            Some(Change::Algorithm(_) | Change::Secret(_)) | None => {
                self.matches(&key, self.sne, tcp, options)
            }
        }
    }

    /// The hypothesis's traffic key; `None` where the hypothesis makes no difference, or no key.
    pub(super) fn key(&self, hypothesis: &Hypothesis) -> Option<TrafficKey> {
        let parameters = self.table.parameters(hypothesis.candidate);
        let master_key = self.table.master_key(hypothesis.candidate);
        let mut master_key = Cow::Borrowed(master_key);
        let mut context = self.context;
        match hypothesis.change {
            Some(Change::Algorithm(algorithm)) if algorithm == parameters.algorithm => return None,
            Some(Change::Secret(form)) => {
                let secret = form.of(master_key.expose_secret(), parameters.algorithm)?;
                master_key = Cow::Owned(secret);
            }
            Some(Change::Nat(hint)) => {
                [context.source, context.destination] = self.translated(hint);
                if context == self.context {
                    return None;
                }
            }
            _ => {}
        }
        Some(TrafficKey::derive(hypothesis.algorithm(parameters), &master_key, &context))
    }

    pub(super) fn options(&self, hypothesis: &Hypothesis) -> OptionCoverage {
        match (self.table.parameters(hypothesis.candidate).options, hypothesis.flips_options) {
            (OptionCoverage::Covered, false) | (OptionCoverage::Excluded, true) => OptionCoverage::Covered,
            (OptionCoverage::Excluded, false) | (OptionCoverage::Covered, true) => OptionCoverage::Excluded,
        }
    }

    /// Whether the MAC that was received is the one of these octets between the segment's addresses.
    pub(super) fn matches(&self, key: &TrafficKey, sne: Sne, tcp: &[u8], options: OptionCoverage) -> bool {
        let addresses = (self.segment.source_address(), self.segment.destination_address());
        self.matches_between(addresses, key, sne, tcp, options)
    }

    fn matches_between(
        &self,
        (source, destination): (IpAddr, IpAddr),
        key: &TrafficKey,
        sne: Sne,
        tcp: &[u8],
        options: OptionCoverage,
    ) -> bool {
        self.count();
        let Ok(segment) = Segment::from_tcp(source, destination, tcp) else { return false };
        let is_right = |mac: wireseal_mac::Mac| mac.verify(self.ao.mac).is_ok();
        self.is_long_enough() && segment_mac(key, sne, &segment, options).is_ok_and(is_right)
    }

    fn is_long_enough(&self) -> bool {
        self.ao.mac.len() >= LEAST_MAC
    }

    fn count(&self) {
        self.tries.set(self.tries.get() + 1);
    }

    /// Source and destination on the other side of a translation, or of all that there are hints of.
    pub(super) fn translated(&self, hint: Option<usize>) -> [Endpoint; 2] {
        let hints = match hint {
            Some(hint) => self.nat.get(hint..=hint).unwrap_or_default(),
            None => self.nat,
        };
        [self.context.source, self.context.destination]
            .map(|end| hints.iter().find_map(|hint| hint.other_side(&end)).unwrap_or(end))
    }

    /// Where in the segment the MSS is that its SYN announces.
    fn mss_place(&self) -> Option<Range<usize>> {
        let option = self.segment.options().flatten().find(|option| {
            option.kind == kind::MAXIMUM_SEGMENT_SIZE && option.data.len() == size_of::<u16>()
        })?;
        let start = TCP_HEADER_LENGTH + option.offset + 2;
        Some(start..start + size_of::<u16>())
    }

    /// The MSS, among these, with which a SYN verifies.
    fn find_mss_among(
        &self,
        key: &TrafficKey,
        options: OptionCoverage,
        mut sizes: impl Iterator<Item = u16>,
    ) -> Option<u16> {
        let place = self.mss_place()?;
        let mut tcp = self.segment.tcp().to_vec();
        sizes.find(|mss| {
            tcp[place.clone()].copy_from_slice(&mss.to_be_bytes());
            self.matches(key, self.sne, &tcp, options)
        })
    }

    /// The MSS with which a SYN verifies, if a router on the way has put another one into it.
    pub(super) fn find_mss(&self, hypothesis: &Hypothesis) -> Option<u16> {
        let options = self.options(hypothesis);
        if !self.segment.flags().syn() || options == OptionCoverage::Excluded {
            return None;
        }
        let key = self.key(hypothesis)?;
        // A router makes it smaller, so the sender's own was larger: 9,216 octets are the largest frames in use, and
        // 65,535 is what loopback has, with or without room for the headers.
        let sizes = (500..=9216).chain([u16::MAX, u16::MAX - 40, u16::MAX - 60]);
        self.find_mss_among(&key, options, sizes)
    }
}
