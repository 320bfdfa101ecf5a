//! Key chains of RFC 8177 and RFC 9648 in XML, as NETCONF (RFC 6241) and RESTCONF (RFC 8040) carry them. Elements are known by their
//! names, whatever prefixes they have.

use std::collections::HashSet;
use std::fmt::Write;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use serde::de::value::{Error as Refused, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value as Json;
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::Zeroizing;

use super::chains;
use super::file::{Chain, Content, Neighbor};
use super::table::{Shows, Table, begins};
use super::values::{Data, MAX_DEPTH, Places, Value, too_deep};
use super::write::lose_ranks;
use crate::error::Fault;
use crate::json::read_container;
use crate::text::Collide;
use crate::write::filled;
use crate::{Error, Position, place};

pub(super) const TABLE: Table = Table {
    name: "xml",
    about: "Key chains in XML, as NETCONF has them (RFC 8177 with RFC 9648)",
    extension: Some(&["xml"]),
    shows: |text| {
        let rest = text.strip_prefix('<').unwrap_or_default();
        Shows::if_(
            rest.starts_with("?xml")
                || begins(rest, &["rpc-reply", "key-chains", "key-chain", "data", "config"]),
        )
    },
    read,
    fit: without_own,
    write: Some(|chains, losses| {
        let chains = chains::write(chains, losses, lose_ranks, is_character)?;
        Ok(chains.written_as(|text, document| {
            let members = document.as_object().into_iter().flatten();
            members.for_each(|(name, value)| write_element(text, 0, name, value));
        }))
    }),
    change: None,
    ..chains::TOML
};

/// The namespace of RFC 8177's module.
const NAMESPACE: &str = "urn:ietf:params:xml:ns:yang:ietf-key-chain";

fn read(text: &str, may: Collide) -> Result<Content, Error> {
    if !text.contains(NAMESPACE) {
        return Err(Error::text(format!("has no element of the namespace {NAMESPACE}")));
    }
    let mut reading = Reading { reader: Reader::from_str(text), places: Places::new(text) };
    let root = reading.root()?;
    let located = |fault: Fault| fault.located(text, Some(&root), None);
    Ok(chains::read(&read_container(&root, may).map_err(located)?, Some(&root)))
}

struct Reading<'a> {
    reader: Reader<&'a [u8]>,
    places: Places<'a>,
}

impl<'a> Reading<'a> {
    /// The next event that can matter, and where it begins.
    fn next(&mut self) -> Result<(Event<'a>, Position), Error> {
        loop {
            let position = self.position();
            let event = self.reader.read_event();
            match event.map_err(|error| self.refused(&error))? {
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::DocType(_) => {
                    return Err(Error::text("a document type is not read: remove it").at(position));
                }
                event => return Ok((event, position)),
            }
        }
    }

