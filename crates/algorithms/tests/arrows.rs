//! Arrows between the workspace's crates run one way; see `ARCHITECTURE.md`.

use cargo_metadata::{Metadata, MetadataCommand};

/// Each room with the rooms it may build on. What is not here may not point anywhere, so a new crate has to be added.
const ROOMS: &[(&str, &[&str])] = &[
    ("wireseal-algorithms", &[]),
    ("wireseal-kernels", &["wireseal-algorithms"]),
    ("wireseal-mac", &["wireseal-algorithms", "wireseal-kernels"]),
    ("wireseal-tcp-ao", &["wireseal-algorithms", "wireseal-mac"]),
    ("wireseal-quic", &["wireseal-algorithms", "wireseal-kernels"]),
    ("wireseal-linux", &["wireseal-algorithms", "wireseal-mac", "wireseal-tcp-ao"]),
    ("wireseal-smoltcp", &["wireseal-algorithms", "wireseal-tcp-ao"]),
    ("wireseal-rustls", &["wireseal-algorithms", "wireseal-quic"]),
    ("wireseal", PROTOCOLS_AND_PRIMITIVES),
    ("wireseal-interop-counted", &[]),
    ("wireseal-interop-speaker", &["wireseal-tcp-ao", "wireseal-smoltcp"]),
    ("router-peer", EXAMPLE),
    ("wireseal-benches", EVERYTHING),
];

const EXAMPLE: &[&str] = &[
    "wireseal-algorithms",
    "wireseal-tcp-ao",
    "wireseal-quic",
    "wireseal-linux",
    "wireseal-smoltcp",
    "wireseal-rustls",
    "wireseal-interop-counted",
    "wireseal-interop-speaker",
];

/// The program runs the primitives' vectors on the machine, and says which of the processor's paths they take.
const PROTOCOLS_AND_PRIMITIVES: &[&str] = EVERYTHING;

const EVERYTHING: &[&str] = &[
    "wireseal-algorithms",
    "wireseal-kernels",
    "wireseal-mac",
    "wireseal-tcp-ao",
    "wireseal-quic",
    "wireseal-linux",
    "wireseal-smoltcp",
    "wireseal-rustls",
];

/// The arrows between members that no row of `rooms` allows.
fn wrong_arrows(metadata: &Metadata, rooms: &[(&str, &[&str])]) -> Vec<String> {
    let members: Vec<_> = metadata.workspace_packages();
    let is_member = |name: &str| members.iter().any(|package| package.name.as_str() == name);
    let mut wrong = Vec::new();
    for package in &members {
        let name = package.name.as_str();
        let Some((_, allowed)) = rooms.iter().find(|(room, _)| *room == name) else {
            wrong.push(format!("{name} is no room of the house"));
            continue;
        };
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            // A crate's tests may turn its own features on.
            if is_member(to) && to != name && !allowed.contains(&to) {
                wrong.push(format!("{name} -> {to}"));
            }
        }
    }
    wrong
}

fn metadata() -> Metadata {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().unwrap()
}

#[test]
fn no_arrow_runs_the_wrong_way() {
    assert_eq!(wrong_arrows(&metadata(), ROOMS), Vec::<String>::new());
}

#[test]
fn a_wrong_arrow_is_noticed() {
    let mut rooms = ROOMS.to_vec();
    let tcp_ao = rooms.iter_mut().find(|(room, _)| *room == "wireseal-tcp-ao").unwrap();
    tcp_ao.1 = &["wireseal-algorithms"];
    assert_eq!(wrong_arrows(&metadata(), &rooms), ["wireseal-tcp-ao -> wireseal-mac"]);
    rooms.retain(|(room, _)| *room != "wireseal-mac");
    assert!(wrong_arrows(&metadata(), &rooms).contains(&"wireseal-mac is no room of the house".to_owned()));
}

#[test]
fn the_table_itself_has_no_circle() {
    for (index, (room, allowed)) in ROOMS.iter().enumerate() {
        for to in *allowed {
            let position = ROOMS.iter().position(|(name, _)| name == to);
            assert!(position.is_some_and(|position| position < index), "{room} -> {to} points back");
        }
    }
}
