//! Tells the program its commit and target, for `wireseal --version`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=WIRESEAL_COMMIT");
    let commit = env::var("WIRESEAL_COMMIT").ok().or_else(published).or_else(checked_out).unwrap_or_default();
    println!("cargo:rustc-env=WIRESEAL_COMMIT={commit}");
    println!("cargo:rustc-env=WIRESEAL_TARGET={}", env::var("TARGET").unwrap_or_default());
}

/// The commit that a published package was made from, as cargo writes it.
fn published() -> Option<String> {
    let file = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (commit, _) = file.split_once("\"sha1\": \"")?.1.split_once('"')?;
    Some(named(commit, file.contains("\"dirty\": true")))
}

/// The commit of the repository around, if this file is one of its own, and whether something that is built differs from it.
fn checked_out() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let built = built();
    // Each is there: cargo would run this again in every build for one that is not. `logs/HEAD` gets a line with every commit.
    let of_git = ["HEAD", "logs/HEAD"].into_iter().filter_map(|name| git(&["rev-parse", "--git-path", name]));
    for path in of_git.chain(built.iter().cloned()).filter(|path| Path::new(path).exists()) {
        println!("cargo:rerun-if-changed={path}");
    }
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(built.iter().map(String::as_str));
    Some(named(&git(&["rev-parse", "HEAD"])?, !git(&status)?.is_empty()))
}

/// What of the repository is built into the program, tests aside.
fn built() -> Vec<String> {
    let crates = fs::read_dir("..").into_iter().flatten().flatten().map(|folder| folder.path());
    let parts = crates.flat_map(|folder| ["src", "data", "Cargo.toml"].map(|part| folder.join(part)));
    let parts = parts.filter(|path| path.exists()).map(|path| path.display().to_string());
    parts.chain(["../../Cargo.toml", "../../Cargo.lock"].map(str::to_owned)).collect()
}

fn named(commit: &str, is_changed: bool) -> String {
    let short = commit.get(..12).unwrap_or(commit);
    format!("{short}{}", if is_changed { ", changed" } else { "" })
}

/// What git prints; `None` if it is not installed or refuses.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}
