//! Counts and times the work of the keys of quinn's connections, Wireseal's or others (feature `counted`): for tests and measurements,
//! since quinn reports neither key updates nor packets by key.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

/// The work of one packet key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyUse {
    /// Packets sealed.
    pub sealed: u64,
    /// Packets opened.
    pub opened: u64,
    /// Packets that were not authentic.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Counters {
    sealed: AtomicU64,
    opened: AtomicU64,
    refused: AtomicU64,
}

/// The keys of all connections of a configuration, and their work, except for keys of 0-RTT packets.
#[derive(Debug, Default)]
pub struct CountedKeys {
    initial: Mutex<Vec<Arc<Counters>>>,
    others: Mutex<Vec<Arc<Counters>>>,
    calls: AtomicU64,
    nanoseconds: AtomicU64,
}

impl CountedKeys {
    /// The packet keys of Initial packets in the order in which they were created, each time the local key before the remote one.
    #[must_use]
    pub fn initial_keys(&self) -> Vec<KeyUse> {
        uses(&self.initial)
    }

    /// All other packet keys in the same order: Handshake first, then each phase of 1-RTT, used or not.
    #[must_use]
    pub fn packet_keys(&self) -> Vec<KeyUse> {
        uses(&self.others)
    }

    /// The time that all calls of packet and header keys have taken so far, without the time for reading the clock.
    #[must_use]
    pub fn time(&self) -> Duration {
        let clock = self.calls.load(Ordering::Relaxed).saturating_mul(clock());
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed).saturating_sub(clock))
    }

    fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        self.nanoseconds.fetch_add(nanoseconds(start), Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
        result
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The nanoseconds between two consecutive clock readings: the median of many, measured once.
fn clock() -> u64 {
    static CLOCK: OnceLock<u64> = OnceLock::new();

    *CLOCK.get_or_init(|| {
        let mut apart: Vec<_> = (0..10_001).map(|_| nanoseconds(Instant::now())).collect();
        apart.sort_unstable();
        apart[apart.len() / 2]
    })
}

fn uses(keys: &Mutex<Vec<Arc<Counters>>>) -> Vec<KeyUse> {
    let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |counters: &Arc<Counters>| KeyUse {
        sealed: counters.sealed.load(Ordering::Relaxed),
        opened: counters.opened.load(Ordering::Relaxed),
        refused: counters.refused.load(Ordering::Relaxed),
    };
    keys.iter().map(of).collect()
}

/// A client's configuration that counts every key, and the counts.
pub fn counted_client(config: Arc<dyn ClientConfig>) -> (Arc<dyn ClientConfig>, Arc<CountedKeys>) {
    let keys = Arc::<CountedKeys>::default();
    (Arc::new(Counted { inner: config, keys: Arc::clone(&keys) }), keys)
}

/// A server's configuration that counts every key, and the counts.
pub fn counted_server(config: Arc<dyn ServerConfig>) -> (Arc<dyn ServerConfig>, Arc<CountedKeys>) {
    let keys = Arc::<CountedKeys>::default();
    (Arc::new(Counted { inner: config, keys: Arc::clone(&keys) }), keys)
}

/// A configuration, session or header key, with the counters for its calls.
struct Counted<T> {
    inner: T,
    keys: Arc<CountedKeys>,
}

struct CountedPacketKey {
    inner: Box<dyn PacketKey>,
    keys: Arc<CountedKeys>,
    counters: Arc<Counters>,
}

impl CountedKeys {
    fn header(self: &Arc<Self>, inner: Box<dyn HeaderKey>) -> Box<dyn HeaderKey> {
        Box::new(Counted { inner, keys: Arc::clone(self) })
    }

    fn pair(
        self: &Arc<Self>,
        pair: KeyPair<Box<dyn PacketKey>>,
        into: &Mutex<Vec<Arc<Counters>>>,
    ) -> KeyPair<Box<dyn PacketKey>> {
        let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
        let mut packet = |inner| -> Box<dyn PacketKey> {
            let counters = Arc::<Counters>::default();
            into.push(Arc::clone(&counters));
            Box::new(CountedPacketKey { inner, keys: Arc::clone(self), counters })
        };
        KeyPair { local: packet(pair.local), remote: packet(pair.remote) }
    }

    fn all(self: &Arc<Self>, keys: Keys, into: &Mutex<Vec<Arc<Counters>>>) -> Keys {
        let KeyPair { local, remote } = keys.header;
        Keys {
            header: KeyPair { local: self.header(local), remote: self.header(remote) },
            packet: self.pair(keys.packet, into),
        }
    }
}

impl ClientConfig for Counted<Arc<dyn ClientConfig>> {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = Arc::clone(&self.inner).start_session(version, server_name, parameters)?;
        Ok(Box::new(Counted { inner, keys: Arc::clone(&self.keys) }))
    }
}

impl ServerConfig for Counted<Arc<dyn ServerConfig>> {
    fn initial_keys(&self, version: u32, destination: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(self.keys.all(self.inner.initial_keys(version, destination)?, &self.keys.initial))
    }

    fn retry_tag(&self, version: u32, original_destination: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, original_destination, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let inner = Arc::clone(&self.inner).start_session(version, parameters);
        Box::new(Counted { inner, keys: Arc::clone(&self.keys) })
    }
}

impl Session for Counted<Box<dyn Session>> {
    fn initial_keys(&self, destination: &ConnectionId, side: Side) -> Keys {
        self.keys.all(self.inner.initial_keys(destination, side), &self.keys.initial)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, messages: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(messages)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, messages: &mut Vec<u8>) -> Option<Keys> {
        Some(self.keys.all(self.inner.write_handshake(messages)?, &self.keys.others))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(self.keys.pair(self.inner.next_1rtt_keys()?, &self.keys.others))
    }

    fn is_valid_retry(&self, original_destination: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(original_destination, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

impl PacketKey for CountedPacketKey {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_length: usize) {
        self.keys.timed(|| self.inner.encrypt(number, packet, header_length));
        self.counters.sealed.fetch_add(1, Ordering::Relaxed);
    }

    fn decrypt(&self, number: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let opened = self.keys.timed(|| self.inner.decrypt(number, header, payload));
        let counter = if opened.is_ok() { &self.counters.opened } else { &self.counters.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        opened
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}

impl HeaderKey for Counted<Box<dyn HeaderKey>> {
    fn decrypt(&self, number_offset: usize, packet: &mut [u8]) {
        self.keys.timed(|| self.inner.decrypt(number_offset, packet));
    }

    fn encrypt(&self, number_offset: usize, packet: &mut [u8]) {
        self.keys.timed(|| self.inner.encrypt(number_offset, packet));
    }

    fn sample_size(&self) -> usize {
        self.inner.sample_size()
    }
}

impl<T> fmt::Debug for Counted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("keys", &self.keys).finish_non_exhaustive()
    }
}
