//! A socket's TCP-AO state, and how to change one thing of it (`struct tcp_ao_info_opt` in `linux/tcp.h`).

use wireseal_tcp_ao::{Counters, KeyId};

use crate::layout::InfoOpt;

/// A socket's TCP-AO state apart from its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// The SendID of the current key: what this end signs with. A listening socket has none.
    pub current_key: Option<KeyId>,
    /// The RecvID of the rnext key: what this end asks the peer to sign with. A listening socket has none.
    pub rnext_key: Option<KeyId>,
    /// Whether unsigned segments are refused even from peers that no key is for.
    pub required: bool,
    /// Whether hard ICMP errors are obeyed; by default they are dropped and counted (RFC 5925 §7.8).
    pub accept_icmps: bool,
    /// What was received. A connection counts from its own start, a listening socket what no connection took.
    pub counters: Counters,
}

/// One thing to change; the rest stays as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Change {
    pub(crate) current_key: Option<KeyId>,
    pub(crate) rnext_key: Option<KeyId>,
    pub(crate) required: Option<bool>,
    pub(crate) accept_icmps: Option<bool>,
    pub(crate) counters: Option<Counters>,
}

impl Info {
    /// A socket that never had anything of TCP-AO.
    pub(crate) const NONE: Self = Self {
        current_key: None,
        rnext_key: None,
        required: false,
        accept_icmps: false,
        counters: Counters { good: 0, bad: 0, key_not_found: 0, required: 0, dropped_icmp: 0 },
    };

    pub(crate) fn from_kernel(info: &InfoOpt) -> Self {
        let key = |flag, id| (info.bits & flag != 0).then_some(KeyId(id));
        Self {
            current_key: key(InfoOpt::SET_CURRENT, info.current_key),
            rnext_key: key(InfoOpt::SET_RNEXT, info.rnext),
            required: info.bits & InfoOpt::AO_REQUIRED != 0,
            accept_icmps: info.bits & InfoOpt::ACCEPT_ICMPS != 0,
            counters: Counters {
                good: info.pkt_good,
                bad: info.pkt_bad,
                key_not_found: info.pkt_key_not_found,
                required: info.pkt_ao_required,
                dropped_icmp: info.pkt_dropped_icmp,
            },
        }
    }

    /// What to write so that `change` is all that changes. Keys and counters are left to the kernel unless they are to
    /// change: the peer may switch keys, and segments arrive, between reading and writing.
    pub(crate) fn changed(&self, change: &Change) -> InfoOpt {
        let mut written = InfoOpt::ZERO;
        let mut flag = |condition, bit| written.bits |= if condition { bit } else { 0 };
        flag(change.required.unwrap_or(self.required), InfoOpt::AO_REQUIRED);
        flag(change.accept_icmps.unwrap_or(self.accept_icmps), InfoOpt::ACCEPT_ICMPS);
        flag(change.current_key.is_some(), InfoOpt::SET_CURRENT);
        flag(change.rnext_key.is_some(), InfoOpt::SET_RNEXT);
        flag(change.counters.is_some(), InfoOpt::SET_COUNTERS);
        written.current_key = change.current_key.map_or(0, |id| id.0);
        written.rnext = change.rnext_key.map_or(0, |id| id.0);
        if let Some(counters) = change.counters {
            written.pkt_good = counters.good;
            written.pkt_bad = counters.bad;
            written.pkt_key_not_found = counters.key_not_found;
            written.pkt_ao_required = counters.required;
            written.pkt_dropped_icmp = counters.dropped_icmp;
        }
        written
    }
}
