//! QUIC packet protection (RFC 9001, RFC 9369) without I/O, without a clock and without a heap: the key schedule, sealing and
//! opening, key update with its limits, Retry, tokens, and as much of the headers as protection needs.
//!
//! | which call do I need? | |
//! |---|---|
//! | the keys of Initial packets | [`InitialKeys::new`], again with the Retry's connection ID after a [`Retry`] |
//! | the keys of 0-RTT and Handshake packets | [`TrafficSecret::new`] with what TLS gave, then [`Keys::new`] |
//! | the packets of a datagram | [`Protected::split`] |
//! | open one | [`Keys::open`] |
//! | write a header, and seal the packet | [`LongHeader::encode`] or [`ShortHeader::encode`], then [`Sealer::seal`] |
//! | 1-RTT packets, both ways, with key update | [`OneRtt`] |
//! | Retry packets and the tokens in them | [`Retry`], [`TokenKey`] |
//! | stateless resets | [`StatelessResetKey`], [`StatelessResetToken::matches`] |
//! | AEAD and header masks with numbers I count myself, or for several paths | feature `hazmat` |
//!
//! A client's first packet, and what a server makes of it:
//!
//! ```
//! use wireseal_quic::{
//!     AuthenticationFailures, ConnectionId, InitialKeys, LongHeader, LongType, NumberLength, Outgoing, PacketNumberCounter,
//!     Protected, ReceiveSpace, Sealer, Version,
//! };
//!
//! let destination = ConnectionId::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08])?;
//! let source = ConnectionId::new(&[])?;
//! // The client: header, payload and room for the tag in one buffer, sealed where it lies.
//! let mut client = Sealer::new(InitialKeys::new(Version::V1, &destination).client, PacketNumberCounter::new());
//! let number_length = NumberLength::needed(client.next_number().unwrap_or(0), None);
//! let header = LongHeader { version: Version::V1, packet_type: LongType::Initial, destination, source, token: &[] };
//! let mut datagram = [0; 1200]; // of which all that is left over is PADDING frames
//! let payload_length = datagram.len() - header.overhead(number_length);
//! let number_offset = header.encode(&mut datagram, number_length, payload_length)?;
//! let number = client.seal(Outgoing { packet: &mut datagram, number_offset, number_length })?;
//!
//! // The server, whose own connection IDs have 8 octets: the same keys from the connection ID it reads in the header.
//! let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
//! for packet in Protected::split(&mut datagram, 8) {
//!     let packet = packet?;
//!     let keys = InitialKeys::new(Version::V1, &ConnectionId::new(packet.destination())?);
//!     let opened = keys.client.open(packet, &mut space, &mut failures)?;
//!     assert_eq!((opened.number, opened.payload.len()), (number, payload_length));
//! }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Stages
//!
//! A [`Protected`] packet has been taken apart but says nothing that could be relied on; an [`Opened`] one is authentic, since
//! nothing but opening makes one. Between the two, mask, packet number and AEAD are one step with one kind of failure (RFC
//! 9001, section 9.5). Plaintext of a packet that failed is never left in its buffer.
//!
//! # Algorithms and backends
//!
//! [`AeadAlgorithm`] is a closed enum. AES-GCM, ChaCha20-Poly1305 and header masks come from Wireseal's own routines where the
//! processor has the instructions (feature `kernels`, on by default), and otherwise from ring (feature `ring`, on by default) or
//! from RustCrypto (feature `rustcrypto`, for targets without ring), one of which has to be there; AES-128-CCM and HKDF come from
//! RustCrypto always. [`Backend::active`] says which is in use, and [`Keys::served_by`] what a key has ended up with.
//!
//! Keys lie where the caller puts them. They are wiped on drop: Wireseal's and RustCrypto's wipe themselves; ring's, which do not,
//! are overwritten with the key of all zeros. What is not wiped are copies that moving a key or a secret leaves on the stack, and
//! intermediate values of HKDF.
#![no_std]
#![warn(clippy::unwrap_used)]

mod backend;
mod codec;
mod connection_id;
#[cfg(feature = "hazmat")]
pub mod hazmat;
mod header;
mod keys;
mod one_rtt;
mod open;
mod packet_key;
mod packet_number;
mod protected;
mod reset;
mod retry;
mod seal;
mod secret;
mod token;
mod upcoming;
mod varint;
mod version;
mod window;

pub use backend::Backend;
pub use codec::{EncodeError, HeaderError, LongHeader, LongType, ShortHeader};
pub use connection_id::{ConnectionId, ConnectionIdTooLong};
pub use keys::{InitialKeys, Keys};
pub use one_rtt::{Now, OneRtt};
pub use open::{AuthenticationFailures, OpenError, Opened, ReceiveSpace};
pub use packet_number::{
    MAX_PACKET_NUMBER, NumberLength, PacketNumberCounter, PacketNumbersExhausted, decode_packet_number,
};
pub use protected::{Coalesced, PacketType, Protected};
pub use reset::{StatelessResetKey, StatelessResetToken};
pub use retry::{Retry, RetryError, retry_integrity_tag};
pub use seal::{Outgoing, SealError, Sealer};
pub use secret::{TrafficSecret, WrongSecretLength};
pub use token::{Token, TokenError, TokenKey, TokenPurpose};
pub use upcoming::UpdateError;
pub use varint::{MAX_VARINT, decode_varint, encode_varint};
pub use version::{UnknownVersion, Version};
pub use window::DuplicateWindow;
pub use wireseal_algorithms::AeadAlgorithm;
