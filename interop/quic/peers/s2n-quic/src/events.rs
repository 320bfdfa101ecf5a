//! s2n-quic's events about suites, key updates and Retry.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peer_program::Seen;
use s2n_quic::provider::event::events::{
    CipherSuite, EndpointPacketSent, KeyType, KeyUpdate, PacketHeader, PacketReceived,
};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber, events::EndpointMeta};

/// What s2n-quic reported. It does not say which end started a key update, so all are counted as the peer's: it starts none of its own
/// below 2^23 packets.
#[derive(Clone, Default, Debug)]
pub struct Events(Arc<Mutex<Seen>>);

impl Events {
    /// So far.
    pub fn seen(&self) -> Seen {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for Events {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo<'_>) {}

    fn on_key_update(&mut self, (): &mut (), _: &ConnectionMeta, event: &KeyUpdate) {
        if let KeyType::OneRtt { generation, .. } = event.key_type {
            let mut seen = self.lock();
            seen.updates_remote = usize::from(generation);
            seen.suite = match event.cipher_suite {
                CipherSuite::TLS_AES_128_GCM_SHA256 { .. } => "TLS_AES_128_GCM_SHA256",
                CipherSuite::TLS_AES_256_GCM_SHA384 { .. } => "TLS_AES_256_GCM_SHA384",
                CipherSuite::TLS_CHACHA20_POLY1305_SHA256 { .. } => "TLS_CHACHA20_POLY1305_SHA256",
                _ => "unknown",
            }
            .into();
        }
    }

    fn on_packet_received(&mut self, (): &mut (), _: &ConnectionMeta, event: &PacketReceived) {
        self.lock().retry |= matches!(event.packet_header, PacketHeader::Retry { .. });
    }

    fn on_endpoint_packet_sent(&mut self, _: &EndpointMeta, event: &EndpointPacketSent) {
        self.lock().retry |= matches!(event.packet_header, PacketHeader::Retry { .. });
    }
}
