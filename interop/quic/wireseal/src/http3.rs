//! HTTP/3, for peers without the echo protocol: one POST, with a body each way.

use bytes::{Buf, Bytes};
use futures_util::future::{poll_fn, try_join};
use http::{Request, Response};
use peer_program::Failure;
use quinn::Connection;

use crate::updates::{PIECE, Updates};

/// Posts `payload` to `/payload`, and returns the body of the response.
pub(crate) async fn client(
    connection: &Connection,
    payload: &[u8],
    updates: &mut Updates,
) -> Result<Vec<u8>, Failure> {
    let (mut driver, mut requests) = h3::client::new(h3_quinn::Connection::new(connection.clone())).await?;
    let driving = tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });

    let request = Request::post("https://localhost/payload").body(())?;
    let (mut up, mut down) = requests.send_request(request).await?.split();
    let sending = async {
        for (index, piece) in payload.chunks(PIECE).enumerate() {
            up.send_data(Bytes::copy_from_slice(piece)).await?;
            updates.sent(index * PIECE + piece.len()).await;
        }
        up.finish().await?;
        Ok::<(), Failure>(())
    };
    let receiving = async {
        let response = down.recv_response().await?;
        if !response.status().is_success() {
            return Err(format!("the server answered {}", response.status()).into());
        }
        let mut received = Vec::new();
        while let Some(piece) = down.recv_data().await? {
            append(&mut received, piece);
        }
        Ok(received)
    };
    let ((), received) = try_join(sending, receiving).await?;
    driving.abort();
    Ok(received)
}

/// Answers one request with its own body, and returns that body once the client has closed the connection.
pub(crate) async fn server(connection: &Connection, updates: &mut Updates) -> Result<Vec<u8>, Failure> {
    let mut requests = h3::server::Connection::new(h3_quinn::Connection::new(connection.clone())).await?;
    let resolver = requests.accept().await?.ok_or("the client sent no request")?;
    let (_, mut stream) = resolver.resolve_request().await?;
    let mut received = Vec::new();
    while let Some(piece) = stream.recv_data().await? {
        append(&mut received, piece);
    }
    stream.send_response(Response::new(())).await?;
    for (index, piece) in received.chunks(PIECE).enumerate() {
        stream.send_data(Bytes::copy_from_slice(piece)).await?;
        updates.sent(index * PIECE + piece.len()).await;
    }
    stream.finish().await?;
    // Dropping `requests` earlier would close the connection before everything has arrived.
    while let Ok(Some(_)) = requests.accept().await {}
    Ok(received)
}

fn append(received: &mut Vec<u8>, mut piece: impl Buf) {
    while piece.has_remaining() {
        let chunk = piece.chunk();
        received.extend_from_slice(chunk);
        let length = chunk.len();
        piece.advance(length);
    }
}
