//! The same secret, put down in another way: what an editor, a shell or a configuration adds or leaves out.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::MacKey;
use wireseal_tcp_ao::MasterKey;
use zeroize::Zeroizing;

/// Octets of an AES-128 key.
const AES_KEY_LENGTH: usize = 16;

/// How a sender may have put down a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SecretForm {
    WithNewline,
    WithCarriageReturn,
    WithBlank,
    WithNul,
    Trimmed,
    InDoubleQuotes,
    InSingleQuotes,
    WithoutQuotes,
    /// The octets that it spells as hexadecimal digits.
    FromHex,
    /// Its octets, spelled as hexadecimal digits.
    AsHex,
    AsUpperHex,
    AsPrefixedHex,
    /// AES-128-CMAC: zeros up to 16 octets instead of RFC 5926's compression.
    Padded,
    /// AES-128-CMAC: its first 16 octets instead of RFC 5926's compression.
    Cut,
    /// AES-128-CMAC: compressed although it has 16 octets.
    Compressed,
}

impl SecretForm {
    pub(super) const ALL: [Self; 15] = [
        Self::WithNewline,
        Self::WithCarriageReturn,
        Self::WithBlank,
        Self::WithNul,
        Self::Trimmed,
        Self::InDoubleQuotes,
        Self::InSingleQuotes,
        Self::WithoutQuotes,
        Self::FromHex,
        Self::AsHex,
        Self::AsUpperHex,
        Self::AsPrefixedHex,
        Self::Padded,
        Self::Cut,
        Self::Compressed,
    ];

    /// Whether the form concerns what the KDF of AES-128-CMAC does with a secret that is no AES key.
    pub(super) const fn is_of_kdf(self) -> bool {
        matches!(self, Self::Padded | Self::Cut | Self::Compressed)
    }

    /// The secret in this form, if it is another then.
    pub(super) fn of(self, secret: &[u8], algorithm: TcpAoAlgorithm) -> Option<MasterKey> {
        if self.is_of_kdf() && algorithm != TcpAoAlgorithm::Aes128Cmac {
            return None;
        }
        let form = Zeroizing::new(self.octets(secret)?);
        if form.as_slice() == secret {
            return None;
        }
        MasterKey::new(&form).ok()
    }

    fn octets(self, secret: &[u8]) -> Option<Vec<u8>> {
        Some(match self {
            Self::WithNewline => [secret, b"\n"].concat(),
            Self::WithCarriageReturn => [secret, b"\r\n"].concat(),
            Self::WithBlank => [secret, b" "].concat(),
            Self::WithNul => [secret, b"\0"].concat(),
            Self::Trimmed => secret.trim_ascii().to_vec(),
            Self::InDoubleQuotes => [b"\"", secret, b"\""].concat(),
            Self::InSingleQuotes => [b"'", secret, b"'"].concat(),
            Self::WithoutQuotes => match secret.trim_ascii() {
                [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner.to_vec(),
                _ => return None,
            },
            Self::FromHex => from_hex(secret)?,
            Self::AsHex => as_hex(b"", b"0123456789abcdef", secret),
            Self::AsUpperHex => as_hex(b"", b"0123456789ABCDEF", secret),
            Self::AsPrefixedHex => as_hex(b"0x", b"0123456789abcdef", secret),
            Self::Padded if secret.len() < AES_KEY_LENGTH => {
                let mut padded = secret.to_vec();
                padded.resize(AES_KEY_LENGTH, 0);
                padded
            }
            Self::Cut if secret.len() > AES_KEY_LENGTH => secret[..AES_KEY_LENGTH].to_vec(),
            Self::Compressed if secret.len() == AES_KEY_LENGTH => {
                MacKey::aes_128_cmac(&[0; AES_KEY_LENGTH]).mac(&[secret]).as_bytes().to_vec()
            }
            Self::Padded | Self::Cut | Self::Compressed => return None,
        })
    }

    /// What a sender does with the secret, as the rest of a sentence that begins with him.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::WithNewline => "takes the secret with a newline (\\n) at its end",
            Self::WithCarriageReturn => "takes the secret with a line end of two octets (\\r\\n)",
            Self::WithBlank => "takes the secret with a blank at its end",
            Self::WithNul => "takes the secret with a NUL octet at its end",
            Self::Trimmed => "takes the secret without the white space or line end that it has here",
            Self::InDoubleQuotes => "takes double quotes around the secret as a part of it",
            Self::InSingleQuotes => "takes single quotes around the secret as a part of it",
            Self::WithoutQuotes => "takes the secret without the quotes that are a part of it here",
            Self::FromHex => "takes the secret as hexadecimal digits, and here it is a text",
            Self::AsHex => "takes the secret's hexadecimal digits as a text",
            Self::AsUpperHex => "takes the secret's hexadecimal digits, in capitals, as a text",
            Self::AsPrefixedHex => "takes the secret's hexadecimal digits with 0x before them as a text",
            Self::Padded => {
                "pads the secret with zeros to the 16 octets of an AES key, where RFC 5926 (section 3.1.1.2) compresses it \
                 with AES-CMAC"
            }
            Self::Cut => {
                "cuts the secret to the 16 octets of an AES key, where RFC 5926 (section 3.1.1.2) compresses it with AES-CMAC"
            }
            Self::Compressed => {
                "compresses the secret with AES-CMAC although it has the 16 octets of an AES key (RFC 5926, section 3.1.1.2)"
            }
        }
    }
}

