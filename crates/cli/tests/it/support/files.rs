//! Files of one test and of the workspace, and documents with examples of the program's output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

/// A folder that is removed when the test ends.
pub struct Files(TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file that only its owner can read.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        set_mode(&path, 0o600);
        path
    }
}

/// A folder with the capture and the keys of the documents' example. Only the owner can read the keys, or the program would warn.
pub fn example() -> Files {
    let files = Files::new();
    for name in ["down.pcap", "keys.toml"] {
        files.file(name, fs::read(crates().join("../docs/example").join(name)).unwrap());
    }
    files
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A file of the workspace, by its path from `crates/`.
pub fn workspace_file(path: &str) -> Vec<u8> {
    fs::read(crates().join(path)).unwrap()
}

/// The folder `crates/` of the workspace.
pub fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

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
