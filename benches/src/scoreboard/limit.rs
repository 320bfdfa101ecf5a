//! The least that a row can take with the kernel that it has: its blocks or octets at the speed of Wireseal's own loop in a long message.
//!
//! Two long messages are timed in turn with the row's contenders. The difference between their times is that of the kernel's inner loop
//! alone, without setup, padding and tag. A processor may overlap short MACs; if that beats the chain of blocks, the MAC alone is the
//! limit.

use wireseal_algorithms::{AeadAlgorithm, MacAlgorithm};
use wireseal_benches::tcp_ao::BATCH;
use wireseal_benches::{Contender, mac};

/// The lengths of the long messages in octets. Both fit in the first-level cache.
const LONG: [usize; 2] = [4096, 8192];

/// How many octets longer the second is.
const MORE: f64 = (LONG[1] - LONG[0]) as f64;

/// What keeps the inner loop from being faster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Bound {
    /// Each block waits for the one before.
    Chain,
    /// Each block waits for the one before, but messages overlap: the time of the MAC alone.
    MacAlone,
    /// Blocks are independent: the loop is as fast as the processor executes its instructions.
    Port,
}

impl Bound {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::MacAlone => "MAC alone",
            Self::Port => "port",
        }
    }

    /// How many times the limit a row may take to count as near. More if no chain hides the rest of the work.
    pub(crate) const fn goal(self) -> f64 {
        match self {
            Self::Chain => 1.1,
            Self::MacAlone | Self::Port => 1.3,
        }
    }
}

/// The limit of a row.
pub(crate) struct Limit {
    bound: Bound,
    /// The row's length, relative to the difference between the two messages.
    share: f64,
    /// The lengths of the messages in octets: [`LONG`], and for a chain the row's own.
    lengths: Vec<usize>,
    /// Wireseal with a message of this length.
    contender: Box<dyn Fn(usize) -> Contender>,
}

impl Limit {
    fn port(share: f64, contender: impl Fn(usize) -> Contender + 'static) -> Self {
        Self { bound: Bound::Port, share, lengths: LONG.into(), contender: Box::new(contender) }
    }

    /// One MAC of `octets` octets.
    pub(crate) fn mac(algorithm: MacAlgorithm, octets: usize) -> Option<Self> {
        let contender = move |length| mac::message(algorithm, length).swap_remove(0);
        let lengths = LONG.into_iter().chain([octets]).collect();
        let share = share(algorithm, octets)?;
        Some(Self { bound: Bound::Chain, share, lengths, contender: Box::new(contender) })
    }

    /// Each of [`BATCH`] such MACs at once.
    pub(crate) fn macs(algorithm: MacAlgorithm, octets: usize) -> Option<Self> {
        let share = share(algorithm, octets)? / BATCH as f64;
        Some(Self::port(share, move |length| mac::batch(algorithm, length, BATCH)))
    }

    /// An AEAD's text of `octets` octets.
    pub(crate) fn aead(
        algorithm: AeadAlgorithm,
        contenders: fn(AeadAlgorithm, usize) -> Vec<Contender>,
        octets: usize,
    ) -> Self {
        Self::port(octets as f64 / MORE, move |length| contenders(algorithm, length).swap_remove(0))
    }

    /// A Poly1305 of `octets` octets.
    pub(crate) fn poly1305(octets: usize) -> Self {
        Self::port(octets as f64 / MORE, |length| mac::poly1305(length).swap_remove(0))
    }

    #[cfg(test)]
    pub(crate) fn with_share(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// The messages to time.
    pub(crate) fn contenders(&self) -> impl Iterator<Item = Contender> {
        self.lengths.iter().map(|length| (self.contender)(*length))
    }

    /// The limit, from the times of these messages.
    pub(crate) fn of(&self, times: &[f64]) -> (Bound, f64) {
        let limit = self.share * (times[1] - times[0]);
        match times.get(2) {
            Some(alone) if *alone < limit => (Bound::MacAlone, *alone),
            _ => (self.bound, limit),
        }
    }
}

/// A message's blocks, divided by the number of blocks by which the longer message exceeds the shorter. `None` for KMAC256, which has no row.
fn share(algorithm: MacAlgorithm, octets: usize) -> Option<f64> {
    let (block, blocks) = match algorithm {
        MacAlgorithm::Aes128Cmac => (16, octets.div_ceil(16)),
        // At least nine octets of padding, and a block for the outer hash.
        MacAlgorithm::HmacSha1 | MacAlgorithm::HmacSha256 => (64, (octets + 9).div_ceil(64) + 1),
        MacAlgorithm::Kmac256 => return None,
    };
    Some((blocks * block) as f64 / MORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_chain_of_blocks_or_the_mac_alone() {
        // 164 octets are 11 blocks of CMAC, and three of an HMAC before the outer hash.
        for (algorithm, blocks) in [
            (MacAlgorithm::Aes128Cmac, 11 * 16),
            (MacAlgorithm::HmacSha1, 4 * 64),
            (MacAlgorithm::HmacSha256, 4 * 64),
        ] {
            let limit = Limit::mac(algorithm, 164).expect("a row");
            // An octet takes half a nanosecond, and each message 30 nanoseconds more.
            let [short, long] = LONG.map(|length| 30.0 + length as f64 / 2.0);
            let chain = f64::from(blocks) / 2.0;
            assert_eq!(limit.of(&[short, long, chain + 30.0]), (Bound::Chain, chain));
            assert_eq!(limit.of(&[short, long, chain - 1.0]), (Bound::MacAlone, chain - 1.0));
            let each = Limit::macs(algorithm, 164).expect("a row");
            assert_eq!(each.of(&[short, long]), (Bound::Port, chain / BATCH as f64));
        }
        assert_eq!(Limit::poly1305(1024).of(&[1000.0, 2000.0]), (Bound::Port, 250.0));
        assert!(Limit::mac(MacAlgorithm::Kmac256, 164).is_none());
    }
}
