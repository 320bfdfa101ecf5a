//! Values of the wrong kind, and members that are missing, in the data formats: an error with the member's name and place.

use std::path::Path;

use serde_json::{Value, json};
use wireseal_keys::{Format, KeyFile, Position, read};

use crate::routers::{chains, neighbors, remarks};

/// Where every member of a value is, as a JSON pointer.
fn members(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members_of) => {
            for (name, value) in members_of {
                let path = format!("{path}/{}", name.replace('/', "~1"));
                members(value, &path, found);
                found.push(path);
            }
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, value)| members(value, &format!("{path}/{at}"), found));
        }
        _ => {}
    }
}

fn read_json(value: &Value, format: Format) -> Result<KeyFile, String> {
    let text = serde_json::to_string_pretty(value).unwrap();
    read(Path::new("keys"), &text, Some(format)).map_err(|error| {
        let error = error.to_string();
        assert!(!error.contains("hunter2") && error.lines().count() == 1, "{error}");
        error
    })
}

/// Gives each member a value of another kind, and then takes it out. `kinds` are the members that must have their kind, `required` those that
/// must be there, as they end.
fn check(good: &Value, format: Format, kinds: &[&str], required: &[&str]) {
    read_json(good, format).unwrap();
    let mut paths = Vec::new();
    members(good, "", &mut paths);
    let is_of = |list: &[&str], path: &str| {
        let path: String = path.chars().filter(|c| !c.is_ascii_digit()).collect();
        list.iter().any(|end| path.replace("//", "/").ends_with(&format!("/{end}")))
    };
    for path in &paths {
        let name = path.rsplit('/').next().unwrap();
        let mut wrong = good.clone();
        *wrong.pointer_mut(path).unwrap() = json!({"hunter2": 1});
        match read_json(&wrong, format) {
            // Such a table lacks what is needed there.
            Err(error) if !is_of(kinds, path) && ["config", "keys", "keychains"].contains(&name) => {
                let expected = [": is missing", "no key for TCP-AO", "is not in the file"];
                assert!(expected.iter().any(|expected| error.contains(expected)), "{path}: {error}");
            }
            Err(error) => assert!(error.contains(&format!("{name}: expected ")), "{path}: {error}"),
            Ok(_) => assert!(!is_of(kinds, path), "{path} may be anything"),
        }
        let mut less = good.clone();
        let (table, _) = path.rsplit_once('/').unwrap();
        less.pointer_mut(table).unwrap().as_object_mut().unwrap().remove(name).unwrap();
        match read_json(&less, format) {
            Err(error) if error.contains("has no key") || error.contains("is not in the file") => {}
            Err(error) => assert!(error.contains(&format!("{name}: is missing")), "{path}: {error}"),
            Ok(_) => assert!(!is_of(required, path), "{path} may be missing"),
        }
    }
    for end in kinds.iter().chain(required) {
        assert!(paths.iter().any(|path| is_of(&[end], path)), "{end} is nowhere");
    }
}

fn gobgp() -> Value {
    let key = |id: u8, secret: &str| json!({"config": {"key-id": id, "receive-id": id, "crypto-algorithm": "aes_128_cmac_96", "secret-key": secret, "exclude-tcp-options": false}});
    let attached = json!({"config": {"keychain": "core", "send-id": 1}});
    json!({
        "global": {"config": {"as": 65001}},
        "keychains": [{"config": {"name": "core"}, "keys": [key(1, "Vd8zqkT1p0wYhU3m"), key(2, "k2Lr9sXw4Qe7Zb1N")]}],
        "peer-groups": [{"config": {"peer-group-name": "leaves"}, "tcp-ao": attached}, {"config": {"peer-group-name": "plain"}}],
        "neighbors": [
            {"config": {"neighbor-address": "192.0.2.1", "peer-group": "leaves", "vrf": "red"}, "transport": {"config": {"bind-interface": "eth0"}}},
            {"config": {"neighbor-interface": "eth1", "auth-password": ""}, "tcp-ao": attached},
            {"config": {"neighbor-address": "192.0.2.3", "peer-group": "plain"}},
        ],
        "dynamic-neighbors": [{"config": {"prefix": "198.51.100.0/24", "peer-group": "leaves"}}, {"config": {"prefix": "198.51.100.0/24"}}],
    })
}

