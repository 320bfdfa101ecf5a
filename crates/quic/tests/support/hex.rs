//! Octets that a file spells in hexadecimal.

use std::ops::Deref;

use serde::Deserialize;

#[derive(Clone, PartialEq, Eq, Hash, Deserialize, Debug)]
#[serde(try_from = "String")]
pub(crate) struct Hex(pub(crate) Vec<u8>);

impl Hex {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let digits = text.as_bytes().chunks(2);
        let octets = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16));
        octets.collect::<Result<_, _>>().map(Self).map_err(|_| format!("{text} is not hexadecimal"))
    }

    /// The octets where their number is part of a type.
    #[track_caller]
    pub(crate) fn array<const N: usize>(&self) -> [u8; N] {
        self.0.as_slice().try_into().unwrap()
    }
}

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl Deref for Hex {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
