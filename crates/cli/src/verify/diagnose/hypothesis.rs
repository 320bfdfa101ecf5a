//! How the sender's key or MAC input may differ from what was given.

use std::fmt;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::MacKey;
use wireseal_tcp_ao::option::{AO_HEADER_LENGTH, TCP_HEADER_LENGTH};
use wireseal_tcp_ao::{AoOption, FieldName, MacInput, MasterKey, MktParameters, Segment, checksum};
use zeroize::Zeroizing;

use super::options::{ClearedOptions, PaddingForm};
use crate::hex;
use crate::verify::key_table::Candidate;

/// A key, with the differences under which a segment may verify.
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
    /// Both.
    AlgorithmAndSecret(TcpAoAlgorithm, SecretForm),
    /// Another SNE.
    Sne(SneForm),
    /// The addresses on the other side of a translation: of the hint at this index, or of all hints.
    Nat(Option<usize>),
    /// The checksum field is not zero in the MAC input.
    Checksum(ChecksumForm),
    /// The ISNs of `--isn`: the sequence numbers were shifted on the path.
    Shift(ShiftForm),
    /// Padding is missing in the MAC input.
    Padding(PaddingForm),
    /// Options of the SYN were replaced by NOPs on the path.
    Cleared(ClearedOptions),
    /// The SYN was sent with another window scale.
    WindowScale(u8),
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

    /// The SNE that replaces this one, if it differs.
    pub(super) fn of(self, sne: u32) -> Option<u32> {
        match self {
            Self::Later => sne.checked_add(1),
            Self::Earlier => sne.checked_sub(1),
            Self::Zero => (sne > 1).then_some(0),
        }
    }
}

/// Whose sequence numbers a device on the path has shifted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ShiftForm {
    pub(super) of_sender: bool,
    pub(super) of_receiver: bool,
}

impl ShiftForm {
    pub(super) const ALL: [Self; 3] = [
        Self { of_sender: true, of_receiver: false },
        Self { of_sender: false, of_receiver: true },
        Self { of_sender: true, of_receiver: true },
    ];
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
            Some(Change::Algorithm(algorithm) | Change::AlgorithmAndSecret(algorithm, _)) => algorithm,
            _ => parameters.algorithm,
        }
    }
}

/// Octets of an AES-128 key.
const AES_KEY_LENGTH: usize = 16;

/// The form in which a sender may have entered a secret.
#[derive(Clone, Copy)]
pub(super) struct SecretForm {
    /// What a sender does with the secret, after its name in a sentence.
    pub(super) words: &'static str,
    /// Whether it is about how the KDF of AES-128-CMAC handles a secret that is not an AES key.
    pub(super) is_of_kdf: bool,
    octets: fn(&[u8]) -> Option<Vec<u8>>,
}

/// A form that an editor, a shell or a configuration may produce.
const fn entered(words: &'static str, octets: fn(&[u8]) -> Option<Vec<u8>>) -> SecretForm {
    SecretForm { words, is_of_kdf: false, octets }
}

/// A form of AES-128-CMAC's KDF.
const fn derived(words: &'static str, octets: fn(&[u8]) -> Option<Vec<u8>>) -> SecretForm {
    SecretForm { words, is_of_kdf: true, octets }
}

impl SecretForm {
    pub(super) const ALL: [Self; 15] = [
        entered("takes the secret with a newline (\\n) at its end", |secret| Some([secret, b"\n"].concat())),
        entered("takes the secret with a line end of two octets (\\r\\n)", |secret| {
            Some([secret, b"\r\n"].concat())
        }),
        entered("takes the secret with a blank at its end", |secret| Some([secret, b" "].concat())),
        entered("takes the secret with a NUL octet at its end", |secret| Some([secret, b"\0"].concat())),
        entered("takes the secret without the white space or line end that it has here", |secret| {
            Some(secret.trim_ascii().to_vec())
        }),
        entered("takes double quotes around the secret as part of it", |secret| {
            Some([b"\"", secret, b"\""].concat())
        }),
        entered("takes single quotes around the secret as part of it", |secret| {
            Some([b"'", secret, b"'"].concat())
        }),
        entered("takes the secret without the quotes that it has here", |secret| match secret.trim_ascii() {
            [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => Some(inner.to_vec()),
            _ => None,
        }),
        entered("takes the secret as hexadecimal digits; here it is text", from_hex),
        entered("takes the secret's hexadecimal digits as text", |secret| Some(hex::encode(secret).into())),
        entered("takes the secret's hexadecimal digits, in capitals, as text", |secret| {
            let mut digits = hex::encode(secret);
            digits.make_ascii_uppercase();
            Some(digits.into())
        }),
        entered("takes the secret's hexadecimal digits, with 0x in front, as text", |secret| {
            Some([b"0x", Zeroizing::new(hex::encode(secret)).as_bytes()].concat())
        }),
        derived(
            "pads the secret with zeros to the 16 octets of an AES key instead of compressing it with AES-CMAC (RFC 5926 \
             §3.1.1.2)",
            |secret| Some([secret, [0; AES_KEY_LENGTH].get(secret.len()..)?].concat()),
        ),
        derived(
            "cuts the secret to the 16 octets of an AES key instead of compressing it with AES-CMAC (RFC 5926 §3.1.1.2)",
            |secret| secret.get(..AES_KEY_LENGTH).map(<[u8]>::to_vec),
        ),
        derived(
            "compresses the secret with AES-CMAC although it has the 16 octets of an AES key (RFC 5926 §3.1.1.2)",
            |secret| {
                let compressed = MacKey::aes_128_cmac(&[0; AES_KEY_LENGTH]).mac(&[secret]);
                (secret.len() == AES_KEY_LENGTH).then(|| compressed.as_bytes().to_vec())
            },
        ),
    ];

    /// The secret in this form, if that changes it.
    pub(super) fn of(self, secret: &[u8], algorithm: TcpAoAlgorithm) -> Option<MasterKey> {
        if self.is_of_kdf && algorithm != TcpAoAlgorithm::Aes128Cmac {
            return None;
        }
        let form = Zeroizing::new((self.octets)(secret)?);
        if form.as_slice() == secret {
            return None;
        }
        MasterKey::new(&form).ok()
    }
}

/// Forms with the same words are the same.
impl PartialEq for SecretForm {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for SecretForm {}

impl fmt::Debug for SecretForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words)
    }
}

