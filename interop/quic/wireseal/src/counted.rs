//! Counts the packets that pass each QUIC key, which neither rustls nor quinn tells.
//!
//! A packet that opens under the keys of a later generation was sealed by a peer that has updated its keys, and one that was
//! sealed under them is read by the peer only if it has followed: the counts decide the rows on key updates.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::Error;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use serde::Serialize;

/// Another algorithm, with a counter in each packet key it makes.
pub(crate) struct Counted {
    inner: &'static dyn Algorithm,
    /// In the order in which rustls asked for them: by level and generation, in each the local one before the remote one.
    keys: Mutex<Vec<Arc<Counters>>>,
}

#[derive(Default)]
struct Counters {
    sealed: AtomicU64,
    opened: AtomicU64,
}

/// Packets under one pair of keys, in packets.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Packets {
    /// Sent under the local key.
    pub sealed: u64,
    /// Received, and authentic under the remote key.
    pub opened: u64,
}

impl std::ops::Add for Packets {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { sealed: self.sealed + other.sealed, opened: self.opened + other.opened }
    }
}

impl Counted {
    /// `inner`, counted, for the rest of the process: rustls wants algorithms that live for ever.
    pub(crate) fn new(inner: &'static dyn Algorithm) -> &'static Self {
        Box::leak(Box::new(Self { inner, keys: Mutex::default() }))
    }

    /// The packets under each pair of keys, in the order in which they were made.
    pub(crate) fn pairs(&self) -> Vec<Packets> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |pair: &[Arc<Counters>], counter: fn(&Counters) -> &AtomicU64| {
            pair.iter().map(|key| counter(key).load(Relaxed)).sum()
        };
        keys.chunks(2)
            .map(|pair| Packets {
                sealed: sum(pair, |key| &key.sealed),
                opened: sum(pair, |key| &key.opened),
            })
            .collect()
    }
}

impl Algorithm for Counted {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        let counters = Arc::new(Counters::default());
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counters));
        Box::new(CountedKey { inner: self.inner.packet_key(key, iv), counters })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
}

struct CountedKey {
    inner: Box<dyn PacketKey>,
    counters: Arc<Counters>,
}

impl PacketKey for CountedKey {
    fn encrypt_in_place(&self, packet_number: u64, header: &[u8], payload: &mut [u8]) -> Result<Tag, Error> {
        let tag = self.inner.encrypt_in_place(packet_number, header, payload)?;
        self.counters.sealed.fetch_add(1, Relaxed);
        Ok(tag)
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let opened = self.inner.decrypt_in_place(packet_number, header, payload)?;
        self.counters.opened.fetch_add(1, Relaxed);
        Ok(opened)
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