    fn position(&self) -> Position {
        self.places.position(usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX))
    }

    fn refused(&self, error: &quick_xml::Error) -> Error {
        // Its text may quote the document.
        let what = match error {
            quick_xml::Error::IllFormed(_) => "an element does not end where it must",
            _ => "this is not well-formed XML",
        };
        let offset = usize::try_from(self.reader.error_position()).unwrap_or(usize::MAX);
        Error::text(what).at(self.places.position(offset))
    }

    /// All key chains of the document, as the container's members.
    fn root(&mut self) -> Result<Value, Error> {
        let position = self.position();
        let mut chains = Vec::new();
        let mut members = Vec::new();
        let mut depth = 0_usize;
        loop {
            let (event, position) = self.next()?;
            match &event {
                Event::Start(tag) | Event::Empty(tag) => match tag.local_name().as_ref() {
                    "key-chains" => {
                        for (name, value) in self.element(tag, is_open(&event), position, 0)?.into_members() {
                            match value.data {
                                Data::List(list) if name == "key-chain" => chains.extend(list),
                                data => members.push((name, Value { data, ..value })),
                            }
                        }
                    }
                    "key-chain" => chains.push(self.element(tag, is_open(&event), position, 0)?),
                    _ => depth += usize::from(is_open(&event)),
                },
                Event::End(_) => depth = depth.saturating_sub(1),
                Event::Eof if depth > 0 => return Err(Error::text("the text ends too early").at(position)),
                Event::Eof => break,
                _ => {}
            }
        }
        if !chains.is_empty() {
            members.push(("key-chain".to_owned(), Value { position, data: Data::List(chains) }));
        }
        Ok(Value { position, data: Data::table(members)? })
    }

    /// The element that begins with a tag, up to its end. One that is not open has no content.
    fn element(
        &mut self,
        tag: &BytesStart<'_>,
        mut is_open: bool,
        position: Position,
        depth: usize,
    ) -> Result<Value, Error> {
        if depth > MAX_DEPTH {
            return Err(too_deep(position));
        }
        if is_deleted(tag) {
            return Err(
                Error::text("is deleted here: give the configuration, not a change of it").at(position)
            );
        }
        let name = tag.local_name().as_ref().to_owned();
        let mut members: Vec<(String, Value)> = Vec::new();
        let mut pieces: Vec<Zeroizing<String>> = Vec::new();
        while is_open {
            let (event, position) = self.next()?;
            match event {
                Event::Start(ref tag) | Event::Empty(ref tag) => {
                    let name = member_name(tag.local_name().as_ref());
                    let value = self.element(tag, self::is_open(&event), position, depth + 1)?;
                    match members.last_mut().filter(|(last, _)| *last == name) {
                        Some((_, Value { data: Data::List(list), .. })) => list.push(value),
                        _ if is_list(&name) => {
                            members.push((name, Value { position, data: Data::List(vec![value]) }));
                        }
                        _ => members.push((name, value)),
                    }
                }
                Event::Text(piece) => pieces.push(Zeroizing::new(piece.xml10_content().into_owned())),
                Event::CData(piece) => pieces.push(Zeroizing::new(piece.xml10_content().into_owned())),
                Event::GeneralRef(entity) => {
                    let known = || Some(resolve_predefined_entity(&entity.xml10_content())?.chars().next());
                    let character = entity.resolve_char_ref().ok().flatten().or_else(|| known().flatten());
                    let unknown = || Error::text("only XML's own entities are read").at(position);
                    pieces.push(Zeroizing::new(character.ok_or_else(unknown)?.to_string()));
                }
                Event::End(_) => is_open = false,
                _ => return Err(Error::text("the text ends too early").at(position)),
            }
        }
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let text = filled(length, |text| pieces.iter().for_each(|piece| text.push_str(piece)));
        let is_blank = text.trim().is_empty();
        let data = match name.as_str() {
            "always" | "no-end-time" if members.is_empty() && is_blank => {
                Data::List(vec![Value { position, data: Data::scalar("") }])
            }
            _ if !members.is_empty() && !is_blank => {
                return Err(Error::text("has both text and elements")
                    .field(place::one_line(&name))
                    .at(position));
            }
            _ if !members.is_empty() || is_table(&name) => Data::table(members)?,
            // Every octet of these counts.
            "keystring" | "name" | "description" => Data::Scalar(text),
            // A prefix is the text's own.
            "crypto-algorithm" => Data::scalar(text.trim().rsplit(':').next().unwrap_or_default()),
            _ => Data::scalar(text.trim()),
        };
        Ok(Value { position, data })
    }
}

/// Whether an event begins an element that has an end of its own.
const fn is_open(event: &Event<'_>) -> bool {
    matches!(event, Event::Start(_))
}

/// Whether an `<edit-config>` deletes this element.
fn is_deleted(tag: &BytesStart<'_>) -> bool {
    let mut attributes = tag.attributes();
    attributes.with_checks(false).flatten().any(|attribute| {
        attribute.key.local_name().as_ref() == "operation"
            && ["delete", "remove"].contains(&&*attribute.value)
    })
}

/// The name of an element as a member in JSON.
fn member_name(name: &str) -> String {
    match name {
        "authentication" => format!("ietf-tcp:{name}"),
        "mac-length" | "allow-short-secret" => format!("wireseal:{name}"),
        _ => name.to_owned(),
    }
}

fn is_list(name: &str) -> bool {
    ["key-chain", "key"].contains(&name)
}

/// Whether an element without content is a table without members.
fn is_table(name: &str) -> bool {
    let tables = [
        "key-chains",
        "lifetime",
        "send-lifetime",
        "accept-lifetime",
        "send-accept-lifetime",
        "key-string",
        "ao",
    ];
    is_list(name) || tables.contains(&name)
}