/// The octets of hexadecimal digits, with or without `0x` in front, separators between and white space around.
fn from_hex(secret: &[u8]) -> Option<Vec<u8>> {
    let text = secret.trim_ascii();
    let text = text.strip_prefix(b"0x").or(text.strip_prefix(b"0X")).unwrap_or(text);
    let mut digits = Zeroizing::new(Vec::with_capacity(text.len()));
    digits.extend(text.iter().filter(|digit| !matches!(digit, b':' | b' ' | b'-')));
    let mut octets = vec![0; digits.len() / 2];
    hex::decode_into(&digits, &mut octets)?;
    (!octets.is_empty()).then_some(octets)
}

/// What the sender may have had in the checksum field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChecksumForm {
    /// What was recorded.
    AsRecorded,
    /// The sum over the pseudo-header, which a stack leaves for the network card to complete.
    PseudoHeader,
    /// The checksum of the segment before its MAC was filled in.
    WithoutMac,
}

impl ChecksumForm {
    pub(super) const ALL: [Self; 3] = [Self::AsRecorded, Self::PseudoHeader, Self::WithoutMac];

    fn of(self, segment: &Segment<'_>, ao: &AoOption<'_>) -> u16 {
        let (source, destination) = (segment.source().address(), segment.destination().address());
        let mut tcp = segment.tcp().to_vec();
        match self {
            Self::AsRecorded => u16::from_be_bytes([tcp[16], tcp[17]]),
            Self::PseudoHeader => {
                tcp.fill(0);
                !checksum::tcp(source, destination, &tcp)
            }
            Self::WithoutMac => {
                tcp[16..18].fill(0);
                tcp[TCP_HEADER_LENGTH + ao.offset + AO_HEADER_LENGTH..][..ao.mac.len()].fill(0);
                checksum::tcp(source, destination, &tcp)
            }
        }
    }
}

/// The MAC input with the checksum field in this form.
pub(super) fn input_with_checksum(
    form: ChecksumForm,
    segment: &Segment<'_>,
    ao: &AoOption<'_>,
    input: &MacInput<'_>,
) -> Vec<u8> {
    let checksum = form.of(segment, ao).to_be_bytes();
    let mut octets = Vec::new();
    for field in input.fields() {
        let is_checksum = field.name == FieldName::Checksum;
        octets.extend_from_slice(if is_checksum { &checksum } else { field.as_ref() });
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_what_it_says() {
        type Row = (&'static str, &'static [u8], Option<&'static [u8]>);
        let rows: [Row; 16] = [
            ("newline", b"a", Some(b"a\n")),
            ("line end of two octets", b"a", Some(b"a\r\n")),
            ("without the white space", b" a\r\n", Some(b"a")),
            ("without the white space", b"a", None),
            ("double quotes", b"a", Some(b"\"a\"")),
            ("without the quotes", b"'a'", Some(b"a")),
            ("without the quotes", b"a", None),
            ("here it is text", b"0x61:62\n", Some(b"ab")),
            ("here it is text", b"616", None),
            ("digits as text", b"jk", Some(b"6a6b")),
            ("in capitals", b"jk", Some(b"6A6B")),
            ("0x in front", b"jk", Some(b"0x6a6b")),
            ("pads", b"a", Some(b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")),
            ("pads", b"0123456789abcdef", None),
            ("cuts", b"0123456789abcdefg", Some(b"0123456789abcdef")),
            ("compresses", b"0123456789abcdefg", None),
        ];
        for (words, secret, expected) in rows {
            let mut forms = SecretForm::ALL.into_iter().filter(|form| form.words.contains(words));
            let form = forms.next().unwrap();
            let octets = form.of(secret, TcpAoAlgorithm::Aes128Cmac);
            assert_eq!(octets.as_ref().map(MasterKey::expose_secret), expected, "{words}");
            assert!(!form.is_of_kdf || form.of(secret, TcpAoAlgorithm::HmacSha1).is_none());
        }
    }
}
