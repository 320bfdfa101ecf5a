//! The keys and packet numbers of one sender.

use wireseal_quic::{Keys, ReceiveSpace, StatelessResetToken};

use super::one_rtt::OneRttKeys;

pub(super) struct End {
    pub(super) initial: ReceiveSpace,
    /// 0-RTT packets; 1-RTT packets continue their numbers.
    pub(super) early: Level,
    pub(super) handshake: Level,
    pub(super) one_rtt_keys: Option<Box<OneRttKeys>>,
    /// The tokens of its stateless resets.
    pub(super) reset_tokens: Vec<StatelessResetToken>,
}

/// Packets whose key comes from a secret in the log and never changes.
pub(super) struct Level {
    pub(super) numbers: ReceiveSpace,
    /// Boxed, because keys have tables of kilobytes.
    pub(super) keys: Option<Box<Keys>>,
}

impl Level {
    fn new() -> Self {
        Self { numbers: ReceiveSpace::without_window(), keys: None }
    }
}

impl End {
    pub(super) fn new() -> Self {
        Self {
            // Without a window, duplicates open too: the capture may have recorded a packet on two interfaces.
            initial: ReceiveSpace::without_window(),
            early: Level::new(),
            handshake: Level::new(),
            one_rtt_keys: None,
            reset_tokens: Vec::new(),
        }
    }
}