/// The octets of hexadecimal digits, with or without 0x before them and colons, blanks or a line end between and behind.
fn from_hex(secret: &[u8]) -> Option<Vec<u8>> {
    let digits = secret.trim_ascii();
    let digits = digits.strip_prefix(b"0x").or(digits.strip_prefix(b"0X")).unwrap_or(digits);
    let mut octets = Vec::with_capacity(digits.len() / 2);
    let mut high = None;
    for &digit in digits.iter().filter(|digit| !matches!(digit, b':' | b' ' | b'-')) {
        let value = char::from(digit).to_digit(16)? as u8;
        match high.take() {
            None => high = Some(value),
            Some(high) => octets.push(high << 4 | value),
        }
    }
    (high.is_none() && !octets.is_empty()).then_some(octets)
}

fn as_hex(prefix: &[u8], digits: &[u8; 16], secret: &[u8]) -> Vec<u8> {
    let digit = |value: u8| digits[usize::from(value)];
    let octets = secret.iter().flat_map(|octet| [digit(octet >> 4), digit(octet & 0xf)]);
    prefix.iter().copied().chain(octets).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(form: SecretForm, secret: &[u8]) -> Option<Vec<u8>> {
        Some(form.of(secret, TcpAoAlgorithm::Aes128Cmac)?.expose_secret().to_vec())
    }

    #[test]
    fn every_form_is_what_it_says() {
        type Row = (SecretForm, &'static [u8], Option<&'static [u8]>);
        let rows: [Row; 16] = [
            (SecretForm::WithNewline, b"a", Some(b"a\n")),
            (SecretForm::WithCarriageReturn, b"a", Some(b"a\r\n")),
            (SecretForm::Trimmed, b" a\r\n", Some(b"a")),
            (SecretForm::Trimmed, b"a", None),
            (SecretForm::InDoubleQuotes, b"a", Some(b"\"a\"")),
            (SecretForm::WithoutQuotes, b"'a'", Some(b"a")),
            (SecretForm::WithoutQuotes, b"a", None),
            (SecretForm::FromHex, b"0x61:62\n", Some(b"ab")),
            (SecretForm::FromHex, b"616", None),
            (SecretForm::AsHex, b"jk", Some(b"6a6b")),
            (SecretForm::AsUpperHex, b"jk", Some(b"6A6B")),
            (SecretForm::AsPrefixedHex, b"jk", Some(b"0x6a6b")),
            (SecretForm::Padded, b"a", Some(b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")),
            (SecretForm::Padded, b"0123456789abcdef", None),
            (SecretForm::Cut, b"0123456789abcdefg", Some(b"0123456789abcdef")),
            (SecretForm::Compressed, b"0123456789abcdefg", None),
        ];
        for (kind, secret, expected) in rows {
            assert_eq!(form(kind, secret).as_deref(), expected, "{kind:?}");
        }
    }

    #[test]
    fn what_a_kdf_does_concerns_its_own_algorithm_alone() {
        assert!(SecretForm::Padded.of(b"a", TcpAoAlgorithm::HmacSha1).is_none());
    }
}
