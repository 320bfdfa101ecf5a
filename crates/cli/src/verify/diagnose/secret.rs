//! The same secret in another form: what an editor, a shell or a configuration adds, drops or converts.

use std::fmt;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::MacKey;
use wireseal_tcp_ao::MasterKey;
use zeroize::Zeroizing;

use crate::hex;

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

/// A form that an editor, a shell or a configuration leads to.
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

/// By what it says.
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