#[test]
fn gobgp_members_of_the_wrong_type_are_refused() {
    let kinds = [
        "keychains",
        "config/name",
        "keys",
        "key-id",
        "receive-id",
        "crypto-algorithm",
        "secret-key",
        "exclude-tcp-options",
        "peer-groups",
        "neighbors",
        "dynamic-neighbors",
        "peer-groups/tcp-ao/config/keychain",
        "neighbors/tcp-ao/config/send-id",
        "tcp-ao/config/keychain",
    ];
    let required = ["config/name", "key-id", "receive-id", "crypto-algorithm", "secret-key"];
    check(&gobgp(), Format::GoBgp, &kinds, &required);
    // Those of neighbors without TCP-AO are not looked at, and these are.
    for path in [
        "/peer-groups/0/config/peer-group-name",
        "/neighbors/0/config/neighbor-address",
        "/neighbors/0/config/vrf",
        "/neighbors/0/config/peer-group",
        "/neighbors/0/transport/config/bind-interface",
        "/neighbors/1/config/neighbor-interface",
        "/neighbors/1/config/auth-password",
        "/dynamic-neighbors/0/config/prefix",
        "/dynamic-neighbors/0/config/peer-group",
    ] {
        let mut wrong = gobgp();
        *wrong.pointer_mut(path).unwrap() = json!(["hunter2"]);
        let name = path.rsplit('/').next().unwrap();
        let error = read_json(&wrong, Format::GoBgp).unwrap_err();
        assert!(error.ends_with(&format!("{name}: expected a string, found a list")), "{path}: {error}");
    }
}

#[test]
fn neighbors_of_gobgp_without_a_keychain_are_left_alone() {
    let file = read_json(&gobgp(), Format::GoBgp).unwrap();
    assert_eq!(chains(&file), ["core: 1 2 @ 192.0.2.1%eth0 vrf red fe80::/10%eth1 198.51.100.0/24"]);
    assert_eq!(remarks(&file), [""; 0]);
    let with = |path: &str, value: Value| {
        let mut changed = gobgp();
        *changed.pointer_mut(path).unwrap() = value;
        read_json(&changed, Format::GoBgp).unwrap()
    };
    // A table without its config says nothing.
    let file = with("/peer-groups/0/tcp-ao", json!({}));
    assert_eq!(neighbors(&file.chains[0]), ["fe80::/10%eth1"]);
    let file = with("/dynamic-neighbors/0/config/prefix", json!("everyone"));
    assert_eq!(neighbors(&file.chains[0]), ["192.0.2.1%eth0 vrf red", "fe80::/10%eth1"]);
    assert!(matches!(&remarks(&file)[..], [one] if one.contains("not-understood")), "{:?}", remarks(&file));
    let file = with("/neighbors/1/config/auth-password", json!("hunter2"));
    assert!(
        matches!(&remarks(&file)[..], [one] if one.ends_with("GoBGP refuses a neighbor with both tcp-ao and auth-password"))
    );
    let file = with("/peer-groups/0/config", json!({}));
    assert_eq!(neighbors(&file.chains[0]), ["fe80::/10%eth1"], "a group without a name");
}

fn openconfig() -> Value {
    let lifetime = |both: bool| json!({"config": {"start-time": "1767225600000000000", "end-time": "1798761600000000000", "send-and-receive": both}});
    let key = json!({
        "key-id": "1",
        "config": {"key-id": "1", "secret-key": "Vd8zqkT1p0wYhU3m", "crypto-algorithm": "HMAC_SHA_1_96"},
        "send-lifetime": lifetime(false),
        "receive-lifetime": lifetime(false),
    });
    json!({"keychains": {"keychain": [{"name": "core", "config": {"name": "core", "tolerance": 30}, "keys": {"key": [key]}}]}})
}

