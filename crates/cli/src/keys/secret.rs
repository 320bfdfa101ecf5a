//! A secret, and how it was written.

use std::fmt;

use zeroize::Zeroizing;

/// How a secret is written in its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notation {
    /// As it is.
    Text,
    /// In hexadecimal digits.
    Hexadecimal,
    /// In Junos's `$9$`, which scrambles but does not encrypt.
    JunosNine,
    /// In Cisco's type 7, which scrambles but does not encrypt.
    CiscoSeven,
    /// Not in a text: in a file, the environment or the kernel's keyring.
    Elsewhere,
}

/// The octets of a secret, wiped on drop and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    octets: Zeroizing<Vec<u8>>,
    notation: Notation,
}

impl Secret {
    /// A secret of these octets.
    #[must_use]
    pub const fn new(octets: Zeroizing<Vec<u8>>, notation: Notation) -> Self {
        Self { octets, notation }
    }

    /// The octets, for the MKT and for writing a key file.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.octets
    }

    /// How it was written.
    #[must_use]
    pub const fn notation(&self) -> Notation {
        self.notation
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} octets, {:?})", self.octets.len(), self.notation)
    }
}
