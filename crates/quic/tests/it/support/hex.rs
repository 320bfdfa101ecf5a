//! Octets in hexadecimal.

use std::ops::Deref;

use data_encoding::{DecodeError, HEXLOWER_PERMISSIVE};
use serde::Deserialize;

#[derive(Clone, PartialEq, Eq, Hash, Deserialize, Debug)]
#[serde(try_from = "String")]
pub(crate) struct Hex(pub(crate) Vec<u8>);

impl Hex {
    /// The octets as an array of their length.
    #[track_caller]
    pub(crate) fn array<const N: usize>(&self) -> [u8; N] {
        self.0.as_slice().try_into().unwrap()
    }
}

impl TryFrom<String> for Hex {
    type Error = DecodeError;

    fn try_from(text: String) -> Result<Self, DecodeError> {
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map(Self)
    }
}

impl Deref for Hex {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
