//! How the sender's key may differ from the key that was given.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::MktParameters;

use super::checksum::ChecksumForm;
use super::secret::SecretForm;
use crate::verify::key_table::Candidate;

/// A key with differences, under which a segment may verify.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hypothesis {
    pub(super) candidate: Candidate,
    /// How the key is related to the segment's KeyID.
    pub(super) relation: Relation,
    /// What else differs.
    pub(super) change: Option<Change>,
    /// Whether the MAC covers the options where the key excludes them, or the reverse.
    pub(super) flips_options: bool,
}

/// How a key is related to the KeyID in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Relation {
    /// It is the sender's id of the key.
    Named,
    /// It is the other end's id of the key.
    Exchanged,
    /// It is neither of the key's ids.
    Other,
}

/// A difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// Another algorithm with the same secret.
    Algorithm(TcpAoAlgorithm),
    /// The secret, entered in another form.
    Secret(SecretForm),
    /// Another SNE.
    Sne(SneForm),
    /// The addresses on the other side of a translation: of the hint at this index, or of all hints.
    Nat(Option<usize>),
    /// The checksum field is not zero in the MAC input.
    Checksum(ChecksumForm),
    /// The SYN was sent with another MSS.
    Mss(u16),
    /// The recorded segment is more than was signed: only this many octets of its payload.
    Merged(usize),
    /// This many recorded segments were signed as one.
    Split(usize),
}

/// Another SNE than the capture shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SneForm {
    Later,
    Earlier,
    Zero,
}

impl SneForm {
    pub(super) const ALL: [Self; 3] = [Self::Later, Self::Earlier, Self::Zero];

    /// The SNE in place of this one, if it is another.
    pub(super) fn of(self, sne: u32) -> Option<u32> {
        match self {
            Self::Later => sne.checked_add(1),
            Self::Earlier => sne.checked_sub(1),
            Self::Zero => (sne > 1).then_some(0),
        }
    }
}

impl Hypothesis {
    pub(super) const fn new(candidate: Candidate, relation: Relation) -> Self {
        Self { candidate, relation, change: None, flips_options: false }
    }

    pub(super) const fn with(self, change: Change) -> Self {
        Self { change: Some(change), ..self }
    }

    /// The hypothesis, and the same with the other coverage of options.
    pub(super) const fn both(self) -> [Self; 2] {
        [self, Self { flips_options: !self.flips_options, ..self }]
    }

    /// Whether two hypotheses are one explanation; the sizes of segments do not matter.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_same_change = match (self.change, other.change) {
            (Some(Change::Merged(_)), Some(Change::Merged(_)))
            | (Some(Change::Split(_)), Some(Change::Split(_))) => true,
            (own, other) => own == other,
        };
        is_same_change
            && self.candidate.key == other.candidate.key
            && self.relation == other.relation
            && self.flips_options == other.flips_options
    }

    /// The algorithm under the hypothesis.
    pub(super) fn algorithm(&self, parameters: &MktParameters) -> TcpAoAlgorithm {
        match self.change {
            Some(Change::Algorithm(algorithm)) => algorithm,
            _ => parameters.algorithm,
        }
    }
}
