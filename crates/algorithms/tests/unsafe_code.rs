//! The compiler is told to refuse `unsafe` wherever it has no business, and nobody can untell it unnoticed; see
//! `ARCHITECTURE.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use toml::Table;

/// The folders and files that may have `unsafe` in them. Whatever else is in a package with such a file does without.
const WITH_UNSAFE: &[&str] = &[
    "crates/kernels",
    "crates/linux/src/sys.rs",
    // Calls of the C libraries that the benches compare with.
    "benches/peers",
    // The name of `main`, which C's start code wants, is an unsafe attribute.
    "examples/no-std/src/main.rs",
];

fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap()
}

/// All files under `folder` that `is_wanted` wants by their names, but for what builds leave and what is hidden.
fn files(folder: &Path, is_wanted: fn(&str) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&entry.path(), is_wanted, found);
            }
        } else if is_wanted(&name) {
            found.push(entry.path());
        }
    }
}

/// Each file by its path from the root of the repository, with what is in it.
fn read(is_wanted: fn(&str) -> bool) -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(&root(), is_wanted, &mut found);
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

fn sources() -> Vec<(String, String)> {
    read(|name| name.ends_with(".rs"))
}

fn manifests() -> Vec<(String, String)> {
    read(|name| name == "Cargo.toml")
}

/// Whether `path` is `of` or something in it.
fn is_part(path: &str, of: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || of.is_empty() || rest.starts_with('/'))
}

/// Whether `unsafe`, or the name of the lint against it, is in the code itself: in comments, documentation and strings it is
/// but a word.
fn has_unsafe(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "unsafe" || word == "unsafe_code",
        TokenTree::Group(group) => has_unsafe(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// The names of those of `sources` with `unsafe`.
fn with_unsafe(sources: &[(String, String)]) -> Vec<&str> {
    let has = |source: &str, name: &str| {
        has_unsafe(source.parse().unwrap_or_else(|error| panic!("{name} is no Rust: {error}")))
    };
    sources.iter().filter(|(name, source)| has(source, name)).map(|(name, _)| name.as_str()).collect()
}

/// Those of `sources` with `unsafe` that `allowed` does not name.
fn out_of_place<'a>(sources: &'a [(String, String)], allowed: &[&str]) -> Vec<&'a str> {
    let mut found = with_unsafe(sources);
    found.retain(|name| !allowed.iter().any(|place| is_part(name, place)));
    found
}

/// What a package's or a workspace's `lints` say of unsafe code.
fn level(lints: &toml::Value) -> Option<&str> {
    let level = lints.get("rust")?.get("unsafe_code")?;
    level.as_str().or_else(|| level.get("level")?.as_str())
}

/// The packages of `manifests` that do not refuse `unsafe` as `allowed` has it, with what they say of it: all forbid it but for
/// those that `allowed` names, and those of which it names a file deny it.
fn too_lax(manifests: &[(String, String)], allowed: &[&str]) -> Vec<String> {
    let parse = |(path, manifest): &(String, String)| {
        let table: Table = manifest.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        (path.strip_suffix("Cargo.toml").unwrap().trim_end_matches('/').to_owned(), table)
    };
    let tables: Vec<_> = manifests.iter().map(parse).collect();
    let of_workspace = |folder: &str| {
        let mut workspaces: Vec<_> = tables
            .iter()
            .filter(|(at, table)| is_part(folder, at) && table.contains_key("workspace"))
            .collect();
        workspaces.sort_by_key(|(at, _)| at.len());
        level(workspaces.last()?.1.get("workspace")?.get("lints")?)
    };
    let packages: Vec<_> = tables.iter().filter(|(_, table)| table.contains_key("package")).collect();
    let package_of = |place: &str| {
        let around =
            packages.iter().map(|(folder, _)| folder.as_str()).filter(|folder| is_part(place, folder));
        around.max_by_key(|folder| folder.len())
    };
    let mut wrong = Vec::new();
    for (folder, table) in &packages {
        if allowed.iter().any(|place| is_part(folder, place)) {
            continue;
        }
        let has_exception = allowed.iter().any(|place| package_of(place) == Some(folder));
        let wanted = if has_exception { "deny" } else { "forbid" };
        let lints = table.get("lints");
        let inherits = lints.and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true);
        let found = if inherits { of_workspace(folder) } else { lints.and_then(level) };
        let found = found.unwrap_or("nothing");
        if found != wanted {
            wrong.push(format!("{folder}: {found} instead of {wanted}"));
        }
    }
    wrong
}

