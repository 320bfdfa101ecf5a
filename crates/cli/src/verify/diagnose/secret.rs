//! The same secret in another form: what an editor, a shell or a configuration adds, drops or converts.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::MacKey;
use wireseal_tcp_ao::MasterKey;
use zeroize::Zeroizing;

use crate::hex;

/// Octets of an AES-128 key.
const AES_KEY_LENGTH: usize = 16;

/// The form in which a sender may have entered a secret.
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
    /// The octets that it spells in hexadecimal.
    FromHex,
    /// Its octets, spelled in hexadecimal.
    AsHex,
    AsUpperHex,
    AsPrefixedHex,
    /// AES-128-CMAC: padded with zeros to 16 octets instead of compressed as RFC 5926 says.
    Padded,
    /// AES-128-CMAC: cut to 16 octets instead of compressed as RFC 5926 says.
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

    /// Whether the form is about how the KDF of AES-128-CMAC handles a secret that is not an AES key.
    pub(super) const fn is_of_kdf(self) -> bool {
        matches!(self, Self::Padded | Self::Cut | Self::Compressed)
    }

    /// The secret in this form, if that changes it.
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
            Self::AsHex => hex::encode(secret).into_bytes(),
            Self::AsUpperHex => {
                let mut digits = hex::encode(secret).into_bytes();
                digits.make_ascii_uppercase();
                digits
            }
            Self::AsPrefixedHex => [b"0x", Zeroizing::new(hex::encode(secret)).as_bytes()].concat(),
            Self::Padded if secret.len() < AES_KEY_LENGTH => {
                [secret, &[0; AES_KEY_LENGTH][secret.len()..]].concat()
            }
            Self::Cut if secret.len() > AES_KEY_LENGTH => secret[..AES_KEY_LENGTH].to_vec(),
            Self::Compressed if secret.len() == AES_KEY_LENGTH => {
                MacKey::aes_128_cmac(&[0; AES_KEY_LENGTH]).mac(&[secret]).as_bytes().to_vec()
            }
            Self::Padded | Self::Cut | Self::Compressed => return None,
        })
    }

    /// What a sender does with the secret, after its name in a sentence.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::WithNewline => "takes the secret with a newline (\\n) at its end",
            Self::WithCarriageReturn => "takes the secret with a line end of two octets (\\r\\n)",
            Self::WithBlank => "takes the secret with a blank at its end",
            Self::WithNul => "takes the secret with a NUL octet at its end",
            Self::Trimmed => "takes the secret without the white space or line end that it has here",
            Self::InDoubleQuotes => "takes double quotes around the secret as part of it",
            Self::InSingleQuotes => "takes single quotes around the secret as part of it",
            Self::WithoutQuotes => "takes the secret without the quotes that it has here",
            Self::FromHex => "takes the secret as hexadecimal digits; here it is text",
            Self::AsHex => "takes the secret's hexadecimal digits as text",
            Self::AsUpperHex => "takes the secret's hexadecimal digits, in capitals, as text",
            Self::AsPrefixedHex => "takes the secret's hexadecimal digits, with 0x in front, as text",
            Self::Padded => {
                "pads the secret with zeros to the 16 octets of an AES key instead of compressing it with AES-CMAC (RFC 5926 \
                 §3.1.1.2)"
            }
            Self::Cut => {
                "cuts the secret to the 16 octets of an AES key instead of compressing it with AES-CMAC (RFC 5926 §3.1.1.2)"
            }
            Self::Compressed => {
                "compresses the secret with AES-CMAC although it has the 16 octets of an AES key (RFC 5926 §3.1.1.2)"
            }
        }
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
        use SecretForm::*;
        type Row = (SecretForm, &'static [u8], Option<&'static [u8]>);
        let rows: [Row; 16] = [
            (WithNewline, b"a", Some(b"a\n")),
            (WithCarriageReturn, b"a", Some(b"a\r\n")),
            (Trimmed, b" a\r\n", Some(b"a")),
            (Trimmed, b"a", None),
            (InDoubleQuotes, b"a", Some(b"\"a\"")),
            (WithoutQuotes, b"'a'", Some(b"a")),
            (WithoutQuotes, b"a", None),
            (FromHex, b"0x61:62\n", Some(b"ab")),
            (FromHex, b"616", None),
            (AsHex, b"jk", Some(b"6a6b")),
            (AsUpperHex, b"jk", Some(b"6A6B")),
            (AsPrefixedHex, b"jk", Some(b"0x6a6b")),
            (Padded, b"a", Some(b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")),
            (Padded, b"0123456789abcdef", None),
            (Cut, b"0123456789abcdefg", Some(b"0123456789abcdef")),
            (Compressed, b"0123456789abcdefg", None),
        ];
        for (form, secret, expected) in rows {
            let octets = form.of(secret, TcpAoAlgorithm::Aes128Cmac);
            assert_eq!(octets.as_ref().map(MasterKey::expose_secret), expected, "{form:?}");
        }
        assert!(Padded.of(b"a", TcpAoAlgorithm::HmacSha1).is_none());
    }
}
