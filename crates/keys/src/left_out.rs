//! Stand-ins for functions whose feature is off. With them the compiler names the feature instead of saying that there is no such function.

use crate::{Error, KeyChains};

/// A trait that nothing has unless the feature `toml` is on.
#[cfg(not(feature = "toml"))]
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`KeyChains::from_toml` needs the feature `toml` of wireseal-keys",
    label = "the feature `toml` is off",
    note = "in Cargo.toml: wireseal-keys = {{ version = \"…\", features = [\"toml\"] }}; wireseal-linux has the feature too"
)]
pub trait FeatureToml {
    /// Never called.
    fn read(self) -> Result<KeyChains, Error>;
}

/// A trait that nothing has unless the feature `json` is on.
#[cfg(not(feature = "json"))]
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`KeyChains::from_json` needs the feature `json` of wireseal-keys",
    label = "the feature `json` is off",
    note = "in Cargo.toml: wireseal-keys = {{ version = \"…\", features = [\"json\"] }}; wireseal-linux has the feature too"
)]
pub trait FeatureJson {
    /// Never called.
    fn read(self) -> Result<KeyChains, Error>;
}

impl KeyChains {
    /// Does not compile without the feature `toml`.
    #[cfg(not(feature = "toml"))]
    #[doc(hidden)]
    pub fn from_toml<T: FeatureToml>(text: T) -> Result<Self, Error> {
        text.read()
    }

    /// Does not compile without the feature `json`.
    #[cfg(not(feature = "json"))]
    #[doc(hidden)]
    pub fn from_json<T: FeatureJson>(text: T) -> Result<Self, Error> {
        text.read()
    }
}