#[test]
fn openconfig_members_of_the_wrong_type_are_refused() {
    let kinds = [
        "keychain",
        "tolerance",
        "keys/key",
        "key/key-id",
        "secret-key",
        "crypto-algorithm",
        "start-time",
        "end-time",
        "send-lifetime/config/send-and-receive",
    ];
    check(&openconfig(), Format::OpenConfig, &kinds, &["key/config", "secret-key", "crypto-algorithm"]);
    // The list's key may be in the table or in its config, and must be in one of them.
    for (table, name) in [("/keychains/keychain/0", "name"), ("/keychains/keychain/0/keys/key/0", "key-id")] {
        let mut less = openconfig();
        for table in [table.to_owned(), format!("{table}/config")] {
            assert!(read_json(&less, Format::OpenConfig).is_ok());
            less.pointer_mut(&table).unwrap().as_object_mut().unwrap().remove(name).unwrap();
        }
        let error = read_json(&less, Format::OpenConfig).unwrap_err();
        assert!(error.ends_with(&format!("{name}: is missing")), "{error}");
    }
    let mut wrong = openconfig();
    wrong["keychains"]["keychain"][0]["name"] = json!([]);
    assert!(
        read_json(&wrong, Format::OpenConfig).unwrap_err().ends_with("name: expected a string, found a list")
    );
}

#[test]
fn openconfigs_lifetimes_and_chains_may_be_empty() {
    let mut file = openconfig();
    file["keychains"]["keychain"][0]["keys"]["key"][0]["send-lifetime"] = json!({});
    let key = read_json(&file, Format::OpenConfig).unwrap().chains.swap_remove(0).keys.swap_remove(0);
    assert_eq!((key.send.from(), key.accept.until()), (None, Some("2027-01-01T00:00:00Z".parse().unwrap())));
    // What is said about a chain without keys is said about the file.
    file["keychains"]["keychain"].as_array_mut().unwrap().push(json!({"name": "none", "colour": "red"}));
    let file = read_json(&file, Format::OpenConfig).unwrap();
    assert_eq!(chains(&file), ["core: 1 @ "]);
    assert!(matches!(&file.remarks[..], [remark] if remark.kind == "not-understood"), "{:?}", file.remarks);
    // An end of the last second that 64 bits of nanoseconds can express.
    let mut late = openconfig();
    late["keychains"]["keychain"][0]["keys"]["key"][0]["send-lifetime"]["config"]["end-time"] =
        json!(u64::MAX.to_string());
    let file = read_json(&late, Format::OpenConfig).unwrap();
    assert_eq!(file.chains[0].keys[0].send.until(), Some("2554-07-21T23:34:33Z".parse().unwrap()));
}

/// What the parsers of JSON and YAML refuse only on a second look.
#[test]
fn unreadable_data_is_refused_with_its_position() {
    let error = |text: &str| read(Path::new("keys"), text, Some(Format::GoBgp)).unwrap_err();
    let deep =
        |depth: usize| format!("{{\"keychains\": [], \"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
    for (text, line, column, expected) in [
        ("{\"a\":\n \"\\ud800\"}".to_owned(), 2, 2, "unexpected end of hex escape"),
        ("{\"a\": {\n\"\\ud800\": 1}}".to_owned(), 1, 7, "unexpected end of hex escape"),
        (deep(65), 1, 88, "lists or tables are nested too deeply"),
        ("%".to_owned(), 1, 2, ""),
        ("a: *b\n".to_owned(), 1, 4, ""),
    ] {
        let error = error(&text);
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.position(), Some(Position { line, column }), "{text}: {error}");
    }
    assert!(error(&deep(64)).to_string().contains("has no key for TCP-AO"));
    // Aliases without anchors of their own count too.
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat((1 << 20) - 16), ["*a"; 4].join(", "));
    assert!(error(&long).to_string().contains("anchors and aliases stand for too much"));
    let short = long.replace(", *a]", "]");
    assert!(error(&short).to_string().contains("has no key for TCP-AO"));
    // So does what an anchor is for, before any alias.
    let one = |length: usize| format!("a: &a {}\n", "x".repeat(length));
    assert!(error(&one(4 << 20)).to_string().contains("anchors and aliases stand for too much"));
    assert!(error(&one((4 << 20) - 1)).to_string().contains("has no key for TCP-AO"));
    // Dates and numbers with a point are no obstacle in TOML.
    let text = "[global.config]\na = 1.5\nb = 2026-01-01T00:00:00Z\nc = [1, 2.5]\n[[keychains]]\nconfig = 2026-01-01\n";
    assert!(error(text).to_string().ends_with("line 6, column 10, name: is missing"), "{}", error(text));
}
