//! The frames of a packet, as far as an observer needs them (RFC 9000 §19).

use wireseal_quic::{ConnectionId, decode_varint};

/// A frame that decides how other packets are opened.
#[derive(Debug)]
pub(super) enum Frame<'a> {
    /// The highest packet number that the peer has received.
    Ack { largest: u64 },
    /// Part of the TLS handshake.
    Crypto { offset: u64, data: &'a [u8] },
    /// Another connection ID of the sender, with its stateless reset token.
    NewConnectionId { id: ConnectionId, reset_token: [u8; 16] },
    /// The sender has closed the connection.
    Close,
}

/// The frames of a payload, up to the first unknown one, whose length cannot be known.
pub(super) struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    pub(super) const fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    fn varint(&mut self) -> Option<u64> {
        let (value, length) = decode_varint(self.rest)?;
        self.rest = &self.rest[length..];
        Some(value)
    }

    fn octets(&mut self, length: u64) -> Option<&'a [u8]> {
        let (octets, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(octets)
    }

    fn skip_varints(&mut self, count: u64) -> Option<()> {
        for _ in 0..count {
            self.varint()?;
        }
        Some(())
    }

    fn skip_counted(&mut self) -> Option<()> {
        let length = self.varint()?;
        self.octets(length).map(|_| ())
    }

    /// Reads one frame and returns it if it matters; `None` at the end or if it cannot be read.
    fn step(&mut self) -> Option<Option<Frame<'a>>> {
        match self.varint()? {
            // PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK (draft-ietf-quic-ack-frequency)
            0x00 | 0x01 | 0x1e | 0x1f => {}
            kind @ (0x02 | 0x03) => {
                let [largest, _delay, ranges, _first] =
                    [self.varint()?, self.varint()?, self.varint()?, self.varint()?];
                let ecn_counts = if kind == 0x03 { 3 } else { 0 };
                self.skip_varints(ranges.checked_mul(2)?.checked_add(ecn_counts)?)?;
                return Some(Some(Frame::Ack { largest }));
            }
            // RESET_STREAM
            0x04 => self.skip_varints(3)?,
            // RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset), ACK_FREQUENCY (draft-ietf-quic-ack-frequency)
            0x24 | 0xaf => self.skip_varints(4)?,
            // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED
            0x05 | 0x11 | 0x15 => self.skip_varints(2)?,
            0x06 => {
                let (offset, length) = (self.varint()?, self.varint()?);
                return Some(Some(Frame::Crypto { offset, data: self.octets(length)? }));
            }
            // NEW_TOKEN, DATAGRAM with a length
            0x07 | 0x31 => self.skip_counted()?,
            // STREAM
            kind @ 0x08..=0x0f => {
                self.varint()?;
                if kind & 0x04 != 0 {
                    self.varint()?;
                }
                if kind & 0x02 == 0 {
                    self.rest = &[];
                } else {
                    self.skip_counted()?;
                }
            }
            // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID
            0x10 | 0x12 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 => self.skip_varints(1)?,
            0x18 => {
                self.skip_varints(2)?;
                let length = self.octets(1).filter(|length| length[0] != 0)?[0];
                let id = ConnectionId::new(self.octets(length.into())?).ok()?;
                let reset_token = *self.octets(16)?.first_chunk()?;
                return Some(Some(Frame::NewConnectionId { id, reset_token }));
            }
            // PATH_CHALLENGE, PATH_RESPONSE
            0x1a | 0x1b => {
                self.octets(8)?;
            }
            kind @ (0x1c | 0x1d) => {
                self.skip_varints(if kind == 0x1c { 2 } else { 1 })?;
                self.skip_counted()?;
                return Some(Some(Frame::Close));
            }
            // DATAGRAM without a length
            0x30 => self.rest = &[],
            _ => return None,
        }
        Some(None)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        loop {
            match self.step()? {
                Some(frame) => return Some(frame),
                None if self.rest.is_empty() => return None,
                None => {}
            }
        }
    }
}
