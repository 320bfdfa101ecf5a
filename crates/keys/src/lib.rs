//! Key chains: MKTs and the times at which to use them (RFC 8177), in TOML, JSON, XML, and the configurations of routers.
//!
//! | you want to | call |
//! |---|---|
//! | read a file | [`KeyChains::from_toml`] (feature `toml`), [`KeyChains::from_json`] (feature `json`) |
//! | put key chains into a configuration file of your own | a field of type [`KeyChains`], [as below](#in-a-configuration-file-of-your-own) |
//! | read a file of any format, including routers' configurations | `load` and `KeyFile::key_chains` (feature `formats`) |
//! | check a file, or write it in another format | `check()`, `convert()` (feature `formats`) |
//! | know whether two ends accept what the other signs, and when not | `meet()`, `outages()`, `compare()` (feature `formats`) |
//! | plan the next key of two ends so that no segment is lost | `Plan::new`, `Plan::gaps`, `Plan::changes` (feature `formats`) |
//! | write one | `KeyChains::to_toml`, `KeyChains::to_json` |
//! | find a peer's chain | [`KeyChains::get`] |
//! | get the MKTs for a [`Connection`](wireseal_tcp_ao::Connection) or a [`Peer`](wireseal_tcp_ao::Peer) | [`KeyChain::mkts`], again at each [`KeyChain::next_change`] |
//! | see which keys are valid | [`KeyChain::at`] |
//! | warn before a chain expires | [`KeyChain::at`] with a time ahead of now: no key is [preferred](ActiveKeys::preferred) |
//!
//! # Rollover without loss
//! A key is an MKT, which signs and verifies with one secret, so its accept lifetime must cover its send lifetime. If several
//! keys are valid, [`ActiveKeys`] prefers the one that the chain [names](KeyChain::with_preferred), or else the one whose send lifetime
//! started last. Clocks differ: let each accept lifetime start earlier and end later than the send lifetime, by more than the clocks may
//! differ, key by key or for the chain with [`KeyChain::with_accept_tolerance`]. Then each end accepts what the other prefers, even while a clock steps back and forth.
//!
//! Pass [`KeyChain::mkts`] to [`Connection::replace_keys`](wireseal_tcp_ao::Connection::replace_keys) or
//! [`Shim::set_mkts`](wireseal_tcp_ao::shim::Shim::set_mkts) at every [`KeyChain::next_change`], and when the clock has been set. This
//! end then asks for the preferred key with RNextKeyID, and the peer switches once it has the key (RFC 5925 §7.3). This end
//! signs with another key when the peer asks for it. It does not choose a key that is valid only for accepting, but the peer's RNextKeyID
//! may still ask for one. When the send lifetime of the current key is over, this end leaves it once the peer has signed with the preferred
//! one and does not ask for the old one any more. Until then the old key serves, at the longest while it is accepted, because the peer may
//! hold no other. Give an accept lifetime an end, or remove old keys, if that must not last.
//!
//! When no key is valid for sending, [`KeyChain::mkts`] is empty: the peer stays protected and nothing gets through. An expired
//! chain never leads to unsigned segments.
//!
//! # Secrets
//! Secrets are wiped with the [`Mkt`](wireseal_tcp_ao::Mkt) that holds them, and so are the texts that are written. Wipe the text that
//! you read yourself, and read the file into a buffer that is large enough from the start: one that grows leaves pieces behind. Reading
//! itself leaves no secret on the heap, with one exception: a secret with an escape, such as `\"`, passes through a buffer of the
//! TOML or JSON parser, which does not wipe it. `secret-hex`, `hexadecimal-string` and TOML's `'literal strings'` need no escapes. For a
//! [file of your own](#in-a-configuration-file-of-your-own), your parser may keep more. Keys are moved while they are made, which leaves
//! copies on the [stack](wireseal_tcp_ao#what-is-wiped).
//!
//! Errors contain no secret and no value of any field, but they show the names of unknown fields.
//!
//! # Example
//! ```
//! # #[cfg(all(feature = "toml", feature = "json"))] {
//! use wireseal_tcp_ao::KeyId;
//! use wireseal_keys::{KeyChains, Timestamp};
//!
//! let chains = KeyChains::from_toml(
//!     r#"
//!     [[key-chain]]
//!     name = "core"
//!     accept-tolerance = 300
//!
//!     [[key-chain.key]]
//!     send-id = 100
//!     algorithm = "AES-128-CMAC-96"
//!     secret = "first-secret"
//!     send = { from = 2026-01-01T00:00:00Z, until = 2026-07-01T00:00:00Z }
//!
//!     [[key-chain.key]]
//!     send-id = 101
//!     algorithm = "AES-128-CMAC-96"
//!     secret = "second-secret"
//!     send = { from = 2026-06-30T23:00:00Z }
//!     "#,
//! )?;
//! let core = chains.get("core").expect("the chain above");
//!
//! let now: Timestamp = "2026-06-30T23:30:00Z".parse()?;
//! let active = core.at(now);
//! assert_eq!(active.preferred().map(|key| key.mkt().send_id()), Some(KeyId(101)));
//!
//! // For a connection or a peer; `Timestamp::now` (feature `std`) reads the clock.
//! let mkts: wireseal_tcp_ao::MktSet<2> = core.mkts(now);
//! assert_eq!(mkts.preferred().map(|mkt| mkt.send_id()), Some(KeyId(101)));
//! assert_eq!(active.iter().count(), 2);
//! assert_eq!(core.next_change(now), Some("2026-07-01T00:00:00Z".parse()?));
//! assert!(chains.to_json().contains("ietf-key-chain:key-chains"));
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # In a configuration file of your own
//! With feature `serde`, [`KeyChains`] are read as an array of tables with the fields of [`KeyChains::from_toml`], in any format
//! that serde reads. If the format has no dates, a moment is a text as in RFC 3339. Single [`KeyChain`]s and [`Key`]s can be read, too.
//! serde does not write them: only `KeyChains::to_toml` and `KeyChains::to_json` write secrets.
//!
//! Errors name the key and the field; their place is that of the key's or the chain's table. The `toml` crate's errors print the
//! whole line, which may hold a secret: show only their message and the line's number.
//!
//! ```
//! # #[cfg(all(feature = "toml", feature = "serde"))] {
//! use std::net::SocketAddr;
//!
//! use serde::Deserialize;
//! use wireseal_keys::KeyChains;
//!
//! #[derive(Deserialize)]
//! #[serde(rename_all = "kebab-case", deny_unknown_fields)]
//! struct Config {
//!     listen: SocketAddr,
//!     key_chain: KeyChains,
//! }
//!
//! let read = |text: &str| {
//!     toml::from_str::<Config>(text).map_err(|error| {
//!         let before = error.span().map_or("", |span| &text[..span.start]);
//!         format!("line {}: {}", before.matches('\n').count() + 1, error.message())
//!     })
//! };
//! let text = r#"
//!     listen = "[::]:179"
//!
//!     [[key-chain]]
//!     name = "core"
//!     [[key-chain.key]]
//!     send-id = 100
//!     algorithm = "AES-128-CMAC-96"
//!     secret = "first-secret"
//! "#;
//! let config = read(text)?;
//! assert_eq!((config.listen.port(), config.key_chain.chains().len()), (179, 1));
//!
//! let wrong = read(&text.replace("100", "300")).map(|config| config.listen);
//! assert_eq!(wrong, Err("line 6: key 300, send-id: must be a whole number from 0 to 255".to_owned()));
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::unwrap_used)]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod chain;
#[cfg(feature = "formats")]
mod ends;
mod error;
#[cfg(feature = "formats")]
mod formats;
#[cfg(feature = "json")]
mod json;
#[cfg(not(all(feature = "toml", feature = "json")))]
mod left_out;
mod lifetime;
#[cfg(any(feature = "toml", feature = "json"))]
mod place;
#[cfg(feature = "serde")]
mod text;
mod timestamp;
#[cfg(feature = "toml")]
mod toml;
#[cfg(any(feature = "toml", feature = "json"))]
mod write;

pub use chain::{ActiveKeys, Key, KeyChain, KeyChains};
#[cfg(feature = "formats")]
pub use ends::*;
pub use error::{Error, Position, Problem};
#[cfg(feature = "formats")]
pub use formats::*;
#[cfg(not(feature = "json"))]
#[doc(hidden)]
pub use left_out::FeatureJson;
#[cfg(not(feature = "toml"))]
#[doc(hidden)]
pub use left_out::FeatureToml;
pub use lifetime::Lifetime;
pub use timestamp::{ParseTimestampError, Timestamp};

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
