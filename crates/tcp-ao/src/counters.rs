//! Counters with the meaning that Linux gives them (`struct tcp_ao_info_opt`, `/proc/net/netstat`).

use crate::error::VerifyError;

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
    pub fn count<T>(&mut self, verdict: &Result<T, VerifyError>) {
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
    pub fn count_dropped_icmp(&mut self) {
        self.dropped_icmp = self.dropped_icmp.saturating_add(1);
    }
}
