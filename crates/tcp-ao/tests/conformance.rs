//! `docs/conformance-tcp-ao.md` and the tests agree: every row has tests, every test it names exists, and every test
//! that is named after a row stands in it.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rows of the table; the checklist goes on with Linux sockets, which are another crate's.
const ROWS: u32 = 38;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A test as the table names it: the file's path from the workspace root, and the function.
type Test = (String, String);

/// The tests of each row, in the order of the table.
fn table() -> Vec<(u32, Vec<Test>)> {
    let text = fs::read_to_string(workspace().join("docs/conformance-tcp-ao.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let (row, rest) = line.strip_prefix("| AO-")?.split_once(" | ")?;
        // Everything in backquotes that looks like `path::function`.
        let named = rest.split('`').skip(1).step_by(2);
        let tests = named
            .filter_map(|name| name.split_once("::"))
            .map(|(path, function)| (path.into(), function.into()));
        Some((row.parse().unwrap(), tests.collect()))
    });
    rows.collect()
}

/// The names of the functions in a source file.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("fn ")?.split_once('('))
        .map(|(name, _)| name)
}

/// The row that a function is named after.
fn row_of(function: &str) -> Option<u32> {
    function.strip_prefix("ao_")?.split_once('_')?.0.parse().ok()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_row_is_there_once_and_has_a_test() {
    let table = table();
    let rows: Vec<_> = table.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, (1..=ROWS).collect::<Vec<_>>());
    for (row, tests) in table {
        assert!(!tests.is_empty(), "AO-{row} has no test");
    }
}

#[test]
fn every_test_named_exists() {
    for (row, tests) in table() {
        for (path, function) in tests {
            let text = fs::read_to_string(workspace().join(&path))
                .unwrap_or_else(|error| panic!("AO-{row}, {path}: {error}"));
            assert!(functions(&text).any(|name| name == function), "AO-{row}: {path} has no test {function}");
        }
    }
}

#[test]
fn every_test_named_after_a_row_stands_in_it() {
    let named: BTreeMap<u32, BTreeSet<Test>> =
        table().into_iter().map(|(row, tests)| (row, tests.into_iter().collect())).collect();
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    let mut seen = 0;
    for file in files {
        let inside = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = format!("crates/tcp-ao/{}", inside.to_str().unwrap());
        let text = fs::read_to_string(&file).unwrap();
        for (row, function) in functions(&text).filter_map(|name| Some((row_of(name)?, name))) {
            let test = (path.clone(), function.to_owned());
            assert!(
                named.get(&row).is_some_and(|tests| tests.contains(&test)),
                "AO-{row} lacks {path}::{function}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 100, "{seen} tests are named after rows");
}
