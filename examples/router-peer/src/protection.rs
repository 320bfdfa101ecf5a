//! What stands between the TCP stack and the link: Wireseal, which signs what goes out and verifies what comes in.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::sleep;
use tracing::{debug, error, info, warn};
use wireseal_smoltcp::{AuthenticatedDevice, Direction};
use wireseal_tcp_ao::key_chain::{Key, KeyChain, Timestamp};
use wireseal_tcp_ao::shim::{Refusal, ShimSlot};
use wireseal_tcp_ao::{ConnectionIdentifier, MKTS_PER_PEER, Mkt, MktSet, Peer, PeerError};

use crate::link::LinkDevice;
use crate::stack::Stack;

/// The device under every stack.
pub type Protected = AuthenticatedDevice<LinkDevice, Vec<Peer>, Vec<ShimSlot>>;

/// Connections that a device knows for each of its peers: the live one, ended ones, and handshakes.
const CONNECTIONS_PER_PEER: usize = 8;
/// Longest wait before the clock is looked at again, so that it may be set while keys wait for their time.
const CLOCK_CHECK: Duration = Duration::from_secs(30);
/// How long ahead of its end a key chain is complained about, in seconds.
const EXPIRY_WARNING: u32 = 7 * 24 * 3600;

/// Protects the connections with `peers` on a link; all others pass unprotected.
///
/// # Errors
/// [`PeerError`] when two of the peers overlap and share key ids.
pub fn protect(link: LinkDevice, peers: Vec<Peer>) -> Result<Protected, PeerError> {
    let table = std::iter::repeat_with(ShimSlot::default).take(peers.len() * CONNECTIONS_PER_PEER).collect();
    Ok(AuthenticatedDevice::new(link, peers, table)?.with_observer(log_refusal))
}

/// All connections between two addresses, whichever end opens them.
#[must_use]
pub fn peer(local: IpAddr, remote: IpAddr, mkts: MktSet<MKTS_PER_PEER>) -> Peer {
    Peer { connections: ConnectionIdentifier::between(local.into(), remote.into()), mkts }
}

fn log_refusal(direction: Direction, refusal: &Refusal) {
    debug!(?direction, reason = %refusal, "packet dropped");
}

/// The present moment, in whole seconds.
#[must_use]
pub fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_seconds(i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX))
}

/// The chain of the other end: what is sent with here is accepted there.
#[must_use]
pub fn mirrored(chain: &KeyChain) -> KeyChain {
    let keys = chain.keys().iter().map(|key| {
        let (mkt, parameters) = (key.mkt(), key.mkt().parameters());
        let mirrored = Mkt::with_short_master_key(
            mkt.recv_id(),
            mkt.send_id(),
            parameters.algorithm,
            mkt.master_key().clone(),
        );
        mirrored
            .with_mac_length(parameters.mac_length())
            .map(|mkt| Key::new(key.key_id(), mkt.with_options(parameters.options)))
            .ok()
            .and_then(|mirrored| mirrored.with_lifetimes(*key.send_lifetime(), *key.accept_lifetime()).ok())
            .expect("what one end may use, the other may")
    });
    KeyChain::new(chain.name(), keys.collect())
        .and_then(|mirrored| mirrored.with_accept_tolerance(chain.accept_tolerance()))
        .expect("ids that differ at one end differ at the other")
}

/// Gives the peer at `index` the keys that its chain has at `at`: its live connections go on with them.
pub fn apply(stack: &Stack<Protected>, index: usize, chain: &KeyChain, at: Timestamp) {
    if let Err(error) = stack.with_device(|device| device.shim_mut().set_mkts(index, chain.mkts(at))) {
        error!(chain = chain.name(), %error, "keys unchanged");
    }
}

/// Rolls the keys of the peer at `index` over as the lifetimes of its chain begin and end, for ever.
pub async fn follow_lifetimes(stack: Stack<Protected>, index: usize, chain: KeyChain) {
    let mut log = KeyLog::default();
    loop {
        let at = now();
        if log.changed(&chain, at) {
            apply(&stack, index, &chain, at);
        }
        sleep(until(chain.next_change(at))).await;
    }
}

/// How long to wait for a change of keys: the clock is looked at again before long, as it may be set.
#[must_use]
pub fn until(change: Option<Timestamp>) -> Duration {
    change.map_or(CLOCK_CHECK, |change| {
        let seconds = change.unix_seconds().saturating_sub(now().unix_seconds());
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).min(CLOCK_CHECK)
    })
}

/// Logs which keys of a chain are in use, whenever they are others than before.
#[derive(Debug, Default)]
pub struct KeyLog {
    last: Option<(usize, Vec<u64>)>,
}

impl KeyLog {
    /// Whether they are. The first time they always are.
    pub fn changed(&mut self, chain: &KeyChain, at: Timestamp) -> bool {
        let active = chain.at(at);
        let keys = Some((active.sendable().count(), active.iter().map(Key::key_id).collect()));
        let changed = self.last != keys;
        if changed {
            self.last = keys;
            log_keys(chain, at);
        }
        changed
    }
}

fn log_keys(chain: &KeyChain, at: Timestamp) {
    let active = chain.at(at);
    let acceptable: Vec<u8> = active.iter().map(|key| key.mkt().send_id().0).collect();
    match active.preferred() {
        None => warn!(chain = chain.name(), "no key may be sent with: nothing gets through"),
        Some(key) => {
            let (mkt, algorithm) = (key.mkt(), key.mkt().parameters().algorithm);
            info!(chain = chain.name(), preferred = %mkt.send_id(), %algorithm, ?acceptable, "keys in use");
        }
    }
    if chain.is_expired(at.later_by(EXPIRY_WARNING)) {
        warn!(chain = chain.name(), "the last key's send lifetime ends within a week");
    }
}
