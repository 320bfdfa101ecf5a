//! `docs/conformance-*.md` and the tests agree: every row has tests, every test it names exists, and every test that is named
//! after a row stands in it.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// One of the two tables.
struct Table {
    document: &'static str,
    /// What the name of a row begins with.
    row_prefix: &'static str,
    /// What the name of a test that shows a row begins with.
    test_prefix: &'static str,
    rows: u32,
    /// Where tests are named after rows.
    crates: &'static [&'static str],
    /// How many such tests there are at least.
    least: usize,
}

const TCP_AO: Table = Table {
    document: "docs/conformance-tcp-ao.md",
    row_prefix: "AO",
    test_prefix: "ao_",
    rows: 43,
    crates: &["crates/tcp-ao", "crates/linux", "interop/linux/driver"],
    least: 150,
};

const QUIC: Table = Table {
    document: "docs/conformance-quic.md",
    row_prefix: "Q",
    test_prefix: "q_",
    rows: 49,
    crates: &["crates/quic", "crates/rustls"],
    least: 100,
};

/// A test as a table names it: the file's path from the workspace root, and the function.
type Test = (String, String);

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Table {
    /// The tests of each row, in the order of the table.
    fn read(&self) -> Vec<(u32, Vec<Test>)> {
        let text = fs::read_to_string(workspace().join(self.document)).unwrap();
        let rows = text.lines().filter_map(|line| {
            let line = line.strip_prefix("| ")?.strip_prefix(self.row_prefix)?;
            let (row, rest) = line.strip_prefix('-')?.split_once(" | ")?;
            // Everything in backquotes that looks like `path::function`.
            let named = rest.split('`').skip(1).step_by(2);
            let tests = named
                .filter_map(|name| name.split_once("::"))
                .map(|(path, function)| (path.into(), function.into()));
            Some((row.parse().unwrap(), tests.collect()))
        });
        rows.collect()
    }

    /// The row that a function is named after.
    fn row_of(&self, function: &str) -> Option<u32> {
        function.strip_prefix(self.test_prefix)?.split_once('_')?.0.parse().ok()
    }

    fn has_a_test_in_every_row(&self) {
        let table = self.read();
        let rows: Vec<_> = table.iter().map(|(row, _)| *row).collect();
        assert_eq!(rows, (1..=self.rows).collect::<Vec<_>>());
        for (row, tests) in table {
            assert!(!tests.is_empty(), "{}-{row} has no test", self.row_prefix);
        }
    }

    fn names_tests_that_exist(&self) {
        for (row, tests) in self.read() {
            let row = format!("{}-{row}", self.row_prefix);
            for (path, function) in tests {
                let text = fs::read_to_string(workspace().join(&path))
                    .unwrap_or_else(|error| panic!("{row}, {path}: {error}"));
                let exists = functions(&text).any(|name| name == function);
                assert!(exists, "{row}: {path} has no test {function}");
            }
        }
    }

    fn has_every_test_named_after_its_rows(&self) {
        let table = self.read().into_iter();
        let named: BTreeMap<u32, BTreeSet<Test>> =
            table.map(|(row, tests)| (row, tests.into_iter().collect())).collect();
        let mut files = Vec::new();
        for folder in self.crates {
            let inside = ["src", "tests"].map(|inside| format!("{folder}/{inside}"));
            for folder in inside.iter().filter(|folder| workspace().join(folder).is_dir()) {
                rust_files(&workspace(), folder, &mut files);
            }
        }
        let mut seen = 0;
        for path in files {
            let text = fs::read_to_string(workspace().join(&path)).unwrap();
            for (row, function) in functions(&text).filter_map(|name| Some((self.row_of(name)?, name))) {
                let test = (path.clone(), function.to_owned());
                let stands = named.get(&row).is_some_and(|tests| tests.contains(&test));
                assert!(stands, "{}-{row} lacks {path}::{function}", self.row_prefix);
                seen += 1;
            }
        }
        assert!(seen >= self.least, "{seen} tests are named after rows");
    }
}

/// The names of the functions in a source file, in Rust or, where other programs judge, in Python.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("async ").unwrap_or(line)
    });
    lines
        .filter_map(|line| {
            line.strip_prefix("fn ").or_else(|| line.strip_prefix("def "))?.split_once(['(', '<'])
        })
        .map(|(name, _)| name)
}

/// The Rust files under `folder`, as paths from `root`.
fn rust_files(root: &Path, folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            rust_files(root, &path, found);
        } else if path.ends_with(".rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_row_is_there_once_and_has_a_test() {
    TCP_AO.has_a_test_in_every_row();
    QUIC.has_a_test_in_every_row();
}

#[test]
fn every_test_named_exists() {
    TCP_AO.names_tests_that_exist();
    QUIC.names_tests_that_exist();
}

#[test]
fn every_test_named_after_a_row_stands_in_it() {
    TCP_AO.has_every_test_named_after_its_rows();
    QUIC.has_every_test_named_after_its_rows();
}
