//! The published schemas of JSON, as tests hold the program to them.
//!
//! Readers get open schemas, because members and words may be added. Tests close them: what is written and not in the schema fails, and
//! so does what is in the schema and never written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jsonschema::{Draft, Resource, Validator};
use serde_json::{Value, json};

/// A schema and the outputs that it was held against.
pub struct Schema {
    name: &'static str,
    open: Validator,
    closed: Validator,
    /// Without references.
    whole: Value,
    /// The places of all properties, and of the optional ones.
    properties: BTreeSet<String>,
    optional: BTreeSet<String>,
    /// The properties that some output had, and those that some output lacked.
    seen: BTreeSet<String>,
    lacked: BTreeSet<String>,
}

impl Schema {
    pub fn load(name: &'static str) -> Self {
        let root = file(name);
        assert_eq!(root["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        jsonschema::meta::validate(&root).unwrap_or_else(|error| panic!("{name}: {error}"));
        let build = |schema: &Value| {
            let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
            let options = ["key.json", "verify.json"].into_iter().fold(options, |options, name| {
                let uri = format!("json-schema:///{name}");
                options.with_resource(uri, Resource::from_contents(file(name)))
            });
            options.build(schema).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let whole = without_references(&root, &root);
        let mut closed = whole.clone();
        close(&mut closed);
        let (open, closed) = (build(&root), build(&closed));
        let [mut properties, mut optional, seen, lacked] = Default::default();
        collect(&whole, "", &mut properties, &mut optional);
        Self { name, open, closed, whole, properties, optional, seen, lacked }
    }

    /// Asserts that an output is as the schema says, with nothing more, and that the schema refuses it with any one fault.
    #[track_caller]
    pub fn holds(&mut self, output: &Value) {
        for (validator, how) in [(&self.open, "open"), (&self.closed, "closed")] {
            let errors: Vec<_> = validator
                .iter_errors(output)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{} ({how}): {errors:#?}\n{output:#}", self.name);
        }
        let mut new = Vec::new();
        let places = &mut [&mut self.seen, &mut self.lacked];
        visit(&self.whole, output, "", "", places, &mut new);
        // Each kind of place once: the outputs have thousands of places.
        for (pointer, is_required) in new {
            let with = |change: &dyn Fn(&mut Value)| {
                let mut changed = output.clone();
                change(changed.pointer_mut(&pointer).unwrap());
                changed
            };
            let wrong = if output.pointer(&pointer).unwrap().is_object() {
                json!(7)
            } else {
                json!({ "not": "this" })
            };
            let wrong = with(&|value| *value = wrong.clone());
            assert!(!self.open.is_valid(&wrong), "{}: another type at {pointer} is not refused", self.name);
            let (parent, member) = pointer.rsplit_once('/').unwrap();
            let without = |value: &mut Value| _ = value.as_object_mut().unwrap().remove(member);
            let mut changed = output.clone();
            without(changed.pointer_mut(parent).unwrap());
            assert_eq!(self.open.is_valid(&changed), !is_required, "{}: without {pointer}", self.name);
            let mut more = output.clone();
            more.pointer_mut(parent)
                .unwrap()
                .as_object_mut()
                .unwrap()
                .insert("of a later version".to_owned(), json!(1));
            assert!(
                self.open.is_valid(&more),
                "{}: readers have to bear a new member of {parent}",
                self.name
            );
            assert!(!self.closed.is_valid(&more), "{}: a new member of {parent} is not noticed", self.name);
        }
    }

    /// Asserts that the outputs had every member of the schema, and that those that it does not require were not in all of them.
    #[track_caller]
    pub fn was_seen_whole(&self) {
        let missing: Vec<_> = self.properties.difference(&self.seen).collect();
        assert!(missing.is_empty(), "{}: no output has {missing:#?}", self.name);
        let always: Vec<_> = self.optional.difference(&self.lacked).collect();
        assert!(always.is_empty(), "{}: every output has {always:#?}, so they are to be required", self.name);
    }
}

/// A schema with what its references name in their places, and each `allOf` as one.
fn without_references(schema: &Value, root: &Value) -> Value {
    let members = match schema {
        Value::Object(members) => members,
        Value::Array(elements) => {
            return elements.iter().map(|element| without_references(element, root)).collect();
        }
        other => return other.clone(),
    };
    if let Some(target) = members.get("$ref").and_then(Value::as_str) {
        let (name, pointer) = target.split_once('#').unwrap_or((target, ""));
        let other = if name.is_empty() { root.clone() } else { file(name) };
        return without_references(other.pointer(pointer).unwrap(), &other);
    }
    if let Some(all) = members.get("allOf").and_then(Value::as_array) {
        let mut parts = all.iter().map(|part| without_references(part, root));
        let mut one = parts.next().unwrap();
        for part in parts {
            one["properties"]
                .as_object_mut()
                .unwrap()
                .extend(part["properties"].as_object().unwrap().clone());
            one["required"].as_array_mut().unwrap().extend(part["required"].as_array().unwrap().clone());
        }
        return one;
    }
    members.iter().map(|(name, value)| (name.clone(), without_references(value, root))).collect()
}

/// The alternatives of a schema, each with its place: what a member `type` tells apart has places of its own.
fn alternatives<'s>(schema: &'s Value, at: &str) -> impl Iterator<Item = (String, &'s Value)> {
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    alternatives.map(move |alternative| match alternative["properties"]["type"]["const"].as_str() {
        Some(name) => (format!("{at}/{name}"), alternative),
        None => (at.to_owned(), alternative),
    })
}

fn collect(schema: &Value, at: &str, properties: &mut BTreeSet<String>, optional: &mut BTreeSet<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{at}/{name}");
        collect(property, &place, properties, optional);
        if !is_required(schema, name) {
            optional.insert(place.clone());
        }
        properties.insert(place);
    }
    if let Some(elements) = schema.get("items") {
        collect(elements, &format!("{at}/items"), properties, optional);
    }
    for (at, part) in alternatives(schema, at) {
        collect(part, &at, properties, optional);
    }
}

/// Notes which properties an output has and lacks; adds where those are that were not seen before, and whether they are required.
fn visit(
    schema: &Value,
    output: &Value,
    at: &str,
    pointer: &str,
    places: &mut [&mut BTreeSet<String>; 2],
    new: &mut Vec<(String, bool)>,
) {
    if let Some(members) = output.as_object() {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{at}/{name}");
            let Some(member) = members.get(name) else {
                places[1].insert(place);
                continue;
            };
            let pointer = format!("{pointer}/{name}");
            visit(property, member, &place, &pointer, places, new);
            if places[0].insert(place) {
                new.push((pointer, is_required(schema, name)));
            }
        }
    }
    for (number, element) in output.as_array().into_iter().flatten().enumerate() {
        visit(&schema["items"], element, &format!("{at}/items"), &format!("{pointer}/{number}"), places, new);
    }
    for (at, part) in alternatives(schema, at) {
        let named = part["properties"]["type"].get("const");
        if named.is_none() || named == output.get("type") {
            visit(part, output, &at, pointer, places, new);
        }
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|all| all.iter().any(|required| required == name))
}

/// Closes a schema: no other members, and of words that may become more only those of today.
fn close(schema: &mut Value) {
    if let Some(alternatives) = schema.get_mut("anyOf").and_then(Value::as_array_mut)
        && alternatives.iter().any(|alternative| alternative.get("enum").is_some())
    {
        alternatives.retain(|alternative| *alternative != json!({ "type": "string" }));
    }
    match schema {
        Value::Object(members) => {
            if members.contains_key("properties") && members.contains_key("type") {
                members.insert("additionalProperties".to_owned(), json!(false));
            }
            members.values_mut().for_each(close);
        }
        Value::Array(elements) => elements.iter_mut().for_each(close),
        _ => {}
    }
}

fn file(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}
