//! BIRD configuration: the `keys` of `protocol bgp` (BIRD 2.17 and 3.1, "BGP", options `authentication` and `keys`).

use std::collections::HashMap;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::Lifetime;
use wireseal_tcp_ao::{KeyId, OptionCoverage};
use zeroize::Zeroizing;

use super::obscured::hexadecimal;
use super::words::{Dialect, Kind, Word, Words};
use super::{Chain, ChainKey, Notation, Preference, Secret, TextError, TextProblem};

/// What Linux makes of the MAC length of 0 that BIRD asks for.
const MAC_LENGTH: usize = 12;

/// The protocols with keys for TCP-AO, each with its neighbor, or a bare `keys` block. Protocols without a name get BIRD's:
/// `bgp1`, `bgp2` and so on.
pub(super) fn read(text: &str) -> Result<Vec<Chain>, TextError> {
    let mut reader = Reader { words: Words::new(text, Dialect::Bird), texts: HashMap::new() };
    let mut templates: HashMap<&str, Protocol> = HashMap::new();
    let mut chains = Vec::new();
    let mut unnamed = 0;
    let mut starts_statement = true;
    while let Some(word) = reader.words.next_word()? {
        if starts_statement && word.is("define") {
            reader.definition()?;
        } else if starts_statement && (word.is("protocol") || word.is("template")) {
            let Some(header) = reader.header()? else { continue };
            let mut protocol = header.from.and_then(|from| templates.get(from)).cloned().unwrap_or_default();
            reader.protocol(&mut protocol)?;
            if header.name.is_empty() {
                unnamed += 1;
            }
            if word.is("protocol") {
                let name =
                    if header.name.is_empty() { format!("bgp{unnamed}") } else { header.name.to_owned() };
                chains.extend(protocol.clone().chain(name));
            }
            templates.insert(header.name, protocol);
        } else if starts_statement && word.is("keys") {
            reader.block("keys")?;
            let keys = reader.keys()?;
            if !keys.is_empty() {
                chains.push(Chain { keys, ..Chain::default() });
            }
        } else if word.kind == Kind::Open {
            reader.words.skip_block()?;
        }
        starts_statement = matches!(word.kind, Kind::End | Kind::Open | Kind::Close)
            || word.is("define")
            || word.is("protocol")
            || word.is("template")
            || word.is("keys");
    }
    Ok(chains)
}

/// `protocol bgp NAME from TEMPLATE {`; name and template are optional.
struct Header<'a> {
    name: &'a str,
    from: Option<&'a str>,
}

/// What matters of a protocol or template.
#[derive(Clone, Default)]
struct Protocol {
    /// Whether its `authentication` is `ao`, if it has one.
    is_ao: Option<bool>,
    description: Option<String>,
    neighbor: Option<IpCidr>,
    keys: Vec<ChainKey>,
}

impl Protocol {
    fn chain(self, name: String) -> Option<Chain> {
        let has_keys = !self.keys.is_empty() && self.is_ao != Some(false);
        has_keys.then(|| Chain {
            name,
            description: self.description,
            accept_tolerance: 0,
            peers: self.neighbor.into_iter().collect(),
            keys: self.keys,
            lacks_authentication: self.is_ao.is_none(),
        })
    }
}

struct Reader<'a> {
    words: Words<'a>,
    /// The values of `define`, by name.
    texts: HashMap<&'a str, Word<'a>>,
}

impl<'a> Reader<'a> {
    /// `NAME = VALUE;` after `define`, if the value is one word.
    fn definition(&mut self) -> Result<(), TextError> {
        let name = self.words.expect("define")?;
        let mut value = None;
        let mut count = 0;
        loop {
            let word = self.words.expect("define")?;
            match word.kind {
                Kind::End | Kind::Close => break,
                Kind::Open => self.words.skip_block()?,
                _ if word.is("=") && count == 0 => {}
                _ => (value, count) = (Some(word), count + 1),
            }
        }
        if let (Some(value), 1) = (value, count) {
            self.texts.insert(unquoted(name.text()), value);
        }
        Ok(())
    }

