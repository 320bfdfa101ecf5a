//! What two programs around s2n-quic share, whatever its TLS: the echo, what its events say, and Retry on demand.

mod events;

use std::net::SocketAddr;

use peer_program::Failure;
use s2n_quic::client::Connect;
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::{Client, Connection, Server};

pub use crate::events::Events;

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
