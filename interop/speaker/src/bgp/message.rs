//! BGP messages on a byte stream: `routecore` reads their bodies; headers are checked here.

use std::fmt;
use std::io;

use bytes::{Bytes, BytesMut};
use routecore::bgp::message::notification::{
    Details, MessageHeaderSubcode, NotificationBuilder, OpenMessageSubcode, UpdateMessageSubcode,
};
use routecore::bgp::message::{Message, SessionConfig};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Octets of a message header (RFC 4271 §4.1).
const HEADER: usize = 19;
/// Octets of the longest message; RFC 8654's longer ones are never negotiated.
pub const MAX_MESSAGE: usize = 4096;
/// The 16 octets that every header starts with.
const MARKER: [u8; 16] = [0xff; 16];
const KEEPALIVE_TYPE: u8 = 4;
/// A KEEPALIVE: nothing but a header.
pub const KEEPALIVE: [u8; HEADER] =
    [255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 19, KEEPALIVE_TYPE];

/// A NOTIFICATION: error code, subcode and data (RFC 4271 §4.5).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notification {
    /// Code and subcode.
    pub details: Details,
    /// What they are about.
    pub data: Vec<u8>,
}

impl Notification {
    /// One without data.
    pub fn bare(details: impl Into<Details>) -> Self {
        Self::new(details, [])
    }

    /// One with data.
    pub fn new(details: impl Into<Details>, data: impl Into<Vec<u8>>) -> Self {
        Self { details: details.into(), data: data.into() }
    }

    /// The whole message.
    pub fn to_octets(&self) -> Vec<u8> {
        NotificationBuilder::new_vec(self.details, Some(&self.data)).expect("the data are short")
    }
}

/// Why a session is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Closed {
    /// This end sent a NOTIFICATION.
    Sent(Notification),
    /// The peer sent a NOTIFICATION.
    Received(Notification),
    /// The stream ended or failed.
    Lost(io::ErrorKind),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent(notification) => write!(f, "sent {:?}", notification.details),
            Self::Received(notification) => write!(f, "received {:?}", notification.details),
            Self::Lost(kind) => write!(f, "connection lost: {kind}"),
        }
    }
}

impl From<Notification> for Closed {
    fn from(notification: Notification) -> Self {
        Self::Sent(notification)
    }
}

impl From<io::Error> for Closed {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.kind())
    }
}

/// Reads messages from a stream.
#[derive(Debug)]
pub struct Reader<S> {
    stream: S,
    buffer: BytesMut,
}

impl<S: AsyncRead + Unpin> Reader<S> {
    /// Starts at a message boundary.
    pub fn new(stream: S) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// The next message. Cancelling the call loses nothing.
    ///
    /// # Errors
    /// The end of the stream; or the NOTIFICATION to send for a malformed message.
    pub async fn next(&mut self) -> Result<Message<Bytes>, Closed> {
        loop {
            if let Some(message) = decode(&mut self.buffer)? {
                return Ok(message);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(Closed::Lost(io::ErrorKind::UnexpectedEof));
            }
        }
    }
}

/// Takes the first message from the buffer, if it is complete.
///
/// # Errors
/// The NOTIFICATION to send (RFC 4271 §6.1).
pub fn decode(buffer: &mut BytesMut) -> Result<Option<Message<Bytes>>, Notification> {
    let Some(header) = buffer.first_chunk::<HEADER>() else { return Ok(None) };
    let (length, kind) = ([header[16], header[17]], header[18]);
    if header[..16] != MARKER {
        return Err(Notification::bare(MessageHeaderSubcode::ConnectionNotSynchronized));
    }
    let lengths = match kind {
        1 => 29..=MAX_MESSAGE,
        2 => 23..=MAX_MESSAGE,
        3 => 21..=MAX_MESSAGE,
        KEEPALIVE_TYPE => HEADER..=HEADER,
        _ => return Err(Notification::new(MessageHeaderSubcode::BadMessageType, [kind])),
    };
    let octets = usize::from(u16::from_be_bytes(length));
    if !lengths.contains(&octets) {
        return Err(Notification::new(MessageHeaderSubcode::BadMessageLength, length));
    }
    if buffer.len() < octets {
        return Ok(None);
    }
    let message = buffer.split_to(octets).freeze();
    Message::from_octets(message, Some(&SessionConfig::modern())).map(Some).map_err(|_| match kind {
        1 => Notification::bare(OpenMessageSubcode::Unspecific),
        _ => Notification::bare(UpdateMessageSubcode::MalformedAttributeList),
    })
}
