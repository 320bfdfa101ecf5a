//! A socket's TCP-AO state, and how to change one part of it (`struct tcp_ao_info_opt` in `linux/tcp.h`).

use linux_raw_sys::net::tcp_ao_info_opt;
use wireseal_tcp_ao::{Counters, KeyId};

use crate::sys::zeroed;

/// A socket's TCP-AO state, apart from its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// The SendID of the current key, which this end signs with. A listening socket has none.
    pub current_key: Option<KeyId>,
    /// The RecvID of the rnext key, which this end asks the peer to sign with. A listening socket has none.
    pub rnext_key: Option<KeyId>,
    /// Whether unsigned segments are refused from peers without a key, too.
    pub required: bool,
    /// Whether hard ICMP errors are obeyed. By default they are dropped and counted (RFC 5925 §7.8).
    pub accept_icmps: bool,
    /// Segments received. A connection counts from its start; a listening socket counts those that no connection took.
    pub counters: Counters,
}

/// What to change; everything else stays as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Change {
    pub(crate) current_key: Option<KeyId>,
    pub(crate) rnext_key: Option<KeyId>,
    pub(crate) required: Option<bool>,
    pub(crate) accept_icmps: Option<bool>,
    pub(crate) counters: Option<Counters>,
}

impl Info {
    pub(crate) fn from_kernel(info: &tcp_ao_info_opt) -> Self {
        let key = |is_set: u32, id| (is_set != 0).then_some(KeyId(id));
        Self {
            // `set_current()` reads the bit field of that name; `set_set_current()` writes it.
            current_key: key(info.set_current(), info.current_key),
            rnext_key: key(info.set_rnext(), info.rnext),
            required: info.ao_required() != 0,
            accept_icmps: info.accept_icmps() != 0,
            counters: Counters {
                good: info.pkt_good,
                bad: info.pkt_bad,
                key_not_found: info.pkt_key_not_found,
                required: info.pkt_ao_required,
                dropped_icmp: info.pkt_dropped_icmp,
            },
        }
    }
}

impl Change {
    /// The struct to write to a socket with this state (`None`: no TCP-AO) so that nothing else changes.
    ///
    /// Keys and counters are written only if they are to change: between reading and writing the peer may switch keys, and segments may
    /// arrive.
    pub(crate) fn written(&self, before: Option<&Info>) -> tcp_ao_info_opt {
        let mut written: tcp_ao_info_opt = zeroed();
        let flag = |change: Option<bool>, before: Option<bool>| change.or(before).unwrap_or(false).into();
        written.set_ao_required(flag(self.required, before.map(|info| info.required)));
        written.set_accept_icmps(flag(self.accept_icmps, before.map(|info| info.accept_icmps)));
        written.set_set_current(self.current_key.is_some().into());
        written.set_set_rnext(self.rnext_key.is_some().into());
        written.set_set_counters(self.counters.is_some().into());
        written.current_key = self.current_key.map_or(0, |id| id.0);
        written.rnext = self.rnext_key.map_or(0, |id| id.0);
        if let Some(counters) = self.counters {
            written.pkt_good = counters.good;
            written.pkt_bad = counters.bad;
            written.pkt_key_not_found = counters.key_not_found;
            written.pkt_ao_required = counters.required;
            written.pkt_dropped_icmp = counters.dropped_icmp;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::octets;

    const COUNTERS: Counters = Counters { good: 1, bad: 2, key_not_found: 3, required: 4, dropped_icmp: 5 };

    #[test]
    fn ao_41_changing_one_thing_writes_the_others_as_they_were() {
        let before = Info {
            current_key: Some(KeyId(1)),
            rnext_key: Some(KeyId(2)),
            required: true,
            accept_icmps: true,
            counters: Counters { good: 9, ..Counters::default() },
        };
        let none = Change::default();
        // Neither the other key nor a counter is written.
        for (change, flags, ids, counters) in [
            (Change { current_key: Some(KeyId(7)), ..none }, [1, 0, 1, 1, 0], [7, 0], [0; 5]),
            (Change { rnext_key: Some(KeyId(8)), ..none }, [0, 1, 1, 1, 0], [0, 8], [0; 5]),
            (Change { required: Some(false), ..none }, [0, 0, 0, 1, 0], [0, 0], [0; 5]),
            (Change { accept_icmps: Some(false), ..none }, [0, 0, 1, 0, 0], [0, 0], [0; 5]),
            (Change { counters: Some(COUNTERS), ..none }, [0, 0, 1, 1, 1], [0, 0], [1, 2, 3, 4, 5]),
        ] {
            let info = change.written(Some(&before));
            let [current, rnext] = [info.set_current(), info.set_rnext()];
            let written = [current, rnext, info.ao_required(), info.accept_icmps(), info.set_counters()];
            assert_eq!((written, [info.current_key, info.rnext]), (flags, ids), "{change:?}");
            assert_eq!(
                [
                    info.pkt_good,
                    info.pkt_bad,
                    info.pkt_key_not_found,
                    info.pkt_ao_required,
                    info.pkt_dropped_icmp
                ],
                counters
            );
        }
        assert_eq!(octets(&Change::default().written(None)), [0; 48]);
    }

    #[test]
    fn ao_41_what_is_read_is_what_the_kernel_said() {
        let mut kernel: tcp_ao_info_opt = zeroed();
        kernel.set_set_current(1);
        kernel.set_ao_required(1);
        (kernel.current_key, kernel.rnext) = (5, 6);
        let counters = Change { counters: Some(COUNTERS), ..Change::default() }.written(None);
        kernel.pkt_dropped_icmp = counters.pkt_dropped_icmp;
        let info = Info::from_kernel(&kernel);
        assert_eq!((info.current_key, info.rnext_key), (Some(KeyId(5)), None));
        assert_eq!((info.required, info.accept_icmps, info.counters.dropped_icmp), (true, false, 5));
        assert_eq!(Info::from_kernel(&counters).counters, COUNTERS);
    }
}
