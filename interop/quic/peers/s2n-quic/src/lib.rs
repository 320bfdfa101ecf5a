//! What two programs around s2n-quic share, whatever its TLS: the echo, what its events say, and Retry on demand.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peer_program::{Failure, Seen};
use s2n_quic::client::Connect;
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::event::events::{
    CipherSuite, EndpointMeta, EndpointPacketSent, KeyType, KeyUpdate, PacketHeader, PacketReceived,
};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber};
use s2n_quic::{Client, Connection, Server};

/// Connects to `address`, sends `payload`, and returns the echo.
pub async fn exchange(mut client: Client, address: SocketAddr, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let mut connection = client.connect(Connect::new(address).with_server_name("localhost")).await?;
    let (mut receive, mut send) = connection.open_bidirectional_stream().await?.split();
    let sending = async {
        send.send(payload.into()).await?;
        send.finish()?;
        Ok::<(), Failure>(())
    };
    let receiving = async {
        let mut received = Vec::new();
        while let Some(piece) = receive.receive().await? {
            received.extend_from_slice(&piece);
        }
        Ok(received)
    };
    let ((), received) = tokio::try_join!(sending, receiving)?;
    connection.close(0_u32.into());
    client.wait_idle().await?;
    Ok(received)
}

/// Prints the port, echoes the first stream of the first connection, and returns what it received once the client has closed it.
pub async fn serve(mut server: Server) -> Result<Vec<u8>, Failure> {
    println!("listening {}", server.local_addr()?.port());
    let mut connection = server.accept().await.ok_or("the endpoint closed before any connection")?;
    let stream = connection.accept_bidirectional_stream().await?.ok_or("the client opened no stream")?;
    let (mut receive, mut send) = stream.split();
    let mut received = Vec::new();
    while let Some(piece) = receive.receive().await? {
        received.extend_from_slice(&piece);
        send.send(piece).await?;
    }
    send.finish()?;
    closed(&mut connection).await;
    Ok(received)
}

/// Waits until the client closes the connection.
async fn closed(connection: &mut Connection) {
    while let Ok(Some(_)) = connection.accept_bidirectional_stream().await {}
}

/// Validates each client's address with a Retry, if `wanted`.
#[derive(Clone, Copy, Debug)]
pub struct AddressValidation {
    /// Whether to send a Retry.
    pub wanted: bool,
}

impl Limiter for AddressValidation {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt<'_>) -> Outcome {
        if self.wanted { Outcome::retry() } else { Outcome::allow() }
    }
}

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
