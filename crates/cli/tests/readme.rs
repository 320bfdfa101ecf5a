//! The session that the README shows is what the program prints.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_session_in_the_readme_is_real() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(workspace.join("README.md")).unwrap();
    let order = readme.lines().find_map(|line| line.strip_prefix("target/release/wireseal ")).unwrap();
    let page = tempfile::tempdir().unwrap();
    let page = page.path().join("session.html");
    let arguments = order.split_ascii_whitespace().map(|argument| match argument {
        "session.html" => page.to_str().unwrap(),
        other => other,
    });
    let output = Command::new(env!("CARGO_BIN_EXE_wireseal"))
        .current_dir(&workspace)
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        readme.contains(&format!("```text\n{printed}```\n")),
        "the README has another output than:\n{printed}"
    );
    assert!(fs::read_to_string(page).unwrap().contains("core/100"));
}
