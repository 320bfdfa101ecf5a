//! Algorithms by their names: parsing those that one name has, and serde.

use core::str::FromStr;

use crate::{AeadAlgorithm, MacAlgorithm, ParseAlgorithmError};

/// `FromStr` of what `name` returns, in upper or lower case.
macro_rules! parsed_by_name {
    ($($algorithm:ty),+) => {$(
        /// Reads the name, in upper or lower case.
        ///
        /// # Errors
        /// [`ParseAlgorithmError::Unknown`].
        impl FromStr for $algorithm {
            type Err = ParseAlgorithmError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(text));
                found.ok_or(ParseAlgorithmError::Unknown)
            }
        }
    )+};
}

parsed_by_name!(MacAlgorithm, AeadAlgorithm);

#[cfg(feature = "serde")]
mod with_serde {
    use core::fmt;
    use core::marker::PhantomData;
    use core::str::FromStr;

    use serde::de::{Deserialize, Deserializer, Error, Visitor};
    use serde::ser::{Serialize, Serializer};

    use crate::{AeadAlgorithm, MacAlgorithm, ParseAlgorithmError, TcpAoAlgorithm};

    /// Reads a text without keeping it, so that no heap is needed.
    struct Name<T>(PhantomData<T>);

    impl<T: FromStr<Err = ParseAlgorithmError>> Visitor<'_> for Name<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of an algorithm")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    macro_rules! serde_by_name {
        ($($algorithm:ty),+) => {$(
            /// Writes the name (feature `serde`).
            impl Serialize for $algorithm {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.name())
                }
            }

            /// Reads what `FromStr` reads (feature `serde`).
            impl<'de> Deserialize<'de> for $algorithm {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_str(Name(PhantomData))
                }
            }
        )+};
    }

    serde_by_name!(TcpAoAlgorithm, MacAlgorithm, AeadAlgorithm);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_again() {
        for algorithm in MacAlgorithm::ALL {
            assert_eq!(algorithm.name().to_ascii_lowercase().parse(), Ok(algorithm));
        }
        for algorithm in AeadAlgorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        assert_eq!("TLS_AES_128_CCM_8_SHA256".parse::<AeadAlgorithm>(), Err(ParseAlgorithmError::Unknown));
    }
}
