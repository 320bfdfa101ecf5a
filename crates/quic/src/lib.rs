//! QUIC packet protection (RFC 9001, RFC 9369) without I/O, clock or heap: the key schedule, sealing and opening, key update with
//! its limits, Retry, tokens, and the parts of headers that protection needs.
//!
//! | task | call |
//! |---|---|
//! | keys of Initial packets | [`InitialKeys::new`]; after a [`Retry`] again, with its connection ID |
//! | keys of 0-RTT and Handshake packets | [`TrafficSecret::new`] with the secret from TLS, then [`Keys::new`] |
//! | find the packets of a datagram | [`Protected::split`] |
//! | open a packet | [`Keys::open`] |
//! | write a header and seal the packet | [`LongHeader::encode`] or [`ShortHeader::encode`], then [`Sealer::seal`] |
//! | 1-RTT packets before the handshake is complete, to send only | [`OneRttSealer`] |
//! | 1-RTT packets in both directions, with key update | [`OneRttSealer::complete_handshake`], then [`OneRtt`] |
//! | Retry packets and their tokens | [`Retry`], [`TokenKey`] |
//! | rotate keys of tokens; let each token count once | [`TokenKeys`]; [`TokenReplayGuard`] |
//! | packets of unknown versions, Version Negotiation packets | [`AnyLongHeader`], [`VersionNegotiation`] |
//! | stateless resets | [`StatelessResetKey`], [`StatelessResetToken::matches`] |
//! | seal and open with your own packet numbers, for several paths, or from several threads | feature `hazmat` |
//! | compare or test backends, as the benches and the program's self-test do | `with_backend` of each type that derives keys, [`Backend::ALL`] |
//! | test what your stack does at the integrity limit | [`AuthenticationFailures::from_count`] |
//! | quinn, noq | the crate `wireseal-quinn` |
//! | another stack on rustls | the crate `wireseal-rustls` |
//!
//! A client's first packet, and how a server opens it:
//!
//! ```
//! use wireseal_quic::{
//!     AuthenticationFailures, ConnectionId, InitialKeys, LongHeader, LongType, NumberLength, Outgoing, PacketNumberCounter,
//!     Protected, ReceiveSpace, Sealer, Version,
//! };
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let destination = ConnectionId::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08])?;
//! let source = ConnectionId::new(&[])?;
//! // The client: header, payload and room for the tag in one buffer, sealed in place.
//! let mut client = Sealer::new(InitialKeys::new(Version::V1, &destination).client, PacketNumberCounter::new());
//! let number_length = NumberLength::advised(client.next_number().unwrap_or(0), None);
//! let header = LongHeader { version: Version::V1, packet_type: LongType::Initial, destination, source, token: &[] };
//! let mut datagram = [0; 1200]; // the payload is all PADDING frames
//! let payload_length = datagram.len() - header.overhead(number_length);
//! let number_offset = header.encode(&mut datagram, number_length, payload_length)?;
//! let number = client.seal(Outgoing { packet: &mut datagram, number_offset, number_length })?;
//!
//! // The server, whose own connection IDs have 8 octets, derives the same keys from the connection ID in the header.
//! let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
//! for packet in Protected::split(&mut datagram, 8) {
//!     let packet = packet?;
//!     let keys = InitialKeys::new(Version::V1, &ConnectionId::new(packet.destination())?);
//!     let opened = keys.client.open(packet, &mut space, &mut failures)?;
//!     assert_eq!((opened.number, opened.payload.len()), (number, payload_length));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # From a datagram to a verdict
//!
//! Each box is a type that only the step above it can make. Plaintext of a refused packet never stays in its buffer.
//!
//! ```text
//! datagram
//!    │ Protected::split          find the packets
//! ┌──▼────────┐
//! │ Protected │                  parsed, nothing authentic
//! └──┬────────┘
//!    │ Keys::open, OneRtt::open
//!    │   wrong type or version, too short for a sample ──────► Undecryptable, nothing changed
//!    │   mask from the sample, number decoded
//! ┌──▼────────┐
//! │ Unmasked  │                  phase and number choose one key
//! └──┬────────┘
//!    │   AEAD in place ──────────────────────────────────────► AuthenticationFailed or IntegrityLimit:
//! ┌──▼────────┐                                                header restored, payload zeros
//! │ Authentic │
//! └──┬────────┘
//!    │   key phase in order? ────────────────────────────────► KeyUpdate   ┐
//!    │   reserved bits zero? ────────────────────────────────► ReservedBits├ payload and tag zeros
//!    │   a payload? ─────────────────────────────────────────► NoFrames    │
//!    │   number new? ────────────────────────────────────────► Duplicate   ┘
//! ┌──▼────────┐
//! │ Opened    │                  number, header and payload, all authentic
//! └───────────┘
//! ```
//!
//! # From a payload to a packet
//!
//! ```text
//! header │ room for the number │ payload │ room for the tag
//!    │ Sealer::seal, OneRtt::seal
//!    │   everything fits, a payload, header for these keys, key below its limit? ──► SealError, nothing written
//!    │   next packet number, written with its length, key phase and zero reserved bits
//!    │   nonce = IV xor number
//!    │   AEAD in place, header as associated data; tag after the payload
//!    │   mask from a sample of the ciphertext, over first octet and packet number
//!    ▼
//! packet, ready to send
//! ```
//!
//! # Algorithms and backends
//!
//! [`AeadAlgorithm`] is a closed enum. The AEADs and header masks are those of `wireseal-aead`, and so are the features that choose where
//! they come from. AES-GCM, ChaCha20-Poly1305 and masks come from Wireseal's own routines where the processor has the instructions (feature
//! `kernels`, on by default), otherwise from ring (feature `ring`, on by default), aws-lc-rs (feature `aws-lc-rs`, for programs that link
//! it anyway) or RustCrypto (feature `rustcrypto`, for targets without ring). One of the last three is required; of several, the first is
//! used. AES-128-CCM and HKDF always come from RustCrypto. [`Backend::active`] names the
//! backend, [`Keys::served_by`] what a key uses.
//!
//! Keys are wiped on drop. Wireseal's, aws-lc-rs's and RustCrypto's wipe themselves; ring's do not, and are overwritten with a key of
//! zeros. aws-lc-rs needs std, and has its AEAD keys on the heap; nothing else here needs either. Not wiped: copies that moving a key
//! or a secret leaves on the stack, and intermediate values of HKDF.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![warn(clippy::unwrap_used)]

