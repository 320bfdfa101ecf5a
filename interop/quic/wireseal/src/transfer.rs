//! What goes over a connection of quinn's: the echo of one stream, or HTTP/3 for peers without the echo protocol, one POST with a body
//! each way; and the key updates that this end starts meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::{poll_fn, try_join};
use http::{Request, Response};
use peer_program::Failure;
use quinn::{Connection, RecvStream, SendStream, Side};
use wireseal_quinn::CountedKeys;

/// Octets sent at a time.
pub(crate) const PIECE: usize = 16_384;
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// Starts a key update after each of some numbers of octets sent.
pub(crate) struct Updates {
    connection: Connection,
    /// These include the connection's 1-RTT keys, so each update adds to them.
    keys: Arc<CountedKeys>,
    due_at: Vec<usize>,
    started: usize,
}

impl Updates {
    /// Two updates, after a quarter and after three quarters of `total` octets, or none.
    pub(crate) fn new(connection: &Connection, keys: Arc<CountedKeys>, wanted: bool, total: usize) -> Self {
        let due_at = if wanted { vec![total / 4, total / 4 * 3] } else { Vec::new() };
        Self { connection: connection.clone(), keys, due_at, started: 0 }
    }

    /// Starts the update that is due after `sent` octets, if any.
    pub(crate) async fn sent(&mut self, sent: usize) {
        if self.due_at.get(self.started).is_none_or(|&due| sent < due) {
            return;
        }
        while !(self.handshake_confirmed() && self.start()) {
            tokio::time::sleep(RETRY_AFTER).await;
        }
        self.started += 1;
    }

    /// How many updates quinn has started on demand.
    pub(crate) fn started(&self) -> usize {
        self.started
    }

    /// No update may start before that (RFC 9001 §6.1): a client waits for HANDSHAKE_DONE, a server has sent it.
    fn handshake_confirmed(&self) -> bool {
        self.connection.side() == Side::Server || self.connection.stats().frame_rx.handshake_done > 0
    }

    /// Whether quinn has started an update, which it refuses for three probe timeouts after the last.
    fn start(&self) -> bool {
        let before = self.keys.packet_keys().len();
        self.connection.force_key_update();
        self.keys.packet_keys().len() > before
    }
}

/// Sends `payload`, and returns the echo.
pub(crate) async fn echo_client(
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
pub(crate) async fn echo_server(connection: &Connection, updates: &mut Updates) -> Result<Vec<u8>, Failure> {
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

/// Posts `payload` to `/payload`, and returns the body of the response.
pub(crate) async fn http3_client(
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
pub(crate) async fn http3_server(connection: &Connection, updates: &mut Updates) -> Result<Vec<u8>, Failure> {
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
