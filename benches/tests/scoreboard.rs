//! The scoreboard runs, compares outputs, and prints the tables that are asked for.

use std::process::{Command, Output};

use serde_json::Value;

fn scoreboard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scoreboard")).args(arguments).output().expect("it starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = scoreboard(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn tables(document: &Value) -> impl Iterator<Item = (&str, &Vec<Value>)> {
    let tables = document["tables"].as_array().expect("tables");
    tables
        .iter()
        .map(|table| (table["name"].as_str().expect("a name"), table["rows"].as_array().expect("rows")))
}

#[test]
fn everything_runs_once_and_agrees() {
    let document = json(&["--quick", "--json"]);
    let found: Vec<_> = tables(&document).map(|(name, _)| name).collect();
    assert_eq!(found, ["rows", "aead", "sweep", "cycles", "verify", "manager", "sizes"]);
    for (name, rows) in tables(&document) {
        assert!(!rows.is_empty(), "{name} has no rows");
    }
    let mut tables = tables(&document);
    let [(_, goals), (_, aeads)] = [(); 2].map(|()| tables.next().expect("a table"));
    // Three AEADs, seven lengths, two directions.
    assert_eq!((goals.len(), aeads.len()), (24, 42));
    for row in goals.iter().chain(aeads) {
        assert!(row["wireseal"].as_f64().is_some_and(|time| time > 0.0), "{row}");
        assert!(row["best peer"].is_string() && row["ratio"].is_number() && row["goal"].is_number(), "{row}");
        let judged = ["mark", "limit", "near"].map(|column| &row[column]);
        assert!(judged.iter().all(|cell| cell.is_null()), "one run tells nothing: {row}");
    }
    assert!(document["machine"]["cpu"].is_string() && document["machine"]["paths"].is_array());
}

#[test]
fn one_row_is_one_row() {
    for name in ["sign-cmac", "aead-open-256-1048576"] {
        let document = json(&["--quick", "--json", "--row", name]);
        let found: Vec<_> = tables(&document).collect();
        assert_eq!((found.len(), found[0].1.len()), (1, 1));
        assert_eq!(found[0].1[0]["name"], name);
    }
}

#[test]
fn a_name_that_is_none_is_refused() {
    for arguments in [["--row", "sign-crc"], ["--table", "T1"], ["--milliseconds", "0"]] {
        let output = scoreboard(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_page_has_the_newest_results() {
    let output = scoreboard(&["--readme"]);
    let table = String::from_utf8(output.stdout).expect("text");
    let readme = include_str!("../README.md");
    assert!(table.starts_with("| what | ") && table.lines().count() > 10, "{table}");
    assert!(readme.contains(&table), "benches/README.md needs this table:\n{table}");
}

#[test]
fn attacks_cost_no_session() {
    let mut attacks = Command::new(env!("CARGO_BIN_EXE_attacks"));
    let output = attacks.args(["--connections", "50", "--packets", "100"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("50 connections: 0 lost"), "{text}");
    assert!(text.contains("| unsigned reset | segment is unsigned |"), "{text}");
}