mod codec;
mod error;
#[cfg(feature = "hazmat")]
pub mod hazmat;
mod header;
mod invariants;
mod keys;
mod one_rtt;
mod open;
mod packet_key;
mod packet_number;
mod protected;
mod receive_space;
mod reset;
mod retry;
mod seal;
mod secret;
mod token;
mod version;

pub use codec::{ConnectionId, LongHeader, LongType, PacketType, ShortHeader, decode_varint};
pub use error::{HeaderError, KeyError, OpenError, SealError};
pub use invariants::{AnyLongHeader, VersionNegotiation};
pub use keys::{InitialKeys, Keys};
pub use one_rtt::{Now, OneRtt, OneRttSealer};
pub use open::Opened;
pub use packet_number::{MAX_PACKET_NUMBER, NumberLength, PacketNumberCounter, decode_packet_number};
pub use protected::{Coalesced, PacketHeader, Protected};
pub use receive_space::{AuthenticationFailures, ReceiveSpace};
pub use reset::{StatelessResetKey, StatelessResetToken};
pub use retry::{Retry, retry_integrity_tag};
pub use seal::{Outgoing, Sealer};
pub use secret::TrafficSecret;
pub use token::{Token, TokenError, TokenKey, TokenKeyId, TokenKeys, TokenPurpose, TokenReplayGuard};
pub use version::Version;
pub use wireseal_aead::Backend;
pub use wireseal_algorithms::AeadAlgorithm;

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
