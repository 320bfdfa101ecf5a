//! The values of data formats: TOML, JSON, YAML and XML, each with its place in the text.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wireseal_tcp_ao::KeyId;
use zeroize::Zeroizing;

use crate::error::Fault;
use crate::place::{self, one_line};
use crate::{Error, Position, Problem};

/// How deeply tables and lists may be nested: far more than any configuration needs, and few enough levels for the stack.
pub(super) const MAX_DEPTH: usize = 64;

/// A value of a text.
#[derive(Clone)]
pub(super) struct Value {
    /// Where it begins.
    pub(super) position: Position,
    /// Its content.
    pub(super) data: Data,
}

/// The content of a value.
#[derive(Clone)]
pub(super) enum Data {
    /// A text, a number or a boolean, as written but without quotes and escapes: YAML and XML do not tell them apart.
    Scalar(Zeroizing<String>),
    /// A list.
    List(Vec<Value>),
    /// A table, in the order of the text or of the names. No name occurs twice.
    Table(Vec<(String, Value)>),
}

impl Value {
    /// Reads TOML.
    pub(super) fn from_toml(text: &str) -> Result<Self, Error> {
        let table = DeTable::parse(text).map_err(|error| {
            let position = error.span().map(|span| Position::of(text, span.start));
            Fault::refused(error.message(), None).error.at(position)
        })?;
        Ok(Self::of_toml(&Places::new(text), table.span().start, DeValue::Table(table.into_inner())))
    }

    /// Consumes the parser's value, so that each part of it is freed once it is read.
    fn of_toml(places: &Places<'_>, offset: usize, value: DeValue<'_>) -> Self {
        let of = |value: Spanned<DeValue<'_>>| Self::of_toml(places, value.span().start, value.into_inner());
        let data = match value {
            DeValue::Table(table) => {
                let members =
                    table.into_iter().map(|(name, value)| (name.into_inner().into_owned(), of(value)));
                Data::Table(members.collect())
            }
            DeValue::Array(list) => Data::List(list.into_iter().map(of).collect()),
            DeValue::String(text) => Data::scalar(&text),
            DeValue::Integer(number) => Data::scalar(number.as_str()),
            DeValue::Float(number) => Data::scalar(number.as_str()),
            DeValue::Boolean(is_true) => Data::scalar(&is_true.to_string()),
            DeValue::Datetime(moment) => Data::scalar(&moment.to_string()),
        };
        Self { position: places.position(offset), data }
    }

    /// Reads JSON.
    pub(super) fn from_json(text: &str) -> Result<Self, Error> {
        let places = Places::new(text);
        Self::of_json(&places, serde_json::from_str(text).map_err(|error| json_error(&error))?, 0)
    }

    fn of_json(places: &Places<'_>, raw: &RawValue, depth: usize) -> Result<Self, Error> {
        let text = raw.get();
        let position = places.position(text.as_ptr().addr() - places.text.as_ptr().addr());
        if depth > MAX_DEPTH {
            return Err(too_deep(position));
        }
        // The parser counts from the start of the value.
        let refused = |error: serde_json::Error| json_error(&error).at(position);
        let data = match text.as_bytes()[0] {
            b'{' => {
                let Members(members) = serde_json::from_str(text).map_err(refused)?;
                let of = |(name, raw)| Ok((name, Self::of_json(places, raw, depth + 1)?));
                Data::table(members.into_iter().map(of).collect::<Result<_, Error>>()?)?
            }
            b'[' => {
                let list: Vec<&RawValue> = serde_json::from_str(text).map_err(refused)?;
                let of = |raw| Self::of_json(places, raw, depth + 1);
                Data::List(list.into_iter().map(of).collect::<Result<_, _>>()?)
            }
            b'"' => {
                let string = serde_json::from_str(text).map_err(refused)?;
                Data::Scalar(Zeroizing::new(string))
            }
            _ => Data::scalar(text),
        };
        Ok(Self { position, data })
    }

