//! Documents with examples of the program's output.

use serde_json::Value;

/// Asserts that the first example of JSON in a document is this value, and that the document describes every member.
#[track_caller]
pub fn assert_documented(document: &str, written: &Value) {
    let (_, rest) = document.split_once("```json\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let example: Value = serde_json::from_str(example).unwrap();
    assert_eq!(*written, example, "the document should have\n{written:#}");
    let mut members = Vec::new();
    collect_members(written, &mut members);
    members.retain(|name| !document.contains(&format!("`{name}`")));
    assert!(members.is_empty(), "not described: {members:?}");
}

fn collect_members<'v>(value: &'v Value, members: &mut Vec<&'v str>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(name, value)| {
            members.push(name);
            collect_members(value, members);
        }),
        Value::Array(values) => values.iter().for_each(|value| collect_members(value, members)),
        _ => {}
    }
}
