//! The keys of TCP-AO, as the lifetimes of a key chain begin and end.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;
use tracing::{error, info, warn};
use wireseal_keys::{Key, KeyChain, Timestamp};
use wireseal_tcp_ao::{ConnectionIdentifier, Counters, MKTS_PER_PEER, Mkt, MktError, MktSet, Peer};

use crate::stack::Stack;

/// Longest wait between two looks at the clock, which may be set meanwhile.
const CLOCK_CHECK: Duration = Duration::from_secs(30);
/// How often refused segments are logged: anybody can send any number of them.
const REFUSAL_CHECK: Duration = Duration::from_secs(1);
/// How early the log warns that a key chain ends, in seconds.
const EXPIRY_WARNING: u32 = 7 * 24 * 3600;

/// All connections between two addresses, whichever end opens them.
pub fn peer(local: IpAddr, remote: IpAddr, mkts: MktSet<MKTS_PER_PEER>) -> Peer {
    Peer { connections: ConnectionIdentifier::between(local.into(), remote.into()), mkts }
}

/// The other end's view of a key: SendID and RecvID are swapped.
pub fn mirrored(mkt: &Mkt) -> Result<Mkt, MktError> {
    let (parameters, master_key) = (mkt.parameters(), mkt.master_key().clone());
    let mirrored =
        Mkt::with_short_master_key(mkt.recv_id(), mkt.send_id(), parameters.algorithm, master_key)?;
    Ok(mirrored.with_mac_length(parameters.mac_length())?.with_options(parameters.options))
}

/// The key chain of the other end.
pub fn mirrored_chain(chain: &KeyChain) -> Result<KeyChain> {
    let mirrored = chain.keys().iter().map(|key| {
        let mirrored = Key::new(key.key_id(), mirrored(key.mkt())?);
        anyhow::Ok(mirrored.with_lifetimes(*key.send_lifetime(), *key.accept_lifetime())?)
    });
    let mirrored = KeyChain::new(chain.name(), mirrored.collect::<Result<_>>()?)?;
    Ok(mirrored.with_accept_tolerance(chain.accept_tolerance())?)
}

/// Gives the peer at `index` of a stack the keys that its chain has at `at`; live connections use them, too.
pub fn apply(stack: &Stack, index: usize, chain: &KeyChain, at: Timestamp) {
    if let Err(error) = stack.with_device(|device| chain.apply_to(device.shim_mut(), index, at)) {
        error!(chain = chain.name(), %error, "keys unchanged");
    }
}

/// Logs refused segments, whenever there are more of them.
#[derive(Debug, Default)]
pub struct RefusalLog([u64; 3]);

impl RefusalLog {
    /// Logs the counters if more segments were refused since the last call.
    pub fn look(&mut self, counters: Option<Counters>) {
        let Some(Counters { bad, key_not_found, required, .. }) = counters else { return };
        if self.0 != [bad, key_not_found, required] {
            self.0 = [bad, key_not_found, required];
            warn!(bad, key_not_found, required, "segments were refused: wrongly signed or unsigned");
        }
    }
}

/// Logs at most once a second that segments of the peer at `index` were refused, with the counters.
pub async fn log_refusals(stack: Stack, index: usize) {
    let mut log = RefusalLog::default();
    loop {
        log.look(stack.with_device(|device| device.shim().peer_counters(index).copied()));
        sleep(REFUSAL_CHECK).await;
    }
}

/// Rolls the keys of the peer at `index` over as the lifetimes of its chain begin and end.
pub async fn follow_lifetimes(stack: Stack, index: usize, chain: KeyChain) {
    let mut log = KeyChangeLog::default();
    loop {
        let at = Timestamp::now();
        if log.has_changed(&chain, at) {
            apply(&stack, index, &chain, at);
        }
        let until_change = chain.next_change(at).map_or(CLOCK_CHECK, |change| {
            let seconds = change.unix_seconds().saturating_sub(Timestamp::now().unix_seconds());
            Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
        });
        sleep(until_change.min(CLOCK_CHECK)).await;
    }
}

/// Logs which keys of a chain are in use, whenever they change.
#[derive(Debug, Default)]
pub struct KeyChangeLog(Option<(usize, Vec<u64>)>);

impl KeyChangeLog {
    /// Whether the keys in use have changed since the last call; true at the first.
    pub fn has_changed(&mut self, chain: &KeyChain, at: Timestamp) -> bool {
        let active = chain.at(at);
        let keys = Some((active.sendable().count(), active.iter().map(Key::key_id).collect()));
        if self.0 == keys {
            return false;
        }
        self.0 = keys;
        let acceptable: Vec<u8> = active.iter().map(|key| key.mkt().send_id().0).collect();
        match active.preferred().map(Key::mkt) {
            None => warn!(chain = chain.name(), "no key may be sent with: nothing gets through"),
            Some(mkt) => {
                let (preferred, algorithm) = (mkt.send_id(), mkt.parameters().algorithm);
                info!(chain = chain.name(), %preferred, %algorithm, ?acceptable, "keys in use");
            }
        }
        if chain.is_expired(at.later_by(EXPIRY_WARNING)) {
            warn!(chain = chain.name(), "the last key's send lifetime ends within a week");
        }
        true
    }
}
