//! When many messages side by side take less time than one after the other.

/// What a routine for many messages costs, in the time that a block takes alone.
pub(crate) struct Cost {
    /// To begin and to end.
    pub(crate) once: usize,
    /// A block of all lanes.
    pub(crate) block: usize,
}

impl Cost {
    /// Whether it takes less than the messages do alone, which are of so many blocks each.
    #[inline]
    pub(crate) fn is_worth(&self, messages: impl Iterator<Item = usize>) -> bool {
        let (all, longest) =
            messages.fold((0, 0), |(all, longest), blocks| (all + blocks, longest.max(blocks)));
        all >= self.once + self.block * longest
    }
}

/// The octets of a message.
#[inline]
pub(crate) fn octets(message: &[&[u8]]) -> usize {
    message.iter().map(|slice| slice.len()).sum()
}