    /// The member of a table with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find_map(|(other, value)| (other == name).then_some(value))
    }

    /// The members of a table; empty for any other value.
    pub(super) fn members(&self) -> &[(String, Self)] {
        match &self.data {
            Data::Table(members) => members,
            Data::Scalar(_) | Data::List(_) => &[],
        }
    }

    /// The elements of a list.
    pub(super) fn list(&self, field: &'static str) -> Result<&[Self], Error> {
        match &self.data {
            Data::List(list) => Ok(list),
            Data::Scalar(_) | Data::Table(_) => Err(self.expected(field, "a list")),
        }
    }

    /// A text, a number or a boolean, as written.
    pub(super) fn text(&self, field: &'static str) -> Result<&str, Error> {
        match &self.data {
            Data::Scalar(text) => Ok(text),
            Data::List(_) | Data::Table(_) => Err(self.expected(field, "a string")),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, field: &'static str) -> Result<bool, Error> {
        self.text(field)?.parse().map_err(|_| self.error(field, Error::text("expected true or false")))
    }

    /// A whole number from 0 to `max`.
    pub(super) fn number(&self, field: &'static str, max: u64) -> Result<u64, Error> {
        let number = self.text(field)?.parse().ok().filter(|number| *number <= max);
        number.ok_or_else(|| self.error(field, Problem::OutOfRange { min: 0, max }.into()))
    }

    /// A SendID or RecvID.
    pub(super) fn key_id(&self, field: &'static str) -> Result<KeyId, Error> {
        let id = self.number(field, u8::MAX.into())?;
        Ok(KeyId(u8::try_from(id).unwrap_or_default()))
    }

    /// An error about this value.
    pub(super) fn error(&self, field: &'static str, error: Error) -> Error {
        error.field(field).at(self.position)
    }

    fn expected(&self, field: &'static str, what: &str) -> Error {
        self.error(field, Error::text(format!("expected {what}, found {}", self.data.kind())))
    }

    /// An error about a member that this table lacks.
    pub(super) fn missing(&self, field: &'static str) -> Error {
        self.error(field, Error::text("is missing"))
    }
}

impl Data {
    pub(super) fn scalar(text: &str) -> Self {
        Self::Scalar(Zeroizing::new(text.to_owned()))
    }

    /// A table; an error if a name occurs twice.
    pub(super) fn table(members: Vec<(String, Value)>) -> Result<Self, Error> {
        let mut names = HashSet::with_capacity(members.len());
        match members.iter().find(|(name, _)| !names.insert(name.as_str())) {
            Some((name, value)) => {
                Err(Error::text("is given twice").field(one_line(name)).at(value.position))
            }
            None => Ok(Self::Table(members)),
        }
    }

    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Scalar(_) => "a single value",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl place::Value for &Value {
    fn member(&self, name: &str) -> Option<Self> {
        self.get(name)
    }

    fn members(&self) -> Vec<Self> {
        Value::members(self).iter().map(|(_, value)| value).collect()
    }

    fn element(&self, index: usize) -> Option<Self> {
        self.list("").unwrap_or_default().get(index)
    }

    fn position(&self, _: &str) -> Position {
        self.position
    }

    fn kind(&self) -> &'static str {
        self.data.kind()
    }

    fn word(&self) -> Option<String> {
        self.text("").ok().map(str::to_owned)
    }
}

/// Whether a text is a JSON object that has, at any depth, a member of this name whose value begins with this character.
pub(super) fn has_member(text: &str, name: &str, opening: char) -> bool {
    let is_object = text.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('"'));
    is_object
        && text.match_indices(&format!("\"{name}\"")).any(|(start, member)| {
            let value = text[start + member.len()..].trim_start().strip_prefix(':');
            value.is_some_and(|value| value.trim_start().starts_with(opening))
        })
}

/// An error about tables and lists that go deeper than [`MAX_DEPTH`].
pub(super) fn too_deep(position: Position) -> Error {
    Error::text("lists or tables are nested too deeply").at(position)
}

fn json_error(error: &serde_json::Error) -> Error {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let position = Position { line: error.line(), column: error.column().max(1) };
    Fault::refused(message, None).error.at(position)
}

/// The members of an object, in order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// Finds lines and columns without counting from the start of the text, or of a long line, each time.
pub(super) struct Places<'a> {
    text: &'a str,
    /// Known places of some octets: at least each line's start, and one in every [`Self::STEP`] octets.
    known: Vec<(usize, Position)>,
}

impl<'a> Places<'a> {
    const STEP: usize = 1024;

    pub(super) fn new(text: &'a str) -> Self {
        let mut known = vec![(0, Position { line: 1, column: 1 })];
        let (mut line, mut column, mut last) = (1, 1, 0);
        for (offset, c) in text.char_indices() {
            if offset >= last + Self::STEP {
                known.push((offset, Position { line, column }));
                last = offset;
            }
            column += 1;
            if c == '\n' {
                (line, column, last) = (line + 1, 1, offset + 1);
                known.push((last, Position { line, column }));
            }
        }
        Self { text, known }
    }

    /// The place of an octet of the text.
    pub(super) fn position(&self, offset: usize) -> Position {
        let next = self.known.partition_point(|(known, _)| *known <= offset);
        let (known, at) = self.known[next.saturating_sub(1)];
        let between = self.text.get(known..offset).unwrap_or_default();
        Position { line: at.line, column: at.column + between.chars().count() }
    }
}