impl Value {
    fn into_members(self) -> Vec<(String, Self)> {
        match self.data {
            Data::Table(members) => members,
            Data::Scalar(_) | Data::List(_) => Vec::new(),
        }
    }
}

/// Values as serde sees them. Numbers and booleans are texts, which their fields parse.
impl<'de> Deserializer<'de> for &'de Value {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match &self.data {
            Data::Scalar(text) => visitor.visit_borrowed_str(text),
            Data::List(list) => visitor.visit_seq(SeqDeserializer::new(list.iter())),
            Data::Table(members) => {
                let members = members.iter().map(|(name, value)| (name.as_str(), value));
                visitor.visit_map(MapDeserializer::new(members))
            }
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let number = self.text("").ok().and_then(|text| text.parse().ok());
        visitor.visit_i128(number.ok_or_else(|| Refused::custom("expected a whole number"))?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let is_true = self.text("").ok().and_then(|text| text.parse().ok());
        visitor.visit_bool(is_true.ok_or_else(|| Refused::custom("expected true or false"))?)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit_struct newtype_struct seq tuple tuple_struct
        map struct enum identifier
    }
}

impl<'de> IntoDeserializer<'de, Refused> for &'de Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The chain without keys and descriptions that standard modules cannot express in XML.
fn without_own(mut chain: Chain, _: &mut HashSet<Neighbor>, losses: &mut Vec<String>) -> Option<Chain> {
    let names: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
    let mut names = names.iter();
    chain.keys.retain(|key| {
        let name = names.next().map_or("", String::as_str);
        let has_identity = matches!(key.algorithm, TcpAoAlgorithm::HmacSha1 | TcpAoAlgorithm::Aes128Cmac);
        let is_standard = has_identity && key.mac_length == key.algorithm.default_mac_length();
        if !is_standard {
            let (algorithm, length) = (key.algorithm, key.mac_length);
            losses.push(format!(
                "key {name} is left out: RFC 9648 has no {algorithm} with MACs of {length} octets"
            ));
        }
        is_standard
    });
    let is_written = |text: &String| text.chars().all(is_character);
    if chain.description.take_if(|description| !is_written(description)).is_some() {
        losses.push(format!(
            "chain {:?}: its description, which has characters that XML does not have",
            chain.name
        ));
    }
    (!chain.keys.is_empty()).then_some(chain)
}

/// Whether XML 1.0 has a character (§2.2).
const fn is_character(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

/// Writes a member of JSON as an element, or as one for each element of a list (RFC 7951, RFC 7950 §7.8.5).
fn write_element(text: &mut String, depth: usize, name: &str, value: &Json) {
    let (module, local) = name.split_once(':').map_or((None, name), |(module, local)| (Some(module), local));
    let open = |text: &mut String| {
        let _ = write!(text, "{:1$}<{local}", "", 2 * depth);
        if let Some(module) = module {
            let _ = write!(text, " xmlns=\"{}\"", module_namespace(module));
        }
    };
    match value {
        Json::Array(list) => list.iter().for_each(|value| write_element(text, depth, name, value)),
        Json::Null => {
            open(text);
            text.push_str("/>\n");
        }
        Json::Object(members) => {
            open(text);
            text.push_str(">\n");
            // The keys of a list come first.
            let is_key = |name: &str| ["name", "key-id"].contains(&name);
            for keys in [true, false] {
                let of_kind = members.iter().filter(|(name, _)| is_key(name) == keys);
                of_kind.for_each(|(name, value)| write_element(text, depth + 1, name, value));
            }
            let _ = writeln!(text, "{:1$}</{local}>", "", 2 * depth);
        }
        Json::String(string) => {
            open(text);
            if let ("crypto-algorithm", Some((module, _))) = (local, string.split_once(':')) {
                let _ = write!(text, " xmlns:{module}=\"{}\"", module_namespace(module));
            }
            text.push('>');
            for c in string.chars() {
                match c {
                    '&' | '<' | '>' | '\r' => _ = write!(text, "&#{};", u32::from(c)),
                    c => text.push(c),
                }
            }
            let _ = writeln!(text, "</{local}>");
        }
        Json::Bool(_) | Json::Number(_) => {
            open(text);
            let _ = writeln!(text, ">{value}</{local}>");
        }
    }
}

/// The namespace of one of IETF's modules.
fn module_namespace(module: &str) -> String {
    format!("urn:ietf:params:xml:ns:yang:{module}")
}
