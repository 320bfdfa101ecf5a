//! The session that the README shows is what the program prints.

use std::fs;

use crate::support::files::{Files, crates};
use crate::support::program::{Run, program};

#[test]
fn the_session_in_the_readme_is_real() {
    let workspace = crates().join("..");
    let readme = fs::read_to_string(workspace.join("README.md")).unwrap();
    let command = readme.lines().find_map(|line| line.strip_prefix("target/release/wireseal ")).unwrap();
    let files = Files::new();
    let page = files.path("session.html");
    let arguments = command.split_ascii_whitespace().map(|argument| match argument {
        "session.html" => page.to_str().unwrap(),
        other => other,
    });
    let run = Run::from(program().current_dir(&workspace).args(arguments).output().unwrap());
    assert_eq!(run.code, 1);
    let shown = format!("```text\n{}```\n", run.out);
    assert!(readme.contains(&shown), "the README shows other output than:\n{}", run.out);
    assert!(fs::read_to_string(page).unwrap().contains("core/100"));
}
