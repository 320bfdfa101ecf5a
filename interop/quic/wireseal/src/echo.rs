//! The simplest application: the server echoes one stream.

use futures_util::future::try_join;
use peer_program::Failure;
use quinn::{Connection, RecvStream, SendStream};

use crate::updates::{PIECE, Updates};

/// Sends `payload`, and returns the echo.
pub(crate) async fn client(
    connection: &Connection,
    payload: &[u8],
    updates: &mut Updates,
) -> Result<Vec<u8>, Failure> {
    let (send, mut receive) = connection.open_bi().await?;
    // One octet too many is an error as well.
    let receiving = async { Ok(receive.read_to_end(payload.len() + 1).await?) };
    let ((), received) = try_join(send_all(send, payload, updates), receiving).await?;
    Ok(received)
}

async fn send_all(mut send: SendStream, payload: &[u8], updates: &mut Updates) -> Result<(), Failure> {
    for (index, piece) in payload.chunks(PIECE).enumerate() {
        send.write_all(piece).await?;
        updates.sent(index * PIECE + piece.len()).await;
    }
    send.finish()?;
    Ok(())
}

/// Echoes the first stream, and returns what it received.
pub(crate) async fn server(connection: &Connection, updates: &mut Updates) -> Result<Vec<u8>, Failure> {
    let (mut send, mut receive): (SendStream, RecvStream) = connection.accept_bi().await?;
    let mut received = Vec::new();
    while let Some(chunk) = receive.read_chunk(PIECE, true).await? {
        received.extend_from_slice(&chunk.bytes);
        send.write_chunk(chunk.bytes).await?;
        updates.sent(received.len()).await;
    }
    send.finish()?;
    Ok(received)
}
