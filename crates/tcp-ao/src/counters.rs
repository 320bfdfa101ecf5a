//! Counters of received segments by verdict, with the meaning that Linux gives them (`struct tcp_ao_info_opt`, `/proc/net/netstat`), and of
//! packets that a shim refused, by reason.

use crate::error::{Refusal, VerifyError};

/// Received segments by verdict. The counters saturate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// Verified (Linux's `pkt_good`, TCPAOGood).
    pub good: u64,
    /// A wrong MAC, a MAC of the wrong length, malformed options, or a segment that does not fit the connection's
    /// state (`pkt_bad`, TCPAOBad).
    pub bad: u64,
    /// A KeyID that no MKT has (`pkt_key_not_found`, TCPAOKeyNotFound).
    pub key_not_found: u64,
    /// Unsigned although AO is required (`pkt_ao_required`, TCPAORequired).
    pub required: u64,
    /// ICMP errors that were ignored (`pkt_dropped_icmp`, TCPAODroppedIcmps).
    pub dropped_icmp: u64,
}

impl Counters {
    /// All zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { good: 0, bad: 0, key_not_found: 0, required: 0, dropped_icmp: 0 }
    }

    /// Counts a verdict. [`VerifyError::OtherConnection`] is a caller error and is not counted.
    #[inline]
    pub(crate) fn count<T>(&mut self, verdict: &Result<T, VerifyError>) {
        let counter = match verdict {
            Ok(_) => &mut self.good,
            Err(VerifyError::Unsigned) => &mut self.required,
            Err(VerifyError::UnknownKeyId(_)) => &mut self.key_not_found,
            Err(
                VerifyError::Options(_)
                | VerifyError::MacLength { .. }
                | VerifyError::BadMac { .. }
                | VerifyError::State,
            ) => &mut self.bad,
            Err(VerifyError::OtherConnection) => return,
        };
        *counter = counter.saturating_add(1);
    }

    /// Counts an ICMP error that was ignored (RFC 5925 §7.8).
    pub(crate) fn count_dropped_icmp(&mut self) {
        self.dropped_icmp = self.dropped_icmp.saturating_add(1);
    }
}

/// Packets by [`Refusal`], one counter for each variant. The counters saturate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[expect(missing_docs, reason = "the variants of `Refusal` say what each means")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RefusalCounters {
    pub malformed: u64,
    pub checksum: u64,
    pub verify: u64,
    pub connection_exists: u64,
    pub no_connection: u64,
    pub source_routed: u64,
    pub no_peer: u64,
    pub no_key: u64,
    pub table_full: u64,
    pub icmp: u64,
    pub sign: u64,
    pub no_room: u64,
    pub already_signed: u64,
    pub too_long: u64,
}

impl RefusalCounters {
    /// The sum of all counters.
    #[must_use]
    pub fn total(&self) -> u64 {
        let packets = [self.malformed, self.checksum, self.source_routed, self.icmp, self.already_signed];
        let segments = [self.verify, self.connection_exists, self.no_connection, self.table_full, self.sign];
        let peers = [self.no_peer, self.no_key, self.no_room, self.too_long];
        let all = packets.into_iter().chain(segments).chain(peers);
        all.fold(0, u64::saturating_add)
    }

    pub(crate) const fn count(&mut self, refusal: &Refusal) {
        let counter = match refusal {
            Refusal::Malformed(_) => &mut self.malformed,
            Refusal::Checksum => &mut self.checksum,
            Refusal::Verify(_) => &mut self.verify,
            Refusal::ConnectionExists => &mut self.connection_exists,
            Refusal::NoConnection => &mut self.no_connection,
            Refusal::SourceRouted => &mut self.source_routed,
            Refusal::NoPeer => &mut self.no_peer,
            Refusal::NoKey => &mut self.no_key,
            Refusal::TableFull => &mut self.table_full,
            Refusal::Icmp => &mut self.icmp,
            Refusal::Sign(_) => &mut self.sign,
            Refusal::NoRoom { .. } => &mut self.no_room,
            Refusal::AlreadySigned => &mut self.already_signed,
            Refusal::TooLong { .. } => &mut self.too_long,
        };
        *counter = counter.saturating_add(1);
    }
}