fn named<const N: usize>(files: [(&str, &str); N]) -> Vec<(String, String)> {
    files.map(|(name, content)| (name.to_owned(), content.to_owned())).into()
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    assert_eq!(out_of_place(&sources(), WITH_UNSAFE), Vec::<&str>::new());
}

#[test]
fn every_package_refuses_it_elsewhere() {
    assert_eq!(too_lax(&manifests(), WITH_UNSAFE), Vec::<String>::new());
}

#[test]
fn every_place_that_may_have_it_has_it() {
    let sources = sources();
    let found = with_unsafe(&sources);
    for place in WITH_UNSAFE {
        assert!(found.iter().any(|name| is_part(name, place)), "{place} needs no exception");
    }
}

#[test]
fn without_its_exceptions_the_repository_is_refused() {
    let sources = sources();
    let places: BTreeSet<_> =
        out_of_place(&sources, &["crates/kernels", "benches/peers"]).into_iter().collect();
    assert_eq!(places, BTreeSet::from(["crates/linux/src/sys.rs", "examples/no-std/src/main.rs"]));
    let lax = too_lax(&manifests(), &["benches/peers", "examples/no-std/src/main.rs"]);
    let lax: BTreeSet<_> = lax.iter().map(String::as_str).collect();
    assert_eq!(
        lax,
        ["crates/kernels: nothing instead of forbid", "crates/linux: deny instead of forbid"].into()
    );
}

#[test]
fn unsafe_code_is_told_from_words() {
    let sources = named([
        ("block.rs", "fn f(p: *const u8) -> u8 { unsafe { *p } }"),
        ("function.rs", "unsafe fn f() {}"),
        ("trait.rs", "mod a { unsafe impl Send for super::A {} }"),
        ("attribute.rs", "#[unsafe(no_mangle)] fn f() {}"),
        ("macro.rs", "macro_rules! m { () => { unsafe { f() } } }"),
        ("lint.rs", "#![allow(unsafe_code)]"),
        ("quote.rs", "const QUOTE: char = '\"'; unsafe fn f() {} const NEXT: char = '\"';"),
        ("comments.rs", "//! unsafe\n/* unsafe /* { */ unsafe */ /// unsafe { }\nfn f() {} // unsafe"),
        (
            "strings.rs",
            r##"const A: [&str; 3] = ["unsafe", "\" unsafe {", r#"" unsafe"#]; const B: &[u8] = b"unsafe";"##,
        ),
        ("words.rs", "fn is_unsafe<'unsafety>(not_unsafe: &'unsafety str) -> &'unsafety str { not_unsafe }"),
    ]);
    let found = ["block.rs", "function.rs", "trait.rs", "attribute.rs", "macro.rs", "lint.rs", "quote.rs"];
    assert_eq!(with_unsafe(&sources), found);
    assert_eq!(out_of_place(&sources, &found[1..]), ["block.rs"]);
    assert_eq!(
        out_of_place(&named([("crates/macro.rs", "unsafe fn f() {}")]), &["crates/mac"]),
        ["crates/macro.rs"]
    );
}

#[test]
fn a_package_that_forbids_nothing_is_noticed() {
    let manifests = named([
        ("Cargo.toml", "[workspace]\n[workspace.lints.rust]\nunsafe_code = 'forbid'"),
        ("a/Cargo.toml", "[package]\n[lints]\nworkspace = true"),
        ("b/Cargo.toml", "[package]\n[lints.rust]\nunsafe_code = { level = 'forbid' }"),
        ("c/Cargo.toml", "[package]\n[lints.rust]\nunsafe_code = 'deny'"),
        ("d/Cargo.toml", "[package]"),
        ("e/Cargo.toml", "[package]\n[lints.rust]\nunsafe_code = 'warn'"),
        ("f/Cargo.toml", "[workspace.lints.rust]\nunsafe_code = 'allow'"),
        ("f/g/Cargo.toml", "[package]\n[lints]\nworkspace = true"),
        ("h/Cargo.toml", "[package]"),
        ("a/h/Cargo.toml", "[package]"),
    ]);
    let wrong = ["d: nothing instead of forbid", "e: warn instead of deny", "f/g: allow instead of forbid"];
    assert_eq!(too_lax(&manifests, &["c/src/sys.rs", "e/src/sys.rs", "h", "a/h"]), wrong);
    assert_eq!(too_lax(&manifests, &["d", "e", "f", "h", "a/h"]), ["c: deny instead of forbid"]);
}
