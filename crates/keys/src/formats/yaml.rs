//! YAML, as values. Aliases are followed; merge keys (`<<`) and several documents are not read.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScanError};
use zeroize::Zeroizing;

use super::values::{Data, MAX_DEPTH, Value, too_deep};
use crate::{Error, Position};

/// How many values and octets of texts anchors and aliases may copy in all, so that a small file cannot become a large one.
const MAX_COPIED: usize = 4 << 20;

/// Reads the first document of a text, which must be the only one.
pub(super) fn read(text: &str) -> Result<Value, Error> {
    let mut reading = Reading { parser: Parser::new_from_str(text), anchors: HashMap::new(), copied: 0 };
    loop {
        match reading.next()? {
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            // An empty text, or one of comments.
            (Event::StreamEnd, position) => return Ok(Value { position, data: Data::Table(Vec::new()) }),
            (event, position) => {
                let value = reading.value(event, position, 0)?;
                return reading.end().map(|()| value);
            }
        }
    }
}

struct Reading<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// The values with anchors, by number.
    anchors: HashMap<usize, Value>,
    /// The size of all copies so far.
    copied: usize,
}

impl<'a> Reading<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Position), Error> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, position(&span.start))),
            Some(Err(error)) => Err(error_of(&error)),
            None => Err(Error::text("the text ends too early")),
        }
    }

    /// Checks that nothing comes after the document.
    fn end(&mut self) -> Result<(), Error> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentEnd | Event::Nothing, _) => {}
                (_, position) => {
                    return Err(Error::text("only one YAML document is read").at(position));
                }
            }
        }
    }

    /// The value that begins with an event.
    fn value(&mut self, event: Event<'a>, position: Position, depth: usize) -> Result<Value, Error> {
        if depth > MAX_DEPTH {
            return Err(too_deep(position));
        }
        let (anchor, data) = match event {
            Event::Scalar(text, _, anchor, _) => (anchor, Data::Scalar(Zeroizing::new(text.into_owned()))),
            Event::SequenceStart(anchor, _) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break (anchor, Data::List(list)),
                        (event, position) => list.push(self.value(event, position, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(anchor, _) => (anchor, self.table(depth)?),
            Event::Alias(anchor) => {
                let Some(value) = self.anchors.remove(&anchor) else {
                    return Err(Error::text("this alias stands for a value that it is in").at(position));
                };
                let copy = self.copy(&value, position, depth)?;
                self.anchors.insert(anchor, value);
                return Ok(copy);
            }
            _ => return Err(Error::text("expected a value").at(position)),
        };
        let value = Value { position, data };
        if anchor != 0 {
            let copy = self.copy(&value, position, depth)?;
            self.anchors.insert(anchor, copy);
        }
        Ok(value)
    }

    fn table(&mut self, depth: usize) -> Result<Data, Error> {
        let mut members = Vec::new();
        loop {
            let name = match self.next()? {
                (Event::MappingEnd, _) => return Data::table(members),
                (Event::Scalar(name, ..), position) if name == "<<" => {
                    return Err(Error::text("merge keys are not read: write the members here").at(position));
                }
                (Event::Scalar(name, ..), _) => name.into_owned(),
                (_, position) => return Err(Error::text("expected a name").at(position)),
            };
            let (event, position) = self.next()?;
            members.push((name, self.value(event, position, depth + 1)?));
        }
    }

    /// A copy of a value for a place this deep, if it is not too large or goes too deep.
    fn copy(&mut self, value: &Value, position: Position, depth: usize) -> Result<Value, Error> {
        let (size, height) = measure(value);
        if depth + height > MAX_DEPTH {
            return Err(too_deep(position));
        }
        self.copied += size;
        if self.copied > MAX_COPIED {
            return Err(Error::text("anchors and aliases stand for too much").at(position));
        }
        Ok(Value { position, data: value.data.clone() })
    }
}

/// The number of values and octets in a value, itself included, and how many values it has within each other.
fn measure(value: &Value) -> (usize, usize) {
    let inside = |(size, height): (usize, usize), name: &str, value: &Value| {
        let (inner, depth) = measure(value);
        (size + name.len() + inner, height.max(depth + 1))
    };
    match &value.data {
        Data::Scalar(text) => (1 + text.len(), 0),
        Data::List(list) => list.iter().fold((1, 0), |sum, value| inside(sum, "", value)),
        Data::Table(members) => members.iter().fold((1, 0), |sum, (name, value)| inside(sum, name, value)),
    }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

/// The parser's error, whose text may quote the names of anchors but no values.
fn error_of(error: &ScanError) -> Error {
    Error::text(error.info().to_owned()).at(position(error.marker()))
}
