//! Key chains: MKTs with the times at which to use them (RFC 8177), read from and written to text.
//!
//! | you want to | call |
//! |---|---|
//! | read a file | [`KeyChains::from_toml`], [`KeyChains::from_json`] |
//! | write one | [`KeyChains::to_toml`], [`KeyChains::to_json`] |
//! | find a peer's chain | [`KeyChains::get`] |
//! | open a connection | [`KeyChain::mkts`]: what a [`Connection`](crate::Connection) or a [`Peer`](crate::Peer) takes |
//! | carry the lifetimes out on a live connection | [`KeyChain::at`], and again at [`KeyChain::next_change`] |
//! | warn before nothing works | [`KeyChain::at`] with a time ahead of now: nothing is [preferred](ActiveKeys::preferred) |
//!
//! # Rolling over without a loss
//! A key is an MKT, which signs and verifies with one secret, so its accept lifetime must cover its send lifetime. Two
//! keys may be usable at once; [`ActiveKeys`] then prefers the one whose send lifetime started last. Clocks differ, so
//! give each key an accept lifetime that starts earlier and ends later than its send lifetime by more than the
//! clocks may be apart, key by key or for the chain with [`KeyChain::with_accept_tolerance`]: then whatever one end
//! prefers to send with, the other end accepts, and neither end's clock stepping back and forth loses a segment.
//!
//! Give what [`KeyChain::mkts`] says to [`Connection::replace_keys`](crate::Connection::replace_keys) or
//! [`Shim::set_mkts`](crate::shim::Shim::set_mkts) at every [`KeyChain::next_change`], and again whenever the wall clock
//! was set. This end then asks for the preferred key with RNextKeyID, and the peer obeys once it has the key too
//! (RFC 5925 §7.3). The key this end signs with changes when the peer asks for another, or when its send lifetime is
//! over. A key that is acceptable but not to be sent with is no choice of this end, but the peer's RNextKeyID may
//! still ask for it.
//!
//! When no key may be sent with, [`KeyChain::mkts`] is the empty set: the peer stays protected and nothing gets
//! through. There is no way from an expired chain to unsigned segments.
//!
//! # Secrets
//! Secrets are wiped with the [`Mkt`](crate::Mkt) that holds them, and so are the texts that are written. The text that is
//! read belongs to the caller, who wipes it. A secret that needs an escape, or a file with a syntax error, passes
//! through a buffer of the TOML or JSON parser that nobody wipes; `secret-hex` and `hexadecimal-string` need no escapes.
//! No error contains a secret, nor any text that stood as the value of a member; the names of unknown members are shown.
//!
//! ```
//! # #[cfg(all(feature = "toml", feature = "json"))] {
//! use wireseal_tcp_ao::KeyId;
//! use wireseal_tcp_ao::key_chain::{KeyChains, Timestamp};
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
//! // The same as a connection or a peer takes it: `Timestamp::from_unix_seconds` makes one of the clock's time.
//! let mkts: wireseal_tcp_ao::MktSet<2> = core.mkts(now);
//! assert_eq!(mkts.preferred().map(|mkt| mkt.send_id()), Some(KeyId(101)));
//! assert_eq!(active.iter().count(), 2);
//! assert_eq!(core.next_change(now), Some("2026-07-01T00:00:00Z".parse()?));
//! assert!(chains.to_json().contains("ietf-key-chain:key-chains"));
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod active;
mod chain;
mod error;
#[cfg(feature = "json")]
mod json;
mod key;
mod lifetime;
#[cfg(any(feature = "toml", feature = "json"))]
mod text;
mod timestamp;
#[cfg(feature = "toml")]
mod toml;

pub use active::ActiveKeys;
pub use chain::{KeyChain, KeyChains};
pub use error::{KeyChainError, Position, Problem};
pub use key::Key;
pub use lifetime::Lifetime;
pub use timestamp::{ParseTimestampError, Timestamp};
