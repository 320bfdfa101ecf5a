//! A connection as it travels between two kernels, or between a kernel and the driver.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wireseal_linux::{TcpState, Window, WindowScale};
use wireseal_tcp_ao::{ConnectionState, Counters, Endpoint, HeardKeys, Isn, KeyId, SeqNum, Sne, SocketPair};

/// `wireseal_linux::Exported`, as plain values. From `send_next` on they are those of `wireseal_linux::TcpState`.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub local_isn: u32,
    pub remote_isn: u32,
    /// The SNE of `send_sequence`.
    pub send_sne: u32,
    /// The first sequence number that is not acknowledged.
    pub send_sequence: u32,
    /// The SNE of `receive_sequence`.
    pub receive_sne: u32,
    pub receive_sequence: u32,
    pub current_key: u8,
    pub rnext_key: u8,
    /// What was counted: good, bad, key not found, required, dropped ICMPs.
    pub counters: [u64; 5],
    pub required: bool,
    pub accept_icmps: bool,
    pub send_next: u32,
    pub send_queue: Vec<u8>,
    /// How many at its end were never sent.
    pub unsent: usize,
    pub receive_next: u32,
    pub receive_queue: Vec<u8>,
    pub mss: u32,
    /// Shifts of the windows, the peer's and this end's.
    pub window_scale: Option<(u8, u8)>,
    pub sack: bool,
    /// The timestamp to go on from.
    pub timestamp: Option<u32>,
    /// The windows: send, its maximum, its update; receive, its update.
    pub window: [u32; 5],
}

impl From<wireseal_linux::Exported> for Exported {
    fn from(exported: wireseal_linux::Exported) -> Self {
        let wireseal_linux::Exported { tcp, authentication: state, required, accept_icmps } = exported;
        let Counters { good, bad, key_not_found, required: ao_required, dropped_icmp } = state.counters;
        let window = tcp.window;
        Self {
            local: SocketAddr::new(state.pair.local.address(), state.pair.local.port()),
            remote: SocketAddr::new(state.pair.remote.address(), state.pair.remote.port()),
            local_isn: state.local_isn.0,
            remote_isn: state.remote_isn.0,
            send_sne: state.send_sne.0,
            send_sequence: state.send_sequence.0,
            receive_sne: state.receive_sne.0,
            receive_sequence: state.receive_sequence.0,
            current_key: state.current_key.0,
            rnext_key: state.rnext_key.0,
            counters: [good, bad, key_not_found, ao_required, dropped_icmp],
            required,
            accept_icmps,
            send_next: tcp.send_next.0,
            send_queue: tcp.send_queue,
            unsent: tcp.unsent,
            receive_next: tcp.receive_next.0,
            receive_queue: tcp.receive_queue,
            mss: tcp.mss,
            window_scale: tcp.window_scale.map(|shifts| (shifts.send, shifts.receive)),
            sack: tcp.sack,
            timestamp: tcp.timestamp,
            window: [
                window.send,
                window.send_max,
                window.send_update.0,
                window.receive,
                window.receive_update.0,
            ],
        }
    }
}

impl From<Exported> for wireseal_linux::Exported {
    fn from(exported: Exported) -> Self {
        let authentication = exported.authentication();
        let [send, send_max, send_update, receive, receive_update] = exported.window;
        let tcp = TcpState {
            send_next: SeqNum(exported.send_next),
            send_queue: exported.send_queue,
            unsent: exported.unsent,
            receive_next: SeqNum(exported.receive_next),
            receive_queue: exported.receive_queue,
            mss: exported.mss,
            window_scale: exported.window_scale.map(|(send, receive)| WindowScale { send, receive }),
            sack: exported.sack,
            timestamp: exported.timestamp,
            window: Window {
                send,
                send_max,
                send_update: SeqNum(send_update),
                receive,
                receive_update: SeqNum(receive_update),
            },
        };
        Self { tcp, authentication, required: exported.required, accept_icmps: exported.accept_icmps }
    }
}

impl Exported {
    /// What TCP-AO knows beside the keys.
    #[must_use]
    pub fn authentication(&self) -> ConnectionState {
        let [good, bad, key_not_found, required, dropped_icmp] = self.counters;
        ConnectionState {
            pair: SocketPair { local: Endpoint::from(self.local), remote: Endpoint::from(self.remote) },
            local_isn: Isn(self.local_isn),
            remote_isn: Isn(self.remote_isn),
            send_sne: Sne(self.send_sne),
            send_sequence: SeqNum(self.send_sequence),
            receive_sne: Sne(self.receive_sne),
            receive_sequence: SeqNum(self.receive_sequence),
            acknowledged: SeqNum(self.send_sequence),
            heard: HeardKeys::ALL,
            current_key: KeyId(self.current_key),
            rnext_key: KeyId(self.rnext_key),
            counters: Counters { good, bad, key_not_found, required, dropped_icmp },
        }
    }
}