    /// The header of a BGP protocol or template; skips one of another kind.
    fn header(&mut self) -> Result<Option<Header<'a>>, TextError> {
        let kind = self.words.expect("protocol")?;
        let mut names = Vec::new();
        loop {
            let word = self.words.expect("protocol")?;
            match word.kind {
                Kind::Open if kind.is("bgp") => break,
                Kind::Open => {
                    self.words.skip_block()?;
                    return Ok(None);
                }
                Kind::End | Kind::Close => return Ok(None),
                _ => names.push(word),
            }
        }
        Ok(Some(match names[..] {
            [name] => Header { name: unquoted(name.text()), from: None },
            [from, template] if from.is("from") => Header { name: "", from: Some(unquoted(template.text())) },
            [name, from, template] if from.is("from") => {
                Header { name: unquoted(name.text()), from: Some(unquoted(template.text())) }
            }
            _ => Header { name: "", from: None },
        }))
    }

    /// The inside of a protocol, up to its `}`.
    fn protocol(&mut self, protocol: &mut Protocol) -> Result<(), TextError> {
        loop {
            let word = self.words.expect("protocol")?;
            match word.kind {
                Kind::Close => return Ok(()),
                Kind::End => continue,
                Kind::Open => self.words.skip_block()?,
                _ if word.is("keys") => {
                    self.block("keys")?;
                    protocol.keys = self.keys()?;
                    continue;
                }
                _ if word.is("neighbor") => {
                    protocol.neighbor = self.neighbor()?.or(protocol.neighbor);
                    continue;
                }
                _ if word.is("authentication") => {
                    let method = self.words.expect("authentication")?;
                    protocol.is_ao = Some(method.is("ao"));
                }
                _ if word.is("description") => {
                    let text = self.words.expect("description")?;
                    if let Kind::Quoted(text) = text.kind {
                        protocol.description = Some(text.to_owned());
                    }
                }
                _ => {}
            }
            if self.skip_statement()? {
                return Ok(());
            }
        }
    }

    /// Skips the rest of a statement. Returns whether the block around it ended too.
    fn skip_statement(&mut self) -> Result<bool, TextError> {
        loop {
            match self.words.expect("statement")?.kind {
                Kind::End => return Ok(false),
                Kind::Close => return Ok(true),
                Kind::Open => self.words.skip_block()?,
                _ => {}
            }
        }
    }

    /// Takes the next word, which must be the expected one.
    fn next(
        &mut self,
        field: &'static str,
        expected: &'static str,
        is_it: impl FnOnce(&Word<'_>) -> bool,
    ) -> Result<(), TextError> {
        let word = self.words.expect(field)?;
        if is_it(&word) { Ok(()) } else { Err(word.error(field, TextProblem::Expected(expected))) }
    }

    /// `{`
    fn block(&mut self, field: &'static str) -> Result<(), TextError> {
        self.next(field, "{", |word| word.kind == Kind::Open)
    }

    /// `ADDRESS as ...;` or `range PREFIX ...;` after `neighbor`.
    fn neighbor(&mut self) -> Result<Option<IpCidr>, TextError> {
        let mut neighbor = None;
        loop {
            let word = self.words.expect("neighbor")?;
            match word.kind {
                Kind::End => return Ok(neighbor),
                Kind::Plain(text) if neighbor.is_none() => {
                    let text = self.texts.get(unquoted(text)).map_or(text, Word::text);
                    let (address, _interface) = text.split_once('%').unwrap_or((text, ""));
                    let is_address = address.contains(['.', ':']);
                    neighbor = address.parse().ok().filter(|_| is_address);
                }
                Kind::Close | Kind::Open => return Err(word.error("neighbor", TextProblem::Expected(";"))),
                _ => {}
            }
        }
    }

    /// The keys, up to the `}` after them.
    fn keys(&mut self) -> Result<Vec<ChainKey>, TextError> {
        let mut keys = Vec::new();
        loop {
            let word = self.words.expect("keys")?;
            match word.kind {
                Kind::Close => return Ok(keys),
                Kind::End => {}
                _ if word.is("key") => {
                    self.block("key")?;
                    keys.push(self.key(&word)?);
                }
                _ => return Err(word.error("keys", TextProblem::Expected("key { ... };"))),
            }
        }
    }

    /// A key, up to the `}` after it. As in BIRD, the last of several values counts.
    fn key(&mut self, at: &Word<'a>) -> Result<ChainKey, TextError> {
        let (mut send_id, mut recv_id, mut secret, mut algorithm) = (None, None, None, None);
        let mut preference = Preference::Ordinary;
        loop {
            let word = self.words.expect("key")?;
            match word.kind {
                Kind::Close => break,
                Kind::End => continue,
                _ if word.is("id") => {
                    let id = self.id("id")?;
                    (send_id, recv_id) = (Some(id), Some(id));
                }
                _ if word.is("send") => {
                    self.next("send id", "id", |word| word.is("id"))?;
                    send_id = Some(self.id("send id")?);
                }
                _ if word.is("recv") => {
                    self.next("recv id", "id", |word| word.is("id"))?;
                    recv_id = Some(self.id("recv id")?);
                }
                _ if word.is("secret") => secret = Some(self.secret()?),
                _ if word.is("algorithm") => {
                    algorithm = Some(self.algorithm()?);
                    continue;
                }
                _ if word.is("preferred") && preference != Preference::Deprecated => {
                    preference = Preference::Preferred;
                }
                _ if word.is("deprecated") && preference != Preference::Preferred => {
                    preference = Preference::Deprecated;
                }
                _ if word.is("preferred") || word.is("deprecated") => {
                    let reason = "a key cannot be both preferred and deprecated";
                    return Err(word.error("key", TextProblem::Refused(reason)));
                }
                _ => {
                    let known = "id, send id, recv id, secret, algorithm, preferred or deprecated";
                    return Err(word.error("key", TextProblem::Expected(known)));
                }
            }
            self.next("key", ";", |word| word.kind == Kind::End)?;
        }
        let missing = |field| at.error(field, TextProblem::Missing);
        let send_id: KeyId = send_id.ok_or_else(|| missing("send id"))?;
        Ok(ChainKey {
            position: Some(at.position()),
            key_id: send_id.0.into(),
            send_id,
            recv_id: recv_id.ok_or_else(|| missing("recv id"))?,
            algorithm: algorithm.unwrap_or(TcpAoAlgorithm::HmacSha1),
            mac_length: MAC_LENGTH,
            options: OptionCoverage::Covered,
            secret: secret.ok_or_else(|| missing("secret"))?,
            send: Lifetime::ALWAYS,
            accept: Lifetime::ALWAYS,
            preference,
        })
    }

    fn id(&mut self, field: &'static str) -> Result<KeyId, TextError> {
        let word = self.words.expect(field)?;
        let value = self.texts.get(word.text()).unwrap_or(&word);
        value.key_id(field)
    }

    /// A text, octets in hexadecimal, or the name of a text.
    fn secret(&mut self) -> Result<Secret, TextError> {
        let word = self.words.expect("secret")?;
        let value = match word.kind {
            Kind::Plain(name) => self.texts.get(unquoted(name)).unwrap_or(&word),
            _ => &word,
        };
        match value.kind {
            Kind::Quoted(text) => {
                Ok(Secret::new(Zeroizing::new(text.as_bytes().to_vec()), Notation::Text))
            }
            Kind::Plain(text) => bytestring(text)
                .map(|octets| Secret::new(octets, Notation::Hexadecimal))
                .ok_or_else(|| {
                    let expected = "a text in quotes, hex: with pairs of digits, 16 or more pairs of digits, or a name \
                                    from a define above";
                    word.error("secret", TextProblem::Expected(expected))
                }),
            _ => Err(word.error("secret", TextProblem::Missing)),
        }
    }

    /// The words of an algorithm, and the `;` after them.
    fn algorithm(&mut self) -> Result<TcpAoAlgorithm, TextError> {
        let first = self.words.expect("algorithm")?;
        let mut name = first.text().to_owned();
        loop {
            let word = self.words.expect("algorithm")?;
            match word.kind {
                Kind::End => break,
                // Anything longer than a name may be a secret after a missing ";".
                Kind::Plain(text) if name.len() < 32 => {
                    name.push(' ');
                    name.push_str(text);
                }
                _ => return Err(word.error("algorithm", TextProblem::Expected(";"))),
            }
        }
        let name = if name.contains(' ') { name } else { String::new() };
        name.parse().map_err(|error| first.error("algorithm", TextProblem::Algorithm(error)))
    }
}

/// Octets as BIRD writes them: after `hex:`, or 16 or more pairs of digits without it.
fn bytestring(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    match text.strip_prefix("hex:") {
        Some(digits) => hexadecimal(digits),
        None => hexadecimal(text).filter(|octets| octets.len() >= 16),
    }
}

/// A symbol without apostrophes around it.
fn unquoted(symbol: &str) -> &str {
    symbol.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\'')).unwrap_or(symbol)
}
