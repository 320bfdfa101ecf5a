//! A library that computes a MAC.

/// Computes a MAC under a prepared key; returns its first 12 octets.
pub(crate) type Contender = Box<dyn FnMut(&[&[u8]]) -> [u8; 12]>;

/// Prepares a key.
type WithKey = Box<dyn Fn(&[u8]) -> Contender>;

/// A library that has the algorithm.
pub(crate) struct Library {
    /// Its name.
    pub(crate) name: &'static str,
    /// The size of a prepared key in octets; `None` if part of it is behind a pointer.
    pub(crate) octets: Option<usize>,
    with_key: WithKey,
}

impl Library {
    pub(super) fn new(
        name: &'static str,
        octets: impl Into<Option<usize>>,
        with_key: impl Fn(&[u8]) -> Contender + 'static,
    ) -> Self {
        Self { name, octets: octets.into(), with_key: Box::new(with_key) }
    }

    /// Prepares a key of the algorithm's length.
    pub(crate) fn with_key(&self, key: &[u8]) -> Contender {
        (self.with_key)(key)
    }
}

/// The part of a MAC that is compared.
pub(super) fn start(mac: &[u8]) -> [u8; 12] {
    *mac.first_chunk().expect("12 octets at least")
}
