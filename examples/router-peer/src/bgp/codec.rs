//! BGP messages on a byte stream.

use std::fmt;
use std::io;

use bytes::BytesMut;
use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::codec::{BgpCodec, BgpCodecDecoderError};
use netgauze_bgp_pkt::notification::{BgpNotificationMessage, MessageHeaderError};
use netgauze_bgp_pkt::wire::deserializer::{
    BGP_MAX_MESSAGE_LENGTH, BGP_MIN_MESSAGE_LENGTH, BgpParsingContext,
};
use tokio_util::codec::{Decoder, Encoder};

/// Why no further message can be read.
#[derive(Debug)]
pub enum ReceiveError {
    /// The stream failed.
    Stream(io::Error),
    /// The peer sent something malformed; the NOTIFICATION to answer with.
    Malformed(BgpNotificationMessage),
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Malformed(notification) => write!(f, "malformed message: {notification:?}"),
        }
    }
}

impl std::error::Error for ReceiveError {}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}

/// Reads and writes messages of at most 4096 octets with 4-octet AS numbers; RFC 8654's longer messages are refused, as
/// their capability is never announced.
#[derive(Clone, Debug)]
pub struct Codec(BgpCodec);

impl Default for Codec {
    fn default() -> Self {
        // RFC 4271 section 6.3 has prefixes outside unicast ignored, and RFC 5492 unknown capabilities.
        let context =
            BgpParsingContext::new(true, Default::default(), Default::default(), false, false, false, true);
        Self(BgpCodec::new_from_ctx(true, context))
    }
}

impl Decoder for Codec {
    type Item = BgpMessage;
    type Error = ReceiveError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<BgpMessage>, ReceiveError> {
        if let Some(&[high, low]) = buffer.get(16..18) {
            let length = u16::from_be_bytes([high, low]);
            if !(BGP_MIN_MESSAGE_LENGTH..=BGP_MAX_MESSAGE_LENGTH).contains(&length) {
                let value = Box::from([high, low]);
                return Err(ReceiveError::Malformed(BgpNotificationMessage::MessageHeaderError(
                    MessageHeaderError::BadMessageLength { value },
                )));
            }
        }
        match self.0.decode(buffer) {
            Ok(message) => Ok(message.map(|(message, _ignored)| message)),
            Err(BgpCodecDecoderError::BgpMessageParsingError(error)) => {
                Err(ReceiveError::Malformed(error.into()))
            }
            Err(error) => Err(ReceiveError::Stream(io::Error::other(error.to_string()))),
        }
    }
}

impl Encoder<BgpMessage> for Codec {
    type Error = io::Error;

    fn encode(&mut self, message: BgpMessage, buffer: &mut BytesMut) -> Result<(), io::Error> {
        self.0
            .encode(message, buffer)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
    }
}
